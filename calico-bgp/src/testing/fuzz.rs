//! Bodies of fuzz targets. Each must return for any input; a panic is a finding.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use calico_core::bgp::{DesiredBgp, DesiredPeer, LocalSpeaker, PeerKind};
use calico_core::net::AsNumber;

use crate::wire::update::{encode_announcements, encode_withdrawals};
use crate::wire::{Capability, Framer, Message, MessageKind, Open, PeerType, Update};
use crate::{Speaker, SpeakerConfig, Timestamp};

/// The `bgp` fuzz target: the first byte picks one of the bodies below, which gets the rest.
pub fn fuzz_message(data: &[u8]) {
    match data.split_first() {
        Some((0, rest)) => fuzz_framer(rest),
        Some((1, rest)) => fuzz_open(rest),
        Some((2, rest)) => fuzz_update(rest),
        Some((_, rest)) => fuzz_speaker(rest),
        None => {}
    }
}

/// A byte stream into the framer, split wherever the first byte says; every message into the decoder.
pub fn fuzz_framer(data: &[u8]) {
    let Some((step, stream)) = data.split_first() else {
        return;
    };
    let mut framer = Framer::default();
    for chunk in stream.chunks(usize::from(*step).max(1)) {
        framer.push(chunk);
        loop {
            match framer.next_message() {
                Ok(Some((kind, body))) => {
                    let _ = Message::decode(kind, &body, PeerType::External).map_err(|error| error.notification());
                }
                Ok(None) => break,
                Err(error) => {
                    let _ = error.notification().encode();
                    return;
                }
            }
        }
    }
}

/// An OPEN body. What decodes must decode to the same again after encoding.
pub fn fuzz_open(data: &[u8]) {
    if let Ok(open) = Open::decode(data) {
        let encoded = open.encode();
        let again = encoded.get(19..).map(Open::decode);
        assert_eq!(again, Some(Ok(open)), "an OPEN changed on its way through the encoder");
    }
}

/// An UPDATE body, for both kinds of session. What decodes must say the same again after encoding.
pub fn fuzz_update(data: &[u8]) {
    for peer in [PeerType::Internal, PeerType::External] {
        let Ok(update) = Update::decode(data, peer) else {
            continue;
        };
        for reach in &update.reach {
            let IpAddr::V4(next_hop) = reach.next_hop else {
                continue;
            };
            let mut prefixes = Vec::new();
            for message in encode_announcements(&update.attributes, next_hop, &reach.prefixes) {
                let again = message.get(19..).and_then(|body| Update::decode(body, peer).ok());
                assert!(again.is_some(), "our own UPDATE does not decode: {message:02x?}");
                let again = again.unwrap_or_default();
                assert_eq!(again.attributes, update.attributes, "attributes changed on their way through the encoder");
                prefixes.extend(again.reach.into_iter().flat_map(|reach| reach.prefixes));
            }
            assert!(prefixes.is_empty() || prefixes == reach.prefixes, "prefixes changed");
        }
        let _ = encode_withdrawals(&update.withdrawn);
    }
}

/// Operations on a whole speaker: each byte picks one, and the bytes after it feed it.
pub fn fuzz_speaker(data: &[u8]) {
    let mut speaker = Speaker::new(SpeakerConfig::default());
    let mut now = Timestamp::ZERO;
    speaker.set_desired(now, &fuzzed_desired());
    let mut connection = None;
    let mut rest = data;
    while let Some((operation, tail)) = rest.split_first() {
        let take = usize::from(*operation >> 3).min(tail.len());
        let (argument, tail) = tail.split_at(take);
        rest = tail;
        match operation & 7 {
            0 => connection = speaker.handle_accepted(now, FUZZED_PEER.into()).or(connection),
            1 => now = now.after(Duration::from_secs(argument.iter().map(|byte| u64::from(*byte)).sum())),
            2 => speaker.handle_timeout(now),
            3 => connection.into_iter().for_each(|id| speaker.handle_closed(now, id)),
            4 => connection.into_iter().for_each(|id| speaker.handle_bytes(now, id, &whole_open())),
            5 => connection.into_iter().for_each(|id| speaker.handle_bytes(now, id, &crate::wire::keepalive())),
            6 => connection.into_iter().for_each(|id| speaker.handle_bytes(now, id, &framed_update(argument))),
            _ => connection.into_iter().for_each(|id| speaker.handle_bytes(now, id, argument)),
        }
        while let Some(action) = speaker.poll_action() {
            if let crate::Action::Connect { connection: id, .. } = action {
                speaker.handle_connected(now, id);
            }
        }
        while let Some(id) = speaker.poll_ready() {
            let mut bytes = Vec::new();
            speaker.poll_transmit(id, &mut bytes);
        }
        while speaker.poll_event().is_some() {}
    }
}

const FUZZED_PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn fuzzed_desired() -> DesiredBgp {
    let own = Ipv4Addr::new(10, 0, 0, 1);
    DesiredBgp {
        local: Some(LocalSpeaker::new("fuzz", AsNumber::DEFAULT, own)),
        peers: vec![DesiredPeer::new(FUZZED_PEER.into(), AsNumber::DEFAULT, PeerKind::Mesh, "peer")],
        ..DesiredBgp::default()
    }
}

fn whole_open() -> Vec<u8> {
    let capabilities = vec![Capability::FourOctetAs(AsNumber::DEFAULT)];
    Open { as_number: AsNumber::DEFAULT, hold_time: 90, identifier: FUZZED_PEER, capabilities }.encode()
}

fn framed_update(body: &[u8]) -> Vec<u8> {
    crate::wire::header::frame(MessageKind::Update, body)
}
