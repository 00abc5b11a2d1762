//! What others change: notifications of nf_tables, links, addresses, routes, neighbours and traffic control.
//!
//! Our own writes never come back: a notification names the port of the socket whose request caused it, and a filter in the kernel
//! drops those of our two, before they could fill the queue. Lost notifications become [`HostChange::Overrun`].
//!
//! IPv4 routes that vanish with their link, or when it goes down, are not announced by the kernel at all: only the link is.

use std::collections::VecDeque;
use std::io;

use netlink_sys::Socket;
use netlink_sys::protocols::{NETLINK_NETFILTER, NETLINK_ROUTE};
use nix::errno::Errno;
use socket2::{SockFilter, SockRef};
use tokio::io::unix::AsyncFd;

use super::link::{Link, Links};
use super::wire::{Message, REPLACE, messages};
use super::{address, link, neighbor, readiness, route, socket, tc};
use crate::nftables::{Extent, Touched};
use crate::{HostChange, LinkState, LinuxConfig};

use calico_core::net::InterfaceName;
use calico_core::table::Shaper;

/// `NFNLGRP_NFTABLES`.
const GROUP_NFTABLES: u32 = 7;
/// `RTNLGRP_LINK`, `_NEIGH`, `_TC`, `_IPV4_IFADDR`, `_IPV4_ROUTE`, `_IPV6_IFADDR`, `_IPV6_ROUTE`.
const GROUPS_ROUTE: [u32; 7] = [1, 3, 4, 5, 7, 9, 11];
const BUFFER: usize = 64 * 1024;

/// A subscription, from the moment it is opened.
#[derive(Debug)]
pub(crate) struct Monitor {
    ruleset: Source,
    routing: Source,
    buffer: Vec<u8>,
    state: Translator,
    /// Changes of nf_tables are not heard of.
    muted: bool,
}

/// Turns notifications into changes.
#[derive(Debug)]
struct Translator {
    config: LinuxConfig,
    links: Links,
    queue: VecDeque<HostChange>,
    /// Objects of our tables that others touched, to be looked at when they are asked for.
    touched: Touched,
}

/// What was heard.
#[derive(Debug)]
pub(crate) enum News {
    /// A change, whole.
    Change(HostChange),
    /// That [objects](Monitor::touched) were touched.
    Touched,
}

/// A socket that joins the runtime when it is first waited for, so that opening needs none.
#[derive(Debug)]
enum Source {
    Opened(Option<Socket>),
    Waited(AsyncFd<Socket>),
}

impl Monitor {
    /// Subscribes; what sockets of these ports cause is left out.
    pub(crate) fn open(config: LinuxConfig, ruleset_port: u32, routing_port: u32) -> io::Result<Self> {
        Ok(Self {
            ruleset: subscribe(NETLINK_NETFILTER, &[GROUP_NFTABLES], ruleset_port)?,
            routing: subscribe(NETLINK_ROUTE, &GROUPS_ROUTE, routing_port)?,
            buffer: vec![0; BUFFER],
            state: Translator { config, links: Links::default(), queue: VecDeque::new(), touched: Touched::default() },
            muted: false,
        })
    }

    /// Takes over a list of links just read; names of interfaces in later notifications come from it.
    pub(crate) fn know(&mut self, links: Links) {
        self.state.links = links;
    }

    /// Takes over what we did to links.
    pub(crate) fn learn(&mut self, links: Vec<(u32, Option<Link>)>) {
        for (index, link) in links {
            match link {
                Some(link) => self.state.links.insert(link),
                None => self.state.links.remove(index),
            };
        }
    }

    /// Leaves the group of nf_tables, if the kernel lets it: notifications of what others write from now on are missed. Those that are
    /// queued stay.
    pub(crate) fn mute(&mut self) {
        self.muted = self.ruleset.socket().is_some_and(|socket| socket.drop_membership(GROUP_NFTABLES).is_ok());
    }

    /// Joins it again. Where that fails, it is tried again before the next change is waited for.
    pub(crate) fn unmute(&mut self) -> io::Result<()> {
        if self.muted {
            self.ruleset.socket().ok_or(Errno::EBADF)?.add_membership(GROUP_NFTABLES)?;
            self.muted = false;
        }
        Ok(())
    }

