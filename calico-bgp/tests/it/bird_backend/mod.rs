//! The BIRD backend beside real daemons.

mod daemon;
mod same;

use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use calico_bgp::bird::{BirdBackend, BirdConfig, BirdLog, BirdSettings, KernelMetric, KernelSettings};
use calico_bgp::testing::{Side, backends_converse};
use calico_bgp::{BgpBackend, BgpError, BgpEvent, SessionState};
use calico_core::bgp::{DesiredBgp, KernelPolicy, Listen, LocalSpeaker, PoolRouting};

use crate::support::{PORT, desired, in_namespace, output};
use daemon::{Bird, Daemon, config, neighbour};

const US: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const THEM: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const AS: u32 = 64512;

fn ours(peers: &[(Ipv4Addr, u32)], blocks: &[&str]) -> DesiredBgp {
    let mut desired = desired(US, AS, peers, blocks);
    if let Some(LocalSpeaker { listen, .. }) = &mut desired.local {
        *listen = Listen { port: PORT, own_addresses: true };
    }
    desired
}

/// Dropping a backend ends its daemon here, as a node that goes down would: nothing else of the contract is BIRD's own.
#[test]
fn the_bird_backend_keeps_the_contract() {
    in_namespace(&[US, THEM], || async {
        let side = |address| Side { backend: Bird::start(Path::new("bird")), address, port: PORT };
        backends_converse(side(US), side(THEM), || tokio::time::sleep(Duration::from_millis(5))).await;
    });
}

#[test]
fn what_bird_refuses_leaves_the_former_configuration_and_what_it_has_is_not_written_again() {
    in_namespace(&[US, THEM], || async {
        let mut bird = Bird::start(Path::new("bird"));
        bird.apply(&ours(&[], &["10.1.0.0/26"])).await.unwrap();
        let path = bird.daemon.paths.config.clone();
        let (former, metadata) = (std::fs::read(&path).unwrap(), std::fs::metadata(&path).unwrap());
        assert_eq!(metadata.mode() & 0o777, 0o600);
        bird.daemon.until("BIRD has the block", async |daemon| has(daemon, "10.1.0.0/26").await).await;

        bird.apply(&ours(&[], &["10.1.0.0/26"])).await.unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().ino(), metadata.ino(), "the same is not written again");

        let log = Some(BirdLog::File("/no/such/directory/log".into()));
        let settings = BirdSettings { log, ..config(&bird.daemon).settings };
        let mut odd = BirdBackend::start(BirdConfig { settings, ..config(&bird.daemon) });
        let error = odd.apply(&ours(&[], &["10.2.0.0/26"])).await.unwrap_err();
        assert!(matches!(&error, BgpError::Refused(reason) if reason.contains("/no/such/directory/log")), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), former);
        let names = std::fs::read_dir(bird.daemon.directory()).unwrap().map(|entry| entry.unwrap().file_name());
        assert!(names.into_iter().all(|name| !name.to_string_lossy().ends_with(".new")));

        // Nobody answers there, so that the program checks: this one refuses everything.
        let mut paths = bird.daemon.paths.clone();
        paths.socket = bird.daemon.directory().join("nobody.ctl");
        paths.program = "false".into();
        let mut alone = BirdBackend::start(BirdConfig { daemon: paths, ..config(&bird.daemon) });
        assert!(matches!(alone.apply(&ours(&[], &[])).await, Err(BgpError::Refused(_))));
        assert_eq!(std::fs::read(&path).unwrap(), former);
        assert!(has(&bird.daemon, "10.1.0.0/26").await, "the daemon goes on as it was");
    });
}

async fn has(daemon: &Daemon, prefix: &str) -> bool {
    daemon.ask("show route").await.is_some_and(|routes| routes.contains(prefix))
}

