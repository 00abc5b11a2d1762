//! `version`.

use crate::common::{Cluster, type_in_environment};
use calico_core::resource::{Kind, ResourceKey};

fn inject(cluster: &Cluster, version: &str, kind: &str) {
    let text = format!(
        r#"{{"metadata":{{"name":"default"}},"spec":{{"calicoVersion":"{version}","clusterType":"{kind}","datastoreReady":true}}}}"#
    );
    cluster.store.inject(ResourceKey::cluster(Kind::ClusterInformation, "default"), text.as_bytes());
}

const CLIENT: &str = concat!("Client Version:    v", env!("CARGO_PKG_VERSION"), "\n");

#[test]
fn version_of_client_and_cluster() {
    let cluster = Cluster::new();
    let run = cluster.type_in("version", "");
    assert_eq!(run.code, 1);
    assert!(run.stdout.starts_with(CLIENT), "{run:?}");
    assert_eq!(
        run.stderr,
        "unable to retrieve Cluster Version or Type: resource does not exist: ClusterInformation(default)\n"
    );
    inject(&cluster, "v3.31.0", "");
    let told = cluster.done("version", "");
    assert!(told.ends_with("\nCluster Version:   v3.31.0\nCluster Type:      unknown\n"), "{told}");
    // A cluster of another version is nobody's reason to refuse work.
    cluster.done("get nodes", "");
    assert!(!cluster.done("version --client", "").contains("Cluster"));
    assert_eq!(cluster.type_in("version --poll soon", "").code, 2);
}

#[test]
fn a_poll_shows_what_has_changed() {
    let cluster = Cluster::new();
    inject(&cluster, "v1", "k8s");
    let shown = cluster.type_until("version --poll 1ms", |shown| {
        match shown.lines().last() {
            Some("Cluster Type:      k8s") => inject(&cluster, "v2", "k8s"),
            Some("Cluster Version:   v2") => inject(&cluster, "v2", "k8s,bgp"),
            Some("Cluster Type:      k8s,bgp") => return true,
            _ => {}
        }
        false
    });
    let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with("Cluster")).collect();
    assert_eq!(
        lines,
        ["Cluster Version:   v1", "Cluster Type:      k8s", "Cluster Version:   v2", "Cluster Type:      k8s,bgp"]
    );
}

#[test]
fn without_a_datastore_the_clusters_version_is_not_known() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let run = type_in_environment("version", &[("CALICO_DATASTORE_PATH", path.to_str().unwrap())]);
    assert_eq!((run.code, run.stderr.as_str()), (0, ""), "{run:?}");
    assert!(run.stdout.ends_with("Unable to detect installed Calico version\n"), "{run:?}");
    assert!(!path.exists());
    std::fs::write(&path, "certainly not a database").unwrap();
    let run = type_in_environment("version", &[("CALICO_DATASTORE_PATH", path.to_str().unwrap())]);
    assert!(run.code == 1 && run.stderr.contains("is not a SQLite database"), "{run:?}");
}
