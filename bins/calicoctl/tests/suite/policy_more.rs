//! `policy explain`, `matrix` and `diff` in the corners: host endpoints, settings, both families, traffic of every sort, what goes.

use std::fmt::Write as _;

use crate::common::{Cluster, Run, golden};
use serde_json::Value;

/// Three hosts with a workload each, of both families; whatever a test adds comes behind.
fn town(rest: &[&str]) -> String {
    let mut text = String::new();
    for number in 1..4 {
        write!(
            text,
            "apiVersion: projectcalico.org/v3\nkind: Node\nmetadata: {{name: n{number}}}\nspec: {{bgp: {{ipv4Address: 172.16.0.{number}/24}}}}\n---\n\
             apiVersion: projectcalico.org/v3\nkind: WorkloadEndpoint\nmetadata: {{namespace: town, labels: {{app: a{number}}}}}\n\
             spec: {{node: n{number}, orchestrator: k8s, pod: p{number}, endpoint: eth0, interfaceName: cali{number}, \
             ipNetworks: [10.0.0.{number}/32, 'fd00::{number}/128'], profiles: [projectcalico-default-allow]}}\n---\n"
        )
        .unwrap();
    }
    text + &rest.join("---\n")
}

fn policy(name: &str, spec: &str) -> String {
    format!("apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

fn host_endpoint(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: projectcalico.org/v3\nkind: HostEndpoint\nmetadata: {{name: {name}, labels: {{role: {name}}}}}\nspec: {spec}\n"
    )
}

fn felix(name: &str, spec: &str) -> String {
    format!("apiVersion: projectcalico.org/v3\nkind: FelixConfiguration\nmetadata: {{name: {name}}}\nspec: {spec}\n")
}

fn of(line: &str, documents: &str) -> Run {
    Cluster::new().type_in(&format!("{line} -f -"), documents)
}

fn cluster(documents: &str) -> Cluster {
    let cluster = Cluster::new();
    let run = cluster.type_in("apply -f -", documents);
    assert_eq!(run.code, 0, "{run:?}");
    cluster
}

fn json(run: &Run) -> Value {
    assert!(run.code < 2, "{run:?}");
    serde_json::from_str(&run.stdout).unwrap()
}

/// Whether a flow is allowed.
fn allowed(documents: &str, line: &str) -> bool {
    let run = of(&format!("policy explain {line} -o json"), documents);
    assert_eq!(run.code, 0, "{run:?}");
    json(&run).get("verdict").unwrap() == "allow"
}

#[test]
fn an_address_that_a_host_endpoint_expects_is_its_own() {
    let documents = town(&[
        &host_endpoint("h", "{node: n1, interfaceName: eth0, expectedIPs: [198.51.100.7]}"),
        &policy("closed", "{selector: role == 'h', types: [Ingress], ingress: [{action: Deny}]}"),
    ]);
    let run = of("policy explain --from 192.0.2.1 --to 198.51.100.7:80", &documents);
    assert!(run.stdout.starts_with("192.0.2.1 → hep/h, TCP port 80: denied\n"), "{run:?}");
    assert!(run.stdout.contains("note: 198.51.100.7 is the address of hep/h\n"), "{run:?}");
    let matrix = json(&of("policy matrix --from town/p2 --to 198.51.100.7 --ports tcp/80 -o json", &documents));
    assert_eq!((&matrix[0]["to"], &matrix[0]["verdict"]), (&"hep/h".into(), &"deny".into()));
}

#[test]
fn the_matrix_asks_forwarding_policy_between_hosts() {
    let documents = town(&[
        &host_endpoint("h", "{node: n1, interfaceName: '*'}"),
        &policy(
            "forwarded",
            "{selector: role == 'h', applyOnForward: true, types: [Ingress], ingress: [{action: Deny, protocol: TCP, \
             destination: {ports: [81]}}, {action: Allow}]}",
        ),
    ]);
    let run = of("policy matrix --ports tcp/80,tcp/81", &documents);
    golden("policy-matrix-forwarded.txt", &run.transcript());
    for flow in json(&of("policy matrix --ports tcp/80,tcp/81,udp/4789 -o json", &documents)).as_array().unwrap() {
        let text = |name: &str| flow[name].as_str().unwrap();
        let line = format!(
            "--from {} --to {} --protocol {} --port {}",
            text("from"),
            text("to"),
            text("protocol"),
            flow["port"]
        );
        assert_eq!(allowed(&documents, &line), text("verdict") == "allow", "{flow}");
    }
}

#[test]
fn families_that_differ_are_told_apart() {
    let documents = town(&[&policy(
        "four",
        "{selector: app == 'a1', types: [Ingress], ingress: [{action: Allow, ipVersion: 4, protocol: TCP, destination: {ports: [80]}}, \
         {action: Allow, ipVersion: 6, protocol: TCP, destination: {ports: [81]}}]}",
    )]);
    golden("policy-matrix-families.txt", &of("policy matrix --ports tcp/80,tcp/81", &documents).transcript());
    let found = json(&of("policy matrix --from town/p2 --to town/p1 --ports tcp/80,tcp/82 -o json", &documents));
    let told: Vec<_> = found
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (one["port"].as_u64(), one.get("ipVersion").and_then(Value::as_u64), one["verdict"].as_str()))
        .collect();
    let expected =
        [(Some(80), Some(4), Some("allow")), (Some(80), Some(6), Some("deny")), (Some(82), None, Some("deny"))];
    assert_eq!(told, expected);
}

