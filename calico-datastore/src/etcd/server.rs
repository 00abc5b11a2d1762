//! A real etcd for tests: own directory, own ports, ended by its process handle.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use super::EtcdStore;
use crate::{Datastore, EtcdConfig, Scope};

pub(super) struct Server {
    process: Option<Child>,
    pub(super) directory: TempDir,
    client_port: u16,
    peer_port: u16,
    extra: Vec<String>,
    scheme: &'static str,
}

impl Server {
    /// Starts a server and waits until it serves.
    pub(super) async fn start() -> Self {
        let server = Self::spawn("http", Vec::new(), tempfile::tempdir().unwrap());
        server.ready(server.config()).await;
        server
    }

    /// Starts the members of one cluster, and waits until each serves.
    pub(super) async fn cluster(members: usize) -> Vec<Self> {
        let ports: Vec<_> = (0..members).map(|_| free_port()).collect();
        let name = |(number, port): (usize, &u16)| format!("m{number}=http://127.0.0.1:{port}");
        let all = ports.iter().enumerate().map(name).collect::<Vec<_>>().join(",");
        let mut servers = Vec::new();
        for (number, peer_port) in ports.into_iter().enumerate() {
            let extra = [format!("--name=m{number}"), format!("--initial-cluster={all}")].to_vec();
            let directory = tempfile::tempdir().unwrap();
            let client_port = free_port();
            let mut server = Self { process: None, directory, client_port, peer_port, extra, scheme: "http" };
            server.restart();
            servers.push(server);
        }
        for server in &servers {
            server.ready(server.config()).await;
        }
        servers
    }

    /// Starts a server with further arguments, without waiting.
    pub(super) fn spawn(scheme: &'static str, extra: Vec<String>, directory: TempDir) -> Self {
        let mut server =
            Self { process: None, directory, client_port: free_port(), peer_port: free_port(), extra, scheme };
        server.restart();
        server
    }

    pub(super) fn config(&self) -> EtcdConfig {
        let endpoint = format!("{}://127.0.0.1:{}", self.scheme, self.client_port);
        EtcdConfig { endpoints: vec![endpoint], ..EtcdConfig::default() }
    }

    /// Waits until a request is answered.
    pub(super) async fn ready(&self, config: EtcdConfig) {
        let store = EtcdStore::connect(config).await.unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while let Err(error) = store.list(&Scope::All).await {
            assert!(Instant::now() < deadline, "etcd does not serve: {error:?}");
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

    /// Starts it on the same data and ports.
    pub(super) fn restart(&mut self) {
        self.kill();
        let client = format!("{}://127.0.0.1:{}", self.scheme, self.client_port);
        let peer = format!("http://127.0.0.1:{}", self.peer_port);
        let data: PathBuf = self.directory.path().join("data");
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
            .stderr(Stdio::null())
            .spawn();
        self.process = Some(process.expect("this test starts the program `etcd`: install the package etcd-server"));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
