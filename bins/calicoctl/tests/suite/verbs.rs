//! What the verbs do and print.

use crate::common::{Cluster, golden};
use calico_core::resource::{Kind, ResourceKey};
use calico_datastore::{Datastore, Scope};

const CLUSTER: &str = include_str!("../cluster.yaml");

fn cluster() -> Cluster {
    let cluster = Cluster::new();
    assert_eq!(cluster.done("apply -f -", CLUSTER), "Successfully applied 10 resource(s)\n");
    cluster
}

fn policy(name: &str, spec: &str) -> String {
    format!("apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata:\n  name: {name}\nspec: {spec}\n")
}

#[tokio::main(flavor = "current_thread")]
async fn count(cluster: &Cluster) -> usize {
    cluster.store.list(&Scope::All).await.unwrap().entries.len()
}

#[tokio::main(flavor = "current_thread")]
async fn raw(cluster: &Cluster, key: ResourceKey) -> serde_json::Value {
    serde_json::Value::clone(&cluster.store.get(&key).await.unwrap().raw)
}

#[tokio::main(flavor = "current_thread")]
async fn revision(cluster: &Cluster) -> calico_datastore::Revision {
    cluster.store.list(&Scope::All).await.unwrap().revision
}

fn inject(cluster: &Cluster, key: ResourceKey, text: &str) {
    cluster.store.inject(key, text.as_bytes());
}

const EVERY_KIND: &str = "nodes,ippools,tiers,gnp,np,netsets,gnetsets,profiles,wep";

#[test]
fn tables() {
    let cluster = cluster();
    golden("table.txt", &cluster.done(&format!("get {EVERY_KIND} -A"), ""));
    golden("wide.txt", &cluster.done(&format!("get {EVERY_KIND} -A -o wide"), ""));
    golden("names.txt", &cluster.done(&format!("get {EVERY_KIND} -A -o name"), ""));
}

#[test]
fn documents() {
    let cluster = cluster();
    golden("named.yaml", &cluster.done("get gnp allow-dns -o yaml", ""));
    golden("list.yaml", &cluster.done("get wep -n shop -o yaml", ""));
    golden("list.json", &cluster.done("get nodes -o json", ""));
    golden("exported.yaml", &cluster.done("get np security.web -n shop -o yaml --export", ""));
}

#[test]
fn an_empty_listing_is_a_heading() {
    assert_eq!(Cluster::new().done("get np", ""), "NAME   TIER\n\n");
    assert_eq!(Cluster::new().done("get wep -A", ""), "NAMESPACE   WORKLOAD   NODE   NETWORKS   INTERFACE\n\n");
}

#[test]
fn what_get_prints_can_be_applied_to_another_cluster() {
    let first = cluster();
    let printed = first.done(&format!("get {EVERY_KIND} -A -o yaml"), "");
    let printed = printed.replace("resourceVersion", "x-resourceVersion");
    assert_ne!(Cluster::new().type_in("apply -f -", &printed).code, 0, "an unknown field is refused");
    let second = Cluster::new();
    for kind in EVERY_KIND.split(',') {
        let printed = first.done(&format!("get {kind} -A -o yaml"), "");
        second.done("apply -f -", &printed);
        let strip = |text: &str| -> Vec<String> {
            let volatile = |line: &&str| !line.contains("resourceVersion") && !line.contains("uid:");
            text.lines().filter(volatile).map(str::to_owned).collect()
        };
        assert_eq!(strip(&second.done(&format!("get {kind} -A -o yaml"), "")), strip(&printed));
    }
}

