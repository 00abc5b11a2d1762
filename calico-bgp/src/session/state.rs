//! The state of one connection, and what each message does to it (RFC 4271 section 8.2.2).
//!
//! Idle and Active are states of a peer that has no connection; see [`Peer`](super::peer::Peer).

use crate::wire::MessageKind;

/// State of one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ConnectionState {
    /// TCP is being set up.
    Connect,
    /// Our OPEN is out.
    OpenSent,
    /// Its OPEN was accepted, our KEEPALIVE is out.
    OpenConfirm,
    /// Routes are exchanged.
    Established,
}

impl ConnectionState {
    /// The state after a well-formed message. The error is the subcode of the NOTIFICATION for a message that has no place here
    /// (RFC 6608).
    pub(crate) const fn after(self, received: MessageKind) -> Result<Self, u8> {
        match (self, received) {
            (Self::OpenSent, MessageKind::Open) => Ok(Self::OpenConfirm),
            (Self::OpenConfirm | Self::Established, MessageKind::Keepalive) => Ok(Self::Established),
            (Self::Established, MessageKind::Update | MessageKind::RouteRefresh) => Ok(Self::Established),
            // A NOTIFICATION ends the connection in every state; that is no transition of the connection itself.
            (_, MessageKind::Notification) => Ok(self),
            (Self::Connect, _) => Err(0),
            (Self::OpenSent, _) => Err(1),
            (Self::OpenConfirm, _) => Err(2),
            (Self::Established, MessageKind::Open) => Err(3),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_way_of_rfc_4271_leads_to_established() {
        use ConnectionState as State;
        use MessageKind as Kind;
        let kinds = [Kind::Open, Kind::Update, Kind::Keepalive, Kind::RouteRefresh];
        let table = [
            (State::Connect, [Err(0), Err(0), Err(0), Err(0)]),
            (State::OpenSent, [Ok(State::OpenConfirm), Err(1), Err(1), Err(1)]),
            (State::OpenConfirm, [Err(2), Err(2), Ok(State::Established), Err(2)]),
            (State::Established, [Err(3), Ok(State::Established), Ok(State::Established), Ok(State::Established)]),
        ];
        for (state, row) in table {
            for (kind, expected) in kinds.into_iter().zip(row) {
                assert_eq!(state.after(kind), expected, "{state:?} and {kind:?}");
            }
            assert_eq!(state.after(Kind::Notification), Ok(state));
        }
    }
}
