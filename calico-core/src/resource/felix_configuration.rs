//! `FelixConfiguration`: the node agent's settings, for the cluster, some nodes or one.
//!
//! Upstream: `api/pkg/apis/projectcalico/v3/felixconfig.go`, `felix/config/config_params.go`. Each field's documentation gives the
//! name of the agent's parameter (environment `FELIX_<NAME>`, file `<Name>`) and the value that holds where the field is absent.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use super::duration::GoDuration;
use super::formats::{
    CIDR, CIDR_V4, CONNTRACK_TIMEOUT, FEATURE_OVERRIDES, FORWARD, HEALTH_NAME, INTERFACE, INTERFACE_FILTER, IPV4, IPV6,
    KEY_VALUES, LISTEN_HOST, LOG_PREFIX, LOG_RATE, REGEXP, REGION, SELECTOR,
};
use super::limit::Limit;
use super::model::model;
use crate::net::{Dscp, Port};

/// What the schema's pattern says of a duration beyond its form.
const NOT_NEGATIVE: Limit = Limit::Text(&FORWARD);

model! {
    /// Specification of a `FelixConfiguration`.
    pub struct FelixConfigurationSpec: specification {
        /// Nodes that it is for; empty for `default` and `node.<name>`.
        "nodeSelector" node_selector: Option<String> where [Limit::Length(1_024), Limit::Text(&SELECTOR)];
        /// `UseInternalDataplaneDriver`.
        "useInternalDataplaneDriver" use_internal_dataplane_driver: Option<bool>;
        /// `DataplaneDriver`.
        "dataplaneDriver" dataplane_driver: String;
        /// `DataplaneWatchdogTimeout`.
        "dataplaneWatchdogTimeout" dataplane_watchdog_timeout: Option<GoDuration>;
        /// `Ipv6Support`.
        "ipv6Support" ipv6_support: Option<bool>;
        /// `RouteRefreshInterval`; default 90s.
        "routeRefreshInterval" route_refresh_interval: Option<GoDuration> where [NOT_NEGATIVE];
        /// `InterfaceRefreshInterval`.
        "interfaceRefreshInterval" interface_refresh_interval: Option<GoDuration> where [NOT_NEGATIVE];
        /// `IptablesRefreshInterval`; default 10s.
        "iptablesRefreshInterval" iptables_refresh_interval: Option<GoDuration> where [NOT_NEGATIVE];
        /// `IptablesPostWriteCheckIntervalSecs`; default 1s.
        "iptablesPostWriteCheckInterval" iptables_post_write_check_interval: Option<GoDuration> where [NOT_NEGATIVE];
        /// `IptablesLockProbeIntervalMillis`; default 50ms.
        "iptablesLockProbeInterval" iptables_lock_probe_interval: Option<GoDuration> where [NOT_NEGATIVE];
        /// `FeatureDetectOverride`.
        "featureDetectOverride" feature_detect_override: String where [Limit::Text(&FEATURE_OVERRIDES)];
        /// `FeatureGates`.
        "featureGates" feature_gates: String where [Limit::Text(&KEY_VALUES)];
        /// `IpsetsRefreshInterval`; default 90s.
        "ipsetsRefreshInterval" ipsets_refresh_interval: Option<GoDuration> where [NOT_NEGATIVE];
        /// `MaxIpsetSize`.
        "maxIpsetSize" max_ipset_size: Option<i64>;
        /// `IptablesBackend`.
        "iptablesBackend" iptables_backend: String where [Limit::OneOf(&["Auto", "Legacy", "NFT"])];
        /// `XDPRefreshInterval`; default 90s.
        "xdpRefreshInterval" xdp_refresh_interval: Option<GoDuration> where [NOT_NEGATIVE];
        /// `NetlinkTimeoutSecs`; default 10s.
        "netlinkTimeout" netlink_timeout: Option<GoDuration> where [NOT_NEGATIVE];
        /// `MetadataAddr`; default 127.0.0.1.
        "metadataAddr" metadata_addr: String;
        /// `MetadataPort`; default 8775.
        "metadataPort" metadata_port: Option<i64>;
        /// `OpenstackRegion`.
        "openstackRegion" openstack_region: String where [Limit::Text(&REGION)];
        /// `InterfacePrefix`; default cali.
        "interfacePrefix" interface_prefix: String;
        /// `InterfaceExclude`; default kube-ipvs0.
        "interfaceExclude" interface_exclude: String;
        /// `ChainInsertMode`; default insert.
        "chainInsertMode" chain_insert_mode: String where [Limit::AnyCase(&["Insert", "Append"])];
        /// `DefaultEndpointToHostAction`; default Drop.
        "defaultEndpointToHostAction" default_endpoint_to_host_action: String where [Limit::AnyCase(&["Drop", "Accept", "Return"])];
        /// `IptablesFilterAllowAction`.
        "iptablesFilterAllowAction" iptables_filter_allow_action: String where [Limit::AnyCase(&["Accept", "Return"])];
        /// `IptablesMangleAllowAction`.
        "iptablesMangleAllowAction" iptables_mangle_allow_action: String where [Limit::AnyCase(&["Accept", "Return"])];
        /// `IptablesFilterDenyAction`.
        "iptablesFilterDenyAction" iptables_filter_deny_action: String where [Limit::AnyCase(&["Drop", "Reject"])];
        /// `LogPrefix`; default calico-packet.
        "logPrefix" log_prefix: String where [Limit::Text(&LOG_PREFIX)];
        /// `LogActionRateLimit`.
        "logActionRateLimit" log_action_rate_limit: Option<String> where [Limit::Text(&LOG_RATE)];
        /// `LogActionRateLimitBurst`.
        "logActionRateLimitBurst" log_action_rate_limit_burst: Option<i64> where [Limit::Range(0, 9_999)];
        /// `LogFilePath`; default /var/log/calico/felix.log.
        "logFilePath" log_file_path: String;
        /// `LogSeverityFile`; default Info.
        "logSeverityFile" log_severity_file: String where [Limit::AnyCase(&["Trace", "Debug", "Info", "Warning", "Error", "Fatal"])];
        /// `LogSeverityScreen`; default Info.
        "logSeverityScreen" log_severity_screen: String where [Limit::AnyCase(&["Trace", "Debug", "Info", "Warning", "Error", "Fatal"])];
        /// `LogSeveritySys`; default Info.
        "logSeveritySys" log_severity_sys: String where [Limit::AnyCase(&["Trace", "Debug", "Info", "Warning", "Error", "Fatal"])];
        /// `LogDebugFilenameRegex`.
        "logDebugFilenameRegex" log_debug_filename_regex: String where [Limit::Text(&REGEXP)];
        /// `IpInIpEnabled`.
        "ipipEnabled" ipip_enabled: Option<bool>;
        /// `IpInIpMtu`; default 0 (auto-detect).
        "ipipMTU" ipip_mtu: Option<i64>;
        /// `VXLANEnabled`.
        "vxlanEnabled" vxlan_enabled: Option<bool>;
        /// `VXLANMTU`; default 0 (auto-detect).
        "vxlanMTU" vxlan_mtu: Option<i64>;
        /// `VXLANMTUV6`; default 0 (auto-detect).
        "vxlanMTUV6" vxlan_mtuv6: Option<i64>;
        /// `VXLANPort`; default 4789.
        "vxlanPort" vxlan_port: Option<i64>;
        /// `VXLANVNI`; default 4096.
        "vxlanVNI" vxlan_vni: Option<i64>;
        /// `AllowVXLANPacketsFromWorkloads`; default false.
        "allowVXLANPacketsFromWorkloads" allow_vxlan_packets_from_workloads: Option<bool>;
        /// `AllowIPIPPacketsFromWorkloads`; default false.
        "allowIPIPPacketsFromWorkloads" allow_ipip_packets_from_workloads: Option<bool>;
        /// `ReportingIntervalSecs`; default 30s.
        "reportingInterval" reporting_interval: Option<GoDuration> where [NOT_NEGATIVE];
        /// `ReportingTTLSecs`; default 90s.
        "reportingTTL" reporting_ttl: Option<GoDuration> where [NOT_NEGATIVE];
        /// `EndpointReportingEnabled`; default false.
        "endpointReportingEnabled" endpoint_reporting_enabled: Option<bool>;
        /// `EndpointReportingDelaySecs`; default 1s.
        "endpointReportingDelay" endpoint_reporting_delay: Option<GoDuration> where [NOT_NEGATIVE];
        /// `EndpointStatusPathPrefix`; default /var/run/calico.
        "endpointStatusPathPrefix" endpoint_status_path_prefix: String;
        /// `IptablesMarkMask`; default 0xffff0000.
        "iptablesMarkMask" iptables_mark_mask: Option<i64> where [Limit::Range(0, 4_294_967_295)];
        /// `DisableConntrackInvalidCheck`.
        "disableConntrackInvalidCheck" disable_conntrack_invalid_check: Option<bool>;
        /// `HealthEnabled`; default false.
        "healthEnabled" health_enabled: Option<bool>;
        /// `HealthHost`; default localhost.
        "healthHost" health_host: Option<String>;
        /// `HealthPort`; default 9099.
        "healthPort" health_port: Option<i64>;
        /// `HealthTimeoutOverrides`.
        "healthTimeoutOverrides" health_timeout_overrides: Vec<HealthTimeoutOverride>;
        /// `PrometheusMetricsEnabled`; default false.
        "prometheusMetricsEnabled" prometheus_metrics_enabled: Option<bool>;
        /// `PrometheusMetricsHost`.
        "prometheusMetricsHost" prometheus_metrics_host: String where [Limit::Text(&LISTEN_HOST)];
        /// `PrometheusMetricsPort`; default 9091.
        "prometheusMetricsPort" prometheus_metrics_port: Option<i64>;
        /// `PrometheusGoMetricsEnabled`; default true.
        "prometheusGoMetricsEnabled" prometheus_go_metrics_enabled: Option<bool>;
        /// `PrometheusProcessMetricsEnabled`; default true.
        "prometheusProcessMetricsEnabled" prometheus_process_metrics_enabled: Option<bool>;
        /// `PrometheusWireGuardMetricsEnabled`; default true.
        "prometheusWireGuardMetricsEnabled" prometheus_wire_guard_metrics_enabled: Option<bool>;
        /// `PrometheusMetricsCAFile`.
        "prometheusMetricsCAFile" prometheus_metrics_ca_file: Option<String>;
        /// `PrometheusMetricsCertFile`.
        "prometheusMetricsCertFile" prometheus_metrics_cert_file: Option<String>;
        /// `PrometheusMetricsKeyFile`.
        "prometheusMetricsKeyFile" prometheus_metrics_key_file: Option<String>;
        /// `PrometheusMetricsClientAuth`.
        "prometheusMetricsClientAuth" prometheus_metrics_client_auth: String where [Limit::OneOf(&["RequireAndVerifyClientCert", "RequireAnyClientCert", "VerifyClientCertIfGiven", "NoClientCert"])];
        /// `FailsafeInboundHostPorts`; default tcp:22, udp:68, tcp:179, tcp:2379, tcp:2380, tcp:5473, tcp:6443, tcp:6666, tcp:6667.
        "failsafeInboundHostPorts" failsafe_inbound_host_ports: Option<Vec<ProtoPort>>;
        /// `FailsafeOutboundHostPorts`; default udp:53, udp:67, tcp:179, tcp:2379, tcp:2380, tcp:5473, tcp:6443, tcp:6666, tcp:6667.
        "failsafeOutboundHostPorts" failsafe_outbound_host_ports: Option<Vec<ProtoPort>>;
        /// `KubeNodePortRanges`; default 30000:32767.
        "kubeNodePortRanges" kube_node_port_ranges: Option<Vec<Port>> where [Limit::Items(0, 7)];
        /// `PolicySyncPathPrefix`.
        "policySyncPathPrefix" policy_sync_path_prefix: String;
        /// `UsageReportingEnabled`; default true.
        "usageReportingEnabled" usage_reporting_enabled: Option<bool>;
        /// `UsageReportingInitialDelaySecs`; default 300s.
        "usageReportingInitialDelay" usage_reporting_initial_delay: Option<GoDuration> where [NOT_NEGATIVE];
        /// `UsageReportingIntervalSecs`; default 86400s.
        "usageReportingInterval" usage_reporting_interval: Option<GoDuration> where [NOT_NEGATIVE];
        /// `NATPortRange`.
        "natPortRange" nat_port_range: Option<Port>;
        /// `NATOutgoingAddress`.
        "natOutgoingAddress" nat_outgoing_address: String where [Limit::Length(45), Limit::Text(&IPV4)];
        /// `NATOutgoingExclusions`; default IPPoolsOnly.
        "natOutgoingExclusions" nat_outgoing_exclusions: String where [Limit::OneOf(&["IPPoolsOnly", "IPPoolsAndHostIPs"])];
        /// `DeviceRouteSourceAddress`.
        "deviceRouteSourceAddress" device_route_source_address: String where [Limit::Length(45), Limit::Text(&IPV4)];
        /// `DeviceRouteSourceAddressIPv6`.
        "deviceRouteSourceAddressIPv6" device_route_source_address_ipv6: String where [Limit::Length(45), Limit::Text(&IPV6)];
        /// `DeviceRouteProtocol`.
        "deviceRouteProtocol" device_route_protocol: Option<i64>;
        /// `RemoveExternalRoutes`.
        "removeExternalRoutes" remove_external_routes: Option<bool>;
        /// `ProgramClusterRoutes`; default EnabledIPIPOnly.
        "programClusterRoutes" program_cluster_routes: Option<String> where [Limit::OneOf(&["Enabled", "Disabled", "EnabledIPIPOnly", "EnabledNoEncapOnly"])];
        /// `IPForwarding`; default Enabled.
        "ipForwarding" ip_forwarding: String where [Limit::OneOf(&["Enabled", "Disabled"])];
        /// `ExternalNodesCIDRList`.
        "externalNodesList" external_nodes_list: Option<Vec<String>> where [Limit::Text(&CIDR_V4)];
        /// `DebugMemoryProfilePath`.
        "debugMemoryProfilePath" debug_memory_profile_path: String;
        /// `DebugDisableLogDropping`; default false.
        "debugDisableLogDropping" debug_disable_log_dropping: Option<bool>;
        /// `DebugSimulateCalcGraphHangAfter`.
        "debugSimulateCalcGraphHangAfter" debug_simulate_calc_graph_hang_after: Option<GoDuration> where [NOT_NEGATIVE];
        /// `DebugSimulateDataplaneHangAfter`.
        "debugSimulateDataplaneHangAfter" debug_simulate_dataplane_hang_after: Option<GoDuration> where [NOT_NEGATIVE];
        /// `DebugSimulateDataplaneApplyDelay`.
        "debugSimulateDataplaneApplyDelay" debug_simulate_dataplane_apply_delay: Option<GoDuration> where [NOT_NEGATIVE];
        /// `DebugHost`; default localhost.
        "debugHost" debug_host: Option<String>;
        /// `DebugPort`.
        "debugPort" debug_port: Option<i64> where [Limit::Range(0, 65_535)];
        /// `IptablesNATOutgoingInterfaceFilter`.
        "iptablesNATOutgoingInterfaceFilter" iptables_nat_outgoing_interface_filter: String where [Limit::Text(&INTERFACE_FILTER)];
        /// `SidecarAccelerationEnabled`; default false.
        "sidecarAccelerationEnabled" sidecar_acceleration_enabled: Option<bool>;
        /// `XDPEnabled`; default true.
        "xdpEnabled" xdp_enabled: Option<bool>;
        /// `GenericXDPEnabled`; default false.
        "genericXDPEnabled" generic_xdp_enabled: Option<bool>;
        /// `NFTablesMode`; default Auto.
        "nftablesMode" nftables_mode: String = "Auto" where [Limit::OneOf(&["Disabled", "Enabled", "Auto"])];
        /// `NFTablesFlowTableOffload`; default Disabled.
        "nftablesFlowTableOffload" nftables_flow_table_offload: String = "Disabled" where [Limit::OneOf(&["All", "Disabled"])];
        /// `NFTablesFlowTableDataIfacePattern`.
        "nftablesFlowTableDataIfacePattern" nftables_flow_table_data_iface_pattern: String where [Limit::Text(&REGEXP)];
        /// `NftablesRefreshInterval`; default 90s.
        "nftablesRefreshInterval" nftables_refresh_interval: Option<GoDuration>;
        /// `NftablesFilterAllowAction`.
        "nftablesFilterAllowAction" nftables_filter_allow_action: String where [Limit::AnyCase(&["Accept", "Return"])];
        /// `NftablesMangleAllowAction`.
        "nftablesMangleAllowAction" nftables_mangle_allow_action: String where [Limit::AnyCase(&["Accept", "Return"])];
        /// `NftablesFilterDenyAction`.
        "nftablesFilterDenyAction" nftables_filter_deny_action: String where [Limit::AnyCase(&["Drop", "Reject"])];
        /// `NftablesMarkMask`; default 0xffff0000.
        "nftablesMarkMask" nftables_mark_mask: Option<i64> where [Limit::Range(0, 4_294_967_295)];
        /// `BPFEnabled`; default false.
        "bpfEnabled" bpf_enabled: Option<bool>;
        /// `BPFOverlayHostSourceIP`; default TunnelAddress.
        "bpfOverlayHostSourceIP" bpf_overlay_host_source_ip: String where [Limit::OneOf(&["TunnelAddress", "HostAddress"])];
        /// `BPFDisableUnprivileged`; default true.
        "bpfDisableUnprivileged" bpf_disable_unprivileged: Option<bool>;
        /// `BPFJITHardening`; default Auto.
        "bpfJITHardening" bpf_jit_hardening: String where [Limit::OneOf(&["Auto", "Strict"])];
        /// `BPFLogLevel`; default Off.
        "bpfLogLevel" bpf_log_level: String where [Limit::AnyCase(&["Off", "Info", "Debug"])];
        /// `BPFConntrackLogLevel`; default Off.
        "bpfConntrackLogLevel" bpf_conntrack_log_level: String where [Limit::OneOf(&["Off", "Debug"])];
        /// `BPFConntrackCleanupMode`; default Userspace.
        "bpfConntrackMode" bpf_conntrack_mode: String where [Limit::OneOf(&["Auto", "Userspace", "BPFProgram"])];
        /// `BPFConntrackTimeouts`.
        "bpfConntrackTimeouts" bpf_conntrack_timeouts: Option<BpfConntrackTimeouts>;
        /// `BPFIPFragTimeout`; default unset (kernel ipfrag_time).
        "bpfIPFragTimeout" bpf_ip_frag_timeout: Option<GoDuration> where [NOT_NEGATIVE];
        /// `BPFLogFilters`; default unset (no filter).
        "bpfLogFilters" bpf_log_filters: BTreeMap<String, String>;
        /// `BPFCTLBLogFilter`.
        "bpfCTLBLogFilter" bpf_ctlb_log_filter: String;
        /// `BPFDataIfacePattern`.
        "bpfDataIfacePattern" bpf_data_iface_pattern: String where [Limit::Text(&REGEXP)];
        /// `BPFL3IfacePattern`.
        "bpfL3IfacePattern" bpf_l3_iface_pattern: String where [Limit::Text(&REGEXP)];
        /// `BPFConnectTimeLoadBalancingEnabled`; default true.
        "bpfConnectTimeLoadBalancingEnabled" bpf_connect_time_load_balancing_enabled: Option<bool>;
        /// `BPFConnectTimeLoadBalancing`; default TCP.
        "bpfConnectTimeLoadBalancing" bpf_connect_time_load_balancing: String where [Limit::OneOf(&["TCP", "Enabled", "Disabled"])];
        /// `BPFHostNetworkedNATWithoutCTLB`; default Enabled.
        "bpfHostNetworkedNATWithoutCTLB" bpf_host_networked_nat_without_ctlb: String where [Limit::OneOf(&["Enabled", "Disabled"])];
        /// `BPFExternalServiceMode`; default Tunnel.
        "bpfExternalServiceMode" bpf_external_service_mode: String where [Limit::AnyCase(&["Tunnel", "DSR"])];
        /// `BPFDSROptoutCIDRs`.
        "bpfDSROptoutCIDRs" bpf_dsr_optout_cidrs: Option<Vec<String>> where [Limit::Text(&CIDR)];
        /// `BPFExtToServiceConnmark`; default 0.
        "bpfExtToServiceConnmark" bpf_ext_to_service_connmark: Option<i64> where [Limit::Range(0, 4_294_967_295)];
        /// `BPFKubeProxyIptablesCleanupEnabled`; default true.
        "bpfKubeProxyIptablesCleanupEnabled" bpf_kube_proxy_iptables_cleanup_enabled: Option<bool>;
        /// `BPFKubeProxyMinSyncPeriod`; default 1s.
        "bpfKubeProxyMinSyncPeriod" bpf_kube_proxy_min_sync_period: Option<GoDuration> where [NOT_NEGATIVE];
        /// `BPFKubeProxyHealthzPort`; default 10256.
        "bpfKubeProxyHealthzPort" bpf_kube_proxy_healthz_port: Option<i64> where [Limit::Range(0, 65_535)];
        /// `BPFPSNATPorts`; default 20000:29999.
        "bpfPSNATPorts" bpf_psnat_ports: Option<Port>;
        /// `BPFMapSizeNATFrontend`.
        "bpfMapSizeNATFrontend" bpf_map_size_nat_frontend: Option<i64>;
        /// `BPFMapSizeNATBackend`.
        "bpfMapSizeNATBackend" bpf_map_size_nat_backend: Option<i64>;
        /// `BPFMapSizeNATAffinity`.
        "bpfMapSizeNATAffinity" bpf_map_size_nat_affinity: Option<i64>;
        /// `BPFMapSizeRoute`.
        "bpfMapSizeRoute" bpf_map_size_route: Option<i64>;
        /// `BPFMapSizeConntrack`.
        "bpfMapSizeConntrack" bpf_map_size_conntrack: Option<i64>;
        /// `BPFMapSizePerCPUConntrack`.
        "bpfMapSizePerCpuConntrack" bpf_map_size_per_cpu_conntrack: Option<i64>;
        /// `BPFMapSizeConntrackScaling`; default DoubleIfFull.
        "bpfMapSizeConntrackScaling" bpf_map_size_conntrack_scaling: String where [Limit::AnyCase(&["Disabled", "DoubleIfFull"])];
        /// `BPFMapSizeConntrackCleanupQueue`.
        "bpfMapSizeConntrackCleanupQueue" bpf_map_size_conntrack_cleanup_queue: Option<i64> where [Limit::Range(1, i64::MAX)];
        /// `BPFMapSizeIPSets`.
        "bpfMapSizeIPSets" bpf_map_size_ip_sets: Option<i64>;
        /// `BPFMapSizeIfState`.
        "bpfMapSizeIfState" bpf_map_size_if_state: Option<i64>;
        /// `BPFHostConntrackBypass`; default true.
        "bpfHostConntrackBypass" bpf_host_conntrack_bypass: Option<bool>;
        /// `BPFIPFragmentReassemblyEnabled`; default true.
        "bpfIPFragmentReassemblyEnabled" bpf_ip_fragment_reassembly_enabled: Option<bool>;
        /// `BPFEnforceRPF`; default Loose.
        "bpfEnforceRPF" bpf_enforce_rpf: String where [Limit::AnyCase(&["Disabled", "Strict", "Loose"])];
        /// `BPFPolicyDebugEnabled`.
        "bpfPolicyDebugEnabled" bpf_policy_debug_enabled: Option<bool>;
        /// `BPFForceTrackPacketsFromIfaces`; default docker+.
        "bpfForceTrackPacketsFromIfaces" bpf_force_track_packets_from_ifaces: Option<Vec<String>> where [Limit::Text(&INTERFACE_FILTER)];
        /// `BPFDisableGROForIfaces`.
        "bpfDisableGROForIfaces" bpf_disable_gro_for_ifaces: String where [Limit::Text(&REGEXP)];
        /// `BPFExcludeCIDRsFromNAT`.
        "bpfExcludeCIDRsFromNAT" bpf_exclude_cidrs_from_nat: Option<Vec<String>> where [Limit::Text(&CIDR)];
        /// `BPFExportBufferSizeMB`; default 1.
        "bpfExportBufferSizeMB" bpf_export_buffer_size_mb: Option<i64>;
        /// `IstioAmbientMode`; default Disabled.
        "istioAmbientMode" istio_ambient_mode: String where [Limit::OneOf(&["Enabled", "Disabled"])];
        /// `IstioDSCPMark`; default 23.
        "istioDSCPMark" istio_dscp_mark: Option<Dscp>;
        /// `CgroupV2Path`.
        "cgroupV2Path" cgroup_v2_path: String;
        /// `FlowLogsPolicyEvaluationMode`; default Continuous.
        "flowLogsPolicyEvaluationMode" flow_logs_policy_evaluation_mode: String where [Limit::OneOf(&["None", "Continuous"])];
        /// `BPFRedirectToPeer`; default Enabled.
        "bpfRedirectToPeer" bpf_redirect_to_peer: String where [Limit::OneOf(&["Enabled", "Disabled"])];
        /// `BPFAttachType`; default Netkit.
        "bpfAttachType" bpf_attach_type: String where [Limit::OneOf(&["TC", "TCX", "Netkit"])];
        /// `FlowLogsFlushInterval`.
        "flowLogsFlushInterval" flow_logs_flush_interval: Option<GoDuration> where [NOT_NEGATIVE];
        /// `FlowLogsCollectorDebugTrace`.
        "flowLogsCollectorDebugTrace" flow_logs_collector_debug_trace: Option<bool>;
        /// `FlowLogsGoldmaneServer`.
        "flowLogsGoldmaneServer" flow_logs_goldmane_server: Option<String>;
        /// `FlowLogsLocalReporter`; default Disabled.
        "flowLogsLocalReporter" flow_logs_local_reporter: Option<String> where [Limit::OneOf(&["Disabled", "Enabled"])];
        /// `BPFProfiling`; default Disabled.
        "bpfProfiling" bpf_profiling: String where [Limit::OneOf(&["Enabled", "Disabled"])];
        /// `RouteSource`.
        "routeSource" route_source: String where [Limit::AnyCase(&["WorkloadIPs", "CalicoIPAM"])];
        /// `RouteTableRanges`.
        "routeTableRanges" route_table_ranges: Option<Vec<RouteTableIdRange>>;
        /// `RouteTableRange`.
        "routeTableRange" route_table_range: Option<RouteTableRange>;
        /// `RouteSyncDisabled`.
        "routeSyncDisabled" route_sync_disabled: Option<bool>;
        /// `IPv4NormalRoutePriority`; default 1024.
        "ipv4NormalRoutePriority" ipv4_normal_route_priority: Option<i64> where [Limit::Range(1, 2_147_483_646)];
        /// `IPv4ElevatedRoutePriority`; default 512.
        "ipv4ElevatedRoutePriority" ipv4_elevated_route_priority: Option<i64> where [Limit::Range(1, 2_147_483_646)];
        /// `IPv6NormalRoutePriority`; default 1024.
        "ipv6NormalRoutePriority" ipv6_normal_route_priority: Option<i64> where [Limit::Range(1, 2_147_483_646)];
        /// `IPv6ElevatedRoutePriority`; default 512.
        "ipv6ElevatedRoutePriority" ipv6_elevated_route_priority: Option<i64> where [Limit::Range(1, 2_147_483_646)];
        /// `LiveMigrationRouteConvergenceTime`; default 30s.
        "liveMigrationRouteConvergenceTime" live_migration_route_convergence_time: Option<GoDuration> where [NOT_NEGATIVE];
        /// `WireguardEnabled`; default false.
        "wireguardEnabled" wireguard_enabled: Option<bool>;
        /// `WireguardEnabledV6`; default false.
        "wireguardEnabledV6" wireguard_enabled_v6: Option<bool>;
        /// `WireguardThreadingEnabled`; default false.
        "wireguardThreadingEnabled" wireguard_threading_enabled: Option<bool>;
        /// `WireguardListeningPort`; default 51820.
        "wireguardListeningPort" wireguard_listening_port: Option<i64> where [Limit::Range(1, 65_535)];
        /// `WireguardListeningPortV6`; default 51821.
        "wireguardListeningPortV6" wireguard_listening_port_v6: Option<i64> where [Limit::Range(1, 65_535)];
        /// `WireguardRoutingRulePriority`; default 99.
        "wireguardRoutingRulePriority" wireguard_routing_rule_priority: Option<i64> where [Limit::Range(1, 32_765)];
        /// `WireguardInterfaceName`; default wireguard.cali.
        "wireguardInterfaceName" wireguard_interface_name: String where [Limit::Text(&INTERFACE)];
        /// `WireguardInterfaceNameV6`; default wg-v6.cali.
        "wireguardInterfaceNameV6" wireguard_interface_name_v6: String where [Limit::Text(&INTERFACE)];
        /// `WireguardMTU`; default 1440.
        "wireguardMTU" wireguard_mtu: Option<i64>;
        /// `WireguardMTUV6`; default 1420.
        "wireguardMTUV6" wireguard_mtuv6: Option<i64>;
        /// `WireguardHostEncryptionEnabled`; default false.
        "wireguardHostEncryptionEnabled" wireguard_host_encryption_enabled: Option<bool>;
        /// `WireguardPersistentKeepAlive`; default 0.
        "wireguardKeepAlive" wireguard_keep_alive: Option<GoDuration> where [NOT_NEGATIVE];
        /// `AWSSrcDstCheck`; default DoNothing.
        "awsSrcDstCheck" aws_src_dst_check: String where [Limit::OneOf(&["DoNothing", "Enable", "Disable"])];
        /// `ServiceLoopPrevention`; default Drop.
        "serviceLoopPrevention" service_loop_prevention: String where [Limit::OneOf(&["Drop", "Reject", "Disabled"])];
        /// `WorkloadSourceSpoofing`.
        "workloadSourceSpoofing" workload_source_spoofing: String where [Limit::OneOf(&["Disabled", "Any"])];
        /// `MTUIfacePattern`.
        "mtuIfacePattern" mtu_iface_pattern: String where [Limit::Text(&REGEXP)];
        /// `FloatingIPs`; default Disabled (client-set).
        "floatingIPs" floating_ips: String where [Limit::OneOf(&["Enabled", "Disabled"])];
        /// `LocalSubnetL2Reachability`; default Disabled.
        "localSubnetL2Reachability" local_subnet_l2_reachability: String where [Limit::OneOf(&["Disabled", "PodsAndLoadBalancers"])];
        /// `LocalSubnetL2ReachabilityRefreshInterval`; default 120s.
        "localSubnetL2ReachabilityRefreshInterval" local_subnet_l2_reachability_refresh_interval: Option<GoDuration>;
        /// `WindowsManageFirewallRules`; default Disabled.
        "windowsManageFirewallRules" windows_manage_firewall_rules: String where [Limit::OneOf(&["Enabled", "Disabled"])];
        /// `GoGCThreshold`; default 40.
        "goGCThreshold" go_gc_threshold: Option<i64> where [Limit::Range(-1, i64::MAX)];
        /// `GoMemoryLimitMB`; default -1.
        "goMemoryLimitMB" go_memory_limit_mb: Option<i64> where [Limit::Range(-1, i64::MAX)];
        /// `GoMaxProcs`; default -1.
        "goMaxProcs" go_max_procs: Option<i64> where [Limit::Range(-1, i64::MAX)];
        /// `RequireMTUFile`; default false.
        "requireMTUFile" require_mtu_file: Option<bool>;
        /// `BPFMaglevMaxEndpointsPerService`; default 100.
        "bpfMaglevMaxEndpointsPerService" bpf_maglev_max_endpoints_per_service: Option<i64> where [Limit::Range(1, 3_000)];
        /// `BPFMaglevMaxServices`; default 100.
        "bpfMaglevMaxServices" bpf_maglev_max_services: Option<i64> where [Limit::Range(1, 3_000)];
    }
}

