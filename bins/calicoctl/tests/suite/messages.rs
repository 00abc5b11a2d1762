//! What is said when the input is wrong: one message that names file, document, field and place; nothing written; exit code 1, or 2
//! for wrong usage.

use crate::common::{Cluster, golden};
use calico_datastore::{Datastore, Scope};

const GOOD: &str = "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkSet\nmetadata:\n  name: good\n";
const POLICY: &str = "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata:\n  name: web\nspec:\n";

/// Applies a good document and a bad one: neither may be written.
#[tokio::main(flavor = "current_thread")]
async fn assert_nothing_stored(cluster: &Cluster) {
    assert_eq!(cluster.store.list(&Scope::All).await.unwrap().entries, []);
}

fn refused(name: &str, bad: &str) {
    let cluster = Cluster::new();
    let run = cluster.type_in("apply -f -", &format!("{GOOD}---\n{bad}"));
    assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{name}");
    assert_nothing_stored(&cluster);
    golden(&format!("{name}.txt"), &run.stderr);
}

#[test]
fn malformed_yaml() {
    refused("bad-yaml", "kind: [Node\nmetadata: x\n");
    refused("bad-duplicate-key", &format!("{POLICY}  order: 1\n  selector: all()\n  order: 2\n"));
    refused("bad-tab", "kind: Node\nmetadata:\n\tname: x\n");
    refused("bad-alias-bomb", "a: &a [x, x]\nb: &b [*a, *a]\nc: *nothing\n");
}

