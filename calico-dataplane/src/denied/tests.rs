//! The machine on a host in memory.

mod watch;

use calico_core::calc::event::{
    ActiveEndpoint, ActiveEntity, ActiveHostEndpoint, ActiveRule, ActiveRules, Directions, EndpointId, HostInterfaces,
    ProfileId, Stack,
};
use calico_core::net::{Cidr, PortRange};
use calico_core::resource::{Action, Kind, ResourceKey};
use futures_now::now_or_never;

use super::phase::SLICE;
use super::*;
use crate::Dataplane;
use crate::recording::{Faults, Recording};

/// What is ready is ready: the host in memory never waits.
mod futures_now {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    pub(super) fn now_or_never<T>(mut future: Pin<Box<dyn Future<Output = T> + Send>>) -> T {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("the host in memory waits for nothing"),
        }
    }
}

/// One workload, 10.65.0.1, to which rules of its only profile apply.
struct Host {
    kernel: Recording,
    active: Compiled,
    machine: DeniedConnections,
    holding: Holding,
    now: Duration,
    failures: usize,
    /// What the host drops unless it begins a connection.
    barred: HashSet<Flow>,
}

impl Host {
    fn new() -> Self {
        let (kernel, active, machine) = (Recording::new(), Compiled::default(), DeniedConnections::default());
        let mut host = Self {
            kernel,
            active,
            machine,
            holding: Holding::All,
            now: Duration::ZERO,
            failures: 0,
            barred: HashSet::new(),
        };
        host.allow(&[80, 81]);
        let stack = Arc::new(Stack { tiers: Vec::new(), profiles: vec![ProfileId("open".into())] });
        let endpoint = ActiveEndpoint {
            interface: "cali1".parse().unwrap(),
            mac: None,
            addresses: vec!["10.65.0.1/32".parse().unwrap()],
            allowed_sources: Vec::new(),
            floating: Vec::new(),
            qos: None,
            ingress: stack.clone(),
            egress: stack,
        };
        let id = EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", "pod"));
        host.event(&Event::EndpointSet { id, endpoint: Arc::new(endpoint) });
        host.work();
        assert_eq!(host.kernel.take_listings(), 0, "a new workload is no reason to look");
        host
    }

    /// Ingress is allowed to these ports, egress to everything.
    fn allow(&mut self, ports: &[u16]) {
        let ports: Vec<_> = ports.iter().map(|port| PortRange::single(*port)).collect();
        let rule = |protocol, destination| ActiveRule { protocol, destination, ..ActiveRule::all(Action::Allow) };
        let ingress = vec![rule(Some(6), ActiveEntity { ports, ..ActiveEntity::default() })];
        let rules = ActiveRules { tier: None, ingress, egress: vec![rule(None, ActiveEntity::default())] };
        self.event(&Event::ProfileSet { id: ProfileId("open".into()), rules: Arc::new(rules) });
    }

    /// A workload like the first one, 10.65.0.`number`.
    fn open_workload(&mut self, number: u8) {
        let like = self.active.state().endpoints.values().next().cloned().unwrap();
        let addresses = vec![Cidr::host([10, 65, 0, number].into())];
        let interface = format!("cali{number}").parse().unwrap();
        let id = EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", &format!("pod-{number}")));
        let endpoint = ActiveEndpoint { interface, addresses, ..(*like).clone() };
        self.event(&Event::EndpointSet { id, endpoint: Arc::new(endpoint) });
    }

    fn event(&mut self, event: &Event) {
        self.machine.handle(self.active.state(), event);
        self.active.apply(event);
    }

    /// Until there is nothing to do now.
    fn work(&mut self) {
        for _ in 0..100 {
            match self.machine.poll(&self.active, self.holding, self.now) {
                Some(Work::List(pick)) => {
                    let listed = now_or_never(self.kernel.connections(pick));
                    self.failures += usize::from(self.machine.listed(listed, self.now).is_err());
                }
                Some(Work::Route(asked)) => {
                    let routed = now_or_never(self.kernel.ways(asked));
                    self.failures += usize::from(self.machine.routed(routed, self.now).is_err());
                }
                Some(Work::Bar { ended, over }) => {
                    over.iter().for_each(|flow| assert!(self.barred.remove(flow), "{flow:?}"));
                    ended.into_iter().for_each(|flow| assert!(self.barred.insert(flow), "{flow:?}"));
                }
                Some(Work::End(names)) => {
                    let ended = now_or_never(self.kernel.end_connections(names));
                    self.failures += usize::from(self.machine.ended(ended, self.now).is_err());
                }
                None if self.machine.poll_timeout() == Some(Duration::ZERO) => {}
                None => return,
            }
        }
        panic!("there is always something to do");
    }

