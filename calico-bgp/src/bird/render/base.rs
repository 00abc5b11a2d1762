//! What a configuration has beside filters and sessions: the daemon itself, the kernel, interfaces, and what this node originates.

use core::net::IpAddr;
use std::collections::BTreeMap;

use calico_core::bgp::{BGP_PORT, Origin, Originated, PRIORITY_SUM};
use calico_core::net::Family;

use super::policy::{BLOCKS, GATEWAYS, SERVICES, WORKLOADS};
use super::settings::{BirdLog, BirdLogLevel, Dialect, KernelMetric};
use super::text::{Text, pattern, quoted};
use super::{Context, kernel, suffix};

/// The daemon itself.
pub(super) fn globals(text: &mut Text, context: Context<'_>) {
    let Context { desired, settings, dialect } = context;
    text.line("# Written by calico: changes are lost.");
    match &settings.log {
        None => {}
        Some(BirdLog::Stderr) => text.line("log stderr all;"),
        Some(BirdLog::Syslog) => text.line("log syslog all;"),
        Some(BirdLog::File(path)) => {
            if let Some(path) = quoted(path) {
                text.line(format_args!("log {path} all;"));
            }
        }
    }
    let router_id = desired.local.as_ref().map_or(settings.router_id, |local| local.router_id);
    text.line(format_args!("router id {router_id};"));
    if let (Dialect::OneSix { family }, Some(local)) = (dialect, &desired.local) {
        let address = local.address(family).filter(|_| local.listen.own_addresses);
        let address = address.map(|address| format!(" address {address}")).unwrap_or_default();
        let port = if local.listen.port == 0 { BGP_PORT } else { local.listen.port };
        text.line(format_args!("listen bgp{address} port {port};"));
    }
    text.line(format_args!("graceful restart wait {};", settings.recovery.max(1)));
    match settings.log_level {
        BirdLogLevel::Quiet => {}
        BirdLogLevel::Info => text.line("debug protocols { states, events };"),
        BirdLogLevel::Debug => text.line("debug protocols all;"),
    }
    text.line("");
}

/// Protocols other than sessions.
pub(super) fn protocols(text: &mut Text, context: Context<'_>, gateways: &BTreeMap<IpAddr, IpAddr>, bfd: bool) {
    text.open("protocol device");
    text.line("scan time 2;");
    text.close();
    for family in context.dialect.families() {
        direct(text, context, family);
        kernel_protocol(text, context, family);
        originated(text, context, family);
        gateway_routes(text, context.dialect, gateways, family);
    }
    if bfd {
        text.open("protocol bfd calico_bfd");
        text.close();
    }
}

/// Networks on link, which next hops are looked up in.
fn direct(text: &mut Text, context: Context<'_>, family: Family) {
    text.open(format_args!("protocol direct calico_direct{}", suffix(family)));
    let ignored = context.settings.ignored_interfaces.iter().filter_map(|name| pattern(name));
    let interfaces: Vec<String> = ignored.map(|name| format!("-{name}")).chain(["\"*\"".to_owned()]).collect();
    text.line(format_args!("interface {};", interfaces.join(", ")));
    channel(text, context.dialect, family);
    text.close();
}

/// A channel with nothing to say.
fn channel(text: &mut Text, dialect: Dialect, family: Family) {
    if dialect == Dialect::Two {
        text.line(format_args!("{};", word(family)));
    }
}

/// BIRD 2's word for a family.
pub(super) const fn word(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

fn kernel_protocol(text: &mut Text, context: Context<'_>, family: Family) {
    let settings = context.settings.kernel.as_ref();
    text.open(format_args!("protocol kernel calico_kernel{}", suffix(family)));
    // Next hops that are not on link are reached by the host's own routes.
    text.line("learn;");
    text.line("persist;");
    text.line("scan time 2;");
    text.line("graceful restart;");
    text.line("merge paths on;");
    if let Some(table) = settings.and_then(|settings| settings.table) {
        text.line(format_args!("kernel table {table};"));
    }
    let two = context.dialect == Dialect::Two;
    if let Some(settings) = settings.filter(|_| two) {
        let metric = match settings.metric {
            KernelMetric::Fixed(metric) => metric,
            KernelMetric::Priority => 0,
        };
        text.line(format_args!("metric {metric};"));
    }
    if two {
        text.open(word(family));
    }
    text.line("import all;");
    match settings {
        Some(_) => text.line(format_args!("export filter {}{};", kernel::FILTER, suffix(family))),
        None => text.line("export none;"),
    }
    if two {
        text.close_item();
    }
    text.close();
}

/// What this node originates, with its priority as a metric: LOCAL_PREF would be lost on the way to a session in BIRD 1.6.
fn originated(text: &mut Text, context: Context<'_>, family: Family) {
    // A prefix may be there for two reasons; each protocol has it once then.
    let mut by_protocol: BTreeMap<&str, Vec<&Originated>> = BTreeMap::new();
    for originated in context.desired.originated.iter().filter(|originated| originated.prefix.family() == family) {
        let protocol = match originated.origin {
            Origin::Workload => WORKLOADS,
            Origin::Service | Origin::Static => SERVICES,
            _ => BLOCKS,
        };
        let routes = by_protocol.entry(protocol).or_default();
        if routes.last().is_none_or(|last| last.prefix != originated.prefix) {
            routes.push(originated);
        }
    }
    for (protocol, routes) in by_protocol {
        text.open(format_args!("protocol static {protocol}{}", suffix(family)));
        channel(text, context.dialect, family);
        for Originated { prefix, priority, .. } in routes {
            let metric = (*priority).min(PRIORITY_SUM);
            text.line(format_args!("route {prefix} blackhole {{ krt_metric = {metric}; }};"));
        }
        text.close();
    }
}

fn gateway_routes(text: &mut Text, dialect: Dialect, gateways: &BTreeMap<IpAddr, IpAddr>, family: Family) {
    let mut routes = gateways.iter().filter(|(peer, _)| Family::of(**peer) == family).peekable();
    if routes.peek().is_none() {
        return;
    }
    text.open(format_args!("protocol static {GATEWAYS}{}", suffix(family)));
    channel(text, dialect, family);
    for (peer, gateway) in routes {
        text.line(format_args!("route {peer}/{} via {gateway};", family.bits()));
    }
    text.close();
}
