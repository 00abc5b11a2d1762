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
    let name = format!("g{group}");
    let rules: Vec<Value> = (0..10)
        .map(|port| {
            json!({
                "action": "Allow", "protocol": "TCP",
                "source": {"selector": format!("group == \"{name}\"")}, "destination": {"ports": [8000 + port]},
            })
        })
        .collect();
    let first = u32::from(Ipv4Addr::new(10, 128, 0, 0)) + group * 256;
    let nets: Vec<String> = (0..100).map(|member| format!("{}/32", Ipv4Addr::from(first + member))).collect();
    let policy = json!({
        "apiVersion": API, "kind": "GlobalNetworkPolicy", "metadata": {"name": name},
        "spec": {"selector": "has(app)", "order": group, "types": ["Ingress"], "ingress": rules},
    });
    let set = json!({
        "apiVersion": API, "kind": "GlobalNetworkSet", "metadata": {"name": name, "labels": {"group": name}},
        "spec": {"nets": nets},
    });
    [policy, set]
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
