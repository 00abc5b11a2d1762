//! A network that is up, and what can be done with it.

use std::thread::sleep;
use std::time::{Duration, Instant};

use calico_dataplane::netns::named;
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use serde_json::Value;

use crate::fixture::{Lab, text};

#[test]
fn a_network_can_be_looked_at_entered_restarted_and_removed() {
    let lab = Lab::new();
    let made: Value = serde_json::from_str(&lab.succeed("up --hosts 2 --pods 1 --json")).unwrap();
    let again = lab.run("up");
    assert_eq!(again.status.code(), Some(1));
    let hint = format!("is up: `calico-lab down --name {} ", lab.name);
    assert!(text(&again.stderr).contains(&hint), "{}", text(&again.stderr));

    let status: Value = serde_json::from_str(&lab.succeed("status --json")).unwrap();
    assert_eq!(status["ok"], true);
    assert_eq!(status["pods"], made["pods"]);
    let hosts = status["hosts"].as_array().unwrap();
    assert_eq!(hosts.iter().map(|host| host["bgp_established"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 1]);
    assert!(lab.succeed("status").contains("h2-p1"));

    let endpoints: Value = serde_json::from_str(&lab.succeed("exec net -- calicoctl get wep -A -o json")).unwrap();
    let mut labels: Vec<_> = endpoints["items"].as_array().unwrap().iter().map(role).collect();
    let mut shown: Vec<_> = status["pods"].as_array().unwrap().iter().map(|pod| pod["role"].clone()).collect();
    labels.sort_by_key(Value::to_string);
    shown.sort_by_key(Value::to_string);
    assert_eq!(labels, shown);

    let nodes = lab.succeed("exec h1 -- calicoctl get nodes");
    assert!(nodes.contains("h1") && nodes.contains("h2"), "{nodes}");
    assert!(lab.succeed("exec h2 -- calico-node status").contains("h2"));
    assert_eq!(lab.run("exec h1-p1 -- false").status.code(), Some(1));
    let unknown = lab.run("exec h1-p1 -- no-such-program");
    assert_eq!(unknown.status.code(), Some(127));
    assert!(text(&unknown.stderr).contains("cannot run no-such-program: No such file"), "{}", text(&unknown.stderr));
    assert_eq!(lab.run("exec h1-p1 -- /etc/hostname").status.code(), Some(126));
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

fn role(endpoint: &Value) -> Value {
    endpoint["metadata"]["labels"]["role"].clone()
}

#[test]
fn status_tells_what_is_not_as_it_should_be() {
    let lab = Lab::new();
    let made: Value = serde_json::from_str(&lab.succeed("up --hosts 2 --pods 1 --json")).unwrap();
    let kill = |host: usize| {
        let pid = Pid::from_raw(made["hosts"][host]["pid"].as_i64().unwrap().try_into().unwrap());
        nix::sys::signal::kill(pid, Signal::SIGKILL).unwrap();
    };
    kill(0);
    // At once, while the kernel still removes the process.
    let output = lab.run("status");
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    assert!(shown.lines().any(|line| line.contains("-h1 ") && line.contains(" dead ")), "{shown}");
    assert!(shown.contains(&format!("has ended: see {}/h1/calico-node.log", lab.state().display())), "{shown}");
    assert!(shown.contains(&format!("`calico-lab restart --name {} ", lab.name)), "{shown}");
    kill(1);
    let output = lab.run("status --json");
    assert_eq!(output.status.code(), Some(1));
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&status["ok"], &status["hosts"][1]["alive"]), (&false.into(), &false.into()));

    // One agent alone is alive and lacks its session.
    let restarted = lab.run("restart h1");
    assert_eq!(restarted.status.code(), Some(1));
    assert!(text(&restarted.stderr).contains("calico-node has ended on h2"), "{}", text(&restarted.stderr));
    let output = lab.run("status --json");
    assert_eq!(output.status.code(), Some(1));
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(status["hosts"][0]["alive"], true);
    assert_ne!(status["hosts"][0]["problems"], serde_json::json!([]), "it has no session");

    lab.succeed("restart h2");
    lab.succeed("status");
    named::delete(&format!("{}-h2-p1", lab.name)).unwrap();
    let output = lab.run("status");
    assert_eq!(output.status.code(), Some(1));
    let shown = text(&output.stdout);
    assert!(shown.contains(&format!("namespace {}-h2-p1 is missing", lab.name)), "{shown}");
    lab.succeed("down");
    lab.assert_gone();
}

#[test]
fn an_agent_whose_only_peer_is_dead_holds_everything_and_says_for_whom_it_waits() {
    let lab = Lab::new();
    let made: Value = serde_json::from_str(&lab.succeed("up --hosts 2 --pods 1 --json")).unwrap();
    let peer = Pid::from_raw(made["hosts"][1]["pid"].as_i64().unwrap().try_into().unwrap());
    nix::sys::signal::kill(peer, Signal::SIGKILL).unwrap();
    let restarted = lab.run("restart --kill h1");
    assert_eq!(restarted.status.code(), Some(1), "its session is missing");

    let waits = |status: &Value| status["notices"].to_string().contains("until h2 can be reached");
    let status = until(&lab, |status| status["dataplane_in_sync"] == true && waits(status));
    assert_eq!((&status["datastore"], &status["dataplane_error"]), (&"in-sync".into(), &Value::Null));
    assert_eq!(status["bgp_routes"], 0, "nobody has announced what is kept");
    let page = lab.succeed("exec h1 -- calico-node status");
    assert!(page.contains("holds everything\n") && page.contains("until h2 can be reached"), "{page}");

    lab.succeed("restart h2");
    let status = until(&lab, |status| status["notices"] == serde_json::json!([]));
    assert_eq!(status["bgp_routes"], 1);
    lab.succeed("check");
    lab.succeed("down");
    lab.assert_gone();
}

/// What h1's agent says once it says what is waited for.
fn until(lab: &Lab, condition: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let output = lab.run("exec h1 -- calico-node status --output json");
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if condition(&status) {
            return status;
        }
        assert!(Instant::now() < deadline, "{status}\n{}", text(&output.stderr));
        sleep(Duration::from_millis(20));
    }
}
