//! Settings of the standard renderer.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::str::FromStr;

use super::nat::NatConfig;
use crate::flow::EndpointToHost;
use crate::net::{Failsafes, InterfaceName};
use crate::spec;
use crate::verdict::Settings;

/// Settings of the standard renderer, with upstream's defaults. Upstream's parameter is named with each.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and `..Default::default()`")]
pub struct RenderConfig {
    /// How names of workload interfaces start (`InterfacePrefix`). An endpoint whose interface is called otherwise could not be
    /// policed, so it gets nothing: no route, no neighbour, no setting.
    pub workload_prefixes: Vec<InterfaceName>,
    /// Bits of the packet mark that are ours (`NftablesMarkMask`).
    pub mark_mask: MarkMask,
    /// Ports of host endpoints that no policy closes (`FailsafeInboundHostPorts`, `FailsafeOutboundHostPorts`).
    pub failsafes: Failsafes,
    /// What happens to a packet that policy denies where it is filtered (`FilterDenyAction`). Where it is not yet routed, or is leaving
    /// already, it is dropped: the kernel takes no refusal there.
    pub deny_action: DenyAction,
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
    /// Start of what Log rules write (`LogPrefix`). `%t` stands for the tier, `%k` for the kind of policy, `%n` for its name, `%p` for its name
    /// with its namespace.
    pub log_prefix: String,
    /// How often each Log rule writes at most (`LogActionRateLimit`); none means always.
    pub log_rate: Option<LogRate>,
    /// Whether rules hand packets to the collector of flow logs (upstream: a flow-log reporter is set up). There is none here yet.
    pub flow_logs: bool,
    /// Whether rules of policies count packets. Costs 2 to 3 ns for the one rule that matches and 32 octets a rule and processor, and is what
    /// tells an operator which rule is hit; so it is on. A policy that changes counts from zero.
    pub counters: bool,
    /// How traffic of pools with `natOutgoing` is translated.
    pub nat: NatConfig,
    /// Whether workloads are reached by their floating addresses (`FloatingIPs`).
    pub floating_addresses: bool,
    /// What happens to a forwarded packet that is still on its way to a service (`ServiceLoopPrevention`).
    pub service_loops: ServiceLoops,
    /// Metric of routes to workloads. 1024 is what the kernel makes of 0 for IPv6, so one number serves both families.
    pub route_metric: u32,
    /// `rp_filter` of workload interfaces: upstream copies the host's `conf.default.rp_filter`.
    pub rp_filter: u8,
    /// Whether this host speaks IPv6, so that the IPv6 settings of interfaces exist.
    pub ipv6: bool,
}

/// What becomes of a packet to a service that nobody translated, and that would come back to this host for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "the parameter has these three values")]
pub enum ServiceLoops {
    /// It is dropped.
    #[default]
    Drop,
    /// It is dropped, and its sender is told.
    Reject,
    /// It is forwarded (upstream: `Disabled`).
    Allow,
}

/// What becomes of a packet that policy denies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_enums, reason = "the parameter has these two values")]
pub enum DenyAction {
    /// It is gone.
    #[default]
    Drop,
    /// It is gone, and its sender is told: ICMP "port unreachable".
    Reject,
}

/// At least two bits of the packet mark, the lowest two of which are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarkMask(u32);

/// A mask that leaves too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the mark mask {0:#x} has too few bits: two are needed")]
pub struct MarkMaskError(u32);

impl TryFrom<u32> for MarkMask {
    type Error = MarkMaskError;

    fn try_from(mask: u32) -> Result<Self, MarkMaskError> {
        if mask.count_ones() < 2 { Err(MarkMaskError(mask)) } else { Ok(Self(mask)) }
    }
}

/// Upstream's default: the upper half.
impl Default for MarkMask {
    fn default() -> Self {
        Self(0xffff_0000)
    }
}

impl MarkMask {
    /// "What is known of this packet goes on to the next hook": the first bit, as upstream's "accepted". See [`hosts`](super::hosts).
    pub(super) const fn carried(self) -> u32 {
        self.0 & self.0.wrapping_neg()
    }

    /// "Leave this tier": the second bit, as upstream allots them.
    pub(super) const fn pass(self) -> u32 {
        let rest = self.0 & !self.carried();
        rest & rest.wrapping_neg()
    }
}

