//! A speaker and one peer that calls it, for tests of what sessions are made of.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::collections::BTreeMap;

use calico_core::bgp::{DesiredBgp, DesiredPeer, Families, LocalSpeaker, PeerId, PeerKind};
use calico_core::net::{AsNumber, Cidr};

use crate::backend::{BgpEvent, PeerStatus, SessionState};
use crate::wire::update::{encode_announcements, encode_end_of_rib};
use crate::wire::{
    self, AddressFamily, Capability, DecodeContext, EncodeContext, Framer, GracefulRestart, GracefulRestartFamily,
    Message, Notification, Open, PathAttributes, PeerType,
};
use crate::{Action, ConnectionId, Speaker, SpeakerConfig, Timestamp};

pub(super) const US: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
pub(super) const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
pub(super) const IDENTIFIER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
pub(super) const THEIR_AS: AsNumber = AsNumber::new(64513);

pub(super) struct Bench {
    pub(super) speaker: Speaker,
    pub(super) desired: DesiredBgp,
    pub(super) now: Timestamp,
    pub(super) from: PeerId,
    connection: Option<ConnectionId>,
    framer: Framer,
    /// What the speaker said on the present connection.
    pub(super) sent: Vec<Message>,
    /// Actions other than to end it.
    pub(super) actions: Vec<Action>,
    pub(super) closed: bool,
    pub(super) routes: BTreeMap<Cidr, IpAddr>,
    pub(super) settled: bool,
}

impl Bench {
    /// One external peer, changed as said, that has not called yet.
    pub(super) fn new(change: impl FnOnce(&mut DesiredPeer)) -> Self {
        Self::with(SpeakerConfig::default(), change)
    }

    pub(super) fn with(config: SpeakerConfig, change: impl FnOnce(&mut DesiredPeer)) -> Self {
        let mut peer = DesiredPeer::new(PEER, THEIR_AS, PeerKind::Global, "tor");
        change(&mut peer);
        let ipv6 = Some(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
        let local = LocalSpeaker { ipv6, ..LocalSpeaker::new("us", AsNumber::DEFAULT, US) };
        let from = peer.id;
        let desired = DesiredBgp { local: Some(local), peers: vec![peer], ..DesiredBgp::default() };
        let mut bench = Self {
            speaker: Speaker::new(config),
            desired,
            now: Timestamp::ZERO,
            from,
            connection: None,
            framer: Framer::default(),
            sent: Vec::new(),
            actions: Vec::new(),
            closed: false,
            routes: BTreeMap::new(),
            settled: false,
        };
        bench.apply();
        bench
    }

    pub(super) fn apply(&mut self) {
        self.speaker.set_desired(self.now, &self.desired);
        self.pump();
    }

    /// The peer calls.
    pub(super) fn call(&mut self) -> bool {
        self.connection = self.speaker.handle_accepted(self.now, self.from);
        self.framer = Framer::default();
        self.sent.clear();
        self.closed = self.connection.is_none();
        self.pump();
        !self.closed
    }

    /// The peer calls, and the session comes up.
    pub(super) fn establish(&mut self, open: &Open) {
        assert!(self.call(), "refused");
        self.send(&open.encode());
        self.send(&wire::keepalive());
        assert_eq!(self.state(), SessionState::Established, "{:?}", self.status());
    }

    pub(super) fn send(&mut self, bytes: &[u8]) {
        if let Some(connection) = self.connection {
            self.speaker.handle_bytes(self.now, connection, bytes);
            self.pump();
        }
    }

    pub(super) fn lose(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.speaker.handle_closed(self.now, connection);
            self.pump();
        }
    }

    pub(super) fn wait(&mut self, seconds: u64) {
        let end = self.now.after(core::time::Duration::from_secs(seconds));
        while let Some(next) = self.speaker.poll_timeout().filter(|next| *next <= end) {
            self.now = next;
            self.speaker.handle_timeout(next);
            self.pump();
        }
        self.now = end;
    }

