//! What the graph has to say about objects that it cannot use, or not as written.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::net::{Cidr, InterfaceName};
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
    /// A node has an AS number that nobody may have.
    #[error("its asNumber is 0, which is nobody's (RFC 7607); the node takes no part in BGP")]
    NobodysAs,
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
        "one of its policies is in tier {tier}, which does not exist; it counts as the last tier and denies at its end"
    )]
    MissingTier {
        /// Its name.
        tier: Arc<str>,
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
    /// Endpoints of services are not known.
    #[error("services conditions are not supported without a source of EndpointSlices")]
    Services,
    /// There are two IP versions.
    #[error("ipVersion is {0} and must be 4 or 6")]
    IpVersion(u8),
    /// An ICMP code means nothing without its type.
    #[error("an ICMP code needs a type")]
    IcmpCodeWithoutType,
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
