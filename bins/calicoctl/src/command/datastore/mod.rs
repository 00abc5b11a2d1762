//! `datastore`: steps of a migration.

mod export;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use calico_cmd::output::chain;
use calico_core::resource::{DEFAULT_TIER, Kind, Resource, ResourceKey};
use calico_datastore::client::{Client, ClientError};
use calico_datastore::{Datastore, DatastoreError, Precondition, Scope, Stored, Write};
use clap::Subcommand;

use super::{Context, version};
use crate::failure::{Failure, printable};
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

pub(super) async fn run(
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
                writeln!(context.stderr, "{}", printable(&format!("warning: left out: {line}")))?;
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
/// stopped at any time and done again.
async fn policy_names(config: Option<&Path>, context: &mut Context<'_>) -> Result<(), Failure> {
    let client = context.client(config).await?;
    let mut migrated = 0;
    for kind in
        [Kind::NetworkPolicy, Kind::GlobalNetworkPolicy, Kind::StagedNetworkPolicy, Kind::StagedGlobalNetworkPolicy]
    {
        let listing = client.store().list(&Scope::Kind(kind)).await;
        let listing = listing.map_err(|error| Failure::message(format_args!("list {kind}: {}", chain(&error))))?;
        for entry in listing.entries {
            match entry {
                Ok(policy) => migrated += usize::from(move_policy(&**client.store(), &policy).await?),
                Err(bad) => {
                    let line = format!("warning: {} cannot be read and stays as it is: {}", bad.key, bad.reason);
                    writeln!(context.stderr, "{}", printable(&line))?;
                }
            }
        }
    }
    writeln!(context.stdout, "Policy name migration complete, migrated {migrated} policies.").map_err(Failure::from)
}

/// Whether the policy had to move.
async fn move_policy(store: &dyn Datastore, policy: &Stored) -> Result<bool, Failure> {
    let Some(key) = policy.resource.key() else { return Ok(false) };
    if policy.resource.tier() != Some(DEFAULT_TIER) || key == policy.key {
        return Ok(false);
    }
    let delete = || Write::delete(policy.key.clone(), Precondition::At(policy.revision));
    let put = Write::put(key, Precondition::Absent, Arc::clone(&policy.resource), Some(Arc::clone(&policy.raw)));
    let mut done = store.commit(vec![put, delete()].into()).await;
    if let Err(DatastoreError::AlreadyExists { .. }) = done {
        // An earlier version of this command wrote the new one and was stopped.
        done = store.commit(delete().into()).await;
    }
    match done {
        Ok(_) => Ok(true),
        Err(error) => Err(Failure::message(format_args!("migrate {}: {}", policy.key, chain(&error)))),
    }
}