#[test]
fn settings_of_hosts_count_and_it_is_said_whose_they_are() {
    let host = "--from town/p1 --to 172.16.0.1:80";
    let node = felix("node.n1", "{defaultEndpointToHostAction: Accept}");
    let common = felix("default", "{defaultEndpointToHostAction: Return}");
    assert!(!allowed(&town(&[]), host));
    assert!(allowed(&town(&[&common]), host) && allowed(&town(&[&node]), host));
    assert!(!allowed(&town(&[&node]), "--from town/p2 --to 172.16.0.2:80"), "it is another node's");
    let closed = felix("node.n1", "{defaultEndpointToHostAction: Drop}");
    assert!(!allowed(&town(&[&common, &closed]), host), "the node's own goes before");
    let run = of(&format!("policy explain {host}"), &town(&[&node]));
    assert!(
        run.stdout
            .contains("defaultEndpointToHostAction of n1 is taken to be Accept, as FelixConfiguration node.n1 says"),
        "{run:?}"
    );
    let run = of(&format!("policy explain {host}"), &town(&[]));
    assert!(run.stdout.contains("is taken to be the default, Drop"), "{run:?}");
    // Settings may be given beside a datastore.
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("felix.yaml");
    std::fs::write(&file, &node).unwrap();
    let cluster = cluster(&town(&[]));
    let line = format!("policy explain {host} -o json --felix {}", file.display());
    assert_eq!(json(&cluster.type_in(&line, ""))["verdict"], "allow");
    let selected = felix("some", "{nodeSelector: all(), defaultEndpointToHostAction: Accept}");
    let run = of(&format!("policy explain {host}"), &town(&[&selected]));
    assert!(run.stderr.contains("FelixConfiguration some is not looked at"), "{run:?}");
}

#[test]
fn a_failsafe_port_for_peers_that_cannot_be_read_is_open_to_nobody() {
    let documents = |ports: &str| {
        town(&[
            &host_endpoint("h", "{node: n1, interfaceName: eth0, expectedIPs: [172.16.0.1]}"),
            &felix("default", &format!("{{failsafeInboundHostPorts: [{ports}]}}")),
        ])
    };
    let line = "--from 192.0.2.9 --to hep/h:22";
    assert!(allowed(&documents("{protocol: TCP, port: 22}"), line));
    assert!(allowed(&documents("{net: 192.0.2.0/24, protocol: TCP, port: 22}"), line));
    assert!(!allowed(&documents("{net: 192.0.3.0/24, protocol: TCP, port: 22}"), line));
    let unreadable = documents("{net: office, protocol: TCP, port: 22}");
    assert!(!allowed(&unreadable, line));
    let warning = "warning: FelixConfiguration default: failsafeInboundHostPorts: net: ";
    let asked = of(&format!("policy explain {line}"), &unreadable);
    let compared = cluster(&town(&[])).type_in("policy diff -f -", &unreadable);
    for run in [asked, compared] {
        assert!(run.stderr.contains(warning) && run.stderr.contains("the entry does not count"), "{run:?}");
    }
}

