//! One flow: what the first packet of a connection looks like to a policy. The common question of every evaluator.

use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::net::{Family, InterfaceName};
use crate::resource::ResourceKey;

/// A flow by its addresses, protocol and ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; a new part must break every evaluator")]
pub struct Flow {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same family.
    pub destination: IpAddr,
    /// Protocol number.
    pub protocol: u8,
    /// Source port; 0 for protocols without ports.
    pub source_port: u16,
    /// Destination port; 0 for protocols without ports.
    pub destination_port: u16,
    /// ICMP type and code, for ICMP and ICMPv6.
    pub icmp: Option<(u8, u8)>,
}

impl Flow {
    /// Address family.
    pub const fn family(&self) -> Family {
        Family::of(self.source)
    }

    /// Whether it is ICMPv6 of one of these types.
    pub(crate) fn is_icmpv6(&self, types: &[u8]) -> bool {
        self.protocol == ICMPV6 && self.icmp.is_some_and(|(icmp_type, _)| types.contains(&icmp_type))
    }
}

const ICMPV6: u8 = 58;

/// One packet on its way through one host: the question that a host decides. Policy sees the addresses before destination NAT only where it
/// says so (`preDNAT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; a new part must break every evaluator")]
pub struct Passage<'a> {
    /// Where the packet comes from.
    pub from: Place<'a>,
    /// Where it goes to.
    pub to: Place<'a>,
    /// The packet as it arrives, before destination NAT.
    pub arriving: Flow,
    /// The packet after destination NAT; the same where there is none.
    pub flow: Flow,
    /// What connection tracking says of it.
    pub state: ConnState,
}

/// An end of a [`Passage`], as the host sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "an end is one of these; another would break every evaluator")]
pub enum Place<'a> {
    /// The interface of a workload of this host.
    Workload(&'a ResourceKey),
    /// Another interface of this host.
    Interface(InterfaceName),
    /// The host itself.
    Host,
}

/// What connection tracking says of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[expect(clippy::exhaustive_enums, reason = "the kernel has these states")]
pub enum ConnState {
    /// The first of a connection.
    #[default]
    New,
    /// Of a connection that is known.
    Established,
    /// Of another connection's making.
    Related,
    /// Of none that could be.
    Invalid,
}

/// What happens to a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "traffic goes through or it does not")]
pub enum Decision {
    /// Goes through.
    Allow,
    /// Is dropped.
    Deny,
}

/// One end of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an end is one of these; another would break every evaluator")]
pub enum Party<'a> {
    /// A workload endpoint, by its key.
    Workload(&'a ResourceKey),
    /// A host of the cluster, by its node name.
    Host(&'a str),
    /// Anything else.
    Outside,
}

/// Default endpoint-to-host action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "the parameter has these three values")]
pub enum EndpointToHost {
    /// Drop.
    #[default]
    Drop,
    /// Leave it to other rules of the host.
    Return,
    /// Accept. As nf_tables ends only its own base chain on `accept`, this is the same as [`Self::Return`].
    Accept,
}

/// Settings of hosts that decide about flows, with upstream's defaults.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and `..Default::default()`")]
pub struct Settings {
    /// How names of workload interfaces start: each has one of these. Who has another one is no workload.
    pub workload_prefixes: Vec<InterfaceName>,
    /// What happens to traffic from a workload to its own host that its policy allows.
    pub endpoint_to_host: EndpointToHost,
    /// Whether packets of no possible connection are dropped where there is a policed endpoint.
    pub drop_invalid: bool,
    /// Whether what is forwarded to an address that is still a service's is dropped.
    pub prevent_service_loops: bool,
    /// UDP port of VXLAN.
    pub vxlan_port: u16,
    /// Whether workloads may send VXLAN.
    pub allow_vxlan_from_workloads: bool,
    /// Whether workloads may send IP-in-IP.
    pub allow_ipip_from_workloads: bool,
    /// Whether an endpoint's further source prefixes are honoured.
    pub allow_spoofed_sources: bool,
}

impl Settings {
    /// Whether an interface of this name is a workload's, known or not.
    pub fn is_workload(&self, interface: InterfaceName) -> bool {
        interface.starts_with_any(&self.workload_prefixes)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            workload_prefixes: vec![InterfaceName::CALI],
            endpoint_to_host: EndpointToHost::Drop,
            drop_invalid: true,
            prevent_service_loops: true,
            vxlan_port: 4789,
            allow_vxlan_from_workloads: false,
            allow_ipip_from_workloads: false,
            allow_spoofed_sources: false,
        }
    }
}