#[test]
fn a_daemon_that_comes_later_finds_its_configuration_and_one_that_restarts_begins_anew() {
    in_namespace(&[US, THEM], || async {
        let them = Daemon::start(
            Path::new("bird"),
            &neighbour(THEM, AS, US, AS, PORT, "    route 10.2.0.0/26 blackhole;\n", "graceful restart on;"),
        );
        let mut bird = Bird::start(Path::new("bird"));
        bird.apply(&ours(&[(THEM, AS)], &["10.1.0.0/26"])).await.unwrap();
        let up = |status: &calico_bgp::BgpStatus| status.peers[0].state == SessionState::Established;
        bird.until("settled, and the session is up", |event, status| *event == BgpEvent::Settled && up(status)).await;
        let counted = async |_: &Daemon| bird.backend.status().peers[0].received == 1;
        bird.daemon.until("their route is counted", counted).await;
        them.until("they have our block", async |them| them.learned().await.len() == 1).await;

        bird.daemon.restart();
        let mut events = Vec::new();
        bird.until("a new life", |event, _| {
            events.push(event.clone());
            *event == BgpEvent::Settled
        })
        .await;
        let begins =
            events.iter().position(|event| *event == BgpEvent::Restarted).expect("it says that it begins anew");
        let again = events
            .iter()
            .skip(begins)
            .any(|event| matches!(event, BgpEvent::RouteSet(route) if route.peer.address == THEM));
        assert!(again, "{events:?}");
    });
}

/// Of pools within each other the longest decides, in the kernel, too; services' routes and what this node originates stay out of it.
#[test]
fn the_kernel_gets_what_the_policy_says() {
    in_namespace(&[US, THEM], || async {
        ip(&["link", "add", "eth0", "type", "veth", "peer", "name", "eth1"]);
        ip(&["link", "set", "eth1", "up"]);
        ip(&["address", "add", "192.0.2.1/24", "dev", "eth0"]);
        ip(&["link", "set", "eth0", "up"]);
        let learned = ["10.3.0.0/26", "10.3.3.0/26", "10.96.0.0/12", "203.0.113.0/24"];
        let statics: String = learned.iter().map(|prefix| format!("    route {prefix} blackhole;\n")).collect();
        let them = neighbour(THEM, AS, US, AS, PORT, &statics, "").replace(
            "export where source = RTS_STATIC;",
            "export filter { if source != RTS_STATIC then reject; bgp_next_hop = 192.0.2.9; accept; };",
        );
        let _them = Daemon::start(Path::new("bird"), &them);
        let daemon = Daemon::idle(Path::new("bird"));
        let kernel = KernelSettings { metric: KernelMetric::Fixed(4096), ..KernelSettings::default() };
        let settings = BirdSettings { kernel: Some(kernel), ..BirdSettings::default() };
        let mut backend = BirdBackend::start(BirdConfig { settings, ..config(&daemon) });
        let policy = KernelPolicy {
            rejected: vec!["10.96.0.0/12".parse().unwrap()],
            pools: [
                ("10.3.0.0/16".parse().unwrap(), PoolRouting::Plain),
                ("10.3.3.0/24".parse().unwrap(), PoolRouting::Elsewhere),
            ]
            .into(),
            ..KernelPolicy::default()
        };
        let wanted = DesiredBgp { kernel: Arc::new(policy), ..ours(&[(THEM, AS)], &["10.1.0.0/26"]) };
        backend.apply(&wanted).await.unwrap();
        let kernel = async |_: &Daemon| programmed().len() == 2 && programmed()[0].contains("10.3.0.0/26");
        daemon.until("the kernel has both", kernel).await;
        for route in programmed() {
            assert!(route.contains("via 192.0.2.9") && route.contains("metric 4096"), "{route}");
        }
    });
}

fn ip(arguments: &[&str]) {
    let outcome = output(Command::new("ip").args(arguments), "iproute2");
    assert!(outcome.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&outcome.stderr));
}

/// BIRD's routes of the kernel.
fn programmed() -> Vec<String> {
    let outcome = output(Command::new("ip").args(["route", "show", "proto", "bird"]), "iproute2");
    String::from_utf8_lossy(&outcome.stdout).lines().map(str::to_owned).collect()
}