    /// To the next time that it asks for, up to `until`.
    fn wait(&mut self, until: Duration) {
        while let Some(next) = self.machine.poll_timeout().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.work();
            assert!(self.machine.poll_timeout().is_none_or(|then| then > self.now), "nothing is left to do now");
        }
        self.now = until;
    }
}

fn to_port(source: u8, port: u16) -> Connection {
    let ends = ([10, 9, 0, source].into(), [10, 65, 0, 1].into());
    let flow = |(source, destination), source_port, destination_port| Flow {
        source,
        destination,
        protocol: 6,
        source_port,
        destination_port,
        icmp: None,
    };
    Connection { original: flow(ends, 4000, port), reply: flow((ends.1, ends.0), port, 4000), master: None }
}

fn back(connection: Connection) -> Connection {
    Connection { original: connection.reply, reply: connection.original, master: None }
}

#[test]
fn what_is_denied_ends_and_nothing_else() {
    let mut host = Host::new();
    let related = Connection { master: Some(to_port(1, 81).original), ..to_port(1, 9999) };
    let others = Connection { master: Some(to_port(1, 80).original), ..to_port(1, 9998) };
    [to_port(1, 80), to_port(1, 81), related, others].into_iter().for_each(|one| host.kernel.track(one));
    host.allow(&[80, 81, 82]);
    host.work();
    assert_eq!(host.kernel.tracked().len(), 4);
    host.now += Duration::from_secs(60);
    host.allow(&[80]);
    host.work();
    assert_eq!(host.kernel.tracked(), [to_port(1, 80), others], "with what belongs to it");
    assert_eq!(host.barred, HashSet::from([to_port(1, 81).reply, related.reply]), "neither begins from its other end");
    host.allow(&[80, 81]);
    host.wait(host.now + Duration::from_secs(1));
    assert_eq!(host.barred, HashSet::from([related.reply]), "but what policy allows again may go on");
}

#[test]
fn a_thousand_are_judged_in_slices() {
    let mut host = Host::new();
    for source in 0..=255 {
        for port in [80, 81, 90, 91, 92, 93] {
            host.kernel.track(to_port(source, port));
        }
    }
    host.allow(&[80, 90, 91, 92, 93]);
    host.work();
    assert_eq!(host.kernel.tracked().len(), 256 * 5);
    assert!(host.kernel.tracked().len() > SLICE);
}

#[test]
fn nothing_is_looked_for_before_the_kernel_holds_the_policy() {
    let mut host = Host::new();
    host.kernel.track(to_port(1, 81));
    host.allow(&[80]);
    host.holding = Holding::Nothing;
    host.work();
    assert_eq!((host.kernel.take_listings(), host.kernel.tracked().len()), (0, 1));
    host.holding = Holding::All;
    host.work();
    assert!(host.kernel.tracked().is_empty());
}

/// What could be written is; a part was refused, under which the connection may have begun anew.
#[test]
fn all_is_looked_at_again_when_more_was_written() {
    let mut host = Host::new();
    host.allow(&[80]);
    host.holding = Holding::Part;
    host.work();
    assert_eq!(host.kernel.take_listings(), 1);
    host.kernel.track(to_port(1, 81));
    host.wait(Duration::from_secs(60));
    assert_eq!(host.kernel.take_listings(), 0, "nothing was written");
    host.holding = Holding::All;
    host.machine.wrote();
    host.work();
    assert!(host.kernel.tracked().is_empty());
    host.machine.wrote();
    host.wait(Duration::from_secs(120));
    assert!(host.kernel.take_listings() >= 1);
    let idle = host.kernel.take_listings();
    host.machine.wrote();
    host.work();
    assert_eq!(idle, 0, "once");
}