#[test]
fn a_change_of_settings_is_compared() {
    let cluster = cluster(&town(&[]));
    let change = felix("default", "{defaultEndpointToHostAction: Accept}");
    let run = cluster.type_in("policy diff -f -", &change);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.stdout.contains("Settings of hosts:\n  defaultEndpointToHostAction: Drop → Accept\n"), "{run:?}");
    assert!(run.stderr.contains("take their settings from their environment"), "{run:?}");
    // Hosts are ends of a comparison where they have an endpoint.
    let with_host = self::cluster(&town(&[
        &host_endpoint("h", "{node: n1, interfaceName: eth0, expectedIPs: [172.16.0.1]}"),
        &policy(
            "open",
            "{selector: role == 'h', types: [Ingress, Egress], ingress: [{action: Allow}], egress: [{action: Allow}]}",
        ),
    ]));
    let found = json(&with_host.type_in("policy diff -f - --ports tcp/80 -o json", &change));
    assert_eq!(found["flows"][0]["from"], serde_json::json!(["town/p1"]), "{found}");
    assert_eq!(
        (&found["flows"][0]["to"], &found["flows"][0]["after"]),
        (&serde_json::json!(["hep/h"]), &"allow".into())
    );
    let failsafes = felix("default", "{failsafeInboundHostPorts: []}");
    let closed = policy("open", "{selector: role == 'h', types: [Ingress], ingress: [{action: Deny}]}");
    with_host.done("apply -f -", &closed);
    let run = with_host.type_in("policy diff -f -", &failsafes);
    assert!(run.stdout.contains("tcp/22"), "{run:?}");
}

/// What would change is found wherever between the ends of ranges it lies, and in whatever traffic.
#[test]
fn no_sort_of_traffic_is_passed_over() {
    let rules = |rules: &str| {
        town(&[&policy("p", &format!("{{selector: app == 'a1', types: [Ingress], ingress: [{rules}]}}"))])
    };
    let mut told = String::new();
    for (before, after) in [
        ("{action: Allow, protocol: SCTP}", "{action: Deny, protocol: SCTP}"),
        ("{action: Allow, protocol: UDPLite}", "{action: Deny}"),
        ("{action: Allow, protocol: 47}", "{action: Deny}"),
        ("{action: Allow, notProtocol: TCP}", "{action: Deny}"),
        (
            "{action: Allow, protocol: ICMP, icmp: {type: 3, code: 4}}",
            "{action: Allow, protocol: ICMP, icmp: {type: 3}}",
        ),
        ("{action: Allow, protocol: ICMPv6, icmp: {type: 128}}", "{action: Deny}"),
        (
            "{action: Allow, protocol: TCP, source: {ports: ['1:1023']}}",
            "{action: Allow, protocol: TCP, source: {ports: ['1:511']}}",
        ),
        (
            "{action: Allow, protocol: TCP, destination: {ports: ['80:90']}}",
            "{action: Deny, protocol: TCP, source: {ports: ['1:1023']}, destination: {ports: [85]}}, {action: Allow, protocol: TCP, destination: {ports: ['81:95']}}",
        ),
        (
            "{action: Allow, protocol: TCP, destination: {ports: ['8000:9000']}}",
            "{action: Deny, protocol: TCP, destination: {ports: [8500]}}, {action: Allow, protocol: TCP, destination: {ports: ['8000:9000']}}",
        ),
        (
            "{action: Allow, protocol: TCP, destination: {notPorts: ['100:200']}}",
            "{action: Allow, protocol: TCP, destination: {notPorts: ['150:250']}}",
        ),
        (
            "{action: Allow, source: {nets: [192.0.2.0/24]}}",
            "{action: Deny, source: {nets: [192.0.2.128/25]}}, {action: Allow, source: {nets: [192.0.2.0/24]}}",
        ),
    ] {
        let cluster = cluster(&rules(before));
        let run = cluster.type_in("policy diff -f -", &rules(after));
        assert_eq!(run.code, 1, "{run:?}");
        let flows = run.stdout.split_once("Endpoints touched").unwrap().1;
        writeln!(told, "{before}\n=> {after}\n{}", flows.split_once("\n\n").unwrap().1).unwrap();
    }
    golden("policy-diff-sorts.txt", &told);
}

