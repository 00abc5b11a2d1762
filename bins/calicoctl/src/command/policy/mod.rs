//! `policy`: what policy does to flows, asked of a datastore or of files, and what a change would do.

mod ask;
mod axis;
mod change;
mod classes;
mod diff;
mod explain;
mod flows;
mod grid;
mod hosts;
mod matrix;
mod model;
mod names;
mod outside;
mod paint;
mod pairs;
mod picture;
mod ports;
mod progress;
mod reach;
mod resolve;
mod rules;
mod samples;
mod steps;
mod traffic;
mod words;
mod written;

use std::path::{Path, PathBuf};

use calico_core::resource::Kind;
use clap::{ArgAction, Args, Subcommand};

use self::diff::PolicyDiffArgs;
use self::explain::ExplainArgs;
use self::matrix::MatrixArgs;
use self::model::Model;
use self::picture::{Manifests, Picture};
use crate::args::FileOptions;
use crate::context::Context;
use crate::failure::Failure;
use calico_cmd::output::printable;

/// Verbs about policy.
#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Say what becomes of one flow, and why
    #[command(after_help = explain::HELP)]
    Explain(ExplainArgs),
    /// Show who may reach whom
    #[command(after_help = matrix::HELP)]
    Matrix(MatrixArgs),
    /// Show what a change would do: flows decided otherwise, endpoints touched, rules that come and go
    #[command(after_help = diff::HELP)]
    Diff(PolicyDiffArgs),
}

pub(crate) async fn run(
    command: PolicyCommand,
    config: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    let outcome = match command {
        PolicyCommand::Explain(args) => explain::explain(&args, config, context).await,
        PolicyCommand::Matrix(args) => matrix::matrix(&args, config, context).await,
        PolicyCommand::Diff(args) => diff::diff(&args, config, context).await,
    };
    outcome.map_err(Failure::of_question)
}

/// Where settings of hosts come from.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct FelixArgs {
    /// File with FelixConfigurations (default, node.NAME) to take in place of those of the datastore or of the other files; may be repeated
    #[arg(long, value_name = "FILE", action = ArgAction::Append)]
    felix: Vec<PathBuf>,
}

/// The cluster of files, or of the datastore where there are none.
async fn model(
    files: &[PathBuf],
    felix: &FelixArgs,
    options: &FileOptions,
    config: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<Model, Failure> {
    let mut picture = if files.is_empty() {
        let client = context.client(config).await?;
        Picture::live(&client, context).await?
    } else {
        Picture::offline(files, options, context).await?
    };
    felix.put_into(&mut picture, context).await?;
    let model = Model::of(picture);
    warn_of_settings(&model, context);
    Ok(model)
}

fn warn_of_settings(model: &Model, context: &mut Context<'_>) {
    for fault in &model.settings.left_out {
        context.tell(&format!("warning: {}", printable(fault)));
    }
}

impl FelixArgs {
    async fn put_into(&self, picture: &mut Picture, context: &mut Context<'_>) -> Result<(), Failure> {
        if self.felix.is_empty() {
            return Ok(());
        }
        let manifests = Manifests::read(&self.felix, &FileOptions::default(), None, context).await?;
        if let Some(other) = manifests.items.iter().find(|item| item.kind != Kind::FelixConfiguration) {
            let message = format!("--felix takes FelixConfigurations, and there is {}: give it with -f", other.name());
            return Err(Failure::Usage(message));
        }
        picture.resources.retain(|key, _| key.kind() != Kind::FelixConfiguration);
        picture.apply(manifests, context)
    }
}

fn has_colours(context: &Context<'_>) -> bool {
    context.is_terminal && !context.sources.environment.contains_key("NO_COLOR")
}
