//! Limits on bandwidth in a real kernel: as `tc` shows them, as packets feel them, beside what others left, and whatever goes wrong.

use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::time::Duration;

use calico_core::net::InterfaceName;
use calico_core::table::{Delta, Peak, Shaper, Shaping};
use calico_dataplane::netns::{Netns, Request, RouteSocket, VethEnd};
use calico_dataplane::reconcile::{Driver, Object, ReconcileConfig, Reconciler, Step};
use calico_dataplane::testing::faults::{Fault, plan, requests};
use calico_dataplane::testing::netns::scratch;
use calico_dataplane::{Dataplane, LinuxDataplane};
use serde_json::{Value, json};

use super::fixture::{WORKLOAD, in_namespace, open, run};

/// Longest wait for a notification.
const PATIENCE: Duration = Duration::from_secs(30);

fn workload() -> InterfaceName {
    WORKLOAD.parse().unwrap()
}

fn received() -> Shaper {
    Shaper::of_received(workload())
}

fn sent() -> Shaper {
    Shaper::of_sent(workload())
}

fn shaping(shaper: Shaper, rate: u64) -> Shaping {
    Shaping { shaper, rate, burst: 10_000, peak: None }
}

fn both(rate: u64) -> Vec<Shaping> {
    [received(), sent()].map(|shaper| shaping(shaper, rate)).into()
}

fn set(shapings: impl Into<Vec<Shaping>>) -> Delta {
    Delta { shapings_set: shapings.into(), ..Delta::default() }
}

fn lift(shapers: impl Into<Vec<Shaper>>) -> Delta {
    Delta { shapings_removed: shapers.into(), ..Delta::default() }
}

async fn apply(dataplane: &mut LinuxDataplane, delta: &Delta) {
    let report = dataplane.apply(delta).await;
    assert!(report.is_complete(), "{report:?}");
}

fn tc(arguments: &str) -> Vec<Value> {
    serde_json::from_str(&run("tc", &format!("-j {arguments}"))).unwrap()
}

fn qdiscs(device: impl std::fmt::Display) -> Vec<Value> {
    tc(&format!("-s qdisc show dev {device}"))
}

/// The kinds of queues, `root` where one is.
fn kinds(device: impl std::fmt::Display) -> Vec<String> {
    let kind = |qdisc: &Value| format!("{} {}", qdisc["kind"].as_str().unwrap(), qdisc["handle"].as_str().unwrap());
    qdiscs(device).iter().map(kind).collect()
}

/// Where filters for received packets lead.
fn targets(interface: &str) -> Vec<String> {
    let filters = tc(&format!("filter show dev {interface} ingress"));
    let actions = filters.iter().filter_map(|filter| filter.pointer("/options/actions")?.as_array());
    actions.flatten().map(|action| action["to_dev"].as_str().unwrap().to_owned()).collect()
}

fn devices() -> Vec<String> {
    let links: Vec<Value> = serde_json::from_str(&run("ip", "-j link show type ifb")).unwrap();
    links.iter().filter_map(|link| Some(link["ifname"].as_str()?.to_owned())).collect()
}

/// All there is of queues, filters and devices, without what the kernel counts.
fn all() -> String {
    let filters = run("tc", &format!("filter show dev {WORKLOAD} ingress"));
    let filters: Vec<_> = filters.lines().filter(|line| !line.contains("\tindex ")).collect();
    [run("tc", "qdisc show"), filters.join("\n"), run("ip", "-br link")].concat()
}

