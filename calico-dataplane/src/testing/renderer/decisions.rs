//! What becomes of packets: the rendered table, run by the interpreter, against the specification.

use std::collections::BTreeMap;
use std::sync::Arc;

use calico_core::calc::event::{ActiveEndpoint, EndpointId};
use calico_core::flow::{ConnState, Decision, Flow, Passage, Place};
use calico_core::net::InterfaceName;
use calico_core::resource::Kind;
use calico_core::spec::{Cluster, Settings};
use calico_core::table::{CtState, Hook};
use calico_core::testing::{Generator, HOST, World};

use super::Subject;
use super::desired::Desired;
use crate::recording::{Evaluation, Packet, Ruleset, Surroundings};

/// The way of a packet: hooks before its destination is translated, and hooks behind.
struct Way {
    before: &'static [Hook],
    behind: &'static [Hook],
}

const THROUGH: Way = Way { before: &[Hook::Prerouting], behind: &[Hook::Forward, Hook::Postrouting] };
const TO_HOST: Way = Way { before: &[Hook::Prerouting], behind: &[Hook::Input] };
// Within the first hook; what comes before is not told apart.
const FROM_HOST: Way = Way { before: &[], behind: &[Hook::Output, Hook::Postrouting] };

/// How often each decision fell on each way: a test in which everything is denied proves little.
#[derive(Debug, Default)]
pub(super) struct Seen(BTreeMap<&'static str, [usize; 2]>);

impl Seen {
    fn take(&mut self, way: &'static str, decision: Decision) {
        let [allowed, denied] = self.0.entry(way).or_default();
        *match decision {
            Decision::Allow => allowed,
            Decision::Deny => denied,
        } += 1;
    }

    pub(super) fn is_telling(&self) {
        // What the host says to its own workloads, or to itself, nobody denies; what the settings close, nobody allows.
        let decided = |[allowed, denied]: [usize; 2]| allowed.min(denied) >= 10;
        let told =
            self.0.iter().filter(|(way, _)| !way.starts_with("from the host to it") && !way.ends_with("its host"));
        let told: Vec<_> = told.collect();
        assert!(
            !told.is_empty() && told.iter().all(|(_, seen)| decided(**seen)),
            "too few seeds to tell anything: {self:?}"
        );
    }
}

/// The skeleton on its own.
pub(super) fn skeleton(subject: &Subject<'_>) {
    let skeleton = (subject.make)().skeleton();
    let mut desired = Desired::default();
    if let Err(error) = desired.take(&skeleton) {
        panic!("the skeleton goes into an empty table, but {error}:\n{skeleton}");
    }
    let nothing = World::default();
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
    /// Workloads' interfaces that nobody announced, one of each prefix.
    strangers: Vec<InterfaceName>,
    world: &'a World,
    what: String,
}

impl<'a> Case<'a> {
    pub(super) fn new(subject: &Subject<'_>, ruleset: Ruleset, world: &'a World, what: String) -> Self {
        // An object under a key of another kind is absent.
        let usable = world.objects.iter().filter(|(key, value)| key.kind() == value.kind()).map(|(_, value)| &**value);
        let cluster = Cluster::new(usable)
            .with_settings(subject.settings.clone())
            .with_failsafes(subject.failsafes.clone())
            .with_interfaces(HOST, world.interfaces.clone())
            .with_slices(world.slices.values().cloned());
        Self { ruleset, cluster, settings: subject.settings.clone(), strangers: subject.strangers(), world, what }
    }

    /// One random flow on every way: from and to endpoints, the host and its interfaces; and of others.
    pub(super) fn compare(
        &self,
        endpoints: &BTreeMap<EndpointId, Arc<ActiveEndpoint>>,
        generator: &mut Generator,
        seen: &mut Seen,
    ) {
        self.others(generator);
        let all: Vec<_> = endpoints.iter().collect();
        let mut flow = self.flow(generator);
        let mut ways = vec![("from the host to itself", Place::Interface(InterfaceName::LOOPBACK), Place::Host)];
        // The last is seldom there, and host endpoints name it.
        let interfaces = ["eth0", "eth1", "tunl0", "lo", "eth9"].map(|name| name.parse().unwrap());
        let (near, far) = (generator.random.pick(&interfaces), generator.random.pick(&interfaces));
        ways.extend([
            ("from an interface to the host", Place::Interface(near), Place::Host),
            ("from the host to an interface", Place::Host, Place::Interface(far)),
            ("from an interface to another", Place::Interface(near), Place::Interface(far)),
        ]);
        if !all.is_empty() {
            let ((from, source), (to, _)) = (generator.random.pick(&all), generator.random.pick(&all));
            let own = source.addresses.iter().find(|net| net.family() == flow.family());
            if let Some(own) = own.filter(|_| !generator.random.chance(15)) {
                flow.source = own.address();
            }
            let (sender, receiver) = (Place::Workload(&from.0), Place::Workload(&to.0));
            ways.extend([
                ("from an endpoint", sender, Place::Interface(far)),
                ("to an endpoint", Place::Interface(near), receiver),
                ("from endpoint to endpoint", sender, receiver),
                ("from an endpoint to its host", sender, Place::Host),
                ("from the host to its endpoint", Place::Host, receiver),
            ]);
        }
        let arriving = if generator.random.chance(30) { self.other_destination(&flow, generator) } else { flow };
        let mark = generator.random.bits() as u32;
        let random = generator.passage(self.world);
        let known = |place| !matches!(place, Place::Workload(key) if !endpoints.contains_key(&EndpointId(key.clone())));
        if known(random.from) && known(random.to) && (random.from, random.to) != (Place::Host, Place::Host) {
            self.pass(endpoints, random, mark, "on a random way");
        }
        for (what, from, to) in ways {
            let state = generator.random.pick(&[ConnState::Invalid, ConnState::Related]);
            for state in [ConnState::New, ConnState::Established, state] {
                let passage = Passage { from, to, arriving, flow, state };
                let expected = self.pass(endpoints, passage, mark, what);
                if state == ConnState::New {
                    seen.take(what, expected);
                }
            }
        }
    }

    /// The same flow before its destination was translated.
    fn other_destination(&self, flow: &Flow, generator: &mut Generator) -> Flow {
        let other = self.flow(generator);
        let destination = if other.family() == flow.family() { other.destination } else { flow.destination };
        let destination_port = if flow.destination_port == 0 { 0 } else { generator.random.pick(&[80, 443, 30080]) };
        Flow { destination, destination_port, ..*flow }
    }

    /// What nothing active is about: workloads that nobody announced, and traffic that is no workload's.
    fn others(&self, generator: &mut Generator) {
        let flow = self.flow(generator);
        let mark = generator.random.bits() as u32;
        let ct_state = generator.random.pick(&[CtState::NEW, CtState::ESTABLISHED, CtState::INVALID]);
        let packet = |iif, oif, ct_state| Packet { iif, oif, ct_state, mark, ..Packet::new(flow) };
        let (near, far, new) = (Some(uplink(0)), Some(uplink(1)), CtState::NEW);
        let unknown = "an unknown workload interface is cut off";
        // Whoever looks for neighbours is heard.
        let discovery = flow.protocol == ICMPV6 && matches!(flow.icmp, Some((130..=133 | 135 | 136, _)));
        let heard = if discovery { Decision::Allow } else { Decision::Deny };
        for stranger in self.strangers.iter().copied() {
            self.go(&THROUGH, packet(Some(stranger), near, new), flow, Decision::Deny, unknown);
            self.go(&THROUGH, packet(near, Some(stranger), new), flow, Decision::Deny, unknown);
            self.go(&TO_HOST, packet(Some(stranger), None, new), flow, heard, unknown);
            let (from, to) = (Place::Interface(stranger), Place::Interface(uplink(0)));
            for (from, to) in [(from, to), (to, from)] {
                let passage = Passage { from, to, arriving: flow, flow, state: ConnState::New };
                assert_eq!(self.cluster.passage(HOST, &passage), Decision::Deny, "{unknown} by the specification");
            }
        }
        if self.world.objects.keys().any(|key| matches!(key.kind(), Kind::HostEndpoint | Kind::BgpConfiguration)) {
            return;
        }
        let foreign = "traffic that is no workload's is left alone";
        self.go(&THROUGH, packet(near, far, ct_state), flow, Decision::Allow, foreign);
        self.go(&TO_HOST, packet(near, None, ct_state), flow, Decision::Allow, foreign);
        self.go(&FROM_HOST, packet(None, near, ct_state), flow, Decision::Allow, foreign);
    }

    /// Compares what becomes of a packet with what should; says what should.
    fn pass(
        &self,
        endpoints: &BTreeMap<EndpointId, Arc<ActiveEndpoint>>,
        mut passage: Passage<'_>,
        mark: u32,
        what: &str,
    ) -> Decision {
        let interface = |place: Place<'_>| match place {
            Place::Interface(name) => Some(name),
            Place::Host => None,
            Place::Workload(key) => endpoints.get(&EndpointId(key.clone())).map(|endpoint| endpoint.interface),
        };
        let way = match (passage.from, passage.to) {
            (Place::Host, _) => FROM_HOST,
            (_, Place::Host) => TO_HOST,
            _ => THROUGH,
        };
        let ct_state = match passage.state {
            ConnState::New => CtState::NEW,
            ConnState::Established => CtState::ESTABLISHED,
            ConnState::Related => CtState::RELATED,
            ConnState::Invalid => CtState::INVALID,
        };
        let translated = passage.arriving != passage.flow;
        if way.before.is_empty() {
            // Within one hook nothing is told apart: these packets are asked about as they become.
            passage.arriving = passage.flow;
        }
        let expected = self.cluster.passage(HOST, &passage);
        let sentence = match passage.state {
            ConnState::Established => {
                "an established connection goes on if its source may, and the specification decides"
            }
            _ => "the specification decides",
        };
        let (iif, oif) = (interface(passage.from), interface(passage.to));
        let packet = Packet { iif, oif, ct_state, mark, ..Packet::new(passage.arriving) };
        let packet = Packet { translated: translated && way.before.is_empty(), ..packet };
        self.go(&way, packet, passage.flow, expected, &format!("{what} {sentence}"));
        expected
    }

    /// `flow`: what the packet's flow becomes on its way.
    fn go(&self, way: &Way, packet: Packet, flow: Flow, expected: Decision, sentence: &str) {
        let addresses = [(uplink(0), ["192.0.2.1", "2001:db8::1"]), (uplink(1), ["198.51.100.1", "2001:db8:1::1"])];
        let addresses = addresses.map(|(name, addresses)| (name, addresses.map(|text| text.parse().unwrap()).to_vec()));
        let mut surroundings = Surroundings::new(addresses);
        let mut found = self.ruleset.evaluate_in(way.before, packet, &mut surroundings);
        if found.decision == Decision::Allow {
            let translated = packet.translated || packet.flow != flow;
            let packet = Packet { flow, translated, ..found.packet };
            let trace = found.trace;
            found = self.ruleset.evaluate_in(way.behind, packet, &mut surroundings);
            found.trace.splice(0..0, trace);
        }
        self.check(&found, expected, &packet, sentence);
    }

    fn check(&self, found: &Evaluation, expected: Decision, packet: &Packet, sentence: &str) {
        if found.decision != expected {
            let way: Vec<String> = found.trace.iter().map(ToString::to_string).collect();
            let objects: Vec<String> = self.world.objects.values().map(|object| format!("{object:?}")).collect();
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

/// An interface of the host.
fn uplink(number: usize) -> InterfaceName {
    format!("eth{number}").parse().unwrap()
}
