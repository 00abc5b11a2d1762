//! `policy diff`: what a change of resources would do to flows, endpoints and rules.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use calico_core::resource::{Kind, Resource, ResourceKey};
use calico_datastore::client::Intent;
use clap::{ArgAction, Args};
use serde_json::{Value, json};

use super::Form;
use super::change::{self, Changed, RuleChange, Touched};
use super::flows::{self, FlowChange, Flows};
use super::model::Model;
use super::paint::{Page, Style};
use super::picture::{Manifests, Picture};
use super::progress::Progress;
use super::traffic::Traffic;
use crate::cli::FileOptions;
use crate::command::Context;
use crate::failure::Failure;
use crate::rehearse;

/// What there is to know beyond the options.
pub(crate) const HELP: &str = "\
The files are checked as apply does it, and nothing is written. Flows are asked about between all
endpoints that the change touches and everybody: endpoints, an address of each prefix that rules or
network sets name, and one that nobody names (\"elsewhere\"). Traffic is each port at which a rule
in force begins or ends to match, and one other (\"other tcp\"), unless --ports gives it.

Examples:
  calicoctl policy diff -f new.yaml
  calicoctl policy diff -f new.yaml --ports tcp/5432,udp/53 -o json
  calicoctl policy diff --base cluster/ -f new.yaml

Exit codes: 0 nothing would change, 1 something would, 2 wrong usage or any failure.";

/// Arguments of `policy diff`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PolicyDiffArgs {
    /// The change: file or directory as for apply, or - for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true, action = ArgAction::Append)]
    files: Vec<PathBuf>,
    /// File or directory to compare with instead of the datastore; may be repeated
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    base: Vec<PathBuf>,
    #[command(flatten)]
    options: FileOptions,
    /// Traffic, as PROTOCOL/PORT or icmp, separated by commas
    #[arg(long, value_name = "PORTS", value_delimiter = ',', value_parser = Traffic::parse)]
    ports: Vec<Traffic>,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

/// Everything that would change.
#[derive(Debug, Default)]
struct Difference {
    resources: Vec<Changed>,
    rules: Vec<RuleChange>,
    endpoints: Vec<Touched>,
    /// Endpoints there are, after the change.
    all: usize,
    flows: Flows,
}

pub(super) async fn diff(
    args: &PolicyDiffArgs,
    config: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let trouble = |failure| Failure::Trouble(Box::new(failure));
    let difference = difference(args, config, context).await.map_err(trouble)?;
    let text = match args.output {
        Form::Table => difference.text(super::has_colours(context)),
        Form::Json => crate::output::json(&difference.json()),
        Form::Yaml => crate::output::yaml(difference.json()),
    };
    context.stdout.write_all(text.as_bytes()).map_err(|error| trouble(error.into()))?;
    if difference.resources.is_empty() { Ok(()) } else { Err(Failure::Differs) }
}

async fn difference(
    args: &PolicyDiffArgs,
    config: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<Difference, Failure> {
    let (before, manifests) = if args.base.is_empty() {
        let client = context.client(config).await?;
        let mut manifests = Manifests::read(&args.files, &args.options, Some(&client), context).await?;
        rehearse::check(&client, "apply", Intent::Apply, false, &mut manifests.items).await?;
        for item in &mut manifests.items {
            // As it would be stored: what is stored and was not given stays.
            if let Ok(after) = Resource::decode(item.kind, &item.rehearsed.after) {
                item.resource = after;
            }
        }
        (Picture::live(&client, context).await?, manifests)
    } else {
        let before = Picture::offline(&args.base, &args.options, context).await?;
        (before, Manifests::read(&args.files, &args.options, None, context).await?)
    };
    let mut after = before.clone();
    after.apply(manifests, context)?;
    let mut before = Model::of(before);
    let mut after = Model::of(after);
    let resources = change::resources(&before, &after);
    warn(&resources, &after, context);
    if resources.is_empty() {
        return Ok(Difference::default());
    }
    let endpoints = change::endpoints(&before, &after);
    let rules = change::rules(&before, &after, &resources);
    let flows = flows::changes(&mut before, &mut after, &endpoints, &args.ports, &mut Progress::new(context));
    if flows.is_partial {
        context.tell("info: rules name more ports or prefixes than are asked about; --ports chooses the traffic");
    }
    let all = after.state.endpoints.len() + after.host_endpoints.len();
    Ok(Difference { resources, rules, endpoints, all, flows })
}

/// Of what is wrong with the changed objects, and of kinds that decide no flow.
fn warn(resources: &[Changed], after: &Model, context: &mut Context<'_>) {
    for changed in resources {
        let problems = changed.key.as_ref().and_then(|key| after.problems.get(key));
        for problem in problems.into_iter().flatten() {
            context.tell(&format!("warning: {} {}: {problem}", changed.kind, changed.name));
        }
    }
    let missing: BTreeSet<String> = resources
        .iter()
        .filter_map(|changed| after.picture.resources.get(changed.key.as_ref()?)?.tier().map(str::to_owned))
        .filter(|tier| !after.picture.resources.contains_key(&ResourceKey::cluster(Kind::Tier, tier)))
        .collect();
    for tier in missing {
        context.tell(&format!("warning: Tier {tier} does not exist: apply would refuse its policies"));
    }
}

impl Difference {
    fn json(&self) -> Value {
        json!({
            "resources": self.resources.iter().map(Changed::json).collect::<Vec<_>>(),
            "rules": self.rules.iter().map(RuleChange::json).collect::<Vec<_>>(),
            "endpoints": self.endpoints.iter().map(Touched::json).collect::<Vec<_>>(),
            "flows": self.flows.changes.iter().map(FlowChange::json).collect::<Vec<_>>(),
        })
    }

    fn text(&self, has_colours: bool) -> String {
        let mut page = Page::new(has_colours);
        if self.resources.is_empty() {
            page.line(0, &[(Style::Plain, "Nothing would change.")]);
            return page.into_text();
        }
        for changed in &self.resources {
            page.line(
                0,
                &[(Style::Bold, &format!("{} {}", changed.kind, changed.name)), (Style::Plain, &changed.described())],
            );
            for rule in self.rules.iter().filter(|rule| Some(&rule.key) == changed.key.as_ref()) {
                let (style, sign) = if rule.is_added { (Style::Good, "+ ") } else { (Style::Bad, "- ") };
                page.line(2, &[(style, sign), (style, &rule.path), (style, "  "), (style, &rule.text)]);
            }
        }
        page.blank();
        let count = format!("Endpoints touched: {} of {}", self.endpoints.len(), self.all);
        page.line(0, &[(Style::Bold, &count)]);
        const SHOWN: usize = 30;
        for touched in self.endpoints.iter().take(SHOWN) {
            page.line(2, &[(Style::Plain, &touched.name), (Style::Dim, "  "), (Style::Dim, &touched.described())]);
        }
        if self.endpoints.len() > SHOWN {
            page.line(2, &[(Style::Dim, &format!("and {} more", self.endpoints.len() - SHOWN))]);
        }
        page.blank();
        flows::text(&self.flows, &mut page);
        page.into_text()
    }
}

impl Changed {
    fn described(&self) -> String {
        let fields = if self.fields.is_empty() { String::new() } else { format!(" ({})", self.fields.join(", ")) };
        let staged = if self.is_staged { "; it is staged, and decides nothing" } else { "" };
        match self.is_new {
            true => format!(": new{staged}"),
            false => format!(": changed{fields}{staged}"),
        }
    }
}

/// Only the parts of a resource that say something about policy.
pub(super) fn essence(resource: &Arc<Resource>) -> Value {
    let mut document = resource.document();
    if let Some(members) = document.as_object_mut() {
        let labels = members.get("metadata").and_then(|metadata| metadata.get("labels")).cloned();
        members.insert("metadata".into(), json!({ "labels": labels }));
        members.shift_remove("status");
    }
    document
}
