//! Settings of the standard renderer.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use crate::net::InterfaceName;

/// Settings of the standard renderer, with upstream's defaults. Upstream's parameter is named with each.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and `..Default::default()`")]
pub struct RenderConfig {
    /// How names of workload interfaces start (`InterfacePrefix`). An endpoint whose interface is called otherwise could not be
    /// policed, so it gets nothing: no route, no neighbour, no setting.
    pub workload_prefixes: Vec<InterfaceName>,
    /// Bits of the packet mark that are ours (`NftablesMarkMask`); one of them is used.
    pub mark_mask: NonZeroU32,
    /// What happens to traffic from a workload to this host that its policy allows (`DefaultEndpointToHostAction`).
    pub endpoint_to_host: EndpointToHost,
    /// Whether packets that conntrack finds invalid are dropped (the reverse of `DisableConntrackInvalidCheck`).
    pub drop_invalid: bool,
    /// UDP port of VXLAN (`VXLANPort`).
    pub vxlan_port: u16,
    /// Whether workloads may send VXLAN (`AllowVXLANPacketsFromWorkloads`).
    pub allow_vxlan_from_workloads: bool,
    /// Whether workloads may send IP-in-IP (`AllowIPIPPacketsFromWorkloads`).
    pub allow_ipip_from_workloads: bool,
    /// Whether an endpoint's further source prefixes are honoured (`WorkloadSourceSpoofing=Any`).
    pub allow_spoofed_sources: bool,
    /// Start of what Log rules write (`LogPrefix`).
    pub log_prefix: String,
    /// Whether rules of policies count packets.
    pub counters: bool,
    /// Metric of routes to workloads. 1024 is what the kernel makes of 0 for IPv6, so one number serves both families.
    pub route_metric: u32,
    /// `rp_filter` of workload interfaces: upstream copies the host's `conf.default.rp_filter`.
    pub rp_filter: u8,
    /// Whether this host speaks IPv6, so that the IPv6 settings of interfaces exist.
    pub ipv6: bool,
}

/// Default endpoint-to-host action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "the parameter has these three values")]
pub enum EndpointToHost {
    /// Drop.
    #[default]
    Drop,
    /// Leave it to other rules of the host.
    Return,
    /// Accept. As nf_tables ends only its own base chain on `accept`, this is the same as [`Self::Return`].
    Accept,
}

impl Default for RenderConfig {
    fn default() -> Self {
        Self {
            workload_prefixes: vec![InterfaceName::CALI],
            mark_mask: DEFAULT_MARK_MASK,
            endpoint_to_host: EndpointToHost::Drop,
            drop_invalid: true,
            vxlan_port: 4789,
            allow_vxlan_from_workloads: false,
            allow_ipip_from_workloads: false,
            allow_spoofed_sources: false,
            log_prefix: "calico-packet".into(),
            counters: false,
            route_metric: 1024,
            rp_filter: 1,
            ipv6: true,
        }
    }
}

impl RenderConfig {
    /// Whether an interface of this name is a workload's.
    pub(super) fn is_workload(&self, interface: InterfaceName) -> bool {
        interface.starts_with_any(&self.workload_prefixes)
    }

    /// The bit that says "leave this tier": the second of the mask, as upstream allots them, or its only one.
    pub(super) const fn pass_mark(&self) -> u32 {
        let mask = self.mark_mask.get();
        let lowest = mask & mask.wrapping_neg();
        let rest = mask & !lowest;
        if rest == 0 { lowest } else { rest & rest.wrapping_neg() }
    }
}

/// Upstream's default: the upper half.
const DEFAULT_MARK_MASK: NonZeroU32 = match NonZeroU32::new(0xffff_0000) {
    Some(mask) => mask,
    None => NonZeroU32::MAX,
};
