//! What two OPENs agree on.

use core::net::Ipv4Addr;

use calico_core::net::{AsNumber, Family};

use crate::wire::capability::{AddPath, AddPathMode, ExtendedNextHop};
use crate::wire::{AddressFamily, Capability, DecodeContext, EncodeContext, Families, Open, PeerType, agree};

const V4: AddressFamily = AddressFamily::IPV4_UNICAST;
const V6: AddressFamily = AddressFamily::IPV6_UNICAST;

fn open(capabilities: Vec<Capability>) -> Open {
    Open { as_number: AsNumber::new(64512), hold_time: 90, identifier: Ipv4Addr::LOCALHOST, capabilities }
}

fn everything() -> Vec<Capability> {
    let both = [V4, V6].map(|family| AddPath { family, mode: AddPathMode::Both });
    vec![
        Capability::Multiprotocol(V4),
        Capability::Multiprotocol(V6),
        Capability::ExtendedNextHop(vec![ExtendedNextHop { family: V4, next_hop_afi: 2 }]),
        Capability::ExtendedMessage,
        Capability::FourOctetAs(AsNumber::new(64512)),
        Capability::AddPath(both.into()),
    ]
}

#[test]
fn what_both_want_holds() {
    let (decode, encode) = agree(&open(everything()), &open(everything()), PeerType::External);
    let expected = DecodeContext {
        peer: PeerType::External,
        four_octet_as: true,
        families: Families::BOTH,
        add_path: Families::BOTH,
        extended_next_hop: Families::IPV4,
        extended_message: true,
    };
    assert_eq!(decode, expected);
    assert_eq!(encode, EncodeContext { four_octet_as: true, add_path: Families::BOTH, extended_message: true });
}

/// Whoever leaves one out, the rest holds.
#[test]
fn what_one_lacks_does_not() {
    let nothing = DecodeContext { four_octet_as: false, ..DecodeContext::new(PeerType::Internal) };
    let bare = EncodeContext { four_octet_as: false, ..EncodeContext::default() };
    for missing in 0..everything().len() {
        let mut fewer = everything();
        let lacking = fewer.remove(missing);
        for (local, remote) in [(fewer.clone(), everything()), (everything(), fewer.clone())] {
            let (decode, encode) = agree(&open(local), &open(remote), PeerType::Internal);
            let lost = match lacking {
                Capability::Multiprotocol(family) => !decode.families.contains(family.known().unwrap()),
                Capability::ExtendedNextHop(_) => decode.extended_next_hop.is_empty(),
                Capability::ExtendedMessage => !decode.extended_message && !encode.extended_message,
                Capability::FourOctetAs(_) => !decode.four_octet_as && !encode.four_octet_as,
                _ => decode.add_path.is_empty() && encode.add_path.is_empty(),
            };
            assert!(lost, "{lacking:?}: {decode:?} {encode:?}");
        }
    }
    assert_eq!(agree(&open(everything()), &open(Vec::new()), PeerType::Internal), (nothing, bare));
    assert_eq!(agree(&open(Vec::new()), &open(Vec::new()), PeerType::Internal), (nothing, bare));
}

#[test]
fn several_paths_go_from_those_who_send_to_those_who_receive() {
    use AddPathMode::{Both, Receive, Send};
    // ours, theirs; whether we receive, whether we send
    let rows = [
        (Send, Receive, false, true),
        (Receive, Send, true, false),
        (Both, Both, true, true),
        (Send, Send, false, false),
        (Receive, Receive, false, false),
        (Both, Receive, false, true),
        (Send, Both, false, true),
    ];
    for (ours, theirs, receives, sends) in rows {
        let with =
            |mode| open(vec![Capability::Multiprotocol(V6), Capability::AddPath(vec![AddPath { family: V6, mode }])]);
        let (decode, encode) = agree(&with(ours), &with(theirs), PeerType::Internal);
        assert_eq!(decode.add_path.contains(Family::V6), receives, "{ours:?} {theirs:?}");
        assert_eq!(encode.add_path.contains(Family::V6), sends, "{ours:?} {theirs:?}");
        assert!(!decode.add_path.contains(Family::V4) && !encode.add_path.contains(Family::V4));
    }
}

#[test]
fn sets_of_families() {
    assert_eq!(Families::NONE.union(Families::IPV6), Families::IPV6);
    assert_eq!(Families::BOTH.intersection(Families::IPV4), Families::IPV4);
    assert_eq!(Families::BOTH.iter().collect::<Vec<_>>(), [Family::V4, Family::V6]);
    assert_eq!([Family::V6, Family::V4].into_iter().collect::<Families>(), Families::BOTH);
    assert!(Families::NONE.is_empty() && Families::NONE.iter().next().is_none());
}
