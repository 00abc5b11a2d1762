use core::time::Duration;

use proptest::prelude::*;

use super::simulation::{A, B, parameters, peer};
use crate::bfd::packet::State;
use crate::bfd::session::next_state;
use crate::bfd::{Bfd, BfdConfig, BfdEvent, BfdPeer, ControlPacket, Received};
use crate::time::Timestamp;

#[derive(Debug, Clone)]
enum Operation {
    /// Any bytes.
    Noise(Vec<u8>),
    /// A proper packet, to our discriminator or to none.
    Packet {
        first: u8,
        flags: u8,
        multiplier: u8,
        known: bool,
        words: [u32; 4],
    },
    Wait(u64),
    Configure {
        transmit: u64,
        receive: u64,
        multiplier: u8,
        multihop: bool,
        admin_down: bool,
    },
    Remove,
    Drain,
}

fn operation() -> impl Strategy<Value = Operation> {
    let word = || prop_oneof![Just(0), Just(1), 1000..2_000_000_u32, any::<u32>()];
    let words = (word(), word(), word(), word()).prop_map(|(a, b, c, d)| [a, b, c, d]);
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..60).prop_map(Operation::Noise),
        8 => (any::<u8>(), any::<u8>(), any::<u8>(), any::<bool>(), words).prop_map(
            |(first, flags, multiplier, known, words)| Operation::Packet { first, flags, multiplier, known, words }
        ),
        4 => (0..3_000_u64).prop_map(Operation::Wait),
        1 => (0..3000_u64, 0..3000_u64, any::<u8>(), any::<bool>(), any::<bool>()).prop_map(
            |(transmit, receive, multiplier, multihop, admin_down)| Operation::Configure {
                transmit, receive, multiplier, multihop, admin_down,
            }
        ),
        1 => Just(Operation::Remove),
        4 => Just(Operation::Drain),
    ]
}

fn configured(now: Timestamp, bfd: &mut Bfd, operation: &Operation) {
    if let Operation::Configure { transmit, receive, multiplier, multihop, admin_down } = operation {
        let mut wanted = parameters(*transmit, *receive, *multiplier);
        wanted.multihop = *multihop;
        bfd.set_peers(now, &[BfdPeer { admin_down: *admin_down, ..peer(A, B, wanted) }]);
    }
}

/// A payload whose version and length are right, so that it comes far.
fn payload(bfd: &Bfd, operation: &Operation) -> Option<Vec<u8>> {
    match operation {
        Operation::Noise(bytes) => Some(bytes.clone()),
        Operation::Packet { first, flags, multiplier, known, words } => {
            let ours = bfd.status().sessions.first().map_or(0, |session| session.discriminator.get());
            let mut bytes = vec![0x20 | (first & 0x1f), flags & 0xfa, *multiplier, 24];
            let [mine, tail @ ..] = words;
            bytes.extend([*mine, if *known { ours } else { 0 }].into_iter().chain(*tail).flat_map(u32::to_be_bytes));
            Some(bytes)
        }
        _ => None,
    }
}

proptest! {
    /// Whatever comes: output is bounded, events alternate, packets sent are proper, and nothing that is due stays due.
    #[test]
    fn any_sequence_is_survived(operations in prop::collection::vec(operation(), 0..120), seed in any::<u64>()) {
        let mut bfd = Bfd::new(BfdConfig { seed, control_plane_independent: false });
        let mut now = Timestamp::ZERO;
        bfd.set_peers(now, &[peer(A, B, parameters(50, 50, 3))]);
        let (mut up, mut over_several) = (false, false);
        for operation in &operations {
            configured(now, &mut bfd, operation);
            if let Operation::Configure { multihop, .. } = operation {
                over_several = *multihop;
            }
            if let Some(payload) = payload(&bfd, operation) {
                let received =
                    Received { from: B, to: A, interface: None, hop_limit: 255, multihop: over_several, payload: &payload };
                bfd.handle_packet(now, &received);
            }
            match operation {
                Operation::Wait(time) => {
                    now = now.after(Duration::from_millis(*time));
                    bfd.handle_timeout(now);
                    prop_assert!(bfd.poll_timeout().is_none_or(|deadline| deadline > now));
                }
                Operation::Remove => {
                    bfd.set_peers(now, &[]);
                    up = false;
                    prop_assert!(bfd.poll_event().is_none(), "nobody wants to hear of a removed session");
                }
                Operation::Drain => {
                    let sent: Vec<_> = core::iter::from_fn(|| bfd.poll_transmit()).collect();
                    prop_assert!(sent.len() <= 1, "{sent:?}");
                    for transmit in sent {
                        let packet = ControlPacket::decode(&transmit.payload);
                        prop_assert!(packet.is_ok(), "{packet:?}");
                        let packet = packet.unwrap();
                        let least = if packet.state == State::Up { 10_000 } else { 1_000_000 };
                        prop_assert!(packet.desired_min_tx >= least, "too fast");
                    }
                    while let Some(event) = bfd.poll_event() {
                        prop_assert_eq!(matches!(event, BfdEvent::Up { .. }), !up, "{:?}", event);
                        up = !up;
                    }
                    prop_assert_eq!(bfd.is_up(peer(A, B, parameters(1, 1, 1)).id).unwrap_or(false), up);
                }
                _ => {}
            }
            prop_assert!(bfd.status().sessions.len() <= 1);
        }
    }

    #[test]
    fn what_decodes_is_encoded_alike(mut bytes in prop::collection::vec(any::<u8>(), 24..40), sane in any::<bool>()) {
        if sane {
            bytes[0] = 0x20 | (bytes[0] & 0x1f);
            bytes[1] &= 0xda;
            bytes[3] = 24;
        }
        match ControlPacket::decode(&bytes) {
            Ok(packet) => {
                let encoded = packet.encode();
                prop_assert_eq!(ControlPacket::decode(&encoded), Ok(packet));
                prop_assert_eq!(&encoded[4..], &bytes[4..24]);
                prop_assert_eq!(&encoded[..3], &bytes[..3]);
            }
            Err(error) => prop_assert!(!sane || bytes[2] == 0 || bytes[4..8] == [0; 4] || bytes[8..12] == [0; 4], "{error}"),
        }
    }
}

/// RFC 5880 section 6.2, as a table: rows are the state here, columns what is received.
#[test]
fn states_follow_rfc_5880() {
    use State::{AdminDown, Down, Init, Up};
    let columns = [AdminDown, Down, Init, Up];
    let table = [
        (AdminDown, [AdminDown, AdminDown, AdminDown, AdminDown]),
        (Down, [Down, Init, Up, Down]),
        (Init, [Down, Init, Up, Up]),
        (Up, [Down, Down, Up, Up]),
    ];
    for (local, row) in table {
        for (remote, expected) in columns.into_iter().zip(row) {
            assert_eq!(next_state(local, remote), expected, "{local} receives {remote}");
        }
    }
}