/// Far more ports and prefixes than anybody samples: the one that matters is found.
#[test]
fn many_ports_and_prefixes_hide_nothing() {
    let rules = |special: &str| {
        let mut rules = String::new();
        for number in 0..200 {
            write!(
                rules,
                "{{action: Allow, protocol: TCP, source: {{nets: [203.0.{number}.0/24]}}, destination: {{ports: [{}]}}}}, ",
                1000 + number * 7
            )
            .unwrap();
        }
        town(&[&policy("p", &format!("{{selector: app == 'a1', types: [Ingress], ingress: [{rules}{special}]}}"))])
    };
    let cluster = cluster(&rules("{action: Deny}"));
    let run = cluster.type_in(
        "policy diff -f -",
        &rules("{action: Allow, protocol: TCP, source: {nets: [203.0.150.0/24]}, destination: {ports: [5000]}}, {action: Deny}"),
    );
    assert!(run.stdout.ends_with("Flows that would be allowed:\n  203.0.150.0/24 → town/p1  tcp/5000\n"), "{run:?}");
}

#[test]
fn what_goes_is_compared() {
    let lockdown = policy("lockdown", "{selector: app == 'a1', types: [Ingress], ingress: [{action: Deny}]}");
    let cluster = cluster(&town(&[&lockdown]));
    let run = cluster.type_in("policy diff --delete gnp/lockdown", "");
    golden("policy-diff-deleted.txt", &run.transcript());
    let run = cluster.type_in("policy diff --delete wep/town/n1-k8s-p1-eth0 --ports tcp/80", "");
    assert!(
        run.stdout.contains("WorkloadEndpoint town/p1: gone\n") && run.stdout.contains("  town/p1  gone\n"),
        "{run:?}"
    );
    for (line, told) in [
        ("--delete gnp/nothing", "--delete gnp/nothing: there is no such object (GlobalNetworkPolicy nothing)"),
        ("--delete gnp", "give KIND/NAME"),
        ("--delete gnp/a/b", "GlobalNetworkPolicy is not namespaced"),
        ("--delete wibbles/a", "resource type 'wibbles' is not supported"),
        ("", "--filename"),
        ("--replace-all -f /nonexistent", "--base"),
    ] {
        let run = cluster.type_in(&format!("policy diff {line}"), "");
        assert!(run.code == 2 && run.stderr.contains(told), "{line}: {run:?}");
    }
    // Two directories.
    let directory = tempfile::tempdir().unwrap();
    let (one, other) = (directory.path().join("one.yaml"), directory.path().join("other.yaml"));
    std::fs::write(&one, town(&[&lockdown])).unwrap();
    std::fs::write(&other, town(&[])).unwrap();
    let line = format!("policy diff --base {} -f {} --replace-all --ports tcp/80", one.display(), other.display());
    let run = Cluster::new().type_in(&line, "");
    assert!(run.code == 1 && run.stdout.starts_with("GlobalNetworkPolicy lockdown: gone\n"), "{run:?}");
    // A policy of Kubernetes.
    let closed = "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {name: closed, namespace: town}\nspec: {podSelector: {}}\n";
    std::fs::write(&one, town(&[closed])).unwrap();
    let line = format!("policy diff --base {} --delete knp/town/closed --ports tcp/80", one.display());
    let run = Cluster::new().type_in(&line, "");
    assert!(run.code == 1 && run.stdout.starts_with("KubernetesNetworkPolicy town/closed: gone\n"), "{run:?}");
}