/// How often a rule logs at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "the two parameters of it")]
pub struct LogRate {
    /// Lines in each unit of time, from 1 to 9999.
    pub rate: u32,
    /// The unit in seconds: 1, 60, 3600 or 86 400.
    pub seconds: u32,
    /// Lines at once (`LogActionRateLimitBurst`; 5 unless it is set).
    pub burst: u32,
}

/// Text that is no rate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no rate of log lines: give a number from 1 to 9999, '/', and second, minute, hour or day")]
pub struct LogRateError(String);

impl FromStr for LogRate {
    type Err = LogRateError;

    fn from_str(text: &str) -> Result<Self, LogRateError> {
        let read = || {
            let (rate, unit) = text.split_once('/')?;
            let (_, seconds) = UNITS.iter().find(|(name, _)| *name == unit)?;
            // The number parser would take a sign.
            let rate = Some(rate).filter(|rate| rate.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?;
            (1..=9999).contains(&rate).then_some(Self { rate, seconds: *seconds, burst: 5 })
        };
        read().ok_or_else(|| LogRateError(text.into()))
    }
}

const UNITS: [(&str, u32); 4] = [("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400)];

impl Default for RenderConfig {
    fn default() -> Self {
        Self {
            workload_prefixes: vec![InterfaceName::CALI],
            mark_mask: MarkMask::default(),
            failsafes: Failsafes::default(),
            deny_action: DenyAction::Drop,
            endpoint_to_host: EndpointToHost::Drop,
            drop_invalid: true,
            vxlan_port: 4789,
            allow_vxlan_from_workloads: false,
            allow_ipip_from_workloads: false,
            allow_spoofed_sources: false,
            log_prefix: "calico-packet".into(),
            log_rate: None,
            flow_logs: false,
            counters: true,
            nat: NatConfig::default(),
            floating_addresses: false,
            service_loops: ServiceLoops::Drop,
            route_metric: 1024,
            rp_filter: 1,
            ipv6: true,
        }
    }
}

impl RenderConfig {
    /// The same, as evaluators ask for it.
    pub fn settings(&self) -> Settings {
        let host = spec::Settings {
            workload_prefixes: self.workload_prefixes.clone(),
            endpoint_to_host: self.endpoint_to_host,
            drop_invalid: self.drop_invalid,
            prevent_service_loops: self.service_loops != ServiceLoops::Allow,
            vxlan_port: self.vxlan_port,
            allow_vxlan_from_workloads: self.allow_vxlan_from_workloads,
            allow_ipip_from_workloads: self.allow_ipip_from_workloads,
            allow_spoofed_sources: self.allow_spoofed_sources,
        };
        Settings { host, failsafes: self.failsafes.clone() }
    }

    /// Whether an interface of this name is a workload's.
    pub(super) fn is_workload(&self, interface: InterfaceName) -> bool {
        interface.starts_with_any(&self.workload_prefixes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_taken_from_below() {
        let mask = MarkMask::try_from(0x00f0_0100).unwrap();
        assert_eq!((mask.carried(), mask.pass()), (0x100, 0x0010_0000));
        assert_eq!((MarkMask::default().carried(), MarkMask::default().pass()), (0x1_0000, 0x2_0000));
        assert!(MarkMask::try_from(0x100).is_err() && MarkMask::try_from(0).is_err());
    }

    #[test]
    fn evaluators_know_every_prefix() {
        let workload_prefixes: Vec<InterfaceName> = ["tap", "cali"].map(|prefix| prefix.parse().unwrap()).into();
        let config = RenderConfig { workload_prefixes: workload_prefixes.clone(), ..RenderConfig::default() };
        assert_eq!(config.settings().host.workload_prefixes, workload_prefixes);
    }

    #[test]
    fn rates_are_a_number_and_a_unit() {
        assert_eq!("10/minute".parse(), Ok(LogRate { rate: 10, seconds: 60, burst: 5 }));
        for bad in ["", "10", "0/second", "10000/day", "+1/hour", "1/week", "1/second/2"] {
            assert!(bad.parse::<LogRate>().is_err(), "{bad}");
        }
    }
}
