//! BFD over real sockets: among ourselves, and against BIRD 2 and FRR's bfdd in a namespace behind a veth.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use calico_bgp::bfd::{
    BfdConfig, BfdEndpoint, BfdEndpointConfig, BfdError, BfdEvent, BfdPeer, BfdSessionStatus, Diagnostic, Discard,
    Loss, SINGLE_HOP_PORT, State,
};
use calico_core::bgp::{Bfd, PeerId};
use tempfile::TempDir;

use crate::support::{STARTING, in_namespace};

const DEADLINE: Duration = Duration::from_secs(30);
/// Theirs, against our 100 ms: dead after 800 ms, which a busy machine can keep.
const MULTIPLIER: u8 = 8;

const fn parameters(milliseconds: u64, multihop: bool) -> Bfd {
    let interval = Duration::from_millis(milliseconds);
    Bfd { transmit: interval, receive: interval, multiplier: MULTIPLIER, multihop }
}

fn peer(local: &str, remote: &str, parameters: Bfd) -> BfdPeer {
    let id = PeerId::from(remote.parse::<IpAddr>().unwrap());
    BfdPeer { id, local: Some(local.parse().unwrap()), parameters, admin_down: false }
}

fn endpoint(ipv4: Ipv4Addr) -> BfdEndpoint {
    let bfd = BfdConfig { seed: u64::from(u32::from(ipv4)), control_plane_independent: false };
    BfdEndpoint::start(&BfdEndpointConfig { bfd, ipv4, ..BfdEndpointConfig::default() })
}

async fn until(what: &str, condition: impl Fn() -> bool, context: impl Fn() -> String) -> Duration {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}\n{}", context());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    start.elapsed()
}

