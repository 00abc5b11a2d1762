//! Bodies of fuzz targets. Each must return for any input; a panic is a finding.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use calico_core::bgp::{Bfd, DesiredBgp, DesiredPeer, DynamicPeers, LocalSpeaker, Password, PeerKind, Secret};
use calico_core::net::{AsNumber, Cidr};

use crate::bfd::{BfdEvent, Loss};

use crate::bird::client;
use crate::wire::capability::{Fqdn, SoftwareVersion};
use crate::wire::update::{encode_announcements, encode_withdrawals};
use crate::wire::{
    Capability, DecodeContext, EncodeContext, Families, Framer, Message, MessageKind, Nlri, Open, PeerType, Reach,
    Update, WireError, agree,
};
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

/// The `bird` fuzz target: what a control socket says, in pieces as long as the first byte says, into every parser.
pub fn fuzz_bird(data: &[u8]) {
    let Some((step, stream)) = data.split_first() else {
        return;
    };
    let mut replies = client::Replies::default();
    for chunk in stream.chunks(usize::from(*step).max(1)) {
        replies.push(chunk);
        loop {
            match replies.next_reply() {
                Ok(Some(reply)) => {
                    let rows = reply.lines.len();
                    assert!(client::protocols(&reply).len() <= rows, "no more protocols than lines");
                    assert!(client::routes(&reply).len() <= rows, "no more routes than lines");
                    drop((client::status(&reply), client::configured(&reply), client::version_of_greeting(&reply)));
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
    }
}

/// A byte stream into the framer, split wherever the first byte says; every message into the decoder.
pub fn fuzz_framer(data: &[u8]) {
    let Some((step, stream)) = data.split_first() else {
        return;
    };
    for extended_message in [false, true] {
        let context = DecodeContext { extended_message, ..DecodeContext::new(PeerType::External) };
        let mut framer = Framer::default();
        framer.set_extended(extended_message);
        for chunk in stream.chunks(usize::from(*step).max(1)) {
            framer.push(chunk);
            if drain(&mut framer, context).is_err() {
                break;
            }
        }
    }
}

fn drain(framer: &mut Framer, context: DecodeContext) -> Result<(), WireError> {
    while let Some((kind, body)) = framer.next_message().inspect_err(|error| drop(error.notification().encode()))? {
        match Message::decode(kind, body, context) {
            Ok(Message::Notification(notification)) => drop(notification.to_string()),
            Ok(_) => {}
            Err(error) => drop(error.notification().encode()),
        }
    }
    Ok(())
}

/// An OPEN body. What decodes must decode to the same again after encoding, and agree with itself.
pub fn fuzz_open(data: &[u8]) {
    if let Ok(open) = Open::decode(data) {
        let _ = (open.role(), open.fqdn().map(Fqdn::host), open.software_version().map(SoftwareVersion::text));
        let (decode, encode) = agree(&open, &open, PeerType::External);
        assert_eq!(decode.four_octet_as, encode.four_octet_as);
        let encoded = open.encode();
        let again = encoded.get(19..).map(Open::decode);
        assert_eq!(again, Some(Ok(open)), "an OPEN changed on its way through the encoder");
    }
}

/// An UPDATE body, in every [context](codec_variants). What decodes must say the same again after encoding.
pub fn fuzz_update(data: &[u8]) {
    for (decode, encode) in codec_variants() {
        let Ok(update) = Update::decode(data, decode) else {
            continue;
        };
        for reach in &update.reach {
            assert_announces_again(&update, reach, decode, encode);
        }
        let mut withdrawals = Vec::new();
        encode_withdrawals(&update.withdrawn, encode, &mut withdrawals);
        let again = updates(&withdrawals, decode);
        let again: Vec<Nlri> = again.into_iter().flat_map(|update| update.withdrawn).collect();
        assert_eq!(again.len(), update.withdrawn.len(), "withdrawals changed");
    }
}

fn assert_announces_again(update: &Update, reach: &Reach, decode: DecodeContext, encode: EncodeContext) {
    let mut messages = Vec::new();
    if encode_announcements(&update.attributes, reach.next_hop, &reach.routes, encode, &mut messages).is_err() {
        return;
    }
    let mut routes = Vec::new();
    for again in updates(&messages, decode) {
        assert_eq!(again.attributes, update.attributes, "attributes changed on their way through the encoder");
        for again in again.reach {
            assert_eq!(again.next_hop, reach.next_hop, "the next hop changed");
            routes.extend(again.routes);
        }
    }
    assert_eq!(routes, reach.routes, "prefixes changed");
}

/// What our own messages say to a peer.
fn updates(stream: &[u8], decode: DecodeContext) -> Vec<Update> {
    let mut framer = Framer::default();
    framer.set_extended(decode.extended_message);
    framer.push(stream);
    let mut updates = Vec::new();
    while let Some((_, body)) = framer.next_message().unwrap_or_default() {
        let update = Update::decode(body, decode);
        assert!(update.is_ok(), "our own UPDATE does not decode: {update:?}: {body:02x?}");
        updates.extend(update);
    }
    assert_eq!(framer.pending(), 0, "our own UPDATEs end within a message");
    updates
}

/// Both kinds of session, with and without four-octet AS numbers, path identifiers, and IPv6 next hops for IPv4 prefixes: how to
/// read, and how the other end writes.
pub fn codec_variants() -> impl Iterator<Item = (DecodeContext, EncodeContext)> {
    (0..16_u8).map(|bits| {
        let families = |bit: u8| if bits & bit == 0 { Families::NONE } else { Families::BOTH };
        let (four_octet_as, add_path) = (bits & 1 == 0, families(2));
        let decode = DecodeContext {
            peer: if bits & 8 == 0 { PeerType::Internal } else { PeerType::External },
            four_octet_as,
            families: Families::BOTH,
            add_path,
            extended_next_hop: families(4),
            extended_message: false,
        };
        (decode, EncodeContext { four_octet_as, add_path, extended_message: false })
    })
}

/// Operations on a whole speaker: each byte picks one, and the bytes after it feed it.
pub fn fuzz_speaker(data: &[u8]) {
    let mut speaker = Speaker::new(SpeakerConfig::default());
    let mut now = Timestamp::ZERO;
    speaker.set_desired(now, &fuzzed_desired(0));
    let mut connection = None;
    let mut rest = data;
    while let Some((operation, tail)) = rest.split_first() {
        let take = usize::from(*operation >> 3).min(tail.len());
        let (argument, tail) = tail.split_at(take);
        rest = tail;
        match operation & 7 {
            0 => {
                let from = argument.first().map_or(FUZZED_PEER, |last| Ipv4Addr::new(10, 0, 0, *last));
                connection = speaker.handle_accepted(now, IpAddr::V4(from).into()).or(connection);
            }
            1 => now = now.after(Duration::from_secs(argument.iter().map(|byte| u64::from(*byte)).sum())),
            2 => match argument {
                [] => speaker.handle_timeout(now),
                [variant] => speaker.set_desired(now, &fuzzed_desired(*variant)),
                [up, ..] => speaker.handle_bfd(now, &fuzzed_bfd(up & 1 == 1)),
            },
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

/// Each bit of `variant` is something else that is wanted.
fn fuzzed_desired(variant: u8) -> DesiredBgp {
    let own = Ipv4Addr::new(10, 0, 0, 1);
    let wanted = |bit: u8| variant & (1 << bit) != 0;
    let mut peer = DesiredPeer::new(FUZZED_PEER.into(), AsNumber::DEFAULT, PeerKind::Mesh, "peer");
    if wanted(0) {
        peer.session.families = Families::BOTH;
    }
    peer.session.long_lived = wanted(1).then_some(60);
    peer.session.maximum_prefixes = wanted(2).then_some(1);
    peer.session.passive = wanted(3);
    if let (true, Ok(key)) = (wanted(4), Secret::new("key".into())) {
        peer.session.password = Password::Key(key);
    }
    let interval = Duration::from_secs(1);
    peer.session.bfd =
        wanted(5).then_some(Bfd { transmit: interval, receive: interval, multiplier: 3, multihop: false });
    let range = Cidr::new(own.into(), 24).filter(|_| wanted(6));
    DesiredBgp {
        local: Some(LocalSpeaker::new("fuzz", AsNumber::DEFAULT, own)),
        dynamic: range.map(|range| DynamicPeers { range, limit: 2, like: peer.clone() }).into_iter().collect(),
        peers: if wanted(7) { Vec::new() } else { vec![peer] },
        ..DesiredBgp::default()
    }
}

fn fuzzed_bfd(up: bool) -> BfdEvent {
    let peer = IpAddr::V4(FUZZED_PEER).into();
    if up {
        BfdEvent::Up { peer }
    } else {
        BfdEvent::Down { peer, loss: Loss::Expired, control_plane_independent: false }
    }
}

fn whole_open() -> Vec<u8> {
    let capabilities = vec![Capability::FourOctetAs(AsNumber::DEFAULT)];
    Open { as_number: AsNumber::DEFAULT, hold_time: 90, identifier: FUZZED_PEER, capabilities }.encode()
}

fn framed_update(body: &[u8]) -> Vec<u8> {
    crate::wire::header::frame(MessageKind::Update, body)
}
