//! `get`.

use std::path::Path;

use calico_cmd::output::chain;
use calico_core::net::AsNumber;
use calico_core::resource::{Kind, Resource, ResourceKey};
use calico_datastore::Scope;
use calico_datastore::client::Client;

use super::{Context, targets};
use crate::cli::GetArgs;
use crate::failure::Failure;
use crate::input;
use crate::output::{self, Found, Show};

pub(super) async fn get(args: &GetArgs, config: Option<&Path>, context: &mut Context<'_>) -> Result<(), Failure> {
    let target = &args.target;
    if args.all_namespaces && !target.names.is_empty() {
        return Err(Failure::message("cannot use --all-namespace flag for getting a single resource"));
    }
    let mut found = Vec::new();
    let mut errors = Vec::new();
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
        let keys = input::keys(documents, target.options.namespace(), input::Repeats::Accepted)?;
        let client = context.client(config).await?;
        for key in keys {
            found.push(named(&client, key.kind(), std::iter::once(key), &mut errors).await);
        }
        client
    };
    let with_namespace = args.all_namespaces || target.options.namespace().is_some();
    let nothing = found.iter().all(|found| found.listed.is_none() && found.resources.is_empty());
    if !nothing || errors.is_empty() {
        let as_number = if args.output.tells_as_number(&found) { as_number(&client).await } else { String::new() };
        let show = Show {
            format: &args.output,
            with_namespace,
            as_number: &as_number,
            export: args.export && (!target.names.is_empty() || !target.files.is_empty()),
        };
        context.stdout.write_all(output::render(&found, show)?.as_bytes())?;
    }
    if errors.is_empty() { Ok(()) } else { Err(Failure::Message(errors.join("\n"))) }
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
async fn list(
    client: &Client,
    kind: Kind,
    namespace: Option<&str>,
    errors: &mut Vec<String>,
) -> Result<Found, Failure> {
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
            Ok(stored) => resources.push(stored),
            Err(bad) => errors.push(format!("failed to get resources: {} cannot be read: {}", bad.key, bad.reason)),
        }
    }
    Ok(Found { kind, resources, listed: Some(listing.revision) })
}

async fn named(
    client: &Client,
    kind: Kind,
    keys: impl Iterator<Item = ResourceKey>,
    errors: &mut Vec<String>,
) -> Found {
    let mut resources = Vec::new();
    for key in keys {
        match client.get(&key).await {
            Ok(stored) => resources.push(stored),
            Err(error) => errors.push(format!("failed to get resources: {}", chain(&error))),
        }
    }
    Found { kind, resources, listed: None }
}
