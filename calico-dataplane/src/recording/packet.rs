//! A packet at a hook, and what became of it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use calico_core::flow::{Decision, Flow};
use calico_core::net::InterfaceName;
use calico_core::table::{ChainName, CtState, Reject, TcpFlags};

/// A packet at a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Packet {
    /// Interface it came in by.
    pub iif: Option<InterfaceName>,
    /// Interface it goes out by.
    pub oif: Option<InterfaceName>,
    /// Addresses, protocol, ports.
    pub flow: Flow,
    /// Flags of TCP, as they stand in its header.
    pub tcp_flags: u8,
    /// What connection tracking says, or will say once the packet comes by.
    pub ct_state: CtState,
    /// Whether the connection's destination was translated.
    pub translated: bool,
    /// Differentiated services code point.
    pub dscp: u8,
    /// Mark.
    pub mark: u32,
    /// What it says, if it is an ARP packet; such a one has no flow, and the other table sees it.
    pub arp: Option<Arp>,
}

/// What an ARP packet says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Arp {
    /// Whether it answers.
    pub reply: bool,
    /// Address of the sender.
    pub sender: Ipv4Addr,
}

impl Packet {
    /// The first packet of a connection that nothing is peculiar about, from and to no interface.
    pub const fn new(flow: Flow) -> Self {
        Self {
            iif: None,
            oif: None,
            flow,
            tcp_flags: TcpFlags::SYN.bits(),
            ct_state: CtState::NEW,
            translated: false,
            dscp: 0,
            mark: 0,
            arp: None,
        }
    }

    /// An ARP packet, from and to no interface.
    pub const fn arp(arp: Arp) -> Self {
        let (source, destination) = (IpAddr::V4(arp.sender), IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let flow = Flow { source, destination, protocol: 0, source_port: 0, destination_port: 0, icmp: None };
        Self { arp: Some(arp), ..Self::new(flow) }
    }
}

/// What became of a packet, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an answer: what and why")]
pub struct Evaluation {
    /// Whether it went through.
    pub decision: Decision,
    /// How its sender is told, if it went not and the sender is told.
    pub rejected: Option<Reject>,
    /// The packet as it left: translated, marked, untracked.
    pub packet: Packet,
    /// The rules that were carried out to their end, in order.
    pub trace: Vec<Visit>,
}

/// A rule that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an answer: where and what")]
pub struct Visit {
    /// The chain it stands in.
    pub chain: ChainName,
    /// Its text; of a map look-up, also what was found.
    pub rule: String,
}

impl fmt::Display for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.chain, self.rule)
    }
}