#[test]
fn an_object_of_a_newer_version_can_be_edited_and_keeps_its_fields() {
    let cluster = cluster();
    let key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "newer");
    let newer = r#"{"kind":"GlobalNetworkPolicy","apiVersion":"projectcalico.org/v3","metadata":{"name":"newer","uid":"u",
        "creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"selector":"all()","future":{"a":[1]},"types":["Ingress"],
        "ingress":[{"action":"Deny","futureMatch":"x"}]}}"#;
    inject(&cluster, key.clone(), newer);
    let printed = cluster.done("get gnp newer -o yaml", "");
    assert!(printed.contains("futureMatch: x"), "{printed}");
    cluster.done("apply -f -", &printed.replace("all()", "role == \"a\"").replace("futureMatch: x", "futureMatch: z"));
    let stored = raw(&cluster, key.clone());
    assert_eq!(stored["spec"]["selector"], "role == \"a\"");
    assert_eq!(stored["spec"]["ingress"][0]["futureMatch"], "z");
    assert_eq!(stored["metadata"]["uid"], "u");
    // A document that never knew the field leaves it alone.
    cluster.done("apply -f -", &policy("newer", "{selector: all(), ingress: [{action: Deny}]}"));
    let stored = raw(&cluster, key.clone());
    assert_eq!((&stored["spec"]["future"]["a"][0], &stored["spec"]["selector"]), (&1.into(), &"all()".into()));
    // A field that the stored object does not have is still a mistake.
    let run = cluster.type_in("apply -f -", &policy("newer", "{selectr: all()}"));
    assert_eq!(run.code, 1);
    assert_eq!(raw(&cluster, key), stored);
}

#[test]
fn create_replace_and_delete_insist_on_what_is_there() {
    let cluster = cluster();
    let document = policy("one", "{}");
    assert_eq!(cluster.done("create -f -", &document), "Successfully created 1 'GlobalNetworkPolicy' resource(s)\n");
    golden("exists.txt", &cluster.type_in("create -f -", &document).transcript());
    assert_eq!(cluster.type_in("create -f - --skip-exists", &document).code, 0);
    assert_eq!(cluster.done("replace -f -", &document), "Successfully replaced 1 'GlobalNetworkPolicy' resource(s)\n");
    golden("absent.txt", &cluster.type_in("replace -f -", &policy("two", "{}")).transcript());
    assert_eq!(cluster.done("delete gnp one", ""), "Successfully deleted 1 'GlobalNetworkPolicy' resource(s)\n");
    golden("delete-absent.txt", &cluster.type_in("delete gnp one", "").transcript());
    assert_eq!(cluster.type_in("delete gnp one --skip-not-exists", "").code, 0);
    golden("get-absent.txt", &cluster.type_in("get gnp one", "").transcript());
}

#[test]
fn a_file_deletes_what_it_applied() {
    let cluster = cluster();
    assert_eq!(cluster.done("delete -f -", CLUSTER), "Successfully deleted 10 resource(s)\n");
    assert_eq!(count(&cluster), 4, "the cluster's own tiers and identity stay");
}

#[test]
fn a_stale_resource_version_is_a_conflict() {
    let cluster = cluster();
    let printed = cluster.done("get gnp allow-dns -o yaml", "");
    cluster.done("apply -f -", &printed.replace("order: 10", "order: 11"));
    golden("conflict.txt", &cluster.type_in("apply -f -", &printed).transcript());
    golden("conflict.txt", &cluster.type_in("replace -f -", &printed).transcript().replace("replace", "apply"));
}

#[test]
fn the_built_in_profile_is_there_and_cannot_be_changed() {
    let cluster = cluster();
    let profile = "apiVersion: projectcalico.org/v3\nkind: Profile\nmetadata: {name: projectcalico-default-allow}\n";
    assert!(cluster.done("get profile projectcalico-default-allow -o yaml", "").contains("action: Allow"));
    for line in ["apply -f -", "create -f -", "replace -f -", "delete -f -"] {
        assert_eq!(cluster.type_in(line, profile).code, 1, "{line}");
    }
}

