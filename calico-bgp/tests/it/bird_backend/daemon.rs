//! A BIRD in this thread's network namespace, and our backend beside it.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use calico_bgp::bird::client::{BirdRoute, Client, routes};
use calico_bgp::bird::{BirdBackend, BirdConfig, BirdPaths, BirdSettings};
use calico_bgp::{BgpBackend, BgpError, BgpEvent, BgpStatus};
use calico_core::bgp::DesiredBgp;
use tempfile::TempDir;

use crate::support::STARTING;

pub(super) const DEADLINE: Duration = Duration::from_secs(60);
const ANSWER: Duration = Duration::from_secs(10);

/// A daemon; it ends with `kill -9`.
pub(super) struct Daemon {
    pub(super) paths: BirdPaths,
    process: Child,
    directory: TempDir,
}

impl Daemon {
    /// Runs with a configuration.
    pub(super) fn start(program: &Path, configuration: &str) -> Self {
        let directory = TempDir::new().unwrap();
        let paths = BirdPaths {
            program: program.into(),
            config: directory.path().join("bird.cfg"),
            socket: directory.path().join("bird.ctl"),
        };
        std::fs::write(&paths.config, configuration).unwrap();
        let process = spawn(&paths);
        Self { paths, process, directory }
    }

    /// Runs with nothing to do yet.
    pub(super) fn idle(program: &Path) -> Self {
        Self::start(program, "router id 127.0.0.1;\nprotocol device {\n}\n")
    }

    /// `kill -9`, and a new start.
    pub(super) fn restart(&mut self) {
        self.end();
        self.process = spawn(&self.paths);
    }

    fn end(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    pub(super) fn directory(&self) -> PathBuf {
        self.directory.path().into()
    }

    /// Text of an answer; none until it answers.
    pub(super) async fn ask(&self, command: &str) -> Option<String> {
        let mut client = Client::connect(&self.paths.socket, ANSWER).await.ok()?;
        let reply = client.ask(command).await.ok()?;
        Some(reply.lines.iter().map(|line| format!("{}\n", line.text)).collect())
    }

    /// What it learned from its peer.
    pub(super) async fn learned(&self) -> Vec<BirdRoute> {
        let Ok(mut client) = Client::connect(&self.paths.socket, ANSWER).await else { return Vec::new() };
        client.ask("show route all where source = RTS_BGP").await.map(|reply| routes(&reply)).unwrap_or_default()
    }

    pub(super) async fn until(&self, what: &str, condition: impl AsyncFn(&Self) -> bool) {
        let start = Instant::now();
        while !condition(self).await {
            if start.elapsed() > DEADLINE {
                let state = self.ask("show protocols all").await.unwrap_or_default();
                let routes = self.ask("show route all").await.unwrap_or_default();
                panic!("not within {DEADLINE:?}: {what}\n{state}\n{routes}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

fn spawn(paths: &BirdPaths) -> Child {
    let mut command = Command::new(&paths.program);
    command.args(["-f", "-R", "-c"]).arg(&paths.config).arg("-s").arg(&paths.socket);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _starting = STARTING.read().unwrap_or_else(PoisonError::into_inner);
    command.spawn().unwrap_or_else(|error| panic!("{}: {error}; Debian package bird2", paths.program.display()))
}

/// Our backend and its daemon, which ends with it.
pub(super) struct Bird {
    pub(super) backend: BirdBackend,
    pub(super) daemon: Daemon,
}

/// The backend's configuration beside a daemon, with quick looks and no hand on the kernel.
pub(super) fn config(daemon: &Daemon) -> BirdConfig {
    BirdConfig {
        daemon: daemon.paths.clone(),
        daemon6: BirdPaths {
            program: "bird6".into(),
            config: daemon.directory().join("bird6.cfg"),
            socket: daemon.directory().join("bird6.ctl"),
        },
        settings: BirdSettings { kernel: None, ..BirdSettings::default() },
        report_routes: true,
        poll: Duration::from_millis(100),
        ..BirdConfig::default()
    }
}

impl Bird {
    pub(super) fn start(program: &Path) -> Self {
        let daemon = Daemon::idle(program);
        Self { backend: BirdBackend::start(config(&daemon)), daemon }
    }

    /// Takes events until the condition holds of those that came.
    pub(super) async fn until(&mut self, what: &str, mut condition: impl FnMut(&BgpEvent, &BgpStatus) -> bool) {
        let wait = async {
            loop {
                let event = self.backend.next_event().await.unwrap();
                if condition(&event, &self.backend.status()) {
                    return;
                }
            }
        };
        if tokio::time::timeout(DEADLINE, wait).await.is_err() {
            let state = self.daemon.ask("show protocols all").await;
            panic!("not within {DEADLINE:?}: {what}; {:#?}; {state:?}", self.backend.status());
        }
    }
}

#[async_trait::async_trait]
impl BgpBackend for Bird {
    fn name(&self) -> &'static str {
        "bird"
    }

    async fn apply(&mut self, desired: &DesiredBgp) -> Result<(), BgpError> {
        self.backend.apply(desired).await
    }

    async fn next_event(&mut self) -> Result<BgpEvent, BgpError> {
        self.backend.next_event().await
    }

    fn status(&self) -> BgpStatus {
        self.backend.status()
    }
}

/// A neighbour that is nobody's: it has a session with `us` and announces nothing unless told to.
pub(super) fn neighbour(
    own: Ipv4Addr,
    own_as: u32,
    us: Ipv4Addr,
    our_as: u32,
    port: u16,
    statics: &str,
    more: &str,
) -> String {
    format!(
        "router id {own};
protocol device {{}}
protocol static {{
    ipv4;
{statics}}}
protocol bgp ours {{
    local {own} port {port} as {own_as};
    neighbor {us} port {port} as {our_as};
    multihop;
    strict bind on;
    connect delay time 1;
    connect retry time 1;
    error wait time 1, 2;
    {more}
    ipv4 {{
        import all;
        export where source = RTS_STATIC;
    }};
}}
"
    )
}
