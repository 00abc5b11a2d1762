//! Leftovers of an upstream node in iptables mode go, whichever iptables wrote them; rules of others stay to the last counter.

use std::io::Write;
use std::process::{Command, Stdio};

use calico_dataplane::leftovers::{self, Removed};

use super::fixture::{in_namespace, run};

/// What Docker writes, and what an upstream node in iptables mode writes around and into it.
const DOCKER_FILTER: &str = "\
:DOCKER - [0:0]
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -o docker0 -j DOCKER
-A DOCKER -d 172.17.0.2/32 ! -i docker0 -o docker0 -p tcp -m tcp --dport 80 -j ACCEPT
-A DOCKER-USER -m comment --comment \"califlower is no chain of calico\" -j RETURN
";
const UPSTREAM_FILTER: &str = "\
:cali-FORWARD - [0:0]
:cali-from-wl-dispatch - [0:0]
:cali-fw-cali1234 - [0:0]
:felix-old - [0:0]
-A cali-FORWARD -m comment --comment \"cali:vjrMJCRpqwy5oRoX\" -j MARK --set-xmark 0x0/0xe0000
-A cali-FORWARD -i cali+ -m comment --comment \"cali:8ZoYfO5HKXWbB3pk\" -j cali-from-wl-dispatch
-A cali-from-wl-dispatch -i cali1234 -m comment --comment \"cali:zTj6P0TIgYvgz-md\" -g cali-fw-cali1234
-A cali-fw-cali1234 -m comment --comment \"cali:k\" -m set --match-set cali40s:abc src -j ACCEPT
-A FORWARD -m comment --comment \"cali:S93hcgKJrXEqnTfs\" -m mark --mark 0x10000/0x10000 -j ACCEPT
-A FORWARD -j felix-old
-I FORWARD 1 -m comment --comment \"cali:wUHhoiAYhphO9Mso\" -j cali-FORWARD
";
const UPSTREAM_RAW: &str = "\
:cali-PREROUTING - [0:0]
-A PREROUTING -m comment --comment \"cali:6gwbT8clXdHdC1b1\" -j cali-PREROUTING
";

fn restore(program: &str, text: &str) {
    let mut child = Command::new(program).arg("--noflush").stdin(Stdio::piped()).spawn().unwrap_or_else(|error| {
        panic!("this test runs {program}, of the Debian package iptables: {error}");
    });
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{program}:\n{text}");
}

/// Rules without the counters and dates.
fn saved(program: &str) -> String {
    let text = run(program, "");
    text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
}

/// Of both kinds of iptables and both families, side by side.
#[test]
fn leftovers_of_upstream_go_and_nothing_of_others() {
    in_namespace(async |_| {
        assert!(leftovers::remove().unwrap().is_nothing(), "an untouched namespace");
        for set in ["cali40s:abc", "cali40all-ipam-pools", "felix-4-x", "mine4", "califlower"] {
            run("ipset", &format!("create {set} hash:ip"));
        }
        let kinds = ["iptables-nft", "iptables-legacy"];
        for kind in kinds {
            restore(&format!("{kind}-restore"), &format!("*filter\n{DOCKER_FILTER}COMMIT\n"));
            restore(&format!("{kind}-restore"), "*nat\n-A POSTROUTING -s 172.17.0.0/16 -j MASQUERADE\nCOMMIT\n");
            restore(&format!("ip6{}-restore", &kind[2..]), "*raw\n-A PREROUTING -j ACCEPT\nCOMMIT\n");
        }
        let programs = ["iptables-nft-save", "iptables-legacy-save", "ip6tables-nft-save", "ip6tables-legacy-save"];
        let before = programs.map(saved);
        for kind in kinds {
            restore(&format!("{kind}-restore"), &format!("*filter\n{UPSTREAM_FILTER}COMMIT\n"));
            restore(&format!("ip6{}-restore", &kind[2..]), &format!("*raw\n{UPSTREAM_RAW}COMMIT\n"));
        }
        assert!(programs.map(saved).iter().zip(&before).all(|(now, before)| now != before));
        let nft = run("nft", "list ruleset");
        assert!(nft.contains("cali-FORWARD") && nft.contains("DOCKER-USER"));

        let removed = leftovers::remove().unwrap();
        assert_eq!(removed, Removed { rules: 2 * (3 + 1), chains: 2 * (4 + 1), sets: 3 });
        assert_eq!(programs.map(saved), before);
        assert_eq!(run("ipset", "list -n"), "mine4\ncaliflower\n");
        assert!(leftovers::remove().unwrap().is_nothing(), "once");
    });
}

/// A set that a rule of somebody else uses is told, and all else is gone.
#[test]
fn a_set_in_use_is_told_and_the_rest_goes() {
    in_namespace(async |_| {
        run("ipset", "create cali40s:used hash:ip");
        restore("iptables-legacy-restore", "*filter\n-A INPUT -m set --match-set cali40s:used src -j DROP\nCOMMIT\n");
        restore("iptables-nft-restore", &format!("*raw\n{UPSTREAM_RAW}COMMIT\n"));
        let error = leftovers::remove().unwrap_err().to_string();
        assert!(error.contains("IP set cali40s:used"), "{error}");
        assert!(!saved("iptables-nft-save").contains("cali-PREROUTING"));
    });
}
