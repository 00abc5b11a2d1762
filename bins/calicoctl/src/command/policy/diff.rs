//! `policy diff`: what a change of resources would do to flows, endpoints and rules.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use calico_core::kubernetes::POLICY_PREFIX;
use calico_core::resource::{Kind, Resource, ResourceKey, Scope};
use calico_datastore::client::Intent;
use clap::{ArgAction, Args};
use serde_json::{Value, json};

use super::change::{self, Changed, RuleChange, SettingChange, Touched};
use super::flows::{self, Flows};
use super::model::Model;
use super::paint::{Page, Style};
use super::picture::{Manifests, Picture};
use super::progress::Progress;
use super::traffic::Traffic;
use super::words;
use crate::args::DEFAULT_NAMESPACE;
use crate::args::{self, FileOptions};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Form;
use crate::rehearse;

/// What there is to know beyond the options.
pub(crate) const HELP: &str = "\
The files are checked as apply does it, and nothing is written. What goes is named with --delete,
or, of two directories, by what the second does not name any more (--replace-all).

Compared are all flows that the rules could tell apart: between the endpoints that the change
touches and everybody else (endpoints, an address of each prefix that rules or network sets name,
and one that nobody names: \"elsewhere\"), of each sort of traffic: every interval of ports between
the ends of ranges that rules name, source ports, types and codes of ICMP, protocols, and what
nobody names (\"other tcp\", \"other protocols\"). --ports chooses other traffic. What is left out is
said. Settings of hosts (FelixConfiguration default and node.NAME) that decide about flows are
part of it. Staged policies decide nothing.

Examples:
  calicoctl policy diff -f new.yaml
  calicoctl policy diff -f new.yaml --ports tcp/5432,udp/53 -o json
  calicoctl policy diff --delete gnp/lockdown --delete np/shop/db
  calicoctl policy diff --base cluster/ -f new.yaml
  calicoctl policy diff --base main/ -f branch/ --replace-all

In json and yaml, flows are told for ends that are alike: each of \"from\" with each of \"to\", no
end with itself.

Exit codes: 0 nothing would change, 1 something would, 2 wrong usage or any failure.";

/// Arguments of `policy diff`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PolicyDiffArgs {
    /// The change: file or directory as for apply, or - for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE", required_unless_present = "delete", action = ArgAction::Append)]
    files: Vec<PathBuf>,
    /// What goes: KIND/NAME or KIND/NAMESPACE/NAME (knp for a NetworkPolicy of Kubernetes); may be repeated
    #[arg(long, value_name = "OBJECT", action = ArgAction::Append)]
    delete: Vec<String>,
    /// The files are all that there is: what they do not name goes
    #[arg(long, requires = "base", conflicts_with = "delete")]
    replace_all: bool,
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
    settings: Vec<SettingChange>,
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
        form => crate::output::value(difference.json(), form),
    };
    context.stdout.write_all(text.as_bytes()).map_err(|error| trouble(error.into()))?;
    if difference.resources.is_empty() { Ok(()) } else { Err(Failure::Differs) }
}

