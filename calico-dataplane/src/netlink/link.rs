//! Links: names, indices and whether they are up.

use std::collections::{BTreeMap, HashMap};

use calico_core::net::InterfaceName;
use calico_core::table::Shaper;
use netlink_packet_core::Parseable;
use netlink_packet_route::AddressFamily;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkExtentMask, LinkFlags, LinkInfo, LinkMessage};

use crate::LinkState;

/// `RTM_NEWLINK`.
pub(crate) const NEW: u16 = 16;
/// `RTM_DELLINK`.
pub(crate) const DELETE: u16 = 17;
/// `RTM_GETLINK`.
pub(crate) const GET: u16 = 18;

/// A link as read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    pub(crate) name: InterfaceName,
    pub(crate) state: LinkState,
    /// Whether it gives back what is sent to it, as if it had been received.
    pub(crate) is_ifb: bool,
}

impl Link {
    /// Whether it exists to limit what a workload sends.
    pub(crate) fn is_shaper(&self) -> bool {
        self.is_ifb && Shaper::is_device(self.name)
    }
}

/// Links by index.
#[derive(Debug, Default)]
pub(crate) struct Links(HashMap<u32, Link>);

impl Links {
    /// Adds or replaces a link, and returns the one that had its index.
    pub(crate) fn insert(&mut self, link: Link) -> Option<Link> {
        self.0.insert(link.state.index, link)
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<Link> {
        self.0.remove(&index)
    }

    pub(crate) fn name(&self, index: u32) -> Option<InterfaceName> {
        self.0.get(&index).map(|link| link.name)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&Link> {
        self.0.get(&index)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Link> {
        self.0.values()
    }

    /// All but devices of limits on bandwidth.
    pub(crate) fn by_name(&self) -> BTreeMap<InterfaceName, LinkState> {
        self.0.values().filter(|link| !Shaper::is_device(link.name)).map(|link| (link.name, link.state)).collect()
    }
}

/// Asks for all links, without the statistics that make up most of an answer.
pub(crate) fn dump_request() -> LinkMessage {
    let mut message = LinkMessage::default();
    message.attributes.push(LinkAttribute::ExtMask(vec![LinkExtentMask::SkipStats]));
    message
}

/// Asks for the link of a name.
pub(crate) fn request(interface: InterfaceName) -> LinkMessage {
    let mut message = dump_request();
    message.attributes.push(LinkAttribute::IfName(interface.as_str().to_owned()));
    message
}

/// Asks for the link of an index.
pub(crate) fn request_by_index(index: u32) -> LinkMessage {
    let mut message = dump_request();
    message.header.index = index;
    message
}

/// Makes a device that gives back what is sent to it, or sets one that is there (`index`), up.
pub(crate) fn ifb(name: InterfaceName, index: u32, mtu: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    message.attributes.push(LinkAttribute::Mtu(mtu));
    if index == 0 {
        message.attributes.push(LinkAttribute::IfName(name.as_str().to_owned()));
        message.attributes.push(LinkAttribute::LinkInfo(vec![LinkInfo::Kind(InfoKind::Ifb)]));
    }
    message
}

/// Names a link, for removal.
pub(crate) fn removal(index: u32) -> LinkMessage {
    let mut message = LinkMessage::default();
    message.header.index = index;
    message
}

/// Reads a link; a bridge's view of its port is none.
pub(crate) fn decode(body: &[u8]) -> Option<Link> {
    let message = LinkMessage::parse(body).ok()?;
    (message.header.interface_family == AddressFamily::Unspec).then_some(())?;
    let name = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => name.parse().ok(),
        _ => None,
    })?;
    let up = message.header.flags.contains(LinkFlags::Up);
    let mtu = message.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::Mtu(mtu) => Some(*mtu),
        _ => None,
    });
    let is_ifb = message.attributes.iter().any(|attribute| match attribute {
        LinkAttribute::LinkInfo(infos) => infos.contains(&LinkInfo::Kind(InfoKind::Ifb)),
        _ => false,
    });
    let state = LinkState { index: message.header.index, up, mtu: mtu.unwrap_or_default() };
    Some(Link { name, state, is_ifb })
}
