//! A synchronous rtnetlink conversation within one namespace.
//!
//! All requests of a batch go to the kernel in one send. The kernel carries them out in order and does not stop at a failing one,
//! so a caller that wants all or nothing undoes what went through.

use std::io;
use std::net::IpAddr;

use calico_core::net::{Cidr, InterfaceName, Mac};
use netlink_packet_core::{NLM_F_DUMP_INTR, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::AddressAttribute;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkInfo as Info, LinkMessage};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use nix::errno::Errno;

use super::request::Request;
use super::{Netns, NetnsError, RequestError};

/// An rtnetlink socket that waits for each batch's answers.
#[derive(Debug)]
pub struct RouteSocket {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

/// A link as the kernel reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LinkInfo {
    /// Its name.
    pub name: InterfaceName,
    /// Index within its namespace.
    pub index: u32,
    /// Index of the peer within the peer's namespace, for a veth.
    pub peer: Option<u32>,
    /// Ethernet address.
    pub mac: Option<Mac>,
    /// Largest packet.
    pub mtu: u32,
    /// Administratively up.
    pub up: bool,
    /// Whether it is one end of a veth pair.
    pub is_veth: bool,
}

/// An address of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct AddressState {
    /// Link.
    pub index: u32,
    /// Address.
    pub address: IpAddr,
    /// Prefix length of its subnet.
    pub length: u8,
}

impl RouteSocket {
    /// Opens a socket in the namespace of the calling thread.
    pub fn open() -> Result<Self, NetnsError> {
        let failed = |error| NetnsError::system("open an rtnetlink socket in", super::handle::OWN, error);
        let mut socket = Socket::new(NETLINK_ROUTE).map_err(failed)?;
        socket.bind_auto().map_err(failed)?;
        socket.connect(&SocketAddr::new(0, 0)).map_err(failed)?;
        // Errors come back without the whole request, and with the kernel's own words. Old kernels know neither option.
        let _ = socket.set_cap_ack(true);
        let _ = socket.set_ext_ack(true);
        Ok(Self { socket, sequence: 0, buffer: Vec::with_capacity(RECEIVE) })
    }

    /// Opens a socket in `netns`. It stays there.
    pub fn open_in(netns: &Netns) -> Result<Self, NetnsError> {
        netns.run(Self::open)?
    }

    /// Carries out all requests, in order. The first failure is returned; later requests have been tried all the same.
    pub fn carry_out(&mut self, requests: &[Request]) -> Result<(), RequestError> {
        self.transact(requests).into_iter().try_for_each(|outcome| outcome.map(drop))
    }

