//! Packets to ask about: random flows between the ends that a host has, and what the specification says becomes of them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use calico_core::flow::{ConnState, Decision, Flow, Passage, Place};
use calico_core::net::{Cidr, Family, InterfaceName};
use calico_core::resource::{Action, ResourceKey};
use calico_core::spec::Cluster;
use calico_core::testing::{Generator, HOST, Random};
use calico_core::verdict::{self, ActiveState, PassageVerdict, Stage, Step};

use super::field::{ROUTES, UPLINKS};
use super::wire::{self, Part};

/// Addresses of others, and of services.
const REMOTE: [&str; 8] = [
    "192.0.2.5",
    "192.0.2.77",
    "198.51.100.1",
    "10.96.0.7",
    "2001:db8::5",
    "2001:db8::77",
    "2001:db8::99",
    "fd00:96::7",
];
/// Ports that rules, services and fail-safes are about.
const PORTS: [u16; 10] = [22, 53, 68, 80, 179, 443, 4789, 6443, 8080, 30_000];
/// Protocols by their column in the table of what was asked.
pub(crate) const PROTOCOLS: [&str; 5] = ["TCP", "UDP", "SCTP", "ICMP", "other"];
/// Ways of a packet by their line there.
pub(crate) const WAYS: [&str; 9] = [
    "workload to workload",
    "workload to remote",
    "remote to workload",
    "workload to host",
    "host to workload",
    "remote to host",
    "host to remote",
    "remote to remote",
    "host to itself",
];

/// Line of what the host sends to itself.
const ITSELF: usize = 8;
/// Bits of the number of what comes back; the lower ones are those of what it comes back for.
const ANSWER: u32 = 1 << 20;
const COMPLAINT: u32 = 1 << 21;

/// Protocol and ends.
type Connection = (u8, [(IpAddr, u16); 2]);

/// Way, protocol, family and decision.
pub(crate) type Cell = (&'static str, &'static str, Family, Decision);

/// An end of a packet's way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// With its interface.
    Workload(ResourceKey, InterfaceName),
    Interface(InterfaceName),
    Host,
}

impl End {
    pub(crate) const fn place(&self) -> Place<'_> {
        match self {
            Self::Workload(key, _) => Place::Workload(key),
            Self::Interface(name) => Place::Interface(*name),
            Self::Host => Place::Host,
        }
    }

    /// None for the host itself.
    pub(crate) const fn interface(&self) -> Option<InterfaceName> {
        match self {
            Self::Workload(_, name) | Self::Interface(name) => Some(*name),
            Self::Host => None,
        }
    }
}

/// A packet and what becomes of it.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) number: u32,
    pub(crate) part: Part,
    /// The packet that is complained of.
    pub(crate) about: Option<Vec<u8>>,
    pub(crate) from: End,
    pub(crate) to: End,
    /// The flow as it arrives, and as the host's translation makes it unless policy keeps that from it.
    pub(crate) before: Flow,
    pub(crate) translated: Option<Flow>,
    /// The flow as it leaves.
    pub(crate) after: Flow,
    pub(crate) state: ConnState,
    pub(crate) expected: Decision,
    /// Why: of each passage. The host reaches itself in two.
    pub(crate) verdicts: Vec<PassageVerdict>,
}

impl Question {
    /// Its line, column and half in the table of what was asked.
    pub(crate) fn cell(&self) -> Cell {
        let workload = |end: &End| matches!(end, End::Workload(..));
        let way = match (&self.from, &self.to) {
            (End::Workload(..), End::Host) => 3,
            (End::Host, End::Workload(..)) => 4,
            (End::Host, End::Host) => ITSELF,
            (End::Interface(_), End::Host) => 5,
            (End::Host, End::Interface(_)) => 6,
            (from, to) if workload(from) && workload(to) => 0,
            (from, _) if workload(from) => 1,
            (_, to) if workload(to) => 2,
            _ => 7,
        };
        let protocol = match self.before.protocol {
            wire::TCP => 0,
            wire::UDP => 1,
            wire::SCTP => 2,
            wire::ICMP | wire::ICMPV6 => 3,
            _ => 4,
        };
        (WAYS.get(way).unwrap(), PROTOCOLS.get(protocol).unwrap(), self.before.family(), self.expected)
    }

