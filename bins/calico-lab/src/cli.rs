//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::bench::WorkerArgs;

/// A network of many hosts on this one machine: namespaces for hosts and pods, a real calico-node in each host, the real CNI
/// plugins, real packets.
#[derive(Debug, Parser)]
#[command(name = "calico-lab", version, about, max_term_width = 110, after_help = AFTER)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER: &str = "\
Everything happens in network namespaces whose names begin with the lab's name (`ip netns` lists them) and below its state directory; \
nothing else on the machine is touched. Root is needed.

Exit codes: 0 all is as expected, 1 it is not or something failed, 2 usage, or not root, 130 interrupted.";

/// What a network is called that has no other name.
pub(crate) const DEFAULT_NAME: &str = "lab";
/// Where networks keep their state.
pub(crate) const DEFAULT_STATE: &str = "/run/calico-lab";

/// Verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build a network, police it, and compare real packets with what the policies say; then remove it
    ///
    /// Three scenes: no policy, a policy set applied with `calicoctl apply -f`, the policies removed. In each, TCP, UDP and ICMP go
    /// between all pairs of pods, and every verdict is compared with the one that the specification gives for the same YAML.
    Demo(DemoArgs),
    /// Build the same network and leave it running
    Up(UpArgs),
    /// Remove a network that `up` left, or whatever a killed run left
    Down(NameArgs),
    /// Show hosts, pods, agents and BGP sessions of a running network
    ///
    /// Exits with 1, and says why, when something is not as it should be: an agent that has ended, does not answer or is not in sync, a
    /// BGP session that is not established, a pod whose endpoint or namespace is missing.
    Status(StatusArgs),
    /// Probe all pairs of a running network and compare with what its datastore says now
    Check(StatusArgs),
    /// Stop the agent of one host and start it anew; traffic goes on meanwhile
    Restart(RestartArgs),
    /// Measure, side by side with a peer
    ///
    /// P4, P5, P8 and P12 measure what a host does: sets, endpoints, routes, CNI. D1, D2 and D3 measure the datastore: reading a cluster,
    /// watching it, `calicoctl get`. `--list` says what each is, its peer and its target.
    Bench(BenchArgs),
    /// Do one task of a benchmark
    #[command(hide = true)]
    BenchWorker(WorkerArgs),
    /// Run a command inside a host or pod, with the host's environment and all of Calico's programs on its PATH
    ///
    /// Without a command, a shell. `calico-lab exec h1 -- calico-node status`, `calico-lab exec net -- calicoctl get nodes`.
    ///
    /// Exits as the command does: with its code, or 128 and the number of the signal that killed it; 127 if there is no such command, 126
    /// if it cannot be executed.
    Exec(ExecArgs),
}

/// Which network.
#[derive(Debug, Clone, Args)]
pub(crate) struct NameArgs {
    /// Name of the network; several can run side by side
    #[arg(long, env = "CALICO_LAB_NAME", value_name = "NAME", default_value = DEFAULT_NAME, value_parser = lab_name)]
    pub(crate) name: String,
    /// Directory below which a running network keeps its state
    #[arg(long, env = "CALICO_LAB_STATE", value_name = "DIR", default_value = DEFAULT_STATE)]
    pub(crate) state: PathBuf,
}

/// What to build.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct SizeArgs {
    /// Number of hosts
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=32))]
    pub(crate) hosts: u8,
    /// Number of pods on each host
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=32))]
    pub(crate) pods: u8,
    /// Where the cluster's objects are kept
    #[arg(long, value_enum, default_value = "sqlite")]
    pub(crate) datastore: DatastoreKind,
}

/// A datastore the lab can run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DatastoreKind {
    /// The embedded one: a file.
    Sqlite,
    /// An etcd that the lab starts (Debian: etcd-server).
    Etcd,
}

/// Arguments of `demo`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) size: SizeArgs,
    /// Name of the network
    #[arg(long, value_name = "NAME", default_value = "demo", value_parser = lab_name)]
    pub(crate) name: String,
    /// Directory below which a running network keeps its state
    #[arg(long, env = "CALICO_LAB_STATE", value_name = "DIR", default_value = DEFAULT_STATE)]
    pub(crate) state: PathBuf,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `up`.
#[derive(Debug, Clone, Args)]
pub(crate) struct UpArgs {
    #[command(flatten)]
    pub(crate) size: SizeArgs,
    #[command(flatten)]
    pub(crate) which: NameArgs,
    /// Print the network's description as one JSON document
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `status` and `check`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) which: NameArgs,
    /// Print one JSON document instead of tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// Arguments of `restart`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RestartArgs {
    #[command(flatten)]
    pub(crate) which: NameArgs,
    /// Host, such as h1
    #[arg(value_name = "HOST")]
    pub(crate) host: String,
    /// Kill it as `kill -9` does, instead of asking it to stop
    #[arg(long)]
    pub(crate) kill: bool,
}

/// Arguments of `exec`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ExecArgs {
    #[command(flatten)]
    pub(crate) which: NameArgs,
    /// Host (`h1`), pod (`h1-p1`), or `net` for the Ethernet segment
    #[arg(value_name = "HOST|POD")]
    pub(crate) place: String,
    /// Command and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<std::ffi::OsString>,
}

/// Arguments of `bench`.
#[derive(Debug, Clone, Args)]
pub(crate) struct BenchArgs {
    /// List the benchmarks
    #[arg(long, conflicts_with = "id")]
    pub(crate) list: bool,
    /// Which to run, such as P8
    #[arg(value_name = "ID", required_unless_present = "list")]
    pub(crate) id: Option<String>,
    /// How much to measure with, for a quick look or a test: the number of endpoints (P1, P3, D1, D3), namespaces (P2) or
    /// watchers (D2)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) size: Option<u32>,
    /// Name of the network, for those that build one
    #[arg(long, value_name = "NAME", default_value = "bench", value_parser = lab_name)]
    pub(crate) name: String,
    /// Directory below which that network keeps its state
    #[arg(long, env = "CALICO_LAB_STATE", value_name = "DIR", default_value = DEFAULT_STATE)]
    pub(crate) state: PathBuf,
    /// Print one JSON document instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

/// Names become parts of namespace names and of paths.
fn lab_name(text: &str) -> Result<String, String> {
    let good = (1..=20).contains(&text.len())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
        && text.starts_with(|c: char| c.is_ascii_lowercase());
    if good { Ok(text.into()) } else { Err("give 1 to 20 lower-case letters, digits and '-', a letter first".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn names_cannot_leave_their_directory() {
        assert!(lab_name("lab-2").is_ok());
        for bad in ["", "..", "a/b", "Lab", "-x", "1", "aaaaaaaaaaaaaaaaaaaaa"] {
            assert!(lab_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_benchmark_or_the_list_is_needed_and_not_both() {
        let parse = |args: &[&str]| Cli::try_parse_from([&["calico-lab", "bench"], args].concat());
        assert!(parse(&[]).is_err());
        assert!(parse(&["--list", "P8"]).is_err());
        assert!(parse(&["P8", "--json"]).is_ok());
        assert!(parse(&["--list"]).is_ok());
        assert!(parse(&["--list", "--json"]).is_ok());
    }
}
