//! The verbs that change something, and `validate`.

use std::path::Path;

use calico_cmd::output::chain;
use calico_core::resource::{Kind, ResourceKey};
use calico_datastore::client::{Client, Intent, Rehearsal};

use clap::Args;

use super::report::{self, Attempt};
use crate::args::{FileArgs, Target, WriteArgs, targets};
use crate::context::Context;
use crate::failure::Failure;
use crate::input::{self, Item};
use crate::protected::{self, Operation};
use crate::write::{self, Outcome};
use crate::{order, rehearse, warning};

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

/// How a file's resources are written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verb {
    Apply,
    Create { skip_exists: bool },
    Replace,
}

impl Verb {
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Apply => ("apply", "applied"),
            Self::Create { .. } => ("create", "created"),
            Self::Replace => ("replace", "replaced"),
        }
    }

    const fn intent(self) -> Intent {
        match self {
            Self::Apply => Intent::Apply,
            Self::Create { .. } => Intent::Create,
            Self::Replace => Intent::Update,
        }
    }
}

/// Reads and checks everything, against the datastore too, then writes it, tiers first. Until all is known to be right nothing is
/// made: neither a missing datastore nor the cluster's own tiers.
pub(crate) async fn write(
    verb: Verb,
    args: &WriteArgs,
    config: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let (word, past) = verb.words();
    let input = &args.input;
    let documents = input::documents(&input.files, &input.options, context.stdin)?;
    let client = context.client_before_writing(config).await?;
    let namespace = input.options.namespace();
    let mut items = input::check(documents, word, namespace, Some(&client)).await?;
    let skip_exists = matches!(verb, Verb::Create { skip_exists: true });
    rehearse::check(&client, word, verb.intent(), skip_exists, &mut items).await?;
    if items.is_empty() {
        return finish(report::summary(word, past, &[]), context);
    }
    warn_of_kinds(items.iter().map(|item| item.kind), context);
    if args.dry_run {
        for item in &items {
            warn(item, context);
        }
        return finish(report::dry(report::summary(word, past, &successes(&items))), context);
    }
    let client = context.client_for_writing(client, config).await?;
    let attempts = write_all(verb, &client, &items).await;
    for (item, attempt) in items.iter().zip(&attempts) {
        if matches!(attempt.outcome, Outcome::Done | Outcome::Undecided(_)) {
            warn(item, context);
        }
    }
    finish(report::summary(word, past, &attempts), context)
}

/// Writes all, and the cluster's own tiers before them.
async fn write_all(verb: Verb, client: &Client, items: &[Item]) -> Vec<Attempt> {
    let order = order::of_writing(items.iter().map(|item| item.kind));
    let mut ordered = order.iter().filter_map(|place| items.get(*place));
    let mut attempts = Vec::with_capacity(items.len());
    if let Err(error) = client.initialise().await {
        // As upstream: an operator may lack the right to write tiers and still apply policies.
        tracing::info!(%error, "the cluster's own tiers are not all there");
        if error.is_retryable()
            && let Some(first) = ordered.next()
        {
            attempts.push(Attempt::of_item(first, Outcome::Stopped(chain(&error))));
        }
    }
    for item in ordered {
        let outcome = match verb {
            _ if report::is_over(&attempts) => Outcome::Untried,
            Verb::Apply => write::apply(client, item).await,
            Verb::Create { skip_exists } => write::create(client, item, skip_exists).await,
            Verb::Replace => write::replace(client, item).await,
        };
        attempts.push(Attempt::of_item(item, outcome));
    }
    order::by_place(&order, attempts)
}

/// Reads and checks everything, without a datastore.
pub(crate) async fn validate(input: &FileArgs, context: &mut Context<'_>) -> Result<(), Failure> {
    let documents = input::documents(&input.files, &input.options, context.stdin)?;
    let items = input::check(documents, "validate", input.options.namespace(), None).await?;
    warn_of_kinds(items.iter().map(|item| item.kind), context);
    for item in &items {
        warn(item, context);
    }
    finish(report::summary("validate", "validated", &successes(&items)), context)
}

/// Deletes by file, or by kind and name.
pub(crate) async fn delete(args: &DeleteArgs, config: Option<&Path>, context: &mut Context<'_>) -> Result<(), Failure> {
    let target = &args.target;
    let wanted: Vec<input::Named> = if target.files.is_empty() {
        if target.names.is_empty() {
            return Err(Failure::Usage("name the resources to delete: calicoctl delete KIND NAME…".into()));
        }
        let mut wanted = Vec::new();
        for (kind, namespace) in targets(target, false)? {
            let key = |name: &String| match &namespace {
                Some(namespace) => ResourceKey::namespaced(kind, namespace, name),
                None => ResourceKey::cluster(kind, name),
            };
            wanted.extend(target.names.iter().map(|name| input::Named { key: key(name), revision: None }));
        }
        wanted
    } else {
        let documents = input::documents(&target.files, &target.options, context.stdin)?;
        input::named(documents, target.options.namespace(), input::Repeats::Refused("delete"))?
    };
    let client = context.client(config).await?;
    let mut rehearsal = args.dry_run.then(|| Rehearsal::new(&client));
    let mut attempts = Vec::with_capacity(wanted.len());
    let order = order::of_deleting(wanted.iter().map(|one| one.key.kind()));
    for one in order.iter().filter_map(|place| wanted.get(*place)) {
        let outcome = match report::is_over(&attempts) {
            true => Outcome::Untried,
            false => delete_one(&client, rehearsal.as_mut(), one, args.skip_not_exists).await,
        };
        attempts.push(Attempt::of_key(&one.key, outcome));
    }
    let told = report::deletions(&order::by_place(&order, attempts));
    finish(if args.dry_run { report::dry(told) } else { told }, context)
}

/// Deletes a resource, if it is still what the document was made of, or rehearses that.
async fn delete_one(
    client: &Client,
    rehearsal: Option<&mut Rehearsal<'_>>,
    input::Named { key, revision }: &input::Named,
    skip_not_exists: bool,
) -> Outcome {
    if let Some(message) = protected::refusal(Operation::Delete, key) {
        // What nobody can read nobody can manage elsewhere either.
        let is_lost = protected::is_mirrored(key) && matches!(client.entry(key).await, Ok(Err(_)));
        if !is_lost {
            return Outcome::Failed(message);
        }
    }
    match rehearsal {
        Some(rehearsal) => write::deleted(rehearsal.delete(key, *revision).await, skip_not_exists),
        None => write::deleted(client.delete(key, *revision).await.map(drop), skip_not_exists),
    }
}

fn successes(items: &[Item]) -> Vec<Attempt> {
    items.iter().map(|item| Attempt::of_item(item, Outcome::Done)).collect()
}

/// Says which kinds nothing acts on, each once.
pub(super) fn warn_of_kinds(kinds: impl Iterator<Item = Kind>, context: &mut Context<'_>) {
    warning::of_kinds(kinds).iter().for_each(|line| context.tell(line));
}

pub(super) fn warn(item: &Item, context: &mut Context<'_>) {
    warning::of(item).iter().for_each(|warning| context.tell(warning));
}

fn finish((text, failure): (String, Option<Failure>), context: &mut Context<'_>) -> Result<(), Failure> {
    let written = context.stdout.write_all(text.as_bytes());
    // What failed is told even where nobody reads what succeeded.
    failure.map_or_else(|| written.map_err(Failure::from), Err)
}