#[test]
fn unknown_kind_or_version() {
    refused("bad-kind", "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolice\nmetadata: {name: x}\n");
    refused("bad-version", "apiVersion: projectcalico.org/v1\nkind: Node\nmetadata: {name: x}\n");
    refused("bad-foreign-kind", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n");
    refused("bad-no-kind", "metadata: {name: x}\n");
    refused("bad-no-object", "just text\n");
}

#[test]
fn bad_values() {
    refused(
        "cidr",
        "apiVersion: projectcalico.org/v3\nkind: IPPool\nmetadata: {name: p}\nspec:\n  cidr: 10.0.0.0/33\n",
    );
    refused("bad-host-bits", &format!("{POLICY}  ingress:\n  - action: Deny\n    source:\n      nets: [10.0.0.1/8]\n"));
    refused(
        "bad-selector",
        &format!("{POLICY}  ingress:\n  - action: Allow\n    source:\n      selector: role = 'web'\n"),
    );
    refused("bad-selector-end", &format!("{POLICY}  selector: \"role == \"\n"));
    refused("bad-action", &format!("{POLICY}  ingress:\n  - protocol: TCP\n"));
    refused("bad-type", &format!("{POLICY}  order: first\n  ingress: {{}}\n"));
    refused("bad-name", "apiVersion: projectcalico.org/v3\nkind: Node\nmetadata: {name: Not_A_Name}\n");
    refused("bad-no-name", "apiVersion: projectcalico.org/v3\nkind: Node\nspec: {}\n");
    refused(
        "bad-label",
        "apiVersion: projectcalico.org/v3\nkind: Node\nmetadata:\n  name: x\n  labels:\n    port: 80\n",
    );
}

#[test]
fn long_text_is_cut() {
    let long = "x".repeat(200_000);
    for bad in [
        format!("{POLICY}  selector: \"role == '{long}' {long}\"\n"),
        format!("{POLICY}  {long}: 1\n"),
        format!("{POLICY}  {long}: 1\n  {long}: 1\n"),
        format!("apiVersion: {long}\nkind: {long}\n"),
        format!("apiVersion: projectcalico.org/v3\nkind: Node\nmetadata: {{name: {long}}}\n"),
        format!("apiVersion: projectcalico.org/v3\nkind: NetworkPolicy\nmetadata: {{name: x, namespace: {long}}}\n"),
        format!("apiVersion: projectcalico.org/v3\nkind: IPPool\nmetadata: {{name: p}}\nspec: {{cidr: {long}}}\n"),
        format!("{POLICY}  order: {long}\n  ingress: [{{action: {long}}}]\n"),
    ] {
        for line in ["apply -f -", "apply -f - -n other"] {
            let run = Cluster::new().type_in(line, &bad);
            assert_eq!(run.code, 1);
            let longest = run.stderr.lines().map(str::len).max();
            assert!(longest < Some(2500), "{longest:?}: {}", run.stderr.chars().take(300).collect::<String>());
        }
    }
}

#[test]
fn no_value_moves_the_cursor() {
    let run = Cluster::new().type_in("apply -f -", &format!("{POLICY}  selector: \"\\e[2J\\a\"\n"));
    assert_eq!(run.code, 1);
    assert!(run.stderr.chars().all(|c| c == '\n' || !c.is_control()), "{run:?}");
}

#[test]
fn unknown_fields() {
    refused(
        "bad-field",
        &format!("{POLICY}  ingress:\n  - action: Allow\n    source:\n      selectr: role == 'web'\n"),
    );
    refused("bad-misplaced-field", &format!("{POLICY}  types: [Ingress]\nselector: all()\n"));
}

#[test]
fn all_faults_of_all_documents_at_once() {
    let pool = "apiVersion: projectcalico.org/v3\nkind: IPPool\nmetadata: {name: p}\nspec: {cidr: x}\n";
    refused(
        "bad-many",
        &format!(
            "{POLICY}  order: a\n  preDNAT: 1\n---\n- {}- kind: Tier\n",
            pool.replace('\n', "\n  ").trim_end_matches(' ')
        ),
    );
}

/// Were the line of each fault looked for, and not only of those that are shown, this would take many minutes.
#[test]
fn a_file_of_nothing_but_faults() {
    let run = Cluster::new().type_in("validate -f -", &"kind: Foo\n---\n".repeat(100_000));
    assert!(run.transcript().contains("… and 99980 more"), "{}", run.transcript());
}

#[test]
fn namespaces_must_agree() {
    let cluster = Cluster::new();
    let policy = "apiVersion: projectcalico.org/v3\nkind: NetworkPolicy\nmetadata:\n  name: x\n  namespace: a\n";
    golden("bad-namespace.txt", &cluster.type_in("apply -f - -n b", policy).transcript());
    golden("bad-not-namespaced.txt", &cluster.type_in("get nodes -n b", "").transcript());
    golden("bad-all-and-name.txt", &cluster.type_in("get np x -A", "").transcript());
}

#[test]
fn files_that_cannot_be_read() {
    let cluster = Cluster::new();
    golden("bad-file.txt", &cluster.type_in("apply -f /nonexistent/policy.yaml", "").transcript());
    golden("bad-url.txt", &cluster.type_in("apply -f https://example.org/policy.yaml", "").transcript());
    golden("bad-empty.txt", &cluster.type_in("apply -f -", "# nothing\n").transcript());
    assert_eq!(cluster.done("apply -f - --skip-empty", "# nothing\n"), "No resources specified\n");
    golden("bad-config.txt", &crate::common::type_in_environment("get nodes -c /nonexistent.cfg", &[]).transcript());
}

#[test]
fn kinds_that_do_not_exist() {
    golden("bad-get-kind.txt", &Cluster::new().type_in("get globalnetworkpolicie", "").transcript());
    golden("bad-get-any-kind.txt", &Cluster::new().type_in("get wibble", "").transcript());
}

#[test]
fn wrong_usage() {
    for (name, line) in [
        ("usage-no-verb", ""),
        ("usage-unknown-verb", "aply -f x"),
        ("usage-later-verb", "ipam show"),
        ("usage-no-file", "apply"),
        ("usage-unknown-option", "get nodes --oputput yaml"),
        ("usage-bad-format", "get nodes -o xml"),
        ("usage-delete-nothing", "delete gnp"),
        ("usage-names-of-many", "get gnp,np a"),
        ("usage-all-and-namespace", "get np -A -n x"),
        ("usage-bad-namespace", "get np -n Bad_NS"),
    ] {
        let run = Cluster::new().type_in(line, "");
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{line}: {run:?}");
        golden(&format!("{name}.txt"), &run.stderr);
    }
}

#[test]
fn help_is_for_people() {
    for (name, line) in [
        ("help", "--help"),
        ("help-apply", "apply --help"),
        ("help-get", "get --help"),
        ("help-patch", "patch --help"),
        ("help-label", "label --help"),
        ("version", "version --client"),
    ] {
        golden(&format!("{name}.txt"), &Cluster::new().done(line, ""));
    }
    for shell in ["bash", "zsh", "fish"] {
        let script = Cluster::new().done(&format!("completion {shell}"), "");
        assert!(!script.contains("blockaffinities"), "no verb takes it");
        assert!(script.contains("calicoctl"));
        // Fish completes no arguments.
        assert_eq!(script.contains("globalnetworkpolicies"), shell != "fish", "{shell}");
    }
}
