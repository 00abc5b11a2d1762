//! `datastore`: steps of a migration.

mod export;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use calico_cmd::output::chain;
use calico_core::Few;
use calico_core::resource::{DEFAULT_TIER, Kind, Resource, ResourceKey, merge_unknown};
use calico_datastore::client::{Client, ClientError};
use calico_datastore::{Datastore, DatastoreError, Precondition, Scope, Stored, Write};
use clap::Subcommand;

use super::version;
use crate::context::Context;
use crate::failure::Failure;
use crate::{spoilt, write};

/// Commands of `datastore`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DatastoreCommand {
    /// Move the data to a datastore of another kind
    #[command(subcommand)]
    Migrate(MigrateCommand),
    /// Store policies of the default tier under their own names, without the prefix of versions before 3.32
    MigratePolicyNames,
}

/// Commands of `datastore migrate`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum MigrateCommand {
    /// Let nobody act on changes of the datastore until it is unlocked
    Lock,
    /// Let everybody act on the datastore again
    Unlock,
    /// Print the data of a locked datastore, for import
    Export {
        /// Leave out what cannot be read, and name it at the beginning of the output and on standard error
        #[arg(long)]
        skip_unreadable: bool,
    },
    /// Read what export printed into the Kubernetes datastore, which this version does not have yet
    Import {
        /// File
        #[arg(short = 'f', long = "filename", value_name = "FILE")]
        file: PathBuf,
    },
}

pub(crate) async fn run(
    command: DatastoreCommand,
    config: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let migrate = match command {
        DatastoreCommand::Migrate(migrate) => migrate,
        DatastoreCommand::MigratePolicyNames => return policy_names(config, context).await,
    };
    match migrate {
        MigrateCommand::Lock => set_ready(false, config, context).await,
        MigrateCommand::Unlock => set_ready(true, config, context).await,
        MigrateCommand::Export { skip_unreadable } => {
            let client = context.client(config).await?;
            let (text, left_out) = export::export(&client, skip_unreadable).await?;
            for line in left_out {
                context.tell(&format!("warning: left out: {line}"));
            }
            context.stdout.write_all(text.as_bytes()).map_err(Failure::from)
        }
        MigrateCommand::Import { file } => Err(no_import(&file, config, context)?),
    }
}

fn information() -> ResourceKey {
    ResourceKey::cluster(Kind::ClusterInformation, "default")
}

fn no_import(file: &Path, config: Option<&Path>, context: &Context<'_>) -> Result<Failure, Failure> {
    let (sort, _) = version::sort_and_place(&context.resolve(config)?.config);
    Ok(Failure::message(format_args!(
        "invalid datastore type: {sort} to import to for datastore migration. Datastore type must be kubernetes\n  \
         this version has no kubernetes datastore yet: {} can be read by upstream's calicoctl",
        file.display()
    )))
}

/// Whether who reads the datastore may act on it. The writes of `calicoctl` and others stay possible.
async fn set_ready(ready: bool, config: Option<&Path>, context: &mut Context<'_>) -> Result<(), Failure> {
    const ATTEMPTS: usize = 10;
    let (word, done) = if ready { ("unlocking", "unlocked") } else { ("locking", "locked") };
    let client = context.client(config).await?;
    client.initialise().await.map_err(|error| {
        let error = chain(&error);
        Failure::message(format_args!("unable to initialize cluster information for the datastore migration: {error}"))
    })?;
    let mut attempts = 0..ATTEMPTS;
    loop {
        match write_ready(&client, ready).await {
            Ok(()) => break,
            // What another wrote in between stays.
            Err(error) if error.is_conflict() && attempts.next().is_some() => {}
            Err(error) => {
                let told = write::told(&error, None);
                let mut message = format!("error updating ClusterInformation for {word}: {told}");
                if spoilt::is_spoilt(&error) {
                    message += "\n  the new document's spec.datastoreReady says whether the datastore is locked: false, or true";
                }
                return Err(Failure::Message(message));
            }
        }
    }
    writeln!(context.stdout, "Datastore {done}.").map_err(Failure::from)
}

async fn write_ready(client: &Client, ready: bool) -> Result<(), ClientError> {
    let stored = client.get(&information()).await?;
    let mut resource = Resource::clone(&stored.resource);
    if let Resource::ClusterInformation(cluster) = &mut resource {
        cluster.spec.datastore_ready = Some(ready);
    }
    client.update(resource).await.map(drop)
}

