//! What verbs have in common on the command line: files, kinds, names, namespaces.

use std::ffi::OsStr;
use std::path::PathBuf;

use calico_core::resource::{Kind, SUBDOMAIN, Scope, is_subdomain};
use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, Args};

use crate::failure::Failure;

/// Namespace of resources that name none.
pub(crate) const DEFAULT_NAMESPACE: &str = "default";

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

/// Kinds that an operator typed, separated by commas.
fn kinds(text: &str) -> Result<Vec<Kind>, Failure> {
    text.split(',').map(kind).collect()
}

/// The kind that an operator typed.
pub(crate) fn kind(text: &str) -> Result<Kind, Failure> {
    let name = text.trim();
    Kind::from_user(name).ok_or_else(|| {
        let mut message = format!("resource type '{name}' is not supported");
        if let Some(near) = Kind::nearest(name) {
            message += &format!("\n  did you mean {near}?");
        } else {
            let known: Vec<_> = Kind::OPERATORS.iter().map(|kind| kind.name()).collect();
            message += &format!("\n  known: {}", known.join(", "));
        }
        Failure::message(message)
    })
}

/// Kinds and the namespace for each of them.
pub(crate) fn targets(target: &Target, all_namespaces: bool) -> Result<Vec<(Kind, Option<String>)>, Failure> {
    let kinds = kinds(target.kinds.as_deref().unwrap_or_default())?;
    if kinds.len() > 1 && !target.names.is_empty() {
        return Err(Failure::Usage("names can be given for one kind only".into()));
    }
    let namespace = target.options.namespace();
    kinds.into_iter().map(|kind| Ok((kind, in_namespace(kind, namespace, all_namespaces)?))).collect()
}

/// The namespace in which resources of a kind are looked for, if one was or was not given.
pub(crate) fn in_namespace(kind: Kind, given: Option<&str>, all_namespaces: bool) -> Result<Option<String>, Failure> {
    match (kind.scope(), given) {
        (Scope::Cluster, Some(_)) => Err(Failure::message(format_args!("{kind} is not namespaced"))),
        (Scope::Cluster, None) => Ok(None),
        (Scope::Namespaced, _) if all_namespaces => Ok(None),
        (Scope::Namespaced, given) => Ok(Some(given.unwrap_or(DEFAULT_NAMESPACE).to_owned())),
    }
}
