//! Many policies of one tier, each about a port or two, as large clusters have them.

use alloc::format;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::Generator;
use super::cluster::PORT_NAMES;
use crate::net::{Port, PortRange, Protocol};
use crate::resource::{
    Action, EntityRule, GlobalNetworkPolicySpec, Kind, Object, PolicyType, Resource, ResourceKey, Rule,
    StagedGlobalNetworkPolicySpec,
};
use crate::update::Update;

/// So many of them there are at most, of either kind.
const CROWD: usize = 40;
const RANGES: [(u16, u16); 8] =
    [(53, 53), (80, 80), (443, 443), (8080, 8080), (80, 443), (1, 1023), (1024, 65535), (8000, 8100)];

impl Generator {
    /// New state of one of many such policies; of six updates one or so removes.
    pub fn crowd(&mut self) -> Update {
        let is_staged = self.random.chance(15);
        let kind = if is_staged { Kind::StagedGlobalNetworkPolicy } else { Kind::GlobalNetworkPolicy };
        let key = ResourceKey::cluster(kind, &format!("crowd-{:02}", self.random.below(CROWD)));
        let metadata = self.metadata(&key);
        let policy = self.narrow_policy();
        let resource = if is_staged {
            let spec = StagedGlobalNetworkPolicySpec { staged_action: None, policy };
            Resource::StagedGlobalNetworkPolicy(Object { metadata, spec }.into())
        } else {
            Resource::GlobalNetworkPolicy(Object { metadata, spec: policy })
        };
        Update { key, value: (!self.random.chance(15)).then(|| Arc::new(resource)) }
    }

    fn narrow_policy(&mut self) -> GlobalNetworkPolicySpec {
        let mut rules = || (0..=self.random.below(2)).map(|_| self.narrow_rule()).collect::<Vec<_>>();
        let (ingress, egress) = (rules(), rules());
        GlobalNetworkPolicySpec {
            tier: self.random.pick(&["default", "default", "default", "early"]).into(),
            order: self.random.pick(&[None, Some(10.0), Some(20.0)]),
            ingress,
            egress,
            selector: self.random.pick(&["all()", "all()", "all()", "!has(app)"]).into(),
            types: vec![PolicyType::Ingress, PolicyType::Egress],
            apply_on_forward: self.random.chance(20),
            ..GlobalNetworkPolicySpec::default()
        }
    }

    fn narrow_rule(&mut self) -> Rule {
        let tcp = Some(Protocol::TCP);
        let protocols = [tcp, tcp, tcp, Some(Protocol::UDP), Some(Protocol::UDP), Some(Protocol::SCTP)];
        let others = [Some(Protocol::ICMP), Some(Protocol::ICMPV6), None];
        let protocol = if self.random.chance(90) { self.random.pick(&protocols) } else { self.random.pick(&others) };
        let has_ports = protocol.is_some_and(Protocol::has_ports);
        let ports = |generator: &mut Self, percent| -> Vec<Port> {
            if !(has_ports && generator.random.chance(percent)) {
                return Vec::new();
            }
            (0..=generator.random.below(2)).map(|_| generator.narrow_port()).collect()
        };
        let mut nets = |percent| self.some(&["10.0.0.0/24", "10.0.1.0/31", "192.0.2.0/24", "fd00::/64"], percent);
        let source = nets(5).into_iter().filter_map(|net| net.parse().ok()).collect();
        let source = EntityRule { nets: source, ports: ports(self, 8), ..EntityRule::default() };
        let destination = EntityRule { ports: ports(self, 92), not_ports: ports(self, 4), ..EntityRule::default() };
        let actions = [Action::Allow, Action::Allow, Action::Deny, Action::Deny, Action::Pass, Action::Log];
        Rule { action: self.random.pick(&actions), protocol, source, destination, ..Rule::default() }
    }

    fn narrow_port(&mut self) -> Port {
        let (min, max) = self.random.pick(&RANGES);
        let range = PortRange::new(min, max).filter(|_| !self.random.chance(5));
        range.map_or_else(|| Port::Named(self.random.pick(&PORT_NAMES).into()), Port::Range)
    }
}
