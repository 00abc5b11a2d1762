//! What holds for every kind: the names it goes by, the rules of namespaces, what `--export` leaves out, and what is said of a mistyped
//! field.

use std::fmt::Write as _;

use crate::common::{Cluster, golden};
use calico_core::resource::{Kind, ResourceKey, Scope, TIER_LABEL};

/// Kinds with the names that upstream takes for them.
const NAMES: [(Kind, &str); 22] = [
    (Kind::BgpConfiguration, "bgpconfiguration bgpconfigurations bgpconfig bgpconfigs"),
    (Kind::BgpFilter, "bgpfilter bgpfilters bgpf bgpfs bf bfs"),
    (Kind::BgpPeer, "bgppeer bgppeers bgpp bgpps bp bps"),
    (Kind::CalicoNodeStatus, "caliconodestatus caliconodestatuses nodestatus nodestatuses"),
    (Kind::ClusterInformation, "clusterinformation clusterinformations clusterinfo clusterinfos"),
    (Kind::FelixConfiguration, "felixconfiguration felixconfigurations felixconfig felixconfigs"),
    (Kind::GlobalNetworkPolicy, "globalnetworkpolicy globalnetworkpolicies gnp gnps"),
    (Kind::GlobalNetworkSet, "globalnetworkset globalnetworksets gnetsets"),
    (Kind::HostEndpoint, "hostendpoint hostendpoints hep heps"),
    (Kind::IpamConfiguration, "ipamconfiguration ipamconfigurations ipamconfig ipamconfigs"),
    (Kind::IpPool, "ippool ippools ipp ipps pool pools"),
    (Kind::IpReservation, "ipreservation ipreservations reservation reservations"),
    (
        Kind::KubeControllersConfiguration,
        "kubecontrollersconfiguration kubecontrollersconfigurations kubecontrollersconfig kubecontrollersconfigs",
    ),
    (Kind::NetworkPolicy, "networkpolicy networkpolicies policy policies np pol pols"),
    (Kind::NetworkSet, "networkset networksets netsets"),
    (Kind::Node, "node nodes no nos"),
    (Kind::Profile, "profile profiles pro pros"),
    (Kind::StagedGlobalNetworkPolicy, "stagedglobalnetworkpolicy stagedglobalnetworkpolicies sgnp sgnps"),
    (
        Kind::StagedKubernetesNetworkPolicy,
        "stagedkubernetesnetworkpolicy stagedkubernetesnetworkpolicies stagedkubernetespolicy stagedkubernetespolicies sknp skpol skpols",
    ),
    (Kind::StagedNetworkPolicy, "stagednetworkpolicy stagednetworkpolicies stagedpolicy stagedpolicies snp spol spols"),
    (Kind::Tier, "tier tiers"),
    (Kind::WorkloadEndpoint, "workloadendpoint workloadendpoints wep weps"),
];

#[test]
fn every_name_of_upstreams_is_known() {
    let cluster = Cluster::new();
    for (kind, names) in NAMES {
        for name in names.split(' ') {
            for name in [name.to_owned(), name.to_uppercase()] {
                let shown = cluster.done(&format!("get {name} -o yaml"), "");
                assert!(shown.contains(&format!("kind: {kind}List\n")), "{name}: {shown}");
            }
        }
    }
}

#[test]
fn namespaces_of_every_kind() {
    let cluster = Cluster::new();
    for kind in Kind::OPERATORS {
        let (plural, namespaced) = (kind.plural(), kind.scope() == Scope::Namespaced);
        let heading = |line: &str| cluster.done(line, "").starts_with("NAMESPACE");
        assert!(!heading(&format!("get {plural}")), "{kind}");
        for all in ["-A", "-a", "--all-namespaces"] {
            assert_eq!(heading(&format!("get {plural} {all}")), namespaced, "{kind}");
        }
        let run = cluster.type_in(&format!("get {plural} -n shop"), "");
        if namespaced {
            assert!(run.code == 0 && run.stdout.starts_with("NAMESPACE"), "{run:?}");
        } else {
            assert_eq!((run.code, run.stderr), (1, format!("{kind} is not namespaced\n")));
        }
        let run = cluster.type_in(&format!("get {plural} x -A"), "");
        let told = "cannot use --all-namespace flag for getting a single resource\n";
        assert_eq!((run.code, run.stderr.as_str()), (1, told), "{kind}");
        assert_eq!(cluster.type_in(&format!("get {plural} -n shop -A"), "").code, 2, "{kind}");
    }
}

