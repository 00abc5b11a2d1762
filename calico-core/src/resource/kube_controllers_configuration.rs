//! `KubeControllersConfiguration`: settings of the controllers that mirror Kubernetes.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::duration::GoDuration;
use super::formats::{CIDR, NAME, REGEXP, SELECTOR};
use super::limit::Limit;
use super::model::model;

/// What can be on or off.
const SWITCH: Limit = Limit::OneOf(&["Enabled", "Disabled"]);

model! {
    /// Specification of a `KubeControllersConfiguration`; the only one is called `default`.
    pub struct KubeControllersConfigurationSpec: specification(KubeControllersConfigurationStatus) {
        /// What the controllers log; `Info` where it is absent.
        "logSeverityScreen" log_severity_screen: String
            where [Limit::OneOf(&["None", "Debug", "Info", "Warning", "Error", "Fatal", "Panic"])];
        /// Whether their health is checked.
        "healthChecks" health_checks: String = "Enabled" where [SWITCH];
        /// Pause between compactions of etcd; 0 means none; 10m where it is absent.
        "etcdV3CompactionPeriod" etcd_v3_compaction_period: Option<GoDuration>;
        /// Port of the figures; 9094 where it is absent, 0 means none.
        "prometheusMetricsPort" prometheus_metrics_port: Option<i64> where [Limit::Range(0, 65_535)];
        /// The controllers; one that is absent does not run.
        "controllers" controllers: Option<ControllersConfig>, required;
        /// Port of the profiler; none where it is absent.
        "debugProfilePort" debug_profile_port: Option<i32> where [Limit::Range(0, 65_535)];
    }
}

model! {
    /// The controllers; one that is absent does not run.
    pub struct ControllersConfig {
        /// Nodes: leaked addresses, labels, host endpoints.
        "node" node: Option<NodeControllerConfig>;
        /// Network policies.
        "policy" policy: Option<ControllerConfig>;
        /// Labels of endpoints.
        "workloadEndpoint" workload_endpoint: Option<ControllerConfig>;
        /// Profiles of service accounts.
        "serviceAccount" service_account: Option<ControllerConfig>;
        /// Profiles of namespaces.
        "namespace" namespace: Option<ControllerConfig>;
        /// Addresses of load balancers.
        "loadBalancer" load_balancer: Option<LoadBalancerControllerConfig>;
        /// Upgrades of stored data.
        "migration" migration: Option<MigrationControllerConfig>;
    }
}

model! {
    /// Settings of a controller that compares from time to time.
    pub struct ControllerConfig {
        /// Pause between comparisons; 5m where it is absent.
        "reconcilerPeriod" reconciler_period: Option<GoDuration>;
    }
}

model! {
    /// Settings of the node controller.
    pub struct NodeControllerConfig {
        /// Pause between comparisons; 5m where it is absent.
        "reconcilerPeriod" reconciler_period: Option<GoDuration>;
        /// Whether nodes get the labels of Kubernetes' nodes.
        "syncLabels" sync_labels: String where [SWITCH];
        /// Host endpoints that it makes.
        "hostEndpoint" host_endpoint: Option<AutoHostEndpointConfig>;
        /// How long an address must look leaked before it is released; 15m where it is absent.
        "leakGracePeriod" leak_grace_period: Option<GoDuration>;
    }
}

model! {
    /// Host endpoints that the node controller makes.
    pub struct AutoHostEndpointConfig {
        /// Whether it makes any.
        "autoCreate" auto_create: String where [SWITCH];
        /// Whether it makes the one for all interfaces.
        "createDefaultHostEndpoint" create_default_host_endpoint: String where [SWITCH];
        /// Further ones.
        "templates" templates: Vec<HostEndpointTemplate>;
    }
}

model! {
    /// What host endpoints are made from.
    pub struct HostEndpointTemplate {
        /// Part of their names; unique among the templates.
        "generateName" generate_name: String, required where [Limit::Text(&NAME), Limit::Length(253)];
        /// Ranges that the interface's addresses are looked for in.
        "interfaceCIDRs" interface_cidrs: Vec<String> where [Limit::Text(&CIDR)];
        /// Pattern of the interface's name.
        "interfacePattern" interface_pattern: String where [Limit::Text(&REGEXP)];
        /// Their labels.
        "labels" labels: BTreeMap<String, String>;
        /// Their annotations.
        "annotations" annotations: BTreeMap<String, String>;
        /// Nodes that get one.
        "nodeSelector" node_selector: String where [Limit::Text(&SELECTOR), Limit::Length(1024)];
    }
}

model! {
    /// Settings of the load balancer controller.
    pub struct LoadBalancerControllerConfig {
        /// Services that get addresses.
        "assignIPs" assign_ips: String = "AllServices" where [Limit::OneOf(&["AllServices", "RequestedServicesOnly"])];
    }
}

model! {
    /// Settings of the controller that upgrades stored data.
    pub struct MigrationControllerConfig {
        /// Whether policies lose the tier before their name.
        "policyNameMigrator" policy_name_migrator: String = "Enabled" where [SWITCH];
    }
}

model! {
    /// Status of a `KubeControllersConfiguration`.
    pub struct KubeControllersConfigurationStatus {
        /// What the controllers go by.
        "runningConfig" running_config: Option<KubeControllersConfigurationSpec>;
        /// Environment variables that override the specification.
        "environmentVars" environment_vars: BTreeMap<String, String>;
    }
}
