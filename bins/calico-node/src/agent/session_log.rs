//! Which changes of BGP sessions are logged.
//!
//! Whoever can connect from a peer's address can make a session change as often as it likes. In come changes and the time; out goes
//! whether a change is told. Of one peer [`MOST`] are told within [`WINDOW`], and what was left out is counted and told after it, so the
//! log never ends with a state that is not the last.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Changes of one peer that are told within a window: a session that comes up passes through four states.
const MOST: u32 = 12;
/// How long a window is.
const WINDOW: Duration = Duration::from_secs(60);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct SessionLog {
    peers: BTreeMap<IpAddr, Window>,
}

#[derive(Debug)]
struct Window {
    ends: Duration,
    told: u32,
    left_out: u64,
}

impl SessionLog {
    /// Whether a change at `now` is told.
    pub(super) fn tells(&mut self, peer: IpAddr, now: Duration) -> bool {
        let window = self.peers.entry(peer).or_insert(Window { ends: now + WINDOW, told: 0, left_out: 0 });
        if window.told < MOST {
            window.told += 1;
            true
        } else {
            window.left_out += 1;
            false
        }
    }

    /// Closes the windows that have ended; whose changes were left out, and how many.
    pub(super) fn close(&mut self, now: Duration) -> Vec<(IpAddr, u64)> {
        let ended = self.peers.extract_if(.., |_, window| window.ends <= now);
        ended.map(|(peer, window)| (peer, window.left_out)).filter(|(_, left_out)| *left_out > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_in_part_and_counted() {
        let [flooding, quiet] = [1, 2].map(|last| IpAddr::from([10, 0, 0, last]));
        let mut log = SessionLog::default();
        let mut told = 0;
        for millis in 0..10_000 {
            told += u32::from(log.tells(flooding, Duration::from_millis(millis)));
        }
        assert_eq!(told, MOST);
        assert!(log.tells(quiet, Duration::from_secs(30)), "each peer for itself");
        assert_eq!(log.close(WINDOW - Duration::from_millis(1)), []);
        assert_eq!(log.close(WINDOW), [(flooding, 10_000 - u64::from(MOST))]);
        assert_eq!(log.close(WINDOW * 2), [], "nothing was left out of the quiet one");
        assert!(log.peers.is_empty());
        assert!(log.tells(flooding, WINDOW * 3));
    }
}
