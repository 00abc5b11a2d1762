//! Which columns the tables of each kind have.

use calico_core::net::AsNumber;
use calico_core::resource::{
    BgpConfigurationSpec, BgpFilterSpec, BgpPeerSpec, ClusterInformationSpec, HostEndpointSpec, IpNat, IpPoolSpec,
    IpamConfigurationSpec, Kind, LabelRequirement, LabelSelector, NodeBgpSpec, Resource, Scope, WorkloadEndpointSpec,
    shown_number,
};

/// A column: its heading and how to fill it.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    cell: Cell,
}

#[derive(Clone, Copy)]
enum Cell {
    Own(fn(&Resource) -> String),
    /// What the resource says, or the AS number of its cluster.
    OwnOrCluster(fn(&Resource, &str) -> String),
}

impl Column {
    pub(super) fn cell(&self, resource: &Resource, as_number: &str) -> String {
        match self.cell {
            Cell::Own(cell) => cell(resource),
            Cell::OwnOrCluster(cell) => cell(resource, as_number),
        }
    }
}

const fn column(heading: &'static str, cell: fn(&Resource) -> String) -> Column {
    Column { heading, cell: Cell::Own(cell) }
}

/// The namespace of a resource.
pub(super) const NAMESPACE: Column = column("NAMESPACE", |resource| {
    resource.metadata().and_then(|metadata| metadata.namespace.clone()).unwrap_or_default()
});
/// A column that no table has unless it is asked for.
const ORCHESTRATOR: Column =
    column("ORCHESTRATOR", |resource| endpoint(resource, |endpoint| endpoint.orchestrator.to_string()));

/// Longest list in a cell.
const MAX_CELL: usize = 80;

const NAME: Column = column("NAME", |resource| super::shown_name(resource).to_owned());

const POLICY: &[Column] = &[NAME, column("TIER", |resource| resource.tier().unwrap_or_default().to_owned())];
const POLICY_WIDE: &[Column] = &[
    NAME,
    column("TIER", |resource| resource.tier().unwrap_or_default().to_owned()),
    column("ORDER", order),
    column("SELECTOR", |resource| match resource {
        Resource::NetworkPolicy(policy) => policy.spec.selector.clone(),
        Resource::GlobalNetworkPolicy(policy) => policy.spec.selector.clone(),
        Resource::StagedNetworkPolicy(policy) => policy.spec.policy.selector.clone(),
        Resource::StagedGlobalNetworkPolicy(policy) => policy.spec.policy.selector.clone(),
        _ => String::new(),
    }),
];
const POD_POLICY_WIDE: &[Column] = &[
    NAME,
    column("PODSELECTOR", |resource| match resource {
        Resource::StagedKubernetesNetworkPolicy(policy) => labels(&policy.spec.pod_selector),
        _ => String::new(),
    }),
];
const TIER: &[Column] = &[NAME, column("ORDER", order)];
const NET_SET: &[Column] = &[NAME];
const NET_SET_WIDE: &[Column] = &[
    NAME,
    column("NETS", |resource| match resource {
        Resource::NetworkSet(set) | Resource::GlobalNetworkSet(set) => cut(&joined(&set.spec.nets)),
        _ => String::new(),
    }),
];
const POOL: &[Column] = &[NAME, POOL_CIDR, POOL_SELECTOR];
const POOL_WIDE: &[Column] = &[
    NAME,
    POOL_CIDR,
    column("NAT", |resource| pool(resource, |pool| pool.nat_outgoing.to_string())),
    column("IPIPMODE", |resource| pool(resource, |pool| format!("{:?}", pool.ipip_mode))),
    column("VXLANMODE", |resource| pool(resource, |pool| format!("{:?}", pool.vxlan_mode))),
    column("DISABLED", |resource| pool(resource, |pool| pool.disabled.to_string())),
    column("DISABLEBGPEXPORT", |resource| pool(resource, |pool| pool.disable_bgp_export.to_string())),
    POOL_SELECTOR,
    column("ASSIGNMENTMODE", |resource| pool(resource, |pool| format!("{:?}", pool.assignment_mode))),
];
const POOL_CIDR: Column = column("CIDR", |resource| pool(resource, |pool| pool.cidr.to_string()));
const POOL_SELECTOR: Column =
    column("SELECTOR", |resource| pool(resource, |pool| pool.node_selector.clone().unwrap_or_else(|| "all()".into())));
