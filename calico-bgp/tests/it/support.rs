//! A network namespace of its own for each test, and conditions with deadlines.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Output};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use calico_bgp::{BgpBackend, BgpError, BgpEvent, LearnedRoute, NativeBackend, NativeConfig, SpeakerConfig};
use calico_core::bgp::{DesiredBgp, DesiredPeer, LocalSpeaker, Originated, PeerKind};
use calico_core::net::{AsNumber, Cidr};
use nix::sched::{CloneFlags, unshare};

pub(crate) const PORT: u16 = 1790;
const DEADLINE: Duration = Duration::from_secs(30);

/// Runs `body` in a fresh network namespace that has `addresses` on its loopback interface. The namespace goes with the thread
/// (and with the children that the test has started and ends).
pub(crate) fn in_namespace<F>(addresses: &[Ipv4Addr], body: impl FnOnce() -> F + Send + 'static)
where
    F: Future<Output = ()>,
{
    let addresses = addresses.to_vec();
    let thread = std::thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).expect("this test needs root: it makes a network namespace");
        ip(&["link", "set", "lo", "up"]);
        for address in addresses {
            ip(&["address", "add", &format!("{address}/32"), "dev", "lo"]);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(body());
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Held for reading by whoever starts a process, which has every socket of this one until it executes its program, and for writing by who
/// must be the last to have a socket that it closes.
pub(crate) static STARTING: RwLock<()> = RwLock::new(());

/// Adds an address to the loopback interface of this thread's namespace.
pub(crate) fn add_address(address: IpAddr) {
    let length = if address.is_ipv4() { 32 } else { 128 };
    ip(&["address", "add", &format!("{address}/{length}"), "dev", "lo"]);
}

pub(crate) fn ip(arguments: &[&str]) {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let status = Command::new("ip").args(arguments).status().expect("this test needs `ip` (Debian package iproute2)");
    assert!(status.success(), "ip {arguments:?}");
}

/// Runs a program to its end.
pub(crate) fn output(command: &mut Command, package: &str) -> Output {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let program = command.get_program().to_string_lossy().into_owned();
    command.output().unwrap_or_else(|error| panic!("{program}: {error}; this test needs the Debian package {package}"))
}

/// A desired state for `own` with the peers and blocks given.
pub(crate) fn desired(own: Ipv4Addr, as_number: u32, peers: &[(Ipv4Addr, u32)], blocks: &[&str]) -> DesiredBgp {
    let peer = |(address, as_number): &(Ipv4Addr, u32)| DesiredPeer {
        port: PORT,
        ..DesiredPeer::new(IpAddr::V4(*address), AsNumber::new(*as_number), PeerKind::Mesh, address.to_string())
    };
    DesiredBgp {
        local: Some(LocalSpeaker::new(own.to_string(), AsNumber::new(as_number), own)),
        peers: peers.iter().map(peer).collect(),
        originated: blocks.iter().map(|block| Originated::block(block.parse().unwrap())).collect(),
        ..DesiredBgp::default()
    }
}

/// A native backend and what it has told so far.
pub(crate) struct Native {
    pub(crate) backend: NativeBackend,
    pub(crate) routes: BTreeMap<Cidr, LearnedRoute>,
    pub(crate) settled: bool,
}

impl Native {
    pub(crate) async fn start(own: Ipv4Addr, desired: &DesiredBgp) -> Self {
        let speaker = SpeakerConfig { seed: u64::from(u32::from(own)), ..SpeakerConfig::default() };
        let listen = Some(SocketAddr::from((own, PORT)));
        let config = NativeConfig { listen, speaker };
        let deadline = Instant::now() + DEADLINE;
        let mut backend = loop {
            match NativeBackend::start(config.clone()) {
                // The port of one that was stopped is taken while a process is started; see `STARTING`.
                Err(BgpError::Listen { .. }) if Instant::now() < deadline => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                started => break started.unwrap(),
            }
        };
        backend.apply(desired).await.unwrap();
        Self { backend, routes: BTreeMap::new(), settled: false }
    }

    /// One that listens as the desired state says.
    pub(crate) async fn follow(desired: &DesiredBgp) -> Self {
        let mut backend = NativeBackend::start(NativeConfig::default()).unwrap();
        backend.apply(desired).await.unwrap();
        Self { backend, routes: BTreeMap::new(), settled: false }
    }

    pub(crate) async fn apply(&mut self, desired: &DesiredBgp) {
        self.backend.apply(desired).await.unwrap();
    }

    /// Takes events until the condition holds.
    pub(crate) async fn until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        let wait = async {
            while !condition(self) {
                match self.backend.next_event().await.unwrap() {
                    BgpEvent::RouteSet(route) => drop(self.routes.insert(route.prefix, route)),
                    BgpEvent::RouteRemoved(prefix) => drop(self.routes.remove(&prefix)),
                    BgpEvent::Settled => self.settled = true,
                    _ => {}
                }
            }
        };
        if tokio::time::timeout(DEADLINE, wait).await.is_err() {
            panic!("not within {DEADLINE:?}: {what}; routes {:?}; status {:#?}", self.routes, self.backend.status());
        }
    }

    pub(crate) fn next_hop(&self, prefix: &str) -> Option<IpAddr> {
        self.routes.get(&prefix.parse().unwrap()).map(|route| route.next_hop)
    }

    pub(crate) fn is_established(&self) -> bool {
        let established = calico_bgp::SessionState::Established;
        self.backend.status().peers.iter().all(|peer| peer.state == established)
    }
}
