//! Speakers on a simulated network, under virtual time and from a seed.
//!
//! Connections have latency, deliver in order and in pieces of any size, can be lost, refused and held up by a partition. A node
//! has a kernel: routes that its speaker reported, which outlive the speaker and of which the stale ones go once the next
//! speaker says that it is settled, as `calico-node` does it.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use calico_core::bgp::{DesiredBgp, DesiredPeer, LocalSpeaker, Originated, PeerKind};
use calico_core::net::{AsNumber, Cidr};

use crate::{Action, BgpEvent, ConnectionId, LearnedRoute, SessionState, Speaker, SpeakerConfig, Timestamp};

/// The network and everything on it.
#[derive(Debug)]
pub struct Simulation {
    now: Timestamp,
    random: u64,
    sequence: u64,
    queue: BTreeMap<(Timestamp, u64), Delivery>,
    nodes: BTreeMap<Ipv4Addr, Node>,
    wires: BTreeMap<u64, Wire>,
    partitions: BTreeSet<(Ipv4Addr, Ipv4Addr)>,
    held: Vec<Delivery>,
}

#[derive(Debug)]
struct Node {
    config: SpeakerConfig,
    desired: DesiredBgp,
    speaker: Option<Speaker>,
    /// Whether the host itself is up: a host that is down does not even refuse.
    powered: bool,
    /// Destination to next hop, and whether the present speaker has reported it.
    kernel: BTreeMap<Cidr, (LearnedRoute, bool)>,
    settled: bool,
    connections: BTreeMap<ConnectionId, End>,
}

/// One end of a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct End {
    wire: u64,
    side: usize,
}

#[derive(Debug)]
struct Wire {
    latency: Duration,
    hosts: [Ipv4Addr; 2],
    connections: [Option<ConnectionId>; 2],
    /// When the last delivery to each side is due: order is kept.
    last: [Timestamp; 2],
}

#[derive(Debug)]
struct Delivery {
    to: End,
    what: What,
}

#[derive(Debug)]
enum What {
    Syn,
    Accepted,
    Bytes(Vec<u8>),
    Closed,
}

impl Simulation {
    /// An empty network. The seed decides latencies, splits and every speaker's jitter.
    pub fn new(seed: u64) -> Self {
        Self {
            now: Timestamp::ZERO,
            random: seed,
            sequence: 0,
            queue: BTreeMap::new(),
            nodes: BTreeMap::new(),
            wires: BTreeMap::new(),
            partitions: BTreeSet::new(),
            held: Vec::new(),
        }
    }

    /// Adds a node that originates `blocks`; it is switched off.
    pub fn add(&mut self, address: Ipv4Addr, as_number: AsNumber, blocks: &[Cidr]) {
        let local = LocalSpeaker::new(address.to_string(), as_number, address);
        let config = SpeakerConfig { seed: self.next_random(), ..SpeakerConfig::default() };
        let node = Node {
            config,
            desired: DesiredBgp {
                local: Some(local),
                originated: blocks.iter().copied().map(Originated::block).collect(),
                ..DesiredBgp::default()
            },
            speaker: None,
            powered: true,
            kernel: BTreeMap::new(),
            settled: false,
            connections: BTreeMap::new(),
        };
        self.nodes.insert(address, node);
    }

    /// Makes every node a peer of every other one.
    pub fn mesh(&mut self) {
        let all: Vec<(Ipv4Addr, AsNumber)> = self
            .nodes
            .iter()
            .filter_map(|(address, node)| Some((*address, node.desired.local.as_ref()?.as_number)))
            .collect();
        for (address, node) in &mut self.nodes {
            node.desired.peers = all.iter().filter(|(peer, _)| peer != address).map(|peer| mesh_peer(*peer)).collect();
        }
        self.apply_desired();
    }

