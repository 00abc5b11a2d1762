//! Which routes peers hear of: [`ExportPolicy`] as functions of BIRD, with the verdicts and the order of [`ExportPolicy::decide`].

use calico_core::bgp::{ExportPolicy, PRIORITY_SUM};
use calico_core::net::{Cidr, Family};

use super::filter::add_community;
use super::text::Text;
use super::{Context, suffix};

/// Protocols of what this node originates, by why it does.
pub(super) const BLOCKS: &str = "calico_blocks";
/// See [`BLOCKS`].
pub(super) const WORKLOADS: &str = "calico_workloads";
/// See [`BLOCKS`].
pub(super) const SERVICES: &str = "calico_services";
/// Ways to peers that are not on link. Nobody hears of them.
pub(super) const GATEWAYS: &str = "calico_gateways";

/// The functions that sessions call: `calico_own…` before their filters (only what is ours, with the
/// LOCAL_PREF that says its priority, or was learned goes on), and `calico_export…`
/// after them. Either ends with a verdict or returns.
pub(super) fn functions(text: &mut Text, context: Context<'_>, family: Family) {
    let policy = &context.desired.export;
    let of_family = |cidr: &&Cidr| cidr.family() == family;
    let end = suffix(family);
    pools(text, policy, family);

    text.open(format_args!("function calico_own{end}()"));
    text.line(format_args!(
        "if source != RTS_BGP && (source != RTS_STATIC || proto = \"{GATEWAYS}{end}\") then reject;"
    ));
    text.line(format_args!("if source = RTS_STATIC then bgp_local_pref = {PRIORITY_SUM} - krt_metric;"));
    text.close();

    text.open(format_args!("function calico_export{end}()"));
    text.line(format_args!("if calico_pool{end}() = 1 then reject;"));
    for (range, communities) in policy.communities.iter().filter(|(range, _)| range.family() == family) {
        text.open(format_args!("if net ~ {range} then"));
        communities.iter().for_each(|community| add_community(text, *community));
        text.close();
    }
    let ordinary = PRIORITY_SUM.saturating_sub(*policy.normal_priority.get(family));
    for block in policy.blocks.iter().filter(of_family) {
        text.line(format_args!("if net = {block} then accept;"));
        text.open(format_args!("if net ~ {block} then"));
        text.line(format_args!("if defined(bgp_local_pref) && bgp_local_pref > {ordinary} then accept;"));
        text.line("reject;");
        text.close();
    }
    text.line(format_args!("if proto = \"{SERVICES}{end}\" then accept;"));
    let reflects = context.desired.local.as_ref().is_some_and(|local| local.cluster_id.is_some());
    for range in policy.reflected.iter().filter(of_family).filter(|_| reflects) {
        text.line(format_args!("if net ~ {range} then accept;"));
    }
    text.line(format_args!("if calico_pool{end}() = 2 then accept;"));
    if policy.others {
        text.line(format_args!("if calico_pool{end}() = 0 then accept;"));
    }
    text.line("reject;");
    text.close();
}

/// Of the longest pool that covers a route: 1 if its routes stay here, 2 if they are announced; 0 without one.
fn pools(text: &mut Text, policy: &ExportPolicy, family: Family) {
    text.open(format_args!("function calico_pool{}()", suffix(family)));
    for (pool, announced) in longest_first(&policy.pools, family) {
        text.line(format_args!("if net ~ {pool} then return {};", if announced { 2 } else { 1 }));
    }
    text.line("return 0;");
    text.close();
}

/// So that the first one that covers a route is the longest.
pub(super) fn longest_first<T: Copy>(ranges: &std::collections::BTreeMap<Cidr, T>, family: Family) -> Vec<(Cidr, T)> {
    let mut sorted: Vec<(Cidr, T)> =
        ranges.iter().filter(|(cidr, _)| cidr.family() == family).map(|(cidr, value)| (*cidr, *value)).collect();
    sorted.sort_by_key(|(cidr, _)| core::cmp::Reverse(cidr.length()));
    sorted
}