#[test]
fn what_get_prints_changes_nothing_where_it_was_printed() {
    let cluster = cluster();
    let before = revision(&cluster);
    for format in ["yaml", "json"] {
        let printed = cluster.done(&format!("get {EVERY_KIND} -A -o {format}"), "");
        assert!(printed.contains("projectcalico-default-allow") && printed.contains("kube-baseline"), "{printed}");
        for verb in ["apply", "replace"] {
            cluster.done(&format!("{verb} -f -"), &printed);
            for kind in EVERY_KIND.split(',') {
                cluster.done(&format!("{verb} -f -"), &cluster.done(&format!("get {kind} -A -o {format}"), ""));
            }
        }
    }
    assert_eq!(revision(&cluster), before, "no change");
}

#[test]
fn a_refused_document_leaves_an_empty_datastore_empty() {
    let cluster = Cluster::new();
    let documents = [policy("one", "{}"), policy("lost.two", "{tier: lost}")].join("---\n");
    for verb in ["apply", "create", "replace"] {
        let run = cluster.type_in(&format!("{verb} -f -"), &documents);
        assert!(run.code == 1 && run.stderr.ends_with("Nothing was changed.\n"), "{run:?}");
        assert_eq!(count(&cluster), 0, "{verb}");
    }
    assert_eq!(cluster.type_in("apply -f - --skip-empty", "").code, 0);
    assert_eq!(count(&cluster), 0, "nothing was to be written");
    let tier = "apiVersion: projectcalico.org/v3\nkind: Tier\nmetadata: {name: kube-admin}\nspec: {order: 1000, defaultAction: Pass}\n";
    assert!(cluster.type_in("create -f -", tier).stderr.contains("already exists"), "writing makes it first");
    cluster.done("create -f -", &policy("one", "{tier: default}"));
    assert_eq!(count(&cluster), 5, "the policy, and the cluster's own tiers and identity");
}

/// Only somebody else's write between check and write can make one of several fail.
#[test]
fn one_failure_does_not_stop_the_others() {
    let cluster = cluster();
    let documents = [policy("one", "{}"), policy("two", "{}"), policy("three", "{}")].join("---\n");
    cluster.store.faults().conflict_next(1);
    golden("partial.txt", &cluster.type_in("create -f -", &documents).transcript());
    cluster.done("get gnp three", "");
}

#[test]
fn what_the_datastore_would_refuse_is_found_before_the_first_write() {
    let cluster = cluster();
    let before = count(&cluster);
    let tier = |name: &str| format!("apiVersion: projectcalico.org/v3\nkind: Tier\nmetadata: {{name: {name}}}\n");
    let pool = |name: &str, cidr: &str| {
        format!(
            "apiVersion: projectcalico.org/v3\nkind: IPPool\nmetadata: {{name: {name}}}\nspec: {{cidr: {cidr}, natOutgoing: true}}\n"
        )
    };
    let new = policy("new", "{}");
    let refused = |name: &str, line: &str, documents: &[String]| {
        let run = cluster.type_in(line, &documents.join("---\n"));
        assert_eq!(run.code, 1, "{name}: {run:?}");
        golden(&format!("{name}.txt"), &run.transcript());
        assert_eq!(count(&cluster), before, "{name}");
    };
    refused("early-no-tier", "apply -f -", &[new.clone(), policy("lost.one", "{tier: lost}")]);
    refused("early-absent", "replace -f -", &[policy("allow-dns", "{order: 99}"), new.clone(), policy("new2", "{}")]);
    refused("early-exists", "create -f -", &[new.clone(), policy("allow-dns", "{}")]);
    refused("early-pools", "apply -f -", &[pool("p1", "10.99.0.0/16"), pool("p2", "10.99.1.0/24")]);
    refused(
        "early-built-in",
        "apply -f -",
        &[
            new.clone(),
            "apiVersion: projectcalico.org/v3\nkind: Profile\nmetadata: {name: projectcalico-default-allow}\n".into(),
        ],
    );
    let mixed = [policy("lost.one", "{tier: lost}"), tier("security"), policy("lost.two", "{tier: lost}")];
    refused("early-mixed", "create -f -", &mixed);
    cluster.store.faults().fail_next(9);
    let run = cluster.type_in("apply -f -", &[new.clone(), policy("new2", "{}")].join("---\n"));
    cluster.store.faults().fail_next(0);
    assert!(run.code == 1 && run.stderr.ends_with("Nothing was changed.\n"), "{run:?}");
    assert_eq!(count(&cluster), before);
    assert!(!cluster.done("get gnp allow-dns -o yaml", "").contains("order: 99"));
    let documents = [tier("fresh"), policy("fresh.one", "{tier: fresh}")].join("---\n");
    assert_eq!(cluster.done("create -f -", &documents), "Successfully created 2 resource(s)\n");
    // What needs a tier may stand before it; what is told keeps the order of the documents.
    let documents =
        [policy("later.one", "{tier: later}"), tier("later"), policy("later.two", "{tier: later}")].join("---\n");
    for verb in ["diff", "apply --dry-run", "apply", "replace", "delete --dry-run", "delete"] {
        let run = cluster.type_in(&format!("{verb} -f -"), &documents);
        assert_eq!((run.code, run.stderr.as_str()), (u8::from(verb == "diff"), ""), "{verb}: {run:?}");
    }
    let skipped = [policy("allow-dns", "{}"), new].join("---\n");
    cluster.done("create -f - --skip-exists", &skipped);
}

