//! What the graph tells the renderer: one closed vocabulary, emitted in an order that is safe to carry out.
//!
//! Within one flush: sets and their members first, then policies and profiles that refer to them, then endpoints whose stacks
//! refer to those; removals in reverse. Events carry whole values (never patches) except for set members.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use crate::net::{Cidr, Family, InterfaceName, Mac, PortRange};
use crate::resource::{Action, DefaultAction, Icmp, QosControls, ResourceKey};

/// Stable identity of an IP set: the first 16 octets of the SHA-224 of its canonical definition. The same definition has the
/// same id on every host and after every restart, so the kernel's sets are recognised.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SetId([u8; 16]);

impl SetId {
    /// Wraps the octets.
    pub const fn new(octets: [u8; 16]) -> Self {
        Self(octets)
    }

    /// Of the set whose definition has that digest.
    pub(super) fn of_digest(digest: [u8; 28]) -> Self {
        let mut octets = [0; 16];
        octets.iter_mut().zip(digest).for_each(|(octet, byte)| *octet = byte);
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

impl PolicyId {
    /// Whether it is only tried out: its rules are evaluated and counted, and never decide.
    pub const fn is_staged(&self) -> bool {
        self.0.kind().is_staged_policy()
    }
}

/// Identity of a profile: its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a name and nothing else")]
pub struct ProfileId(pub Arc<str>);

/// Identity of a workload or host endpoint: the key of its resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a key and nothing else")]
pub struct EndpointId(pub ResourceKey);

/// The rules of an active policy or profile, selectors replaced by sets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[expect(clippy::exhaustive_structs, reason = "the graph builds it with literals")]
pub struct ActiveRules {
    /// A policy's tier; none for a profile.
    pub tier: Option<Arc<str>>,
    /// For traffic to the endpoint; none when the policy does not govern that direction.
    pub ingress: Vec<ActiveRule>,
    /// For traffic from the endpoint.
    pub egress: Vec<ActiveRule>,
}

/// One rule. All given conditions must hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
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

impl ActiveRule {
    /// The rule that does this to everything: to be narrowed by `..ActiveRule::all(action)`.
    pub fn all(action: Action) -> Self {
        Self {
            action,
            family: None,
            protocol: None,
            not_protocol: None,
            icmp: None,
            not_icmp: None,
            source: ActiveEntity::default(),
            destination: ActiveEntity::default(),
        }
    }
}

/// Conditions on one side of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
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
    /// Its policies in order; not empty. Staged ones stand at their place and decide nothing.
    pub policies: Vec<PolicyId>,
    /// What happens when no rule decides. Pass where all its policies are staged.
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
    /// Floating addresses: the one outside, which is nobody's own, and its own of the same family.
    pub floating: Vec<(IpAddr, IpAddr)>,
    /// Limits on its traffic.
    pub qos: Option<Arc<QosControls>>,
    /// Traffic to it.
    pub ingress: Arc<Stack>,
    /// Traffic from it.
    pub egress: Arc<Stack>,
}

/// A host endpoint of this host that has at least one interface.
///
/// Each policy stands in one of the first three kinds of stack, and in `forward` as well if it says `applyOnForward`
/// (`felix/calc` of upstream; host endpoints of `felix/design`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the graph builds it with literals")]
pub struct ActiveHostEndpoint {
    /// The interfaces that are its own. No other host endpoint has them.
    pub interfaces: HostInterfaces,
    /// Addresses whose packets get a DSCP when they leave the cluster, and which; sorted, none twice.
    pub dscp: Vec<(IpAddr, u8)>,
    /// `doNotTrack` policies. Tiers end in Pass, and there are no profiles: what nothing decides goes on.
    pub untracked: Directions,
    /// `preDNAT` policies, of traffic that comes in. Tiers end in Pass, and there are no profiles.
    pub pre_dnat: Arc<Stack>,
    /// All other policies, for traffic from and to the host itself; then profiles, then drop.
    pub normal: Directions,
    /// Those of them with `applyOnForward`, for traffic through the host; no profiles. A direction without tiers allows.
    pub forward: Directions,
}

/// What is one host endpoint's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the renderer must handle both")]
pub enum HostInterfaces {
    /// These, sorted; not empty.
    Named(Vec<InterfaceName>),
    /// Every interface that is neither a workload's nor another host endpoint's (`interfaceName: "*"`).
    Others,
}

/// A stack for each direction, as seen from the endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the graph builds it with literals")]
pub struct Directions {
    /// Traffic to the host, or into it.
    pub ingress: Arc<Stack>,
    /// Traffic from the host, or out of it.
    pub egress: Arc<Stack>,
}

/// What a host must know of its network beyond endpoints. Each list is sorted, and nothing in it covers another.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the graph builds it with literals")]
pub struct Network {
    /// All pools of workloads, disabled ones too: traffic to them is never masqueraded.
    pub pools: Vec<Cidr>,
    /// Pools whose traffic to elsewhere is masqueraded (`natOutgoing`).
    pub masqueraded: Vec<Cidr>,
    /// Addresses of the cluster's hosts.
    pub hosts: Vec<Cidr>,
    /// Addresses of services (BGPConfiguration `default`: cluster, external and load-balancer ranges): what is forwarded to one of them was
    /// translated by nobody, and would go in circles.
    pub services: Vec<Cidr>,
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
    /// A host endpoint of this host appeared or changed, or its interfaces did. An interface that passes from one to another is announced
    /// with the new one before or after the old one lets go of it.
    HostEndpointSet {
        /// Which.
        id: EndpointId,
        /// Its new state.
        endpoint: Arc<ActiveHostEndpoint>,
    },
    /// A host endpoint is gone, or has no interface any more.
    HostEndpointRemoved(EndpointId),
    /// What is known of the network changed. Until the first, nothing is.
    NetworkSet(Arc<Network>),
}
