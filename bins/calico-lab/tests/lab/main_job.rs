//! The demo from end to end; how it is cleaned up; and that it is not fooled.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use calico_dataplane::netns::named;
use nix::mount::{MsFlags, mount, umount};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::fixture::{Lab, Running, copy_to, text};

#[test]
fn every_verdict_is_as_the_specification_says() {
    let lab = Lab::new();
    let findings: Value = serde_json::from_str(&lab.succeed("demo --json")).unwrap();
    assert_eq!(findings["ok"], true);
    let scenes = findings["scenes"].as_array().unwrap();
    let names: Vec<&str> = scenes.iter().map(|scene| scene["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["no policy", "policy", "policies removed"]);
    for scene in scenes {
        // Six pods, each to five others, in four ways.
        assert_eq!(scene["cells"].as_array().unwrap().len(), 6 * 5 * 4);
        assert!(scene["converged_ms"].as_f64().unwrap() > 0.0);
    }
    let allowed = |scene: &Value| {
        let cells = scene["cells"].as_array().unwrap().iter();
        cells.filter(|cell| cell["expected"] == "allow").count()
    };
    assert_eq!(allowed(&scenes[0]), 120);
    assert!((20..100).contains(&allowed(&scenes[1])), "a policy set that decides hardly anything proves nothing");
    assert_eq!(allowed(&scenes[2]), 120);
    assert_eq!(findings["cni_add_ms"].as_array().unwrap().len(), 6);
    lab.assert_gone();
}

#[cfg(feature = "etcd")]
#[test]
fn etcd_does_as_well() {
    let lab = Lab::new();
    let findings: Value = serde_json::from_str(&lab.succeed("demo --json --hosts 2 --datastore etcd")).unwrap();
    assert_eq!(findings["ok"], true);
    assert_eq!(findings["scenes"].as_array().unwrap().len(), 3);
    lab.assert_gone();
}

#[test]
fn a_wrong_rule_in_one_kernel_is_noticed() {
    let lab = Lab::new();
    lab.succeed("up");
    lab.succeed("check");
    // Without policies everything is allowed; one host drops one port all the same.
    plant(&format!("{}-h2", lab.name), "tcp dport 8080 drop");
    let output = lab.run("check --json");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(findings["ok"], false);
    let wrong: Vec<&Value> = findings["scenes"][0]["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|cell| cell["expected"] != cell["observed"])
        .collect();
    assert!(!wrong.is_empty());
    for cell in wrong {
        assert_eq!((&cell["port"], &cell["observed"]), (&Value::from(8080), &Value::from("deny")), "{cell}");
    }
    lab.succeed("down");
    lab.assert_gone();
}

#[test]
fn a_hole_in_one_kernel_is_noticed() {
    let lab = Lab::new();
    lab.succeed("up");
    let policy = lab.state().join("deny.yaml");
    let deny = "apiVersion: projectcalico.org/v3\nkind: GlobalNetworkPolicy\nmetadata: {name: nothing}\nspec: {types: [Ingress]}\n";
    std::fs::write(&policy, deny).unwrap();
    lab.succeed(&format!("exec net -- calicoctl apply -f {}", policy.display()));
    lab.succeed("check");
    // With its agent stopped, nobody mends the table that is emptied here: the host lets everything through.
    let status: Value = serde_json::from_str(&lab.succeed("status --json")).unwrap();
    let agent = Pid::from_raw(status["hosts"][0]["pid"].as_i64().unwrap().try_into().unwrap());
    stop(agent);
    nft(&format!("{}-h1", lab.name), "flush table inet calico-dataplane");
    let output = lab.run("check --json");
    kill(agent, Signal::SIGCONT).unwrap();
    assert_eq!(output.status.code(), Some(1));
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(findings["ok"], false);
    let cells = findings["scenes"][0]["cells"].as_array().unwrap();
    let leaks = cells.iter().filter(|cell| cell["expected"] == "deny" && cell["observed"] == "allow");
    assert!(leaks.count() > 0);
    lab.succeed("down");
    lab.assert_gone();
}

#[test]
fn after_a_kill_the_next_run_starts_clean() {
    let lab = Lab::new();
    let mut demo = lab.start("demo --json");
    demo.wait_for("pods attached");
    demo.signal(Signal::SIGKILL);
    assert_eq!(demo.finish().0, None);
    assert!(!lab.namespaces().is_empty(), "a killed run cannot clean up");

    let output = lab.run("demo --json");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    assert!(err.contains("removed what an earlier run left"), "{err}");
    lab.assert_gone();
}

/// 100 stands for the usual 1024 and a network of a hundred pods.
#[test]
fn open_files_are_reserved_or_the_size_is_refused() {
    let lab = Lab::new();
    let output = lab.limited("-S -n 100", "demo --json --hosts 1 --pods 8");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let refused = lab.limited("-n 1024", "demo --hosts 4 --pods 30");
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("probing 120 pods takes"), "{}", text(&refused.stderr));
    lab.assert_gone();
}

/// Minutes of work are not thrown away for a directory that is in use.
#[test]
fn what_was_found_is_told_although_the_removal_fails() {
    let lab = Lab::new();
    let mut demo = lab.start("demo --json --hosts 1");
    // All three scenes are still to come.
    demo.wait_for("pods attached");
    let busy = lab.state().join("h1");
    mount(Some(&busy), &busy, None::<&str>, MsFlags::MS_BIND, None::<&str>).unwrap();
    let (code, out, err) = demo.finish();
    umount(&busy).unwrap();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("cannot remove"), "{err}");
    let findings: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(findings["scenes"].as_array().unwrap().len(), 3);
    lab.succeed("down");
    lab.assert_gone();
}

#[test]
fn a_killed_benchmark_can_be_removed() {
    let lab = Lab::new();
    // It runs what is shipped beside it; here that is this one again, under each name.
    let shipped = tempfile::tempdir().unwrap();
    let program = copy_to(shipped.path());
    for name in ["calico-node", "calico", "calico-ipam", "calicoctl"] {
        std::os::unix::fs::symlink(&program, shipped.path().join(name)).unwrap();
    }
    let mut bench = Running::start(Command::new(&program).args(lab.command("bench P12").get_args()));
    bench.wait_for("P12: pod 3 of");
    bench.signal(Signal::SIGKILL);
    assert_eq!(bench.finish().0, None);
    assert!(!lab.namespaces().is_empty(), "a killed run cannot clean up");
    lab.succeed("down");
    lab.assert_gone();
}

#[test]
fn ctrl_c_cleans_up() {
    for moment in ["starting calico-node", "scene: no policy"] {
        let lab = Lab::new();
        let mut demo = lab.start("demo");
        demo.wait_for(moment);
        demo.signal(Signal::SIGINT);
        let (code, out, err) = demo.finish();
        assert_eq!(code, Some(130), "{out}\n{err}");
        lab.assert_gone();
    }
}

/// Stops a process. The signal's sender goes on before the last thread has heard of it.
fn stop(process: Pid) {
    kill(process, Signal::SIGSTOP).unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    let state = |thread: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(thread.path().join("stat")).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next()
    };
    let is_stopped =
        || std::fs::read_dir(format!("/proc/{process}/task")).unwrap().all(|one| state(one.unwrap()) == Some('T'));
    while !is_stopped() {
        assert!(Instant::now() < deadline, "process {process} does not stop");
        sleep(Duration::from_millis(1));
    }
}

/// Adds a rule that our agent knows nothing of, before all of its own.
fn plant(netns: &str, rule: &str) {
    nft(
        netns,
        &format!(
            "add table inet planted\n\
             add chain inet planted forward {{ type filter hook forward priority -300; }}\n\
             add rule inet planted forward {rule}"
        ),
    );
}

fn nft(netns: &str, script: &str) {
    let netns = named::open(netns).unwrap();
    let run = || {
        let mut child = Command::new("nft").args(["-f", "-"]).stdin(Stdio::piped()).spawn()?;
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), script.as_bytes())?;
        child.wait()
    };
    let status = netns.run(run).unwrap();
    assert!(status.expect("this test runs nft (Debian: nftables)").success(), "{script}");
}
