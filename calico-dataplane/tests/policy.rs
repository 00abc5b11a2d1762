//! The standard renderer keeps the contract of its trait, as it is set up by default and with everything set up otherwise.
#![cfg(feature = "testing")]

use calico_core::net::InterfaceName;
use calico_core::render::{EndpointToHost, PolicyRenderer, RenderConfig, Renderer};
use calico_core::spec::Settings;
use calico_dataplane::testing::renderer::{Subject, suite};

#[test]
fn by_default() {
    suite(&Subject {
        make: &|| Box::new(Renderer::new(RenderConfig::default())),
        workload_prefix: InterfaceName::CALI,
        settings: Settings::default(),
        seeds: 0..20,
    });
}

#[test]
fn set_up_otherwise() {
    let settings = Settings {
        endpoint_to_host: EndpointToHost::Return,
        vxlan_port: 8472,
        allow_vxlan_from_workloads: true,
        allow_ipip_from_workloads: true,
        allow_spoofed_sources: true,
        ..Settings::default()
    };
    let workload_prefix = "tap".parse().unwrap();
    let config = RenderConfig {
        workload_prefixes: vec![InterfaceName::CALI, workload_prefix],
        mark_mask: 0x30.try_into().unwrap(),
        endpoint_to_host: settings.endpoint_to_host,
        vxlan_port: settings.vxlan_port,
        allow_vxlan_from_workloads: settings.allow_vxlan_from_workloads,
        allow_ipip_from_workloads: settings.allow_ipip_from_workloads,
        allow_spoofed_sources: settings.allow_spoofed_sources,
        counters: true,
        ipv6: false,
        ..RenderConfig::default()
    };
    let make = &|| -> Box<dyn PolicyRenderer> { Box::new(Renderer::new(config.clone())) };
    suite(&Subject { make, workload_prefix, settings, seeds: 100..112 });
}
