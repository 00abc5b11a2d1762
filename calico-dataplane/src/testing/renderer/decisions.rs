//! What becomes of packets: the rendered table, run by the interpreter, against the specification.

use std::collections::BTreeMap;
use std::sync::Arc;

use calico_core::calc::event::{ActiveEndpoint, EndpointId};
use calico_core::flow::{Decision, Flow};
use calico_core::net::InterfaceName;
use calico_core::resource::{Resource, ResourceKey};
use calico_core::spec::{Cluster, Party, Settings};
use calico_core::table::{CtState, Hook};
use calico_core::testing::{Generator, HOST};

use super::Subject;
use super::desired::Desired;
use crate::recording::{Evaluation, Packet, Ruleset};

const THROUGH: [Hook; 3] = [Hook::Prerouting, Hook::Forward, Hook::Postrouting];
const TO_HOST: [Hook; 2] = [Hook::Prerouting, Hook::Input];
const FROM_HOST: [Hook; 2] = [Hook::Output, Hook::Postrouting];

/// How often each decision fell: a test in which everything is denied proves little.
#[derive(Debug, Default)]
pub(super) struct Seen {
    allowed: usize,
    denied: usize,
}

impl Seen {
    pub(super) fn is_telling(&self) {
        let few = (self.allowed + self.denied) / 10;
        assert!(self.allowed > few && self.denied > few, "too few seeds to tell anything: {self:?}");
    }
}

/// The skeleton on its own.
pub(super) fn skeleton(subject: &Subject<'_>) {
    let skeleton = (subject.make)().skeleton();
    let mut desired = Desired::default();
    if let Err(error) = desired.take(&skeleton) {
        panic!("the skeleton goes into an empty table, but {error}:\n{skeleton}");
    }
    let nothing = BTreeMap::new();
    let case = Case::new(subject, desired.ruleset, &nothing, "with the skeleton alone".into());
    let mut generator = Generator::new(0);
    for _ in 0..200 {
        case.others(&mut generator);
    }
}

/// A moment at which the host is as it should be.
pub(super) struct Case<'a> {
    ruleset: Ruleset,
    cluster: Cluster,
    settings: Settings,
    /// A workload's interface that nobody announced.
    stranger: InterfaceName,
    objects: &'a BTreeMap<ResourceKey, Arc<Resource>>,
    what: String,
}

impl<'a> Case<'a> {
    pub(super) fn new(
        subject: &Subject<'_>,
        ruleset: Ruleset,
        objects: &'a BTreeMap<ResourceKey, Arc<Resource>>,
        what: String,
    ) -> Self {
        let cluster = Cluster::new(objects.values().map(|object| &**object)).with_settings(subject.settings);
        Self { ruleset, cluster, settings: subject.settings, stranger: subject.workload("99"), objects, what }
    }

    /// One random flow: from and to each of two endpoints, between them, and of others.
    pub(super) fn compare(
        &self,
        endpoints: &BTreeMap<EndpointId, Arc<ActiveEndpoint>>,
        generator: &mut Generator,
        seen: &mut Seen,
    ) {
        self.others(generator);
        let all: Vec<_> = endpoints.iter().collect();
        if all.is_empty() {
            return;
        }
        let ((from, source), (to, target)) = (generator.random.pick(&all), generator.random.pick(&all));
        let mut flow = self.flow(generator);
        let own = source.addresses.iter().find(|net| net.family() == flow.family());
        if let Some(own) = own.filter(|_| !generator.random.chance(15)) {
            flow.source = own.address();
        }
        let mark = generator.random.bits() as u32;
        let (near, far) = (Some(source.interface), Some(target.interface));
        let new = |iif, oif| Packet { iif, oif, mark, ..Packet::new(flow) };
        let (sender, receiver) = (Party::Workload(&from.0), Party::Workload(&to.0));
        let decide = |from, to| self.cluster.decide(from, to, &flow);
        let questions = [
            ("from an endpoint", &THROUGH[..], new(near, uplink(0)), self.cluster.egress(&from.0, &flow)),
            ("to an endpoint", &THROUGH, new(uplink(0), far), self.cluster.ingress(&to.0, &flow)),
            ("from endpoint to endpoint", &THROUGH, new(near, far), decide(sender, receiver)),
            ("from an endpoint to its host", &TO_HOST, new(near, None), decide(sender, Party::Host(HOST))),
            ("from the host to its endpoint", &FROM_HOST, new(None, far), decide(Party::Host(HOST), receiver)),
        ];
        for (way, hooks, packet, expected) in questions {
            let found = self.ruleset.evaluate(hooks, packet);
            self.check(&found, expected, &packet, &format!("{way} ({} to {}) the specification decides", from.0, to.0));
            match expected {
                Decision::Allow => seen.allowed += 1,
                Decision::Deny => seen.denied += 1,
            }
        }
        let further = source.allowed_sources.iter().filter(|_| self.settings.allow_spoofed_sources);
        let is_own = source.addresses.iter().chain(further).any(|net| net.contains(flow.source));
        let expected = if is_own { Decision::Allow } else { Decision::Deny };
        let established = |iif, oif| Packet { ct_state: CtState::ESTABLISHED, ..new(iif, oif) };
        self.pass(&THROUGH, established(near, uplink(0)), expected, "established: the source decides alone");
        self.pass(&THROUGH, established(uplink(0), far), Decision::Allow, "an established connection goes on");
    }