/// Left out is not changed: a tier given by its name alone keeps its own order, not that of any tier.
#[test]
fn the_clusters_own_tiers_stay_as_they_are() {
    let cluster = cluster();
    cluster.done("apply -f -", &policy("one", "{}"));
    let before = revision(&cluster);
    let tier = |name: &str, spec: &str| {
        format!("apiVersion: projectcalico.org/v3\nkind: Tier\nmetadata: {{name: {name}}}\nspec: {spec}\n")
    };
    for (name, action) in [("default", "Pass"), ("kube-admin", "Deny"), ("kube-baseline", "Deny")] {
        for (field, value) in [("order", "7"), ("defaultAction", action)] {
            let spec = format!("{{{field}: {value}}}");
            for verb in ["apply", "replace", "create", "validate"] {
                let run = cluster.type_in(&format!("{verb} -f -"), &tier(name, &spec));
                let told = format!("spec.{field} = '{value}' (the {name} tier must have");
                assert!(run.code == 1 && run.stderr.contains(&told), "{run:?}");
            }
        }
        for verb in ["apply", "replace"] {
            cluster.done(&format!("{verb} -f -"), &tier(name, "{}"));
        }
    }
    assert_eq!(revision(&cluster), before, "nothing was written");
}

/// The stored policy is a newer version's.
#[test]
fn what_a_rewrite_loses_of_newer_versions_is_told() {
    let cluster = cluster();
    let stored = r#"{"metadata": {"name": "new"}, "spec": {"tier": "default", "types": ["Ingress"], "ingress": [
        {"action": "Allow", "later": 1}, {"action": "Deny"}]}}"#;
    let later = || cluster.done("get gnp new -o yaml", "").contains("later: 1");
    inject(&cluster, ResourceKey::cluster(Kind::GlobalNetworkPolicy, "new"), stored);
    cluster.done("apply -f -", &policy("new", "{ingress: [{action: Pass}, {action: Deny}]}"));
    assert!(later(), "it stays where one rule became another");
    for verb in ["apply", "replace"] {
        inject(&cluster, ResourceKey::cluster(Kind::GlobalNetworkPolicy, "new"), stored);
        let run = cluster.type_in(&format!("{verb} -f -"), &policy("new", "{ingress: [{action: Deny}]}"));
        assert!(!later());
        let told = "warning: GlobalNetworkPolicy(new): the field spec.ingress[0].later of the stored resource";
        assert!(run.code == 0 && run.stderr.starts_with(told) && run.stderr.lines().count() == 1, "{run:?}");
        cluster.done(&format!("{verb} -f -"), &policy("new", "{ingress: [{action: Deny}]}"));
    }
}

