//! Our messages as another codec reads them, and its messages as we read them.
//!
//! Each random message is written here, read there, compared by what it says, written there from what was read, and read here.
//! What the other codec cannot say is left out of the messages: multicast and broadcast prefixes, and extended communities of known
//! type and unknown subtype, which it changes.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use calico_core::net::{AsNumber, Cidr};
use netgauze_bgp_pkt::BgpMessage;
use netgauze_bgp_pkt::open::BgpOpenMessageParameter;
use netgauze_bgp_pkt::path_attribute::{AsPath, MpReach, MpUnreach, PathAttributeValue};
use netgauze_bgp_pkt::update::BgpUpdateMessage;
use netgauze_bgp_pkt::wire::deserializer::BgpParsingContext;
use netgauze_parse_utils::WritablePdu;
use netgauze_parse_utils::reader::SliceReader;
use netgauze_parse_utils::traits::ParseFromWithOneInput;
use proptest::prelude::*;

use super::properties::{attributes, next_hop, routes, sayable};
use crate::testing::codec_variants;
use crate::wire::Role;
use crate::wire::capability::{
    AddPath, AddPathMode, ExtendedNextHop, Fqdn, LongLivedGracefulRestart, LongLivedGracefulRestartFamily,
};
use crate::wire::update::{encode_announcements, encode_withdrawals};
use crate::wire::{
    AddressFamily, Capability, EncodeContext, Framer, GracefulRestart, GracefulRestartFamily, MessageKind, NextHop,
    Nlri, Notification, Open, PathAttributes, PathId, PeerType, RefreshKind, RouteRefresh, Update,
};

/// What an UPDATE says, as the other codec understood it.
#[derive(Debug, Default, PartialEq)]
struct Said {
    announced: Vec<(Nlri, NextHop)>,
    withdrawn: Vec<Nlri>,
    as_path: Vec<u32>,
    as4_path: Vec<u32>,
    med: Option<u32>,
    local_pref: Option<u32>,
    communities: Vec<u32>,
    originator_id: Option<Ipv4Addr>,
    cluster_list: Vec<Ipv4Addr>,
    only_to_customer: Option<u32>,
}

fn open(capabilities: Vec<Capability>) -> Open {
    Open { as_number: AsNumber::new(64512), hold_time: 90, identifier: Ipv4Addr::LOCALHOST, capabilities }
}

/// The other codec learns of a session's kind from our OPEN, as it would from a capture.
fn context(encode: EncodeContext) -> BgpParsingContext {
    let mut context = BgpParsingContext::default();
    context.set_asn4(encode.four_octet_as);
    if encode.add_path.is_empty() {
        return context;
    }
    let rows = encode
        .add_path
        .iter()
        .map(|family| AddPath { family: AddressFamily::unicast(family), mode: AddPathMode::Both });
    let open = open(vec![Capability::AddPath(rows.collect())]).encode();
    if let BgpMessage::Open(open) = read(&open, &mut BgpParsingContext::default()) {
        for capability in open.capabilities() {
            context.update_capabilities(capability, true);
        }
    }
    context
}

fn read(message: &[u8], context: &mut BgpParsingContext) -> BgpMessage {
    let parsed = BgpMessage::parse(&mut SliceReader::new(message), context);
    parsed.unwrap_or_else(|error| panic!("the other codec refuses {message:02x?}: {error}"))
}

fn write(message: &BgpMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.write(&mut bytes).unwrap();
    bytes
}

/// The messages of a stream, one by one.
fn messages(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut messages = Vec::new();
    while stream.len() > 18 {
        let (message, rest) = stream.split_at(usize::from(u16::from_be_bytes([stream[16], stream[17]])));
        messages.push(message);
        stream = rest;
    }
    messages
}

fn nlri(path_id: Option<u32>, address: impl Into<IpAddr>, length: u8) -> Nlri {
    let prefix = Cidr::new(address.into(), length).unwrap();
    Nlri { prefix, path_id: PathId::new(path_id.unwrap_or(0)) }
}