const NODE: &[Column] = &[NAME];
const NODE_WIDE: &[Column] = &[
    NAME,
    NODE_ASN,
    column("IPV4", |resource| {
        bgp(resource).and_then(|bgp| bgp.ipv4_address).map_or_else(String::new, |ip| ip.to_string())
    }),
    column("IPV6", |resource| {
        bgp(resource).and_then(|bgp| bgp.ipv6_address).map_or_else(String::new, |ip| ip.to_string())
    }),
];
/// In parentheses when the node has the cluster's number; of a node that takes no part in BGP, none.
const NODE_ASN: Column = Column {
    heading: "ASN",
    cell: Cell::OwnOrCluster(|resource, as_number| {
        bgp(resource).map_or_else(String::new, |bgp| {
            bgp.as_number.map_or_else(|| format!("({as_number})"), |own| own.to_string())
        })
    }),
};
const PROFILE: &[Column] = &[NAME];
const PROFILE_WIDE: &[Column] = &[
    NAME,
    column("LABELS", |resource| match resource {
        Resource::Profile(profile) => {
            let labels: Vec<String> =
                profile.spec.labels_to_apply.iter().map(|(key, value)| format!("{key}={value}")).collect();
            cut(&joined(&labels))
        }
        _ => String::new(),
    }),
];
const ENDPOINT: &[Column] = &[WORKLOAD, ENDPOINT_NODE, NETWORKS, INTERFACE];
const ENDPOINT_WIDE: &[Column] = &[
    NAME,
    WORKLOAD,
    ENDPOINT_NODE,
    NETWORKS,
    INTERFACE,
    column("PROFILES", |resource| endpoint(resource, |endpoint| joined(&endpoint.profiles))),
    column("NATS", |resource| {
        let nat = |nat: &IpNat| format!("{}={}", nat.external_ip, nat.internal_ip);
        endpoint(resource, |endpoint| joined(&endpoint.ip_nats.iter().map(nat).collect::<Vec<_>>()))
    }),
];
const HOST_ENDPOINT: &[Column] = &[NAME, HOST_ENDPOINT_NODE];
const HOST_ENDPOINT_WIDE: &[Column] = &[
    NAME,
    HOST_ENDPOINT_NODE,
    column("INTERFACE", |resource| host_endpoint(resource, |endpoint| endpoint.interface_name.clone())),
    column("IPS", |resource| host_endpoint(resource, |endpoint| joined(&endpoint.expected_ips))),
    column("PROFILES", |resource| host_endpoint(resource, |endpoint| joined(&endpoint.profiles))),
];
const HOST_ENDPOINT_NODE: Column = column("NODE", |resource| host_endpoint(resource, |endpoint| endpoint.node.clone()));
const WORKLOAD: Column = column("WORKLOAD", |resource| {
    endpoint(resource, |endpoint| {
        let names = [&endpoint.workload, &endpoint.pod, &endpoint.container_id];
        names.into_iter().find(|name| !name.is_empty()).map(ToString::to_string).unwrap_or_default()
    })
});
const ENDPOINT_NODE: Column = column("NODE", |resource| endpoint(resource, |endpoint| endpoint.node.to_string()));
const NETWORKS: Column = column("NETWORKS", |resource| endpoint(resource, |endpoint| joined(&endpoint.ip_networks)));
const INTERFACE: Column = column("INTERFACE", |resource| {
    endpoint(resource, |endpoint| endpoint.interface_name.map_or_else(String::new, |name| name.to_string()))
});