#[test]
fn the_same_object_twice_is_refused() {
    let cluster = cluster();
    let before = count(&cluster);
    let twice = [policy("one", "{order: 1}"), policy("two", "{}"), policy("one", "{order: 2}")].join("---\n");
    for verb in ["apply", "create", "replace", "validate", "delete"] {
        let run = cluster.type_in(&format!("{verb} -f -"), &twice);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{run:?}");
        golden("twice.txt", &run.stderr.replace(&format!("failed to {verb} "), "failed to VERB "));
        assert_eq!(count(&cluster), before, "{verb}");
    }
    let set = |namespace: &str| {
        format!("apiVersion: projectcalico.org/v3\nkind: NetworkSet\nmetadata: {{name: s{namespace}}}\n")
    };
    let run = cluster.type_in("apply -f -", &[set(""), set(", namespace: default")].join("---\n"));
    assert!(run.stderr.contains("NetworkSet(default/s) is given twice"), "{run:?}");
    cluster.done("apply -f -", &[set(""), set(", namespace: other")].join("---\n"));
    let dns = policy("allow-dns", "{}");
    cluster.done("get -f -", &[dns.clone(), dns].join("---\n"));
}

#[test]
fn listings_of_several_kinds_are_read() {
    let first = cluster();
    let kinds = EVERY_KIND;
    for format in ["yaml", "json"] {
        let printed = first.done(&format!("get {kinds} -A -o {format}"), "");
        let second = Cluster::new();
        second.done("apply -f -", &printed);
        assert_eq!(
            second.done(&format!("get {kinds} -A -o name"), ""),
            first.done(&format!("get {kinds} -A -o name"), "")
        );
        first.done("apply -f -", &printed);
        let printed = first.done(&format!("get np,netsets,gnetsets -A -o {format}"), "");
        second.done("delete -f -", &printed);
        assert_eq!(second.done("get np,netsets,gnetsets -A -o name", ""), "");
    }
    let typed = "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicyList\nmetadata: {resourceVersion: '5'}\nitems:\n\
                 - metadata: {name: bare}\n  spec: {order: 1}\n";
    first.done("apply -f -", typed);
    first.done("get gnp bare", "");
}

#[test]
fn conditions_that_are_not_carried_out_are_warned_of() {
    let cluster = cluster();
    let spec = "
  types: [Ingress, Egress]
  ingress:
  - action: Allow
    protocol: TCP
    http: {methods: [GET]}
  egress:
  - action: Allow
  - action: Deny
    destination: {services: {name: web, namespace: shop}}
";
    for verb in ["apply", "replace", "validate"] {
        let run = cluster.type_in(&format!("{verb} -f -"), &policy("web", spec));
        assert_eq!(run.code, 0, "{run:?}");
        golden("without-effect.txt", &run.stderr);
    }
    let refused = cluster.type_in("create -f -", &policy("web", spec));
    assert!(refused.code == 1 && !refused.stderr.contains("warning"), "{refused:?}");
}

#[test]
fn a_value_that_is_no_object_is_no_object() {
    let cluster = cluster();
    for (index, text) in ["", "[]", "null", "5"].into_iter().enumerate() {
        inject(&cluster, ResourceKey::cluster(Kind::GlobalNetworkPolicy, &format!("odd-{index}")), text);
    }
    inject(&cluster, ResourceKey::cluster(Kind::GlobalNetworkPolicy, "nameless"), "{\"metadata\":{\"name\":\"x\"}}");
    golden("no-objects.txt", &cluster.type_in("get gnp", "").transcript());
}