    /// Whether policy before connection tracking let it through, so that it is of no connection.
    pub(crate) fn is_untracked(&self) -> bool {
        self.verdicts.iter().any(is_untracked)
    }
}

fn is_untracked(verdict: &PassageVerdict) -> bool {
    let allows = |step: &Step| matches!(step, Step::Rule(rule) if rule.action == Action::Allow);
    verdict.ends.iter().any(|end| end.stage == Stage::Untracked && end.verdict.steps.iter().any(allows))
}

/// All that can be asked of one world.
pub(crate) struct World<'a> {
    pub(crate) cluster: Cluster,
    pub(crate) state: &'a ActiveState,
    pub(crate) settings: verdict::Settings,
    /// Workloads that are active here, by interface.
    pub(crate) workloads: Vec<(End, Vec<IpAddr>)>,
    /// Interfaces that look like a workload's, and are nobody's: with somebody who is not active there.
    pub(crate) strangers: Vec<End>,
    /// Connections that there may be by now.
    pub(crate) used: BTreeSet<Connection>,
}

impl World<'_> {
    /// A question about a packet that belongs to no connection yet; none where the draw made no sense.
    pub(crate) fn ask(&self, generator: &mut Generator, number: u32) -> Option<Question> {
        let random = &mut generator.random;
        let (way, v6) = (random.below(WAYS.len()), random.chance(50));
        let (from, source) = self.source(way, v6, random)?;
        let destination = self.destination(way, v6, random)?;
        let protocol = match random.below(5) {
            0 => wire::TCP,
            1 => wire::UDP,
            2 => wire::SCTP,
            3 if v6 => wire::ICMPV6,
            3 => wire::ICMP,
            _ => random.pick(&[wire::OSPF, wire::GRE, wire::IPIP]),
        };
        let ports = matches!(protocol, wire::TCP | wire::UDP | wire::SCTP);
        let some = 40_000 + u16::try_from(number % 20_000).ok()?;
        let port = if random.chance(30) { random.pick(&PORTS) } else { some };
        let (source_port, destination_port) = if ports { (port, random.pick(&PORTS)) } else { (0, 0) };
        let icmp = matches!(protocol, wire::ICMP | wire::ICMPV6).then(|| icmp(v6, random));
        let flow = Flow { source, destination, protocol, source_port, destination_port, icmp };
        let part = if protocol == wire::TCP && random.chance(8) { Part::Impossible } else { Part::First };
        let state = state(&flow, part);
        let can_be = matches!(protocol, wire::TCP | wire::UDP | wire::SCTP) || matches!(icmp, Some((8 | 128, _)));
        let before = match state {
            ConnState::New if can_be && way != ITSELF && random.chance(30) => self.before(&from, &flow, random),
            _ => flow,
        };
        if source == destination || source == before.destination || !self.is_new(&before, &flow) {
            return None;
        }
        let translated = (before != flow).then_some(flow);
        self.decide(number, part, from, before, translated, state)
    }

    /// What becomes of a packet.
    fn decide(
        &self,
        number: u32,
        part: Part,
        from: End,
        before: Flow,
        translated: Option<Flow>,
        state: ConnState,
    ) -> Option<Question> {
        let mut after = translated.unwrap_or(before);
        let mut to = self.leads_to(after.destination)?;
        let mut verdicts = Vec::new();
        let mut ask = |from: &End, to: &End, after: Flow, state| {
            let passage = Passage { from: from.place(), to: to.place(), arriving: before, flow: after, state };
            let verdict = self.state.passage(&self.settings, &passage);
            let expected = self.cluster.passage(HOST, &passage);
            assert_eq!(verdict.decision, expected, "the events and the specification disagree about {passage:#?}");
            verdicts.push(verdict);
            expected
        };
        let mut expected;
        if (&from, &to) == (&End::Host, &End::Host) {
            let own = End::Interface(InterfaceName::LOOPBACK);
            expected = ask(&from, &own, after, state);
            if expected == Decision::Allow {
                let untracked = self.untracks(&from, &own, before);
                expected = ask(&own, &to, after, if untracked { ConnState::New } else { state });
            }
        } else {
            if translated.is_some() && self.untracks(&from, &to, before) {
                // What is not tracked is not translated.
                (after, to) = (before, self.leads_to(before.destination)?);
            }
            expected = ask(&from, &to, after, state);
        }
        Some(Question { number, part, about: None, from, to, before, translated, after, state, expected, verdicts })
    }

    fn untracks(&self, from: &End, to: &End, before: Flow) -> bool {
        let (from, to) = (from.place(), to.place());
        let passage = Passage { from, to, arriving: before, flow: before, state: ConnState::New };
        is_untracked(&self.state.passage(&self.settings, &passage))
    }

    /// Where the host sends what is for an address; none where that is nowhere.
    pub(crate) fn leads_to(&self, address: IpAddr) -> Option<End> {
        if own_addresses().any(|own| own == address) {
            return Some(End::Host);
        }
        let here = self.workloads.iter().find(|(_, addresses)| addresses.contains(&address));
        let route = || {
            let (_, name) = ROUTES.iter().find(|(net, _)| net.parse::<Cidr>().unwrap().contains(address))?;
            Some(End::Interface(name.parse().unwrap()))
        };
        here.map(|(end, _)| end.clone()).or_else(route)
    }

    fn source(&self, way: usize, v6: bool, random: &mut Random) -> Option<(End, IpAddr)> {
        match way {
            0 | 1 | 3 if random.chance(4) && !self.strangers.is_empty() => {
                Some((random.pick(&self.strangers), one(self.anywhere(), v6, random)?))
            }
            0 | 1 | 3 => {
                let (end, addresses) = (!self.workloads.is_empty()).then(|| random.pick(&self.workloads))?;
                let forged = random.chance(6);
                let source = if forged { one(self.anywhere(), v6, random) } else { one(addresses, v6, random) };
                Some((end, source?))
            }
            2 | 5 | 7 => {
                let (name, _) = random.pick(&UPLINKS);
                let others = self.anywhere().into_iter().filter(|address| own_addresses().all(|own| own != *address));
                Some((End::Interface(name.parse().unwrap()), one(others, v6, random)?))
            }
            _ => Some((End::Host, one(own_addresses().filter(|own| !own.is_loopback()), v6, random)?)),
        }
    }

    fn destination(&self, way: usize, v6: bool, random: &mut Random) -> Option<IpAddr> {
        let workloads = || self.workloads.iter().flat_map(|(_, addresses)| addresses).copied();
        match way {
            0 | 2 | 4 => one(workloads(), v6, random),
            3 | 5 | ITSELF => one(own_addresses().filter(|own| way == ITSELF || !own.is_loopback()), v6, random),
            _ => {
                let elsewhere = |address: &IpAddr| matches!(self.leads_to(*address), Some(End::Interface(_)));
                one(self.anywhere().into_iter().filter(elsewhere), v6, random)
            }
        }
    }

    /// All addresses that mean something, here or elsewhere.
    fn anywhere(&self) -> Vec<IpAddr> {
        let pods = |space: u8| (0..4).flat_map(move |number: u8| pod(space, number));
        let remote = REMOTE.iter().map(|text| text.parse().unwrap());
        let own = own_addresses().filter(|own| !own.is_loopback());
        pods(0).chain(pods(1)).chain(remote).chain(own).collect()
    }

    /// The flow before its destination is translated. What the host itself sends is routed before that; policy before translation is that
    /// of where it would have gone, so it goes there still.
    fn before(&self, from: &End, flow: &Flow, random: &mut Random) -> Flow {
        let same = |address: &IpAddr| *from != End::Host || self.leads_to(*address) == self.leads_to(flow.destination);
        let addresses = self.anywhere().into_iter().filter(same);
        let destination = one(addresses, flow.source.is_ipv6(), random).unwrap_or(flow.destination);
        let destination_port = if flow.destination_port == 0 { 0 } else { random.pick(&PORTS) };
        Flow { destination, destination_port, ..*flow }
    }

    /// Whether no packet of this world was of these connections, in either direction. Each query has a number of its own.
    fn is_new(&self, before: &Flow, after: &Flow) -> bool {
        before.icmp.is_some() || [before, after].iter().all(|flow| !self.used.contains(&connection(flow)))
    }

    /// Keeps others from being of the same connection.
    pub(crate) fn take(&mut self, question: &Question) {
        self.used.extend([&question.before, &question.after].map(connection));
        self.used.extend(question.translated.as_ref().map(connection));
    }

    /// What comes back for a packet that has arrived, if it began a connection: an answer, and a complaint.
    pub(crate) fn returns(&self, question: &Question) -> Vec<Question> {
        let Question { number, part, to, before, after, state, .. } = question;
        let begins = *part == Part::First && *state == ConnState::New && !question.is_untracked();
        if !begins
            || matches!(before.icmp, Some((133..=136, _)))
            || question.to == End::Host && question.from == End::Host
        {
            return Vec::new();
        }
        let decide = |bit, part, [here, there]: [Flow; 2], state| {
            self.decide(number | bit, part, to.clone(), here, Some(there), state)
        };
        let mut complaint = decide(COMPLAINT, Part::Complaint, [after, before].map(undelivered), ConnState::Related);
        if let Some(complaint) = &mut complaint {
            complaint.about = Some(wire::packet(after, *part, *number, None));
        }
        let answer = decide(ANSWER, Part::Answer, [after, before].map(back), ConnState::Established);
        complaint.into_iter().chain(answer).collect()
    }
}

