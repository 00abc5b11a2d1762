//! A TCP connection that policy denies now, of which the end that policy does not concern never stops sending.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use calico_core::calc::event::{ActiveEndpoint, ActiveRule, ActiveRules, EndpointId, Event, ProfileId, Stack};
use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::resource::{Action, Kind, ResourceKey};
use calico_core::table::Delta;
use calico_core::verdict::Compiled;
use calico_dataplane::denied::{DeniedConnections, Work};
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};

use super::fixture::run;
use super::network::*;

const PORT: u16 = 5000;

struct Host {
    renderer: Renderer,
    active: Compiled,
    driver: Driver,
    denied: DeniedConnections,
    start: Instant,
}

impl Host {
    /// With a workload of whose profile the ingress is open, or closed; its egress is open.
    fn new(dataplane: calico_dataplane::LinuxDataplane) -> Self {
        let config = RenderConfig::default();
        let denied = DeniedConnections::new(config.settings());
        let renderer = Renderer::new(config);
        let machine = Reconciler::new(renderer.skeleton(), ReconcileConfig::default());
        let driver = Driver::new(machine, Box::new(dataplane));
        Self { renderer, active: Compiled::default(), driver, denied, start: Instant::now() }
    }

    fn tell(&mut self, events: &[Event]) {
        let mut delta = Delta::default();
        for event in events {
            self.denied.handle(self.active.state(), event);
            self.active.apply(event);
            self.renderer.handle(event, &mut delta);
        }
        // The fixture has routes and settings of its own.
        (delta.routes_set, delta.neighbors_set, delta.settings) = Default::default();
        self.driver.machine().desire(&delta);
    }

    /// Until the kernel holds what is wanted, and connections that are denied have ended. Answers how many have.
    async fn settle(&mut self) -> usize {
        let mut count = 0;
        for _ in 0..1000 {
            let now = self.start.elapsed();
            match self.driver.step(&move || now).await {
                Step::Idle => {}
                Step::Applied { delta, report } => {
                    assert!(report.is_complete(), "{report:?} for\n{delta}");
                    continue;
                }
                _ => continue,
            }
            match self.denied.poll(&self.active, self.driver.state().holding(), now) {
                Some(Work::List(pick)) => {
                    let listed = self.driver.connections(pick).await;
                    self.denied.listed(listed, now).unwrap();
                }
                Some(Work::Route(asked)) => {
                    let ways = self.driver.ways(asked).await;
                    self.denied.routed(ways, now).unwrap();
                }
                Some(Work::Bar { ended, over }) => {
                    let mut delta = Delta::default();
                    self.renderer.bar(&ended, &over, &mut delta);
                    self.driver.machine().desire(&delta);
                }
                Some(Work::End(names)) => {
                    let outcome = self.driver.end_connections(names).await;
                    count += self.denied.ended(outcome, now).unwrap();
                }
                None if self.denied.poll_timeout() == Some(Duration::ZERO) => {}
                None => return count,
            }
        }
        panic!("there is always something to do");
    }
}

fn rules(ingress: Action) -> Event {
    let rule = ActiveRule::all;
    let rules = ActiveRules { tier: None, ingress: vec![rule(ingress)], egress: vec![rule(Action::Allow)] };
    Event::ProfileSet { id: ProfileId("open".into()), rules: Arc::new(rules) }
}

fn workload() -> Event {
    let stack = Arc::new(Stack { tiers: Vec::new(), profiles: vec![ProfileId("open".into())] });
    let endpoint = ActiveEndpoint {
        interface: NEAR.parse().unwrap(),
        mac: None,
        addresses: vec![format!("{POD}/32").parse().unwrap()],
        allowed_sources: Vec::new(),
        floating: Vec::new(),
        qos: None,
        ingress: stack.clone(),
        egress: stack,
    };
    let id = EndpointId(ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", "pod"));
    Event::EndpointSet { id, endpoint: Arc::new(endpoint) }
}

/// A stream from the pod, which the server opened; a thread that sends on it until told to stop.
fn never_pausing(network: &Network, stop: &Arc<AtomicBool>) -> (TcpStream, std::thread::JoinHandle<()>) {
    let listener = network.pod.run(|| TcpListener::bind((POD, PORT))).unwrap().unwrap();
    let client = network.server.run(|| TcpStream::connect((POD, PORT))).unwrap().unwrap();
    let (mut sender, _) = listener.accept().unwrap();
    sender.set_nonblocking(true).unwrap();
    let stop = Arc::clone(stop);
    let work = move || {
        while !stop.load(Ordering::Relaxed) {
            // A full buffer is sent again by the kernel.
            let _ = sender.write(&[7; 512]);
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    (client, std::thread::spawn(work))
}

/// Reads until nothing comes for a while; whether anything came.
fn heard(client: &mut TcpStream) -> usize {
    client.set_read_timeout(Some(Duration::from_millis(700))).unwrap();
    let (mut buffer, mut count) = ([0; 4096], 0);
    let deadline = Instant::now() + Duration::from_secs(3);
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        count += read;
        if Instant::now() > deadline {
            break;
        }
    }
    count
}

#[test]
fn a_sender_that_never_pauses_does_not_come_back() {
    in_network(async |network| {
        let stop = Arc::new(AtomicBool::new(false));
        let mut host = Host::new(super::fixture::open());
        host.tell(&[rules(Action::Allow), workload()]);
        host.driver.machine().set_in_sync();
        host.driver.machine().set_bgp_settled();
        host.settle().await;
        let (mut client, sender) = never_pausing(&network, &stop);
        assert!(heard(&mut client) > 0, "{}", run("nft", "list ruleset"));

        host.tell(&[rules(Action::Deny)]);
        assert_eq!(host.settle().await, 1);
        heard(&mut client);
        assert_eq!(heard(&mut client), 0, "{}", run("conntrack", "-L"));
        // A connection that really begins is for policy, whatever ports it has.
        let listed = run("conntrack", "-L -p tcp");
        assert!(!listed.contains("ASSURED"), "{listed}");

        // Policy allows it again, and it goes on.
        host.tell(&[rules(Action::Allow)]);
        let deadline = Instant::now() + Duration::from_secs(60);
        while heard(&mut client) == 0 {
            assert!(Instant::now() < deadline, "{}", run("nft", "list ruleset"));
            host.settle().await;
        }
        stop.store(true, Ordering::Relaxed);
        sender.join().unwrap();
    });
}