#[test]
fn forwarding_policy_of_hosts_is_compared() {
    let cluster = cluster(&town(&[&host_endpoint("h", "{node: n1, interfaceName: '*'}")]));
    let change =
        policy("f", "{selector: role == 'h', applyOnForward: true, types: [Ingress], ingress: [{action: Deny}]}");
    let found = json(&cluster.type_in("policy diff -f - --ports tcp/80 -o json", &change));
    let flows = found["flows"].as_array().unwrap();
    let is_denied = |flow: &&Value| {
        let of_workloads = flow["from"].as_array().unwrap().contains(&"town/p2".into());
        of_workloads && flow["to"] == serde_json::json!(["town/p1"]) && flow["after"] == "deny"
    };
    assert!(flows.iter().any(|flow| is_denied(&flow)), "{found}");
}

#[test]
fn staged_policy_alone_would_deny_at_the_end_of_its_tier() {
    let staged = |rules: &str| {
        format!(
            "apiVersion: projectcalico.org/v3\nkind: StagedGlobalNetworkPolicy\nmetadata: {{name: s}}\n\
             spec: {{selector: app == 'a1', types: [Ingress], ingress: [{rules}]}}\n"
        )
    };
    let line = "policy explain --from town/p2 --to town/p1:80";
    let told = |documents: &str| of(line, documents).stdout;
    let none = told(&town(&[&staged("")]));
    assert!(none.contains("would deny  were its staged policies enforced, the end of the tier would deny"), "{none}");
    assert!(!told(&town(&[&staged("{action: Allow}")])).contains("would deny"));
    assert!(!told(&town(&[&staged("{action: Deny}")])).contains("would deny"), "the rule says so itself");
    let found = json(&of(&format!("{line} -o json"), &town(&[&staged("")])));
    let steps = found.pointer("/ends/1/steps").and_then(Value::as_array).unwrap();
    assert!(steps.iter().any(|step| step["type"] == "staged-end-of-tier"), "{found}");
}

#[test]
fn documents_of_kubernetes_that_are_odd_are_told() {
    let pod = |name: &str, node: &str| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: a}}\nspec: {{nodeName: {node}}}\nstatus: {{podIP: 10.9.0.1}}\n"
        )
    };
    let line = "policy explain --from 192.0.2.1 --to a/p:80";
    let run = of(line, &pod("p", "n"));
    assert!(run.code == 1 && run.stderr.contains("spec.nodeName") && run.stderr.contains("quotes"), "{run:?}");
    assert!(!run.stderr.contains("Nothing was changed"), "{run:?}");
    assert_eq!(of(line, &pod("p", "'n'")).code, 0);
    let run = of(line, &pod("\"p\\nq\"", "h"));
    assert!(run.code == 1 && run.stderr.contains("metadata.name"), "{run:?}");
    let run = of(line, &[pod("p", "h"), pod("p", "h")].join("---\n"));
    assert!(run.code == 1 && run.stderr.contains("is given twice, first at standard input, document 1"), "{run:?}");
    assert!(run.stderr.contains("at standard input, document 2"), "{run:?}");
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n".to_owned();
    let profile = "apiVersion: projectcalico.org/v3\nkind: Profile\nmetadata: {name: kns.a}\n".to_owned();
    let run = of(line, &[pod("p", "h"), namespace, profile].join("---\n"));
    assert!(run.stderr.starts_with("warning: Profile kns.a is not looked at"), "{run:?}");
    for kind in ["AdminNetworkPolicy", "BaselineAdminNetworkPolicy", "ClusterNetworkPolicy"] {
        let cluster_wide =
            format!("apiVersion: policy.networking.k8s.io/v1alpha1\nkind: {kind}\nmetadata: {{name: x}}\nspec: {{}}\n");
        let run = of(line, &[pod("p", "h"), cluster_wide].join("---\n"));
        assert!(
            run.code == 0 && run.stderr.starts_with(&format!("WARNING: the answer is without 1 {kind}")),
            "{run:?}"
        );
    }
}