fn run(program: &str, arguments: &[&str]) -> String {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("this test needs `{program}`: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn endpoints_come_up_and_notice_a_death() {
    const A: Ipv4Addr = Ipv4Addr::new(10, 78, 9, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 78, 9, 2);
    in_namespace(&[A, B], || async {
        let (a, b) = (endpoint(A), endpoint(B));
        a.set_peers(&[peer("10.78.9.1", "10.78.9.2", parameters(50, false))]).unwrap();
        b.set_peers(&[peer("10.78.9.2", "10.78.9.1", parameters(50, false))]).unwrap();
        let next = async |endpoint: &BfdEndpoint| tokio::time::timeout(DEADLINE, endpoint.next_event()).await.unwrap();
        assert_eq!(next(&a).await, BfdEvent::Up { peer: PeerId::from(IpAddr::V4(B)) });
        assert_eq!(next(&b).await, BfdEvent::Up { peer: PeerId::from(IpAddr::V4(A)) });
        b.stop().await;
        assert!(matches!(next(&a).await, BfdEvent::Down { loss: Loss::Expired, .. }));
        // The port is free again, and a new instance is a new session.
        let b = endpoint(B);
        b.set_peers(&[peer("10.78.9.2", "10.78.9.1", parameters(50, false))]).unwrap();
        assert!(matches!(next(&a).await, BfdEvent::Up { .. }));
    });
}

#[test]
fn what_comes_from_afar_is_counted_and_a_taken_port_is_named() {
    const A: Ipv4Addr = Ipv4Addr::new(10, 78, 9, 1);
    const B: Ipv4Addr = Ipv4Addr::new(10, 78, 9, 2);
    in_namespace(&[A, B], || async {
        let a = endpoint(A);
        let peers = [peer("10.78.9.1", "10.78.9.2", parameters(50, false))];
        a.set_peers(&peers).unwrap();
        let socket = std::net::UdpSocket::bind(SocketAddr::from((B, 50_000))).unwrap();
        let hello = [0x20, 0x40, 3, 24, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0];
        socket.set_ttl(254).unwrap();
        socket.send_to(&hello, (A, SINGLE_HOP_PORT)).unwrap();
        let far = || a.status().discarded.get(&Discard::HopLimit) == Some(&1);
        until("the packet is counted", far, || format!("{:#?}", a.status())).await;
        assert_eq!(a.status().sessions[0].state, State::Down);
        socket.set_ttl(255).unwrap();
        socket.send_to(&hello, (A, SINGLE_HOP_PORT)).unwrap();
        let near = || a.status().sessions[0].state == State::Init;
        until("the same from next door is taken", near, || format!("{:#?}", a.status())).await;

        let error = endpoint(A).set_peers(&peers).unwrap_err();
        assert!(
            matches!(error, BfdError::Listen { address, .. } if address == SocketAddr::from((A, 3784))),
            "{error:?}"
        );
        a.stop().await;
        let again = endpoint(A);
        // A process that a parallel test starts may have the socket for a moment.
        until("the port is free", || again.set_peers(&peers).is_ok(), String::new).await;
    });
}

#[test]
fn converses_with_bird() {
    in_namespace(&[], || converse(Daemon::Bird));
}

#[test]
fn converses_with_frr() {
    in_namespace(&[], || converse(Daemon::Frr));
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Daemon {
    Bird,
    Frr,
}

/// Our address, theirs, and whether the session is multihop. All are of one link: nothing in BFD looks at the number of hops but the port.
const SESSIONS: [(&str, &str, bool); 4] = [
    ("10.78.0.1", "10.78.0.2", false),
    ("fd78::1", "fd78::2", false),
    ("10.78.1.1", "10.78.1.2", true),
    ("fd78:1::1", "fd78:1::2", true),
];

fn ours(milliseconds: u64) -> Vec<BfdPeer> {
    let all = SESSIONS.iter();
    all.map(|(local, remote, multihop)| peer(local, remote, parameters(milliseconds, *multihop))).collect()
}

async fn converse(daemon: Daemon) {
    let mut neighbour = Neighbour::start(daemon);
    let bfd = endpoint(Ipv4Addr::UNSPECIFIED);
    bfd.set_peers(&ours(100)).unwrap();
    let all = |what: &dyn Fn(&BfdSessionStatus) -> bool| bfd.status().sessions.iter().all(what);
    let is_up = |session: &BfdSessionStatus| session.state == State::Up && session.remote_state == State::Up;
    let agreed = |transmit: u64, session: &BfdSessionStatus| {
        let transmit = Duration::from_millis(transmit);
        is_up(session)
            && session.transmit_interval == Some(transmit)
            && session.detection_time == Some(transmit * u32::from(MULTIPLIER))
    };
    let here = || format!("{:#?}\n{}", bfd.status(), neighbour.log());
    until("all are up", || all(&|session| agreed(100, session)), here).await;
    until("they say so, too", || neighbour.confirms(), here).await;

    // Theirs does not reach us any more.
    run(
        "nft",
        &[
            "add table inet t; add chain inet t c { type filter hook input priority 0; }; add rule inet t c meta l4proto udp drop",
        ],
    );
    let expired =
        |session: &BfdSessionStatus| session.state == State::Down && session.diagnostic == Diagnostic::EXPIRED;
    let took = until("silence is noticed", || all(&expired), here).await;
    println!("{} sessions expired after {took:?}", SESSIONS.len());
    until("they are told", || neighbour.denies(), here).await;
    run("nft", &["delete table inet t"]);
    until("all are up again", || all(&is_up), here).await;

    // Ours does not reach them.
    neighbour.run("nft", &["add table inet t; add chain inet t c { type filter hook input priority 0; }; add rule inet t c meta l4proto udp drop"]);
    let told =
        |session: &BfdSessionStatus| session.state != State::Up && session.remote_diagnostic == Diagnostic::EXPIRED;
    let took = until("we are told", || all(&told), here).await;
    println!("{} sessions were said to have expired after {took:?}", SESSIONS.len());
    neighbour.run("nft", &["delete table inet t"]);
    until("all are up once more", || all(&is_up), here).await;

    // Slower and faster while up.
    for interval in [300, 100] {
        let ups = || bfd.status().sessions.iter().map(|session| session.ups).collect::<Vec<_>>();
        let before = ups();
        bfd.set_peers(&ours(interval)).unwrap();
        until("the new interval is agreed", || all(&|session| agreed(interval, session)), here).await;
        println!("ups before and after {interval} ms: {before:?} {:?}", ups());
    }

    // Held down here.
    let held: Vec<_> = ours(100).into_iter().map(|peer| BfdPeer { admin_down: true, ..peer }).collect();
    bfd.set_peers(&held).unwrap();
    until("they are told", || neighbour.denies(), here).await;
    assert!(all(&|session| session.state == State::AdminDown));
    bfd.set_peers(&ours(100)).unwrap();
    until("all are up after AdminDown", || all(&is_up), here).await;

    if daemon == Daemon::Frr {
        while tokio::time::timeout(Duration::ZERO, bfd.next_event()).await.is_ok() {}
        neighbour.shut_down(true);
        for _ in SESSIONS {
            let event = tokio::time::timeout(DEADLINE, bfd.next_event()).await;
            let admin_down = matches!(event, Ok(BfdEvent::Down { loss: Loss::NeighborAdminDown, .. }));
            assert!(admin_down, "theirs are held down: {event:?}\n{}", here());
        }
        neighbour.shut_down(false);
        until("all are up after their AdminDown", || all(&is_up), here).await;
    }

    neighbour.restart();
    let here = || format!("{:#?}\n{}", bfd.status(), neighbour.log());
    until("a new instance is up", || all(&is_up) && neighbour.confirms(), here).await;
    bfd.set_peers(&[]).unwrap();
    until("they are told that we leave", || neighbour.denies(), here).await;
}

/// A daemon in a namespace of its own.
struct Neighbour {
    daemon: Daemon,
    directory: TempDir,
    namespace: Child,
    process: Child,
}

impl Neighbour {
    fn start(daemon: Daemon) -> Self {
        let directory = TempDir::new().unwrap();
        let namespace = spawn(Command::new("unshare").args(["--net", "sleep", "600"]));
        let id = namespace.id().to_string();
        let own = std::fs::read_link("/proc/thread-self/ns/net").unwrap();
        let start = Instant::now();
        while std::fs::read_link(format!("/proc/{id}/ns/net")).is_ok_and(|theirs| theirs == own) {
            assert!(start.elapsed() < DEADLINE, "`unshare` has made no namespace within {DEADLINE:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        run("ip", &["link", "add", "bfd0", "type", "veth", "peer", "name", "bfd1", "netns", &id]);
        let nsenter = ["-t", &id, "-n", "ip"];
        for (ours, theirs, _) in SESSIONS {
            let length = if ours.contains(':') { 64 } else { 24 };
            let options = if ours.contains(':') { vec!["nodad"] } else { vec![] };
            let (ours, theirs) = (format!("{ours}/{length}"), format!("{theirs}/{length}"));
            run("ip", &[&["address", "add", &ours, "dev", "bfd0"], &options[..]].concat());
            run("nsenter", &[&nsenter[..], &["address", "add", &theirs, "dev", "bfd1"], &options[..]].concat());
        }
        run("nsenter", &[&nsenter[..], &["link", "set", "bfd1", "up"]].concat());
        run("nsenter", &[&nsenter[..], &["link", "set", "lo", "up"]].concat());
        run("ip", &["link", "set", "bfd0", "up"]);
        let process = daemon.spawn(&directory, &id);
        Self { daemon, directory, namespace, process }
    }

    /// `kill -9`, and a new instance.
    fn restart(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = self.daemon.spawn(&self.directory, &self.namespace.id().to_string());
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let id = self.namespace.id().to_string();
        run("nsenter", &[&["-t", &id, "-n", program], arguments].concat());
    }

    /// All sessions are up, as the daemon sees it.
    fn confirms(&self) -> bool {
        self.all(|state| state == "up")
    }

    /// None is. (One that hears us and is not heard goes from Down to Init at once.)
    fn denies(&self) -> bool {
        self.all(|state| ["down", "init"].contains(&state))
    }

    fn all(&self, state: impl Fn(&str) -> bool) -> bool {
        let answer = self.ask(self.daemon.question()).to_lowercase();
        SESSIONS.iter().all(|(ours, ..)| {
            answer.lines().any(|line| {
                let mut words = line.split_whitespace();
                words.by_ref().any(|word| word == *ours) && words.any(&state)
            })
        })
    }

    /// An empty answer while it starts.
    fn ask(&self, question: &[&str]) -> String {
        let directory = self.directory.path().to_str().unwrap();
        let mut command = match self.daemon {
            Daemon::Bird => Command::new("birdc"),
            Daemon::Frr => Command::new("vtysh"),
        };
        match self.daemon {
            Daemon::Bird => command.args(["-s", &format!("{directory}/bird.ctl")]).args(question),
            Daemon::Frr => command.args(["--vty_socket", directory, "-d", "bfdd"]).args(question),
        };
        let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
        let output = command.output().expect("this test needs `birdc` and `vtysh` (Debian packages bird2 and frr)");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn shut_down(&self, down: bool) {
        let word = if down { "shutdown" } else { "no shutdown" };
        let mut commands = vec!["-c".to_owned(), "configure terminal".to_owned(), "-c".to_owned(), "bfd".to_owned()];
        for session in SESSIONS {
            commands.extend([
                "-c".to_owned(),
                frr_peer(session),
                "-c".to_owned(),
                word.to_owned(),
                "-c".to_owned(),
                "exit".to_owned(),
            ]);
        }
        let commands: Vec<_> = commands.iter().map(String::as_str).collect();
        self.ask(&commands);
    }

    fn log(&self) -> String {
        let log = std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
        format!("{}\n{log}", self.ask(self.daemon.question()))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        for process in [&mut self.process, &mut self.namespace] {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Daemon {
    fn spawn(self, directory: &TempDir, namespace: &str) -> Child {
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let (configuration, directory) = (path("configuration"), directory.path().to_str().unwrap());
        std::fs::write(&configuration, self.configuration()).unwrap();
        let mut command = Command::new("nsenter");
        command.args(["-t", namespace, "-n"]);
        match self {
            Self::Bird => command.args(["bird", "-f", "-c", &configuration, "-s", &path("bird.ctl")]),
            Self::Frr => {
                run("chown", &["-R", "frr:frr", directory]);
                command.args([
                    "/usr/lib/frr/bfdd",
                    "-f",
                    &configuration,
                    "--vty_socket",
                    directory,
                    "-i",
                    &path("pid"),
                ]);
                command.args(["-z", &path("zebra"), "--bfdctl", &path("control"), "-A", "127.0.0.1", "-P", "0"])
            }
        };
        let log = std::fs::File::create(path("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        spawn(&mut command)
    }

    const fn question(self) -> &'static [&'static str] {
        match self {
            Self::Bird => &["show", "bfd", "sessions"],
            Self::Frr => &["-c", "show bfd peers brief"],
        }
    }

    fn configuration(self) -> String {
        match self {
            Self::Bird => {
                let session = |(ours, theirs, multihop): &(&str, &str, bool)| match multihop {
                    true => format!("    neighbor {ours} local {theirs} multihop;\n"),
                    false => format!("    neighbor {ours} dev \"bfd1\" local {theirs};\n"),
                };
                let sessions: String = SESSIONS.iter().map(session).collect();
                let timers = format!(
                    "min rx interval 100 ms; min tx interval 100 ms; idle tx interval 1 s; multiplier {MULTIPLIER};"
                );
                format!(
                    "log stderr all;\nrouter id 10.78.0.2;\nprotocol device {{}}\nprotocol bfd {{\n    interface \"*\" {{ {timers} }};\n    \
                     multihop {{ {timers} }};\n{sessions}}}\n"
                )
            }
            Self::Frr => {
                let session = |session: &(&str, &str, bool)| {
                    format!(
                        " {}\n  transmit-interval 100\n  receive-interval 100\n  detect-multiplier {MULTIPLIER}\n  no shutdown\n !\n",
                        frr_peer(*session)
                    )
                };
                format!("bfd\n{}!\n", SESSIONS.iter().map(session).collect::<String>())
            }
        }
    }
}

fn frr_peer((ours, theirs, multihop): (&str, &str, bool)) -> String {
    let multihop = if multihop { "multihop " } else { "" };
    format!("peer {ours} {multihop}local-address {theirs}")
}

fn spawn(command: &mut Command) -> Child {
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    command.spawn().unwrap_or_else(|error| panic!("this test needs {:?}: {error}", command.get_program()))
}
