//! What each attribute's flags must be, and what follows when it is malformed (RFC 7606 section 7).

use super::Treatment;
use super::code::{self, OPTIONAL, TRANSITIVE};
use crate::wire::PeerType;

/// The rule for a known attribute.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rule {
    /// Optional and Transitive bits.
    pub(super) flags: u8,
    /// What other flags lead to.
    pub(super) bad_flags: Treatment,
    /// What an impossible value leads to.
    pub(super) bad_value: Treatment,
}

/// `None` for attributes without rules of their own.
pub(super) const fn rule(code: u8, peer: PeerType) -> Option<Rule> {
    use Treatment::{Discard, Withdraw};
    let only_internal = match peer {
        PeerType::Internal => Withdraw,
        PeerType::External => Discard,
    };
    let (flags, bad_flags, bad_value) = match code {
        code::ORIGIN | code::AS_PATH | code::NEXT_HOP => (TRANSITIVE, Withdraw, Withdraw),
        code::LOCAL_PREF => (TRANSITIVE, Withdraw, only_internal),
        code::ATOMIC_AGGREGATE => (TRANSITIVE, Withdraw, Discard),
        code::MULTI_EXIT_DISC | code::MP_REACH_NLRI | code::MP_UNREACH_NLRI => (OPTIONAL, Withdraw, Withdraw),
        code::ORIGINATOR_ID | code::CLUSTER_LIST => (OPTIONAL, Withdraw, only_internal),
        code::AGGREGATOR => (OPTIONAL | TRANSITIVE, Withdraw, Discard),
        // RFC 6793 section 6 and RFC 7311 section 3.2 ask for no more, whatever is wrong with them.
        code::AS4_PATH | code::AS4_AGGREGATOR => (OPTIONAL | TRANSITIVE, Discard, Discard),
        code::AIGP => (OPTIONAL, Discard, Discard),
        code::COMMUNITIES
        | code::EXTENDED_COMMUNITIES
        | code::IPV6_EXTENDED_COMMUNITIES
        | code::LARGE_COMMUNITIES
        | code::ONLY_TO_CUSTOMER => (OPTIONAL | TRANSITIVE, Withdraw, Withdraw),
        _ => return None,
    };
    Some(Rule { flags, bad_flags, bad_value })
}

/// Attributes that an external peer has no business to send: discarded, whatever they say.
pub(super) const fn is_internal_only(code: u8) -> bool {
    matches!(code, code::LOCAL_PREF | code::ORIGINATOR_ID | code::CLUSTER_LIST)
}
