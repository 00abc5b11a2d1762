//! `diff`: what `apply` would change.

use std::path::Path;

use calico_core::resource::Resource;
use calico_datastore::client::Intent;
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use similar::TextDiff;

use super::change;
use crate::args::FileArgs;
use crate::context::Context;
use crate::failure::Failure;
use crate::input::{self, Item};
use crate::{output, rehearse};

/// What scripts need to know.
pub(crate) const HELP: &str = "\
Exit codes: 0 no differences, 1 differences, 2 wrong usage or any failure (so that 1 always means
differences). Nothing is written. Colours are for terminals, unless NO_COLOR is set.";

/// Arguments of `diff`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    input: FileArgs,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = DiffFormat::Unified)]
    output: DiffFormat,
}

/// How differences are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DiffFormat {
    /// As diff -u prints them, over the YAML of each resource
    Unified,
    /// A list of the resources that would change: as stored (null for a new one), and as they would be
    Json,
}

/// A resource that would change.
struct Change {
    /// `globalnetworkpolicy/web`, `networkpolicy/shop/web`.
    path: String,
    stored: Option<Value>,
    applied: Value,
}

pub(crate) async fn diff(args: &DiffArgs, config: Option<&Path>, context: &mut Context<'_>) -> Result<(), Failure> {
    let trouble = |failure| Failure::Trouble(Box::new(failure));
    let changes = changes(&args.input, config, context).await.map_err(trouble)?;
    let is_coloured = context.is_terminal && !context.sources.environment.contains_key("NO_COLOR");
    let text = match args.output {
        DiffFormat::Unified => changes.iter().map(|change| change.unified(is_coloured)).collect(),
        DiffFormat::Json => output::json(&changes.iter().map(Change::json).collect()),
    };
    context.stdout.write_all(text.as_bytes()).map_err(|error| trouble(error.into()))?;
    if changes.is_empty() { Ok(()) } else { Err(Failure::Differs) }
}

/// Everything is checked as `apply` does it; what it would be refused for is a failure here too.
async fn changes(input: &FileArgs, config: Option<&Path>, context: &mut Context<'_>) -> Result<Vec<Change>, Failure> {
    let documents = input::documents(&input.files, &input.options, context.stdin)?;
    let client = context.client_before_writing(config).await?;
    let mut items = input::check(documents, "apply", input.options.namespace(), Some(&client)).await?;
    rehearse::check(&client, "apply", Intent::Apply, false, &mut items).await?;
    change::warn_of_kinds(items.iter().map(|item| item.kind), context);
    for item in &items {
        change::warn(item, context);
    }
    Ok(items.iter().filter_map(Change::of).collect())
}

impl Change {
    /// None if the resource would look as it does.
    fn of(item: &Item) -> Option<Self> {
        let after = &item.rehearsed.after;
        let applied = match Resource::decode(item.kind, after) {
            Ok(resource) => output::shown(&resource, after),
            Err(_) => after.clone(),
        };
        let stored = item.rehearsed.before.as_ref().map(|stored| output::shown(&stored.resource, &stored.raw));
        if stored.as_ref() == Some(&applied) {
            return None;
        }
        let key = item.resource.key()?;
        let kind = item.kind.name().to_ascii_lowercase();
        let path =
            [Some(kind.as_str()), key.namespace(), key.name()].into_iter().flatten().collect::<Vec<_>>().join("/");
        Some(Self { path, stored, applied })
    }

    fn unified(&self, is_coloured: bool) -> String {
        let stored = self.stored.clone().map(output::yaml);
        let applied = output::yaml(self.applied.clone());
        let from = stored.as_ref().map_or_else(|| "/dev/null".to_owned(), |_| format!("stored/{}", self.path));
        let lines = TextDiff::from_lines(stored.as_deref().unwrap_or_default(), &applied);
        let text = lines.unified_diff().header(&from, &format!("applied/{}", self.path)).to_string();
        if is_coloured { coloured(&text) } else { text }
    }

    fn json(&self) -> Value {
        json!({ "stored": self.stored, "applied": self.applied })
    }
}

/// The colours that git has made familiar.
fn coloured(text: &str) -> String {
    let line = |(index, line): (usize, &str)| match line.as_bytes() {
        // The first two lines name the sides.
        _ if index < 2 => format!("\u{1b}[1m{line}\u{1b}[0m\n"),
        [b'+', ..] => format!("\u{1b}[32m{line}\u{1b}[0m\n"),
        [b'-', ..] => format!("\u{1b}[31m{line}\u{1b}[0m\n"),
        [b'@', ..] => format!("\u{1b}[36m{line}\u{1b}[0m\n"),
        _ => format!("{line}\n"),
    };
    text.lines().enumerate().map(line).collect()
}
