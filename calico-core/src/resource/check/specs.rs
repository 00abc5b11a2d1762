//! Everything but rules, kind by kind.

use alloc::string::ToString;
use core::net::IpAddr;

use super::Checker;
use super::rules::{GlobalWord, Place};
use crate::net::{Cidr, Family};
use crate::resource::defaults::FIXED_TIERS;
use crate::resource::path::Path;
use crate::resource::workload_endpoint::nobodys;
use crate::resource::{
    AllowedUse, EncapMode, GlobalNetworkPolicySpec, IpPoolSpec, IpamBlock, NetworkPolicySpec, NodeBgpSpec, NodeSpec,
    PolicyType, ProfileSpec, TierSpec, WorkloadEndpointSpec,
};

/// Most entries of a pool's uses.
const MAX_USES: usize = 10;

impl Checker {
    pub(super) fn node(&mut self, node: &NodeSpec, spec: &Path<'_>) {
        let Some(bgp) = &node.bgp else { return };
        let path = spec.field("bgp");
        if self.is_manifest() && *bgp == NodeBgpSpec::default() {
            self.refuse_field(path, "is there but empty: give an address, or leave it out");
        }
        let wrong = |address: IpAddr, family| Family::of(address) != family;
        for (name, address, family) in
            [("ipv4Address", bgp.ipv4_address, Family::V4), ("ipv6Address", bgp.ipv6_address, Family::V6)]
        {
            if let Some(address) = address.filter(|address| wrong(address.address(), family)) {
                self.refuse(path.field(name), address, format_args!("expected an {family} address"));
            }
        }
    }

    pub(super) fn ip_pool(&mut self, pool: &IpPoolSpec, spec: &Path<'_>) {
        let family = pool.cidr.family();
        let length = pool.block_length();
        let (shortest, longest) = match family {
            Family::V4 => (20, 32),
            Family::V6 => (116, 128),
        };
        if !(shortest..=longest).contains(&length) {
            let reason = format_args!("{family} pools have a block size from {shortest} to {longest}");
            self.refuse(spec.field("blockSize"), length, reason);
        } else if pool.cidr.length() > length && !pool.disabled {
            let reason = format_args!("the pool is smaller than one block of /{length}");
            self.refuse(spec.field("cidr"), pool.cidr, reason);
        }
        if self.is_manifest() {
            self.ip_pool_combinations(pool, spec);
        }
        self.selector(
            pool.node_selector.as_deref().unwrap_or_default(),
            spec.field("nodeSelector"),
            GlobalWord::Refused,
        );
        let namespaces = pool.namespace_selector.as_deref().unwrap_or_default();
        self.selector(namespaces, spec.field("namespaceSelector"), GlobalWord::Refused);
    }

    fn ip_pool_combinations(&mut self, pool: &IpPoolSpec, spec: &Path<'_>) {
        let encapsulated = |mode| mode != EncapMode::Never;
        if encapsulated(pool.ipip_mode) && encapsulated(pool.vxlan_mode) {
            self.refuse_field(spec.field("ipipMode"), "IP-in-IP and VXLAN cannot both be enabled");
        }
        if encapsulated(pool.ipip_mode) && pool.cidr.family() == Family::V6 {
            self.refuse_field(spec.field("ipipMode"), "IP-in-IP exists for IPv4 pools only");
        }
        for reserved in ["169.254.0.0/16", "fe80::/10"] {
            if reserved.parse::<Cidr>().is_ok_and(|reserved| reserved.overlaps(&pool.cidr)) {
                self.refuse(spec.field("cidr"), pool.cidr, format_args!("overlaps link-local addresses {reserved}"));
            }
        }
        self.limit(pool.allowed_uses.len(), MAX_USES, &spec.field("allowedUses"));
        let uses = |wanted| pool.allowed_uses.contains(&wanted);
        if uses(AllowedUse::Tunnel) && pool.namespace_selector.as_deref().is_some_and(|text| !text.is_empty()) {
            let reason = "needs allowedUses without Tunnel: tunnel addresses belong to no namespace";
            self.refuse_field(spec.field("namespaceSelector"), reason);
        }
        if uses(AllowedUse::LoadBalancer) {
            self.load_balancer_pool(pool, spec);
        }
    }

