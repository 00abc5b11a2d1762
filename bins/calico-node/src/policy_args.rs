//! Settings of policy and translation, under upstream's names (`felix/config/config_params.go`).

use std::net::IpAddr;

use calico_core::net::{FailsafePort, Failsafes, InterfaceList, PortRange};
use calico_core::render::{
    DenyAction, EndpointToHost, InterfacePattern, LogRate, MarkMask, NatConfig, RenderConfig, ServiceLoops,
};
use clap::builder::{BoolishValueParser, PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args};

/// How policy is carried out on this host.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Policy")]
#[expect(clippy::exhaustive_structs, reason = "filled by the parser")]
pub struct PolicyArgs {
    /// What happens to packets from workloads to this host once their own policy has allowed them
    #[arg(long, env = "FELIX_DEFAULTENDPOINTTOHOSTACTION", value_name = "ACTION", value_parser = one_of(TO_HOST), ignore_case = true,
          default_value = "drop")]
    pub default_endpoint_to_host_action: EndpointToHost,
    /// Whether connections end that a change of policy denies although they have begun; upstream lets them go on
    #[arg(long, env = "CALICO_END_DENIED_CONNECTIONS", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
          default_value = "true", value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    pub end_denied_connections: bool,
    /// Ports of host endpoints that no policy closes to the outside: `[protocol:[cidr:]]port`, separated by commas, or `none`
    #[arg(long, env = "FELIX_FAILSAFEINBOUNDHOSTPORTS", value_name = "PORTS", value_parser = ports)]
    pub failsafe_inbound_host_ports: Option<Ports>,
    /// Ports outside that no policy of a host endpoint closes to this host, in the same form
    #[arg(long, env = "FELIX_FAILSAFEOUTBOUNDHOSTPORTS", value_name = "PORTS", value_parser = ports)]
    pub failsafe_outbound_host_ports: Option<Ports>,
    /// Interfaces whose addresses do not tell which host endpoint has them: names, or regular expressions between slashes, separated by commas
    #[arg(long, env = "FELIX_INTERFACEEXCLUDE", value_name = "INTERFACES", default_value = "kube-ipvs0")]
    pub interface_exclude: InterfaceList,
    /// What becomes of a packet that policy denies
    #[arg(long, env = "FELIX_NFTABLESFILTERDENYACTION", value_name = "ACTION", value_parser = one_of(DENY), ignore_case = true, default_value = "drop")]
    pub filter_deny_action: DenyAction,
    /// Do not drop packets that belong to no connection that could be
    #[arg(long, env = "FELIX_DISABLECONNTRACKINVALIDCHECK", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
          default_value = "false", value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    pub disable_conntrack_invalid_check: bool,
    /// Bits of the packet mark that are ours, two at least
    #[arg(long, env = "FELIX_NFTABLESMARKMASK", value_name = "MASK", default_value = "0xffff0000", value_parser = mark_mask)]
    pub mark_mask: MarkMask,
    /// UDP port of VXLAN
    #[arg(long, env = "FELIX_VXLANPORT", value_name = "PORT", default_value_t = 4789, value_parser = clap::value_parser!(u16).range(1..))]
    pub vxlan_port: u16,
    /// Let workloads send VXLAN packets
    #[arg(long, env = "FELIX_ALLOWVXLANPACKETSFROMWORKLOADS", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
          default_value = "false", value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    pub allow_vxlan_from_workloads: bool,
    /// Let workloads send IP-in-IP packets
    #[arg(long, env = "FELIX_ALLOWIPIPPACKETSFROMWORKLOADS", value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
          default_value = "false", value_parser = BoolishValueParser::new(), action = ArgAction::Set)]
    pub allow_ipip_from_workloads: bool,
    /// Whether workloads may use the further source prefixes that their endpoints name
    #[arg(long, env = "FELIX_WORKLOADSOURCESPOOFING", value_name = "WHO", value_parser = one_of(SPOOFING), ignore_case = true, action = ArgAction::Set, default_value = "disabled")]
    pub workload_source_spoofing: bool,
    /// Start of what Log rules write: `%t` tier, `%k` kind, `%n` name, `%p` name and namespace
    #[arg(long, env = "FELIX_LOGPREFIX", value_name = "TEXT", default_value = "calico-packet")]
    pub log_prefix: String,
    /// How often each Log rule writes at most: `NUMBER/second`, `minute`, `hour` or `day` [default: always]
    #[arg(long, env = "FELIX_LOGACTIONRATELIMIT", value_name = "RATE")]
    pub log_action_rate_limit: Option<LogRate>,
    /// Lines that may come at once under that limit
    #[arg(long, env = "FELIX_LOGACTIONRATELIMITBURST", value_name = "NUMBER", default_value_t = 5)]
    pub log_action_rate_limit_burst: u32,
    /// Source ports of translated TCP and UDP connections: `PORT` or `FIRST:LAST` [default: the kernel's choice]
    #[arg(long, env = "FELIX_NATPORTRANGE", value_name = "PORTS", value_parser = port_range)]
    pub nat_port_range: Option<PortRange>,
    /// Source address of translated traffic [default: that of the outgoing interface]
    #[arg(long, env = "FELIX_NATOUTGOINGADDRESS", value_name = "ADDRESS")]
    pub nat_outgoing_address: Option<IpAddr>,
    /// Translate only what leaves by this interface, or by those whose names begin so (`eth+`)
    #[arg(long, env = "FELIX_IPTABLESNATOUTGOINGINTERFACEFILTER", value_name = "INTERFACE")]
    pub nat_outgoing_interface_filter: Option<InterfacePattern>,
    /// Where translation ends: at the pools, or at the cluster's hosts as well
    #[arg(long, env = "FELIX_NATOUTGOINGEXCLUSIONS", value_name = "WHAT", value_parser = one_of(EXCLUSIONS), ignore_case = true, action = ArgAction::Set, default_value = "ippoolsonly")]
    pub nat_outgoing_exclusions: bool,
    /// Whether workloads are reached by the floating addresses that their endpoints name
    #[arg(long, env = "FELIX_FLOATINGIPS", value_name = "WORD", value_parser = one_of(FLOATING), ignore_case = true,
          action = ArgAction::Set, default_value = "disabled")]
    pub floating_ips: bool,
    /// What becomes of a forwarded packet to a service that nobody translated
    #[arg(long, env = "FELIX_SERVICELOOPPREVENTION", value_name = "ACTION", value_parser = one_of(LOOPS), ignore_case = true, default_value = "drop")]
    pub service_loop_prevention: ServiceLoops,
}

