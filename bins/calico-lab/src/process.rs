//! Processes, identified by id and start time together: an id alone may by now belong to somebody else.

use std::fs;
use std::io;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use calico_dataplane::netns::Netns;

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    /// Its id.
    pub(crate) pid: i32,
    /// When it started, in the kernel's ticks since boot.
    pub(crate) started: u64,
}

impl ProcessId {
    /// The process that has this id now.
    pub(crate) fn of(pid: i32) -> Option<Self> {
        read_stat(pid).map(|stat| Self { pid, started: stat.started })
    }

    /// Whether it still runs. A zombie, which only waits for its parent to look, does not.
    pub(crate) fn is_alive(self) -> bool {
        read_stat(self.pid).is_some_and(|stat| stat.started == self.started && !stat.is_dead)
    }

    fn signal(self, signal: Signal) {
        if self.is_alive() {
            // It may end between the look and the signal; then there is nothing left to do.
            let _ = kill(Pid::from_raw(self.pid), signal);
        }
    }
}

/// Kills a process without asking, and waits until it is gone.
pub(crate) fn kill_now(process: ProcessId) -> bool {
    insist(&[process], Signal::SIGKILL, LONGEST_DEATH)
}

/// Ends processes: asks first, and after `patience` insists. Returns those that outlived even that.
pub(crate) fn end(processes: &[ProcessId], patience: Duration) -> Vec<ProcessId> {
    if !insist(processes, Signal::SIGTERM, patience) {
        insist(processes, Signal::SIGKILL, LONGEST_DEATH);
    }
    processes.iter().copied().filter(|process| process.is_alive()).collect()
}

/// Sends a signal to all and waits until they are gone; `false` when they are not, in time.
fn insist(processes: &[ProcessId], signal: Signal, patience: Duration) -> bool {
    processes.iter().for_each(|process| process.signal(signal));
    let deadline = Instant::now() + patience;
    loop {
        if !processes.iter().any(|process| process.is_alive()) {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(POLL);
    }
}

/// Processes that live in one of these namespaces: whatever was started there and escaped its record.
pub(crate) fn inhabitants(namespaces: &[Netns]) -> io::Result<Vec<ProcessId>> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let identities: Vec<_> = namespaces.iter().filter_map(|netns| netns.identity().ok()).collect();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let Some(pid) = entry?.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // Processes come and go while we look.
        let Ok(netns) = Netns::open(format!("/proc/{pid}/ns/net").as_ref()) else { continue };
        if pid != own && netns.identity().is_ok_and(|identity| identities.contains(&identity)) {
            found.extend(ProcessId::of(pid));
        }
    }
    Ok(found)
}

struct Stat {
    started: u64,
    is_dead: bool,
}

fn read_stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// `proc(5)`: the command, in parentheses, may itself hold spaces and parentheses; the state is the third field, the number of
/// threads the 20th, the start time the 22nd.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    let threads: u32 = fields.nth(16)?.parse().ok()?;
    // A process that was killed is a zombie when its first thread has ended; while others have not, its sockets are still open.
    let is_dead = is_zombie && threads <= 1;
    Some(Stat { started: fields.nth(1)?.parse().ok()?, is_dead })
}

/// How long the kernel of a busy machine may take to remove a process that was killed.
const LONGEST_DEATH: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn commands_with_parentheses_do_not_shift_fields() {
        let text = "7 (a) b) c) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.started, stat.is_dead), (4242, false));
        assert!(parse_stat("7 (x) Z").is_none());
        assert!(!parse_stat(&text.replace("S 1 7", "Z 1 7").replace(" 20 0 1 0 ", " 20 0 2 0 ")).unwrap().is_dead);
        assert!(parse_stat(&text.replace("S 1 7", "Z 1 7")).unwrap().is_dead);
    }

    #[test]
    fn a_reused_id_is_not_the_same_process() {
        let own = ProcessId::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.is_alive());
        assert!(!ProcessId { started: own.started + 1, ..own }.is_alive());
        // Were the start time not looked at, this would end the test itself.
        assert_eq!(end(&[ProcessId { started: own.started + 1, ..own }], Duration::ZERO), []);
    }

    #[test]
    fn ends_a_process_that_does_not_listen() {
        let script = "trap '' TERM; while :; do sleep 1; done";
        let mut child = Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap();
        let id = ProcessId::of(i32::try_from(child.id()).unwrap()).unwrap();
        assert_eq!(end(&[id], Duration::from_millis(50)), []);
        child.wait().unwrap();
        assert!(!id.is_alive());
    }
}
