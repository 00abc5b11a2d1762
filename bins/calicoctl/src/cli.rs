//! The command line.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};

use crate::args::{FileArgs, WriteArgs};
use crate::command::bgp::{self, BgpCommand};
use crate::command::change::{self, DeleteArgs, Verb};
use crate::command::convert::{self, ConvertArgs};
use crate::command::datastore::{self, DatastoreCommand};
use crate::command::diff::{self, DiffArgs};
use crate::command::edit::{self, LabelArgs, PatchArgs};
use crate::command::get::{self, GetArgs};
use crate::command::node::{self, NodeCommand};
use crate::command::policy::{self, PolicyCommand};
use crate::command::version::{self, VersionArgs};
use crate::context::Context;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  calicoctl apply -f policy.yaml              create or update what the file describes
  calicoctl get globalnetworkpolicies -o wide
  calicoctl get wep -A                        workload endpoints of every namespace
  calicoctl get gnp allow-dns -o yaml | calicoctl apply -f -
  calicoctl delete -f policy.yaml

The datastore is chosen by the configuration file (-c) or by the environment: DATASTORE_TYPE
(sqlite, etcdv3), CALICO_DATASTORE_PATH, ETCD_ENDPOINTS and the rest of upstream's variables.
Where no type is named, settings of etcd win over a path. A missing file of the embedded datastore
is made by apply, create and replace only, and only in a directory that exists; of directories,
only /var/lib/calico is made.

What cannot be read is shown as it is stored by get KIND NAME -o yaml, and mended by replace -f.

Exit codes: 0 success, 1 failure, 2 wrong usage.";

const KINDS: &str = "\
Kinds (any case; singular, plural or short):
  node (no)                     ippool (ipp, pool)              ipreservation (reservation)
  workloadendpoint (wep)        hostendpoint (hep)              profile (pro)
  networkpolicy (np, pol)       globalnetworkpolicy (gnp)       tier
  networkset (netsets)          globalnetworkset (gnetsets)     livemigration
  stagednetworkpolicy (snp)     stagedglobalnetworkpolicy (sgnp)
  stagedkubernetesnetworkpolicy (sknp)
  bgpconfiguration (bgpconfig)  bgppeer (bgpp)                  bgpfilter (bgpf)
  felixconfiguration (felixconfig)      ipamconfiguration (ipamconfig)
  clusterinformation (clusterinfo)      caliconodestatus (nodestatus)
  kubecontrollersconfiguration (kubecontrollersconfig)";

/// Upstream's verbs that are not there yet.
const LATER: [&str; 2] = ["ipam", "cluster"];

/// What is to be said of a command line that is wrong, beyond what the parser says.
pub(crate) fn hint(error: &clap::Error) -> Option<String> {
    let ContextValue::String(verb) = error.get(ContextKind::InvalidSubcommand)? else { return None };
    LATER.contains(&verb.as_str()).then(|| format!("calicoctl {verb} comes with a later version"))
}

/// Reads and changes Calico's resources.
#[derive(Debug, Parser)]
#[command(name = "calicoctl", version, after_help = EXAMPLES, term_width = 100)]
pub(crate) struct Cli {
    /// Configuration file of kind CalicoAPIConfig [default: /etc/calico/calicoctl.cfg, if it exists]
    #[arg(short, long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// What is logged to standard error: panic, fatal, error, warn, info, debug
    #[arg(short, long, global = true, value_name = "LEVEL", default_value = "panic")]
    pub(crate) log_level: calico_cmd::telemetry::LogLevel,
    /// Accepted for upstream's scripts; versions are not compared
    #[arg(long, global = true)]
    pub(crate) allow_version_mismatch: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Create resources, or update them where they exist
    Apply(WriteArgs),
    /// Create resources; it is an error if one exists
    Create {
        #[command(flatten)]
        input: WriteArgs,
        /// Leave resources alone that exist already
        #[arg(long)]
        skip_exists: bool,
    },
    /// Replace resources, also those that cannot be read; it is an error if one does not exist
    Replace(WriteArgs),
    /// Show what apply would change, without changing it
    #[command(after_help = diff::HELP)]
    Diff(DiffArgs),
    /// Check files without a datastore: syntax, fields, names, selectors
    Validate(FileArgs),
    /// Show resources
    #[command(after_help = KINDS)]
    Get(GetArgs),
    /// Delete resources, by file or by kind and name
    #[command(after_help = KINDS)]
    Delete(DeleteArgs),
    /// Change fields of one resource
    Patch(PatchArgs),
    /// Set or remove a label of one resource
    Label(LabelArgs),
    /// Show the versions of this program and of the cluster
    Version(VersionArgs),
    /// Convert documents of version 1, and Kubernetes' network policies, to version 3
    Convert(ConvertArgs),
    /// Ask what policy does to flows, and what a change would do
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Lock, move and tidy the datastore as a whole
    #[command(subcommand)]
    Datastore(DatastoreCommand),
    /// Show what the BGP speaker of this host knows, and why
    #[command(subcommand)]
    Bgp(BgpCommand),
    /// Show how Calico is on this host
    #[command(subcommand)]
    Node(NodeCommand),
    /// Print a completion script, for example: source <(calicoctl completion bash)
    Completion {
        /// Shell
        shell: clap_complete::Shell,
    },
}

/// Carries out a command line.
pub(crate) async fn run(cli: Cli, context: &mut Context<'_>) -> Result<(), Failure> {
    let config = cli.config.as_deref();
    match cli.command {
        Command::Apply(input) => change::write(Verb::Apply, &input, config, context).await,
        Command::Create { input, skip_exists } => {
            change::write(Verb::Create { skip_exists }, &input, config, context).await
        }
        Command::Replace(input) => change::write(Verb::Replace, &input, config, context).await,
        Command::Diff(args) => diff::diff(&args, config, context).await,
        Command::Validate(input) => change::validate(&input, context).await,
        Command::Get(args) => get::get(&args, config, context).await,
        Command::Delete(args) => change::delete(&args, config, context).await,
        Command::Patch(args) => edit::patch(&args, config, context).await,
        Command::Label(args) => edit::label(&args, config, context).await,
        Command::Version(args) => version::version(&args, config, context).await,
        Command::Convert(args) => convert::convert(&args, context),
        Command::Policy(command) => policy::run(command, config, context).await,
        Command::Datastore(command) => datastore::run(command, config, context).await,
        Command::Bgp(command) => bgp::run(&command, context),
        Command::Node(command) => node::run(&command, context),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "calicoctl", &mut script);
            context.stdout.write_all(&script).map_err(Failure::from)
        }
    }
}
