//! Rules of version 1: words in lower case, and tags.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::Value;

use super::super as v3;
use crate::net::{Cidr, Port, Protocol};
use crate::resource::limit::Limit;
use crate::resource::model::{model, scalars};

model! {
    /// A rule.
    pub struct Rule {
        /// What happens to matching traffic.
        "action" action: String, required where [Limit::AnyCase(&["allow", "deny", "log", "pass", "next-tier"])];
        /// 4 or 6.
        "ipVersion" ip_version: Option<u8>;
        /// Protocol that must match.
        "protocol" protocol: Option<RuleProtocol>;
        /// ICMP type and code that must match.
        "icmp" icmp: Option<IcmpFields>;
        /// Protocol that must not match.
        "notProtocol" not_protocol: Option<RuleProtocol>;
        /// ICMP type and code that must not match.
        "notICMP" not_icmp: Option<IcmpFields>;
        /// Conditions on the source.
        "source" source: EntityRule;
        /// Conditions on the destination.
        "destination" destination: EntityRule;
    }
}

model! {
    /// ICMP type and code.
    pub struct IcmpFields {
        /// Type.
        "type" icmp_type: Option<u8>;
        /// Code.
        "code" code: Option<u8>;
    }
}

model! {
    /// Conditions on one side of a flow.
    pub struct EntityRule {
        /// The endpoint's profile has this tag.
        "tag" tag: String;
        /// The address lies in it.
        "net" net: Option<Cidr>;
        /// The address lies in one of these.
        "nets" nets: Vec<Cidr>;
        /// The endpoint has such labels.
        "selector" selector: String;
        /// The port is one of these.
        "ports" ports: Vec<Port>;
        /// The endpoint's profile does not have this tag.
        "notTag" not_tag: String;
        /// The address does not lie in it.
        "notNet" not_net: Option<Cidr>;
        /// The address lies in none of these.
        "notNets" not_nets: Vec<Cidr>;
        /// The endpoint does not have such labels.
        "notSelector" not_selector: String;
        /// The port is none of these.
        "notPorts" not_ports: Vec<Port>;
    }
}

/// A protocol by number or by name, which version 1 wrote in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[expect(clippy::exhaustive_structs, reason = "it is no more than its content")]
pub struct RuleProtocol(
    /// The protocol.
    pub Protocol,
);

impl<'de> Deserialize<'de> for RuleProtocol {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let named = value.as_str().and_then(|text| {
            ["TCP", "UDP", "ICMP", "ICMPv6", "SCTP", "UDPLite"].into_iter().find(|name| name.eq_ignore_ascii_case(text))
        });
        match named {
            Some(name) => name.parse().map(Self).map_err(de::Error::custom),
            None => Protocol::deserialize(value).map(Self).map_err(de::Error::custom),
        }
    }
}

scalars!(RuleProtocol);

impl From<Rule> for v3::Rule {
    fn from(rule: Rule) -> Self {
        Self {
            action: match rule.action.to_ascii_lowercase().as_str() {
                "allow" => v3::Action::Allow,
                "log" => v3::Action::Log,
                "pass" | "next-tier" => v3::Action::Pass,
                _ => v3::Action::Deny,
            },
            ip_version: rule.ip_version,
            protocol: rule.protocol.map(|protocol| protocol.0),
            not_protocol: rule.not_protocol.map(|protocol| protocol.0),
            icmp: rule.icmp.and_then(IcmpFields::converted),
            not_icmp: rule.not_icmp.and_then(IcmpFields::converted),
            source: rule.source.into(),
            destination: rule.destination.into(),
            ..Self::default()
        }
    }
}

impl IcmpFields {
    /// None if it says nothing.
    fn converted(self) -> Option<v3::Icmp> {
        let Self { icmp_type, code } = self;
        (icmp_type.is_some() || code.is_some()).then_some(v3::Icmp { icmp_type, code })
    }
}

impl From<EntityRule> for v3::EntityRule {
    fn from(entity: EntityRule) -> Self {
        let all = |mut nets: Vec<Cidr>, net: Option<Cidr>| {
            nets.extend(net);
            nets
        };
        Self {
            nets: all(entity.nets, entity.net),
            not_nets: all(entity.not_nets, entity.not_net),
            selector: with_tag(&entity.selector, "&&", &entity.tag),
            // What has either is excluded.
            not_selector: with_tag(&entity.not_selector, "||", &entity.not_tag),
            ports: entity.ports,
            not_ports: entity.not_ports,
            ..Self::default()
        }
    }
}

/// The label of an endpoint's namespace is called otherwise now.
pub(super) fn selector(text: &str) -> String {
    text.replace(NAMESPACE, v3::NAMESPACE_LABEL)
}

/// The label of an endpoint's namespace.
pub(super) const NAMESPACE: &str = "calico/k8s_ns";

/// A tag is a label without value.
fn with_tag(text: &str, operator: &str, tag: &str) -> String {
    let selector = selector(text);
    match (selector.as_str(), tag) {
        (_, "") => selector,
        ("", tag) => format!("{tag} == ''"),
        (selector, tag) => format!("({selector}) {operator} {tag} == ''"),
    }
}
