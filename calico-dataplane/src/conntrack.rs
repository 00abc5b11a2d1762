//! The kernel's memory of connections, of which those of some addresses are to be forgotten.
//!
//! One look at the whole table for any number of addresses, matched here, then one removal for each entry found, many in a datagram.
//! The kernel could do both in one request only for one address and one direction at a time, and since Linux 6.11 only.
//!
//! An entry is named as the kernel told it: its original tuple, zone and number. With the number, one that was made since with
//! the same tuple is another, and stays.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::errno::Errno;
use nix::libc;

use crate::DataplaneError;
use crate::netlink::batch::Batch;
use crate::netlink::socket::RequestSocket;
use crate::netlink::wire::{Message, Writer, attributes, find};

/// `NFNL_SUBSYS_CTNETLINK`.
const SUBSYSTEM: u16 = 1 << 8;
const GET: u16 = SUBSYSTEM | 1;
const DELETE: u16 = SUBSYSTEM | 2;

const TUPLE_ORIGINAL: u16 = 1;
const TUPLE_REPLY: u16 = 2;
const ID: u16 = 12;
const ZONE: u16 = 18;
/// Within a tuple: its two addresses, whose kinds tell family and end.
const TUPLE_ADDRESSES: u16 = 1;

/// There if the kernel tracks connections, in any namespace.
const TRACKS: &str = "/proc/sys/net/netfilter/nf_conntrack_max";

/// Connection tracking of one network namespace.
#[derive(Debug)]
pub(crate) struct Connections {
    socket: RequestSocket,
}

/// What names an entry.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    family: u8,
    original: Vec<u8>,
    zone: Option<Vec<u8>>,
    id: Option<Vec<u8>>,
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
        let family = family(&addresses);
        let collect = |found: &mut Vec<Entry>, message: Message<'_>| found.extend(decode(message.body, &addresses));
        let found = match self.socket.dump(GET, |w| w.raw(&[family, 0, 0, 0]), collect) {
            Ok(found) => found,
            Err(error) if error.raw_os_error() == Some(Errno::EINVAL as i32) => return unknown_subsystem(),
            Err(error) => return Err(kernel("list", "tracked connections")(error)),
        };
        let mut batch = Batch::new(&mut self.socket);
        for (tag, entry) in found.iter().enumerate() {
            batch.push(tag, DELETE, 0, |w| encode(entry, w));
        }
        let failures = batch.finish().into_iter().map(|(_, error)| error);
        // What has ended by itself is as wanted.
        let mut refused = failures.filter(|error| error.raw_os_error() != Some(Errno::ENOENT as i32));
        refused.next().map_or(Ok(()), |error| Err(kernel("remove", "tracked connections")(error)))
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

/// The entry that a message tells, if it has one of the addresses.
fn decode(body: &[u8], addresses: &BTreeSet<IpAddr>) -> Option<Entry> {
    let ([family, ..], parts) = body.split_first_chunk::<4>()?;
    let original = find(parts, TUPLE_ORIGINAL)?;
    let has_one = |tuple: &[u8]| ends(tuple).any(|address| addresses.contains(&address));
    if !has_one(original) && !find(parts, TUPLE_REPLY).is_some_and(has_one) {
        return None;
    }
    let copy = |kind| find(parts, kind).map(<[u8]>::to_vec);
    Some(Entry { family: *family, original: original.to_vec(), zone: copy(ZONE), id: copy(ID) })
}

/// Both addresses of a tuple.
fn ends(tuple: &[u8]) -> impl Iterator<Item = IpAddr> {
    let addresses = find(tuple, TUPLE_ADDRESSES).unwrap_or_default();
    attributes(addresses).filter_map(|(_, value)| {
        let v4 = || value.try_into().ok().map(|octets: [u8; 4]| Ipv4Addr::from(octets).into());
        v4().or_else(|| value.try_into().ok().map(|octets: [u8; 16]| Ipv6Addr::from(octets).into()))
    })
}

fn encode(entry: &Entry, w: &mut Writer) {
    w.raw(&[entry.family, 0, 0, 0]);
    w.nest(TUPLE_ORIGINAL, |w| w.raw(&entry.original));
    if let Some(zone) = &entry.zone {
        w.attribute(ZONE, zone);
    }
    if let Some(id) = &entry.id {
        w.attribute(ID, id);
    }
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
    fn message() -> Vec<u8> {
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
            w.attribute(ZONE, &[0, 7]);
        });
        writer.finish().unwrap()
    }

    fn found(addresses: &[&str]) -> Option<Entry> {
        let bytes = message();
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        decode(messages(&bytes).next().unwrap().body, &addresses)
    }

    #[test]
    fn an_entry_is_found_by_any_of_its_addresses() {
        for address in ["10.65.0.11", "192.0.2.1", "10.0.2.2"] {
            assert!(found(&["10.65.0.12", address]).is_some(), "{address}");
        }
        assert_eq!(found(&["10.65.0.1", "fd65::1"]), None);
    }

    /// The tuple is in the form in which `conntrack -D` sends it, which adds parts that the kernel does not look at and leaves out the number.
    #[test]
    fn an_entry_is_removed_by_its_name() {
        let entry = found(&["10.0.2.2"]).unwrap();
        let mut writer = Writer::default();
        writer.message(DELETE, REQUEST | ACK, 9, |w| encode(&entry, w));
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
            let _ = decode(&bytes, &BTreeSet::from([Ipv4Addr::LOCALHOST.into()]));
        }
    }
}