const BGP_CONFIGURATION: &[Column] = &[
    NAME,
    column("LOGSEVERITY", |resource| bgp_configuration(resource, |bgp| bgp.log_severity_screen.clone())),
    column("MESHENABLED", |resource| bgp_configuration(resource, |bgp| or_dash(bgp.node_to_node_mesh_enabled))),
    column("ASNUMBER", |resource| bgp_configuration(resource, |bgp| or_dash(bgp.as_number))),
];
const BGP_PEER: &[Column] = &[
    NAME,
    column("PEERIP", |resource| bgp_peer(resource, |peer| peer.peer_ip.clone())),
    column("NODE", |resource| {
        bgp_peer(resource, |peer| match (peer.node.as_str(), peer.node_selector.as_str()) {
            ("", "") => "(global)".to_owned(),
            ("", selector) => selector.to_owned(),
            (node, _) => node.to_owned(),
        })
    }),
    column("ASN", |resource| bgp_peer(resource, |peer| peer.as_number.map_or(0, AsNumber::value).to_string())),
];
const BGP_FILTER: &[Column] = &[
    NAME,
    column("NUMEXPORTV4", |resource| bgp_filter(resource, |filter| filter.export_v4.len().to_string())),
    column("NUMIMPORTV4", |resource| bgp_filter(resource, |filter| filter.import_v4.len().to_string())),
    column("NUMEXPORTV6", |resource| bgp_filter(resource, |filter| filter.export_v6.len().to_string())),
    column("NUMIMPORTV6", |resource| bgp_filter(resource, |filter| filter.import_v6.len().to_string())),
];
const NODE_STATUS: &[Column] = &[NAME, NODE_STATUS_NODE];
const NODE_STATUS_WIDE: &[Column] = &[
    NAME,
    NODE_STATUS_NODE,
    column("CLASSES", |resource| match resource {
        Resource::CalicoNodeStatus(status) => {
            status.spec.classes.iter().map(|class| format!("{class:?}")).collect::<Vec<_>>().join(",")
        }
        _ => String::new(),
    }),
];
const NODE_STATUS_NODE: Column = column("NODE", |resource| match resource {
    Resource::CalicoNodeStatus(status) => status.spec.node.clone(),
    _ => String::new(),
});
const CLUSTER: &[Column] = &[
    NAME,
    column("CLUSTERGUID", |resource| cluster(resource, |cluster| cluster.cluster_guid.clone())),
    column("CLUSTERTYPE", |resource| cluster(resource, |cluster| cluster.cluster_type.clone())),
    column("CALICOVERSION", |resource| cluster(resource, |cluster| cluster.calico_version.clone())),
    column("DATASTOREREADY", |resource| {
        cluster(resource, |cluster| cluster.datastore_ready.map_or_else(String::new, |ready| ready.to_string()))
    }),
];
const IPAM: &[Column] = &[NAME, IPAM_STRICT, IPAM_AUTO];
const IPAM_WIDE: &[Column] = &[
    NAME,
    IPAM_STRICT,
    IPAM_AUTO,
    column("MAXBLOCKSPERHOST", |resource| ipam(resource, |ipam| ipam.max_blocks_per_host.unwrap_or(0).to_string())),
];
const IPAM_STRICT: Column =
    column("STRICTAFFINITY", |resource| ipam(resource, |ipam| ipam.strict_affinity.unwrap_or(false).to_string()));
const IPAM_AUTO: Column = column("AUTOALLOCATEBLOCKS", |resource| {
    ipam(resource, |ipam| ipam.auto_allocate_blocks.unwrap_or(true).to_string())
});
const RESERVATION_WIDE: &[Column] = &[
    NAME,
    column("CIDRS", |resource| match resource {
        Resource::IpReservation(reservation) => cut(&joined(&reservation.spec.reserved_cidrs)),
        _ => String::new(),
    }),
];

/// Every column that a kind has.
pub(super) fn all(kind: Kind) -> Vec<Column> {
    let namespaced = (kind.scope() == Scope::Namespaced).then_some(NAMESPACE);
    let hidden = (kind == Kind::WorkloadEndpoint).then_some(ORCHESTRATOR);
    namespaced.into_iter().chain(of(kind, true).iter().copied()).chain(hidden).collect()
}