/// Policies of the default tier were stored under `default.` and their name before 3.32. Each is moved in one transaction, so it can be
/// stopped at any time and done again. What cannot be moved stays, and keeps no other one from being moved.
async fn policy_names(config: Option<&Path>, context: &mut Context<'_>) -> Result<(), Failure> {
    let client = context.client(config).await?;
    let (mut migrated, mut left) = (0, 0);
    let mut told = Few::default();
    for kind in
        [Kind::NetworkPolicy, Kind::GlobalNetworkPolicy, Kind::StagedNetworkPolicy, Kind::StagedGlobalNetworkPolicy]
    {
        let listing = client.store().list(&Scope::Kind(kind)).await;
        let listing = listing.map_err(|error| Failure::message(format_args!("list {kind}: {}", chain(&error))))?;
        for entry in listing.entries {
            let moved = match entry {
                Ok(policy) => move_policy(&**client.store(), &policy).await?,
                Err(bad) if is_former(&bad.key) => {
                    Moved::No(not_migrated(&bad.key, &format!("it cannot be read: {}", bad.reason), &[&bad.key]))
                }
                Err(bad) => {
                    context.tell(&format!("warning: {} cannot be read and stays as it is: {}", bad.key, bad.reason));
                    Moved::Needless
                }
            };
            match moved {
                Moved::Yes => migrated += 1,
                Moved::Needless => {}
                Moved::No(why) => {
                    left += 1;
                    told.add(|| why);
                }
            }
        }
    }
    if left == 0 {
        let line = format_args!("Policy name migration complete, migrated {migrated} policies.");
        return writeln!(context.stdout, "{line}").map_err(Failure::from);
    }
    let lines = told.finish(|more| format!("… and {more} more")).join("\n");
    Err(Failure::message(format_args!(
        "Policy name migration is not complete: migrated {migrated} policies, and {left} stay as they are until you decide \
         about them and run this again:\n{lines}"
    )))
}

/// What became of a policy.
enum Moved {
    Yes,
    /// It is under its own name.
    Needless,
    /// Why it stays, and what can be done.
    No(String),
}

/// Whether it is a key of the form in which policies of the default tier were kept.
fn is_former(key: &ResourceKey) -> bool {
    key.name().and_then(|name| name.strip_prefix(DEFAULT_TIER)).is_some_and(|rest| rest.starts_with('.'))
}

/// Why a policy stays, and how those that are in the way are seen and removed.
fn not_migrated(key: &ResourceKey, reason: &str, involved: &[&ResourceKey]) -> String {
    let see = involved.iter().map(|key| spoilt::see(&spoilt::named(key)));
    let remove = involved.iter().map(|key| spoilt::remove(&spoilt::named(key)));
    let ways = see.chain(remove).collect::<Vec<_>>().join("\n");
    format!("{key} is not migrated: {}\n{ways}", reason.replace('\n', " "))
}

async fn move_policy(store: &dyn Datastore, policy: &Stored) -> Result<Moved, Failure> {
    let old = &policy.key;
    let Some(key) = policy.resource.key().filter(|key| key != old) else { return Ok(Moved::Needless) };
    if policy.resource.tier() != Some(DEFAULT_TIER) {
        return Ok(Moved::Needless);
    }
    let stays = |reason: &str, involved: &[&ResourceKey]| Ok(Moved::No(not_migrated(old, reason, involved)));
    let delete = || Write::delete(old.clone(), Precondition::At(policy.revision));
    let raw = Some(Arc::clone(&policy.raw));
    let put = Write::put(key.clone(), Precondition::Absent, Arc::clone(&policy.resource), raw);
    let mut done = store.commit(vec![put, delete()].into()).await.map(drop);
    if let Err(DatastoreError::AlreadyExists { .. }) = done {
        // An earlier version of this command may have written the new one and been stopped. Any other one may be let through what this
        // one denies, so nobody chooses between them but an operator.
        done = match store.get(&key).await {
            Ok(new) if is_same(policy, &new) => {
                // As it is, so that it is there when this one goes.
                let again = Write::update(&new, Arc::clone(&new.resource));
                store.commit(vec![again, delete()].into()).await.map(drop)
            }
            Ok(_) => {
                return stays(&format!("another policy is stored as {key}; keep the one that is meant"), &[old, &key]);
            }
            Err(DatastoreError::Unreadable { reason, .. }) => {
                return stays(&format!("what is stored as {key} cannot be read ({reason})"), &[old, &key]);
            }
            Err(error) => Err(error),
        };
    }
    match done {
        Ok(()) => Ok(Moved::Yes),
        Err(error @ DatastoreError::Inexact { .. }) => stays(&chain(&error), &[old]),
        Err(error) if error.is_conflict() || error.is_not_found() => {
            stays(&format!("{}: run this command again", chain(&error)), &[old])
        }
        Err(error) => Err(Failure::message(format_args!("migrate {old}: {}", chain(&error)))),
    }
}

/// Whether two policies say the same, but for their identity: what nobody knows of them too.
fn is_same(one: &Stored, other: &Stored) -> bool {
    let bare = |stored: &Stored| {
        let mut resource = Resource::clone(&stored.resource);
        resource.fill_defaults().ok()?;
        let metadata = resource.metadata_mut()?;
        (metadata.uid, metadata.creation_timestamp, metadata.resource_version) = (None, None, None);
        stored.raw.inexact().is_none().then_some(resource)
    };
    let whole = |stored: &Stored, resource: &Resource| {
        merge_unknown(resource.kind(), &stored.raw, resource.encode()).get("spec").cloned()
    };
    match (bare(one), bare(other)) {
        (Some(first), Some(second)) => first == second && whole(one, &first) == whole(other, &second),
        _ => false,
    }
}
