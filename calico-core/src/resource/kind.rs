//! The kinds, their scope and every name an operator may type for them.

use core::fmt;

/// Whether objects of a kind live in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the API has exactly these two scopes")]
pub enum Scope {
    /// One namespace of names for the whole cluster.
    Cluster,
    /// Names are unique within a namespace.
    Namespaced,
}

/// A kind of stored object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// `Node`.
    Node,
    /// `IPPool`.
    IpPool,
    /// `WorkloadEndpoint`.
    WorkloadEndpoint,
    /// `Profile`.
    Profile,
    /// `Tier`.
    Tier,
    /// `NetworkPolicy`.
    NetworkPolicy,
    /// `GlobalNetworkPolicy`.
    GlobalNetworkPolicy,
    /// `NetworkSet`.
    NetworkSet,
    /// `GlobalNetworkSet`.
    GlobalNetworkSet,
    /// `IPAMBlock`.
    IpamBlock,
    /// `BlockAffinity`.
    BlockAffinity,
    /// `IPAMHandle`.
    IpamHandle,
    /// `IPAMConfig`: the single `/calico/ipam/v2/config`.
    IpamConfig,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 13] = [
        Self::Node,
        Self::IpPool,
        Self::WorkloadEndpoint,
        Self::Profile,
        Self::Tier,
        Self::NetworkPolicy,
        Self::GlobalNetworkPolicy,
        Self::NetworkSet,
        Self::GlobalNetworkSet,
        Self::IpamBlock,
        Self::BlockAffinity,
        Self::IpamHandle,
        Self::IpamConfig,
    ];

    /// The name in the document's `kind` field.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::IpPool => "IPPool",
            Self::WorkloadEndpoint => "WorkloadEndpoint",
            Self::Profile => "Profile",
            Self::Tier => "Tier",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::GlobalNetworkPolicy => "GlobalNetworkPolicy",
            Self::NetworkSet => "NetworkSet",
            Self::GlobalNetworkSet => "GlobalNetworkSet",
            Self::IpamBlock => "IPAMBlock",
            Self::BlockAffinity => "BlockAffinity",
            Self::IpamHandle => "IPAMHandle",
            Self::IpamConfig => "IPAMConfig",
        }
    }

    /// The lower-case plural, as in etcd keys and on the command line.
    pub const fn plural(self) -> &'static str {
        match self {
            Self::Node => "nodes",
            Self::IpPool => "ippools",
            Self::WorkloadEndpoint => "workloadendpoints",
            Self::Profile => "profiles",
            Self::Tier => "tiers",
            Self::NetworkPolicy => "networkpolicies",
            Self::GlobalNetworkPolicy => "globalnetworkpolicies",
            Self::NetworkSet => "networksets",
            Self::GlobalNetworkSet => "globalnetworksets",
            Self::IpamBlock => "ipamblocks",
            Self::BlockAffinity => "blockaffinities",
            Self::IpamHandle => "ipamhandles",
            Self::IpamConfig => "ipamconfigs",
        }
    }

    /// Whether objects of this kind live in a namespace.
    pub const fn scope(self) -> Scope {
        match self {
            Self::WorkloadEndpoint | Self::NetworkPolicy | Self::NetworkSet => Scope::Namespaced,
            _ => Scope::Cluster,
        }
    }

    /// Whether this is a v3 resource that operators apply (and not IPAM's own bookkeeping).
    pub const fn is_v3(self) -> bool {
        !matches!(self, Self::IpamBlock | Self::BlockAffinity | Self::IpamHandle | Self::IpamConfig)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
