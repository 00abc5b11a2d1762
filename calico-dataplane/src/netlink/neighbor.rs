//! Permanent neighbour entries.

use std::net::IpAddr;

use calico_core::net::Mac;
use calico_core::table::Neighbor;
use netlink_packet_core::Parseable;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};

use super::link::Links;

/// `RTM_NEWNEIGH`.
pub(crate) const NEW: u16 = 28;
/// `RTM_DELNEIGH`.
pub(crate) const DELETE: u16 = 29;
/// `RTM_GETNEIGH`.
pub(crate) const GET: u16 = 30;

/// A neighbour as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decoded {
    pub(crate) neighbor: Neighbor,
    pub(crate) permanent: bool,
}

/// Asks for all neighbours, of both families.
pub(crate) fn dump_request() -> NeighbourMessage {
    NeighbourMessage::default()
}

/// The entry, permanent.
pub(crate) fn encode(neighbor: &Neighbor, index: u32) -> NeighbourMessage {
    let mut message = removal(neighbor, index);
    message.header.state = NeighbourState::Permanent;
    message.attributes.push(NeighbourAttribute::LinkLayerAddress(neighbor.mac.octets().to_vec()));
    message
}

/// Names the entry, for removal.
pub(crate) fn removal(neighbor: &Neighbor, index: u32) -> NeighbourMessage {
    let mut message = NeighbourMessage::default();
    let (family, address) = match neighbor.address {
        IpAddr::V4(address) => (AddressFamily::Inet, NeighbourAddress::Inet(address)),
        IpAddr::V6(address) => (AddressFamily::Inet6, NeighbourAddress::Inet6(address)),
    };
    message.header.family = family;
    message.header.ifindex = index;
    message.attributes.push(NeighbourAttribute::Destination(address));
    message
}

/// Reads an entry of an IP neighbour on a known link; a proxy entry is none. One without an Ethernet address, as it is while being
/// resolved, has the zero one.
pub(crate) fn decode(body: &[u8], links: &Links) -> Option<Decoded> {
    let message = NeighbourMessage::parse(body).ok()?;
    if message.header.flags.contains(NeighbourFlags::Proxy) {
        return None;
    }
    let interface = links.name(message.header.ifindex)?;
    let mut address = None;
    let mut mac = Mac::new([0; 6]);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::Destination(NeighbourAddress::Inet(found)) => address = Some(IpAddr::V4(*found)),
            NeighbourAttribute::Destination(NeighbourAddress::Inet6(found)) => address = Some(IpAddr::V6(*found)),
            NeighbourAttribute::LinkLayerAddress(octets) => {
                mac = octets.as_slice().try_into().map_or(mac, Mac::new);
            }
            _ => {}
        }
    }
    let permanent = message.header.state == NeighbourState::Permanent;
    Some(Decoded { neighbor: Neighbor { interface, address: address?, mac }, permanent })
}

/// How messages call it.
pub(crate) fn name(neighbor: &Neighbor) -> String {
    format!("neighbour {} on {}", neighbor.address, neighbor.interface)
}