    /// Something may have been missed.
    pub(crate) fn missed(&mut self) {
        self.state.push(Some(HostChange::Overrun));
    }

    /// Takes in what the kernel has already told of nf_tables. Then these are the objects that were touched, but where a change that says
    /// more is [next](Self::next).
    pub(crate) fn touched(&mut self) -> io::Result<&Touched> {
        if let Some(socket) = self.ruleset.socket() {
            read(socket, &mut self.buffer, &mut self.state, Translator::ruleset)?;
        }
        Ok(&self.state.touched)
    }

    /// The objects that were touched were looked at.
    pub(crate) fn forget_touched(&mut self) {
        self.state.touched = Touched::default();
    }

    /// What is next. Cancel safe: what was read is queued before anything is waited for.
    pub(crate) async fn next(&mut self) -> io::Result<News> {
        if self.muted {
            self.unmute()?;
            self.missed();
        }
        loop {
            if let Some(change) = self.state.queue.pop_front() {
                return Ok(News::Change(change));
            }
            if !self.state.touched.is_empty() {
                return Ok(News::Touched);
            }
            let Self { ruleset, routing, buffer, state, .. } = self;
            let (ruleset, routing) = (ruleset.wait()?, routing.wait()?);
            tokio::select! {
                guard = ruleset.readable() => {
                    read(ruleset.get_ref(), buffer, state, Translator::ruleset)?;
                    guard?.clear_ready();
                }
                guard = routing.readable() => {
                    read(routing.get_ref(), buffer, state, Translator::routing)?;
                    guard?.clear_ready();
                }
            }
        }
    }
}

impl Source {
    fn socket(&self) -> Option<&Socket> {
        match self {
            Self::Opened(socket) => socket.as_ref(),
            Self::Waited(fd) => Some(fd.get_ref()),
        }
    }

    fn wait(&mut self) -> io::Result<&AsyncFd<Socket>> {
        if let Self::Opened(socket) = self {
            let socket = socket.take().ok_or(Errno::EBADF)?;
            *self = Self::Waited(readiness::register(socket)?);
        }
        match self {
            Self::Waited(fd) => Ok(fd),
            Self::Opened(_) => Err(Errno::EBADF.into()),
        }
    }
}

fn subscribe(protocol: isize, groups: &[u32], own_port: u32) -> io::Result<Source> {
    let (socket, _) = socket::open(protocol)?;
    // First the filter, then the groups: no notification of ours slips in between.
    SockRef::from(&socket).attach_filter(&all_but(own_port))?;
    for group in groups {
        socket.add_membership(*group)?;
    }
    Ok(Source::Opened(Some(socket)))
}

/// Drops datagrams whose first message names this port as the cause. All messages of a datagram have one cause.
fn all_but(port: u32) -> [SockFilter; 4] {
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_EQUAL: u16 = 0x15;
    const RETURN: u16 = 0x06;
    /// Of `nlmsg_pid` in the header.
    const PORT_OFFSET: u32 = 12;
    [
        SockFilter::new(LOAD_WORD, 0, 0, PORT_OFFSET),
        // A filter loads in network order what lies there in host order.
        SockFilter::new(JUMP_IF_EQUAL, 0, 1, port.to_be()),
        SockFilter::new(RETURN, 0, 0, 0),
        SockFilter::new(RETURN, 0, 0, u32::MAX),
    ]
}

