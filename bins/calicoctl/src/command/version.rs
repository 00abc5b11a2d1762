//! `version`.

use std::path::Path;
use std::time::Duration;

use calico_cmd::output::chain;
use calico_cmd::store::{OpenError, StoreConfig};
use calico_core::resource::{GoDuration, Kind, Resource, ResourceKey};
use calico_datastore::client::Client;
use clap::Args;

use crate::context::Context;
use crate::failure::Failure;
use crate::spoilt::way_out_of;

/// The commit that a release is built from (see the build script).
const COMMIT: &str = match option_env!("CALICO_GIT_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// Arguments of `version`.
#[derive(Debug, Clone, Args)]
pub(crate) struct VersionArgs {
    /// Only this program's version
    #[arg(long)]
    client: bool,
    /// Go on, and show the cluster's version again whenever it has changed: 5s, 1m …
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    poll: Option<Duration>,
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<GoDuration>().ok().and_then(GoDuration::duration);
    parsed.ok_or_else(|| format!("invalid poll duration specified: {text}"))
}

/// Version and type of a cluster.
type Cluster = (String, String);

pub(crate) async fn version(
    args: &VersionArgs,
    config: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    writeln!(context.stdout, "Client Version:    v{}", env!("CARGO_PKG_VERSION"))?;
    writeln!(context.stdout, "Git commit:        {COMMIT}")?;
    if args.client {
        return Ok(());
    }
    let (sort, place) = sort_and_place(&context.resolve(config)?.config);
    writeln!(context.stdout, "Datastore:         {sort}, {place}")?;
    let store = match context.existing(config).await? {
        Ok(store) => store,
        Err(why) => {
            writeln!(context.stdout, "Unable to detect installed Calico version")?;
            // Where there is no datastore yet there is nothing to tell of.
            return if matches!(why, OpenError::Absent { .. }) { Ok(()) } else { Err(why.into()) };
        }
    };
    let client = context.client_of(store);
    let poll = args.poll.filter(|pause| !pause.is_zero());
    let mut shown: Option<Cluster> = None;
    loop {
        let found = cluster(&client).await;
        match &found {
            Ok(found) => show(found, shown.as_ref(), context)?,
            Err(message) if poll.is_some() => writeln!(context.stderr, "{message}")?,
            Err(_) => {}
        }
        let Some(pause) = poll else {
            return found.map(drop).map_err(Failure::Message);
        };
        // After a failure everything is new.
        shown = found.ok();
        context.stdout.flush()?;
        tokio::time::sleep(pause).await;
    }
}

/// The kind of datastore, as the configuration calls it, and where it is.
pub(super) fn sort_and_place(config: &StoreConfig) -> (&'static str, String) {
    match config {
        StoreConfig::Sqlite { path } => ("sqlite", path.display().to_string()),
        StoreConfig::Etcd(etcd) => ("etcdv3", etcd.endpoints.join(",")),
        _ => ("unknown", "of a kind that this program cannot show".to_owned()),
    }
}

async fn cluster(client: &Client) -> Result<Cluster, String> {
    let key = ResourceKey::cluster(Kind::ClusterInformation, "default");
    let stored = client.get(&key).await;
    let stored = stored.map_err(|error| {
        format!("unable to retrieve Cluster Version or Type: {}{}", chain(&error), way_out_of(&error))
    })?;
    let known = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
    match &*stored.resource {
        Resource::ClusterInformation(cluster) => {
            Ok((known(&cluster.spec.calico_version), known(&cluster.spec.cluster_type)))
        }
        _ => Err("unable to retrieve Cluster Version or Type: it is something else".to_owned()),
    }
}

/// Each line whose content is not shown yet.
fn show(found: &Cluster, shown: Option<&Cluster>, context: &mut Context<'_>) -> Result<(), Failure> {
    let (version, kind) = found;
    if shown.is_none_or(|shown| shown.0 != *version) {
        writeln!(context.stdout, "Cluster Version:   {}", calico_cmd::output::printable(version))?;
    }
    if shown.is_none_or(|shown| shown.1 != *kind) {
        writeln!(context.stdout, "Cluster Type:      {}", calico_cmd::output::printable(kind))?;
    }
    Ok(())
}
