//! Rules of policies and profiles.

use alloc::string::{String, ToString};

use super::Checker;
use crate::net::{Cidr, Family, Port, Protocol};
use crate::resource::path::Path;
use crate::resource::{Action, EntityRule, Fault, HttpPath, Icmp, PolicyType, Rule};
use crate::selector::Selector;

/// Where rules stand: some fields are allowed in some places only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Namespaced,
    Global,
    Profile,
}

const MAX_RULES: usize = 1024;
const MAX_NETS: usize = 256;
const MAX_PORTS: usize = 50;
const MAX_SELECTOR: usize = 1024;
const MAX_NAME: usize = 253;

impl Checker {
    pub(super) fn rules(&mut self, rules: &[Rule], direction: PolicyType, place: Place, spec: &Path<'_>) {
        let path = spec.field(match direction {
            PolicyType::Ingress => "ingress",
            PolicyType::Egress => "egress",
        });
        self.limit(rules.len(), MAX_RULES, &path);
        for (index, rule) in rules.iter().enumerate() {
            self.rule(rule, direction, place, &path.index(index));
        }
    }

    fn rule(&mut self, rule: &Rule, direction: PolicyType, place: Place, path: &Path<'_>) {
        if let Some(version) = rule.ip_version.filter(|version| !matches!(version, 4 | 6)) {
            self.refuse(path.field("ipVersion"), version, "give 4 or 6");
        }
        let sides = [("source", &rule.source), ("destination", &rule.destination)];
        for (name, side) in sides {
            let path = path.field(name);
            self.ports(rule.protocol, side, &path);
            self.side(side, &path);
        }
        self.families(rule, path);
        self.icmp(rule, path);
        self.http(rule, direction, place, path);
        self.services(rule, direction, place, path);
        if let Some(metadata) = rule.metadata.as_ref().filter(|_| self.is_manifest()) {
            let path = path.field("metadata");
            self.annotations(&metadata.annotations, path.field("annotations"));
        }
    }

    /// Ports need a protocol that has them; only a name may go without, since the endpoint that defines it says the protocol.
    fn ports(&mut self, protocol: Option<Protocol>, side: &EntityRule, path: &Path<'_>) {
        for (name, ports) in [("ports", &side.ports), ("notPorts", &side.not_ports)] {
            let path = path.field(name);
            self.limit(ports.len(), MAX_PORTS, &path);
            for (index, port) in ports.iter().enumerate() {
                match (protocol, port) {
                    (Some(protocol), port) if !protocol.has_ports() => {
                        let reason = format_args!("protocol {protocol} has no ports; TCP, UDP and SCTP do");
                        self.refuse(path.index(index), port, reason);
                    }
                    (None, Port::Range(_)) => {
                        self.refuse(path.index(index), port, "a port number needs a protocol: TCP, UDP or SCTP");
                    }
                    _ => {}
                }
            }
        }
    }

    fn side(&mut self, side: &EntityRule, path: &Path<'_>) {
        self.limit(side.nets.len(), MAX_NETS, &path.field("nets"));
        self.limit(side.not_nets.len(), MAX_NETS, &path.field("notNets"));
        for (index, net) in side.not_nets.iter().enumerate().filter(|(_, net)| net.length() == 0) {
            self.refuse(path.field("notNets").index(index), net, "excludes every address: the rule could never match");
        }
        self.selector(&side.selector, path.field("selector"), GlobalWord::Refused);
        self.selector(&side.not_selector, path.field("notSelector"), GlobalWord::Accepted);
        self.selector(&side.namespace_selector, path.field("namespaceSelector"), GlobalWord::Alone);
        if let Some(accounts) = &side.service_accounts {
            self.selector(&accounts.selector, path.field("serviceAccounts").field("selector"), GlobalWord::Accepted);
        }
    }