    fn load_balancer_pool(&mut self, pool: &IpPoolSpec, spec: &Path<'_>) {
        let path = spec.field("allowedUses");
        if pool.allowed_uses.iter().any(|allowed| *allowed != AllowedUse::LoadBalancer) {
            self.refuse_field(path, "LoadBalancer cannot be combined with other uses");
        }
        if pool.ipip_mode != EncapMode::Never || pool.vxlan_mode != EncapMode::Never {
            self.refuse_field(path, "LoadBalancer pools cannot have IP-in-IP or VXLAN");
        }
        if pool.disable_bgp_export {
            self.refuse_field(path, "LoadBalancer pools cannot have disableBGPExport");
        }
        if pool.node_selector.as_deref().is_some_and(|text| !matches!(text, "" | "all()")) {
            self.refuse_field(path, "LoadBalancer pools cannot have a node selector other than all()");
        }
    }

    pub(super) fn workload_endpoint(&mut self, endpoint: &WorkloadEndpointSpec, spec: &Path<'_>) {
        if endpoint.interface_name.is_none() {
            self.missing(spec.field("interfaceName"));
        }
        for (index, net) in endpoint.ip_networks.iter().enumerate().filter(|(_, net)| !net.is_host()) {
            let reason = "a workload's address is a /32 or /128";
            self.refuse(spec.field("ipNetworks").index(index), net, reason);
        }
        if self.is_manifest() {
            for (index, net) in endpoint.ip_networks.iter().enumerate() {
                if let Some(reason) = nobodys(net.address()) {
                    self.refuse(spec.field("ipNetworks").index(index), net, reason);
                }
            }
        }
        for (name, gateway, family) in
            [("ipv4Gateway", endpoint.ipv4_gateway, Family::V4), ("ipv6Gateway", endpoint.ipv6_gateway, Family::V6)]
        {
            if let Some(gateway) = gateway.filter(|gateway| Family::of(*gateway) != family) {
                self.refuse(spec.field(name), gateway, format_args!("expected an {family} address"));
            }
        }
        for (index, port) in endpoint.ports.iter().enumerate() {
            let ports = spec.field("ports");
            let path = ports.index(index);
            if !port.protocol.has_ports() {
                self.refuse(path.field("protocol"), port.protocol, "give TCP, UDP or SCTP");
            }
            if port.port == 0 {
                self.refuse(path.field("port"), 0, "give a number from 1 to 65535");
            }
            if port.name.is_empty() && port.host_port == 0 {
                self.missing(path.field("name"));
            }
        }
        self.floating_addresses(endpoint, spec);
    }

    /// Each is for an address of the workload's own.
    fn floating_addresses(&mut self, endpoint: &WorkloadEndpointSpec, spec: &Path<'_>) {
        if !self.is_manifest() {
            return;
        }
        let path = spec.field("ipNATs");
        for (index, nat) in endpoint.ip_nats.iter().enumerate() {
            let (internal, external) = (nat.internal_ip.parse::<IpAddr>(), nat.external_ip.parse::<IpAddr>());
            let (Ok(internal), Ok(external)) = (internal, external) else { continue };
            let path = path.index(index);
            if Family::of(internal) != Family::of(external) {
                self.refuse(path.field("externalIP"), external, "must be of the same family as internalIP");
            }
            if !endpoint.ip_networks.iter().any(|net| net.covers(&Cidr::host(internal))) {
                self.refuse(path.field("internalIP"), internal, "is no address of ipNetworks");
            }
        }
    }

    pub(super) fn profile(&mut self, profile: &ProfileSpec, spec: &Path<'_>) {
        self.rules(&profile.ingress, PolicyType::Ingress, Place::Profile, spec);
        self.rules(&profile.egress, PolicyType::Egress, Place::Profile, spec);
        if self.is_manifest() {
            for (key, value) in &profile.labels_to_apply {
                self.label(key, value, &spec.field("labelsToApply"));
            }
        }
    }

