//! Addresses of the host.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::socket::RequestSocket;
use super::wire::{Message, Writer, find};

/// `RTM_NEWADDR`.
pub(crate) const NEW: u16 = 20;
/// `RTM_DELADDR`.
pub(crate) const DELETE: u16 = 21;
/// `RTM_GETADDR`.
const GET: u16 = 22;
/// `IFA_LOCAL`, which point-to-point links need; `IFA_ADDRESS`, which is all that IPv6 has.
const OWN: [u16; 2] = [2, 1];
/// Length of a `struct ifaddrmsg`.
const HEADER: usize = 8;

/// All addresses of a namespace.
pub(crate) fn all(socket: &mut RequestSocket) -> io::Result<BTreeSet<IpAddr>> {
    let collect = |found: &mut BTreeSet<IpAddr>, message: Message<'_>| found.extend(own(message.body));
    socket.dump(GET, |w: &mut Writer| w.raw(&[0; HEADER]), collect)
}

/// All addresses of a namespace with the index of their link.
pub(crate) fn by_link(socket: &mut RequestSocket) -> io::Result<Vec<(u32, IpAddr)>> {
    let collect = |found: &mut Vec<_>, message: Message<'_>| found.extend(decode(message.body));
    socket.dump(GET, |w: &mut Writer| w.raw(&[0; HEADER]), collect)
}

/// The index of the link and its own address.
pub(crate) fn decode(body: &[u8]) -> Option<(u32, IpAddr)> {
    Some((index(body)?, own(body)?))
}

fn own(body: &[u8]) -> Option<IpAddr> {
    let parts = body.get(HEADER..)?;
    let value = OWN.into_iter().find_map(|kind| find(parts, kind))?;
    let v4 = || value.try_into().ok().map(|octets: [u8; 4]| Ipv4Addr::from(octets).into());
    v4().or_else(|| value.try_into().ok().map(|octets: [u8; 16]| Ipv6Addr::from(octets).into()))
}

/// The interface's index in a `struct ifaddrmsg`.
fn index(body: &[u8]) -> Option<u32> {
    let [_, _, _, _, index @ ..] = *body.first_chunk::<HEADER>()?;
    Some(u32::from_ne_bytes(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_comes_after_four_bytes() {
        assert_eq!(index(&[&[2, 24, 0, 0][..], &7_u32.to_ne_bytes(), &[1]].concat()), Some(7));
        assert_eq!(index(&[2; 7]), None);
    }
}