    pub(super) fn pump(&mut self) {
        let mut bytes = Vec::new();
        while let Some(id) = self.speaker.poll_ready() {
            loop {
                let mut more = Vec::new();
                self.speaker.poll_transmit(id, &mut more);
                if more.is_empty() {
                    break;
                }
                if Some(id) == self.connection {
                    bytes.append(&mut more);
                }
            }
        }
        while let Some(action) = self.speaker.poll_action() {
            match action {
                Action::Disconnect { connection, last } if Some(connection) == self.connection => {
                    bytes.extend(last);
                    self.closed = true;
                }
                Action::Disconnect { .. } => {}
                other => self.actions.push(other),
            }
        }
        self.framer.push(&bytes);
        while let Some((kind, body)) = self.framer.next_message().unwrap() {
            let context = DecodeContext { families: Families::BOTH, ..DecodeContext::new(PeerType::External) };
            self.sent.push(Message::decode(kind, body, context).unwrap());
        }
        while let Some(event) = self.speaker.poll_event() {
            match event {
                BgpEvent::RouteSet(route) => drop(self.routes.insert(route.prefix, route.next_hop)),
                BgpEvent::RouteRemoved(prefix) => drop(self.routes.remove(&prefix)),
                BgpEvent::Settled => self.settled = true,
                _ => {}
            }
        }
    }

    pub(super) fn status(&self) -> Option<PeerStatus> {
        self.speaker.status().peers.into_iter().find(|status| status.peer.id == self.from)
    }

    pub(super) fn state(&self) -> SessionState {
        self.status().map_or(SessionState::Idle, |status| status.state)
    }

    /// The NOTIFICATION that was the last word, if there was one.
    pub(super) fn last_word(&self) -> Option<&Notification> {
        match self.sent.last() {
            Some(Message::Notification(notification)) => Some(notification),
            _ => None,
        }
    }

    pub(super) fn refusal(&self) -> Option<(u8, u8)> {
        self.last_word().map(|notification| (notification.code, notification.subcode))
    }

    pub(super) fn announce(&mut self, prefix: &str) {
        let attributes = PathAttributes { as_path: [THEIR_AS].into_iter().collect(), ..PathAttributes::default() };
        let mut messages = Vec::new();
        let routes = [cidr(prefix).into()];
        encode_announcements(&attributes, IDENTIFIER.into(), &routes, EncodeContext::default(), &mut messages).unwrap();
        self.send(&messages);
    }

    pub(super) fn finish(&mut self, family: calico_core::net::Family) {
        let mut message = Vec::new();
        encode_end_of_rib(family, &mut message);
        self.send(&message);
    }

    pub(super) fn has(&self, prefix: &str) -> bool {
        self.routes.contains_key(&cidr(prefix))
    }

    pub(super) fn peer(&mut self) -> &mut DesiredPeer {
        &mut self.desired.peers[0]
    }
}

/// The peer's OPEN: the families, AS numbers of four octets, and what else is said.
pub(super) fn open(families: Families, more: &[Capability]) -> Open {
    let mut capabilities: Vec<Capability> =
        families.iter().map(|family| Capability::Multiprotocol(AddressFamily::unicast(family))).collect();
    capabilities.push(Capability::FourOctetAs(THEIR_AS));
    capabilities.extend_from_slice(more);
    Open { as_number: THEIR_AS, hold_time: 90, identifier: IDENTIFIER, capabilities }
}

pub(super) fn graceful(families: Families, restart_time: u16, notification: bool) -> Capability {
    let row = |family| GracefulRestartFamily { family: AddressFamily::unicast(family), forwarding_preserved: true };
    Capability::GracefulRestart(GracefulRestart {
        restarting: false,
        notification,
        restart_time,
        families: families.iter().map(row).collect(),
    })
}

pub(super) fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}
