//! An address that goes from one workload to another takes no connection along, and nobody else's connection suffers.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use calico_dataplane::netns::named;
use serde_json::{Value, json};

use crate::fixture::Lab;

const SERVICE: u16 = 5353;
const ESTABLISHED: u16 = 7777;
const BYSTANDER: u16 = 7779;
const NEW: u16 = 7778;

/// How long an answer may take that should come.
const LONG: Duration = Duration::from_secs(10);
/// How long one is waited for that should not, once another's that was asked for later has come.
const SHORT: Duration = Duration::from_secs(1);

/// Of those that have a label, `a` and `d` may talk to the services.
const POLICY: &str = "\
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: only-a}
spec:
  selector: app == 'b'
  types: [Ingress]
  ingress:
    - {action: Allow, protocol: UDP, source: {selector: has(app) && app != 'b' && app != 'c'}, destination: {ports: [5353]}}
    - {action: Deny}
";

#[test]
fn an_address_that_is_given_on_takes_no_connection_along() {
    let lab = Lab::new();
    let network: Value = serde_json::from_str(&lab.succeed("up --hosts 2 --pods 3 --json")).unwrap();
    let pods = Pods { lab: &lab, network: &network };
    // On the first host a, b and c; on the second d, which has nothing to do with it, and e, which hears of it from afar.
    let (a, b, c, d, e) = (0, 1, 2, 3, 4);
    for (index, app) in [(a, "a"), (b, "b"), (c, "c"), (d, "d"), (e, "b")] {
        pods.change(index, |endpoint| endpoint["metadata"]["labels"] = json!({ "app": app }));
    }
    let policy = lab.state().join("only-a.yaml");
    std::fs::write(&policy, POLICY).unwrap();
    lab.succeed(&format!("exec net -- calicoctl apply -f {}", policy.display()));

    let _services = [b, e].map(|index| serve(pods.bind(index, pods.address(index), SERVICE)));
    let address = pods.address(a);
    let from_a = pods.bind(a, address, ESTABLISHED);
    let (from_d, witness) = (pods.bind(d, pods.address(d), BYSTANDER), pods.bind(d, pods.address(d), 0));
    for service in [b, e] {
        until("a is allowed", || answers(&from_a, pods.address(service), SHORT));
        until("d is allowed", || answers(&witness, pods.address(service), SHORT));
    }
    until("d is allowed", || answers(&from_d, pods.address(b), SHORT));
    // From another port each time: a connection that began before the policy came goes on.
    for service in [b, e] {
        until("c is denied", || denies(&pods.bind(c, pods.address(c), 0), pods.address(service), &witness));
    }

    let over = AtomicBool::new(false);
    let lost = thread::scope(|scope| {
        // A panic must not leave the other thread at work for ever.
        let ending = SetOnDrop(&over);
        let bystander = scope.spawn(|| {
            let mut lost = 0;
            while !over.load(Ordering::Relaxed) {
                lost += usize::from(!answers(&from_d, pods.address(b), LONG));
            }
            lost
        });
        pods.delete(a);
        pods.change(c, |endpoint| endpoint["spec"]["ipNetworks"] = json!([format!("{address}/32")]));
        let moved = lab.run(&format!("exec {} -- ip address replace {address}/32 dev eth0", pods.name(c)));
        assert!(moved.status.success());
        let (inherited, fresh) = (pods.bind(c, address, ESTABLISHED), pods.bind(c, address, NEW));
        // The host lets c use its new address: it is let through to whom it may talk to.
        let open = pods.bind(d, pods.address(d), SERVICE);
        let _open = serve(open);
        until("c has the address", || answers(&fresh, pods.address(d), SHORT));
        let denied =
            [b, e].map(|service| [&inherited, &fresh].map(|socket| denies(socket, pods.address(service), &witness)));
        drop(ending);
        assert_eq!(denied, [[true; 2]; 2], "by service and port: c rides on a's connection");
        bystander.join().unwrap()
    });
    assert_eq!(lost, 0, "the connection of another pod lost packets");
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Pods<'a> {
    lab: &'a Lab,
    network: &'a Value,
}

impl Pods<'_> {
    fn name(&self, index: usize) -> &str {
        self.network["pods"][index]["name"].as_str().unwrap()
    }

    fn address(&self, index: usize) -> IpAddr {
        self.network["pods"][index]["address"].as_str().unwrap().parse().unwrap()
    }

    fn bind(&self, index: usize, address: IpAddr, port: u16) -> UdpSocket {
        let netns = named::open(self.network["pods"][index]["netns"].as_str().unwrap()).unwrap();
        netns.run(|| UdpSocket::bind(SocketAddr::new(address, port))).unwrap().unwrap()
    }

    /// The stored endpoint of a pod.
    fn endpoint(&self, index: usize) -> Value {
        let listed = self.lab.succeed("exec net -- calicoctl get wep -A -o json");
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let address = format!("{}/32", self.address(index));
        let of_pod = |item: &&Value| item["spec"]["ipNetworks"][0] == address.as_str();
        listed["items"].as_array().unwrap().iter().find(of_pod).unwrap().clone()
    }

    fn change(&self, index: usize, change: impl FnOnce(&mut Value)) {
        let mut endpoint = self.endpoint(index);
        change(&mut endpoint);
        self.carry_out("apply", &endpoint);
    }

    fn delete(&self, index: usize) {
        self.carry_out("delete", &self.endpoint(index));
    }

    fn carry_out(&self, verb: &str, endpoint: &Value) {
        let file = self.lab.state().join("endpoint.json");
        std::fs::write(&file, endpoint.to_string()).unwrap();
        self.lab.succeed(&format!("exec net -- calicoctl {verb} -f {}", file.display()));
    }
}

/// Answers everything until the test process ends.
fn serve(socket: UdpSocket) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 8];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    })
}

/// Sends a datagram that no other is like; its number, unless it could not be sent.
fn ask(socket: &UdpSocket, service: IpAddr) -> Option<u64> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    socket.send_to(&number.to_be_bytes(), (service, SERVICE)).ok().map(|_| number)
}

/// Whether the service's answer to just this datagram comes in time. Others, to earlier ones, count for nothing.
fn hears(socket: &UdpSocket, service: IpAddr, number: u64, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    let mut buffer = [0; 8];
    loop {
        // A socket takes no deadline of zero.
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        socket.set_read_timeout(Some(left)).unwrap();
        match socket.recv_from(&mut buffer) {
            Ok((_, from)) if from == (service, SERVICE).into() && buffer == number.to_be_bytes() => return true,
            _ if Instant::now() >= deadline => return false,
            _ => {}
        }
    }
}

fn answers(socket: &UdpSocket, service: IpAddr, patience: Duration) -> bool {
    ask(socket, service).is_some_and(|number| hears(socket, service, number, patience))
}

/// Whether a packet to the service is not answered, though it answers one that the witness sends later.
fn denies(socket: &UdpSocket, service: IpAddr, witness: &UdpSocket) -> bool {
    let asked = ask(socket, service);
    assert!(answers(witness, service, LONG), "the service is silent");
    !asked.is_some_and(|number| hears(socket, service, number, SHORT))
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < deadline, "in vain: {what}");
        thread::sleep(Duration::from_millis(200));
    }
}
