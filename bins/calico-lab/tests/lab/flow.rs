//! `kill -9` of an agent at any moment: what was allowed goes on without losing a packet, what was denied stays denied, and nothing is
//! written.

use std::fs::File;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use calico_dataplane::netns::named;
use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::RcvBufForce;
use serde_json::Value;

use crate::fixture::Lab;

const ALLOWED: u16 = 7000;
const DENIED: u16 = 7001;
const KILLS: usize = 10;

/// Ports decide, so that one pair of pods carries both flows.
const POLICY: &str = "\
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: only-7000}
spec:
  types: [Ingress]
  ingress:
    - action: Allow
      protocol: UDP
      destination: {ports: [7000]}
";

#[test]
fn ten_kills_of_either_agent_lose_no_packet_of_a_1_khz_flow_and_write_nothing() {
    let lab = Lab::new();
    let network: Value = serde_json::from_str(&lab.succeed("up --hosts 2 --pods 1 --json")).unwrap();
    let policy = lab.state().join("flow.yaml");
    std::fs::write(&policy, POLICY).unwrap();
    lab.succeed(&format!("exec net -- calicoctl apply -f {}", policy.display()));
    lab.succeed("check");

    let address = |index: usize| network["pods"][index]["address"].as_str().unwrap().parse::<IpAddr>().unwrap();
    let netns = |index: usize| named::open(network["pods"][index]["netns"].as_str().unwrap()).unwrap();
    let (sender, receiver) = (netns(0), netns(1));
    let bind =
        |netns: &calico_dataplane::netns::Netns, to: SocketAddr| netns.run(|| UdpSocket::bind(to)).unwrap().unwrap();
    let from = bind(&sender, (address(0), 0).into());
    let allowed = bind(&receiver, (address(1), ALLOWED).into());
    let denied = bind(&receiver, (address(1), DENIED).into());
    for socket in [&allowed, &denied] {
        // What comes while the receiver's thread has to wait for a processor is kept.
        setsockopt(socket, RcvBufForce, &(8 << 20)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    }

    let watches = ["h1", "h2"].map(|host| Watch::start(&lab, host));
    let (killed, sent_all) = (AtomicBool::new(false), AtomicBool::new(false));
    let target = address(1);
    let (sent, received, leaked) = thread::scope(|scope| {
        let receiving = scope.spawn(|| count(&allowed, &sent_all));
        let leaking = scope.spawn(|| count(&denied, &sent_all));
        let sending = scope.spawn(|| {
            let sent = send(&from, target, &killed);
            sent_all.store(true, Ordering::Relaxed);
            sent
        });
        // Should a restart fail, its panic must not leave the other threads at work for ever.
        let killing = scope.spawn(|| (0..KILLS).for_each(|round| drop(lab.succeed(&restart(round)))));
        let outcome = killing.join();
        killed.store(true, Ordering::Relaxed);
        let counts = (sending.join().unwrap(), receiving.join().unwrap(), leaking.join().unwrap());
        outcome.unwrap();
        counts
    });
    let counters = || receiver.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp").unwrap()).unwrap();
    let udp = || counters().lines().filter(|line| line.starts_with("Udp:")).collect::<Vec<_>>().join("\n");
    assert_eq!(received, sent, "packets of the allowed flow were lost; RcvbufErrors are those of the test:\n{}", udp());
    assert_eq!(leaked, 0, "packets of the denied flow went through");
    for watch in &watches {
        assert_eq!(watch.written(), Vec::<String>::new(), "the restarted agent wrote to {}", watch.host);
    }
    // They do hear of what is written.
    std::fs::write(&policy, POLICY.replace("7000", "7002")).unwrap();
    lab.succeed(&format!("exec net -- calicoctl apply -f {}", policy.display()));
    let deadline = Instant::now() + Duration::from_secs(30);
    while watches.iter().any(|watch| watch.written().is_empty()) {
        assert!(Instant::now() < deadline, "a new policy is not heard of");
        thread::sleep(Duration::from_millis(20));
    }
}

/// What is written to one host's tables, routes and permanent neighbours.
struct Watch {
    host: &'static str,
    said: Vec<PathBuf>,
    programs: Vec<Child>,
}

impl Watch {
    fn start(lab: &Lab, host: &'static str) -> Self {
        let netns = named::open(&format!("{}-{host}", lab.name)).unwrap();
        let mut watch = Self { host, said: Vec::new(), programs: Vec::new() };
        for (program, arguments) in [("nft", "monitor"), ("ip", "monitor route neigh")] {
            let said = lab.state().join(format!("{host}-{program}"));
            let mut command = Command::new(program);
            command.args(arguments.split(' ')).stdout(File::create(&said).unwrap()).stderr(Stdio::null());
            watch.programs.push(netns.run(|| command.spawn()).unwrap().unwrap());
            watch.said.push(said);
        }
        watch
    }

    /// Lines that tell of a change. An agent probes the kernel at its start by a transaction without content, and the kernel has routes and
    /// neighbours of its own.
    fn written(&self) -> Vec<String> {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap();
        let (tables, routing) = (read(&self.said[0]), read(&self.said[1]));
        let tables = tables.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let ours = ["proto 80 ", "proto 81 ", "proto 82 ", "PERMANENT"];
        let routing = routing.lines().filter(|line| ours.iter().any(|mark| line.contains(mark)));
        tables.chain(routing).map(str::to_owned).collect()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        for program in &mut self.programs {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

/// Either agent in turn.
fn restart(round: usize) -> String {
    format!("restart --kill h{}", round % 2 + 1)
}

/// Sends to both ports every millisecond, until all kills are over, and returns how many to each. A slot that was
/// missed is not made up for.
fn send(from: &UdpSocket, to: IpAddr, done: &AtomicBool) -> usize {
    let mut sent = 0;
    let mut next = Instant::now();
    while !done.load(Ordering::Relaxed) {
        let number = sent.to_string();
        from.send_to(number.as_bytes(), (to, ALLOWED)).unwrap();
        from.send_to(number.as_bytes(), (to, DENIED)).unwrap();
        sent += 1;
        next = (next + Duration::from_millis(1)).max(Instant::now());
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    sent
}

/// Counts until nothing came for half a second after the end.
fn count(socket: &UdpSocket, done: &AtomicBool) -> usize {
    let mut buffer = [0; 64];
    let mut received = 0;
    loop {
        let ending = done.load(Ordering::Relaxed);
        match socket.recv(&mut buffer) {
            Ok(_) => received += 1,
            Err(_) if ending => return received,
            Err(_) => {}
        }
    }
}
