//! The kernel's memory of connections: read, and forgotten in part.
//!
//! Of some addresses, all connections are to be forgotten: one look at the whole table for any number of addresses, matched here, then
//! one removal for each entry found, many in a datagram.
//! The kernel could do both in one request only for one address and one direction at a time, and since Linux 6.11 only.
//!
//! An entry is named as the kernel told it: its original tuple, zone and number. The number is made of the tuple and the place in memory,
//! so one that was made since with the same tuple mostly is another, and stays.

pub(crate) mod beside;

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use calico_core::connection::Connection;
use calico_core::flow::Flow;
use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::errno::Errno;
use nix::libc;

use crate::netlink::batch::Batch;
use crate::netlink::socket::RequestSocket;
use crate::netlink::wire::{Message, Writer, attributes, find};
use crate::{DataplaneError, Tracked, TrackedName};

/// `NFNL_SUBSYS_CTNETLINK`.
const SUBSYSTEM: u16 = 1 << 8;
const GET: u16 = SUBSYSTEM | 1;
const DELETE: u16 = SUBSYSTEM | 2;

const TUPLE_ORIGINAL: u16 = 1;
const TUPLE_REPLY: u16 = 2;
const ID: u16 = 12;
const TUPLE_MASTER: u16 = 14;
const ZONE: u16 = 18;
/// Within a tuple: its two addresses, whose kinds tell family and end.
const TUPLE_ADDRESSES: u16 = 1;
/// Within a tuple: protocol, ports, and what ICMP has instead.
const TUPLE_PROTOCOL: u16 = 2;

/// There if the kernel tracks connections, in any namespace.
const TRACKS: &str = "/proc/sys/net/netfilter/nf_conntrack_max";

/// Connection tracking of one network namespace.
#[derive(Debug)]
pub(crate) struct Connections {
    socket: RequestSocket,
}

impl Connections {
    pub(crate) fn open() -> Result<Self, DataplaneError> {
        let socket = RequestSocket::open(NETLINK_NETFILTER).map_err(kernel("open a socket", "conntrack netlink"))?;
        Ok(Self { socket })
    }

    /// Forgets all connections that have one of the addresses at either end, before or after translation.
    pub(crate) fn cut(&mut self, addresses: &[IpAddr]) -> Result<(), DataplaneError> {
        if addresses.is_empty() {
            return Ok(());
        }
        let addresses: BTreeSet<IpAddr> = addresses.iter().copied().collect();
        let of_these = |body: &[u8]| has_address(body, &addresses).then(|| name(body)).flatten();
        let found = self.list(family(&addresses), of_these)?;
        self.end(&found)
    }

    /// The connections that are picked. Those of a zone of somebody's making are not offered: their addresses may mean something else.
    pub(crate) fn pick(&mut self, pick: impl Fn(&Connection) -> bool) -> Result<Vec<Tracked>, DataplaneError> {
        let picked = |body: &[u8]| {
            let connection = decode(body).filter(|connection| pick(connection))?;
            Some(Tracked { connection, name: name(body)? })
        };
        self.list(0, picked)
    }

    /// Forgets these, whatever has ended by itself meanwhile.
    pub(crate) fn end(&mut self, names: &[TrackedName]) -> Result<(), DataplaneError> {
        let mut batch = Batch::new(&mut self.socket);
        for (tag, name) in names.iter().enumerate() {
            batch.push(tag, DELETE, 0, |w| w.raw(&name.0));
        }
        let failures = batch.finish().into_iter().map(|(_, error)| error);
        // What has ended by itself is as wanted.
        let mut refused = failures.filter(|error| error.raw_os_error() != Some(Errno::ENOENT as i32));
        refused.next().map_or(Ok(()), |error| Err(kernel("remove", "tracked connections")(error)))
    }

    /// What `entry` makes of each entry's message, of a family or (0) of all.
    fn list<T>(&mut self, family: u8, entry: impl Fn(&[u8]) -> Option<T>) -> Result<Vec<T>, DataplaneError> {
        let collect = |found: &mut Vec<T>, message: Message<'_>| found.extend(entry(message.body));
        match self.socket.dump(GET, |w| w.raw(&[family, 0, 0, 0]), collect) {
            Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => {
                unknown_subsystem().map(|()| Vec::new())
            }
            found => found.map_err(kernel("list", "tracked connections")),
        }
    }
}

/// The one family that all addresses are of; otherwise any (`AF_UNSPEC`).
fn family(addresses: &BTreeSet<IpAddr>) -> u8 {
    let number = |family: libc::c_int| u8::try_from(family).unwrap_or_default();
    match (addresses.iter().any(IpAddr::is_ipv4), addresses.iter().any(IpAddr::is_ipv6)) {
        (true, false) => number(libc::AF_INET),
        (false, true) => number(libc::AF_INET6),
        _ => number(libc::AF_UNSPEC),
    }
}