impl PolicyArgs {
    /// The renderer's settings, as far as they are said here.
    pub fn config(&self) -> RenderConfig {
        let failsafes = Failsafes::default();
        let list = |given: &Option<Ports>, otherwise| given.as_ref().map_or(otherwise, |ports| ports.0.clone());
        RenderConfig {
            endpoint_to_host: self.default_endpoint_to_host_action,
            failsafes: Failsafes {
                inbound: list(&self.failsafe_inbound_host_ports, failsafes.inbound),
                outbound: list(&self.failsafe_outbound_host_ports, failsafes.outbound),
            },
            deny_action: self.filter_deny_action,
            drop_invalid: !self.disable_conntrack_invalid_check,
            mark_mask: self.mark_mask,
            vxlan_port: self.vxlan_port,
            allow_vxlan_from_workloads: self.allow_vxlan_from_workloads,
            allow_ipip_from_workloads: self.allow_ipip_from_workloads,
            allow_spoofed_sources: self.workload_source_spoofing,
            log_prefix: self.log_prefix.clone(),
            log_rate: self
                .log_action_rate_limit
                .map(|rate| LogRate { burst: self.log_action_rate_limit_burst, ..rate }),
            nat: NatConfig {
                ports: self.nat_port_range,
                address: self.nat_outgoing_address,
                interfaces: self.nat_outgoing_interface_filter,
                spare_hosts: self.nat_outgoing_exclusions,
                ..NatConfig::default()
            },
            floating_addresses: self.floating_ips,
            service_loops: self.service_loop_prevention,
            ..RenderConfig::default()
        }
    }
}

/// A list of fail-safe ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports(Vec<FailsafePort>);

fn ports(text: &str) -> Result<Ports, String> {
    Failsafes::parse_list(text).map(Ports).map_err(|error| error.to_string())
}

fn port_range(text: &str) -> Result<PortRange, String> {
    let (first, last) = text.split_once(':').unwrap_or((text, text));
    let range = first.parse().ok().zip(last.parse().ok()).and_then(|(first, last)| PortRange::new(first, last));
    range
        .filter(|range| PortRange::min(*range) > 0)
        .ok_or_else(|| "give a port, or two from 1 to 65535 with ':' between, the lower first".into())
}

fn mark_mask(text: &str) -> Result<MarkMask, String> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let number = number.map_err(|_| "give a number of 32 bits, such as 0xffff0000".to_owned())?;
    MarkMask::try_from(number).map_err(|error| error.to_string())
}

/// A parser that takes one of a few words, in any case, for what it means. Upstream spells them in several.
fn one_of<T: Copy + Send + Sync + 'static>(values: &'static [(&'static str, T)]) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(values.iter().map(|(name, _)| *name)).try_map(|text| {
        let found = values.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
        found.map(|(_, value)| *value).ok_or("not one of the values")
    })
}

const TO_HOST: &[(&str, EndpointToHost)] =
    &[("drop", EndpointToHost::Drop), ("return", EndpointToHost::Return), ("accept", EndpointToHost::Accept)];
