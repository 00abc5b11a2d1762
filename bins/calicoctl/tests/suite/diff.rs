//! What would change: `diff`, and `--dry-run` of the writing verbs; and what nobody may write.

use crate::common::{Cluster, TERMINAL, golden};
use calico_core::resource::{Kind, ResourceKey};
use calico_datastore::{Datastore, Revision, Scope};

const CLUSTER: &str = include_str!("../cluster.yaml");

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    cluster.done("apply -f -", CLUSTER);
    cluster
}

#[tokio::main(flavor = "current_thread")]
async fn revision(cluster: &Cluster) -> Revision {
    cluster.store.list(&Scope::All).await.unwrap().revision
}

const EDITED: &str = "\
apiVersion: projectcalico.org/v3
kind: GlobalNetworkPolicy
metadata: {name: newer}
spec: {selector: role == \"a\", ingress: [{action: Deny}]}
---
apiVersion: projectcalico.org/v3
kind: NetworkSet
metadata: {name: fresh, namespace: shop}
spec: {nets: [10.0.0.0/8]}
";

/// With a policy of a newer version, and what changes it.
fn with_newer() -> Cluster {
    let cluster = cluster();
    let newer = r#"{"kind":"GlobalNetworkPolicy","apiVersion":"projectcalico.org/v3","metadata":{"name":"newer","uid":"u"},
        "spec":{"tier":"default","selector":"all()","future":{"a":[1]},"types":["Ingress"],"ingress":[{"action":"Allow"}]}}"#;
    cluster.store.inject(ResourceKey::cluster(Kind::GlobalNetworkPolicy, "newer"), newer.as_bytes());
    cluster
}

#[test]
fn what_is_stored_already_does_not_differ() {
    let cluster = cluster();
    let before = revision(&cluster);
    assert_eq!(cluster.done("diff -f -", CLUSTER), "");
    assert_eq!(cluster.done("diff -f - -o json", CLUSTER), "[]\n");
    assert_eq!(cluster.done("diff -f - --skip-empty", ""), "");
    for kind in ["gnp", "wep", "nodes"] {
        let printed = cluster.done(&format!("get {kind} -A -o yaml"), "");
        assert_eq!(cluster.done("diff -f -", &printed), "");
    }
    assert_eq!(revision(&cluster), before);
}

#[test]
fn differences_are_shown_with_defaults_and_fields_of_newer_versions() {
    let cluster = with_newer();
    let before = revision(&cluster);
    golden("diff.txt", &cluster.type_in("diff -f -", EDITED).transcript());
    golden("diff.json", &cluster.type_in("diff -f - -o json", EDITED).stdout);
    assert_eq!(revision(&cluster), before, "nothing is written");
    // It says what apply does.
    let promised = cluster.type_in("diff -f - -o json", EDITED).stdout;
    cluster.done("apply -f -", EDITED);
    assert_eq!(cluster.done("diff -f -", EDITED), "");
    let promised: serde_json::Value = serde_json::from_str(&promised).unwrap();
    let mut stored: serde_json::Value = serde_json::from_str(&cluster.done("get gnp newer -o json", "")).unwrap();
    stored["metadata"].as_object_mut().unwrap().remove("resourceVersion");
    assert_eq!(promised[0]["applied"], stored);
}

#[test]
fn colours_are_for_terminals() {
    let cluster = with_newer();
    let is_coloured = |environment: &[(&str, &str)]| {
        cluster.type_in_with(environment, "diff -f -", EDITED).stdout.contains("\u{1b}[32m+  selector")
    };
    assert!(is_coloured(&[(TERMINAL, "")]));
    assert!(!is_coloured(&[]));
    assert!(!is_coloured(&[(TERMINAL, ""), ("NO_COLOR", "1")]));
}

