//! What the graph tells the renderer: one closed vocabulary, emitted in an order that is safe to carry out.
//!
//! Within one flush: sets and their members first, then policies and profiles that refer to them, then endpoints whose stacks
//! refer to those; removals in reverse. Events carry whole values (never patches) except for set members.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use crate::net::{Cidr, Family, InterfaceName, Mac, PortRange};
use crate::resource::{Action, DefaultAction, Icmp, ResourceKey};

/// Stable identity of an IP set: the first 16 octets of the SHA-224 of its canonical definition. The same definition has the
/// same id on every host and after every restart, so the kernel's sets are recognised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId([u8; 16]);

impl SetId {
    /// Wraps the octets.
    pub const fn new(octets: [u8; 16]) -> Self {
        Self(octets)
    }

    /// The octets.
    pub const fn octets(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

impl fmt::Debug for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a set's members are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the renderer must declare a set for each")]
pub enum IpSetKind {
    /// Prefixes and addresses of both families; none covers another (the graph keeps only the widest).
    Net,
    /// Address, protocol and port.
    AddrPort,
}

/// One member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "one variant for each kind of set")]
pub enum Member {
    /// Of [`IpSetKind::Net`].
    Net(Cidr),
    /// Of [`IpSetKind::AddrPort`].
    AddrPort {
        /// Address.
        address: IpAddr,
        /// Protocol number.
        protocol: u8,
        /// Port.
        port: u16,
    },
}

/// Identity of a policy: the key of its resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a key and nothing else")]
pub struct PolicyId(pub ResourceKey);

/// Identity of a profile: its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a name and nothing else")]
pub struct ProfileId(pub Arc<str>);

/// Identity of a workload endpoint: the key of its resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a key and nothing else")]
pub struct EndpointId(pub ResourceKey);

/// The rules of an active policy or profile, selectors replaced by sets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the graph builds it with literals")]
pub struct ActiveRules {
    /// For traffic to the endpoint; none when the policy does not govern that direction.
    pub ingress: Vec<ActiveRule>,
    /// For traffic from the endpoint.
    pub egress: Vec<ActiveRule>,
}

/// One rule. All given conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the graph builds it with literals")]
pub struct ActiveRule {
    /// What it does. `Allow` rules with HTTP conditions never get here (they cannot match in the kernel).
    pub action: Action,
    /// The only family it applies to; none means both.
    pub family: Option<Family>,
    /// Protocol number that must match.
    pub protocol: Option<u8>,
    /// Protocol number that must not match.
    pub not_protocol: Option<u8>,
    /// ICMP type and code that must match. The family follows from protocol or `family`; with neither it is both.
    pub icmp: Option<Icmp>,
    /// ICMP type and code that must not match.
    pub not_icmp: Option<Icmp>,
    /// Conditions on the source.
    pub source: ActiveEntity,
    /// Conditions on the destination.
    pub destination: ActiveEntity,
}

/// Conditions on one side of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the graph builds it with literals")]
pub struct ActiveEntity {
    /// The address lies in one of these; empty means anywhere. May hold both families; a rule with a list
    /// that has nothing of a family does not exist for that family.
    pub nets: Vec<Cidr>,
    /// The address lies in none of these.
    pub not_nets: Vec<Cidr>,
    /// The address is a member of **each** of these [`IpSetKind::Net`] sets.
    pub sets: Vec<SetId>,
    /// The address is a member of **none** of these.
    pub not_sets: Vec<SetId>,
    /// Port alternatives: the port is in one of these ranges, or the triple is in one of `port_sets`. Both empty means any port.
    pub ports: Vec<PortRange>,
    /// Named ports, as [`IpSetKind::AddrPort`] sets over (address, protocol, port) of this side. The graph makes one set of all names.
    pub port_sets: Vec<SetId>,
    /// The port is in none of these ranges …
    pub not_ports: Vec<PortRange>,
    /// … and the triple in none of these sets.
    pub not_port_sets: Vec<SetId>,
}

/// What one direction of an endpoint runs through: tiers in order, then profiles in order, then drop.
///
/// Endpoints with equal stacks share one value, and the renderer gives equal stacks one chain.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[expect(clippy::exhaustive_structs, reason = "the graph builds it with literals")]
pub struct Stack {
    /// Tiers that have a policy for this endpoint in this direction.
    pub tiers: Vec<StackTier>,
    /// Profiles of the endpoint. A profile that does not exist is there too, its rules being a single Deny.
    pub profiles: Vec<ProfileId>,
}

/// One tier of a stack.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the graph builds it with literals")]
pub struct StackTier {
    /// Its name.
    pub name: Arc<str>,
    /// Its policies in order; not empty.
    pub policies: Vec<PolicyId>,
    /// What happens when no rule decides.
    pub default_action: DefaultAction,
}

/// A workload endpoint of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the graph builds it with literals")]
pub struct ActiveEndpoint {
    /// Host-side interface.
    pub interface: InterfaceName,
    /// Workload-side Ethernet address.
    pub mac: Option<Mac>,
    /// Its addresses, as host prefixes.
    pub addresses: Vec<Cidr>,
    /// Further source prefixes that it may use.
    pub allowed_sources: Vec<Cidr>,
    /// Traffic to it.
    pub ingress: Arc<Stack>,
    /// Traffic from it.
    pub egress: Arc<Stack>,
}

/// One thing for the renderer to take in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the renderer must handle every event")]
pub enum Event {
    /// A set became active, with all its members.
    SetAdded {
        /// Which.
        id: SetId,
        /// What its members are.
        kind: IpSetKind,
        /// Members, sorted.
        members: Vec<Member>,
    },
    /// Members came or went. Removals are to be carried out first.
    SetChanged {
        /// Which.
        id: SetId,
        /// New members.
        added: Vec<Member>,
        /// Former members.
        removed: Vec<Member>,
    },
    /// A set is no longer referred to.
    SetRemoved(SetId),
    /// A policy became active or changed.
    PolicySet {
        /// Which.
        id: PolicyId,
        /// Its rules.
        rules: Arc<ActiveRules>,
    },
    /// A policy is no longer referred to.
    PolicyRemoved(PolicyId),
    /// A profile became active or changed.
    ProfileSet {
        /// Which.
        id: ProfileId,
        /// Its rules.
        rules: Arc<ActiveRules>,
    },
    /// A profile is no longer referred to.
    ProfileRemoved(ProfileId),
    /// An endpoint of this host appeared or changed.
    EndpointSet {
        /// Which.
        id: EndpointId,
        /// Its new state.
        endpoint: Arc<ActiveEndpoint>,
    },
    /// An endpoint left this host.
    EndpointRemoved(EndpointId),
}