fn has_address(body: &[u8], addresses: &BTreeSet<IpAddr>) -> bool {
    let parts = body.get(4..).unwrap_or_default();
    let tuples = [TUPLE_ORIGINAL, TUPLE_REPLY].into_iter().filter_map(|kind| find(parts, kind));
    tuples.flat_map(ends).any(|(_, address)| addresses.contains(&address))
}

/// The connection that a message tells, if it is of no zone.
fn decode(body: &[u8]) -> Option<Connection> {
    let parts = body.get(4..)?;
    if find(parts, ZONE).is_some_and(|zone| zone.iter().any(|octet| *octet != 0)) {
        return None;
    }
    let flow = |kind| find(parts, kind).and_then(flow);
    Some(Connection { original: flow(TUPLE_ORIGINAL)?, reply: flow(TUPLE_REPLY)?, master: flow(TUPLE_MASTER) })
}

fn flow(tuple: &[u8]) -> Option<Flow> {
    const SOURCES: [u16; 2] = [1, 3];
    let end = |is_source| ends(tuple).find(|(kind, _)| SOURCES.contains(kind) == is_source).map(|(_, address)| address);
    let parts = find(tuple, TUPLE_PROTOCOL)?;
    let octet = |kind| find(parts, kind).and_then(|value| value.first().copied());
    let port = |kind| find(parts, kind).and_then(|value| value.try_into().ok()).map_or(0, u16::from_be_bytes);
    // Type and code: 5 and 6 of ICMP, 8 and 9 of ICMPv6.
    let icmp = octet(5).zip(octet(6)).or_else(|| octet(8).zip(octet(9)));
    let (source, destination) = (end(true)?, end(false)?);
    Some(Flow { source, destination, protocol: octet(1)?, source_port: port(2), destination_port: port(3), icmp })
}

/// The addresses of a tuple, with their kinds: source and destination of IPv4 (1, 2) or IPv6 (3, 4).
fn ends(tuple: &[u8]) -> impl Iterator<Item = (u16, IpAddr)> {
    let addresses = find(tuple, TUPLE_ADDRESSES).unwrap_or_default();
    attributes(addresses).filter_map(|(kind, value)| {
        let v4 = || value.try_into().ok().map(|octets: [u8; 4]| Ipv4Addr::from(octets).into());
        let v6 = || value.try_into().ok().map(|octets: [u8; 16]| Ipv6Addr::from(octets).into());
        Some((kind, v4().or_else(v6)?))
    })
}

/// The body of a request that removes the entry that a message tells.
fn name(body: &[u8]) -> Option<TrackedName> {
    let ([family, ..], parts) = body.split_first_chunk::<4>()?;
    let original = find(parts, TUPLE_ORIGINAL)?;
    let mut writer = Writer::default();
    writer.raw(&[*family, 0, 0, 0]);
    writer.nest(TUPLE_ORIGINAL, |w| w.raw(original));
    for kind in [ZONE, ID] {
        if let Some(value) = find(parts, kind) {
            writer.attribute(kind, value);
        }
    }
    writer.finish().map(|bytes| TrackedName(bytes.into()))
}

/// What the kernel's answer means that it knows no such requests.
fn unknown_subsystem() -> Result<(), DataplaneError> {
    if !Path::new(TRACKS).exists() {
        return Ok(());
    }
    Err(DataplaneError::Unsupported {
        feature: "the removal of tracked connections".into(),
        advice: "load the module nf_conntrack_netlink".into(),
    })
}

