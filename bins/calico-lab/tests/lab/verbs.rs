//! A network that is up, and what can be done with it.

use serde_json::Value;

use crate::fixture::{Lab, text};

#[test]
fn a_network_can_be_looked_at_entered_restarted_and_removed() {
    let lab = Lab::new();
    let made: Value = serde_json::from_str(&lab.succeed("up --hosts 2 --pods 1 --json")).unwrap();
    let again = lab.run("up");
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("is up: `calico-lab down"), "{}", text(&again.stderr));

    let status: Value = serde_json::from_str(&lab.succeed("status --json")).unwrap();
    assert_eq!(status["ok"], true);
    assert_eq!(status["pods"], made["pods"]);
    let hosts = status["hosts"].as_array().unwrap();
    assert_eq!(hosts.iter().map(|host| host["bgp_established"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 1]);
    assert!(lab.succeed("status").contains("h2-p1"));

    let nodes = lab.succeed("exec h1 -- calicoctl get nodes");
    assert!(nodes.contains("h1") && nodes.contains("h2"), "{nodes}");
    assert!(lab.succeed("exec h2 -- calico-node status").contains("h2"));
    assert_eq!(lab.run("exec h1-p1 -- false").status.code(), Some(1));
    assert_eq!(lab.run("exec h1-p1 -- no-such-program").status.code(), Some(1));
    assert_eq!(lab.run("exec h9 -- true").status.code(), Some(2));

    lab.succeed("restart h1");
    let after: Value = serde_json::from_str(&lab.succeed("status --json")).unwrap();
    assert_ne!(after["hosts"][0]["pid"], status["hosts"][0]["pid"]);
    assert_eq!(after["hosts"][1]["pid"], status["hosts"][1]["pid"]);
    let findings: Value = serde_json::from_str(&lab.succeed("check --json")).unwrap();
    assert_eq!(findings["scenes"][0]["cells"].as_array().unwrap().len(), 8);
    assert_eq!(lab.run("restart h1-p1").status.code(), Some(2));

    lab.succeed("down");
    lab.assert_gone();
}
