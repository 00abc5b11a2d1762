//! The same commands on a real etcd, whose keys must be upstream's.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::type_in_environment;

/// An etcd of our own, which ends with the test.
struct Etcd {
    process: Child,
    url: String,
    _directory: tempfile::TempDir,
}

impl Etcd {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let [client, peer] = [free_port(), free_port()].map(|port| format!("http://127.0.0.1:{port}"));
        let process = Command::new("etcd")
            .arg("--data-dir")
            .arg(directory.path())
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}"), "--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = process.unwrap_or_else(|error| unreachable!("etcd: {error}: apt-get install etcd-server"));
        let etcd = Self { process, url: client, _directory: directory };
        let deadline = Instant::now() + Duration::from_secs(60);
        while etcd.ctl(&["endpoint", "health"]).is_none() {
            assert!(Instant::now() < deadline, "etcd does not answer");
        }
        etcd
    }

    /// Runs etcdctl; what it printed, if it succeeded.
    fn ctl(&self, args: &[&str]) -> Option<String> {
        let output =
            Command::new("etcdctl").env("ETCDCTL_API", "3").args(["--endpoints", &self.url]).args(args).output();
        let output = output.unwrap_or_else(|error| unreachable!("etcdctl: {error}: apt-get install etcd-client"));
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        let _ended = self.process.kill();
        let _reaped = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn what_is_applied_looks_like_upstreams() {
    let etcd = Etcd::start();
    let environment = [("ETCD_ENDPOINTS", etcd.url.as_str())];
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster.yaml");
    let run = type_in_environment(&format!("apply -f {file}"), &environment);
    assert_eq!((run.code, run.stdout.as_str()), (0, "Successfully applied 10 resource(s)\n"), "{run:?}");
    let keys = etcd.ctl(&["get", "--prefix", "/calico", "--keys-only"]).unwrap();
    crate::common::golden(
        "etcd-keys.txt",
        &keys.lines().filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect::<String>(),
    );
    let key = "/calico/resources/v3/projectcalico.org/globalnetworkpolicies/allow-dns";
    crate::common::golden("etcd-value.json", &etcd.ctl(&["get", "--print-value-only", key]).unwrap());
    let tables = type_in_environment("get nodes,gnp,wep -A -o wide", &environment);
    crate::common::golden("etcd-tables.txt", &tables.transcript());
    let run = type_in_environment(&format!("delete -f {file}"), &environment);
    assert_eq!((run.code, run.stdout.as_str()), (0, "Successfully deleted 10 resource(s)\n"), "{run:?}");
}