#[test]
fn failures_are_tried_again_ever_more_slowly() {
    for faults in 1..=8 {
        let mut host = Host::new();
        host.kernel.track(to_port(1, 81));
        host.kernel.set_faults(Faults { tracking: faults, ..Faults::default() });
        host.allow(&[80]);
        host.work();
        host.wait(Duration::from_secs(1000));
        assert!(host.kernel.tracked().is_empty());
        assert_eq!(host.failures, faults);
    }
    let mut host = Host::new();
    host.kernel.set_faults(Faults { tracking: usize::MAX, ..Faults::default() });
    host.allow(&[80]);
    host.wait(Duration::from_secs(600));
    assert!((10..20).contains(&host.failures), "{}", host.failures);

    let mut host = Host::new();
    host.kernel.track(to_port(1, 81));
    host.allow(&[80]);
    host.work();
    host.kernel.set_faults(Faults { tracking: usize::MAX, ..Faults::default() });
    host.wait(Duration::from_secs(60));
    assert!((3..10).contains(&host.failures), "{} while what ended is looked for", host.failures);
}

/// Listing that takes a second happens every ten at the most.
#[test]
fn lists_take_a_part_of_the_time_only() {
    let mut host = Host::new();
    let mut lists = 0;
    for _ in 0..600 {
        host.allow(&[80, u16::try_from(lists).unwrap()]);
        if let Some(Work::List(pick)) = host.machine.poll(&host.active, Holding::All, host.now) {
            lists += 1;
            let listed = now_or_never(host.kernel.connections(pick));
            host.now += Duration::from_secs(1);
            host.machine.listed(listed, host.now).unwrap();
            assert!(host.machine.poll(&host.active, Holding::All, host.now).is_none());
        }
        host.now += Duration::from_millis(100);
    }
    assert!((5..=10).contains(&lists), "{lists} in two minutes");
}

/// An uplink whose endpoint closes: its connections end, slice by slice, whoever else is policed or not.
#[test]
fn connections_of_host_endpoints_end_too() {
    let mut host = Host::new();
    let (own, uplink) = (IpAddr::from([192, 0, 2, 1]), "eth0".parse().unwrap());
    host.kernel.add_address(own);
    host.machine.set_interface(uplink, Some(&[own]));
    let to_own = |from: [u8; 4], port| {
        let mut flow = to_port(1, port).original;
        (flow.source, flow.destination) = (from.into(), own);
        let reply = Flow { source: own, destination: from.into(), source_port: port, destination_port: 4000, ..flow };
        Connection { original: flow, reply, master: None }
    };
    let known: Vec<Connection> = (0..SLICE + 10)
        .map(|number| {
            let [.., high, low] = u32::try_from(number).unwrap().to_be_bytes();
            to_own([10, 9, high, low], 80)
        })
        .collect();
    let others = [to_own([10, 9, 0, 1], 22), to_own([10, 8, 0, 1], 80), to_own([10, 7, 0, 1], 80)];
    for connection in known.iter().chain(&others) {
        host.kernel.track(*connection);
        let from = connection.original.source;
        let way = if from == IpAddr::from([10, 8, 0, 1]) { "eth1" } else { "eth0" };
        if from != IpAddr::from([10, 7, 0, 1]) {
            host.kernel.set_way(from, vec![way.parse().unwrap()]);
        }
    }
    host.machine.set_interface("eth1".parse().unwrap(), Some(&[]));
    host.kernel.set_faults(Faults { tracking: 1, ..Faults::default() });
    let closed = ActiveHostEndpoint {
        dscp: Vec::new(),
        interfaces: HostInterfaces::Named(vec![uplink]),
        untracked: Directions::default(),
        pre_dnat: Arc::default(),
        normal: Directions::default(),
        forward: Directions::default(),
    };
    let id = EndpointId(ResourceKey::cluster(Kind::HostEndpoint, "uplink"));
    host.event(&Event::HostEndpointSet { id, endpoint: Arc::new(closed) });
    host.wait(Duration::from_secs(5));
    assert_eq!(host.failures, 1);
    assert_eq!(host.kernel.tracked(), others, "a fail-safe port, another uplink, and what nobody knows a way of");
    let barred: HashSet<Flow> = known.iter().map(|connection| connection.reply).collect();
    assert_eq!(host.barred, barred);
    host.kernel.take_listings();
    host.open_workload(2);
    host.work();
    assert_eq!((host.kernel.take_listings(), &host.barred), (0, &barred), "a new workload changes nothing for them");
    host.allow(&[80, 81, 82]);
    host.wait(Duration::from_secs(10));
    assert_eq!(host.barred, barred, "whatever else changes");
}

