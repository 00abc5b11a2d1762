//! Hosts as policy meets them: their settings that decide about flows, and how names of their workloads' interfaces begin.
//!
//! Settings are what FelixConfigurations say: `default`, over it `node.<name>`, upstream's defaults below. Agents of this version take
//! theirs from their environment (`FELIX_…`) alone; who asks is told where a setting decided that nobody gave.

use std::collections::BTreeMap;
use std::sync::Arc;

use calico_core::net::{Cidr, FailsafePort, Failsafes, InterfaceName};
use calico_core::render::EndpointToHost;
use calico_core::resource::{FelixConfigurationSpec, Kind, ProtoPort, Resource, ResourceKey, SINGLE_NAME};
use calico_core::verdict::Settings;

use super::picture::Picture;

/// How a FelixConfiguration of one node is called.
const OF_NODE: &str = "node.";

/// A setting by the name that FelixConfigurations give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Setting {
    EndpointToHost,
    FailsafesIn,
    FailsafesOut,
    VxlanPort,
    VxlanAllowed,
    IpIpAllowed,
    ServiceLoops,
}

/// What each host is set to.
#[derive(Debug, Default)]
pub(super) struct HostSettings {
    common: Arc<Settings>,
    own: BTreeMap<String, Arc<Settings>>,
    /// Settings that a FelixConfiguration gives, by its name.
    given: BTreeMap<String, Vec<Setting>>,
    /// FelixConfigurations that are for nodes by a selector, and entries that cannot be read: they do not count.
    pub(super) left_out: Vec<String>,
}

impl Setting {
    pub(super) const ALL: [Self; 7] = [
        Self::EndpointToHost,
        Self::FailsafesIn,
        Self::FailsafesOut,
        Self::VxlanPort,
        Self::VxlanAllowed,
        Self::IpIpAllowed,
        Self::ServiceLoops,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::EndpointToHost => "defaultEndpointToHostAction",
            Self::FailsafesIn => "failsafeInboundHostPorts",
            Self::FailsafesOut => "failsafeOutboundHostPorts",
            Self::VxlanPort => "vxlanPort",
            Self::VxlanAllowed => "allowVXLANPacketsFromWorkloads",
            Self::IpIpAllowed => "allowIPIPPacketsFromWorkloads",
            Self::ServiceLoops => "serviceLoopPrevention",
        }
    }

    /// What it is set to, in words.
    pub(super) fn value(self, settings: &Settings) -> String {
        let ports = |ports: &[FailsafePort]| {
            let list: Vec<_> = ports.iter().map(port).collect();
            if list.is_empty() { "none".into() } else { list.join(",") }
        };
        match self {
            Self::EndpointToHost => match settings.host.endpoint_to_host {
                EndpointToHost::Accept => "Accept",
                EndpointToHost::Return => "Return",
                EndpointToHost::Drop => "Drop",
            }
            .into(),
            Self::FailsafesIn => ports(&settings.failsafes.inbound),
            Self::FailsafesOut => ports(&settings.failsafes.outbound),
            Self::VxlanPort => settings.host.vxlan_port.to_string(),
            Self::VxlanAllowed => settings.host.allow_vxlan_from_workloads.to_string(),
            Self::IpIpAllowed => settings.host.allow_ipip_from_workloads.to_string(),
            Self::ServiceLoops => if settings.host.prevent_service_loops { "Drop" } else { "Disabled" }.into(),
        }
    }
}

fn port(port: &FailsafePort) -> String {
    let protocol = super::traffic::name(port.protocol).to_ascii_lowercase();
    port.net.map_or_else(
        || format!("{protocol}:{}", port.port),
        |net| match net.family() {
            calico_core::net::Family::V4 => format!("{protocol}:{net}:{}", port.port),
            calico_core::net::Family::V6 => format!("{protocol}:[{net}]:{}", port.port),
        },
    )
}

impl HostSettings {
    pub(super) fn of(picture: &Picture) -> Self {
        let mut settings = Self::default();
        let mut common = Settings::default();
        // The same for all hosts: one graph knows the workloads of all.
        common.host.workload_prefixes = prefixes(picture);
        if let Some(spec) = default_of(picture) {
            settings.give(SINGLE_NAME, spec, &mut common);
        }
        settings.common = Arc::new(common);
        for (key, resource) in &picture.resources {
            let Resource::FelixConfiguration(object) = &**resource else { continue };
            let name = key.name().unwrap_or_default();
            match name.strip_prefix(OF_NODE) {
                Some(node) => {
                    let mut own = Settings::clone(&settings.common);
                    settings.give(name, &object.spec, &mut own);
                    settings.own.insert(node.into(), Arc::new(own));
                }
                None if name == SINGLE_NAME => {}
                None => settings.left_out.push(format!(
                    "FelixConfiguration {name} is not looked at: settings of hosts are those of default and node.NAME"
                )),
            }
        }
        settings
    }

    fn give(&mut self, name: &str, spec: &FelixConfigurationSpec, settings: &mut Settings) {
        let mut reading = Reading::default();
        reading.apply(spec, settings);
        let named = |fault: String| format!("FelixConfiguration {name}: {fault}; the entry does not count");
        self.left_out.extend(reading.faults.into_iter().map(named));
        self.given.insert(name.into(), reading.given);
    }

    /// Those of a host.
    pub(super) fn of_node(&self, node: &str) -> &Settings {
        self.own.get(node).unwrap_or(&self.common)
    }

