//! The same commands on a real etcd, whose keys must be upstream's.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use calico_datastore::testing::free_address;

use crate::common::type_in_environment;

/// An etcd of our own, which ends with the test.
struct Etcd {
    process: Child,
    url: String,
    directory: tempfile::TempDir,
}

impl Etcd {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let [client, peer] = [free_address(), free_address()].map(|address| format!("http://{address}"));
        let process = Command::new("etcd")
            .arg("--data-dir")
            .arg(directory.path().join("data"))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}"), "--log-level", "error"])
            .stdout(Stdio::null())
            .stderr(File::create(directory.path().join("log")).unwrap())
            .spawn();
        let process = process.unwrap_or_else(|error| unreachable!("etcd: {error}: apt-get install etcd-server"));
        let mut etcd = Self { process, url: client, directory };
        let deadline = Instant::now() + Duration::from_secs(60);
        while etcd.ctl(&["endpoint", "health"]).is_none() {
            let log = || std::fs::read_to_string(etcd.directory.path().join("log")).unwrap_or_default();
            assert!(etcd.process.try_wait().unwrap().is_none(), "etcd has ended:\n{}", log());
            assert!(Instant::now() < deadline, "etcd does not answer:\n{}", log());
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

/// A program of its own, which shares nothing with this one but the datastore.
fn second_program(line: &str, environment: &[(&str, &str)]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_calicoctl"))
        .args(line.split_whitespace())
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// A lock is in the datastore, so that whoever looks there sees it; what is exported of a locked one makes another the same.
#[test]
fn a_datastore_is_locked_and_exported() {
    let etcd = Etcd::start();
    let environment = [("ETCD_ENDPOINTS", etcd.url.as_str())];
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let done = |line: &str| {
        let run = type_in_environment(line, &environment);
        assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{line}: {run:?}");
        run.stdout
    };
    done(concat!("apply -f ", env!("CARGO_MANIFEST_DIR"), "/tests/cluster.yaml"));
    done(&format!("apply -f {}", write("nodes.yaml", crate::datastore::NODES)));

    let exported = || type_in_environment("datastore migrate export", &environment);
    assert_eq!(exported().code, 1, "nobody may change what is exported: it must be locked first");
    let ready = || second_program("get clusterinformation default -o jsonpath={.spec.datastoreReady}", &environment);
    assert_eq!((done("datastore migrate lock").as_str(), ready().as_str()), ("Datastore locked.\n", "false"));
    assert_eq!(second_program("datastore migrate lock", &environment), "Datastore locked.\n", "and once more");
    let export = exported();
    assert_eq!(export.code, 0, "{export:?}");
    let parts: Vec<&str> = export.stdout.split("===\n").collect();
    let [resources, information, _addresses] = parts.as_slice() else { panic!("{export:?}") };
    assert!(information.contains("\"datastoreReady\": false") || information.contains("\"datastoreReady\":false"));

    let other = Etcd::start();
    let there = [("ETCD_ENDPOINTS", other.url.as_str())];
    let run = type_in_environment(&format!("apply -f {}", write("exported.yaml", resources)), &there);
    assert_eq!(run.code, 0, "{run:?}");
    // The nodes were given the names that they have in Kubernetes.
    let names =
        type_in_environment("get nodes,ippools,tiers,gnp,np,netsets,globalnetworksets -A -o name", &there).stdout;
    for name in
        ["node/kube-1\n", "node/host-2\n", "ippool/pool-1\n", "tier/security\n", "globalnetworkpolicy/allow-dns\n"]
    {
        assert!(names.contains(name), "{name}: {names}");
    }

    assert_eq!(second_program("datastore migrate unlock", &environment), "Datastore unlocked.\n");
    assert_eq!((ready().as_str(), exported().code), ("true", 1));
    let import = type_in_environment("datastore migrate import -f export.yaml", &environment);
    crate::common::golden("import-etcd.txt", &import.transcript());
}

/// What is only tried out is checked against what is stored, and leaves no trace there.
#[test]
fn what_is_tried_out_is_not_written() {
    let etcd = Etcd::start();
    let environment = [("ETCD_ENDPOINTS", etcd.url.as_str())];
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster.yaml");
    assert_eq!(type_in_environment(&format!("apply -f {file}"), &environment).code, 0);
    let stored = || etcd.ctl(&["get", "--prefix", "/", "--write-out=json"]).unwrap();
    let before = stored();
    for (line, told) in [
        (format!("apply -f {file} --dry-run"), "Successfully applied 10 resource(s) (dry run)\n"),
        (format!("delete -f {file} --dry-run"), "Successfully deleted 10 resource(s) (dry run)\n"),
        ("label gnp allow-dns --dry-run a=b".to_owned(), "Successfully set label a on gnp allow-dns (dry run)\n"),
    ] {
        let run = type_in_environment(&line, &environment);
        assert_eq!((run.code, run.stdout.as_str()), (0, told), "{line}: {run:?}");
    }
    let patch = "patch gnp allow-dns --dry-run -p {\"spec\":{\"order\":5}}";
    assert_eq!(type_in_environment(patch, &environment).code, 0);
    for (line, reason) in [
        (format!("create -f {file} --dry-run"), "resource already exists"),
        ("delete tier security --dry-run".to_owned(), "Tier(security)"),
        ("delete ippool absent --dry-run".to_owned(), "resource does not exist"),
    ] {
        let run = type_in_environment(&line, &environment);
        assert!(run.code == 1 && run.stderr.contains(reason), "{line}: {run:?}");
    }
    // Its header has the newest revision of all.
    assert_eq!(stored(), before);
}

/// One stream of three documents, each a list with one node, as operators write it.
const NODES: &str = "\
- apiVersion: projectcalico.org/v3
  kind: Node
  metadata:
    name: node1
  spec:
    bgp:
      ipv4Address: 192.168.100.101/24
---
- apiVersion: projectcalico.org/v3
  kind: Node
  metadata:
    name: node2
  spec:
    bgp:
      ipv4Address: 192.168.100.102/24
---
- apiVersion: projectcalico.org/v3
  kind: Node
  metadata:
    name: node3
  spec:
    bgp:
      ipv4Address: 192.168.100.103/24
";

const POOL: &str = "\
apiVersion: projectcalico.org/v3
kind: IPPool
metadata:
  name: default-ipv4-ippool
spec:
  cidr: 10.89.0.0/16
  ipipMode: Always
  vxlanMode: Never
  natOutgoing: true
  disabled: false
  nodeSelector: all()
";

/// What somebody types who sets up three hosts by hand: on a datastore that is empty, and with a configuration file.
#[test]
fn a_cluster_is_set_up_by_hand() {
    let etcd = Etcd::start();
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let config = format!(
        "apiVersion: projectcalico.org/v3\nkind: CalicoAPIConfig\nmetadata:\nspec:\n  etcdEndpoints: {}\n",
        etcd.url
    );
    let (config, nodes, pool) = (write("calicoctl.cfg", &config), write("nodes.yaml", NODES), write("pool.yaml", POOL));
    let session =
        ["get nodes", &format!("apply -f {nodes}"), &format!("apply -f {pool}"), "get nodes", "get ippool -o wide"]
            .map(|line| type_in_environment(&format!("{line} --config {config}"), &[]).transcript());
    crate::common::golden("by-hand.txt", &session.concat());
    let stored = etcd.ctl(&["get", "--prefix", "/calico/resources/v3"]).unwrap();
    // What differs from run to run: identities and times.
    crate::common::golden("by-hand-etcd.txt", &without_identities(&stored));
}

fn without_identities(text: &str) -> String {
    let line = |line: &str| {
        let Ok(mut value) = serde_json::from_str::<serde_json::Value>(line) else { return format!("{line}\n") };
        let metadata = value.get_mut("metadata").and_then(serde_json::Value::as_object_mut).unwrap();
        assert!(metadata.remove("uid").is_some() && metadata.remove("creationTimestamp").is_some(), "{line}");
        format!("{value}\n")
    };
    text.lines().map(line).collect()
}