#[test]
fn what_is_no_end_says_what_is() {
    let slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: web-x, namespace: town, labels: \
                 {kubernetes.io/service-name: web}}\naddressType: IPv4\nendpoints: [{addresses: [10.0.0.1]}]\nports: [{port: 80}]\n";
    for to in ["town/web:80", "svc/web:80"] {
        let run = of(&format!("policy explain --from town/p1 --to {to}"), &town(&[slice]));
        assert!(run.code == 1 && run.stderr.contains("policy does not see services"), "{run:?}");
    }
    let services = "apiVersion: projectcalico.org/v3\nkind: BGPConfiguration\nmetadata: {name: default}\nspec: {serviceClusterIPs: [{cidr: 10.96.0.0/12}]}\n";
    let run = of("policy explain --from town/p1 --to 10.96.0.1:80", &town(&[services]));
    assert!(run.stdout.contains("note: 10.96.0.1 is an address of services"), "{run:?}");
    let hosts = [
        host_endpoint("one", "{node: n1, interfaceName: eth0, expectedIPs: [172.16.0.1]}"),
        host_endpoint("two", "{node: n1, interfaceName: eth1, expectedIPs: [172.17.0.1]}"),
    ];
    let run = of("policy explain --from hep/one --to hep/two:80", &town(&[&hosts[0], &hosts[1]]));
    assert!(run.stdout.contains("both ends are the host n1 itself"), "{run:?}");
    let closed = policy("closed", "{selector: has(role), types: [Egress]}");
    let run = of("policy explain --from hep/one --to 127.0.0.1:80", &town(&[&hosts[0], &closed]));
    assert!(run.stdout.contains("both ends are the host n1 itself"), "{run:?}");
    let run = of("policy explain --from hep/one --to 192.0.2.1:80", &town(&[&hosts[0], &closed]));
    assert!(run.stdout.contains("denied") && !run.stdout.contains("itself"), "{run:?}");
    let run = of("policy explain --from 172.16.0.1 --to 172.16.0.2:80", &town(&[]));
    assert!(run.stdout.contains("no policy is asked: n1, n2 has no host endpoint for it"), "{run:?}");
}

/// Who reaches a floating address is decided by policy of the workload that it leads to.
#[test]
fn a_floating_address_names_its_workload() {
    let floats = "apiVersion: projectcalico.org/v3\nkind: WorkloadEndpoint\nmetadata: {namespace: town}\n\
                  spec: {node: n1, orchestrator: k8s, pod: q, endpoint: eth0, interfaceName: cali9, ipNetworks: [10.0.0.9/32], \
                  ipNATs: [{internalIP: 10.0.0.9, externalIP: 203.0.113.7}]}\n";
    let run = of("policy explain --from 192.0.2.1 --to 203.0.113.7:80", &town(&[floats]));
    assert!(run.stdout.contains("203.0.113.7 is a floating address of town/q"), "{run:?}");
    assert!(!run.stdout.contains("no policy of this cluster"), "{run:?}");
    let run = of("policy explain --from 192.0.2.1 --to 203.0.113.8:80", &town(&[floats]));
    assert!(run.stdout.contains("no policy of this cluster") && !run.stdout.contains("floating"), "{run:?}");
}

