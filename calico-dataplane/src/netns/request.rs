//! Requests to a namespace's links, addresses, routes and neighbours, each one netlink message.

use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use calico_core::net::{Cidr, InterfaceName, Mac};
use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    BridgeStpState, InfoBridge, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo as Info, LinkMessage,
};
use netlink_packet_route::neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

/// One request, with the words for its failure.
#[derive(Debug, Clone)]
pub struct Request {
    pub(super) what: String,
    pub(super) message: RouteNetlinkMessage,
    pub(super) flags: u16,
}

/// One end of a veth pair to be.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct VethEnd<'a> {
    /// Its name.
    pub name: InterfaceName,
    /// Namespace it is born in; none for the socket's own.
    pub netns: Option<BorrowedFd<'a>>,
    /// Ethernet address; the kernel picks one otherwise.
    pub mac: Option<Mac>,
}

impl Request {
    /// A veth pair, each end born where it belongs: nothing is moved or renamed afterwards. Both are down:
    /// the far end cannot be up before the near one exists. An MTU of 0 is the kernel's default.
    /// Descriptors of namespaces must stay open until the request was sent.
    pub fn veth(near: VethEnd<'_>, far: VethEnd<'_>, mtu: u32) -> Self {
        let mut message = veth_end(&near, mtu);
        message.attributes.push(LinkAttribute::LinkInfo(vec![
            Info::Kind(InfoKind::Veth),
            Info::Data(InfoData::Veth(InfoVeth::Peer(veth_end(&far, mtu)))),
        ]));
        Self {
            what: format!("create the veth pair {} and {}", near.name, far.name),
            message: RouteNetlinkMessage::NewLink(message),
            flags: CREATE,
        }
    }

    /// A bridge that is up and forwards at once: no spanning tree, no multicast snooping (which would send queries of its own).
    pub fn bridge(name: InterfaceName) -> Self {
        let mut message = LinkMessage::default();
        set_up(&mut message);
        message.attributes = vec![
            LinkAttribute::IfName(name.as_str().into()),
            LinkAttribute::LinkInfo(vec![
                Info::Kind(InfoKind::Bridge),
                Info::Data(InfoData::Bridge(vec![
                    InfoBridge::ForwardDelay(0),
                    InfoBridge::StpState(BridgeStpState::Disabled),
                    InfoBridge::MulticastSnooping(false),
                ])),
            ]),
        ];
        Self { what: format!("create bridge {name}"), message: RouteNetlinkMessage::NewLink(message), flags: CREATE }
    }

    /// Sets a link up.
    pub fn up(index: u32) -> Self {
        let mut message = LinkMessage::default();
        message.header.index = index;
        set_up(&mut message);
        Self { what: format!("set link {index} up"), message: RouteNetlinkMessage::SetLink(message), flags: CHANGE }
    }

    /// Makes a link a port of a bridge.
    pub fn enslave(index: u32, bridge: u32) -> Self {
        let mut message = LinkMessage::default();
        message.header.index = index;
        message.attributes.push(LinkAttribute::Controller(bridge));
        Self {
            what: format!("make link {index} a port of bridge {bridge}"),
            message: RouteNetlinkMessage::SetLink(message),
            flags: CHANGE,
        }
    }

    /// Deletes a link (and, for a veth, its peer).
    pub fn delete_link(index: u32) -> Self {
        let mut message = LinkMessage::default();
        message.header.index = index;
        Self { what: format!("delete link {index}"), message: RouteNetlinkMessage::DelLink(message), flags: CHANGE }
    }

    /// Gives a link an address with the prefix length of its subnet. IPv6 addresses skip duplicate detection.
    pub fn address(index: u32, address: IpAddr, length: u8) -> Self {
        let mut message = AddressMessage::default();
        message.header.family = family(address);
        message.header.prefix_len = length;
        message.header.index = index;
        message.header.scope = AddressScope::Universe;
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
            message.attributes.push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        Self {
            what: format!("give link {index} the address {address}/{length}"),
            message: RouteNetlinkMessage::NewAddress(message),
            flags: UPSERT,
        }
    }