/// The flow of the complaint of whoever a packet went to.
fn undelivered(flow: &Flow) -> Flow {
    let (protocol, kind) = if flow.source.is_ipv4() { (wire::ICMP, 3) } else { (wire::ICMPV6, 1) };
    Flow { protocol, icmp: Some((kind, 0)), source_port: 0, destination_port: 0, ..back(flow) }
}

/// The flow of what comes back.
fn back(flow: &Flow) -> Flow {
    let reply = |(kind, code)| (if kind == 128 { 129 } else { 0 }, code);
    Flow {
        source: flow.destination,
        destination: flow.source,
        source_port: flow.destination_port,
        destination_port: flow.source_port,
        icmp: flow.icmp.map(reply),
        ..*flow
    }
}

/// Both directions.
fn connection(flow: &Flow) -> Connection {
    let Flow { source, destination, protocol, source_port, destination_port, .. } = *flow;
    let mut ends = [(source, source_port), (destination, destination_port)];
    ends.sort_unstable();
    (protocol, ends)
}

/// What connection tracking says of a packet of no known connection. To it, neighbour discovery is like what begins one.
fn state(flow: &Flow, part: Part) -> ConnState {
    match (flow.protocol, flow.icmp) {
        (wire::TCP, _) if part == Part::Impossible => ConnState::Invalid,
        (wire::ICMP, Some((8, _))) | (wire::ICMPV6, Some((128 | 133..=136, _))) => ConnState::New,
        (wire::ICMP | wire::ICMPV6, _) => ConnState::Invalid,
        _ => ConnState::New,
    }
}

fn icmp(v6: bool, random: &mut Random) -> (u8, u8) {
    let kinds = if v6 { [128, 128, 128, 0, 3, 8, 133, 135, 136] } else { [8, 8, 8, 8, 8, 8, 0, 3, 128] };
    (random.pick(&kinds), random.pick(&[0, 0, 1]))
}

/// Addresses of a pod of the generator's.
pub(crate) fn pod(space: u8, number: u8) -> [IpAddr; 2] {
    let v6 = [0xfd00, 0, 0, 0, 0, 0, space.into(), number.into()];
    [IpAddr::from([10, 0, space, number]), IpAddr::from(v6)]
}

fn own_addresses() -> impl Iterator<Item = IpAddr> {
    let uplinks = UPLINKS.iter().flat_map(|(_, addresses)| addresses);
    uplinks.chain(&["127.0.0.1", "::1"]).map(|text| text.parse().unwrap())
}

fn one(addresses: impl IntoIterator<Item = IpAddr>, v6: bool, random: &mut Random) -> Option<IpAddr> {
    let addresses: Vec<IpAddr> = addresses.into_iter().filter(|address| address.is_ipv6() == v6).collect();
    (!addresses.is_empty()).then(|| random.pick(&addresses))
}
