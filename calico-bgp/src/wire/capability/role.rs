//! Roles of the two ends of an external session (RFC 9234).

/// What the speaker is to its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the values of RFC 9234 section 4.1")]
pub enum Role {
    /// It sells transit to the peer.
    Provider,
    /// A route server of an exchange.
    RouteServer,
    /// A client of such a server.
    RouteServerClient,
    /// It buys transit from the peer.
    Customer,
    /// Both exchange the routes of their customers.
    Peer,
}

impl Role {
    /// Whether two ends fit together (RFC 9234 section 4.2).
    pub const fn fits(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Provider, Self::Customer)
                | (Self::Customer, Self::Provider)
                | (Self::RouteServer, Self::RouteServerClient)
                | (Self::RouteServerClient, Self::RouteServer)
                | (Self::Peer, Self::Peer)
        )
    }

    pub(super) const fn decode(value: &[u8]) -> Option<Self> {
        Some(match value {
            [0] => Self::Provider,
            [1] => Self::RouteServer,
            [2] => Self::RouteServerClient,
            [3] => Self::Customer,
            [4] => Self::Peer,
            _ => return None,
        })
    }

    pub(super) const fn code(self) -> u8 {
        match self {
            Self::Provider => 0,
            Self::RouteServer => 1,
            Self::RouteServerClient => 2,
            Self::Customer => 3,
            Self::Peer => 4,
        }
    }
}