/// Reads until the queue is empty.
fn read(
    socket: &Socket,
    buffer: &mut [u8],
    state: &mut Translator,
    translate: fn(&mut Translator, Message<'_>) -> Option<HostChange>,
) -> io::Result<()> {
    loop {
        match socket::receive(socket, buffer) {
            Ok(None) => return Ok(()),
            Ok(Some(datagram)) => {
                for message in messages(datagram) {
                    let change = translate(state, message);
                    state.push(change);
                }
            }
            Err(error) if super::is(&error, &[Errno::ENOBUFS, Errno::EMSGSIZE]) => {
                state.push(Some(HostChange::Overrun))
            }
            Err(error) => return Err(error),
        }
    }
}

impl Translator {
    /// Queues a change; one that only says "look again" or "try again" is not said twice in a row.
    fn push(&mut self, change: Option<HostChange>) {
        let Some(change) = change else { return };
        let only_says_that = matches!(change, HostChange::Ruleset | HostChange::Overrun | HostChange::Shaping { .. });
        let repeated = only_says_that && self.queue.back() == Some(&change);
        if !repeated {
            self.queue.push_back(change);
        }
    }

    fn ruleset(&mut self, message: Message<'_>) -> Option<HostChange> {
        if self.touched.note(message) != Extent::Everything {
            return None;
        }
        self.touched = Touched::default();
        Some(HostChange::Ruleset)
    }

    fn routing(&mut self, message: Message<'_>) -> Option<HostChange> {
        match message.kind {
            link::NEW | link::DELETE => self.link(message),
            route::NEW | route::DELETE => self.route(message),
            neighbor::NEW | neighbor::DELETE => self.neighbor(message),
            address::NEW | address::DELETE => {
                let (index, address) = address::decode(message.body)?;
                let (interface, present) = (self.links.name(index)?, message.kind == address::NEW);
                (!Shaper::is_device(interface)).then_some(())?;
                Some(HostChange::Address { interface, address, present })
            }
            tc::NEW_QDISC | tc::DELETE_QDISC | tc::NEW_FILTER | tc::DELETE_FILTER => self.traffic_control(message),
            _ => None,
        }
    }

    /// Not all of it is about limits: whoever knows which there are tells.
    #[expect(clippy::needless_pass_by_ref_mut, reason = "one signature for all translations")]
    fn traffic_control(&mut self, message: Message<'_>) -> Option<HostChange> {
        let header = tc::Header::read(message.body)?;
        let name = self.links.name(header.index)?;
        let (is_device, is_workload) = (Shaper::is_device(name), self.config.is_workload(name));
        match header.parent {
            tc::ROOT if is_device || is_workload => Some(HostChange::Shaping { device: name }),
            parent if is_workload && parent & tc::INGRESS_HANDLE == tc::INGRESS_HANDLE => {
                Some(HostChange::Shaping { device: Shaper::of_sent(name).device })
            }
            _ => None,
        }
    }

    fn link(&mut self, message: Message<'_>) -> Option<HostChange> {
        let found = link::decode(message.body)?;
        if message.kind == link::DELETE {
            self.links.remove(found.state.index);
            return Some(gone(found.name));
        }
        if Shaper::is_device(found.name) && self.links.get(found.state.index).is_none() && !found.state.up {
            // One of ours on its way out.
            return None;
        }
        let before = self.links.insert(found);
        // A rename is the old name's end.
        let old = before.filter(|before| before.name != found.name);
        self.push(old.map(|old| gone(old.name)));
        if old.is_some() && !self.config.is_workload(found.name) {
            // Its addresses are announced under no name.
            self.push(Some(HostChange::Overrun));
        }
        if Shaper::is_device(found.name) {
            // That one is up is no news, whenever it is told.
            return (!found.state.up).then_some(HostChange::Shaping { device: found.name });
        }
        let same = before.is_some_and(|before| before.name == found.name && before.state == found.state);
        (!same).then_some(HostChange::Link { name: found.name, state: Some(found.state) })
    }

    #[expect(clippy::needless_pass_by_ref_mut, reason = "one signature for all translations")]
    fn route(&mut self, message: Message<'_>) -> Option<HostChange> {
        let found = route::decode(message.body, &self.links)?;
        let written = message.kind == route::NEW;
        // Another's route that took the place of one, maybe ours.
        let replaced = written && message.flags & REPLACE != 0;
        let is_told = found.route.is_some() || replaced;
        let route = found.route.filter(|_| written);
        is_told.then_some(HostChange::Route { key: found.key, route })
    }

    #[expect(clippy::needless_pass_by_ref_mut, reason = "one signature for all translations")]
    fn neighbor(&mut self, message: Message<'_>) -> Option<HostChange> {
        let found = neighbor::decode(message.body, &self.links)?;
        let workload = self.config.is_workload(found.neighbor.interface);
        let present = message.kind == neighbor::NEW && found.permanent;
        workload.then_some(HostChange::Neighbor { neighbor: found.neighbor, present })
    }
}

fn gone(name: InterfaceName) -> HostChange {
    const NONE: Option<LinkState> = None;
    match Shaper::is_device(name) {
        true => HostChange::Shaping { device: name },
        false => HostChange::Link { name, state: NONE },
    }
}
