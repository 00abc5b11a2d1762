//! What the graph has to say about objects that it cannot use, or not as written.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use crate::net::{Cidr, CidrError, InterfaceName};
use crate::resource::OneLine;
use crate::resource::{Fault, PolicyType, ResourceKey};
use crate::selector::SelectorError;

/// What is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The value is of another kind than the key says; the object counts as absent.
    #[error("its value is of another kind than its key; it is treated as absent")]
    WrongKind,
    /// A policy's own selector does not parse; the policy counts as absent.
    #[error("{field} does not parse: {error}; the policy is treated as absent")]
    Selector {
        /// Path of the field.
        field: &'static str,
        /// What is wrong with it.
        #[source]
        error: SelectorError,
    },
    /// An entry of a network set cannot be read; the set is without it, and without any others that cannot.
    #[error("{0}; the set is without what cannot be read")]
    Net(#[source] Fault),
    /// Something in the metadata, or of the stored text, cannot be read.
    #[error("{0}; the object counts without what cannot be read")]
    Metadata(#[source] Fault),
    /// A field of an object without rules is not known.
    #[error("{0}; nothing acts on it")]
    UnknownField(#[source] Fault),
    /// A policy has rules of a direction that it does not govern.
    #[error("its types do not name {}, so its {} rules are not carried out", type_name(*.0), direction_name(*.0))]
    Ungoverned(PolicyType),
    /// An endpoint asks for what this host does not do.
    #[error("its {field} are not carried out: {reason}")]
    NotCarriedOut {
        /// The field.
        field: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// One of a workload's limits is none.
    #[error("its qosControls.{field} limits nothing: {reason}")]
    Limit {
        /// The field.
        field: &'static str,
        /// Why not.
        reason: &'static str,
    },
    /// A host endpoint's packets are not marked as its annotation says.
    #[error("its annotation qos.projectcalico.org/dscp is not carried out: {0}")]
    Dscp(String),
    /// Another host endpoint of this host, with a smaller name, wants packets of one of its addresses marked otherwise.
    #[error(
        "its annotation qos.projectcalico.org/dscp is not carried out: packets of {address} are marked as {by} says"
    )]
    MarkTaken {
        /// The address.
        address: IpAddr,
        /// Whose mark counts.
        by: ResourceKey,
    },
    /// A node has an AS number that nobody may have.
    #[error("its asNumber is 0, which is nobody's (RFC 7607); the node takes no part in BGP")]
    NobodysAs,
    /// A range of services' addresses cannot be read.
    #[error("its {field} cannot be read: {error}; they are without it")]
    ServiceRange {
        /// The field.
        field: &'static str,
        /// What is wrong with it.
        #[source]
        error: CidrError,
    },
    /// A range of services' addresses has host bits.
    #[error("its {field} count the whole of {network}: {given} has host bits set")]
    WiderServiceRange {
        /// The field.
        field: &'static str,
        /// As written.
        given: String,
        /// What counts.
        network: Cidr,
    },
    /// An endpoint without addresses counts as absent.
    #[error("it has no ipNetworks; it is treated as absent")]
    NoAddress,
    /// An endpoint without a host-side interface counts as absent.
    #[error("it has no interfaceName; it is treated as absent")]
    NoInterface,
    /// The interface that an endpoint of this host names is not called like a workload's.
    #[error(
        "its interface {interface} is not called like a workload's on this host; it gets neither policy nor route here"
    )]
    ForeignInterface {
        /// The interface.
        interface: InterfaceName,
    },
    /// Another endpoint of this host, with a smaller key, has the same interface.
    #[error("its interface {interface} is taken by {by}; it is inactive until that goes")]
    InterfaceTaken {
        /// The interface.
        interface: InterfaceName,
        /// Who has it.
        by: ResourceKey,
    },
    /// Another endpoint of this host, with an interface that comes first by name, has the same address.
    #[error("its address {} is also that of {by}, whose interface {interface} has the route", address.address())]
    AddressTaken {
        /// The address.
        address: Cidr,
        /// Where the route leads.
        interface: InterfaceName,
        /// Whose interface that is.
        by: ResourceKey,
    },
    /// An endpoint of this host names a profile that does not exist.
    #[error("it does not exist although endpoints of this host name it; it counts as denying everything")]
    MissingProfile,
    /// A policy of the endpoint names a tier that does not exist.
    #[error(
        "one of its policies is in tier {}, which does not exist; it counts as the last tier and denies at its end",
        OneLine(tier)
    )]
    MissingTier {
        /// Its name.
        tier: Arc<str>,
    },
    /// A rule of a staged policy of Kubernetes cannot be said in Calico's words.
    #[error("{0}; the rule is left out")]
    Unconverted(#[source] Fault),
    /// A policy combines what excludes each other.
    #[error("{}", .0.describe())]
    Combination(Combination),
    /// A policy has a hint that is not known.
    #[error("its performanceHints name {}, which is not known; it changes nothing", OneLine(.0))]
    UnknownHint(String),
    /// No interface of this host is the host endpoint's own.
    #[error("no interface of this host is its own; it polices nothing")]
    NoHostInterface,
    /// A host endpoint says neither which interface it is nor which addresses it has.
    #[error("it has neither interfaceName nor expectedIPs; it polices nothing")]
    NoInterfaceGiven,
    /// Another host endpoint of this host, with a smaller name, has the interface.
    #[error("interface {interface} is taken by {by}, which comes first by name")]
    HostInterfaceTaken {
        /// The interface.
        interface: InterfaceName,
        /// Who has it.
        by: ResourceKey,
    },
    /// Another host endpoint for all interfaces of this host has a smaller name.
    #[error("the interfaces that are nobody's are taken by {by}, which comes first by name; it polices nothing")]
    OthersTaken {
        /// Who has them.
        by: ResourceKey,
    },
    /// A host endpoint's interface is called like a workload's.
    #[error("its interface {interface} is called like a workload's, which a host endpoint never polices")]
    WorkloadInterface {
        /// The interface.
        interface: InterfaceName,
    },
    /// A host endpoint's interface cannot be called so.
    #[error("its interfaceName is {0:?}, which no interface is called; it polices nothing")]
    ImpossibleInterface(String),
    /// A named port of a host endpoint has a protocol without ports.
    #[error("its port {} has no protocol with ports, or no number; rules do not know it", OneLine(.0))]
    HostPort(String),
    /// A host endpoint has named ports, and no address that they could be of.
    #[error("its ports are named, but it has no expectedIPs: rules that name them match nothing of it")]
    PortsWithoutAddress,
    /// Another endpoint of this host has the same floating address, for an address of its own that comes first.
    #[error("its floating address {external} leads to {by}, whose interface is {interface}")]
    FloatingTaken {
        /// The address outside.
        external: IpAddr,
        /// Where it leads.
        interface: InterfaceName,
        /// Whose interface that is.
        by: ResourceKey,
    },
    /// A floating address is somebody's own, who would lose what is meant for it.
    #[error("its floating address {external} is not carried out: it is {owner}")]
    FloatingOwned {
        /// The address outside.
        external: IpAddr,
        /// Whose it is.
        owner: Owner,
    },
    /// A floating address that leads nowhere.
    #[error("its floating address {} for {} is not carried out: {reason}", OneLine(external), OneLine(internal))]
    Floating {
        /// The address outside, as written.
        external: String,
        /// The workload's, as written.
        internal: String,
        /// Why not.
        reason: &'static str,
    },
    /// A rule cannot be carried out as written.
    #[error("{} rule {index}: {fault}; the rule {}", direction_name(*.direction), effect.describe())]
    Rule {
        /// Direction of the rule.
        direction: PolicyType,
        /// Position in its list, from zero.
        index: usize,
        /// What about it.
        #[source]
        fault: RuleFault,
        /// What is done instead.
        effect: RuleEffect,
    },
    /// So many more of its rules' problems, which are not listed.
    #[error("and {0} more of its rules")]
    More(usize),
}

