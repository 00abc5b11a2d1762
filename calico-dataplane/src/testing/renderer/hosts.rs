//! Random objects of hosts: endpoints that claim the same interfaces in every way, policies for them, pools and services.

use std::net::IpAddr;
use std::sync::Arc;

use calico_core::net::InterfaceName;
use calico_core::resource::{
    AllowedUse, AssignmentMode, BgpConfigurationSpec, EncapMode, GlobalNetworkPolicySpec, HostEndpointSpec, IpPool,
    IpPoolSpec, Kind, Metadata, Object, Resource, ResourceKey, ServiceRange, StagedGlobalNetworkPolicySpec,
    StagedNetworkPolicySpec,
};
use calico_core::testing::{HOST, Random};
use calico_core::update::Update;

use super::decisions::uplink;

const ADDRESSES: [&str; 3] = ["192.0.2.5", "192.0.2.77", "2001:db8::1"];

/// New state of a host endpoint, a pool, the services or a host.
pub(super) fn update(random: &mut Random) -> Update {
    let number = random.below(4);
    let (key, resource) = match random.below(10) {
        0..=6 => return host_endpoint(number, random),
        7 => (ResourceKey::cluster(Kind::BgpConfiguration, "default"), services(random)),
        _ => (ResourceKey::cluster(Kind::IpPool, &format!("pool-{number}")), pool(number, random)),
    };
    let value = (!random.chance(30)).then(|| Arc::new(resource));
    Update { key, value }
}

fn host_endpoint(number: usize, random: &mut Random) -> Update {
    let name = format!("hep-{number}");
    let key = ResourceKey::cluster(Kind::HostEndpoint, &name);
    let mut labels = calico_core::text::TextMap::new();
    if random.chance(60) {
        labels.insert("app".into(), random.pick(&["web", "db"]).into());
    }
    let spec = HostEndpointSpec {
        node: random.pick(&[HOST, HOST, HOST, "node-2"]).into(),
        interface_name: random.pick(&["eth0", "eth1", "", "*", "lo", "cali01"]).into(),
        expected_ips: ADDRESSES.iter().filter(|_| random.chance(40)).map(|text| text.parse().unwrap()).collect(),
        profiles: ["kns.one", "extra"].iter().filter(|_| random.chance(50)).map(ToString::to_string).collect(),
        ..HostEndpointSpec::default()
    };
    let metadata = Metadata { name, labels, ..Metadata::default() };
    let value = (!random.chance(25)).then(|| Arc::new(Resource::HostEndpoint(Object { metadata, spec }.into())));
    Update { key, value }
}

fn services(random: &mut Random) -> Resource {
    let cidr = random.pick(&["198.51.100.0/24", "2001:db8::/64", "10.0.1.2/31"]).into();
    let spec =
        BgpConfigurationSpec { service_cluster_ips: vec![ServiceRange { cidr }], ..BgpConfigurationSpec::default() };
    Resource::BgpConfiguration(Object { metadata: named("default".into()), spec }.into())
}

fn pool(number: usize, random: &mut Random) -> Resource {
    let cidr = ["10.0.0.0/24", "10.0.1.0/24", "fd00::/64", "192.0.2.0/26"][number];
    let spec = IpPoolSpec {
        cidr: cidr.parse().unwrap(),
        vxlan_mode: EncapMode::default(),
        ipip_mode: EncapMode::default(),
        nat_outgoing: random.chance(60),
        disabled: false,
        disable_bgp_export: false,
        block_size: None,
        node_selector: None,
        namespace_selector: None,
        allowed_uses: vec![AllowedUse::Workload],
        assignment_mode: AssignmentMode::default(),
    };
    Resource::IpPool(IpPool::new(named(format!("pool-{number}")), spec))
}

fn named(name: String) -> Metadata {
    Metadata { name, ..Metadata::default() }
}

/// The interfaces of the host itself.
pub(super) fn interfaces() -> [InterfaceName; 3] {
    [uplink(0), uplink(1), InterfaceName::LOOPBACK]
}

/// Addresses that an interface has from now on; an endpoint may expect them.
pub(super) fn addresses(random: &mut Random) -> Vec<IpAddr> {
    ADDRESSES.iter().filter(|_| random.chance(40)).map(|text| text.parse().unwrap()).collect()
}

/// Some policies concern hosts, and some are only tried out.
pub(super) fn dress(update: Update, random: &mut Random) -> Update {
    let Update { key, value } = update;
    match value.as_deref() {
        Some(Resource::GlobalNetworkPolicy(object)) => {
            let mut object = object.clone();
            concern_hosts(&mut object.spec, random);
            if random.chance(20) {
                return staged_global(&key, &object.metadata, object.spec.clone());
            }
            Update { key, value: Some(Arc::new(Resource::GlobalNetworkPolicy(object))) }
        }
        Some(Resource::NetworkPolicy(object)) if random.chance(20) => {
            let spec = StagedNetworkPolicySpec { staged_action: None, policy: object.spec.clone() };
            let (namespace, name) = (key.namespace().unwrap_or_default(), key.name().unwrap_or_default());
            let key = ResourceKey::namespaced(Kind::StagedNetworkPolicy, namespace, name);
            let object = Object { metadata: object.metadata.clone(), spec };
            Update { key, value: Some(Arc::new(Resource::StagedNetworkPolicy(object.into()))) }
        }
        _ => Update { key, value },
    }
}

fn concern_hosts(spec: &mut GlobalNetworkPolicySpec, random: &mut Random) {
    spec.do_not_track = false;
    match random.below(5) {
        0 => spec.do_not_track = true,
        1 => {
            spec.pre_dnat = true;
            spec.egress.clear();
            spec.types.retain(|direction| *direction == calico_core::resource::PolicyType::Ingress);
        }
        2 | 3 => {}
        _ => return,
    }
    spec.apply_on_forward = true;
}

fn staged_global(key: &ResourceKey, metadata: &Metadata, policy: GlobalNetworkPolicySpec) -> Update {
    let spec = StagedGlobalNetworkPolicySpec { staged_action: None, policy };
    let key = ResourceKey::cluster(Kind::StagedGlobalNetworkPolicy, key.name().unwrap_or_default());
    let object = Object { metadata: metadata.clone(), spec };
    Update { key, value: Some(Arc::new(Resource::StagedGlobalNetworkPolicy(object.into()))) }
}