#[test]
fn one_always_means_differences() {
    let cluster = cluster();
    for (input, told) in [
        ("kind: [", "failed to execute command"),
        (&*EDITED.replace("selector:", "selectr:"), "did you mean selector?"),
        (&*EDITED.replace("selector:", "tier: lost, selector:"), "resource does not exist: Tier(lost)"),
    ] {
        let run = cluster.type_in("diff -f -", input);
        assert!(run.code == 2 && run.stdout.is_empty() && run.stderr.contains(told), "{run:?}");
    }
    assert_eq!(cluster.type_in("diff", "").code, 2);
}

#[test]
fn a_dry_run_checks_everything_and_writes_nothing() {
    let cluster = with_newer();
    let before = revision(&cluster);
    for (line, told) in [
        ("apply -f - --dry-run", "Successfully applied 2 resource(s) (dry run)\n"),
        ("delete -f - --dry-run --skip-not-exists", "Successfully deleted 2 resource(s) (dry run)\n"),
    ] {
        assert_eq!(cluster.done(line, EDITED), told);
    }
    let (policy, set) = EDITED.split_once("---\n").unwrap();
    assert_eq!(
        cluster.done("replace -f - --dry-run", policy),
        "Successfully replaced 1 'GlobalNetworkPolicy' resource(s) (dry run)\n"
    );
    assert_eq!(
        cluster.done("create -f - --dry-run", set),
        "Successfully created 1 'NetworkSet' resource(s) (dry run)\n"
    );
    golden("dry-run-create.txt", &cluster.type_in("create -f - --dry-run", EDITED).transcript());
    golden("dry-run-delete.txt", &cluster.type_in("delete -f - --dry-run", EDITED).transcript());
    assert_eq!(revision(&cluster), before);
    for (line, told) in [
        (
            "patch gnp newer --dry-run -p {\"spec\":{\"order\":5}}",
            "Successfully patched 1 'GlobalNetworkPolicy' resource (dry run)\n",
        ),
        ("label gnp newer --dry-run a=b", "Successfully set label a on gnp newer (dry run)\n"),
    ] {
        assert_eq!(cluster.done(line, ""), told);
    }
    assert_eq!(revision(&cluster), before);
    // A tier may go together with its policies, and not without.
    assert_eq!(cluster.done("delete -f - --dry-run", CLUSTER), "Successfully deleted 10 resource(s) (dry run)\n");
    let run = cluster.type_in("delete tier security --dry-run", "");
    assert!(run.code == 1 && run.stderr.contains("delete its policies first"), "{run:?}");
    assert_eq!(revision(&cluster), before);
}

#[test]
fn a_dry_run_makes_no_datastore() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster.yaml");
    let environment = [("CALICO_DATASTORE_PATH", path.to_str().unwrap())];
    for (line, code) in [("apply --dry-run", 0), ("diff", 1)] {
        let run = crate::common::type_in_environment(&format!("{line} -f {file}"), &environment);
        assert_eq!(run.code, code, "{run:?}");
    }
    assert!(!path.exists());
}

#[test]
fn what_is_not_the_operators_cannot_be_written() {
    let cluster = cluster();
    let document = |kind: &str, name: &str| {
        format!("apiVersion: projectcalico.org/v3\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {{}}\n")
    };
    let mut told = String::new();
    for document in [document("ClusterInformation", "default"), document("NetworkPolicy", "knp.default.web")] {
        for verb in ["apply", "create", "replace", "delete"] {
            let run = cluster.type_in(&format!("{verb} -f -"), &document);
            assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run:?}");
            told += run.stderr.lines().next().unwrap();
            told += "\n";
        }
    }
    cluster
        .store
        .inject(ResourceKey::cluster(Kind::ClusterInformation, "default"), b"{\"metadata\":{\"name\":\"default\"}}");
    let before = revision(&cluster);
    for line in ["patch clusterinfo default -p {\"spec\":{\"variant\":\"x\"}}", "label clusterinfo default a=b"] {
        told += &cluster.type_in(line, "").transcript();
    }
    golden("protected.txt", &told);
    assert_eq!(revision(&cluster), before);
}
