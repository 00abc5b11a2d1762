//! The standard renderer keeps the contract of its trait, as it is set up by default and with everything set up otherwise.
#![cfg(feature = "testing")]

use calico_core::net::{Failsafes, InterfaceName};
use calico_core::render::{DenyAction, EndpointToHost, PolicyRenderer, RenderConfig, Renderer, ServiceLoops};
use calico_core::spec::Settings;
use calico_dataplane::testing::renderer::{Subject, suite};

#[test]
fn by_default() {
    suite(&Subject {
        make: &|| Box::new(Renderer::new(RenderConfig::default())),
        settings: Settings::default(),
        failsafes: Failsafes::default(),
        seeds: 0..20,
    });
}

/// Where nothing tells rules apart, they are folded.
#[test]
fn without_counters() {
    let config = RenderConfig { counters: false, ..RenderConfig::default() };
    suite(&Subject {
        make: &|| Box::new(Renderer::new(config.clone())),
        settings: Settings::default(),
        failsafes: Failsafes::default(),
        seeds: 40..60,
    });
}

#[test]
fn set_up_otherwise() {
    let settings = Settings {
        workload_prefixes: vec![InterfaceName::CALI, "tap".parse().unwrap()],
        endpoint_to_host: EndpointToHost::Return,
        drop_invalid: false,
        prevent_service_loops: false,
        vxlan_port: 8472,
        allow_vxlan_from_workloads: true,
        allow_ipip_from_workloads: true,
        allow_spoofed_sources: true,
    };
    let failsafes = Failsafes { inbound: vec!["tcp:192.0.2.0/24:80".parse().unwrap()], outbound: Vec::new() };
    let config = RenderConfig {
        workload_prefixes: settings.workload_prefixes.clone(),
        mark_mask: 0x30.try_into().unwrap(),
        endpoint_to_host: settings.endpoint_to_host,
        vxlan_port: settings.vxlan_port,
        allow_vxlan_from_workloads: settings.allow_vxlan_from_workloads,
        allow_ipip_from_workloads: settings.allow_ipip_from_workloads,
        allow_spoofed_sources: settings.allow_spoofed_sources,
        drop_invalid: settings.drop_invalid,
        service_loops: ServiceLoops::Allow,
        failsafes: failsafes.clone(),
        deny_action: DenyAction::Reject,
        flow_logs: true,
        floating_addresses: true,
        counters: false,
        ipv6: false,
        ..RenderConfig::default()
    };
    let make = &|| -> Box<dyn PolicyRenderer> { Box::new(Renderer::new(config.clone())) };
    suite(&Subject { make, settings, failsafes, seeds: 100..112 });
}
