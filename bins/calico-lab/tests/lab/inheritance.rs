//! An address that goes from one workload to another takes no connection along, and nobody else's connection suffers.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use calico_dataplane::netns::named;
use serde_json::{Value, json};

use crate::fixture::Lab;

const SERVICE: u16 = 5353;
const ESTABLISHED: u16 = 7777;
const BYSTANDER: u16 = 7779;
const NEW: u16 = 7778;

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
    for service in [b, e] {
        until("a is allowed", || answers(&from_a, pods.address(service)));
    }
    let from_d = pods.bind(d, pods.address(d), BYSTANDER);
    until("d is allowed", || answers(&from_d, pods.address(b)));
    // From another port each time: a connection that began before the policy came goes on.
    for service in [b, e] {
        until("c is denied", || !answers(&pods.bind(c, pods.address(c), 0), pods.address(service)));
    }

    let over = AtomicBool::new(false);
    let lost = thread::scope(|scope| {
        let bystander = scope.spawn(|| {
            let mut lost = 0;
            while !over.load(Ordering::Relaxed) {
                lost += usize::from(!answers(&from_d, pods.address(b)));
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
        until("c has the address", || answers(&fresh, pods.address(d)));
        let passed = [b, e].map(|service| [&inherited, &fresh].map(|socket| answers(socket, pods.address(service))));
        over.store(true, Ordering::Relaxed);
        assert_eq!(passed, [[false; 2]; 2], "by service and port: c rides on a's connection");
        bystander.join().unwrap()
    });
    assert_eq!(lost, 0, "the connection of another pod lost packets");
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
        let socket = netns.run(|| UdpSocket::bind(SocketAddr::new(address, port))).unwrap().unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        socket
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
    socket.set_read_timeout(None).unwrap();
    thread::spawn(move || {
        let mut buffer = [0; 8];
        while let Ok((length, from)) = socket.recv_from(&mut buffer) {
            let _ = socket.send_to(&buffer[..length], from);
        }
    })
}

/// Whether a packet to the service is answered.
fn answers(socket: &UdpSocket, service: IpAddr) -> bool {
    let mut buffer = [0; 8];
    // An answer may be an ICMP error, as any loss.
    socket.send_to(b"hello", (service, SERVICE)).is_ok() && socket.recv(&mut buffer).is_ok()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let reached = (0..60).any(|_| {
        condition() || {
            thread::sleep(Duration::from_millis(200));
            false
        }
    });
    assert!(reached, "in vain: {what}");
}
