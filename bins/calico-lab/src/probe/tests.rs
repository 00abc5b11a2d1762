//! Probes against two pods that are joined by a plain cable. These need root.

use std::os::fd::AsFd;
use std::time::Duration;

use calico_dataplane::netns::{Netns, Request, RouteSocket, VethEnd};
use tokio::time::Instant;

use super::*;
use crate::plan::HostId;

const CLIENT: PodId = PodId { host: HostId(1), number: 1 };
const SERVER: PodId = PodId { host: HostId(1), number: 2 };

fn cable() -> (Netns, Netns) {
    let pods = [Netns::anonymous().unwrap(), Netns::anonymous().unwrap()];
    let mut socket = RouteSocket::open_in(&pods[0]).unwrap();
    let name = "eth0".parse().unwrap();
    let near = VethEnd { name, netns: None, mac: None };
    let far = VethEnd { name, netns: Some(pods[1].as_fd()), mac: None };
    socket.carry_out(&[Request::veth(near, far, 0)]).unwrap();
    for (pod, last) in pods.iter().zip([1, 2]) {
        let mut socket = RouteSocket::open_in(pod).unwrap();
        let eth0 = socket.link(name).unwrap().unwrap();
        socket
            .carry_out(&[Request::up(eth0.index), Request::address(eth0.index, [10, 0, 0, last].into(), 24)])
            .unwrap();
        let allow = || std::fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
        pod.run(allow).unwrap().unwrap();
    }
    let [client, server] = pods;
    (client, server)
}

async fn ask(client: &Netns, kind: Kind, last: u8, patience: Duration) -> Observed {
    let address: IpAddr = [10, 0, 0, last].into();
    let sockets = Sockets::open(client, &[(kind, kind.target(address))]).unwrap();
    let socket = sockets.into_iter().next().unwrap();
    send(Probe { from: CLIENT, to: SERVER, kind }, socket, address, 7, Instant::now() + patience).await
}

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_served_pod_answers_every_kind() {
    let (client, server) = cable();
    let _servers = Servers::start(SERVER, &server, [10, 0, 0, 2].into()).unwrap();
    for kind in Kind::all() {
        assert_eq!(ask(&client, kind, 2, LONG).await, Observed::Verdict(Decision::Allow), "{kind}");
    }
}

#[tokio::test]
async fn silence_is_a_denial() {
    let (client, server) = cable();
    let _servers = Servers::start(SERVER, &server, [10, 0, 0, 2].into()).unwrap();
    let drop_all = "add table inet t\nadd chain inet t i { type filter hook input priority 0; policy drop; }\n";
    server.run(|| nft(drop_all)).unwrap();
    for kind in Kind::all() {
        assert_eq!(ask(&client, kind, 2, SHORT).await, Observed::Verdict(Decision::Deny), "{kind}");
    }
}

#[tokio::test]
async fn a_dead_server_is_an_error_and_no_verdict() {
    let (client, _server) = cable();
    for kind in [Kind::Tcp(80), Kind::Udp(53)] {
        assert!(matches!(ask(&client, kind, 2, LONG).await, Observed::Error(_)), "{kind}");
    }
}

#[tokio::test]
async fn the_wrong_pods_answer_is_an_error() {
    let (client, server) = cable();
    let _servers = Servers::start(CLIENT, &server, [10, 0, 0, 2].into()).unwrap();
    for kind in [Kind::Tcp(80), Kind::Udp(53)] {
        assert!(matches!(ask(&client, kind, 2, LONG).await, Observed::Error(_)), "{kind}");
    }
}

fn nft(script: &str) {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn();
    let child = child.as_mut().unwrap_or_else(|error| panic!("nft (Debian: nftables) is needed: {error}"));
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
}
