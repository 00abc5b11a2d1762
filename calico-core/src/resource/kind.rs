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

    /// Further names that an operator may type: upstream's short names and their plurals.
    pub const fn aliases(self) -> &'static [&'static str] {
        match self {
            Self::Node => &["no", "nos"],
            Self::IpPool => &["ipp", "ipps", "pool", "pools"],
            Self::WorkloadEndpoint => &["wep", "weps"],
            Self::Profile => &["pro", "pros"],
            Self::NetworkPolicy => &["policy", "policies", "np", "pol", "pols"],
            Self::GlobalNetworkPolicy => &["gnp", "gnps"],
            Self::NetworkSet => &["netsets"],
            Self::GlobalNetworkSet => &["gnetsets"],
            Self::Tier | Self::IpamBlock | Self::BlockAffinity | Self::IpamHandle | Self::IpamConfig => &[],
        }
    }

    /// The v3 kind that an operator means, in any case: its name, plural or an alias.
    pub fn from_user(text: &str) -> Option<Self> {
        Self::ALL.into_iter().filter(|kind| kind.is_v3()).find(|kind| {
            let names = [kind.name(), kind.plural()];
            names.iter().chain(kind.aliases()).any(|name| name.eq_ignore_ascii_case(text))
        })
    }

    /// The v3 kind of exactly this name, as documents give it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.is_v3() && kind.name() == name)
    }

    /// The name of the v3 kind that was most likely meant by mistyped text.
    pub fn nearest(text: &str) -> Option<Self> {
        let v3 = || Self::ALL.into_iter().filter(|kind| kind.is_v3());
        let name = super::fault::nearest(text, v3().map(Self::name))
            .or_else(|| super::fault::nearest(text, v3().map(Self::plural)))?;
        Self::from_user(name)
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

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn operators_may_type_any_known_name() {
        for (text, kind) in [
            ("gnp", Kind::GlobalNetworkPolicy),
            ("NetworkPolicies", Kind::NetworkPolicy),
            ("WEP", Kind::WorkloadEndpoint),
            ("nodes", Kind::Node),
            ("IPPool", Kind::IpPool),
        ] {
            assert_eq!(Kind::from_user(text), Some(kind));
        }
        assert_eq!(Kind::from_user("ipamblock"), None);
        assert_eq!(Kind::nearest("GlobalNetworkPolicie"), Some(Kind::GlobalNetworkPolicy));
        assert_eq!(Kind::nearest("Wibble"), None);
    }

    #[test]
    fn no_name_means_two_kinds() {
        let names = Kind::ALL
            .iter()
            .flat_map(|kind| [kind.name(), kind.plural()].into_iter().chain(kind.aliases().iter().copied()));
        let names: alloc::vec::Vec<_> = names.map(str::to_ascii_lowercase).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