    /// Those of a host, if they are its own.
    pub(super) fn own(&self, node: &str) -> Option<Arc<Settings>> {
        self.own.get(node).cloned()
    }

    /// Those of all others.
    pub(super) fn common(&self) -> &Settings {
        &self.common
    }

    /// Hosts with settings of their own.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.own.keys().map(String::as_str)
    }

    /// Whoever gives a setting of a host.
    pub(super) fn giver(&self, node: &str, setting: Setting) -> Option<String> {
        let names = [format!("{OF_NODE}{node}"), SINGLE_NAME.to_owned()];
        names.into_iter().find(|name| self.given.get(name).is_some_and(|given| given.contains(&setting)))
    }
}

/// How names of workloads' interfaces begin.
pub(super) fn prefixes(picture: &Picture) -> Vec<InterfaceName> {
    let given = default_of(picture).map(|spec| spec.interface_prefix.as_str()).unwrap_or_default();
    let prefixes: Vec<_> = given.split(',').filter_map(|prefix| prefix.trim().parse().ok()).collect();
    if prefixes.is_empty() { vec![InterfaceName::CALI] } else { prefixes }
}

/// A name that no workload's interface has. (Prefixes that are all letters of the alphabet leave none to any interface of a host.)
pub(super) fn no_workloads(prefixes: &[InterfaceName]) -> InterfaceName {
    let letters = ('a'..='z').filter_map(|letter| letter.to_string().parse::<InterfaceName>().ok());
    let mut names = std::iter::once(InterfaceName::ETH0).chain(letters);
    names.find(|name| !name.starts_with_any(prefixes)).unwrap_or(InterfaceName::ETH0)
}

fn default_of(picture: &Picture) -> Option<&FelixConfigurationSpec> {
    let key = ResourceKey::cluster(Kind::FelixConfiguration, SINGLE_NAME);
    match &**picture.resources.get(&key)? {
        Resource::FelixConfiguration(object) => Some(&object.spec),
        _ => None,
    }
}

/// What is found while settings are read.
#[derive(Debug, Default)]
struct Reading {
    given: Vec<Setting>,
    faults: Vec<String>,
}

impl Reading {
    /// Puts what is given in the place of what was there.
    fn apply(&mut self, spec: &FelixConfigurationSpec, settings: &mut Settings) {
        let Settings { host, failsafes: Failsafes { inbound, outbound } } = settings;
        let action = match spec.default_endpoint_to_host_action.to_ascii_lowercase().as_str() {
            "accept" => Some(EndpointToHost::Accept),
            "return" => Some(EndpointToHost::Return),
            "drop" => Some(EndpointToHost::Drop),
            _ => None,
        };
        let loops = match spec.service_loop_prevention.to_ascii_lowercase().as_str() {
            "drop" | "reject" => Some(true),
            "disabled" => Some(false),
            _ => None,
        };
        let vxlan_port = spec.vxlan_port.and_then(|port| u16::try_from(port).ok());
        self.put(action, &mut host.endpoint_to_host, Setting::EndpointToHost);
        self.put(loops, &mut host.prevent_service_loops, Setting::ServiceLoops);
        self.put(vxlan_port, &mut host.vxlan_port, Setting::VxlanPort);
        let (vxlan, ipip) = (spec.allow_vxlan_packets_from_workloads, spec.allow_ipip_packets_from_workloads);
        self.put(vxlan, &mut host.allow_vxlan_from_workloads, Setting::VxlanAllowed);
        self.put(ipip, &mut host.allow_ipip_from_workloads, Setting::IpIpAllowed);
        self.failsafes(spec.failsafe_inbound_host_ports.as_deref(), inbound, Setting::FailsafesIn);
        self.failsafes(spec.failsafe_outbound_host_ports.as_deref(), outbound, Setting::FailsafesOut);
    }

    /// What cannot be read is left out: to guess would open a port to more peers than was meant.
    fn failsafes(&mut self, given: Option<&[ProtoPort]>, place: &mut Vec<FailsafePort>, setting: Setting) {
        let Some(given) = given else { return };
        let mut list = Vec::new();
        for port in given {
            match failsafe(port) {
                Ok(port) => list.push(port),
                Err(fault) => self.faults.push(format!("{}: {fault}", setting.name())),
            }
        }
        self.put(Some(list), place, setting);
    }

    fn put<T>(&mut self, value: Option<T>, place: &mut T, setting: Setting) {
        if let Some(value) = value {
            *place = value;
            self.given.push(setting);
        }
    }
}

fn failsafe(port: &ProtoPort) -> Result<FailsafePort, String> {
    let protocol = if port.protocol.is_empty() { 6 } else { super::traffic::protocol(&port.protocol)? };
    let net = match port.net.as_str() {
        "" => None,
        net => Some(net.parse::<Cidr>().map_err(|error| format!("net: {error}"))?),
    };
    Ok(FailsafePort { protocol, net, port: port.port.ok_or("port is missing")? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_elsewhere_is_not_called_like_a_workloads_interface() {
        let beside = |prefixes: &[&str]| {
            let prefixes: Vec<InterfaceName> = prefixes.iter().map(|prefix| prefix.parse().unwrap()).collect();
            no_workloads(&prefixes).to_string()
        };
        assert_eq!(beside(&["cali", "tap"]), "eth0");
        assert_eq!(beside(&["eth"]), "a");
        assert_eq!(beside(&["eth0", "a", "bond"]), "b");
    }
}
