//! Routes, and by which protocol numbers we know our own.
//!
//! | Class | Protocol | Why this number |
//! |---|---|---|
//! | [`RouteClass::LocalWorkload`] | 80 | upstream's own for the routes that only it may write: what an upstream agent left is taken over |
//! | [`RouteClass::LocalBlock`] | 81 | free in `rt_protos` |
//! | [`RouteClass::Bgp`] | 82 | free; 12 and 186 belong to BIRD and FRR, which may run on the host for other ends |
//!
//! A number per class, so that the class is read back without guessing. A route is removed only if it has one of these numbers.
//!
//! IPv6 knows no metric zero: the kernel stores 1024, and so must who compares.

use std::net::{IpAddr, Ipv4Addr};

use calico_core::net::{Cidr, Family};
use calico_core::table::{Route, RouteClass, RouteKey, RouteTableId, RouteTarget};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::route::{
    RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteNextHop, RouteProtocol, RouteScope, RouteType, RouteVia,
};

use super::link::Links;
use super::wire::attributes;

/// `RTM_NEWROUTE`.
pub(crate) const NEW: u16 = 24;
/// `RTM_DELROUTE`.
pub(crate) const DELETE: u16 = 25;
/// `RTM_GETROUTE`.
pub(crate) const GET: u16 = 26;

/// The protocol numbers of our classes, the one of the most routes first.
pub(crate) const PROTOCOLS: [u8; 3] = [BGP, LOCAL_WORKLOAD, LOCAL_BLOCK];

const LOCAL_WORKLOAD: u8 = 80;
const LOCAL_BLOCK: u8 = 81;
const BGP: u8 = 82;

/// Length of `struct rtmsg`.
const HEADER: usize = 12;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const RTA_VIA: u16 = 18;
const RTA_ENCAP: u16 = 22;

/// Length of `struct rtnexthop`.
const HOP_HEADER: usize = 8;
/// A next hop is on its interface whatever the interface's prefixes.
const RTNH_F_ONLINK: u8 = 4;

/// `RT_TABLE_LOCAL`: the kernel's own.
const TABLE_LOCAL: u32 = 255;

/// What stands for a way that we would never write, such as one with a weight: it equals nothing desired.
const FOREIGN_TARGET: RouteTarget = RouteTarget::Via(IpAddr::V4(Ipv4Addr::UNSPECIFIED));

/// A route as read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) key: RouteKey,
    /// Present if the protocol is one of ours.
    pub(crate) route: Option<Route>,
}

/// Asks for all routes of a family.
pub(crate) fn dump_request(family: AddressFamily) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family;
    message
}

/// The route; `index` is that of the interface that its target names.
pub(crate) fn encode(route: &Route, index: Option<u32>) -> RouteMessage {
    let mut message = keyed(&route.key, class_protocol(route.class));
    let header = &mut message.header;
    header.kind = RouteType::Unicast;
    header.scope = RouteScope::Universe;
    match &route.target {
        RouteTarget::Interface(_) => header.scope = RouteScope::Link,
        RouteTarget::Via(gateway) => message.attributes.push(via(*gateway, route.key.dest)),
        RouteTarget::ViaMany(gateways) => {
            let hops = gateways.iter().map(|gateway| hop(gateway, route.key.dest)).collect();
            message.attributes.push(RouteAttribute::MultiPath(hops));
        }
        RouteTarget::ViaOnlink { gateway, .. } => {
            header.flags = RouteFlags::Onlink;
            message.attributes.push(via(*gateway, route.key.dest));
        }
        // Also for what is not known here: no way is better than a wrong one.
        _ => header.kind = RouteType::BlackHole,
    }
    message.attributes.extend(index.map(RouteAttribute::Oif));
    message
}

/// Names a route for removal, if it is of this protocol.
///
/// The kernel takes IPv4 metric zero for "any": where no route of that metric is left, the removal of one takes the next of the same
/// destination, table and protocol. So whoever removes one of metric zero looks first whether it is there, and with which protocol.
pub(crate) fn removal(key: &RouteKey, protocol: u8) -> RouteMessage {
    let mut message = keyed(key, protocol);
    // The wildcards of the kernel's comparison.
    message.header.scope = RouteScope::NoWhere;
    message.header.kind = RouteType::Unspec;
    message
}

/// Whether the kernel takes the metric for "any" when it removes a route.
pub(crate) fn is_ambiguous(key: &RouteKey) -> bool {
    key.metric == 0 && key.dest.family() == Family::V4
}

/// Reads a route; the kernel's local table, multicast and cached clones are none.
///
/// By hand, and only what is needed: a full parse of each of many thousand routes takes longer than the kernel takes to list them.
pub(crate) fn decode(body: &[u8], links: &Links) -> Option<Decoded> {
    let header = RouteHeader::parse(body).ok()?;
    if header.flags.contains(RouteFlags::Cloned) || u32::from(header.table) == TABLE_LOCAL {
        return None;
    }
    let mut found = Attributes::default();
    for (kind, value) in attributes(body.get(HEADER..)?) {
        found.take(kind, value)?;
    }
    let any = match header.address_family {
        AddressFamily::Inet => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        AddressFamily::Inet6 => IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
        _ => return None,
    };
    let key = RouteKey {
        table: RouteTableId::new(found.table.unwrap_or_else(|| header.table.into())),
        dest: Cidr::new(found.dest.unwrap_or(any), header.destination_prefix_length)?,
        metric: found.metric,
    };
    let route = protocol_class(header.protocol.into());
    let route = route.map(|class| Route { key, target: found.target(&header, links), class });
    Some(Decoded { key, route })
}

