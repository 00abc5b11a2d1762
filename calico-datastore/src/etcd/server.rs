//! A real etcd for tests: own directory, own address, ended by its process handle.

use std::fs::File;
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::EtcdStore;
use crate::testing::free_address;
use crate::{Datastore, DatastoreError, EtcdConfig, Scope};

pub(super) struct Server {
    process: Option<Child>,
    pub(super) directory: TempDir,
    client: SocketAddr,
    peer: SocketAddr,
    extra: Vec<String>,
    scheme: &'static str,
}

impl Server {
    /// Starts a server and waits until it serves.
    pub(super) async fn start() -> Self {
        let mut server = Self::spawn("http", Vec::new(), tempfile::tempdir().unwrap());
        server.ready(server.config()).await;
        server
    }

    /// Starts the members of one cluster, and waits until each serves.
    pub(super) async fn cluster(members: usize) -> Vec<Self> {
        let peers: Vec<_> = (0..members).map(|_| free_address()).collect();
        let name = |(number, peer): (usize, &SocketAddr)| format!("m{number}=http://{peer}");
        let all = peers.iter().enumerate().map(name).collect::<Vec<_>>().join(",");
        let mut servers = Vec::new();
        for (number, peer) in peers.into_iter().enumerate() {
            let extra = [format!("--name=m{number}"), format!("--initial-cluster={all}")].to_vec();
            let directory = tempfile::tempdir().unwrap();
            let mut server = Self { process: None, directory, client: free_address(), peer, extra, scheme: "http" };
            server.restart();
            servers.push(server);
        }
        for server in &mut servers {
            server.ready(server.config()).await;
        }
        servers
    }

    /// Starts a server with further arguments, without waiting.
    pub(super) fn spawn(scheme: &'static str, extra: Vec<String>, directory: TempDir) -> Self {
        let (client, peer) = (free_address(), free_address());
        let mut server = Self { process: None, directory, client, peer, extra, scheme };
        server.restart();
        server
    }

    pub(super) fn config(&self) -> EtcdConfig {
        let endpoint = format!("{}://{}", self.scheme, self.client);
        EtcdConfig { endpoints: vec![endpoint], ..EtcdConfig::default() }
    }

    /// Waits until a request is answered.
    pub(super) async fn ready(&mut self, config: EtcdConfig) {
        let store = EtcdStore::connect(config).await.unwrap();
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = store.list(&Scope::All).await {
            let ended = self.process.as_mut().is_none_or(|process| process.try_wait().unwrap().is_some());
            let log = || std::fs::read_to_string(self.directory.path().join("log")).unwrap_or_default();
            assert!(!ended, "etcd has ended:\n{}", log());
            assert!(Instant::now() < deadline, "etcd does not serve: {error:?}\n{}", log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.kill().unwrap();
            process.wait().unwrap();
        }
    }

    /// Sends it a signal, such as `STOP`.
    pub(super) fn signal(&self, name: &str) {
        let process = self.process.as_ref().unwrap().id();
        let sent = Command::new("sh").args(["-c", &format!("kill -{name} {process}")]).status().unwrap();
        assert!(sent.success());
    }

    /// Starts it on the same data and ports.
    pub(super) fn restart(&mut self) {
        self.kill();
        let client = format!("{}://{}", self.scheme, self.client);
        let peer = format!("http://{}", self.peer);
        let data = self.directory.path().join("data");
        let log = File::options().create(true).append(true).open(self.directory.path().join("log")).unwrap();
        let process = Command::new("etcd")
            .arg("--data-dir")
            .arg(data)
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            // A test's data need not survive the machine.
            .arg("--unsafe-no-fsync")
            .args(&self.extra)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        self.process = Some(process.expect("this test starts the program `etcd`: install the package etcd-server"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// For what takes a moment: a start, the election of a leader.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again while the answer is an error that may pass, as around the death of a server.
pub(super) async fn insist<T>(mut ask: impl AsyncFnMut() -> Result<T, DatastoreError>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match ask().await {
            Ok(answer) => return answer,
            Err(error) => assert!(error.is_retryable() && Instant::now() < deadline, "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