/// Clusters that somebody grew at random: what a comparison says comes true, flow by flow, and what it does not say stays as it is.
#[test]
fn what_a_comparison_says_comes_true() {
    for seed in 0_u64..12 {
        println!("seed {seed}");
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % 1_000_003).unwrap() % below
        };
        let documents = |draw: &mut dyn FnMut(usize) -> usize| {
            let mut rest = vec![host_endpoint("h", "{node: n1, interfaceName: eth0, expectedIPs: [172.16.0.1]}")];
            for number in 0..3 {
                let mut rules = Vec::new();
                for _ in 0..1 + draw(3) {
                    let action = ["Allow", "Deny", "Pass"][draw(3)];
                    let what = [
                        "",
                        ", protocol: TCP",
                        ", protocol: UDP",
                        ", protocol: SCTP, destination: {ports: [7]}",
                        ", protocol: TCP, destination: {ports: ['80:90']}",
                        ", protocol: ICMP, icmp: {type: 8}",
                    ][draw(6)];
                    let who = [
                        "",
                        ", source: {selector: app == 'a2'}",
                        ", source: {nets: [192.0.2.0/24]}",
                        ", source: {notNets: [10.0.0.0/30]}",
                    ][draw(4)];
                    rules.push(format!("{{action: {action}{what}{who}}}"));
                }
                let selector = ["all()", "app == 'a1'", "app == 'a2'", "role == 'h'"][draw(4)];
                let forward = ["", ", applyOnForward: true"][draw(2)];
                let spec = format!(
                    "{{selector: \"{selector}\"{forward}, order: {number}, types: [Ingress], ingress: [{}]}}",
                    rules.join(", ")
                );
                rest.push(policy(&format!("p{number}"), &spec));
            }
            let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
            town(&rest)
        };
        let (before, after) = (documents(&mut draw), documents(&mut draw));
        let (then, now) = (cluster(&before), cluster(&after));
        let ends = "town/,hep/h,192.0.2.9,198.51.100.1";
        let ports = "tcp/22,tcp/85,tcp/7000,udp/53,sctp/7,icmp";
        let line = format!("policy matrix --from {ends} --to {ends} --ports {ports} -o json");
        let pairs = |cluster: &Cluster| json(&cluster.type_in(&line, "")).as_array().unwrap().clone();
        let expand = |flows: Vec<Value>| {
            let mut found = std::collections::BTreeMap::new();
            for flow in flows {
                let versions =
                    flow.get("ipVersion").and_then(Value::as_u64).map_or_else(|| vec![4, 6], |version| vec![version]);
                for version in versions {
                    let key =
                        format!("{} {} {} {} {version}", flow["from"], flow["to"], flow["protocol"], flow["port"]);
                    found.insert(key, flow["verdict"].clone());
                }
            }
            found
        };
        let (then_all, now_all) = (expand(pairs(&then)), expand(pairs(&now)));
        let changed: std::collections::BTreeSet<&String> =
            then_all.iter().filter(|(key, verdict)| now_all.get(*key) != Some(verdict)).map(|(key, _)| key).collect();
        let found = json(&then.type_in(&format!("policy diff -f - --ports {ports} -o json"), &after));
        let mut told = std::collections::BTreeSet::new();
        for flow in found["flows"].as_array().into_iter().flatten() {
            for from in flow["from"].as_array().unwrap() {
                for to in flow["to"].as_array().unwrap().iter().filter(|to| *to != from) {
                    for one in flow["traffic"].as_array().unwrap() {
                        let name = |end: &Value| match end.as_str().unwrap() {
                            "192.0.2.0/24" => Value::from("192.0.2.9"),
                            "elsewhere" => Value::from("198.51.100.1"),
                            _ => end.clone(),
                        };
                        let port = one["ports"].as_str().map_or_else(|| "null".to_owned(), str::to_owned);
                        told.insert(format!(
                            "{} {} {} {port} {}",
                            name(from),
                            name(to),
                            one["protocol"],
                            one["ipVersion"]
                        ));
                    }
                }
            }
        }
        let told_here: std::collections::BTreeSet<&String> =
            told.iter().filter(|key| then_all.contains_key(*key)).collect();
        // Of one family only some ends are: the matrix tells what both have.
        let missed: Vec<_> = changed.iter().filter(|key| !told_here.contains(**key)).collect();
        let invented: Vec<_> = told_here.iter().filter(|key| !changed.contains(**key)).collect();
        let is_of_both = |key: &&&&String| key.ends_with('4') || key.matches("town/").count() == 2;
        let missed: Vec<_> = missed.iter().filter(is_of_both).collect();
        assert!(
            missed.is_empty() && invented.is_empty(),
            "missed {missed:#?}\ninvented {invented:#?}\n{before}\n=====\n{after}"
        );
    }
}