#[test]
fn an_unreadable_object_is_reported_beside_the_others() {
    let cluster = cluster();
    inject(&cluster, ResourceKey::cluster(Kind::GlobalNetworkPolicy, "broken"), "{\"spec\": 5}");
    golden("unreadable.txt", &cluster.type_in("get gnp", "").transcript());
}

#[test]
fn validate_needs_no_datastore() {
    let run = crate::common::type_in_environment(
        concat!("validate -f ", env!("CARGO_MANIFEST_DIR"), "/tests/cluster.yaml"),
        &[("DATASTORE_TYPE", "nonsense")],
    );
    assert_eq!((run.code, run.stdout.as_str()), (0, "Successfully validated 10 resource(s)\n"), "{run:?}");
}

#[test]
fn the_environment_chooses_the_datastore() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let environment = [("CALICO_DATASTORE_PATH", path.to_str().unwrap())];
    let file = directory.path().join("policy.yaml");
    std::fs::write(&file, policy("one", "{}")).unwrap();
    for line in ["get gnp", "get gnp one", "delete gnp one"] {
        let run = crate::common::type_in_environment(line, &environment);
        assert_eq!(run.code, 1, "{run:?}");
        let expected =
            format!("no datastore at {}; calico-node run or the first apply makes it: check ", path.display());
        assert!(run.stderr.contains(&expected), "{run:?}");
    }
    let refused = directory.path().join("refused.yaml");
    std::fs::write(&refused, [policy("one", "{}"), policy("two", "{tier: lost}")].join("---\n")).unwrap();
    let run = crate::common::type_in_environment(&format!("apply -f {}", refused.display()), &environment);
    assert!(run.code == 1 && run.stderr.ends_with("Nothing was changed.\n"), "{run:?}");
    assert!(!path.exists(), "neither reading nor a refused document makes a datastore");
    let run = crate::common::type_in_environment(&format!("apply -f {}", file.display()), &environment);
    assert_eq!((run.code, run.stderr), (0, format!("info: made a new, empty datastore: {}\n", path.display())));
    let lost = directory.path().join("mistyped/calico.db");
    let run = crate::common::type_in_environment(
        &format!("apply -f {}", file.display()),
        &[("CALICO_DATASTORE_PATH", lost.to_str().unwrap())],
    );
    assert!(run.code == 1 && run.stderr.contains("mkdir -p "), "{run:?}");
    assert!(!directory.path().join("mistyped").exists());
    let run = crate::common::type_in_environment("get gnp -o name", &environment);
    assert_eq!(run.stdout, "globalnetworkpolicy/one\n");
    let run = crate::common::type_in_environment("version", &environment);
    assert!(run.stdout.contains("sqlite") && run.stdout.contains("calico.db"), "{run:?}");
    let run = crate::common::type_in_environment("get gnp", &[("DATASTORE_TYPE", "kubernetes")]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.starts_with("Failed to create Calico API client: "), "{run:?}");
}

#[test]
fn a_policy_needs_its_tier() {
    let cluster = cluster();
    let run = cluster.type_in("apply -f -", &policy("lost.one", "{tier: lost}"));
    golden("no-tier.txt", &run.transcript());
    golden("tier-in-use.txt", &cluster.type_in("delete tier security", "").transcript());
}

#[test]
fn identity_stays_with_the_object_and_its_cluster() {
    let cluster = cluster();
    let key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "allow-dns");
    let before = raw(&cluster, key.clone());
    let foreign = "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata: {name: NAME, uid: foreign, \
                   creationTimestamp: '2000-01-01T00:00:00Z'}\nspec: {order: 1}\n";
    cluster.done("apply -f -", &foreign.replace("NAME", "allow-dns"));
    let after = raw(&cluster, key);
    assert_eq!(after["spec"]["order"], 1);
    for name in ["uid", "creationTimestamp"] {
        assert_eq!(after["metadata"][name], before["metadata"][name]);
    }
    cluster.done("create -f -", &foreign.replace("NAME", "new"));
    let created = raw(&cluster, ResourceKey::cluster(Kind::GlobalNetworkPolicy, "new"));
    assert_ne!(created["metadata"]["uid"], "foreign");
    assert_eq!(created["metadata"]["creationTimestamp"], "2026-01-02T03:04:05Z");
}