async fn difference(
    args: &PolicyDiffArgs,
    config: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<Difference, Failure> {
    let (before, after) = pictures(args, config, context).await?;
    let (before, after) = (Model::of(before), Model::of(after));
    let resources = change::resources(&before, &after);
    warn(&resources, &after, context);
    super::warn_of_settings(&after, context);
    if resources.is_empty() {
        return Ok(Difference::default());
    }
    let endpoints = change::endpoints(&before, &after);
    let rules = change::rules(&before, &after, &resources);
    let flows = flows::changes(&before, &after, &endpoints, &args.ports, &mut Progress::new(context));
    let settings = change::settings(&before, &after);
    let all = after.state().endpoints.len() + after.state().host_endpoints.len();
    Ok(Difference { resources, settings, rules, endpoints, all, flows })
}

/// What there is, and what there would be.
async fn pictures(
    args: &PolicyDiffArgs,
    config: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<(Picture, Picture), Failure> {
    if args.replace_all {
        let before = Picture::offline(&args.base, &args.options, context).await?;
        let after = Picture::offline(&args.files, &args.options, context).await?;
        return Ok((before, after));
    }
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
    for text in &args.delete {
        let key = named(text, args.options.namespace().unwrap_or(DEFAULT_NAMESPACE))?;
        if after.resources.remove(&key).is_none() {
            return Err(Failure::message(format_args!(
                "--delete {text}: there is no such object ({})",
                words::named(&key)
            )));
        }
        after.origins.remove(&key);
    }
    after.apply(manifests, context)?;
    Ok((before, after))
}

/// The object that `--delete` names.
fn named(text: &str, namespace: &str) -> Result<ResourceKey, Failure> {
    let usage = || Failure::Usage(format!("--delete {text}: give KIND/NAME or KIND/NAMESPACE/NAME, as in np/shop/db"));
    let (kind, rest) = text.split_once('/').filter(|(_, rest)| !rest.is_empty()).ok_or_else(usage)?;
    let is_kubernetes = matches!(kind.to_ascii_lowercase().as_str(), "knp" | "kubernetesnetworkpolicy");
    let kind = if is_kubernetes { Kind::NetworkPolicy } else { args::kind(kind)? };
    let (namespace, name) = match (kind.scope(), rest.split_once('/')) {
        (Scope::Cluster, None) => return Ok(ResourceKey::cluster(kind, rest)),
        (Scope::Cluster, Some(_)) => return Err(Failure::Usage(format!("--delete {text}: {kind} is not namespaced"))),
        (Scope::Namespaced, None) => (namespace, rest),
        (Scope::Namespaced, Some(found)) => found,
    };
    let prefix = if is_kubernetes { POLICY_PREFIX } else { "" };
    Ok(ResourceKey::namespaced(kind, namespace, &format!("{prefix}{name}")))
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
    if resources.iter().any(|changed| changed.key.as_ref().is_some_and(|key| key.kind() == Kind::FelixConfiguration)) {
        context.tell(
            "warning: FelixConfiguration: agents of this version take their settings from their environment (FELIX_…) alone; what is told \
             here holds where that says the same",
        );
    }
    for tier in missing {
        context.tell(&format!("warning: Tier {tier} does not exist: apply would refuse its policies"));
    }
}

impl Difference {
    fn json(&self) -> Value {
        json!({
            "settings": self.settings.iter().map(SettingChange::json).collect::<Vec<_>>(),
            "resources": self.resources.iter().map(Changed::json).collect::<Vec<_>>(),
            "rules": self.rules.iter().map(RuleChange::json).collect::<Vec<_>>(),
            "endpoints": self.endpoints.iter().map(Touched::json).collect::<Vec<_>>(),
            "flows": self.flows.json(),
            "notCompared": self.flows.left_out,
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
        if !self.settings.is_empty() {
            page.blank();
            page.line(0, &[(Style::Bold, "Settings of hosts:")]);
        }
        for change in &self.settings {
            let whose = change.node.as_ref().map_or_else(String::new, |node| format!(" of {node}"));
            let line = format!("{}{whose}: {} → {}", change.setting.name(), change.before, change.after);
            page.line(2, &[(Style::Plain, &line)]);
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
        self.flows.text(&mut page);
        page.into_text()
    }
}

impl Changed {
    fn described(&self) -> String {
        let fields = if self.fields.is_empty() { String::new() } else { format!(" ({})", self.fields.join(", ")) };
        let staged = if self.is_staged { "; it is staged, and decides nothing" } else { "" };
        match (self.is_new, self.is_gone) {
            (true, _) => format!(": new{staged}"),
            (_, true) => format!(": gone{staged}"),
            _ => format!(": changed{fields}{staged}"),
        }
    }
}