/// Whose own an address is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Owner {
    /// This host's: one of its interfaces has it.
    #[error("an address of this host")]
    ThisHost,
    /// That of a host of the cluster, as its Node says.
    #[error("the address of a host of the cluster")]
    Host,
    /// A workload's.
    #[error("the address of {0}")]
    Workload(ResourceKey),
}

/// Why a rule cannot be carried out as written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleFault {
    /// The stored rule has a field or value that this version does not understand.
    #[error("{0}")]
    NotUnderstood(#[source] Fault),
    /// A selector does not parse.
    #[error("{field} does not parse: {error}")]
    Selector {
        /// Path of the field.
        field: &'static str,
        /// What is wrong with it.
        #[source]
        error: SelectorError,
    },
    /// HTTP is invisible to the kernel.
    #[error("http conditions cannot be seen by the kernel")]
    Http,
    /// A condition on services that names none: it lacks the name, or the namespace where the policy has none.
    #[error("its services need a name, and a namespace in what has none itself")]
    Services,
    /// Nobody tells this host what stands behind services.
    #[error("this host is not told what stands behind services")]
    UnknownServices,
    /// The ports behind a service are the service's.
    #[error("services of a destination cannot be combined with ports")]
    ServicesWithPorts,
    /// There are two IP versions.
    #[error("ipVersion is {0} and must be 4 or 6")]
    IpVersion(u8),
    /// An ICMP code means nothing without its type.
    #[error("an ICMP code needs a type")]
    IcmpCodeWithoutType,
}