fn said(update: &BgpUpdateMessage) -> Said {
    let mut said = Said::default();
    let v4 = |route: &netgauze_bgp_pkt::nlri::Ipv4UnicastAddress| {
        let net = route.network().address();
        nlri(route.path_id(), net.addr(), net.prefix_len())
    };
    let v6 = |route: &netgauze_bgp_pkt::nlri::Ipv6UnicastAddress| {
        let net = route.network().address();
        nlri(route.path_id(), net.addr(), net.prefix_len())
    };
    let mut in_body = Ipv4Addr::UNSPECIFIED;
    said.withdrawn.extend(update.withdraw_routes().iter().map(v4));
    for attribute in update.path_attributes() {
        match attribute.value() {
            PathAttributeValue::AsPath(AsPath::As2PathSegments(segments)) => {
                said.as_path
                    .extend(segments.iter().flat_map(|s| s.as_numbers().iter().map(|system| u32::from(*system))));
            }
            PathAttributeValue::AsPath(AsPath::As4PathSegments(segments)) => {
                said.as_path.extend(segments.iter().flat_map(|segment| segment.as_numbers()));
            }
            PathAttributeValue::As4Path(path) => {
                said.as4_path.extend(path.segments().iter().flat_map(|segment| segment.as_numbers()));
            }
            PathAttributeValue::NextHop(next_hop) => in_body = next_hop.next_hop(),
            PathAttributeValue::MultiExitDiscriminator(med) => said.med = Some(med.metric()),
            PathAttributeValue::LocalPreference(pref) => said.local_pref = Some(pref.metric()),
            PathAttributeValue::Communities(all) => {
                said.communities.extend(all.communities().iter().map(|c| c.value()))
            }
            PathAttributeValue::Originator(originator) => said.originator_id = Some(originator.id()),
            PathAttributeValue::ClusterList(list) => {
                said.cluster_list.extend(list.cluster_list().iter().map(|cluster| cluster.id()));
            }
            PathAttributeValue::OnlyToCustomer(otc) => said.only_to_customer = Some(otc.asn()),
            PathAttributeValue::MpReach(MpReach::Ipv4Unicast { next_hop, next_hop_local, nlri }) => {
                let next_hop = both(*next_hop, *next_hop_local);
                said.announced.extend(nlri.iter().map(|route| (v4(route), next_hop)));
            }
            PathAttributeValue::MpReach(MpReach::Ipv6Unicast { next_hop_global, next_hop_local, nlri }) => {
                let next_hop = both((*next_hop_global).into(), *next_hop_local);
                said.announced.extend(nlri.iter().map(|route| (v6(route), next_hop)));
            }
            PathAttributeValue::MpUnreach(MpUnreach::Ipv6Unicast { nlri }) => {
                said.withdrawn.extend(nlri.iter().map(v6))
            }
            _ => {}
        }
    }
    said.announced.extend(update.nlri().iter().map(|route| (v4(route), NextHop::V4(in_body))));
    said
}

fn both(global: IpAddr, link_local: Option<Ipv6Addr>) -> NextHop {
    match (global, link_local) {
        (IpAddr::V6(global), Some(link_local)) => NextHop::V6LinkLocal { global, link_local },
        (global, _) => global.into(),
    }
}

/// What we mean, in the same terms.
fn meant(attributes: &PathAttributes, routes: &[Nlri], next_hop: NextHop, wide: bool) -> Said {
    let whole: Vec<u32> = attributes.as_path.systems().iter().map(|system| system.value()).collect();
    let narrow = |system: &u32| u16::try_from(*system).map_or(23456, u32::from);
    let is_large = whole.iter().any(|system| *system > 65535);
    Said {
        announced: routes.iter().map(|route| (*route, next_hop)).collect(),
        withdrawn: Vec::new(),
        as_path: if wide { whole.clone() } else { whole.iter().map(narrow).collect() },
        as4_path: if is_large && !wide { whole } else { Vec::new() },
        med: attributes.med,
        local_pref: attributes.local_pref,
        communities: attributes.communities.clone(),
        originator_id: attributes.originator_id,
        cluster_list: attributes.cluster_list.clone(),
        only_to_customer: attributes.extra.only_to_customer.map(|system| system.value()),
    }
}

/// Extended communities of types that nobody has registered, and a route target.
fn with_foreign_communities(mut attributes: PathAttributes) -> PathAttributes {
    let extra = attributes.extra.make_mut();
    extra.extended_communities.iter_mut().for_each(|community| community[0] = 0x20 | (community[0] & 0x0f));
    extra.ipv6_extended_communities.iter_mut().for_each(|community| community[0] = 0x20 | (community[0] & 0x0f));
    extra.extended_communities.push([0, 2, 0xfc, 0, 0, 0, 0, 1]);
    attributes
}

fn is_unicast(route: &Nlri) -> bool {
    match route.prefix.address() {
        IpAddr::V4(address) => (1..224).contains(&address.octets()[0]) && route.prefix.length() >= 8,
        IpAddr::V6(address) => !address.is_multicast(),
    }
}

