//! The one table of kinds: what each is called, where it lives and which specification it has.
//!
//! Everything that must be the same for every v3 kind is made from it: [`Kind`] and its names, [`Resource`], reading and
//! writing. A new kind is one entry here, its specification's module, its rules in `check`, and its columns in calicoctl.

use alloc::boxed::Box;
use core::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::shape::{Field, Shape, field};
use super::{
    API_VERSION, BgpConfigurationSpec, BgpFilterSpec, BgpPeerSpec, BlockAffinity, BlockAffinitySpec,
    CalicoNodeStatusSpec, CalicoNodeStatusStatus, ClusterInformationSpec, FelixConfigurationSpec,
    GlobalNetworkPolicySpec, HostEndpointSpec, IpPool, IpPoolSpec, IpReservationSpec, IpamBlock, IpamConfig,
    IpamConfigurationSpec, IpamHandle, KubeControllersConfigurationSpec, KubeControllersConfigurationStatus,
    LiveMigrationSpec, Metadata, NetworkPolicySpec, NetworkSetSpec, NodeSpec, NodeStatus, Object, ProfileSpec,
    ReportedObject, StagedGlobalNetworkPolicySpec, StagedKubernetesNetworkPolicySpec, StagedNetworkPolicySpec, Tier,
    TierSpec, WorkloadEndpointSpec, schema,
};

/// Whether objects of a kind live in a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the API has exactly these two scopes")]
pub enum Scope {
    /// One namespace of names for the whole cluster.
    Cluster,
    /// Names are unique within a namespace.
    Namespaced,
}

/// The fields of a specification, and the shape of the status beside it.
pub(super) trait Specification {
    const FIELDS: &'static [Field];
    const STATUS: Shape = Shape::Carried;
}

