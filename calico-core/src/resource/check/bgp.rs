//! BGP: configuration, peers and filters.

use alloc::collections::BTreeSet;
use alloc::string::String;

use super::Checker;
use crate::net::{Cidr, Family};
use crate::resource::path::Path;
use crate::resource::{BgpConfigurationSpec, BgpFilterRule, BgpFilterSpec, BgpPeerSpec, FilterAction, FilterOperation};

impl Checker {
    pub(super) fn bgp_configuration(&mut self, name: &str, configuration: &BgpConfigurationSpec, spec: &Path<'_>) {
        if name != "default" {
            self.only_on_default(configuration, spec);
        }
        if configuration.node_to_node_mesh_enabled == Some(false) {
            for (field, given) in [
                ("nodeMeshPassword", configuration.node_mesh_password.is_some()),
                ("nodeMeshMaxRestartTime", configuration.node_mesh_max_restart_time.is_some()),
            ] {
                if given {
                    self.refuse_field(spec.field(field), "there is no mesh: nodeToNodeMeshEnabled is false");
                }
            }
        }
        if !configuration.communities.is_empty() && configuration.prefix_advertisements.is_empty() {
            self.refuse_field(spec.field("communities"), "communities are of use only with prefixAdvertisements");
        }
        let defined: BTreeSet<&str> =
            configuration.communities.iter().map(|community| community.name.as_str()).collect();
        let advertisements = spec.field("prefixAdvertisements");
        for (index, advertisement) in configuration.prefix_advertisements.iter().enumerate() {
            let path = advertisements.index(index);
            let path = path.field("communities");
            for (index, community) in advertisement.communities.iter().enumerate() {
                let is_value = (crate::resource::formats::COMMUNITY.check)(community).is_ok();
                if !is_value && !defined.contains(community.as_str()) {
                    let reason = "neither a community such as 64512:1 nor a name that communities defines";
                    self.refuse(path.index(index), community, reason);
                }
            }
        }
    }

    fn only_on_default(&mut self, configuration: &BgpConfigurationSpec, spec: &Path<'_>) {
        for (field, given) in [
            ("nodeToNodeMeshEnabled", configuration.node_to_node_mesh_enabled.is_some()),
            ("asNumber", configuration.as_number.is_some()),
            ("serviceLoadBalancerIPs", !configuration.service_load_balancer_ips.is_empty()),
            ("serviceExternalIPs", !configuration.service_external_ips.is_empty()),
            ("serviceClusterIPs", !configuration.service_cluster_ips.is_empty()),
            ("nodeMeshPassword", configuration.node_mesh_password.is_some()),
            ("nodeMeshMaxRestartTime", configuration.node_mesh_max_restart_time.is_some()),
        ] {
            if given {
                self.refuse_field(
                    spec.field(field),
                    "holds for the whole cluster: set it on the object called default",
                );
            }
        }
    }

    pub(super) fn bgp_peer(&mut self, peer: &BgpPeerSpec, spec: &Path<'_>) {
        let exclusive = [
            ("nodeSelector", !peer.node_selector.is_empty(), "node", !peer.node.is_empty()),
            ("peerSelector", !peer.peer_selector.is_empty(), "peerIP", !peer.peer_ip.is_empty()),
            ("localWorkloadSelector", !peer.local_workload_selector.is_empty(), "peerIP", !peer.peer_ip.is_empty()),
            (
                "localWorkloadSelector",
                !peer.local_workload_selector.is_empty(),
                "peerSelector",
                !peer.peer_selector.is_empty(),
            ),
            ("keepOriginalNextHop", peer.keep_original_next_hop, "nextHopMode", peer.next_hop_mode.is_some()),
        ];
        for (field, given, other, other_given) in exclusive {
            if given && other_given {
                self.refuse_field(spec.field(field), format_args!("cannot be given together with {other}"));
            }
        }
        let as_number = peer.as_number.map_or(0, |number| number.value());
        if as_number != 0 && !peer.peer_selector.is_empty() {
            let reason = "selected nodes have their own AS number: leave it out with peerSelector";
            self.refuse(spec.field("asNumber"), as_number, reason);
        }
        if as_number == 0 && !peer.local_workload_selector.is_empty() {
            self.missing(spec.field("asNumber"));
        }
        self.reachable_by(peer, spec);
    }

    fn reachable_by(&mut self, peer: &BgpPeerSpec, spec: &Path<'_>) {
        if peer.reachable_by.is_empty() {
            return;
        }
        if peer.peer_ip.is_empty() {
            self.refuse_field(spec.field("reachableBy"), "is the way to peerIP, which is missing");
            return;
        }
        // Of the two forms with a port only the one of IPv4 has dots.
        let is_v4 = |text: &str| text.contains('.') && !text.starts_with('[');
        if is_v4(&peer.peer_ip) != is_v4(&peer.reachable_by) {
            self.refuse(spec.field("reachableBy"), &peer.reachable_by, "must be of the same family as peerIP");
        }
    }

    pub(super) fn bgp_filter(&mut self, filter: &BgpFilterSpec, spec: &Path<'_>) {
        for (field, rules, family) in [
            ("exportV4", &filter.export_v4, Family::V4),
            ("importV4", &filter.import_v4, Family::V4),
            ("exportV6", &filter.export_v6, Family::V6),
            ("importV6", &filter.import_v6, Family::V6),
        ] {
            let path = spec.field(field);
            for (index, rule) in rules.iter().enumerate() {
                self.filter_rule(rule, family, &path.index(index));
            }
        }
    }

    fn filter_rule(&mut self, rule: &BgpFilterRule, family: Family, path: &Path<'_>) {
        if rule.cidr.parse::<Cidr>().is_ok_and(|cidr| cidr.family() != family) {
            self.refuse(path.field("cidr"), &rule.cidr, format_args!("expected an {family} prefix"));
        }
        match (rule.cidr.is_empty(), rule.match_operator) {
            (false, None) => self.missing(path.field("matchOperator")),
            (true, Some(_)) => self.missing(path.field("cidr")),
            _ => {}
        }
        if let Some(lengths) = &rule.prefix_length {
            let path = path.field("prefixLength");
            if rule.cidr.is_empty() {
                self.refuse_field(path, "is compared with cidr, which is missing");
            }
            let bits = i32::from(family.bits());
            for (field, length) in [("min", lengths.min), ("max", lengths.max)] {
                if let Some(length) = length.filter(|length| *length > bits) {
                    self.refuse(path.field(field), length, format_args!("{family} prefixes have at most {bits} bits"));
                }
            }
            if let (Some(min), Some(max)) = (lengths.min, lengths.max)
                && min > max
            {
                self.refuse(path.field("min"), min, format_args!("is more than max, {max}"));
            }
        }
        if !rule.operations.is_empty() && rule.action == Some(FilterAction::Reject) {
            self.refuse_field(path.field("operations"), "a route that is rejected is not changed");
        }
        let operations = path.field("operations");
        for (index, operation) in rule.operations.iter().enumerate() {
            let FilterOperation { add_community, prepend_as_path, set_priority } = operation;
            let given = [add_community.is_some(), prepend_as_path.is_some(), set_priority.is_some()];
            if given.iter().filter(|given| **given).count() != 1 {
                let reason = "give exactly one of addCommunity, prependASPath and setPriority";
                self.refuse_field(operations.index(index), String::from(reason));
            }
        }
    }
}