#[test]
fn kinds_that_nothing_acts_on_are_named_once() {
    let cluster = cluster();
    let reservation = |name: &str| {
        format!(
            "apiVersion: projectcalico.org/v3\nkind: IPReservation\nmetadata: {{name: {name}}}\nspec: {{reservedCIDRs: [10.0.0.9/32]}}\n---\n"
        )
    };
    let warning = "warning: IPReservation: this version checks and stores it, and nothing acts on it yet\n";
    for (line, stdin) in [
        ("validate -f -", reservation("a") + &reservation("b")),
        ("apply --dry-run -f -", reservation("a") + &reservation("b")),
        ("apply -f -", reservation("a") + &reservation("b") + &policy("c", "{}")),
        ("replace -f -", reservation("a")),
        ("label ipreservation a x=y", String::new()),
        ("patch ipreservation a -p {}", String::new()),
    ] {
        let run = cluster.type_in(line, &stdin);
        assert_eq!((run.code, run.stderr.as_str()), (0, warning), "{line}: {run:?}");
    }
    for line in ["get ipreservations -o json", "delete ipreservation a"] {
        assert_eq!(cluster.type_in(line, "").stderr, "", "{line}");
    }
}

#[test]
fn two_policies_do_not_meet_in_one_key() {
    let cluster = cluster();
    let old = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "default.q");
    let stored = r#"{"metadata":{"name":"default.q"},"spec":{"types":["Ingress"],"order":1}}"#;
    inject(&cluster, old.clone(), stored);
    cluster.done("apply -f -", &policy("q", "{order: 2}"));
    for verb in ["apply", "replace", "create"] {
        let run = cluster
            .type_in(&format!("{verb} -f -"), &(policy("default.q", "{order: 3}") + "---\n" + &policy("r", "{}")));
        assert!(run.code == 1 && run.stderr.ends_with("Nothing was changed.\n"), "{run:?}");
    }
    assert_eq!(raw(&cluster, old)["spec"]["order"], 2);
    let run = cluster.type_in("apply -f -", &policy("default.q", "{order: 3}"));
    assert!(run.stderr.contains("GlobalNetworkPolicy(q) is stored under this name"), "{run:?}");
    cluster.done("datastore migrate-policy-names", "");
    cluster.done("apply -f -", &(policy("default.q", "{order: 3}") + "---\n" + &policy("q", "{order: 4}")));
    let order =
        |name: &str| raw(&cluster, ResourceKey::cluster(Kind::GlobalNetworkPolicy, name))["spec"]["order"].clone();
    assert_eq!((order("default.q"), order("q")), (3.into(), 4.into()));
}

#[test]
fn numbers_are_shown_as_go_shows_them() {
    let cluster = cluster();
    for (order, shown, written) in [
        ("1e308", "1e+308", "1e+308"),
        ("1000000", "1e+06", "1000000"),
        ("1e21", "1e+21", "1e+21"),
        ("1e20", "1e+20", "1e+20"),
        ("0.5", "0.5", "0.5"),
        ("0.00001", "1e-05", "1e-05"),
        ("-1.5e300", "-1.5e+300", "-1.5e+300"),
        ("0.0001", "0.0001", "0.0001"),
        ("0", "0", "0"),
    ] {
        cluster.done("apply -f -", &policy("numbers", &format!("{{order: {order}}}")));
        let table = cluster.done("get gnp numbers -o custom-columns=ORDER", "");
        assert_eq!(table, format!("ORDER\n{shown}\n\n"), "{order}");
        let document = cluster.done("get gnp numbers -o yaml", "");
        assert!(document.contains(&format!("  order: {written}\n")), "{document}");
    }
}