/// A specification of each kind that can be read, and one with a mistyped field.
const SPECIFICATIONS: [(Kind, &str, &str); 23] = [
    (Kind::Node, "{}", "bgp:\n    ipv4Adress: 192.0.2.1/24"),
    (Kind::IpPool, r#"{"cidr": "10.0.0.0/16"}"#, "cidr: 10.0.0.0/16\n  natOutgoin: true"),
    (Kind::WorkloadEndpoint, r#"{"node": "x", "interfaceName": "cali1"}"#, "node: x\n  interfaceNam: cali1"),
    (Kind::HostEndpoint, r#"{"node": "x", "interfaceName": "eth0"}"#, "node: x\n  expectedIP: [192.0.2.1]"),
    (Kind::Profile, "{}", "labelToApply: {}"),
    (Kind::Tier, "{}", "ordr: 1"),
    (Kind::NetworkPolicy, "{}", "selectr: all()"),
    (Kind::GlobalNetworkPolicy, "{}", "preDNTA: true"),
    (Kind::NetworkSet, "{}", "net: [192.0.2.0/24]"),
    (Kind::GlobalNetworkSet, "{}", "netz: [192.0.2.0/24]"),
    (Kind::StagedNetworkPolicy, "{}", "stagedActin: Set"),
    (Kind::StagedGlobalNetworkPolicy, "{}", "doNotTrak: true"),
    (Kind::StagedKubernetesNetworkPolicy, "{}", "podSelectr: {}"),
    (Kind::IpReservation, "{}", "reservedCIDR: [192.0.2.0/24]"),
    (Kind::IpamConfiguration, "{}", "strictAffinty: true"),
    (Kind::BgpConfiguration, "{}", "asNumbr: 64512"),
    (Kind::BgpPeer, r#"{"peerIP": "192.0.2.1", "asNumber": 1}"#, "peerIp: 192.0.2.1\n  asNumber: 1"),
    (Kind::BgpFilter, "{}", "exportV4:\n  - acton: Accept"),
    (Kind::FelixConfiguration, "{}", "bpfEnable: true"),
    (Kind::ClusterInformation, "{}", "calicoVersio: v3"),
    (Kind::KubeControllersConfiguration, "{}", "controllers:\n    node:\n      reconcilerPeriodd: 1m"),
    (Kind::CalicoNodeStatus, r#"{"node": "x"}"#, "node: x\n  clases: [BGP]"),
    (Kind::LiveMigration, "{}", "targt: {}"),
];

#[test]
fn every_kind_has_a_specification_here() {
    let mut kinds: Vec<Kind> = SPECIFICATIONS.iter().map(|(kind, ..)| *kind).collect();
    kinds.sort_unstable();
    let mut expected = Kind::OPERATORS.to_vec();
    expected.sort_unstable();
    assert_eq!(kinds, expected);
}

#[test]
fn a_mistyped_field_of_any_kind_is_shown_where_it_stands() {
    let mut transcripts = String::new();
    for (kind, _, mistyped) in SPECIFICATIONS {
        let document =
            format!("apiVersion: projectcalico.org/v3\nkind: {kind}\nmetadata:\n  name: x\nspec:\n  {mistyped}\n");
        let run = Cluster::new().type_in("validate -f -", &document);
        assert_eq!((run.code, run.stdout.as_str()), (1, ""), "{kind}: {run:?}");
        let _ = writeln!(transcripts, "== {kind}\n{}", run.stderr);
    }
    golden("mistyped-fields.txt", &transcripts);
}

/// Their objects are shown with a label, whoever stored them.
const TIERED: [Kind; 4] =
    [Kind::NetworkPolicy, Kind::GlobalNetworkPolicy, Kind::StagedNetworkPolicy, Kind::StagedGlobalNetworkPolicy];

#[test]
fn export_leaves_out_what_belongs_to_the_cluster() {
    let cluster = Cluster::new();
    for (kind, specification, _) in SPECIFICATIONS {
        let key = match kind.scope() {
            Scope::Namespaced => ResourceKey::namespaced(kind, "default", "x"),
            Scope::Cluster => ResourceKey::cluster(kind, "x"),
        };
        let document = format!(
            r#"{{"kind": "{kind}", "apiVersion": "projectcalico.org/v3", "metadata": {{"name": "x", "namespace": "default", "uid": "u",
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {{"a": "b"}}}}, "spec": {specification}}}"#
        );
        cluster.store.inject(key, document.as_bytes());
        let metadata = |line: &str| -> serde_json::Value {
            let shown: serde_json::Value = serde_json::from_str(&cluster.done(line, "")).unwrap();
            let listed = shown["items"].as_array().into_iter().flatten().find(|item| item["metadata"]["name"] == "x");
            listed.unwrap_or(&shown)["metadata"].clone()
        };
        let plural = kind.plural();
        let exported = metadata(&format!("get {plural} x -o json --export"));
        let mut expected = serde_json::json!({"name": "x", "labels": {"a": "b"}});
        if TIERED.contains(&kind) {
            expected["labels"][TIER_LABEL] = "default".into();
        }
        assert_eq!(exported, expected, "{kind}");
        for whole in [format!("get {plural} x -o json"), format!("get {plural} -o json --export")] {
            assert_eq!(metadata(&whole)["uid"], "u", "{kind}: of a list nothing is left out");
        }
    }
}