    /// A route out of a link, by a gateway where one is given.
    pub fn route(dest: Cidr, gateway: Option<IpAddr>, index: u32) -> Self {
        let mut message = RouteMessage::default();
        message.header.address_family = family(dest.address());
        message.header.destination_prefix_length = dest.length();
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Boot;
        message.header.kind = RouteType::Unicast;
        message.header.scope = if gateway.is_none() { RouteScope::Link } else { RouteScope::Universe };
        message.attributes.push(RouteAttribute::Oif(index));
        if dest.length() > 0 {
            message.attributes.push(RouteAttribute::Destination(route_address(dest.address())));
        }
        message.attributes.extend(gateway.map(|gateway| RouteAttribute::Gateway(route_address(gateway))));
        let via = gateway.map(|gateway| format!(" via {gateway}")).unwrap_or_default();
        Self {
            what: format!("add the route to {dest}{via} on link {index}"),
            message: RouteNetlinkMessage::NewRoute(message),
            flags: UPSERT,
        }
    }

    /// A permanent neighbour.
    pub fn neighbor(index: u32, address: IpAddr, mac: Mac) -> Self {
        let mut message = NeighbourMessage::default();
        message.header.family = family(address);
        message.header.ifindex = index;
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            NeighbourAttribute::Destination(match address {
                IpAddr::V4(address) => address.into(),
                IpAddr::V6(address) => address.into(),
            }),
            NeighbourAttribute::LinkLayerAddress(mac.octets().to_vec()),
        ];
        Self {
            what: format!("add the neighbour {address} at {mac} on link {index}"),
            message: RouteNetlinkMessage::NewNeighbour(message),
            flags: UPSERT,
        }
    }

    pub(super) fn find_link(name: InterfaceName) -> Self {
        let mut message = LinkMessage::default();
        message.attributes.push(LinkAttribute::IfName(name.as_str().into()));
        Self { what: format!("find link {name}"), message: RouteNetlinkMessage::GetLink(message), flags: CHANGE }
    }

    pub(super) fn dump_addresses() -> Self {
        Self {
            what: "list addresses".into(),
            message: RouteNetlinkMessage::GetAddress(AddressMessage::default()),
            flags: NLM_F_REQUEST | NLM_F_DUMP,
        }
    }

    pub(super) fn dump_routes(of: AddressFamily) -> Self {
        let mut message = RouteMessage::default();
        message.header.address_family = of;
        Self {
            what: "list routes".into(),
            message: RouteNetlinkMessage::GetRoute(message),
            flags: NLM_F_REQUEST | NLM_F_DUMP,
        }
    }
}

fn veth_end(end: &VethEnd<'_>, mtu: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes = vec![LinkAttribute::IfName(end.name.as_str().into())];
    message.attributes.extend((mtu > 0).then_some(LinkAttribute::Mtu(mtu)));
    message.attributes.extend(end.mac.map(|mac| LinkAttribute::Address(mac.octets().to_vec())));
    message.attributes.extend(end.netns.map(|netns| LinkAttribute::NetNsFd(netns.as_raw_fd())));
    message
}

fn set_up(message: &mut LinkMessage) {
    message.header.flags |= LinkFlags::Up;
    message.header.change_mask |= LinkFlags::Up;
}

pub(super) const fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

const fn route_address(address: IpAddr) -> RouteAddress {
    match address {
        IpAddr::V4(address) => RouteAddress::Inet(address),
        IpAddr::V6(address) => RouteAddress::Inet6(address),
    }
}

const CHANGE: u16 = NLM_F_REQUEST | NLM_F_ACK;
const CREATE: u16 = CHANGE | NLM_F_CREATE | NLM_F_EXCL;
const UPSERT: u16 = CHANGE | NLM_F_CREATE | NLM_F_REPLACE;