/// The columns of a kind's table.
pub(super) const fn of(kind: Kind, wide: bool) -> &'static [Column] {
    match (kind, wide) {
        (
            Kind::NetworkPolicy
            | Kind::GlobalNetworkPolicy
            | Kind::StagedNetworkPolicy
            | Kind::StagedGlobalNetworkPolicy,
            wide,
        ) => {
            if wide {
                POLICY_WIDE
            } else {
                POLICY
            }
        }
        (Kind::StagedKubernetesNetworkPolicy, true) => POD_POLICY_WIDE,
        (Kind::HostEndpoint, false) => HOST_ENDPOINT,
        (Kind::HostEndpoint, true) => HOST_ENDPOINT_WIDE,
        (Kind::BgpConfiguration, _) => BGP_CONFIGURATION,
        (Kind::BgpPeer, _) => BGP_PEER,
        (Kind::BgpFilter, _) => BGP_FILTER,
        (Kind::CalicoNodeStatus, false) => NODE_STATUS,
        (Kind::CalicoNodeStatus, true) => NODE_STATUS_WIDE,
        (Kind::ClusterInformation, _) => CLUSTER,
        (Kind::IpamConfiguration, false) => IPAM,
        (Kind::IpamConfiguration, true) => IPAM_WIDE,
        (Kind::IpReservation, true) => RESERVATION_WIDE,
        (Kind::Tier, _) => TIER,
        (Kind::NetworkSet | Kind::GlobalNetworkSet, false) => NET_SET,
        (Kind::NetworkSet | Kind::GlobalNetworkSet, true) => NET_SET_WIDE,
        (Kind::IpPool, false) => POOL,
        (Kind::IpPool, true) => POOL_WIDE,
        (Kind::Node, false) => NODE,
        (Kind::Node, true) => NODE_WIDE,
        (Kind::Profile, false) => PROFILE,
        (Kind::Profile, true) => PROFILE_WIDE,
        (Kind::WorkloadEndpoint, false) => ENDPOINT,
        (Kind::WorkloadEndpoint, true) => ENDPOINT_WIDE,
        _ => &[NAME],
    }
}

fn order(resource: &Resource) -> String {
    let order = match resource {
        Resource::NetworkPolicy(policy) => policy.spec.order,
        Resource::GlobalNetworkPolicy(policy) => policy.spec.order,
        Resource::StagedNetworkPolicy(policy) => policy.spec.policy.order,
        Resource::StagedGlobalNetworkPolicy(policy) => policy.spec.policy.order,
        Resource::Tier(tier) => tier.spec.order,
        _ => None,
    };
    match order {
        Some(order) if order.is_finite() => shown_number(order),
        // It cannot be read, and the policy comes first.
        Some(_) => "unreadable".to_owned(),
        None => String::new(),
    }
}

/// Cells of what one kind specifies; empty for any other kind.
macro_rules! cells {
    ($($name:ident: $kind:ident($spec:ty);)*) => { $(
        fn $name(resource: &Resource, cell: impl Fn(&$spec) -> String) -> String {
            match resource {
                Resource::$kind(object) => cell(&object.spec),
                _ => String::new(),
            }
        }
    )* };
}

cells! {
    bgp_configuration: BgpConfiguration(BgpConfigurationSpec);
    bgp_filter: BgpFilter(BgpFilterSpec);
    bgp_peer: BgpPeer(BgpPeerSpec);
    cluster: ClusterInformation(ClusterInformationSpec);
    endpoint: WorkloadEndpoint(WorkloadEndpointSpec);
    host_endpoint: HostEndpoint(HostEndpointSpec);
    ipam: IpamConfiguration(IpamConfigurationSpec);
    pool: IpPool(IpPoolSpec);
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// Kubernetes' selector in the form that its own tools print: requirements separated by commas.
fn labels(selector: &LabelSelector) -> String {
    let equal = selector.match_labels.iter().map(|(key, value)| format!("{key}={value}"));
    let others = selector.match_expressions.iter().map(|requirement| {
        let LabelRequirement { key, operator, values } = requirement;
        match operator.as_str() {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "DoesNotExist" => format!("!{key}"),
            _ => key.clone(),
        }
    });
    equal.chain(others).collect::<Vec<_>>().join(",")
}

fn bgp(resource: &Resource) -> Option<&NodeBgpSpec> {
    match resource {
        Resource::Node(node) => node.spec.bgp.as_ref(),
        _ => None,
    }
}

fn joined<T: ToString>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

fn cut(text: &str) -> String {
    if text.chars().count() <= MAX_CELL {
        return text.to_owned();
    }
    let kept: String = text.chars().take(MAX_CELL - 3).collect();
    kept + "..."
}