    /// Changes a node's parameters before it is started.
    pub fn configure(&mut self, node: Ipv4Addr, change: impl FnOnce(&mut SpeakerConfig)) {
        if let Some(node) = self.nodes.get_mut(&node) {
            change(&mut node.config);
        }
    }

    /// Changes a node's desired state, at once if it runs.
    pub fn desire(&mut self, node: Ipv4Addr, change: impl FnOnce(&mut DesiredBgp)) {
        if let Some(node) = self.nodes.get_mut(&node) {
            change(&mut node.desired);
        }
        self.apply_desired();
    }

    fn apply_desired(&mut self) {
        let now = self.now;
        for node in self.nodes.values_mut() {
            if let Some(speaker) = &mut node.speaker {
                speaker.set_desired(now, &node.desired);
            }
        }
        self.pump();
    }

    /// Starts a node's speaker unless it runs. What the kernel holds is stale until it is reported again.
    pub fn start(&mut self, address: Ipv4Addr) {
        let now = self.now;
        if let Some(node) = self.nodes.get_mut(&address).filter(|node| node.speaker.is_none()) {
            node.powered = true;
            node.settled = false;
            node.kernel.values_mut().for_each(|(_, fresh)| *fresh = false);
            let mut speaker = Speaker::new(node.config.clone());
            speaker.set_desired(now, &node.desired);
            node.speaker = Some(speaker);
        }
        self.pump();
    }

    /// Starts every node.
    pub fn start_all(&mut self) {
        for address in self.nodes.keys().copied().collect::<Vec<_>>() {
            self.start(address);
        }
    }

    /// `kill -9`: the speaker is gone, the host's kernel closes its connections and keeps its routes.
    pub fn kill(&mut self, address: Ipv4Addr) {
        let connections = self.nodes.get_mut(&address).map(|node| {
            node.speaker = None;
            core::mem::take(&mut node.connections)
        });
        for end in connections.into_iter().flat_map(BTreeMap::into_values) {
            self.hang_up(end);
        }
        self.pump();
    }

    /// The power goes: nobody is told, and the kernel forgets.
    pub fn power_off(&mut self, address: Ipv4Addr) {
        if let Some(node) = self.nodes.get_mut(&address) {
            (node.speaker, node.powered) = (None, false);
            node.connections.clear();
            node.kernel.clear();
        }
    }

    /// Cuts the connection between two hosts. What is sent meanwhile arrives after [`heal`](Self::heal), as with TCP.
    pub fn partition(&mut self, a: Ipv4Addr, b: Ipv4Addr) {
        self.partitions.insert((a.min(b), a.max(b)));
    }

    /// Ends every partition.
    pub fn heal(&mut self) {
        self.partitions.clear();
        for delivery in core::mem::take(&mut self.held) {
            self.enqueue(self.now, delivery);
        }
    }

    /// Breaks every connection between two hosts; both ends notice.
    pub fn reset(&mut self, a: Ipv4Addr, b: Ipv4Addr) {
        let between = |wire: &Wire| wire.hosts == [a, b] || wire.hosts == [b, a];
        let wires: Vec<u64> = self.wires.iter().filter(|(_, wire)| between(wire)).map(|(id, _)| *id).collect();
        for wire in wires {
            for side in [0, 1] {
                self.send(End { wire, side }, What::Closed);
            }
        }
    }

    /// Runs until a condition holds; says whether it did within the limit.
    pub fn run_until(&mut self, limit: Duration, condition: impl Fn(&Self) -> bool) -> bool {
        let deadline = self.now.after(limit);
        while !condition(self) {
            let Some(next) = self.next_time().filter(|next| *next <= deadline) else {
                self.now = deadline;
                return condition(self);
            };
            self.step(next);
        }
        true
    }

    /// Runs for a time.
    pub fn run_for(&mut self, time: Duration) {
        self.run_until(time, |_| false);
    }