#[test]
fn tc_shows_what_is_set_and_nothing_once_it_is_lifted() {
    in_namespace(async |mut dataplane| {
        let before = all();
        let peak = Some(Peak { rate: 250_000, burst: 0 });
        let large = Shaping { rate: 5_000_000_000, burst: 1 << 29, ..shaping(received(), 0) };
        let cases = [
            (shaping(received(), 125_000), json!({"rate": 125_000, "burst": 10_000, "lat": 25_000})),
            (
                Shaping { peak, ..shaping(received(), 125_000) },
                json!({"rate": 125_000, "burst": 10_000, "minburst": 1_514}),
            ),
            (large, json!({"rate": 5_000_000_000_u64, "burst": 1 << 29, "lat": 25_000})),
        ];
        for (shaping, expected) in cases {
            let led = Shaping { shaper: sent(), ..shaping };
            apply(&mut dataplane, &set([shaping, led])).await;
            for device in [workload(), sent().device] {
                let peaks =
                    run("tc", &format!("qdisc show dev {device}")).contains("peakrate 2Mbit minburst 1514b lat 25ms");
                assert_eq!(peaks, shaping.peak.is_some());
                let found = qdiscs(device);
                let found = &found[0];
                assert_eq!(
                    (&found["kind"], &found["handle"], &found["root"]),
                    (&json!("tbf"), &json!("1:"), &json!(true))
                );
                for (option, value) in expected.as_object().unwrap() {
                    // `tc` reckons in floating numbers, and shows the nearest.
                    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{option} of {found}"));
                    let (found, wanted) = (number(&found["options"][option]), number(value));
                    assert!((found - wanted).abs() <= 1.0_f64.max(wanted * 1e-5), "{option}: {found}, not {wanted}");
                }
            }
            assert_eq!(kinds(WORKLOAD)[1..], ["ingress ffff:"]);
            assert_eq!(targets(WORKLOAD), [sent().device.as_str()]);
            assert_eq!(devices(), [sent().device.as_str()]);
        }
        apply(&mut dataplane, &lift([sent(), received()])).await;
        assert_eq!(all(), before);
    });
}

const HOST: &str = "10.77.0.1";
const POD: &str = "10.77.0.2";
/// Three times the bucket and what may wait.
const DATAGRAMS: usize = 60;
/// So slow that hardly a packet more passes while the test looks: one in three seconds.
const RATE: u64 = 300;

fn attach(pod: &Netns) {
    let mut host = RouteSocket::open().unwrap();
    let end = |name: &str, netns| VethEnd { name: name.parse().unwrap(), netns, mac: None };
    host.carry_out(&[Request::veth(end(WORKLOAD, None), end("eth0", Some(pod.as_fd())), 0)]).unwrap();
    let configure = |socket: &mut RouteSocket, name: &str, address: &str| {
        let index = socket.link(name.parse().unwrap()).unwrap().unwrap().index;
        socket.carry_out(&[Request::up(index), Request::address(index, address.parse().unwrap(), 24)]).unwrap();
    };
    configure(&mut host, WORKLOAD, HOST);
    configure(&mut RouteSocket::open_in(pod).unwrap(), "eth0", POD);
}

/// Sends as much at once as no limit here lets through.
fn burst(from: &UdpSocket, to: &UdpSocket) {
    for _ in 0..DATAGRAMS {
        // A queue that is full may say so.
        let _ = from.send_to(&[0; 1000], to.local_addr().unwrap());
    }
}

/// Waits until all of a burst has come.
fn arrives(at: &UdpSocket) {
    for number in 0..DATAGRAMS {
        at.recv(&mut [0; 1000]).unwrap_or_else(|error| panic!("of {DATAGRAMS} only {number} came: {error}"));
    }
}

fn drain(socket: &UdpSocket) {
    socket.set_nonblocking(true).unwrap();
    while socket.recv(&mut [0; 1000]).is_ok() {}
    socket.set_nonblocking(false).unwrap();
}