/// How messages call it.
pub(crate) fn name(key: &RouteKey) -> String {
    let RouteKey { table, dest, metric } = key;
    match (*table == RouteTableId::MAIN, metric) {
        (true, 0) => format!("route {dest}"),
        (true, metric) => format!("route {dest} metric {metric}"),
        (false, metric) => format!("route {dest} metric {metric} in table {}", table.value()),
    }
}

#[derive(Default)]
struct Attributes {
    table: Option<u32>,
    dest: Option<IpAddr>,
    metric: u32,
    gateway: Option<IpAddr>,
    gateways: Vec<IpAddr>,
    interface: Option<u32>,
    foreign: bool,
}

impl Attributes {
    /// None: a value that cannot be one of this kind.
    fn take(&mut self, kind: u16, value: &[u8]) -> Option<()> {
        match kind {
            RTA_TABLE => self.table = Some(number(value)?),
            RTA_DST => self.dest = Some(address(value)?),
            RTA_PRIORITY => self.metric = number(value)?,
            RTA_GATEWAY => self.gateway = Some(address(value)?),
            // The family, in two bytes, comes first.
            RTA_VIA => self.gateway = Some(address(value.get(2..)?)?),
            RTA_OIF => self.interface = Some(number(value)?),
            RTA_MULTIPATH => match gateways(value) {
                Some(gateways) => self.gateways = gateways,
                None => self.foreign = true,
            },
            RTA_ENCAP => self.foreign = true,
            _ => {}
        }
        Some(())
    }

    fn target(&self, header: &RouteHeader, links: &Links) -> RouteTarget {
        let interface = self.interface.and_then(|index| links.name(index));
        let onlink = header.flags.contains(RouteFlags::Onlink);
        match (header.kind, self.gateway, interface) {
            _ if self.foreign => FOREIGN_TARGET,
            (RouteType::Unicast, None, None) if !onlink && !self.gateways.is_empty() => {
                RouteTarget::via(self.gateways.iter().copied()).unwrap_or(FOREIGN_TARGET)
            }
            (RouteType::BlackHole, _, _) => RouteTarget::Blackhole,
            (RouteType::Unicast, Some(gateway), Some(interface)) if onlink => {
                RouteTarget::ViaOnlink { gateway, interface }
            }
            (RouteType::Unicast, Some(gateway), _) if !onlink => RouteTarget::Via(gateway),
            (RouteType::Unicast, None, Some(interface)) => RouteTarget::Interface(interface),
            _ => FOREIGN_TARGET,
        }
    }
}

/// The gateways of several next hops (`struct rtnexthop`, each with attributes of its own); none if one of them is not as we write it: with a
/// weight, on an interface whatever its prefixes, without a gateway.
fn gateways(mut value: &[u8]) -> Option<Vec<IpAddr>> {
    let mut gateways = Vec::new();
    while let [low, high, flags, weight, rest @ ..] = value {
        let length = usize::from(u16::from_ne_bytes([*low, *high]));
        let own = rest.get(HOP_HEADER - 4..).and_then(|_| value.get(HOP_HEADER..length))?;
        if *weight != 0 || flags & RTNH_F_ONLINK != 0 {
            return None;
        }
        let mut hop = Attributes::default();
        for (kind, value) in attributes(own) {
            hop.take(kind, value)?;
        }
        gateways.push(hop.gateway.filter(|_| !hop.foreign)?);
        value = value.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    (!gateways.is_empty()).then_some(gateways)
}

fn number(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_ne_bytes)
}

fn address(value: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(value).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(value).ok().map(IpAddr::from))
}

fn keyed(key: &RouteKey, protocol: u8) -> RouteMessage {
    let mut message = RouteMessage::default();
    let header = &mut message.header;
    header.address_family = match key.dest.family() {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    };
    header.destination_prefix_length = key.dest.length();
    header.protocol = RouteProtocol::from(protocol);
    header.table = u8::try_from(key.table.value()).unwrap_or(RouteHeader::RT_TABLE_UNSPEC);
    message.attributes.push(RouteAttribute::Table(key.table.value()));
    message.attributes.push(RouteAttribute::Destination(key.dest.address().into()));
    if key.metric != 0 {
        message.attributes.push(RouteAttribute::Priority(key.metric));
    }
    message
}

