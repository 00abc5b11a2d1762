//! `get`.

use std::path::Path;

use calico_cmd::output::chain;
use calico_core::net::AsNumber;
use calico_core::resource::{Kind, Resource, ResourceKey};
use calico_datastore::client::Client;
use calico_datastore::{BadObject, DatastoreError, Scope, Stored};

use clap::Args;

use crate::args::{Target, targets};
use crate::context::Context;
use crate::failure::Failure;
use crate::input;
use crate::output::{self, Format, FormatParser, Found, Show};
use crate::spoilt::{Spoilt, mend, way_out, ways_out};

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

pub(crate) async fn get(args: &GetArgs, config: Option<&Path>, context: &mut Context<'_>) -> Result<(), Failure> {
    let target = &args.target;
    if args.all_namespaces && !target.names.is_empty() {
        return Err(Failure::message("cannot use --all-namespace flag for getting a single resource"));
    }
    let mut found = Vec::new();
    let mut errors = Errors { shows_documents: args.output.is_document(), ..Errors::default() };
    let client = if target.files.is_empty() {
        let targets = targets(target, args.all_namespaces)?;
        let client = context.client(config).await?;
        for (kind, namespace) in targets {
            if target.names.is_empty() {
                found.push(list(&client, kind, namespace.as_deref(), &mut errors).await?);
            } else {
                let keys = target.names.iter().map(|name| key(kind, namespace.as_deref(), name));
                found.push(named(&client, kind, keys, &mut errors).await);
            }
        }
        client
    } else {
        let documents = input::documents(&target.files, &target.options, context.stdin)?;
        let keys = input::named(documents, target.options.namespace(), input::Repeats::Accepted)?;
        let client = context.client(config).await?;
        for input::Named { key, .. } in keys {
            found.push(named(&client, key.kind(), std::iter::once(key), &mut errors).await);
        }
        client
    };
    let with_namespace = args.all_namespaces || target.options.namespace().is_some();
    let nothing = found.iter().all(|found| {
        found.listed.is_none() && found.resources.is_empty() && (found.spoilt.is_empty() || !args.output.is_document())
    });
    if !nothing || errors.lines.is_empty() {
        let as_number = if args.output.tells_as_number(&found) { as_number(&client).await } else { String::new() };
        let show = Show {
            format: &args.output,
            with_namespace,
            as_number: &as_number,
            export: args.export && (!target.names.is_empty() || !target.files.is_empty()),
        };
        context.stdout.write_all(output::render(&found, show)?.as_bytes())?;
    }
    for partial in &errors.partial {
        context.tell(&format!("warning: {partial}"));
    }
    // Once, however many there are.
    match errors.bad.as_slice() {
        [] => {}
        [only] => errors.lines.push(way_out(only)),
        _ => errors.lines.push(ways_out()),
    }
    if errors.lines.is_empty() { Ok(()) } else { Err(Failure::Message(errors.lines.join("\n"))) }
}

/// What is to be said below what was found.
#[derive(Default)]
struct Errors {
    lines: Vec<String>,
    /// Whether documents are shown, so that what of them is not as it is stored is an error.
    shows_documents: bool,
    /// Of other output: what is in force and not all read.
    partial: Vec<String>,
    /// Of listings: what cannot be read.
    bad: Vec<ResourceKey>,
    /// Whether the store failed: to ask it again would be to wait again.
    is_over: bool,
}

impl Errors {
    fn add(&mut self, error: impl std::fmt::Display) {
        self.lines.push(format!("failed to get resources: {error}"));
    }

    fn note_partial(&mut self, stored: &Stored) {
        let Some(reason) = stored.raw.inexact() else { return };
        let text = format!("{} is in force, but not all of it can be read: {reason}", stored.key);
        if self.shows_documents { self.add(text + "\n" + &mend(&stored.key)) } else { self.partial.push(text) }
    }
}

/// The number of the cluster's autonomous system, as tables and templates are told it: "unknown" if it cannot be read.
async fn as_number(client: &Client) -> String {
    let stored = client.get(&ResourceKey::cluster(Kind::BgpConfiguration, "default")).await;
    let number = match stored.map(|stored| stored.resource) {
        Ok(resource) => match &*resource {
            Resource::BgpConfiguration(configuration) => configuration.spec.as_number,
            _ => None,
        },
        Err(error) if error.is_not_found() => None,
        Err(_) => return "unknown".into(),
    };
    number.unwrap_or(AsNumber::DEFAULT).to_string()
}

fn key(kind: Kind, namespace: Option<&str>, name: &str) -> ResourceKey {
    match namespace {
        Some(namespace) => ResourceKey::namespaced(kind, namespace, name),
        None => ResourceKey::cluster(kind, name),
    }
}

/// Every resource of a kind; those that cannot be read become errors.
async fn list(client: &Client, kind: Kind, namespace: Option<&str>, errors: &mut Errors) -> Result<Found, Failure> {
    let scope = match namespace {
        Some(namespace) => Scope::Namespace { kind, namespace: namespace.into() },
        None => Scope::Kind(kind),
    };
    let listing = client.list(&scope).await;
    let listing =
        listing.map_err(|error| Failure::message(format_args!("failed to get resources: {}", chain(&error))))?;
    let mut resources = Vec::with_capacity(listing.entries.len());
    for entry in listing.entries {
        match entry {
            Ok(stored) => {
                errors.note_partial(&stored);
                resources.push(stored);
            }
            Err(bad) => {
                errors.add(format_args!("{} cannot be read: {}", bad.key, bad.reason));
                errors.bad.push(bad.key);
            }
        }
    }
    if kind == Kind::Tier {
        // In the order in which they decide, as upstream.
        resources.sort_by(|one, other| place(one).total_cmp(&place(other)));
    }
    Ok(Found { kind, resources, spoilt: Vec::new(), listed: Some(listing.revision) })
}

/// Where a tier stands among the others.
fn place(stored: &Stored) -> f64 {
    let order = if let Resource::Tier(tier) = &*stored.resource { tier.spec.order } else { None };
    order.unwrap_or(f64::INFINITY)
}

/// Those that cannot be read are errors, too, and are shown as they are stored.
async fn named(client: &Client, kind: Kind, keys: impl Iterator<Item = ResourceKey>, errors: &mut Errors) -> Found {
    let (mut resources, mut spoilt) = (Vec::new(), Vec::new());
    for key in keys {
        if errors.is_over {
            errors.add(format_args!("{key} was not asked for any more"));
            continue;
        }
        match client.entry(&key).await {
            Ok(Ok(stored)) => {
                errors.note_partial(&stored);
                if errors.shows_documents && stored.raw.inexact().is_some() {
                    spoilt.push(Spoilt::of_stored(&stored));
                } else {
                    resources.push(stored);
                }
            }
            Ok(Err(bad)) => {
                spoilt.push(Spoilt::of_bad(&bad));
                let BadObject { key, reason, .. } = bad;
                let ways = if errors.shows_documents { mend(&key) } else { way_out(&key) };
                let error = DatastoreError::Unreadable { key, reason };
                errors.add(format_args!("{error}\n{ways}"));
            }
            Err(error) => {
                errors.is_over = error.is_of_store();
                errors.add(chain(&error));
            }
        }
    }
    Found { kind, resources, spoilt, listed: None }
}