    /// What nothing active is about: workloads that nobody announced, and traffic that is no workload's.
    fn others(&self, generator: &mut Generator) {
        let flow = self.flow(generator);
        let mark = generator.random.bits() as u32;
        let ct_state = generator.random.pick(&[CtState::NEW, CtState::ESTABLISHED, CtState::INVALID]);
        let packet = |iif, oif, ct_state| Packet { iif, oif, ct_state, mark, ..Packet::new(flow) };
        let (stranger, new) = (Some(self.stranger), CtState::NEW);
        let unknown = "an unknown workload interface is cut off";
        self.pass(&THROUGH, packet(stranger, uplink(0), new), Decision::Deny, unknown);
        self.pass(&THROUGH, packet(uplink(0), stranger, new), Decision::Deny, unknown);
        let discovery = flow.protocol == ICMPV6 && matches!(flow.icmp, Some((130..=133 | 135 | 136, _)));
        if !discovery {
            self.pass(&TO_HOST, packet(stranger, None, new), Decision::Deny, unknown);
        }
        let foreign = "traffic that is no workload's is left alone";
        self.pass(&THROUGH, packet(uplink(0), uplink(1), ct_state), Decision::Allow, foreign);
        self.pass(&TO_HOST, packet(uplink(0), None, ct_state), Decision::Allow, foreign);
        self.pass(&FROM_HOST, packet(None, uplink(0), ct_state), Decision::Allow, foreign);
    }

    fn pass(&self, hooks: &[Hook], packet: Packet, expected: Decision, sentence: &str) {
        self.check(&self.ruleset.evaluate(hooks, packet), expected, &packet, sentence);
    }

    fn check(&self, found: &Evaluation, expected: Decision, packet: &Packet, sentence: &str) {
        if found.decision != expected {
            let way: Vec<String> = found.trace.iter().map(ToString::to_string).collect();
            let objects: Vec<String> = self.objects.values().map(|object| format!("{object:?}")).collect();
            panic!(
                "{sentence}: {expected:?}, not {:?}; {}: {packet:?} goes the way\n{}\nin\n{}\n{}",
                found.decision,
                self.what,
                way.join("\n"),
                objects.join("\n"),
                self.ruleset
            );
        }
    }

    /// A flow; now and then one that the settings or the family's housekeeping are about.
    fn flow(&self, generator: &mut Generator) -> Flow {
        let flow = generator.flow();
        match (generator.random.below(20), flow.source.is_ipv6()) {
            (0, _) => {
                Flow { protocol: 17, source_port: 4789, destination_port: self.settings.vxlan_port, icmp: None, ..flow }
            }
            (1, _) => Flow { protocol: 4, source_port: 0, destination_port: 0, icmp: None, ..flow },
            (2..=4, true) => {
                Flow { protocol: ICMPV6, source_port: 0, destination_port: 0, icmp: Some((135, 0)), ..flow }
            }
            _ => flow,
        }
    }
}

const ICMPV6: u8 = 58;

fn uplink(number: usize) -> Option<InterfaceName> {
    format!("eth{number}").parse().ok()
}