#[test]
fn packets_beyond_a_limit_are_dropped_in_its_direction_only() {
    let (host, pod) = (scratch(), scratch());
    let run = || {
        attach(&pod);
        let here = UdpSocket::bind((HOST, 0)).unwrap();
        let there = pod.run(|| UdpSocket::bind((POD, 0)).unwrap()).unwrap();
        for socket in [&here, &there] {
            socket.set_read_timeout(Some(PATIENCE)).unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut dataplane = open();
            let ways = [(received(), &here, &there), (sent(), &there, &here)];
            for (shaper, from, to) in ways {
                // Nothing is limited; the first packet of a way waits for its neighbour, and only three may.
                from.send_to(&[0; 1000], to.local_addr().unwrap()).unwrap();
                to.recv(&mut [0; 1000]).unwrap();
                burst(from, to);
                arrives(to);
                apply(&mut dataplane, &set([shaping(shaper, RATE)])).await;
                burst(from, to);
                let counted = || qdiscs(shaper.device).swap_remove(0);
                let number = |name: &str| counted()[name].as_u64().unwrap();
                let (dropped, passed) = (number("drops"), number("packets"));
                assert!(number("overlimits") > 0 && dropped > 40 && (1..20).contains(&passed), "{}", counted());
                // What is right is not written again: that would fill the bucket.
                apply(&mut open(), &set([shaping(shaper, RATE)])).await;
                burst(from, to);
                assert!(number("packets") < passed + 6, "{passed} passed before, and now: {}", counted());
                let dropped = number("drops");
                // The other direction is not limited.
                drain(from);
                burst(to, from);
                arrives(from);
                assert_eq!(number("drops"), dropped, "{}", counted());
                apply(&mut dataplane, &lift([shaper])).await;
                drain(to);
                burst(from, to);
                arrives(to);
            }
        });
    };
    host.run(run).unwrap();
}

/// One life of an agent that wants nothing but limits.
struct Agent {
    driver: Driver,
    now: Duration,
}

impl Agent {
    fn begin(desired: &Delta) -> Self {
        let machine = Reconciler::new(Delta::default(), ReconcileConfig::default());
        let mut driver = Driver::new(machine, Box::new(open()));
        driver.machine().desire(desired);
        driver.machine().set_in_sync();
        Self { driver, now: Duration::ZERO }
    }

    /// How many writes it makes.
    async fn work(&mut self) -> usize {
        let (now, mut writes) = (self.now, 0);
        loop {
            match self.driver.step(&move || now).await {
                Step::Idle => return writes,
                Step::Applied { .. } => writes += 1,
                _ => {}
            }
        }
    }

    async fn settle(&mut self) {
        for _ in 0..50 {
            self.work().await;
            match self.driver.state().poll_timeout(self.now) {
                Some(due) => self.now = due,
                None => break,
            }
        }
        let failures: Vec<_> = self.driver.state().failures().collect();
        assert!(self.driver.state().is_settled(), "{failures:?}");
    }

