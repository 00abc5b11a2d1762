//! Roles of the two ends of an external session (RFC 9234 section 4.1).

use calico_core::bgp::Role;

pub(super) const fn decode(value: &[u8]) -> Option<Role> {
    Some(match value {
        [0] => Role::Provider,
        [1] => Role::RouteServer,
        [2] => Role::RouteServerClient,
        [3] => Role::Customer,
        [4] => Role::Peer,
        _ => return None,
    })
}

pub(super) const fn encode(role: Role) -> u8 {
    match role {
        Role::Provider => 0,
        Role::RouteServer => 1,
        Role::RouteServerClient => 2,
        Role::Customer => 3,
        Role::Peer => 4,
    }
}
