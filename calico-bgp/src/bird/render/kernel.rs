//! Which learned routes the kernel gets, and how: `KernelPolicy` as a filter of BIRD.
//!
//! Beside learned routes only the ways to peers behind a gateway are programmed. What this node originates is a blackhole in BIRD, which would
//! take its own workloads off the network; whoever sets up workloads sets up the kernel's routes to them.

use calico_core::bgp::{PRIORITY_SUM, PoolRouting};
use calico_core::net::Family;

use super::policy::{GATEWAYS, longest_first};
use super::settings::{Dialect, KernelMetric, KernelSettings};
use super::text::{Text, quoted};
use super::{Context, suffix};

/// The filter's name, without the family.
pub(super) const FILTER: &str = "calico_kernel_programming";

pub(super) fn filter(text: &mut Text, context: Context<'_>, family: Family) {
    let Some(settings) = &context.settings.kernel else { return };
    let policy = &*context.desired.kernel;
    let end = suffix(family);
    text.open(format_args!("filter {FILTER}{end}"));
    text.line(format_args!("if proto = \"{GATEWAYS}{end}\" then accept;"));
    text.line("if source != RTS_BGP then reject;");
    for range in policy.rejected.iter().filter(|range| range.family() == family) {
        text.line(format_args!("if net ~ {range} then reject;"));
    }
    for hop in policy.other_next_hops.iter().filter(|hop| Family::of(**hop) == family) {
        text.line(format_args!("if bgp_next_hop = {hop} then reject;"));
    }
    metric(text, context.dialect, settings.metric, *policy.normal_priority.get(family));
    for (pool, routing) in longest_first(&policy.pools, family) {
        match routing {
            PoolRouting::Elsewhere => text.line(format_args!("if net ~ {pool} then reject;")),
            PoolRouting::Plain => text.line(format_args!("if net ~ {pool} then accept;")),
            PoolRouting::Tunnel | PoolRouting::TunnelAcrossSubnets => {
                text.open(format_args!("if net ~ {pool} then"));
                let near = policy.subnet.get(family).filter(|_| routing == PoolRouting::TunnelAcrossSubnets);
                if let Some(near) = near.filter(|near| near.family() == family) {
                    text.line(format_args!("if bgp_next_hop ~ {near} then accept;"));
                }
                tunnel(text, context.dialect, settings, family);
                text.close();
            }
        }
    }
    text.line("accept;");
    text.close();
}

fn metric(text: &mut Text, dialect: Dialect, metric: KernelMetric, normal: u32) {
    match (metric, dialect) {
        // The protocol has it.
        (KernelMetric::Fixed(_), Dialect::Two) => {}
        (KernelMetric::Fixed(metric), Dialect::OneSix { .. }) => text.line(format_args!("krt_metric = {metric};")),
        (KernelMetric::Priority, _) => {
            text.line(format_args!("krt_metric = {normal};"));
            let told = format_args!("krt_metric = {PRIORITY_SUM} - bgp_local_pref;").to_string();
            text.line(format_args!("if defined(bgp_local_pref) && bgp_local_pref < {PRIORITY_SUM} then {told}"));
        }
    }
}

/// The verdict of a route that takes the device. There is no such device for IPv6.
fn tunnel(text: &mut Text, dialect: Dialect, settings: &KernelSettings, family: Family) {
    let Some(device) = quoted(settings.tunnel.as_str()).filter(|_| family == Family::V4) else {
        return text.line("reject;");
    };
    match dialect {
        // In this order: the gateway is looked up on the device that is set by then.
        Dialect::Two => {
            text.line("onlink = true;");
            text.line(format_args!("ifname = {device};"));
            text.line("gw = bgp_next_hop;");
        }
        Dialect::OneSix { .. } => text.line(format_args!("krt_tunnel = {device};")),
    }
    text.line("accept;");
}