    /// Hears of what others did until an object is told, and makes it right.
    async fn repairs(&mut self, object: &Object, what: &str) {
        let heard = async {
            loop {
                self.driver.next_change().await.unwrap();
                self.settle().await;
                if std::iter::from_fn(|| self.driver.machine().take_drift()).any(|told| told == *object) {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, heard).await.unwrap_or_else(|_| panic!("{what} is not told"));
        // Not within a fight.
        self.now += Duration::from_secs(60);
    }
}

#[test]
fn what_others_undo_is_made_right() {
    in_namespace(async |_| {
        let mut agent = Agent::begin(&set(both(125_000)));
        agent.settle().await;
        let expected = all();
        let device = sent().device;
        let deeds = [
            (received(), format!("tc qdisc del dev {WORKLOAD} root")),
            (
                received(),
                format!("tc qdisc replace dev {WORKLOAD} root handle 1: tbf rate 1gbit burst 1mb latency 1ms"),
            ),
            (received(), format!("tc qdisc replace dev {WORKLOAD} root handle 8001: noqueue")),
            (received(), format!("tc qdisc replace dev {WORKLOAD} root handle 2: pfifo")),
            (sent(), format!("tc qdisc del dev {WORKLOAD} ingress")),
            (sent(), format!("tc filter del dev {WORKLOAD} ingress")),
            (sent(), format!("tc qdisc del dev {device} root")),
            (sent(), format!("tc qdisc change dev {device} root handle 1: tbf rate 1gbit burst 1mb latency 1ms")),
            (sent(), format!("ip link set {device} down")),
        ];
        for (shaper, deed) in deeds {
            let (program, arguments) = deed.split_once(' ').unwrap();
            run(program, arguments);
            assert_ne!(all(), expected, "{deed}");
            agent.repairs(&Object::Shaper(shaper.device), &deed).await;
            assert_eq!(all(), expected, "{deed}");
        }
        // The device comes with another index and address: all else is the same.
        run("ip", &format!("link del {device}"));
        agent.repairs(&Object::Shaper(device), "the device's end").await;
        assert_eq!((targets(WORKLOAD), kinds(device)), (vec![device.to_string()], vec!["tbf 1:".to_owned()]));
    });
}

#[test]
fn a_successor_finds_what_is_there_and_removes_what_nobody_wants() {
    in_namespace(async |_| {
        let before = all();
        assert_eq!(Agent::begin(&set(both(125_000))).work().await, 1);
        let limited = all();
        assert_eq!(Agent::begin(&set(both(125_000))).work().await, 0);
        assert_eq!(all(), limited);
        // A device whose interface is gone.
        run("ip", "link add bwcali000000000 up type ifb");
        // Like ours by name only.
        run("ip", "link add bwcali111111111 type veth peer name peer1");
        let mut successor = Agent::begin(&Delta::default());
        successor.settle().await;
        run("ip", "link del bwcali111111111");
        assert_eq!(all(), before);
    });
}

#[test]
fn an_interface_that_is_made_anew_is_limited_again() {
    in_namespace(async |_| {
        let mut agent = Agent::begin(&set(both(125_000)));
        agent.settle().await;
        run("ip", &format!("link del {WORKLOAD}"));
        run("ip", &format!("link add {WORKLOAD} type veth peer name peer0"));
        let limited = async {
            while targets(WORKLOAD).is_empty() || kinds(WORKLOAD)[0] != "tbf 1:" {
                agent.driver.next_change().await.unwrap();
                agent.work().await;
            }
        };
        tokio::time::timeout(PATIENCE, limited).await.unwrap();
        assert_eq!(targets(WORKLOAD), [sent().device.as_str()]);
        // The endpoint goes after its interface.
        run("ip", &format!("link del {WORKLOAD}"));
        agent.driver.machine().desire(&lift([received(), sent()]));
        let rid = async {
            while !devices().is_empty() {
                agent.work().await;
                if !devices().is_empty() {
                    agent.driver.next_change().await.unwrap();
                }
            }
        };
        tokio::time::timeout(PATIENCE, rid).await.unwrap();
    });
}

/// What the CNI `bandwidth` plugin, or upstream's agent, leaves: the latter's device is called as ours is. They leave the link layer open, which
/// `tc` cannot.
fn leave(device: &str) {
    run("tc", &format!("qdisc add dev {WORKLOAD} root handle 1: tbf rate 1mbit burst 20kb latency 25ms linklayer atm"));
    run("ip", &format!("link add {device} mtu 1500 up type ifb"));
    run("tc", &format!("qdisc add dev {WORKLOAD} ingress"));
    let redirect = format!("u32 match u32 0 0 flowid 1:1 action mirred egress redirect dev {device}");
    run("tc", &format!("filter add dev {WORKLOAD} parent ffff: protocol all prio 1 {redirect}"));
    run("tc", &format!("qdisc add dev {device} root handle 1: tbf rate 1mbit burst 20kb latency 25ms"));
}

#[test]
fn what_others_limited_is_taken_over() {
    for device in ["bwp123456789abc", sent().device.as_str(), "bwcali000000000"] {
        in_namespace(async |_| {
            leave(device);
            let mut agent = Agent::begin(&set(both(125_000)));
            agent.settle().await;
            assert_eq!(
                (targets(WORKLOAD), devices()),
                (vec![sent().device.to_string()], vec![sent().device.to_string()])
            );
            let rate = |device: InterfaceName| qdiscs(device)[0]["options"]["burst"].as_u64().unwrap();
            assert_eq!([workload(), sent().device].map(rate), [10_000; 2]);
            assert_eq!(Agent::begin(&set(both(125_000))).work().await, 0, "{device}");
        });
    }
}

#[test]
fn what_is_others_stays() {
    in_namespace(async |mut dataplane| {
        // The plugin's limits, where we want none.
        leave("bwp123456789abc");
        // An interface that is no workload's, limited by somebody.
        run("tc", "qdisc add dev peer0 root handle 1: tbf rate 1mbit burst 20kb latency 25ms");
        let before = all();
        let mut agent = Agent::begin(&Delta::default());
        assert_eq!(agent.work().await, 0);
        let peer: InterfaceName = "peer0".parse().unwrap();
        for shaper in [Shaper::of_received(peer), Shaper::of_sent(peer)] {
            let report = dataplane.apply(&set([shaping(shaper, 125_000)])).await;
            assert_eq!(report.shapings.iter().map(|(failed, _)| *failed).collect::<Vec<_>>(), [shaper]);
            apply(&mut dataplane, &lift([shaper])).await;
        }
        apply(&mut dataplane, &lift([received(), sent()])).await;
        assert_eq!(all(), before);
        // Filters of somebody's beside ours.
        run("tc", &format!("qdisc del dev {WORKLOAD} ingress"));
        run("tc", &format!("qdisc add dev {WORKLOAD} clsact"));
        run("tc", &format!("filter add dev {WORKLOAD} ingress prio 7 protocol ip u32 match u32 1 1 flowid 1:2"));
        let before = run("tc", &format!("filter show dev {WORKLOAD} ingress"));
        apply(&mut dataplane, &set([shaping(sent(), 125_000)])).await;
        assert_eq!(dataplane.observe().await.unwrap().shapings.len(), 1);
        assert_eq!(targets(WORKLOAD), [sent().device.as_str()]);
        apply(&mut dataplane, &lift([sent()])).await;
        let after = run("tc", &format!("filter show dev {WORKLOAD} ingress"));
        assert!(before.lines().all(|line| after.contains(line)) && targets(WORKLOAD).is_empty(), "{before}{after}");
    });
}

#[test]
fn a_device_that_cannot_be_made_is_named_and_the_rest_is_done() {
    in_namespace(async |_| {
        run("ip", &format!("link add {} type veth peer name peer1", sent().device));
        let mut agent = Agent::begin(&set(both(125_000)));
        agent.work().await;
        let failures: Vec<_> = agent.driver.state().failures().map(|(o, e)| format!("{o}: {e}")).collect();
        let expected = format!("limit on bandwidth at {}: limit on what {WORKLOAD} sends cannot", sent().device);
        assert!(matches!(&failures[..], [one] if one.starts_with(&expected)), "{failures:?}");
        assert_eq!(kinds(WORKLOAD), ["tbf 1:"], "nothing is led to nowhere");
        run("ip", &format!("link del {}", sent().device));
        agent.settle().await;
        assert_eq!(targets(WORKLOAD), [sent().device.as_str()]);
    });
}

/// Limits that come, change and go.
async fn live(agent: &mut Agent) {
    for delta in [set(both(250_000)), lift([received()]), lift([sent()]), set([shaping(sent(), 1_000)])] {
        agent.work().await;
        agent.driver.machine().desire(&delta);
    }
    agent.work().await;
}

#[test]
fn whichever_request_fails_the_limits_become_as_they_should_be() {
    let story = |fault: Option<Fault>| {
        in_namespace(async |dataplane| {
            drop(dataplane);
            let mut agent = Agent::begin(&set(both(125_000)));
            plan(fault);
            live(&mut agent).await;
            let made = requests();
            plan(None);
            agent.settle().await;
            assert_eq!(targets(WORKLOAD), [sent().device.as_str()], "{fault:?}");
            assert_eq!(kinds(WORKLOAD), ["noqueue 0:", "ingress ffff:"], "{fault:?}");
            assert_eq!(kinds(sent().device), ["tbf 1:"], "{fault:?}");
            let held = open().observe().await.unwrap().shapings;
            assert_eq!(held.values().map(|one| one.bucket.unwrap().rate).collect::<Vec<_>>(), [1_000], "{fault:?}");
            // Killed there, it has a successor that makes it right as well.
            let mut successor = Agent::begin(&Delta::default());
            successor.settle().await;
            assert!(devices().is_empty() && kinds(WORKLOAD) == ["noqueue 0:"], "{fault:?}");
            made
        })
    };
    let made = story(None);
    assert!(made > 40, "{made}");
    for at in 0..made {
        for fault in [Fault::Refused(at), Fault::Unanswered(at), Fault::Dead(at)] {
            story(Some(fault));
        }
    }
}