/// What a global policy combines although it excludes each other. The API takes none of them, and rules of a stored one allow nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Combination {
    /// It counts as `doNotTrack`.
    UntrackedPreDnat,
    /// Only its ingress rules are carried out.
    EgressPreDnat,
    /// Forwarded traffic meets it all the same.
    NotOnForward,
}

impl Combination {
    const fn describe(self) -> &'static str {
        match self {
            Self::UntrackedPreDnat => "doNotTrack and preDNAT exclude each other; it counts as doNotTrack",
            Self::EgressPreDnat => "a preDNAT policy cannot govern Egress, and does not",
            Self::NotOnForward => "doNotTrack and preDNAT need applyOnForward, and forwarded traffic meets them anyway",
        }
    }
}

/// How a faulty rule fails closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a rule that cannot be carried out either lets less through or blocks more"
)]
pub enum RuleEffect {
    /// The rule is left out: it would have let something through (or logged it).
    LeftOut,
    /// The rule denies without the faulty condition: a Deny denies more, and a Pass denies what it would have handed on.
    Denies,
}

impl RuleEffect {
    const fn describe(self) -> &'static str {
        match self {
            Self::LeftOut => "is left out",
            Self::Denies => "denies without that condition",
        }
    }
}

const fn type_name(direction: PolicyType) -> &'static str {
    match direction {
        PolicyType::Ingress => "Ingress",
        PolicyType::Egress => "Egress",
    }
}

const fn direction_name(direction: PolicyType) -> &'static str {
    match direction {
        PolicyType::Ingress => "ingress",
        PolicyType::Egress => "egress",
    }
}

/// Which node of the graph found a problem; each replaces only its own findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Finder {
    Addresses,
    Admit,
    Dispatch,
    Marks,
    Order,
    Scan,
}

/// All current problems.
#[derive(Debug, Default)]
pub(super) struct Diagnostics {
    problems: BTreeMap<(ResourceKey, Finder), Vec<Problem>>,
    revision: u64,
}

impl Diagnostics {
    pub(super) fn set(&mut self, key: &ResourceKey, finder: Finder, problems: Vec<Problem>) {
        if problems.is_empty() && self.problems.is_empty() {
            return;
        }
        let key = (key.clone(), finder);
        let unchanged = match self.problems.get(&key) {
            Some(former) => *former == problems,
            None => problems.is_empty(),
        };
        if unchanged {
            return;
        }
        self.revision += 1;
        if problems.is_empty() {
            self.problems.remove(&key);
        } else {
            self.problems.insert(key, problems);
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&ResourceKey, &Problem)> {
        self.problems.iter().flat_map(|((key, _), problems)| problems.iter().map(move |problem| (key, problem)))
    }

    pub(super) const fn revision(&self) -> u64 {
        self.revision
    }
}
