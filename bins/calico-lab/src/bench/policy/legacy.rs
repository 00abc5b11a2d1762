//! The same work by what came before nf_tables: `ipset` for the sets, `iptables-restore` (the legacy one, which is the fastest) for the rules.
//!
//! As upstream lays it out in that mode: a set for each group, a chain for each policy, one for each endpoint, and a rule for each
//! endpoint's interface. There is neither a route nor a neighbour, and an update of one set touches no rule.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use calico_dataplane::netns::Netns;

use super::{OTHERS, seconds};
use crate::bench::finding::Further;
use crate::bench::stats::Spread;
use crate::error::{Context, LabError};

/// So many sets with members each, policies of ten rules about them, and endpoints with all of these.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) sets: u32,
    pub(super) members: u32,
    pub(super) policies: u32,
    pub(super) endpoints: u32,
}

/// What one `ipset add` takes beside ours, in microseconds, where all the rest is there.
pub(super) fn member(size: Size, additions: u16, ours: Spread) -> Result<Further, LabError> {
    let netns = Netns::anonymous().context(namespace)?;
    restore_in(&netns, "ipset", &["restore"], &sets(size))?;
    restore_in(&netns, "iptables-legacy-restore", &[], &rules(size))?;
    let add = |number: u16| {
        let [high, low] = number.to_be_bytes();
        let (set, address) = (format!("g{}", u32::from(number) * 7 % size.sets), format!("10.250.{high}.{low}"));
        Ok(restore_in(&netns, "ipset", &["add", &set, &address], "")? * 1e6)
    };
    let samples = (0..additions).map(add).collect::<Result<_, LabError>>()?;
    further("beside ipset: one member by one process", "µs", ours, samples)
}

/// What both programs take to begin with nothing, in seconds.
pub(super) fn start(size: Size) -> Result<f64, LabError> {
    let netns = Netns::anonymous().context(namespace)?;
    let sets = restore_in(&netns, "ipset", &["restore"], &sets(size))?;
    Ok(sets + restore_in(&netns, "iptables-legacy-restore", &[], &rules(size))?)
}

/// Ours beside the samples of these.
pub(super) fn further(
    what: &'static str,
    unit: &'static str,
    ours: Spread,
    samples: Vec<f64>,
) -> Result<Further, LabError> {
    let peer = Spread::of(samples).ok_or_else(|| LabError::new("nothing was measured"))?;
    Ok(Further { what, unit, ours, peer: Some(peer), target: "-" })
}

fn namespace() -> String {
    "cannot make a namespace for the benchmark".into()
}

fn sets(size: Size) -> String {
    let mut text = String::new();
    for group in 0..size.sets {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "create g{group} hash:ip");
        for member in 0..size.members {
            let address = std::net::Ipv4Addr::from(0x0a80_0000 + group * 1024 + member);
            let _ = writeln!(text, "add g{group} {address}");
        }
    }
    text
}

fn rules(size: Size) -> String {
    let mut text = String::from("*filter\n:all - [0:0]\n");
    let (policies, endpoints) = (0..size.policies, OTHERS..OTHERS + size.endpoints);
    policies.clone().for_each(|policy| text += &format!(":p{policy} - [0:0]\n"));
    endpoints.clone().for_each(|endpoint| text += &format!(":e{endpoint} - [0:0]\n"));
    for policy in policies {
        let set = policy % size.sets;
        for port in 8000..8010 {
            let _ = writeln!(text, "-A p{policy} -p tcp -m set --match-set g{set} src -m tcp --dport {port} -j ACCEPT");
        }
        let _ = writeln!(text, "-A all -j p{policy}");
    }
    for endpoint in endpoints {
        let _ = writeln!(text, "-A e{endpoint} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT");
        let _ = writeln!(text, "-A e{endpoint} -g all\n-A FORWARD -o cali{endpoint} -g e{endpoint}");
    }
    text + "COMMIT\n"
}

/// Seconds that a program takes in a namespace, with that on its standard input.
fn restore_in(netns: &Netns, program: &str, arguments: &[&str], input: &str) -> Result<f64, LabError> {
    let failed = || format!("cannot run {program} (Debian: ipset and iptables)");
    let run = || {
        let begun = Instant::now();
        let mut command = Command::new(program);
        let mut child = command.args(arguments).stdin(Stdio::piped()).spawn().context(failed)?;
        if let Some(mut pipe) = child.stdin.take() {
            std::io::Write::write_all(&mut pipe, input.as_bytes()).context(failed)?;
        }
        let status = child.wait().context(failed)?;
        if status.success() {
            Ok(seconds(begun))
        } else {
            Err(LabError::new(format!("{program} refused what it read")))
        }
    };
    netns.run(run).context(|| "cannot enter a namespace".into())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both programs take what is written for them.
    #[test]
    fn a_small_table_is_restored() {
        let size = Size { sets: 2, members: 3, policies: 4, endpoints: 2 };
        assert!(start(size).unwrap() > 0.0);
        let ours = Spread::of(vec![1.0]).unwrap();
        assert_eq!(member(size, 3, ours).unwrap().peer.unwrap().samples, 3);
        assert_eq!(sets(size).lines().count(), 2 + 6);
        assert_eq!(rules(size).matches("-A p").count(), 40);
    }
}
