//! Which columns the tables of each kind have.

use calico_core::net::AsNumber;
use calico_core::resource::{IpPoolSpec, Kind, NodeBgpSpec, Resource, WorkloadEndpointSpec};

/// A column: its heading and how to fill it.
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) cell: fn(&Resource) -> String,
}

const fn column(heading: &'static str, cell: fn(&Resource) -> String) -> Column {
    Column { heading, cell }
}

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
    // In parentheses when the node has the cluster's number.
    column("ASN", |resource| {
        let own = bgp(resource).and_then(|bgp| bgp.as_number);
        own.map_or_else(|| format!("({})", AsNumber::DEFAULT), |number| number.to_string())
    }),
    column("IPV4", |resource| {
        bgp(resource).and_then(|bgp| bgp.ipv4_address).map_or_else(String::new, |ip| ip.to_string())
    }),
    column("IPV6", |resource| {
        bgp(resource).and_then(|bgp| bgp.ipv6_address).map_or_else(String::new, |ip| ip.to_string())
    }),
];
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
];
const WORKLOAD: Column = column("WORKLOAD", |resource| {
    endpoint(resource, |endpoint| {
        let names = [&endpoint.pod, &endpoint.workload, &endpoint.container_id];
        names.into_iter().find(|name| !name.is_empty()).cloned().unwrap_or_default()
    })
});
const ENDPOINT_NODE: Column = column("NODE", |resource| endpoint(resource, |endpoint| endpoint.node.clone()));
const NETWORKS: Column = column("NETWORKS", |resource| endpoint(resource, |endpoint| joined(&endpoint.ip_networks)));
const INTERFACE: Column = column("INTERFACE", |resource| {
    endpoint(resource, |endpoint| endpoint.interface_name.map_or_else(String::new, |name| name.to_string()))
});

/// The columns of a kind.
pub(super) const fn of(kind: Kind, wide: bool) -> &'static [Column] {
    match (kind, wide) {
        (Kind::NetworkPolicy | Kind::GlobalNetworkPolicy, false) => POLICY,
        (Kind::NetworkPolicy | Kind::GlobalNetworkPolicy, true) => POLICY_WIDE,
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
        Resource::Tier(tier) => tier.spec.order,
        _ => None,
    };
    order.map_or_else(String::new, |order| order.to_string())
}

fn pool(resource: &Resource, cell: impl Fn(&IpPoolSpec) -> String) -> String {
    match resource {
        Resource::IpPool(pool) => cell(&pool.spec),
        _ => String::new(),
    }
}

fn endpoint(resource: &Resource, cell: impl Fn(&WorkloadEndpointSpec) -> String) -> String {
    match resource {
        Resource::WorkloadEndpoint(endpoint) => cell(&endpoint.spec),
        _ => String::new(),
    }
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