fn kernel(operation: &'static str, object: &str) -> impl FnOnce(io::Error) -> DataplaneError {
    let object = object.to_string();
    move |source| DataplaneError::Kernel { operation, object, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::wire::{ACK, REQUEST, messages};
    use proptest::prelude::*;

    /// A connection from 10.65.0.11, port 7777, by UDP, translated to 10.0.2.2 on its way out.
    fn message(zone: u8) -> Vec<u8> {
        let tuple = |w: &mut Writer, from: [u8; 4], to: [u8; 4], ports: [u16; 2]| {
            w.nest(TUPLE_ADDRESSES, |w| {
                w.attribute(1, &from);
                w.attribute(2, &to);
            });
            w.nest(2, |w| {
                w.attribute(1, &[17]);
                w.attribute(2, &ports[0].to_be_bytes());
                w.attribute(3, &ports[1].to_be_bytes());
            });
        };
        let mut writer = Writer::default();
        writer.message(SUBSYSTEM, 0, 1, |w| {
            w.raw(&[2, 0, 0, 0]);
            w.nest(TUPLE_ORIGINAL, |w| tuple(w, [10, 65, 0, 11], [192, 0, 2, 1], [7777, 5353]));
            w.nest(TUPLE_REPLY, |w| tuple(w, [192, 0, 2, 1], [10, 0, 2, 2], [5353, 7777]));
            w.be32(3, 0x18e);
            w.be32(ID, 0x0102_0304);
            w.attribute(ZONE, &[0, zone]);
        });
        writer.finish().unwrap()
    }

    fn is_found(addresses: &[&str]) -> bool {
        let bytes = message(7);
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        has_address(messages(&bytes).next().unwrap().body, &addresses)
    }

    #[test]
    fn an_entry_is_found_by_any_of_its_addresses() {
        for address in ["10.65.0.11", "192.0.2.1", "10.0.2.2"] {
            assert!(is_found(&["10.65.0.12", address]), "{address}");
        }
        assert!(!is_found(&["10.65.0.1", "fd65::1"]));
    }

    #[test]
    fn an_entry_tells_both_its_tuples() {
        let bytes = message(0);
        let flow = |source: &str, destination: &str, source_port, destination_port| Flow {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            protocol: 17,
            source_port,
            destination_port,
            icmp: None,
        };
        let expected = Connection {
            original: flow("10.65.0.11", "192.0.2.1", 7777, 5353),
            reply: flow("192.0.2.1", "10.0.2.2", 5353, 7777),
            master: None,
        };
        assert_eq!(decode(messages(&bytes).next().unwrap().body), Some(expected));
        assert_eq!(decode(messages(&message(7)).next().unwrap().body), None, "of a zone");
    }

    /// As a kernel tells echo requests: the number of ICMP's own two attributes differs between the families.
    #[test]
    fn icmp_has_a_type_and_a_code() {
        let v4 = ([10, 65, 0, 11].as_slice(), [192, 0, 2, 1].as_slice());
        let v6 = ([0xfd; 16].as_slice(), [0xfe; 16].as_slice());
        for (protocol, (source, destination), kinds, parts) in [(1, v4, [1, 2], [5, 6]), (58, v6, [3, 4], [8, 9])] {
            let mut writer = Writer::default();
            writer.message(SUBSYSTEM, 0, 1, |w| {
                w.nest(TUPLE_ADDRESSES, |w| {
                    w.attribute(kinds[0], source);
                    w.attribute(kinds[1], destination);
                });
                w.nest(TUPLE_PROTOCOL, |w| {
                    w.attribute(1, &[protocol]);
                    w.attribute(parts[0], &[128]);
                    w.attribute(parts[1], &[3]);
                });
            });
            let bytes = writer.finish().unwrap();
            let found = flow(messages(&bytes).next().unwrap().body).unwrap();
            let octets = |address: IpAddr| match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            assert_eq!((octets(found.source), octets(found.destination)), (source.to_vec(), destination.to_vec()));
            assert_eq!((found.protocol, found.icmp), (protocol, Some((128, 3))));
        }
    }

    /// The tuple is in the form in which `conntrack -D` sends it, which adds parts that the kernel does not look at and leaves out the number.
    #[test]
    fn an_entry_is_removed_by_its_name() {
        let bytes = message(7);
        let name = name(messages(&bytes).next().unwrap().body).unwrap();
        let mut writer = Writer::default();
        writer.message(DELETE, REQUEST | ACK, 9, |w| w.raw(&name.0));
        #[rustfmt::skip]
        let expected: Vec<u8> = [
            &[84, 0, 0, 0, 0x02, 0x01, 0x05, 0, 9, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0][..],
            &[52, 0, 0x01, 0x80],
            &[20, 0, 0x01, 0x80, 8, 0, 1, 0, 10, 65, 0, 11, 8, 0, 2, 0, 192, 0, 2, 1],
            &[28, 0, 0x02, 0x80, 5, 0, 1, 0, 17, 0, 0, 0, 6, 0, 2, 0, 0x1e, 0x61, 0, 0, 6, 0, 3, 0, 0x14, 0xe9, 0, 0],
            &[6, 0, 18, 0, 0, 7, 0, 0],
            &[8, 0, 12, 0, 1, 2, 3, 4],
        ].concat();
        assert_eq!(writer.finish().unwrap()[4..], expected[4..]);
    }

    #[test]
    fn only_the_family_that_is_asked_for_is_listed() {
        let of = |texts: &[&str]| family(&texts.iter().map(|text| text.parse().unwrap()).collect());
        assert_eq!([of(&["10.0.0.1"]), of(&["fd65::1"]), of(&["10.0.0.1", "fd65::1"])], [2, 10, 0]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
            let _ = name(&bytes);
            let _ = has_address(&bytes, &BTreeSet::from([Ipv4Addr::LOCALHOST.into()]));
        }
    }
}