/// A gateway of the other family has an attribute of its own (RFC 8950).
fn via(gateway: IpAddr, dest: Cidr) -> RouteAttribute {
    match gateway {
        IpAddr::V6(gateway) if dest.family() == Family::V4 => RouteAttribute::Via(RouteVia::Inet6(gateway)),
        IpAddr::V4(gateway) if dest.family() == Family::V6 => RouteAttribute::Via(RouteVia::Inet(gateway)),
        gateway => RouteAttribute::Gateway(gateway.into()),
    }
}

/// One of several next hops; the kernel finds its interface.
fn hop(gateway: IpAddr, dest: Cidr) -> RouteNextHop {
    let mut hop = RouteNextHop::default();
    hop.attributes.push(via(gateway, dest));
    hop
}

/// The protocol number of a class.
pub(super) const fn class_protocol(class: RouteClass) -> u8 {
    match class {
        RouteClass::LocalBlock => LOCAL_BLOCK,
        RouteClass::Bgp => BGP,
        _ => LOCAL_WORKLOAD,
    }
}

const fn protocol_class(protocol: u8) -> Option<RouteClass> {
    match protocol {
        LOCAL_WORKLOAD => Some(RouteClass::LocalWorkload),
        LOCAL_BLOCK => Some(RouteClass::LocalBlock),
        BGP => Some(RouteClass::Bgp),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use calico_core::net::InterfaceName;
    use netlink_packet_core::Emitable;
    use proptest::prelude::*;

    use super::*;
    use crate::LinkState;
    use crate::netlink::link::Link;

    fn links() -> Links {
        let mut links = Links::default();
        links.insert(Link {
            is_ifb: false,
            name: InterfaceName::CALI,
            state: LinkState { index: 7, up: true, mtu: 1500 },
        });
        links
    }

    fn route() -> impl Strategy<Value = (Route, Option<u32>)> {
        let prefix = (any::<bool>(), any::<u128>(), 0..=32_u8).prop_map(|(six, bits, length)| {
            let v4 = IpAddr::from(u32::try_from(bits & 0xffff_ffff).unwrap().to_be_bytes());
            Cidr::new(if six { IpAddr::from(bits.to_be_bytes()) } else { v4 }, length).unwrap()
        });
        let target = (0..5, any::<bool>(), any::<u32>()).prop_map(|(kind, six, bits)| {
            let wide = (0x2001_0db8_u128 << 96) | u128::from(bits);
            let gateway = if six { IpAddr::from(wide.to_be_bytes()) } else { IpAddr::from(bits.to_be_bytes()) };
            match kind {
                0 => RouteTarget::Interface(InterfaceName::CALI),
                1 => RouteTarget::Via(gateway),
                2 => RouteTarget::ViaOnlink { gateway, interface: InterfaceName::CALI },
                3 => RouteTarget::via([gateway, [10, 0, 0, 1].into(), [10, 0, 0, 2].into()]).unwrap(),
                _ => RouteTarget::Blackhole,
            }
        });
        let class = prop_oneof![Just(RouteClass::LocalWorkload), Just(RouteClass::LocalBlock), Just(RouteClass::Bgp)];
        (prefix, 1..1000_u32, 1..=600_u32, target, class).prop_filter_map("the local table", |parts| {
            let (dest, table, metric, target, class) = parts;
            let key = RouteKey { table: RouteTableId::new(table), dest, metric };
            let route = Route { key, target, class };
            let index = route.target.interface().map(|_| 7);
            (table != TABLE_LOCAL).then_some((route, index))
        })
    }

    proptest! {
        #[test]
        fn what_was_written_is_read((route, index) in route()) {
            let message = encode(&route, index);
            let mut bytes = vec![0; message.buffer_len()];
            message.emit(&mut bytes);
            let found = decode(&bytes, &links()).unwrap();
            prop_assert_eq!(found.key, route.key);
            prop_assert_eq!(found.route, Some(route));
        }
    }

    /// What we would not write equals nothing that is wanted.
    #[test]
    fn a_route_of_several_ways_that_is_not_as_ours_is_nobodys() {
        let plain = || hop([1, 2, 3, 4].into(), Cidr::host([9, 9, 9, 9].into()));
        let target = |hops: Vec<RouteNextHop>| {
            let key = RouteKey { table: RouteTableId::MAIN, dest: Cidr::host([9, 9, 9, 9].into()), metric: 5 };
            let mut message = keyed(&key, BGP);
            message.header.kind = RouteType::Unicast;
            message.attributes.push(RouteAttribute::MultiPath(hops));
            let mut bytes = vec![0; message.buffer_len()];
            message.emit(&mut bytes);
            decode(&bytes, &links()).unwrap().route.unwrap().target
        };
        assert_eq!(target(vec![plain()]), RouteTarget::Via([1, 2, 3, 4].into()));
        let mut weighted = plain();
        weighted.hops = 1;
        let mut onlink = plain();
        onlink.flags = netlink_packet_route::route::RouteNextHopFlags::Onlink;
        for odd in [vec![], vec![plain(), weighted], vec![onlink, plain()], vec![RouteNextHop::default()]] {
            assert_eq!(target(odd.clone()), FOREIGN_TARGET, "{odd:?}");
        }
        assert_eq!(decode(&[0; HEADER - 1], &links()), None);
    }
}