    /// Virtual time.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// What a node's kernel holds, by destination.
    pub fn routes(&self, node: Ipv4Addr) -> BTreeMap<Cidr, IpAddr> {
        let kernel = self.nodes.get(&node).into_iter().flat_map(|node| &node.kernel);
        kernel.map(|(prefix, (route, _))| (*prefix, route.next_hop)).collect()
    }

    /// Whether a node has said that its routes are complete.
    pub fn is_settled(&self, node: Ipv4Addr) -> bool {
        self.nodes.get(&node).is_some_and(|node| node.settled)
    }

    /// Whether every speaker has all its sessions.
    pub fn is_converged(&self) -> bool {
        let speakers = self.nodes.values().filter_map(|node| node.speaker.as_ref());
        speakers.flat_map(|speaker| speaker.status().peers).all(|peer| peer.state == SessionState::Established)
    }

    /// A node's speaker, while it runs.
    pub fn speaker(&self, node: Ipv4Addr) -> Option<&Speaker> {
        self.nodes.get(&node)?.speaker.as_ref()
    }

    /// Number of connection ends that hosts hold.
    pub fn open_connections(&self) -> usize {
        self.nodes.values().map(|node| node.connections.len()).sum()
    }

    fn next_time(&self) -> Option<Timestamp> {
        let timers = self.nodes.values().filter_map(|node| node.speaker.as_ref()?.poll_timeout());
        timers.chain(self.queue.keys().next().map(|(time, _)| *time)).min()
    }

    fn step(&mut self, next: Timestamp) {
        self.now = self.now.max(next);
        let now = self.now;
        for node in self.nodes.values_mut() {
            if let Some(speaker) = &mut node.speaker {
                speaker.handle_timeout(now);
            }
        }
        self.pump();
        while let Some(entry) = self.queue.first_entry().filter(|entry| entry.key().0 <= now) {
            let delivery = entry.remove();
            self.deliver(delivery);
            self.pump();
        }
    }

    fn deliver(&mut self, delivery: Delivery) {
        let now = self.now;
        let to = delivery.to;
        let Some(wire) = self.wires.get(&to.wire) else {
            return;
        };
        let [a, b] = wire.hosts;
        if self.partitions.contains(&(a.min(b), a.max(b))) {
            self.held.push(delivery);
            return;
        }
        let (here, there) = if to.side == 0 { (a, b) } else { (b, a) };
        let connection = wire.connections.get(to.side).copied().flatten();
        let Some(node) = self.nodes.get_mut(&here).filter(|node| node.powered) else {
            return;
        };
        let known = connection.filter(|id| node.connections.get(id) == Some(&to));
        match (delivery.what, &mut node.speaker, known) {
            (What::Syn, Some(speaker), _) => match speaker.handle_accepted(now, IpAddr::V4(there).into()) {
                Some(id) => {
                    node.connections.insert(id, to);
                    self.join(to, id);
                    self.send(to.other(), What::Accepted);
                }
                None => self.send(to.other(), What::Closed),
            },
            (What::Accepted, Some(speaker), Some(id)) => speaker.handle_connected(now, id),
            (What::Bytes(bytes), Some(speaker), Some(id)) => speaker.handle_bytes(now, id, &bytes),
            (What::Closed, Some(speaker), Some(id)) => {
                node.connections.remove(&id);
                speaker.handle_closed(now, id);
            }
            (What::Closed, ..) => {}
            // Nobody listens (any more): the kernel resets.
            (What::Syn | What::Accepted | What::Bytes(_), ..) => self.send(to.other(), What::Closed),
        }
    }

    fn join(&mut self, end: End, id: ConnectionId) {
        if let Some(slot) = self.wires.get_mut(&end.wire).and_then(|wire| wire.connections.get_mut(end.side)) {
            *slot = Some(id);
        }
    }