/// The table's columns: variant, name, plural, scope, further names that an operator may type (upstream's short names and their
/// plurals), specification. Large and rare objects are boxed: every object takes as much room as the largest variant.
macro_rules! kinds {
    (
        operators { $($operators:tt)* }
        internal { $($internal:tt)* }
        ipam { $($ipam:tt)* }
    ) => {
        kinds!(@all v3 { $($operators)* $($internal)* } ipam { $($ipam)* });
        kinds!(@operators $($operators)*);
    };
    (@operators $(
        $(#[$doc:meta])*
        $variant:ident($name:literal, $plural:literal, $scope:ident, [$($alias:literal),*]): $object:ty => $spec:ty;
    )*) => {
        impl Kind {
            /// The v3 resources that operators apply.
            pub const OPERATORS: &[Self] = &[$(Self::$variant,)*];
        }
    };
    (
        @all v3 { $(
            $(#[$doc:meta])*
            $variant:ident($name:literal, $plural:literal, $scope:ident, [$($alias:literal),*]): $object:ty => $spec:ty;
        )* }
        ipam { $(
            $(#[$ipam_doc:meta])*
            $ipam_variant:ident($ipam_name:literal, $ipam_plural:literal, $ipam_shape:ident): $ipam_object:ty;
        )* }
    ) => {
        /// A kind of stored object.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Kind {
            $(#[doc = concat!("`", $name, "`.")] $variant,)*
            $(#[doc = concat!("`", $ipam_name, "` (IPAM v2).")] $ipam_variant,)*
        }

        /// Any object the datastore holds, by kind.
        #[derive(Debug, Clone, PartialEq)]
        #[non_exhaustive]
        pub enum Resource {
            $($(#[$doc])* $variant($object),)*
            $($(#[$ipam_doc])* $ipam_variant($ipam_object),)*
        }

        impl Kind {
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$variant,)* $(Self::$ipam_variant,)*];

            /// The v3 resources: what operators apply, and what only programs read and write.
            pub const V3: &[Self] = &[$(Self::$variant,)*];

            /// The name in the document's `kind` field.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    $(Self::$ipam_variant => $ipam_name,)*
                }
            }

            /// The lower-case plural, as in etcd keys and on the command line.
            pub const fn plural(self) -> &'static str {
                match self {
                    $(Self::$variant => $plural,)*
                    $(Self::$ipam_variant => $ipam_plural,)*
                }
            }

            /// Further names that an operator may type.
            pub const fn aliases(self) -> &'static [&'static str] {
                match self {
                    $(Self::$variant => &[$($alias),*],)*
                    $(Self::$ipam_variant => &[],)*
                }
            }

            /// Whether objects of this kind live in a namespace.
            pub const fn scope(self) -> Scope {
                match self {
                    $(Self::$variant => Scope::$scope,)*
                    $(Self::$ipam_variant => Scope::Cluster,)*
                }
            }

            /// Whether this is a v3 resource (and not IPAM's own bookkeeping).
            pub const fn is_v3(self) -> bool {
                matches!(self, $(Self::$variant)|*)
            }

            /// The shape of this kind's document.
            pub(super) const fn shape(self) -> &'static Shape {
                match self {
                    $(Self::$variant => {
                        const SHAPE: &Shape = &Shape::Struct(
                            &[
                                field("kind", schema::TEXT),
                                field("apiVersion", schema::TEXT),
                                field("metadata", schema::METADATA),
                                field("spec", Shape::Struct(<$spec as Specification>::FIELDS)),
                                field("status", <$spec as Specification>::STATUS),
                            ],
                        );
                        SHAPE
                    })*
                    $(Self::$ipam_variant => &schema::$ipam_shape,)*
                }
            }
        }

        impl Resource {
            /// Its kind.
            pub const fn kind(&self) -> Kind {
                match self {
                    $(Self::$variant(_) => Kind::$variant,)*
                    $(Self::$ipam_variant(_) => Kind::$ipam_variant,)*
                }
            }

            /// Metadata, for v3 objects.
            pub fn metadata(&self) -> Option<&Metadata> {
                match self {
                    $(Self::$variant(object) => Some(&object.metadata),)*
                    $(Self::$ipam_variant(_) => None,)*
                }
            }

            /// Metadata, for v3 objects.
            pub fn metadata_mut(&mut self) -> Option<&mut Metadata> {
                match self {
                    $(Self::$variant(object) => Some(&mut object.metadata),)*
                    $(Self::$ipam_variant(_) => None,)*
                }
            }

            /// Takes over what was reported of `old`, an earlier state of the same object: who writes what is wanted by hand says
            /// nothing of what is.
            pub fn keep_status(&mut self, old: &Self) {
                match (self, old) {
                    $((Self::$variant(object), Self::$variant(old)) => object.keep_status(old),)*
                    _ => {}
                }
            }

            /// The typed view as JSON: v3 objects with kind and version, IPAM's own kinds as they are stored.
            pub(super) fn typed_document(&self) -> Value {
                match self {
                    $(Self::$variant(object) => object.document(Kind::$variant),)*
                    $(Self::$ipam_variant(object) => json_of(object),)*
                }
            }

            /// serde's reading of a document, which stops at the first fault and does not say where it is.
            pub(super) fn read(kind: Kind, value: &Value) -> Result<Self, serde_json::Error> {
                fn of<T: DeserializeOwned>(value: &Value, wrap: fn(T) -> Resource) -> Result<Resource, serde_json::Error> {
                    T::deserialize(value).map(wrap)
                }
                match kind {
                    $(Kind::$variant => of(value, Self::$variant),)*
                    $(Kind::$ipam_variant => of(value, Self::$ipam_variant),)*
                }
            }
        }
    };
}

kinds! {
    operators {
        /// A host.
        Node("Node", "nodes", Cluster, ["no", "nos"]): Box<ReportedObject<NodeSpec, NodeStatus>> => NodeSpec;
        /// A range that workload addresses come from.
        IpPool("IPPool", "ippools", Cluster, ["ipp", "ipps", "pool", "pools"]): IpPool => IpPoolSpec;
        /// A workload's interface.
        WorkloadEndpoint("WorkloadEndpoint", "workloadendpoints", Namespaced, ["wep", "weps"]):
            Object<WorkloadEndpointSpec> => WorkloadEndpointSpec;
        /// A host's own interface.
        HostEndpoint("HostEndpoint", "hostendpoints", Cluster, ["hep", "heps"]): Object<HostEndpointSpec> => HostEndpointSpec;
        /// Default rules and labels that endpoints name.
        Profile("Profile", "profiles", Cluster, ["pro", "pros"]): Object<ProfileSpec> => ProfileSpec;
        /// An ordered group of policies.
        Tier("Tier", "tiers", Cluster, []): Tier => TierSpec;
        /// Policy for endpoints of one namespace.
        NetworkPolicy("NetworkPolicy", "networkpolicies", Namespaced, ["policy", "policies", "np", "pol", "pols"]):
            Object<NetworkPolicySpec> => NetworkPolicySpec;
        /// Policy for endpoints anywhere.
        GlobalNetworkPolicy("GlobalNetworkPolicy", "globalnetworkpolicies", Cluster, ["gnp", "gnps"]):
            Object<GlobalNetworkPolicySpec> => GlobalNetworkPolicySpec;
        /// Labelled prefixes of one namespace.
        NetworkSet("NetworkSet", "networksets", Namespaced, ["netsets"]): Object<NetworkSetSpec> => NetworkSetSpec;
        /// Labelled prefixes.
        GlobalNetworkSet("GlobalNetworkSet", "globalnetworksets", Cluster, ["gnetsets"]):
            Object<NetworkSetSpec> => NetworkSetSpec;
        /// Policy for endpoints of one namespace, tried out.
        StagedNetworkPolicy("StagedNetworkPolicy", "stagednetworkpolicies", Namespaced,
            ["stagedpolicy", "stagedpolicies", "snp", "snps", "spol", "spols"]):
            Box<Object<StagedNetworkPolicySpec>> => StagedNetworkPolicySpec;
        /// Policy for endpoints anywhere, tried out.
        StagedGlobalNetworkPolicy("StagedGlobalNetworkPolicy", "stagedglobalnetworkpolicies", Cluster, ["sgnp", "sgnps"]):
            Box<Object<StagedGlobalNetworkPolicySpec>> => StagedGlobalNetworkPolicySpec;
        /// A Kubernetes policy, tried out.
        StagedKubernetesNetworkPolicy("StagedKubernetesNetworkPolicy", "stagedkubernetesnetworkpolicies", Namespaced,
            ["stagedkubernetespolicy", "stagedkubernetespolicies", "sknp", "sknps", "skpol", "skpols"]):
            Box<Object<StagedKubernetesNetworkPolicySpec>> => StagedKubernetesNetworkPolicySpec;
        /// Addresses that are not handed out.
        IpReservation("IPReservation", "ipreservations", Cluster, ["reservation", "reservations"]):
            Box<Object<IpReservationSpec>> => IpReservationSpec;
        /// How addresses are handed out, as operators write it.
        IpamConfiguration("IPAMConfiguration", "ipamconfigurations", Cluster, ["ipamconfig", "ipamconfigs"]):
            Box<Object<IpamConfigurationSpec>> => IpamConfigurationSpec;
        /// BGP of the cluster or of one node.
        BgpConfiguration("BGPConfiguration", "bgpconfigurations", Cluster, ["bgpconfig", "bgpconfigs"]):
            Box<Object<BgpConfigurationSpec>> => BgpConfigurationSpec;
        /// BGP sessions beside the mesh.
        BgpPeer("BGPPeer", "bgppeers", Cluster, ["bgpp", "bgpps", "bp", "bps"]): Box<Object<BgpPeerSpec>> => BgpPeerSpec;
        /// Which routes a BGP session takes and gives.
        BgpFilter("BGPFilter", "bgpfilters", Cluster, ["bgpf", "bgpfs", "bf", "bfs"]):
            Box<Object<BgpFilterSpec>> => BgpFilterSpec;
        /// Settings of the node agent.
        FelixConfiguration("FelixConfiguration", "felixconfigurations", Cluster, ["felixconfig", "felixconfigs"]):
            Box<Object<FelixConfigurationSpec>> => FelixConfigurationSpec;
        /// Identity and state of the cluster.
        ClusterInformation("ClusterInformation", "clusterinformations", Cluster, ["clusterinfo", "clusterinfos"]):
            Box<Object<ClusterInformationSpec>> => ClusterInformationSpec;
        /// Settings of the controllers that mirror Kubernetes.
        KubeControllersConfiguration("KubeControllersConfiguration", "kubecontrollersconfigurations", Cluster,
            ["kubecontrollersconfig", "kubecontrollersconfigs"]):
            Box<ReportedObject<KubeControllersConfigurationSpec, KubeControllersConfigurationStatus>> => KubeControllersConfigurationSpec;
        /// What a node's BGP is doing, asked for and answered.
        CalicoNodeStatus("CalicoNodeStatus", "caliconodestatuses", Cluster, ["nodestatus", "nodestatuses"]):
            Box<ReportedObject<CalicoNodeStatusSpec, CalicoNodeStatusStatus>> => CalicoNodeStatusSpec;
        /// A virtual machine on its way between hosts.
        LiveMigration("LiveMigration", "livemigrations", Namespaced, []): Box<Object<LiveMigrationSpec>> => LiveMigrationSpec;
    }
    internal {
        /// Claim of a block, as the API has it; upstream's `calicoctl` does not know it.
        ApiBlockAffinity("BlockAffinity", "blockaffinities", Cluster, []): Box<Object<BlockAffinitySpec>> => BlockAffinitySpec;
    }
    ipam {
        /// An allocation block (IPAM v2).
        IpamBlock("IPAMBlock", "ipamblocks", IPAM_BLOCK): IpamBlock;
        /// Claim of a block by a host (IPAM v2).
        BlockAffinity("BlockAffinity", "blockaffinities", BLOCK_AFFINITY): BlockAffinity;
        /// Addresses that one owner holds (IPAM v2).
        IpamHandle("IPAMHandle", "ipamhandles", IPAM_HANDLE): IpamHandle;
        /// Cluster-wide IPAM settings (IPAM v2): the single `/calico/ipam/v2/config`.
        IpamConfig("IPAMConfig", "ipamconfigs", IPAM_CONFIG): IpamConfig;
    }
}

impl Kind {
    /// Whether this kind has a number with a fraction at a place (of any element, in lists). Upstream's reader takes the nearest that there
    /// is for it, and its writer writes that: nothing is lost that upstream would keep.
    pub fn has_fraction_at(self, path: &[&str]) -> bool {
        let place = path.iter().try_fold(self.shape(), |shape, name| shape.elements().member(name));
        place.is_some_and(Shape::reads_fractions)
    }

    /// The v3 kind that an operator means, in any case: its name, plural or an alias.
    pub fn from_user(text: &str) -> Option<Self> {
        Self::OPERATORS.iter().copied().find(|kind| {
            let names = [kind.name(), kind.plural()];
            names.iter().chain(kind.aliases()).any(|name| name.eq_ignore_ascii_case(text))
        })
    }

    /// The v3 kind of exactly this name, as documents give it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::OPERATORS.iter().copied().find(|kind| kind.name() == name)
    }

    /// The name of the v3 kind that was most likely meant by mistyped text.
    pub fn nearest(text: &str) -> Option<Self> {
        let known = || Self::OPERATORS.iter();
        let name = super::fault::nearest(text, known().map(|kind| kind.name()))
            .or_else(|| super::fault::nearest(text, known().map(|kind| kind.plural())))?;
        Self::from_user(name)
    }
}