const DENY: &[(&str, DenyAction)] = &[("drop", DenyAction::Drop), ("reject", DenyAction::Reject)];
/// Whether workloads are reached by them.
const FLOATING: &[(&str, bool)] = &[("disabled", false), ("enabled", true)];
const LOOPS: &[(&str, ServiceLoops)] =
    &[("drop", ServiceLoops::Drop), ("reject", ServiceLoops::Reject), ("disabled", ServiceLoops::Allow)];
/// Whether workloads may use the further prefixes.
const SPOOFING: &[(&str, bool)] = &[("disabled", false), ("any", true)];
/// Whether hosts are spared.
const EXCLUSIONS: &[(&str, bool)] = &[("ippoolsonly", false), ("ippoolsandhostips", true)];

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        policy: PolicyArgs,
    }

    fn parse(arguments: &[&str]) -> Result<RenderConfig, String> {
        let arguments = ["calico-node"].iter().chain(arguments);
        Only::try_parse_from(arguments).map(|only| only.policy.config()).map_err(|error| error.to_string())
    }

    #[test]
    fn without_a_word_all_is_the_renderers_default() {
        assert_eq!(parse(&[]), Ok(RenderConfig::default()));
    }

    #[test]
    fn each_setting_arrives() {
        let arguments = [
            "--default-endpoint-to-host-action=ACCEPT",
            "--failsafe-inbound-host-ports=tcp:22,udp:10.0.0.0/8:68",
            "--failsafe-outbound-host-ports=none",
            "--filter-deny-action=Reject",
            "--disable-conntrack-invalid-check",
            "--mark-mask=0x30",
            "--vxlan-port=8472",
            "--allow-vxlan-from-workloads=true",
            "--allow-ipip-from-workloads=1",
            "--workload-source-spoofing=Any",
            "--log-prefix=%t: ",
            "--log-action-rate-limit=3/minute",
            "--log-action-rate-limit-burst=7",
            "--nat-port-range=30000:40000",
            "--nat-outgoing-address=192.0.2.1",
            "--nat-outgoing-interface-filter=eth+",
            "--nat-outgoing-exclusions=IPPoolsAndHostIPs",
            "--floating-ips=Enabled",
            "--service-loop-prevention=Disabled",
        ];
        let config = parse(&arguments).unwrap();
        let default = RenderConfig::default();
        let expected = RenderConfig {
            workload_prefixes: default.workload_prefixes,
            mark_mask: MarkMask::try_from(0x30).unwrap(),
            failsafes: Failsafes {
                inbound: Failsafes::parse_list("tcp:22,udp:10.0.0.0/8:68").unwrap(),
                outbound: vec![],
            },
            deny_action: DenyAction::Reject,
            endpoint_to_host: EndpointToHost::Accept,
            drop_invalid: false,
            vxlan_port: 8472,
            allow_vxlan_from_workloads: true,
            allow_ipip_from_workloads: true,
            allow_spoofed_sources: true,
            log_prefix: "%t: ".into(),
            log_rate: Some(LogRate { rate: 3, seconds: 60, burst: 7 }),
            nat: NatConfig {
                ports: PortRange::new(30_000, 40_000),
                address: Some("192.0.2.1".parse().unwrap()),
                interfaces: Some("eth+".parse().unwrap()),
                spare_hosts: true,
                random: true,
            },
            floating_addresses: true,
            service_loops: ServiceLoops::Allow,
            flow_logs: default.flow_logs,
            counters: default.counters,
            route_metric: default.route_metric,
            rp_filter: default.rp_filter,
            ipv6: default.ipv6,
        };
        assert_eq!(config, expected);
    }

    #[test]
    fn interfaces_are_excluded_by_name_and_by_expression() {
        let excluded = |arguments: &[&str]| {
            let arguments = ["calico-node"].iter().chain(arguments);
            Only::try_parse_from(arguments).unwrap().policy.interface_exclude
        };
        assert_eq!(excluded(&[]), InterfaceList::default());
        let list = excluded(&["--interface-exclude=/^kube/,veth1"]);
        let has = |name: &str| list.contains(name.parse().unwrap());
        assert_eq!(["kube-dummy0", "veth1", "veth10"].map(has), [true, true, false]);
    }

    #[test]
    fn what_is_nothing_is_refused() {
        let bad = [
            "--failsafe-inbound-host-ports=tcp:0x16",
            "--mark-mask=1",
            "--mark-mask=x",
            "--vxlan-port=0",
            "--log-action-rate-limit=3",
            "--nat-port-range=2:1",
            "--nat-port-range=0",
            "--nat-outgoing-address=eth0",
            "--workload-source-spoofing=all",
            "--interface-exclude=/(/",
            "--interface-exclude=eth0,",
        ];
        for argument in bad {
            let error = parse(&[argument]).unwrap_err();
            assert!(error.contains(argument.split('=').next().unwrap()), "{error}");
        }
    }
}
