//! The objects of the benchmarks, from numbers.

use std::net::Ipv4Addr;

use serde_json::{Value, json};

/// The measured host.
pub(super) const NODE: &str = "bench";
/// Where the numbers of endpoints begin that are there from the start.
pub(super) const OTHERS: u32 = 1000;

const API: &str = "projectcalico.org/v3";

/// A workload of the measured host: interface `caliN`, address 10.64.0.0 + N.
pub(super) fn local_endpoint(number: u32) -> Value {
    let mut endpoint = workload(NODE, number, Ipv4Addr::new(10, 64, 0, 0), json!({"app": "web"}));
    if let Some(spec) = endpoint.get_mut("spec").and_then(Value::as_object_mut) {
        let [_, a, b, c] = number.to_be_bytes();
        spec.insert("mac".into(), format!("02:00:00:{a:02x}:{b:02x}:{c:02x}").into());
    }
    endpoint
}

/// A workload of another host, which is a member of one group.
pub(super) fn remote_endpoint(number: u32, group: u32) -> Value {
    workload("elsewhere", number, Ipv4Addr::new(10, 65, 0, 0), json!({"group": format!("g{group}")}))
}

fn workload(node: &str, number: u32, base: Ipv4Addr, labels: Value) -> Value {
    let address = Ipv4Addr::from(u32::from(base) + number);
    json!({
        "apiVersion": API,
        "kind": "WorkloadEndpoint",
        "metadata": {"namespace": "default", "labels": labels},
        "spec": {
            "orchestrator": "cni", "node": node, "containerID": format!("c{number}"), "endpoint": "eth0",
            "interfaceName": format!("cali{number}"), "ipNetworks": [format!("{address}/32")],
        },
    })
}

/// A policy with ten rules for one group, and a network set that gives the group a hundred members.
pub(super) fn group_of_members(group: u32) -> [Value; 2] {
    [group_user(group, group), group_set(group, 100)]
}

/// A policy with ten rules for one group.
pub(super) fn group_user(number: u32, group: u32) -> Value {
    let rules: Vec<Value> = (0..10)
        .map(|port| {
            json!({
                "action": "Allow", "protocol": "TCP",
                "source": {"selector": format!("group == \"g{group}\"")}, "destination": {"ports": [8000 + port]},
            })
        })
        .collect();
    policy(&format!("g{number}"), number, &rules)
}

/// A network set that gives a group members.
pub(super) fn group_set(group: u32, members: u32) -> Value {
    let name = format!("g{group}");
    let first = u32::from(Ipv4Addr::new(10, 128, 0, 0)) + group * 1024;
    let nets: Vec<String> = (0..members).map(|member| format!("{}/32", Ipv4Addr::from(first + member))).collect();
    json!({
        "apiVersion": API, "kind": "GlobalNetworkSet", "metadata": {"name": name, "labels": {"group": name}},
        "spec": {"nets": nets},
    })
}

/// One of so many policies with so many rules, of which only the last rule of the last matches anything.
pub(super) fn last_allows(number: u32, policies: u32, rules: u32) -> Value {
    let rule = |rule: u32| {
        if number + 1 == policies && rule + 1 == rules {
            return json!({"action": "Allow", "protocol": "UDP"});
        }
        json!({
            "action": "Allow", "protocol": "UDP", "source": {"nets": [format!("172.16.{number}.0/24")]},
            "destination": {"ports": [1000 + rule]},
        })
    };
    let rules: Vec<Value> = (0..rules).map(rule).collect();
    policy(&format!("last{number}"), number, &rules)
}

/// A policy by which everything may leave.
pub(super) fn egress_is_free() -> Value {
    json!({
        "apiVersion": API, "kind": "GlobalNetworkPolicy", "metadata": {"name": "egress"},
        "spec": {"selector": "has(app)", "types": ["Egress"], "egress": [{"action": "Allow"}]},
    })
}

fn policy(name: &str, order: u32, ingress: &[Value]) -> Value {
    json!({
        "apiVersion": API, "kind": "GlobalNetworkPolicy", "metadata": {"name": name},
        "spec": {"selector": "has(app)", "order": order, "types": ["Ingress"], "ingress": ingress},
    })
}

/// One of the few policies that all endpoints share.
pub(super) fn common_policy(number: u32) -> Value {
    json!({
        "apiVersion": API, "kind": "GlobalNetworkPolicy", "metadata": {"name": format!("common{number}")},
        "spec": {
            "selector": "has(app)", "order": number, "types": ["Ingress", "Egress"],
            "ingress": [{"action": "Allow", "protocol": "TCP", "source": {"nets": [format!("10.{number}.0.0/16")]},
                         "destination": {"ports": [80, "8000:8080"]}}],
            "egress": [{"action": "Allow", "protocol": "UDP", "destination": {"ports": [53]}}],
        },
    })
}