model! {
    /// A port of the host that stays reachable whatever policy says.
    pub struct ProtoPort {
        /// Peers that it is open to; empty means all. (Upstream does not look at the elements of this list.)
        "net" net: String;
        /// TCP, UDP or SCTP.
        "protocol" protocol: String;
        /// Number.
        "port" port: Option<u16>, required;
    }
}

model! {
    /// How long one part of the agent may be silent.
    pub struct HealthTimeoutOverride {
        /// The part.
        "name" name: String, required where [Limit::Text(&HEALTH_NAME)];
        /// How long.
        "timeout" timeout: Option<GoDuration>, required;
    }
}

model! {
    /// Kernel routing tables that the agent may use.
    pub struct RouteTableRange {
        /// First.
        "min" min: Option<i64>, required where [Limit::Range(1, 250)];
        /// Last.
        "max" max: Option<i64>, required where [Limit::Range(1, 250)];
    }
}

model! {
    /// Kernel routing tables that the agent may use.
    pub struct RouteTableIdRange {
        /// First.
        "min" min: Option<i64>, required where [Limit::Range(1, 0xffff_ffff)];
        /// Last.
        "max" max: Option<i64>, required where [Limit::Range(1, 0xffff_ffff)];
    }
}

model! {
    /// When entries of the BPF connection table lapse: a duration, or `Auto`.
    pub struct BpfConntrackTimeouts {
        /// After creation.
        "creationGracePeriod" creation_grace_period: Option<String> where [Limit::Text(&CONNTRACK_TIMEOUT)];
        /// SYN seen.
        "tcpSynSent" tcp_syn_sent: Option<String> where [Limit::Text(&CONNTRACK_TIMEOUT)];
        /// Established.
        "tcpEstablished" tcp_established: Option<String> where [Limit::Text(&CONNTRACK_TIMEOUT)];
        /// Both FINs seen.
        "tcpFinsSeen" tcp_fins_seen: Option<String> where [Limit::Text(&CONNTRACK_TIMEOUT)];
        /// Reset seen.
        "tcpResetSeen" tcp_reset_seen: Option<String> where [Limit::Text(&CONNTRACK_TIMEOUT)];
        /// UDP.
        "udpTimeout" udp_timeout: Option<String> where [Limit::Text(&CONNTRACK_TIMEOUT)];
        /// Other protocols.
        "genericTimeout" generic_timeout: Option<String> where [Limit::Text(&CONNTRACK_TIMEOUT)];
        /// ICMP.
        "icmpTimeout" icmp_timeout: Option<String> where [Limit::Text(&CONNTRACK_TIMEOUT)];
    }
}
