//! Leftovers in tables of the older iptables, whose only interface is its own programs.

use std::io::{self, Write};
use std::process::{Command, Stdio};

use super::{COMMENT, Removed, TABLES, is_chain, kernel};
use crate::DataplaneError;

/// For each family: the tables that this network namespace has, and the programs that read and write them.
const FAMILIES: [(&str, &str, &str); 2] = [
    ("/proc/net/ip_tables_names", "iptables-legacy-save", "iptables-legacy-restore"),
    ("/proc/net/ip6_tables_names", "ip6tables-legacy-save", "ip6tables-legacy-restore"),
];

pub(super) fn remove() -> Result<Removed, DataplaneError> {
    let mut removed = Removed::default();
    for (names, save, restore) in FAMILIES {
        let present = std::fs::read_to_string(thread_path(names)).unwrap_or_default();
        for table in TABLES.into_iter().filter(|table| present.lines().any(|line| line == *table)) {
            let listing = run(save, &["-t", table], None)?;
            let (script, counts) = plan(&listing, table);
            if !counts.is_nothing() {
                run(restore, &["--noflush", "--wait"], Some(&script))?;
                removed += counts;
            }
        }
    }
    Ok(removed)
}

/// `/proc/net` is of the process; a thread may be in another namespace.
fn thread_path(path: &str) -> String {
    path.replace("/proc/net", "/proc/thread-self/net")
}

/// What `iptables-restore` has to read to remove what is upstream's of a table that `iptables-save` printed.
fn plan(listing: &str, table: &str) -> (String, Removed) {
    let chains: Vec<&str> = listing
        .lines()
        .filter_map(|line| line.strip_prefix(':')?.split_whitespace().next())
        .filter(|name| is_chain(name))
        .collect();
    let rules: Vec<&str> = listing.lines().filter_map(|line| line.strip_prefix("-A ")).filter(is_leftover).collect();
    let mut script = format!("*{table}\n");
    for rule in &rules {
        script.push_str(&format!("-D {rule}\n"));
    }
    for action in ["-F", "-X"] {
        for chain in &chains {
            script.push_str(&format!("{action} {chain}\n"));
        }
    }
    script.push_str("COMMIT\n");
    (script, Removed { rules: rules.len(), chains: chains.len(), sets: 0 })
}

/// Whether a rule, without its `-A`, is upstream's in a chain of others.
fn is_leftover(rule: &&str) -> bool {
    let mut words = rule.split_whitespace();
    if words.next().is_none_or(is_chain) {
        return false;
    }
    let words: Vec<&str> = words.collect();
    words.windows(2).any(|pair| match pair {
        ["--comment", comment] => comment.trim_start_matches('"').starts_with(COMMENT),
        ["-j" | "-g", target] => is_chain(target),
        _ => false,
    })
}

fn run(program: &str, arguments: &[&str], input: Option<&str>) -> Result<String, DataplaneError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => DataplaneError::Unsupported {
            feature: format!("the removal of leftovers from tables of the older iptables without {program}"),
            advice: "install it (Debian: iptables)".into(),
        },
        _ => kernel("run", program)(error),
    };
    let stdin = if input.is_some() { Stdio::piped() } else { Stdio::null() };
    let mut command = Command::new(program);
    let mut child =
        command.args(arguments).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(failed)?;
    if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
        pipe.write_all(input.as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(kernel("run", program)(io::Error::other(said)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_upstreams_goes() {
        let listing = "\
*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:cali-FORWARD - [0:0]
:calico - [0:0]
:felix-TO-HOST - [0:0]
-A INPUT -m comment --comment \"cali:Cz_u1IQiXIMmKD4c\" -j cali-INPUT
-A INPUT -m comment --comment \"califlower\" -j ACCEPT
-A FORWARD -j DOCKER-USER
-A FORWARD -m comment --comment \"cali:S93hcgKJrXEqnTfs\" -m mark --mark 0x10000/0x10000 -j ACCEPT
-A FORWARD -g felix-TO-HOST
-A cali-FORWARD -m comment --comment \"cali:x\" -j MARK --set-xmark 0x0/0xe0000
COMMIT
";
        let script = "\
*filter
-D INPUT -m comment --comment \"cali:Cz_u1IQiXIMmKD4c\" -j cali-INPUT
-D FORWARD -m comment --comment \"cali:S93hcgKJrXEqnTfs\" -m mark --mark 0x10000/0x10000 -j ACCEPT
-D FORWARD -g felix-TO-HOST
-F cali-FORWARD
-F felix-TO-HOST
-X cali-FORWARD
-X felix-TO-HOST
COMMIT
";
        assert_eq!(plan(listing, "filter"), (script.into(), Removed { rules: 3, chains: 2, sets: 0 }));
        assert!(plan("*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n", "nat").1.is_nothing());
    }
}
