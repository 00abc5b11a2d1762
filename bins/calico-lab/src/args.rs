//! What the command line can say, one type for each verb: plain values that everything below the command line may know.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// What a network is called that has no other name.
pub(crate) const DEFAULT_NAME: &str = "lab";
/// Where networks keep their state.
pub(crate) const DEFAULT_STATE: &str = "/run/calico-lab";

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

    #[test]
    fn names_cannot_leave_their_directory() {
        assert!(lab_name("lab-2").is_ok());
        for bad in ["", "..", "a/b", "Lab", "-x", "1", "aaaaaaaaaaaaaaaaaaaaa"] {
            assert!(lab_name(bad).is_err(), "{bad:?}");
        }
    }
}