    /// The link called `name`, if there is one.
    pub fn link(&mut self, name: InterfaceName) -> Result<Option<LinkInfo>, RequestError> {
        match self.one(Request::find_link(name)) {
            Ok(replies) => Ok(replies.iter().find_map(LinkInfo::read)),
            Err(error) if error.is_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All addresses of all links.
    pub fn addresses(&mut self) -> Result<Vec<AddressState>, RequestError> {
        Ok(self.one(Request::dump_addresses())?.iter().filter_map(AddressState::read).collect())
    }

    /// Destinations and gateways of the main table's IPv4 or IPv6 routes out of link `index`.
    pub(crate) fn routes_of(
        &mut self,
        index: u32,
        family: AddressFamily,
    ) -> Result<Vec<(Cidr, Option<IpAddr>)>, RequestError> {
        let replies = self.one(Request::dump_routes(family))?;
        Ok(replies
            .iter()
            .filter_map(|message| match message {
                RouteNetlinkMessage::NewRoute(route) => read_route(route, index),
                _ => None,
            })
            .collect())
    }

    fn one(&mut self, request: Request) -> Result<Vec<RouteNetlinkMessage>, RequestError> {
        let no_answer = || RequestError {
            what: "answer a request".into(),
            detail: String::new(),
            source: io::ErrorKind::UnexpectedEof.into(),
        };
        let mut attempts = 0;
        loop {
            let answer = self.transact(std::slice::from_ref(&request)).pop().unwrap_or_else(|| Err(no_answer()));
            attempts += 1;
            match answer {
                // The list changed while it was read: what came may have holes.
                Err(error) if error.is_interrupted() && attempts < DUMP_ATTEMPTS => {}
                answer => return answer,
            }
        }
    }

    fn transact(&mut self, requests: &[Request]) -> Vec<Result<Vec<RouteNetlinkMessage>, RequestError>> {
        let first = self.sequence;
        let mut conversation = Conversation::new(first, requests.len());
        if let Err(error) = self.send(requests).and_then(|()| self.receive(&mut conversation)) {
            conversation.fail(&error);
        }
        conversation.into_outcomes(requests)
    }

    fn send(&mut self, requests: &[Request]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for request in requests {
            let mut header = NetlinkHeader::default();
            header.flags = request.flags;
            header.sequence_number = self.sequence;
            self.sequence = self.sequence.wrapping_add(1);
            let mut message = NetlinkMessage::new(header, NetlinkPayload::from(request.message.clone()));
            message.finalize();
            let start = bytes.len();
            bytes.resize(start + message.buffer_len().next_multiple_of(ALIGN), 0);
            message.serialize(bytes.get_mut(start..).unwrap_or_default());
        }
        self.socket.send(&bytes, 0).map(drop)
    }

    fn receive(&mut self, conversation: &mut Conversation) -> io::Result<()> {
        while conversation.is_waiting() {
            self.buffer.clear();
            match self.socket.recv_from(&mut self.buffer, 0) {
                Ok(_) => conversation.read(&self.buffer)?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Answers to a batch, matched with their requests by sequence number.
struct Conversation {
    first: u32,
    waiting: usize,
    outcomes: Vec<Answer>,
}

#[derive(Default)]
struct Answer {
    replies: Vec<RouteNetlinkMessage>,
    done: bool,
    interrupted: bool,
    error: Option<(io::Error, String)>,
}

impl Conversation {
    fn new(first: u32, count: usize) -> Self {
        Self { first, waiting: count, outcomes: (0..count).map(|_| Answer::default()).collect() }
    }

    const fn is_waiting(&self) -> bool {
        self.waiting > 0
    }

    fn read(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(bytes)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
            let length = usize::try_from(message.header.length).unwrap_or(usize::MAX).max(HEADER);
            bytes = bytes.get(length.next_multiple_of(ALIGN)..).unwrap_or_default();
            let place = usize::try_from(message.header.sequence_number.wrapping_sub(self.first)).unwrap_or(usize::MAX);
            // Notifications, and late answers to a batch that failed, belong to nobody here.
            let Some(answer) = self.outcomes.get_mut(place).filter(|answer| !answer.done) else { continue };
            if message.header.flags & NLM_F_DUMP_INTR != 0 {
                answer.interrupted = true;
            }
            match message.payload {
                NetlinkPayload::InnerMessage(inner) => {
                    answer.replies.push(inner);
                    continue;
                }
                NetlinkPayload::Error(error) => {
                    if let Some(code) = error.code {
                        let source = io::Error::from_raw_os_error(code.get().saturating_abs());
                        answer.error = Some((source, kernel_words(&error.header)));
                    }
                }
                NetlinkPayload::Done(done) if done.code < 0 => {
                    answer.error = Some((io::Error::from_raw_os_error(done.code.saturating_abs()), String::new()));
                }
                NetlinkPayload::Done(_) if answer.interrupted => {
                    answer.error = Some((Errno::EINTR.into(), String::new()));
                }
                NetlinkPayload::Done(_) => {}
                _ => continue,
            }
            answer.done = true;
            self.waiting -= 1;
        }
        Ok(())
    }

    fn fail(&mut self, error: &io::Error) {
        for answer in self.outcomes.iter_mut().filter(|answer| !answer.done) {
            let copy = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
            answer.error = Some((copy, String::new()));
        }
    }

    fn into_outcomes(self, requests: &[Request]) -> Vec<Result<Vec<RouteNetlinkMessage>, RequestError>> {
        self.outcomes
            .into_iter()
            .zip(requests)
            .map(|(answer, request)| match answer.error {
                None => Ok(answer.replies),
                Some((source, detail)) => Err(RequestError { what: request.what.clone(), detail, source }),
            })
            .collect()
    }
}

/// The text attribute of an extended acknowledgement (`NLMSGERR_ATTR_MSG`), which follows the capped request header.
fn kernel_words(after_code: &[u8]) -> String {
    let mut attributes = after_code.get(HEADER..).unwrap_or_default();
    while let Some((header, rest)) = attributes.split_at_checked(4) {
        let [low, high, kind_low, kind_high] = header else { break };
        let length = usize::from(u16::from_ne_bytes([*low, *high]));
        let Some(value) = length.checked_sub(4).and_then(|length| rest.get(..length)) else { break };
        if u16::from_ne_bytes([*kind_low, *kind_high]) == NLMSGERR_ATTR_MSG {
            return String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
        }
        attributes = rest.get((length - 4).next_multiple_of(ALIGN)..).unwrap_or_default();
    }
    String::new()
}

impl LinkInfo {
    fn read(message: &RouteNetlinkMessage) -> Option<Self> {
        let RouteNetlinkMessage::NewLink(link) = message else { return None };
        let mut info = Self {
            name: link_name(link)?,
            index: link.header.index,
            peer: None,
            mac: None,
            mtu: 0,
            up: link.header.flags.contains(LinkFlags::Up),
            is_veth: false,
        };
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::Address(octets) => info.mac = <[u8; 6]>::try_from(octets.as_slice()).ok().map(Mac::new),
                LinkAttribute::Mtu(mtu) => info.mtu = *mtu,
                LinkAttribute::Link(peer) => info.peer = Some(*peer),
                LinkAttribute::LinkInfo(parts) => {
                    info.is_veth = parts.contains(&Info::Kind(netlink_packet_route::link::InfoKind::Veth));
                }
                _ => {}
            }
        }
        Some(info)
    }
}

fn link_name(link: &LinkMessage) -> Option<InterfaceName> {
    link.attributes.iter().find_map(|attribute| match attribute {
        LinkAttribute::IfName(name) => name.parse().ok(),
        _ => None,
    })
}

impl AddressState {
    fn read(message: &RouteNetlinkMessage) -> Option<Self> {
        let RouteNetlinkMessage::NewAddress(message) = message else { return None };
        let find = |wanted: fn(&AddressAttribute) -> Option<IpAddr>| message.attributes.iter().find_map(wanted);
        // On a point-to-point address, which every /32 is, the local one counts. IPv6 has none unless it differs.
        let address = find(|attribute| match attribute {
            AddressAttribute::Local(address) => Some(*address),
            _ => None,
        })
        .or_else(|| {
            find(|attribute| match attribute {
                AddressAttribute::Address(address) => Some(*address),
                _ => None,
            })
        })?;
        Some(Self { index: message.header.index, address, length: message.header.prefix_len })
    }
}

fn read_route(route: &RouteMessage, index: u32) -> Option<(Cidr, Option<IpAddr>)> {
    let mut dest = match route.header.address_family {
        AddressFamily::Inet => IpAddr::from([0; 4]),
        _ => IpAddr::from([0; 16]),
    };
    let (mut gateway, mut out, mut table) = (None, None, u32::from(route.header.table));
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Destination(address) => dest = ip(address)?,
            RouteAttribute::Gateway(address) => gateway = ip(address),
            RouteAttribute::Oif(link) => out = Some(*link),
            RouteAttribute::Table(id) => table = *id,
            _ => {}
        }
    }
    let ours = out == Some(index) && table == MAIN_TABLE;
    Cidr::new(dest, route.header.destination_prefix_length).filter(|_| ours).map(|dest| (dest, gateway))
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

/// Attempts at a list that changes while it is read.
const DUMP_ATTEMPTS: usize = 10;
/// `struct nlmsghdr`.
const HEADER: usize = 16;
/// `NLMSG_ALIGNTO`, `NLA_ALIGNTO`.
const ALIGN: usize = 4;
const NLMSGERR_ATTR_MSG: u16 = 1;
const MAIN_TABLE: u32 = 254;
/// The kernel fills dump datagrams up to 32 KiB.
const RECEIVE: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_packet_core::DoneMessage;

    fn message(flags: u16, payload: NetlinkPayload<RouteNetlinkMessage>) -> Vec<u8> {
        let mut header = NetlinkHeader::default();
        header.sequence_number = 7;
        header.flags = flags;
        let mut message = NetlinkMessage::new(header, payload);
        message.finalize();
        let mut bytes = vec![0; message.buffer_len().next_multiple_of(ALIGN)];
        message.serialize(&mut bytes);
        bytes
    }

    #[test]
    fn a_list_that_changed_while_it_was_read_is_no_answer() {
        let link = || NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(LinkMessage::default()));
        for (flags, sound) in [(0, true), (NLM_F_DUMP_INTR, false)] {
            let mut conversation = Conversation::new(7, 1);
            let done = message(0, NetlinkPayload::Done(DoneMessage::default()));
            conversation.read(&[message(flags, link()), message(0, link()), done].concat()).unwrap();
            assert!(!conversation.is_waiting());
            let answer = conversation.into_outcomes(&[Request::dump_addresses()]).pop().unwrap();
            assert_eq!(answer.as_ref().map(Vec::len).ok(), sound.then_some(2));
            assert_eq!(answer.is_err_and(|error| error.is_interrupted()), !sound);
        }
    }
}