#[test]
fn a_connection_is_a_workloads_by_the_address_that_it_was_translated_to() {
    let mut host = Host::new();
    let service = Flow { destination: [10, 96, 0, 1].into(), destination_port: 443, ..to_port(1, 81).original };
    host.kernel.track(Connection { original: service, ..to_port(1, 81) });
    host.kernel.track(Connection { original: service, ..to_port(2, 80) });
    host.allow(&[80]);
    host.work();
    assert_eq!(host.kernel.tracked(), [Connection { original: service, ..to_port(2, 80) }]);
}

#[test]
fn a_connection_is_a_workloads_by_its_further_sources_where_they_are_allowed() {
    for (allowed, left) in [(true, 0), (false, 1)] {
        let mut host = Host::new();
        let mut settings = Settings::default();
        settings.host.allow_spoofed_sources = allowed;
        host.machine = DeniedConnections::new(settings);
        let (id, known) = host.active.state().endpoints.first_key_value().unwrap();
        let further = vec!["203.0.113.0/24".parse().unwrap()];
        let with = ActiveEndpoint { allowed_sources: further, ..(**known).clone() };
        let event = Event::EndpointSet { id: id.clone(), endpoint: Arc::new(with) };
        host.event(&event);
        let outward =
            Flow { source: [203, 0, 113, 9].into(), destination: [198, 51, 100, 9].into(), ..to_port(1, 80).original };
        let reply = Flow { source: outward.destination, destination: outward.source, ..to_port(1, 80).reply };
        host.kernel.track(Connection { original: outward, reply, master: None });
        let rules = ActiveRules { tier: None, ingress: Vec::new(), egress: Vec::new() };
        host.event(&Event::ProfileSet { id: ProfileId("open".into()), rules: Arc::new(rules) });
        host.work();
        assert_eq!(host.kernel.tracked().len(), left, "allowed: {allowed}");
    }
}

/// While a part was refused, two workloads closed one after the other: what began under the refused part is looked for at both.
#[test]
fn all_doubt_of_parts_is_kept_until_more_is_written() {
    let mut host = Host::new();
    let open = host.active.state().endpoints.values().next().cloned().unwrap();
    let workload = |number: u8, is_open: bool| {
        let ingress = if is_open { open.ingress.clone() } else { Arc::new(Stack::default()) };
        let addresses = vec![Cidr::host([10, 65, 0, number].into())];
        let interface = format!("cali{number}").parse().unwrap();
        let id = EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", &format!("pod-{number}")));
        let endpoint = Arc::new(ActiveEndpoint { interface, addresses, ingress, ..(*open).clone() });
        Event::EndpointSet { id, endpoint }
    };
    [2, 3].into_iter().for_each(|number| host.event(&workload(number, true)));
    host.work();
    host.holding = Holding::Part;
    for (number, second) in [(2, 1), (3, 2)] {
        host.event(&workload(number, false));
        host.wait(Duration::from_secs(second));
        host.work();
    }
    assert_eq!(host.kernel.take_listings(), 2);
    for number in [2, 3] {
        let to: IpAddr = [10, 65, 0, number].into();
        let Connection { original, reply, .. } = to_port(1, 80);
        let (original, reply) = (Flow { destination: to, ..original }, Flow { source: to, ..reply });
        host.kernel.track(Connection { original, reply, master: None });
    }
    host.holding = Holding::All;
    host.machine.wrote();
    host.wait(Duration::from_secs(10));
    assert_eq!(host.kernel.tracked(), []);
}