#[test]
fn the_etcd_datastore_wins_over_a_path_and_says_so() {
    let environment = [("ETCD_ENDPOINTS", "http://127.0.0.1:1"), ("CALICO_DATASTORE_PATH", "/nowhere/calico.db")];
    let run = crate::common::type_in_environment("version", &environment);
    assert!(run.stdout.contains("etcdv3"), "{run:?}");
    assert!(
        run.stderr.starts_with("warning: using the etcd datastore, not the embedded one at /nowhere/calico.db"),
        "{run:?}"
    );
    let chosen = [environment[0], environment[1], ("DATASTORE_TYPE", "etcdv3")];
    let run = crate::common::type_in_environment("version", &chosen);
    assert!(!run.stderr.contains("warning"), "{run:?}");
}

#[test]
fn a_link_that_leads_nowhere_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("calico.db");
    std::os::unix::fs::symlink("elsewhere/calico.db", &link).unwrap();
    let environment = [("CALICO_DATASTORE_PATH", link.to_str().unwrap())];
    let file = directory.path().join("policy.yaml");
    std::fs::write(&file, policy("one", "{}")).unwrap();
    for line in ["get gnp".to_owned(), format!("apply -f {}", file.display())] {
        let run = crate::common::type_in_environment(&line, &environment);
        assert!(
            run.code == 1 && run.stderr.contains("is a symbolic link to elsewhere/calico.db, which does not exist"),
            "{run:?}"
        );
    }
}

/// A warning that nobody reads keeps nothing from being done.
#[test]
fn a_closed_standard_error_does_not_stop_an_apply() {
    let cluster = Cluster::new();
    let warned = |name: &str| policy(name, "{ingress: [{action: Allow, http: {methods: [GET]}}]}");
    let both = warned("a") + "---\n" + &warned("b");
    let heard = Cluster::new().type_in("apply -f -", &both);
    assert!(heard.stderr.lines().count() > 1, "there is something to warn of: {heard:?}");
    for line in ["apply --dry-run -f -", "validate -f -", "apply -f -", "replace -f -"] {
        let (code, shown) = cluster.type_unheard(line, &both);
        assert_eq!((code, shown.starts_with("Successfully ")), (0, true), "{line}: {shown}");
    }
    assert_eq!(cluster.type_in("get gnp a b -o name", "").code, 0);
    // The end is told all the same, and its code is that of the failure.
    let (code, _) = cluster.type_unheard("create -f -", &both);
    assert_eq!(code, 1);
    let (code, shown) = cluster.type_unheard("patch gnp a -p {\"spec\":{\"order\":1}}", "");
    assert_eq!((code, shown.starts_with("Successfully ")), (0, true), "{shown}");
}

/// A document that was printed is deleted as it was printed, or not at all: somebody may have changed it, or made another one.
#[test]
fn an_outdated_document_deletes_nothing() {
    let cluster = cluster();
    let printed = cluster.done("get gnp allow-dns -o yaml", "");
    cluster.done("label gnp allow-dns a=b", "");
    for line in ["delete -f -", "delete --dry-run -f -"] {
        let run = cluster.type_in(line, &printed);
        assert!(
            run.code == 1 && run.stderr.contains("update conflict: GlobalNetworkPolicy(allow-dns)"),
            "{line}: {run:?}"
        );
    }
    let printed = cluster.done("get gnp allow-dns -o yaml", "");
    cluster.done("delete --dry-run -f -", &printed);
    let run = cluster.type_in("delete -f -", &printed.replace("resourceVersion: \"", "resourceVersion: \"x"));
    assert!(run.code == 1 && run.stderr.contains("metadata.resourceVersion"), "{run:?}");
    cluster.done("delete -f -", &printed);
}
