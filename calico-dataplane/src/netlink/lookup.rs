//! By which interfaces the kernel would send: its own answer, with all its rules and tables, for one address at a time.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;

use calico_core::connection::{RouteQuery, Routes};
use calico_core::net::InterfaceName;
use nix::errno::Errno;
use nix::libc;

use super::link::Links;
use super::socket::RequestSocket;
use super::wire::{REQUEST, Writer, attributes, find};

/// `RTM_NEWROUTE`, which answers.
const NEW: u16 = 24;
/// `RTM_GETROUTE`.
const GET: u16 = 26;
const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const OUTGOING: u16 = 4;
const MULTIPATH: u16 = 9;
/// `RTM_F_FIB_MATCH`: the route itself is wanted, with all its next hops, and not the one that a packet would be given.
const WHOLE_ROUTE: u32 = 0x2000;
/// Length of a `struct rtmsg`, and the place of the type in it.
const HEADER: usize = 12;
const TYPE: usize = 7;
/// `RTN_UNICAST` and `RTN_MULTICAST`. Others lead nowhere, or to the host itself.
const OUTWARD: [u8; 2] = [1, 5];
/// Questions in a datagram.
const SIZE: usize = 128;

/// Answers what the kernel has an answer to.
pub(super) fn all(socket: &mut RequestSocket, links: &Links, asked: &BTreeSet<RouteQuery>) -> io::Result<Routes> {
    let mut routes = Routes::new();
    let asked: Vec<RouteQuery> = asked.iter().filter(|query| !needs_link(query.to)).copied().collect();
    for some in asked.chunks(SIZE) {
        let first = socket.reserve(u32::try_from(some.len()).unwrap_or(u32::MAX));
        let mut writer = Writer::default();
        for (sequence, query) in (first..).zip(some) {
            writer.message(GET, REQUEST, sequence, |w| request(w, query));
        }
        let request = writer.finish().ok_or(Errno::EMSGSIZE)?;
        socket.exchange(&request, |message| {
            let place = usize::try_from(message.sequence.wrapping_sub(first)).ok();
            let query = place.and_then(|place| some.get(place));
            if let (NEW, Some(query)) = (message.kind, query) {
                // An interface that is gone since leaves the answer incomplete.
                let names: Option<Vec<InterfaceName>> =
                    interfaces(message.body).into_iter().map(|index| links.name(index)).collect();
                routes.extend(names.filter(|names| !names.is_empty()).map(|names| (*query, names)));
            }
        })?;
    }
    Ok(routes)
}

/// Such an address is on every link.
const fn needs_link(address: IpAddr) -> bool {
    match address {
        IpAddr::V6(address) => address.is_unicast_link_local() || address.is_multicast(),
        IpAddr::V4(address) => address.is_unspecified(),
    }
}

fn request(w: &mut Writer, query: &RouteQuery) {
    let length = |address: Option<IpAddr>| match address {
        Some(IpAddr::V4(_)) => 32,
        Some(IpAddr::V6(_)) => 128,
        None => 0,
    };
    let family = if query.to.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    w.raw(&[u8::try_from(family).unwrap_or_default(), length(Some(query.to)), length(query.from), 0, 0, 0, 0, 0]);
    w.raw(&WHOLE_ROUTE.to_ne_bytes());
    address(w, DESTINATION, query.to);
    if let Some(from) = query.from {
        address(w, SOURCE, from);
    }
}

fn address(w: &mut Writer, kind: u16, address: IpAddr) {
    match address {
        IpAddr::V4(address) => w.attribute(kind, &address.octets()),
        IpAddr::V6(address) => w.attribute(kind, &address.octets()),
    }
}

/// Indices of all links that a route leads to.
fn interfaces(body: &[u8]) -> BTreeSet<u32> {
    let mut indices = BTreeSet::new();
    let (Some(kind), Some(parts)) = (body.get(TYPE), body.get(HEADER..)) else { return indices };
    if !OUTWARD.contains(kind) {
        return indices;
    }
    let number = |value: &[u8]| value.try_into().ok().map(u32::from_ne_bytes);
    indices.extend(find(parts, OUTGOING).and_then(number));
    for (_, mut hops) in attributes(parts).filter(|(kind, _)| *kind == MULTIPATH) {
        // Each a `struct rtnexthop` with attributes: length, flags, weight, index.
        while let Some([l0, l1, _, _, index @ ..]) = hops.first_chunk::<8>().copied() {
            indices.insert(u32::from_ne_bytes(index));
            let length = usize::from(u16::from_ne_bytes([l0, l1])).max(8).next_multiple_of(4);
            hops = hops.get(length..).unwrap_or_default();
        }
    }
    indices
}

/// Reads any bytes.
#[cfg(any(test, feature = "testing"))]
pub(super) fn decode_any(bytes: &[u8]) {
    let _ = interfaces(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netns::Netns;
    use crate::testing::netns::scratch;

    fn ip(arguments: &str) {
        let done = std::process::Command::new("ip").args(arguments.split_whitespace()).status().unwrap();
        assert!(done.success(), "ip {arguments}");
    }

    fn ways(of: &Netns, queries: &[(Option<&str>, &str)]) -> Vec<String> {
        let query = |(from, to): &(Option<&str>, &str)| RouteQuery {
            from: from.map(|from| from.parse().unwrap()),
            to: to.parse().unwrap(),
        };
        let queries: Vec<RouteQuery> = queries.iter().map(query).collect();
        let asked = queries.iter().copied().collect();
        let routes = of.run(|| crate::netlink::Routing::open().unwrap().ways(&asked).unwrap()).unwrap();
        let names = |names: &Vec<InterfaceName>| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        queries.iter().map(|query| routes.get(query).map(names).unwrap_or_default()).collect()
    }

    #[test]
    fn the_kernel_says_by_which_interfaces_it_sends() {
        let here = scratch();
        here.run(|| {
            for (name, net) in [("up0", 1), ("up1", 2), ("up2", 3)] {
                ip(&format!("link add {name} type veth peer name far-{name}"));
                ip(&format!("link set far-{name} up"));
                ip(&format!("address add 10.78.{net}.1/24 dev {name}"));
                ip(&format!("address add fd78:{net}::1/64 dev {name} nodad"));
                ip(&format!("link set {name} up"));
            }
            ip("link set lo up");
            ip("route add 192.0.2.0/24 nexthop via 10.78.1.2 nexthop via 10.78.2.2");
            ip("-6 route add fd92::/64 nexthop via fd78:1::2 nexthop via fd78:2::2");
            ip("route add blackhole 198.51.100.0/24");
            ip("route add default via 10.78.3.2");
            ip("rule add from 10.78.2.1 lookup 77");
            ip("route add default via 10.78.2.2 table 77");
        })
        .unwrap();
        let queries = [
            (None, "10.78.1.9"),
            (None, "192.0.2.9"),
            (None, "fd92::9"),
            (None, "fd78:2::9"),
            (None, "198.51.100.9"),
            (None, "203.0.113.9"),
            (Some("10.78.2.1"), "203.0.113.9"),
            (Some("10.78.1.1"), "203.0.113.9"),
            (None, "10.78.1.1"),
            (None, "fe80::9"),
            (None, "fd99::9"),
            (Some("fd78:1::1"), "fd78:2::9"),
        ];
        let expected = ["up0", "up0 up1", "up0 up1", "up1", "", "up2", "up1", "up2", "", "", "", "up1"];
        assert_eq!(ways(&here, &queries), expected);
    }
}
