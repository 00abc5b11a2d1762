//! `BGPConfiguration`: BGP of the cluster (`default`) or of one node (`node.<name>`).

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::BgpPassword;
use super::duration::GoDuration;
use super::formats::{COMMUNITY, IGNORED_INTERFACE, NAME, STRICT_CIDR};
use super::limit::Limit;
use super::model::{model, words};
use crate::net::AsNumber;

model! {
    /// Specification of a `BGPConfiguration`.
    pub struct BgpConfigurationSpec: specification {
        /// What the speaker logs.
        "logSeverityScreen" log_severity_screen: String = "Info"
            where [Limit::AnyCase(&["Trace", "Debug", "Info", "Warning", "Error", "Fatal"])];
        /// Whether every node has a session with every other; default true.
        "nodeToNodeMeshEnabled" node_to_node_mesh_enabled: Option<bool>;
        /// AS number of nodes that have none of their own; default 64512.
        "asNumber" as_number: Option<AsNumber> where [Limit::SomeAs];
        /// Ranges of load balancers' addresses that are announced.
        "serviceLoadBalancerIPs" service_load_balancer_ips: Vec<ServiceRange>;
        /// Ranges of services' external addresses that are announced.
        "serviceExternalIPs" service_external_ips: Vec<ServiceRange>;
        /// Ranges of services' cluster addresses that are announced.
        "serviceClusterIPs" service_cluster_ips: Vec<ServiceRange>;
        /// Whether load balancers' ranges are announced whole.
        "serviceLoadBalancerAggregation" service_load_balancer_aggregation: Option<Aggregation> = "Enabled";
        /// Communities by name.
        "communities" communities: Vec<Community> where [Limit::Items(0, 500)];
        /// Communities that prefixes are announced with.
        "prefixAdvertisements" prefix_advertisements: Vec<PrefixAdvertisement> where [Limit::Items(0, 500)];
        /// Port that the speaker listens on; default 179.
        "listenPort" listen_port: Option<u16> where [Limit::Range(1, 65_535)];
        /// Secret of the mesh's sessions.
        "nodeMeshPassword" node_mesh_password: Option<BgpPassword>;
        /// How long routes are kept while a node of the mesh restarts.
        "nodeMeshMaxRestartTime" node_mesh_max_restart_time: Option<GoDuration>;
        /// Addresses that the speaker listens on.
        "bindMode" bind_mode: Option<BindMode>;
        /// Interfaces whose addresses the speaker leaves alone.
        "ignoredInterfaces" ignored_interfaces: Vec<String> where [Limit::Text(&IGNORED_INTERFACE)];
        /// Address that local workloads have their IPv4 sessions with.
        "localWorkloadPeeringIPV4" local_workload_peering_ipv4: Option<Ipv4Addr>;
        /// Address that local workloads have their IPv6 sessions with.
        "localWorkloadPeeringIPV6" local_workload_peering_ipv6: Option<Ipv6Addr>;
        /// Which of the cluster's routes the speaker programs.
        "programClusterRoutes" program_cluster_routes: Option<String>
            where [Limit::OneOf(&["Enabled", "Disabled", "EnabledIPIPOnly", "EnabledNoEncapOnly"])];
        /// Priority of normal IPv4 routes; default 1024.
        "ipv4NormalRoutePriority" ipv4_normal_route_priority: Option<i64> where [Limit::Range(1, 2_147_483_646)];
        /// Priority of normal IPv6 routes; default 1024.
        "ipv6NormalRoutePriority" ipv6_normal_route_priority: Option<i64> where [Limit::Range(1, 2_147_483_646)];
    }
}

model! {
    /// A range of services' addresses.
    pub struct ServiceRange {
        /// The range.
        "cidr" cidr: String where [Limit::Text(&STRICT_CIDR)];
    }
}

model! {
    /// A community with a name.
    pub struct Community {
        /// Its name.
        "name" name: String, required where [Limit::Text(&NAME)];
        /// `aa:nn` or `aa:nn:mm`.
        "value" value: String, required where [Limit::Text(&COMMUNITY)];
    }
}

model! {
    /// What a prefix is announced with.
    pub struct PrefixAdvertisement {
        /// The prefix.
        "cidr" cidr: String, required where [Limit::Text(&STRICT_CIDR)];
        /// Communities, by name or value.
        "communities" communities: Vec<String>, required where [Limit::Items(0, 50)];
    }
}

words! {
    /// Whether ranges are announced whole.
    pub enum Aggregation {
        /// Whole.
        Enabled,
        /// Address by address.
        Disabled,
    }
}

words! {
    /// Addresses that the speaker listens on.
    pub enum BindMode {
        /// All.
        None,
        /// The node's.
        NodeIP,
    }
}