    /// Takes out of every speaker what it has to give.
    fn pump(&mut self) {
        for address in self.nodes.keys().copied().collect::<Vec<_>>() {
            while let Some(action) = self.nodes.get_mut(&address).and_then(|node| node.speaker.as_mut()?.poll_action())
            {
                self.carry_out(address, action);
            }
            let Some(node) = self.nodes.get_mut(&address) else {
                continue;
            };
            let Some(speaker) = &mut node.speaker else {
                continue;
            };
            let mut transmissions = Vec::new();
            while let Some(id) = speaker.poll_ready() {
                loop {
                    let mut bytes = Vec::new();
                    speaker.poll_transmit(id, &mut bytes);
                    if bytes.is_empty() {
                        break;
                    }
                    transmissions.extend(node.connections.get(&id).map(|end| (*end, bytes)));
                }
            }
            while let Some(event) = speaker.poll_event() {
                match event {
                    BgpEvent::RouteSet(route) => drop(node.kernel.insert(route.prefix, (route, true))),
                    BgpEvent::RouteRemoved(prefix) => drop(node.kernel.remove(&prefix)),
                    BgpEvent::Settled => {
                        node.settled = true;
                        node.kernel.retain(|_, (_, fresh)| *fresh);
                    }
                    // A speaker never says that it restarted: who runs it does.
                    BgpEvent::Session(_) | BgpEvent::Restarted => {}
                }
            }
            for (end, bytes) in transmissions {
                self.transmit(end, &bytes);
            }
        }
    }

    fn carry_out(&mut self, from: Ipv4Addr, action: Action) {
        match action {
            Action::Connect { connection, peer, .. } => {
                let IpAddr::V4(to) = peer.address else {
                    return;
                };
                self.sequence += 1;
                let wire = self.sequence;
                let latency = Duration::from_micros(200 + self.next_random() % 20_000);
                self.wires.insert(
                    wire,
                    Wire { latency, hosts: [from, to], connections: [Some(connection), None], last: [self.now; 2] },
                );
                let end = End { wire, side: 0 };
                if let Some(node) = self.nodes.get_mut(&from) {
                    node.connections.insert(connection, end);
                }
                self.send(end.other(), What::Syn);
            }
            // Hosts here take calls on every port, and have no BFD.
            Action::Listen(_) | Action::Watch(_) => {}
            Action::Disconnect { connection, last } => {
                let Some(end) = self.nodes.get_mut(&from).and_then(|node| node.connections.remove(&connection)) else {
                    return;
                };
                self.transmit(end, &last);
                self.hang_up(end);
            }
        }
    }

    /// Sends bytes from an end, split anywhere.
    fn transmit(&mut self, from: End, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let size = usize::try_from(self.next_random() % 400).unwrap_or(0) + 1;
            let (piece, tail) = rest.split_at(size.min(rest.len()));
            self.send(from.other(), What::Bytes(piece.to_vec()));
            rest = tail;
        }
    }

    fn hang_up(&mut self, end: End) {
        self.send(end.other(), What::Closed);
    }

    fn send(&mut self, to: End, what: What) {
        let now = self.now;
        let Some(wire) = self.wires.get_mut(&to.wire) else {
            return;
        };
        let latency = wire.latency;
        let Some(last) = wire.last.get_mut(to.side) else {
            return;
        };
        *last = (*last).max(now.after(latency));
        let due = *last;
        self.enqueue(due, Delivery { to, what });
    }

    fn enqueue(&mut self, due: Timestamp, delivery: Delivery) {
        self.sequence += 1;
        self.queue.insert((due, self.sequence), delivery);
    }

    /// A small generator of its own: runs must be equal on every machine.
    const fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed ^= mixed >> 12;
        mixed ^= mixed << 25;
        mixed ^= mixed >> 27;
        mixed.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }
}

impl End {
    const fn other(self) -> Self {
        Self { wire: self.wire, side: 1 - self.side }
    }
}

fn mesh_peer((address, as_number): (Ipv4Addr, AsNumber)) -> DesiredPeer {
    DesiredPeer::new(address.into(), as_number, PeerKind::Mesh, address.to_string())
}