    /// The four lists must be of one family, and of the rule's.
    fn families(&mut self, rule: &Rule, path: &Path<'_>) {
        let mut wanted = match rule.ip_version {
            Some(4) => Some(Family::V4),
            Some(6) => Some(Family::V6),
            _ => None,
        };
        let source = path.field("source");
        let destination = path.field("destination");
        let lists: [(Path<'_>, &[Cidr]); 4] = [
            (source.field("nets"), &rule.source.nets),
            (source.field("notNets"), &rule.source.not_nets),
            (destination.field("nets"), &rule.destination.nets),
            (destination.field("notNets"), &rule.destination.not_nets),
        ];
        for (path, nets) in lists {
            for (index, net) in nets.iter().enumerate() {
                match wanted {
                    None => wanted = Some(net.family()),
                    Some(family) if family != net.family() => {
                        self.refuse(
                            path.index(index),
                            net,
                            format_args!("the rule is about {family}: a rule has one family"),
                        );
                    }
                    Some(_) => {}
                }
            }
        }
    }

    fn icmp(&mut self, rule: &Rule, path: &Path<'_>) {
        let is_icmp = |protocol: Protocol| matches!(protocol.number(), 1 | 58);
        if rule.icmp.is_some() && !rule.protocol.is_some_and(is_icmp) {
            self.refuse_field(path.field("icmp"), "needs protocol ICMP or ICMPv6");
        }
        for (name, icmp) in [("icmp", rule.icmp), ("notICMP", rule.not_icmp)] {
            match icmp {
                Some(Icmp { icmp_type: None, code: Some(code) }) => {
                    self.refuse(path.field(name).field("code"), code, "a code needs a type");
                }
                Some(Icmp { icmp_type: Some(255), .. }) => {
                    self.refuse(path.field(name).field("type"), 255, "a type is 0 to 254");
                }
                _ => {}
            }
        }
        for (name, protocol) in [("protocol", rule.protocol), ("notProtocol", rule.not_protocol)] {
            let implied = match protocol.map(Protocol::number) {
                Some(1) => 4,
                Some(58) => 6,
                _ => continue,
            };
            if let (Some(protocol), Some(version)) = (protocol, rule.ip_version.filter(|version| *version != implied)) {
                self.refuse(path.field(name), protocol, format_args!("does not exist in IPv{version}"));
            }
        }
    }

    fn http(&mut self, rule: &Rule, direction: PolicyType, place: Place, path: &Path<'_>) {
        let Some(http) = &rule.http else { return };
        if !self.is_manifest() {
            return;
        }
        let path = path.field("http");
        if rule.action != Action::Allow {
            self.refuse_field(path, "only rules with action Allow can have HTTP conditions");
        }
        if rule.protocol.is_some_and(|protocol| protocol.number() != 6) {
            self.refuse_field(path, "needs protocol TCP, or none");
        }
        if direction == PolicyType::Egress && place != Place::Profile {
            self.refuse_field(path, "egress rules cannot have HTTP conditions");
        }
        let paths = path.field("paths");
        for (index, HttpPath { exact, prefix }) in http.paths.iter().enumerate() {
            let path = paths.index(index);
            let ((Some(text), None) | (None, Some(text))) = (exact, prefix) else {
                self.refuse_field(path, "give either exact or prefix");
                continue;
            };
            if !text.starts_with('/') || text.contains(['?', '#', ' ']) {
                self.refuse(path, text, "begins with '/' and has no '?', '#' or space");
            }
        }
    }

    fn services(&mut self, rule: &Rule, direction: PolicyType, place: Place, path: &Path<'_>) {
        let sides =
            [("source", &rule.source, PolicyType::Ingress), ("destination", &rule.destination, PolicyType::Egress)];
        for (name, side, allowed) in sides {
            let Some(services) = &side.services else { continue };
            let side_path = path.field(name);
            let path = side_path.field("services");
            self.length(&services.name, MAX_NAME, path.field("name"));
            self.length(&services.namespace, MAX_NAME, path.field("namespace"));
            if services.name.is_empty() {
                self.missing(path.field("name"));
            }
            if place == Place::Global && services.namespace.is_empty() {
                self.missing(path.field("namespace"));
            }
            if place != Place::Profile && direction != allowed {
                self.refuse_field(
                    path,
                    "services are matched as source of ingress and destination of egress rules only",
                );
            }
            if name == "destination" && !(side.ports.is_empty() && side.not_ports.is_empty()) {
                self.refuse_field(path, "the service has the ports: leave ports and notPorts out");
            }
            let mut others = side.clone();
            others.services = None;
            others.ports.clear();
            others.not_ports.clear();
            if !others.is_empty() {
                self.refuse_field(path, "cannot be combined with selectors, service accounts or nets on the same side");
            }
        }
    }

    /// A selector: well-formed, bounded, and `global(` only where it means something.
    pub(super) fn selector(&mut self, text: &str, path: Path<'_>, global: GlobalWord) {
        self.length(text, MAX_SELECTOR, path);
        let misplaced = match global {
            GlobalWord::Refused => text.contains("global("),
            GlobalWord::Alone => text.contains("global(") && text.trim() != "global()",
            GlobalWord::Accepted => false,
        };
        if misplaced {
            let reason = match global {
                GlobalWord::Alone => "global() must stand alone",
                _ => "global() is for namespace selectors of rules only",
            };
            self.refuse(path, text.to_string(), reason);
        }
        if let Err(error) = Selector::parse(text) {
            let fault = Fault::value(path, Some(text.to_string()), format_args!("selector syntax {error}"));
            self.faults.push(fault.at_offset(error.position()));
        }
    }

    fn length(&mut self, text: &str, limit: usize, path: Path<'_>) {
        let length = text.chars().count();
        if self.is_manifest() && length > limit {
            let shown: String = text.chars().take(60).collect();
            self.refuse(path, shown + "…", format_args!("{length} characters; the limit is {limit}"));
        }
    }

    pub(super) fn limit(&mut self, length: usize, limit: usize, path: &Path<'_>) {
        if self.is_manifest() && length > limit {
            self.refuse_field(path, format_args!("{length} entries; the limit is {limit}"));
        }
    }
}

/// Whether `global()` may appear in a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GlobalWord {
    Refused,
    Alone,
    Accepted,
}
