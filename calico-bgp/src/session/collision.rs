//! Connection collision detection (RFC 4271 section 6.8, RFC 6286 section 2.3, RFC 4724 section 4.2).
//!
//! Both ends must come to the same answer although they see the two OPENs in different order, or both connections are lost. So
//! the comparison of identifiers decides even when one of the two has just become Established at one end and not yet at the
//! other (the option CollisionDetectEstablishedState of RFC 4271), for as long as that can happen. A connection that has been
//! Established for longer is replaced only by a peer that says it has restarted, and otherwise keeps its place.

use core::net::Ipv4Addr;
use core::time::Duration;

use calico_core::net::AsNumber;

use super::state::ConnectionState;

/// For how long after Established an OPEN on another connection can stem from the same round of opening. Far above a round
/// trip, far below the time that an agent needs to restart and its peer to have learned of it.
pub(crate) const CROSSING: Duration = Duration::from_secs(2);

/// Identity that a collision compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Identity {
    pub(crate) identifier: Ipv4Addr,
    /// Decides when identifiers are equal, which only external peers may have.
    pub(crate) as_number: AsNumber,
}

/// Which end opened a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// We.
    Outgoing,
    /// The peer.
    Incoming,
}

/// The other connection, at the time when a valid OPEN arrives on the new one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Standing {
    pub(crate) direction: Direction,
    pub(crate) state: ConnectionState,
    /// Time since it became Established.
    pub(crate) established_for: Option<Duration>,
}

/// What to do with the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Too early to tell: no OPEN has arrived on the other one.
    Undecided,
    /// Close the other one.
    KeepNew,
    /// Close the one on which the OPEN arrived.
    KeepOther,
}

/// Decides between the connection on which an OPEN has just arrived and another one to the same peer.
pub(crate) fn decide(local: Identity, remote: Identity, new: Direction, restarted: bool, other: Standing) -> Verdict {
    let by_identity = || {
        let survivor = if local > remote { Direction::Outgoing } else { Direction::Incoming };
        if new == survivor && other.direction != survivor { Verdict::KeepNew } else { Verdict::KeepOther }
    };
    match other.state {
        ConnectionState::Connect | ConnectionState::OpenSent => Verdict::Undecided,
        // Two by the same end: the peer gave the older one up.
        _ if new == other.direction && other.state == ConnectionState::OpenConfirm => Verdict::KeepNew,
        ConnectionState::OpenConfirm => by_identity(),
        ConnectionState::Established => {
            let crossing = other.established_for.is_some_and(|time| time < CROSSING) && new != other.direction;
            match (crossing, restarted) {
                (true, _) => by_identity(),
                (false, true) => Verdict::KeepNew,
                (false, false) => Verdict::KeepOther,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn identity(last: u8) -> Identity {
        Identity { identifier: Ipv4Addr::new(10, 0, 0, last), as_number: AsNumber::new(64512) }
    }

    const fn flip(direction: Direction) -> Direction {
        match direction {
            Direction::Outgoing => Direction::Incoming,
            Direction::Incoming => Direction::Outgoing,
        }
    }

    /// In whatever order the two ends see the OPENs, and whoever is further: they keep the same connection.
    #[test]
    fn both_ends_agree() {
        let states = [ConnectionState::OpenConfirm, ConnectionState::Established];
        let young = Some(Duration::from_millis(5));
        for (a, b) in [(identity(1), identity(2)), (identity(2), identity(1))] {
            for new_at_a in [Direction::Outgoing, Direction::Incoming] {
                for new_at_b in [Direction::Outgoing, Direction::Incoming] {
                    for (state_at_a, state_at_b) in states.into_iter().flat_map(|a| states.map(|b| (a, b))) {
                        let at_a = Standing { direction: flip(new_at_a), state: state_at_a, established_for: young };
                        let at_b = Standing { direction: flip(new_at_b), state: state_at_b, established_for: young };
                        let kept = |verdict, new| if verdict == Verdict::KeepNew { new } else { flip(new) };
                        let kept_at_a = kept(decide(a, b, new_at_a, false, at_a), new_at_a);
                        let kept_at_b = kept(decide(b, a, new_at_b, false, at_b), new_at_b);
                        assert_eq!(kept_at_a, flip(kept_at_b), "{a:?} {new_at_a:?} {state_at_a:?} {state_at_b:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_higher_identifier_wins_and_the_larger_as_among_equals() {
        let other = |direction| Standing { direction, state: ConnectionState::OpenConfirm, established_for: None };
        let verdict = decide(identity(2), identity(1), Direction::Outgoing, false, other(Direction::Incoming));
        assert_eq!(verdict, Verdict::KeepNew);
        let larger = Identity { as_number: AsNumber::new(64513), ..identity(1) };
        let verdict = decide(identity(1), larger, Direction::Outgoing, false, other(Direction::Incoming));
        assert_eq!(verdict, Verdict::KeepOther);
    }

    #[test]
    fn an_old_session_yields_only_to_a_restart() {
        let old = Standing {
            direction: Direction::Outgoing,
            state: ConnectionState::Established,
            established_for: Some(Duration::from_secs(60)),
        };
        for (local, remote) in [(identity(1), identity(2)), (identity(2), identity(1))] {
            assert_eq!(decide(local, remote, Direction::Incoming, false, old), Verdict::KeepOther);
            assert_eq!(decide(local, remote, Direction::Incoming, true, old), Verdict::KeepNew);
        }
    }

    #[test]
    fn no_verdict_before_an_open() {
        for state in [ConnectionState::Connect, ConnectionState::OpenSent] {
            let other = Standing { direction: Direction::Outgoing, state, established_for: None };
            assert_eq!(decide(identity(1), identity(2), Direction::Incoming, false, other), Verdict::Undecided);
        }
    }
}