/// Objects as users see them.
trait Document {
    fn document(&self, kind: Kind) -> Value;

    /// See [`Resource::keep_status`].
    fn keep_status(&mut self, _old: &Self) {}
}

impl<S: Serialize> Document for Object<S> {
    fn document(&self, kind: Kind) -> Value {
        document_of(kind, &self.metadata, &self.spec)
    }
}

impl<S: Serialize, T: Serialize + Clone + Default + PartialEq> Document for ReportedObject<S, T> {
    fn document(&self, kind: Kind) -> Value {
        let mut document = document_of(kind, &self.metadata, &self.spec);
        if self.status != T::default()
            && let Some(members) = document.as_object_mut()
        {
            members.insert("status".into(), json_of(&self.status));
        }
        document
    }

    fn keep_status(&mut self, old: &Self) {
        self.status = old.status.clone();
    }
}

fn document_of<S: Serialize>(kind: Kind, metadata: &Metadata, spec: &S) -> Value {
    json!({
        "kind": kind.name(),
        "apiVersion": API_VERSION,
        "metadata": json_of(metadata),
        "spec": json_of(spec),
    })
}

/// Our types have text keys and finite numbers only, so this cannot fail; null would be refused by every reader.
fn json_of<T: Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
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
        for unknown in ["ipamblock", "blockaffinity", "blockaffinities", "affinity"] {
            assert_eq!(Kind::from_user(unknown), None);
        }
        assert_eq!(Kind::from_name("BlockAffinity"), None);
        assert_eq!(Kind::nearest("GlobalNetworkPolicie"), Some(Kind::GlobalNetworkPolicy));
        assert_eq!(Kind::nearest("Wibble"), None);
    }

    #[test]
    fn only_orders_have_fractions() {
        let spec = |kind: Kind, name| kind.has_fraction_at(&["spec", name]);
        for kind in [Kind::Tier, Kind::NetworkPolicy, Kind::StagedGlobalNetworkPolicy] {
            assert!(spec(kind, "order"), "{kind}");
        }
        for (kind, name) in [(Kind::Node, "order"), (Kind::IpPool, "blockSize"), (Kind::Tier, "defaultAction")] {
            assert!(!spec(kind, name), "{kind} {name}");
        }
        assert!(!Kind::NetworkPolicy.has_fraction_at(&["spec", "ingress", "ipVersion"]));
        assert!(!Kind::NetworkPolicy.has_fraction_at(&["metadata", "generation"]));
        assert!(!Kind::NetworkPolicy.has_fraction_at(&["spec"]));
    }

    #[test]
    fn no_name_means_two_kinds() {
        let names = Kind::V3
            .iter()
            .flat_map(|kind| [kind.name(), kind.plural()].into_iter().chain(kind.aliases().iter().copied()));
        let names: alloc::vec::Vec<_> = names.map(str::to_ascii_lowercase).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
