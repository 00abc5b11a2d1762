//! Against BIRD 2, as upstream's nodes and many routers run it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use calico_bgp::BgpBackend as _;
use calico_core::bgp::{ByFamily, Filter, FilterRule, PrefixMatch, PrefixOperator};
use tempfile::TempDir;

use crate::support::{Native, PORT, STARTING, desired, in_namespace};

const US: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const BIRD: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const DEADLINE: Duration = Duration::from_secs(30);

/// A running BIRD with a configuration of its own.
struct Bird {
    directory: TempDir,
    process: Child,
}

impl Bird {
    /// Starts BIRD as a peer of ours that originates `blocks`.
    fn start(as_number: u32, our_as: u32, blocks: &[&str]) -> Self {
        let directory = TempDir::new().unwrap();
        let process = spawn(&directory, as_number, our_as, blocks, false);
        Self { directory, process }
    }

    /// `kill -9`, and a start with other blocks.
    fn restart(&mut self, as_number: u32, our_as: u32, blocks: &[&str]) {
        self.kill();
        self.process = spawn(&self.directory, as_number, our_as, blocks, true);
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Text of a command's answer.
    fn ask(&self, command: &str) -> Option<String> {
        let mut stream = UnixStream::connect(self.directory.path().join("bird.ctl")).ok()?;
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        lines.next()?.ok()?;
        writeln!(stream, "{command}").ok()?;
        let mut answer = String::new();
        for line in lines {
            let line = line.ok()?;
            let ends = matches!(line.as_bytes(), [b'0' | b'8' | b'9', _, _, _, b' ', ..]);
            writeln!(answer, "{line}").unwrap();
            if ends {
                break;
            }
        }
        Some(answer)
    }

    /// Prefixes it has from us.
    fn learned(&self) -> BTreeSet<String> {
        let answer = self.ask("show route protocol native").unwrap_or_default();
        let words = answer.split_whitespace().filter(|word| word.contains('/') && word.starts_with("10."));
        words.map(|word| word.trim_start_matches("1007-").to_owned()).collect()
    }

    async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !condition(self) {
            if start.elapsed() > DEADLINE {
                let log = std::fs::read_to_string(self.directory.path().join("bird.log")).unwrap_or_default();
                let state = self.ask("show protocols all native").unwrap_or_default();
                panic!(
                    "not within {DEADLINE:?}: {what}\n{state}\n{}\n{log}",
                    self.ask("show route all").unwrap_or_default()
                );
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

impl Drop for Bird {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(directory: &TempDir, as_number: u32, our_as: u32, blocks: &[&str], recovering: bool) -> Child {
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("bird.conf"), configuration(&path("bird.log"), as_number, our_as, blocks)).unwrap();
    let mut command = Command::new("bird");
    command.arg("-f").arg("-c").arg(path("bird.conf")).arg("-s").arg(path("bird.ctl"));
    if recovering {
        command.arg("-R");
    }
    let errors = std::fs::File::create(path("stderr")).unwrap();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    command.spawn().expect("this test needs `bird` (Debian package bird2)")
}

fn configuration(log: &Path, as_number: u32, our_as: u32, blocks: &[&str]) -> String {
    let routes: String = blocks.iter().map(|block| format!("    route {block} blackhole;\n")).collect();
    format!(
        "log \"{log}\" all;
router id {BIRD};
graceful restart wait 20;
protocol device {{}}
protocol static blocks {{
    ipv4;
{routes}}}
protocol bgp native {{
    debug {{ states, events }};
    local {BIRD} port {PORT} as {as_number};
    neighbor {US} port {PORT} as {our_as};
    multihop;
    strict bind on;
    graceful restart on;
    graceful restart time 120;
    connect delay time 1;
    connect retry time 1;
    error wait time 1, 5;
    ipv4 {{
        import all;
        export where source = RTS_STATIC;
        next hop self;
    }};
}}
",
        log = log.display()
    )
}

fn set(prefixes: &[&str]) -> BTreeSet<String> {
    prefixes.iter().map(|prefix| (*prefix).to_owned()).collect()
}

/// A rule for routes of exactly these prefixes, in both directions.
fn reject(prefixes: &[&str]) -> Arc<Filter> {
    let rule = |prefix: &&str| FilterRule {
        prefix: Some(PrefixMatch { cidr: prefix.parse().unwrap(), operator: PrefixOperator::Equal, lengths: None }),
        accept: false,
        ..FilterRule::default()
    };
    let both = ByFamily { ipv4: prefixes.iter().map(rule).collect::<Vec<_>>(), ipv6: Vec::new() };
    Arc::new(Filter { name: "some".into(), import: both.clone(), export: both })
}

/// Routes that came and went before a filter was there follow it at once, without a new session and without a refresh.
#[test]
fn a_filter_comes_and_goes_on_the_session_with_bird() {
    in_namespace(&[US, BIRD], move || async move {
        let bird = Bird::start(64512, 64512, &["10.2.0.0/26", "10.2.0.64/26"]);
        let plain = desired(US, 64512, &[(BIRD, 64512)], &["10.1.0.0/26", "10.1.0.64/26"]);
        let mut us = Native::start(US, &plain).await;
        us.until("we have bird's blocks", |us| us.routes.len() == 2 && us.settled).await;
        bird.until("bird has our blocks", |bird| bird.learned().len() == 2).await;
        let mut filtered = plain.clone();
        filtered.peers[0].policy.filters = vec![reject(&["10.2.0.64/26", "10.1.0.64/26"])];
        us.apply(&filtered).await;
        us.until("one is filtered", |us| us.routes.len() == 1).await;
        assert!(us.next_hop("10.2.0.0/26").is_some());
        bird.until("one is taken back", |bird| bird.learned() == set(&["10.1.0.0/26"])).await;
        us.apply(&plain).await;
        us.until("it is there again", |us| us.routes.len() == 2).await;
        bird.until("it is told again", |bird| bird.learned().len() == 2).await;
        let status = us.backend.status();
        assert_eq!(status.peers[0].details.established, 1, "one session");
        let state = bird.ask("show protocols all native").unwrap();
        assert!(!state.contains("Last error"), "{state}");
    });
}

/// Internal and external session alike: up, routes both ways, changes, and the answer to a route refresh.
fn exchange(our_as: u32, bird_as: u32) {
    in_namespace(&[US, BIRD], move || async move {
        let bird = Bird::start(bird_as, our_as, &["10.2.0.0/26", "10.2.0.64/26"]);
        let mut us = Native::start(US, &desired(US, our_as, &[(BIRD, bird_as)], &["10.1.0.0/26"])).await;
        us.until("we have bird's blocks", |us| us.routes.len() == 2 && us.settled).await;
        assert_eq!(us.next_hop("10.2.0.64/26"), Some(IpAddr::V4(BIRD)));
        bird.until("bird has our block", |bird| bird.learned() == set(&["10.1.0.0/26"])).await;

        us.apply(&desired(US, our_as, &[(BIRD, bird_as)], &["10.1.0.0/26", "10.1.0.64/26"])).await;
        bird.until("bird has both", |bird| bird.learned() == set(&["10.1.0.0/26", "10.1.0.64/26"])).await;
        us.apply(&desired(US, our_as, &[(BIRD, bird_as)], &["10.1.0.64/26"])).await;
        bird.until("bird has the other", |bird| bird.learned() == set(&["10.1.0.64/26"])).await;

        let answer = bird.ask("reload in native").unwrap();
        assert!(answer.contains("reloading"), "{answer}");
        us.apply(&desired(US, our_as, &[(BIRD, bird_as)], &["10.1.0.128/26"])).await;
        bird.until("the session has outlived the refresh", |bird| bird.learned() == set(&["10.1.0.128/26"])).await;
        assert!(us.is_established());

        // An orderly end says so, and takes the routes along.
        bird.ask("disable native").unwrap();
        us.until("bird's routes are gone", |us| us.routes.is_empty()).await;
    });
}

#[test]
fn internal_session() {
    exchange(64512, 64512);
}

#[test]
fn external_session_with_a_four_octet_as() {
    exchange(64512, 4_200_000_001);
}

#[test]
fn bird_keeps_our_routes_while_we_restart() {
    in_namespace(&[US, BIRD], || async {
        let bird = Bird::start(64512, 64512, &["10.2.0.0/26"]);
        let ours = desired(US, 64512, &[(BIRD, 64512)], &["10.1.0.0/26", "10.1.0.64/26"]);
        let mut us = Native::start(US, &ours).await;
        us.until("the session is up", |us| us.routes.len() == 1 && us.settled).await;
        let both = set(&["10.1.0.0/26", "10.1.0.64/26"]);
        bird.until("bird has our blocks", |bird| bird.learned() == both).await;

        us.backend.stop().await;
        bird.until("bird has noticed", |bird| {
            bird.ask("show protocols all native").is_some_and(|state| !state.contains("Established"))
        })
        .await;
        assert_eq!(bird.learned(), both, "bird must keep our routes");

        let fewer = desired(US, 64512, &[(BIRD, 64512)], &["10.1.0.0/26"]);
        let mut us = Native::start(US, &fewer).await;
        us.until("we have bird's block again", |us| us.routes.len() == 1 && us.settled).await;
        bird.until("the released block is gone", |bird| bird.learned() == set(&["10.1.0.0/26"])).await;
        let state = bird.ask("show protocols all native").unwrap();
        assert!(state.contains("Restart recovery") || state.contains("Graceful restart"), "{state}");
    });
}

/// Our speaker as a process, to be killed.
struct Process(Child);

impl Process {
    fn start(blocks: &[&str]) -> Self {
        // Beside the directory of the test programs.
        let program = std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples").join("speak");
        let mut command = Command::new(&program);
        command.args([US.to_string(), BIRD.to_string(), PORT.to_string(), "64512".to_owned()]).args(blocks);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
        let child = command.spawn();
        let build = "cargo build -p calico-bgp --features tokio --example speak";
        Self(child.unwrap_or_else(|error| panic!("{}: {error}; `{build}` makes it", program.display())))
    }

    /// SIGKILL.
    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn bird_keeps_the_routes_of_a_process_that_is_killed() {
    in_namespace(&[US, BIRD], || async {
        let bird = Bird::start(64512, 64512, &["10.2.0.0/26"]);
        let both = set(&["10.1.0.0/26", "10.1.0.64/26"]);
        let process = Process::start(&["10.1.0.0/26", "10.1.0.64/26"]);
        bird.until("bird has our blocks", |bird| bird.learned() == both).await;
        process.kill();
        bird.until("bird has noticed", |bird| {
            bird.ask("show protocols all native").is_some_and(|state| !state.contains("Established"))
        })
        .await;
        assert_eq!(bird.learned(), both, "bird must keep our routes");
        let again = Process::start(&["10.1.0.0/26"]);
        bird.until("the released block is gone", |bird| bird.learned() == set(&["10.1.0.0/26"])).await;
        again.kill();
    });
}

#[test]
fn we_keep_birds_routes_while_it_restarts() {
    in_namespace(&[US, BIRD], || async {
        let mut bird = Bird::start(64512, 64512, &["10.2.0.0/26", "10.2.0.64/26"]);
        let mut us = Native::start(US, &desired(US, 64512, &[(BIRD, 64512)], &["10.1.0.0/26"])).await;
        us.until("the session is up", |us| us.routes.len() == 2 && us.settled).await;

        bird.kill();
        us.until("we have noticed", |us| !us.is_established()).await;
        assert_eq!(us.routes.len(), 2, "we must keep bird's routes");
        bird.restart(64512, 64512, &["10.2.0.0/26"]);
        us.until("the released block is gone", |us| us.routes.len() == 1).await;
        assert_eq!(us.next_hop("10.2.0.0/26"), Some(IpAddr::V4(BIRD)));
        bird.until("bird has our block", |bird| bird.learned() == set(&["10.1.0.0/26"])).await;
    });
}
