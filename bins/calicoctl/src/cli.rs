//! The command line.

use std::ffi::OsStr;
use std::path::PathBuf;

use calico_core::resource::{Kind, SUBDOMAIN, is_subdomain};
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, Args, Parser, Subcommand};

use crate::output::{Format, FormatParser};

use crate::command::{ConvertArgs, DatastoreCommand, DiffArgs, VersionArgs};

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

/// Upstream's verbs that are not there yet, and where what they tell is to be found.
const LATER: [(&str, &str); 3] =
    [("ipam", ""), ("node", ": calico-node status tells how the agent of this host is"), ("cluster", "")];

/// What is to be said of a command line that is wrong, beyond what the parser says.
pub(crate) fn hint(error: &clap::Error) -> Option<String> {
    let ContextValue::String(verb) = error.get(ContextKind::InvalidSubcommand)? else { return None };
    let (verb, instead) = LATER.iter().find(|(later, _)| later == verb)?;
    Some(format!("calicoctl {verb} comes with a later version{instead}"))
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
    #[command(after_help = crate::command::DIFF_HELP)]
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
    Patch(crate::command::edit::PatchArgs),
    /// Set or remove a label of one resource
    Label(crate::command::edit::LabelArgs),
    /// Show the versions of this program and of the cluster
    Version(VersionArgs),
    /// Convert documents of version 1, and Kubernetes' network policies, to version 3
    Convert(ConvertArgs),
    /// Ask what policy does to flows, and what a change would do
    #[command(subcommand)]
    Policy(crate::command::policy::PolicyCommand),
    /// Lock, move and tidy the datastore as a whole
    #[command(subcommand)]
    Datastore(DatastoreCommand),
    /// Print a completion script, for example: source <(calicoctl completion bash)
    Completion {
        /// Shell
        shell: clap_complete::Shell,
    },
}

/// Files to read.
#[derive(Debug, Clone, Args)]
pub(crate) struct FileArgs {
    /// File, directory or - for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, action = ArgAction::Append)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) options: FileOptions,
}

/// Files whose resources are written.
#[derive(Debug, Clone, Args)]
pub(crate) struct WriteArgs {
    #[command(flatten)]
    pub(crate) input: FileArgs,
    /// Check everything, against the datastore too, and write nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FileOptions {
    /// Read directories below directories too
    #[arg(short = 'R', long)]
    pub(crate) recursive: bool,
    /// Accept files without resources
    #[arg(long)]
    pub(crate) skip_empty: bool,
    /// Namespace of resources that name none [default: default]
    #[arg(short, long, value_name = "NAMESPACE", value_parser = namespace)]
    namespace: Option<String>,
}

impl FileOptions {
    /// The namespace that was named. Nothing between quotes (a script's unset variable) names none, as upstream.
    pub(crate) fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref().filter(|namespace| !namespace.is_empty())
    }
}

pub(crate) fn namespace(text: &str) -> Result<String, &'static str> {
    if text.is_empty() || is_subdomain(text) { Ok(text.to_owned()) } else { Err(SUBDOMAIN) }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// Form of the output
    #[arg(short, long, value_name = "FORMAT", value_parser = FormatParser, default_value = "table")]
    pub(crate) output: Format,
    /// Every namespace
    #[arg(short = 'A', long, short_alias = 'a', conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// Leave out what belongs to this cluster (uid, resource version, time of creation), for named resources
    #[arg(long)]
    pub(crate) export: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) target: Target,
    /// It is no error if a resource does not exist
    #[arg(short, long)]
    pub(crate) skip_not_exists: bool,
    /// Check everything, against the datastore too, and delete nothing
    #[arg(long)]
    pub(crate) dry_run: bool,
}

/// Resources, by kind and name or by file.
#[derive(Debug, Clone, Args)]
pub(crate) struct Target {
    /// Kind of resource; several separated by commas
    #[arg(value_name = "KIND", required_unless_present = "files", value_parser = KindText, hide_possible_values = true)]
    pub(crate) kinds: Option<String>,
    /// Names
    #[arg(value_name = "NAME", requires = "kinds")]
    pub(crate) names: Vec<String>,
    /// File, directory or - for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE", conflicts_with = "kinds", action = ArgAction::Append)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) options: FileOptions,
}

/// Any text: what is no kind is told by the verb, with what may have been meant. The values are for completion scripts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KindText;

impl TypedValueParser for KindText {
    type Value = String;

    fn parse_ref(&self, command: &clap::Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Kind::OPERATORS.iter().map(|kind| PossibleValue::new(kind.plural()))))
    }
}