proptest! {
    #[test]
    fn announcements(attributes in attributes().prop_map(with_foreign_communities), next_hop in next_hop(), routes in routes()) {
        for (decode, encode) in codec_variants().filter(|(decode, _)| decode.peer == PeerType::Internal) {
            let (ids, crosses) = (!encode.add_path.is_empty(), !decode.extended_next_hop.is_empty());
            let mut routes = sayable(routes.clone(), next_hop, ids, crosses);
            routes.retain(is_unicast);
            let mut stream = Vec::new();
            encode_announcements(&attributes, next_hop, &routes, encode, &mut stream).unwrap();
            let mut heard = Vec::new();
            for message in messages(&stream) {
                let theirs = read(message, &mut context(encode));
                let BgpMessage::Update(update) = &theirs else { panic!("no UPDATE: {theirs:?}") };
                let said = said(update);
                heard.extend(said.announced.iter().copied());
                let expected = Said { announced: said.announced.clone(), ..meant(&attributes, &[], next_hop, encode.four_octet_as) };
                prop_assert_eq!(said, expected);
                let back = write(&theirs);
                prop_assert_eq!(Update::decode(&back[19..], decode), Update::decode(&message[19..], decode));
            }
            prop_assert_eq!(heard, meant(&attributes, &routes, next_hop, true).announced);
        }
    }

    #[test]
    fn withdrawals(routes in routes()) {
        for (decode, encode) in codec_variants() {
            let next_hop = NextHop::V6(Ipv6Addr::LOCALHOST);
            let mut routes = sayable(routes.clone(), next_hop, !encode.add_path.is_empty(), true);
            routes.retain(is_unicast);
            let mut stream = Vec::new();
            encode_withdrawals(&routes, encode, &mut stream);
            let mut heard = Vec::new();
            for message in messages(&stream) {
                let theirs = read(message, &mut context(encode));
                let BgpMessage::Update(update) = &theirs else { panic!("no UPDATE: {theirs:?}") };
                heard.extend(said(update).withdrawn);
                let back = write(&theirs);
                prop_assert_eq!(Update::decode(&back[19..], decode), Update::decode(&message[19..], decode));
            }
            prop_assert_eq!(heard, routes);
        }
    }
}

#[test]
fn opens_and_other_messages() {
    let (v4, v6) = (AddressFamily::IPV4_UNICAST, AddressFamily::IPV6_UNICAST);
    let restart = GracefulRestartFamily { family: v4, forwarding_preserved: true };
    let long_lived = LongLivedGracefulRestartFamily { family: v6, forwarding_preserved: true, stale_time: 70_000 };
    let capabilities = vec![
        Capability::Multiprotocol(v4),
        Capability::Multiprotocol(v6),
        Capability::RouteRefresh,
        Capability::ExtendedNextHop(vec![ExtendedNextHop { family: v4, next_hop_afi: 2 }]),
        Capability::ExtendedMessage,
        Capability::Role(Role::Customer),
        Capability::GracefulRestart(GracefulRestart {
            restarting: true,
            notification: true,
            restart_time: 120,
            families: vec![restart],
        }),
        Capability::FourOctetAs(AsNumber::new(64512)),
        Capability::AddPath(vec![AddPath { family: v6, mode: AddPathMode::Both }]),
        Capability::EnhancedRouteRefresh,
        Capability::LongLivedGracefulRestart(LongLivedGracefulRestart { families: vec![long_lived] }),
        Capability::Fqdn(Fqdn::new("host", "domain")),
    ];
    let open = open(capabilities);
    let theirs = read(&open.encode(), &mut BgpParsingContext::default());
    let BgpMessage::Open(parsed) = &theirs else { panic!("no OPEN: {theirs:?}") };
    let understood = parsed.params().iter().map(|parameter| match parameter {
        BgpOpenMessageParameter::Capabilities(all) => all.len(),
    });
    assert_eq!(understood.sum::<usize>(), open.capabilities.len());
    assert_eq!(Open::decode(&write(&theirs)[19..]), Ok(open));
    let others = [
        RouteRefresh { family: v6, kind: RefreshKind::Begin }.encode(),
        RouteRefresh { family: v4, kind: RefreshKind::Request }.encode(),
        Notification::administrative(2, "bye").encode(),
        crate::wire::keepalive(),
    ];
    for message in others {
        let theirs = write(&read(&message, &mut BgpParsingContext::default()));
        assert_eq!(theirs, message);
        let mut framer = Framer::default();
        framer.push(&theirs);
        assert!(framer.next_message().unwrap().is_some_and(|(kind, _)| kind != MessageKind::Update));
    }
}