    /// Upstream's three tiers have a fixed place and action.
    pub(super) fn tier(&mut self, name: &str, tier: &TierSpec, spec: &Path<'_>) {
        let Some((_, order, action)) = FIXED_TIERS.into_iter().find(|(fixed, ..)| *fixed == name) else { return };
        if !self.is_manifest() {
            return;
        }
        if let Some(given) = tier.order.filter(|given| *given != order) {
            self.refuse(spec.field("order"), given, format_args!("the {name} tier must have order {order}"));
        }
        if let Some(given) = tier.default_action.filter(|given| *given != action) {
            let reason = format_args!("the {name} tier must have default action {action:?}");
            self.refuse(spec.field("defaultAction"), alloc::format!("{given:?}"), reason);
        }
    }

    pub(super) fn network_policy(&mut self, policy: &NetworkPolicySpec, spec: &Path<'_>) {
        self.name(&policy.tier, spec.field("tier"));
        self.types(&policy.types, spec);
        self.selector(&policy.selector, spec.field("selector"), GlobalWord::Refused);
        self.selector(&policy.service_account_selector, spec.field("serviceAccountSelector"), GlobalWord::Refused);
        self.rules(&policy.ingress, PolicyType::Ingress, Place::Namespaced, spec);
        self.rules(&policy.egress, PolicyType::Egress, Place::Namespaced, spec);
    }

    pub(super) fn global_network_policy(&mut self, policy: &GlobalNetworkPolicySpec, spec: &Path<'_>) {
        self.name(&policy.tier, spec.field("tier"));
        self.types(&policy.types, spec);
        self.selector(&policy.selector, spec.field("selector"), GlobalWord::Refused);
        self.selector(&policy.service_account_selector, spec.field("serviceAccountSelector"), GlobalWord::Refused);
        self.selector(&policy.namespace_selector, spec.field("namespaceSelector"), GlobalWord::Refused);
        if policy.pre_dnat && policy.do_not_track {
            self.refuse_field(spec.field("preDNAT"), "preDNAT and doNotTrack exclude each other");
        }
        if policy.pre_dnat && !policy.egress.is_empty() {
            self.refuse_field(spec.field("egress"), "a preDNAT policy cannot have egress rules");
        }
        if policy.pre_dnat && policy.types.contains(&PolicyType::Egress) {
            self.refuse_field(spec.field("types"), "a preDNAT policy cannot have type Egress");
        }
        if (policy.pre_dnat || policy.do_not_track) && !policy.apply_on_forward {
            self.refuse_field(spec.field("applyOnForward"), "must be true when preDNAT or doNotTrack is");
        }
        self.rules(&policy.ingress, PolicyType::Ingress, Place::Global, spec);
        self.rules(&policy.egress, PolicyType::Egress, Place::Global, spec);
    }

    fn types(&mut self, types: &[PolicyType], spec: &Path<'_>) {
        let repeated = matches!(types, [first, second] if first == second);
        if self.is_manifest() && (repeated || types.len() > 2) {
            let given = alloc::format!("{types:?}").to_string();
            self.refuse(spec.field("types"), given, "give Ingress, Egress or both, once each");
        }
    }

    /// Ordinals and indices must point into the block: whoever allocates trusts them.
    pub(super) fn ipam_block(&mut self, block: &IpamBlock, root: &Path<'_>) {
        let host_bits = block.cidr.family().bits() - block.cidr.length();
        let size = 1usize.checked_shl(u32::from(host_bits)).filter(|_| host_bits <= 16);
        if size != Some(block.allocations.len()) {
            let reason = format_args!("{} entries do not fit block {}", block.allocations.len(), block.cidr);
            return self.refuse_field(root.field("allocations"), reason);
        }
        for index in block.allocations.iter().flatten().filter(|index| **index >= block.attributes.len()) {
            self.refuse(root.field("allocations"), index, "points past the attributes");
        }
        let outside =
            |ordinal: &&u32| usize::try_from(**ordinal).map_or(true, |ordinal| ordinal >= block.allocations.len());
        for ordinal in block.unallocated.iter().filter(outside) {
            self.refuse(root.field("unallocated"), ordinal, "lies outside the block");
        }
    }
}
