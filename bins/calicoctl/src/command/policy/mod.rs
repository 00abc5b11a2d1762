//! `policy`: what policy does to flows, asked of a datastore or of files, and what a change would do.

mod alike;
mod ask;
mod change;
mod diff;
mod explain;
mod flows;
mod grid;
mod matrix;
mod model;
mod names;
mod paint;
mod picture;
mod ports;
mod progress;
mod quick;
mod steps;
mod traffic;
mod words;
mod written;

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};

use self::diff::PolicyDiffArgs;
use self::explain::ExplainArgs;
use self::matrix::MatrixArgs;
use self::model::Model;
use self::picture::Picture;
use super::Context;
use crate::cli::FileOptions;
use crate::failure::Failure;

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

/// How answers are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Form {
    /// For people
    #[value(alias = "ps")]
    Table,
    /// For programs
    Json,
    /// For programs
    #[value(alias = "yml")]
    Yaml,
}

pub(super) async fn run(
    command: PolicyCommand,
    config: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<(), Failure> {
    match command {
        PolicyCommand::Explain(args) => explain::explain(&args, config, context).await,
        PolicyCommand::Matrix(args) => matrix::matrix(&args, config, context).await,
        PolicyCommand::Diff(args) => diff::diff(&args, config, context).await,
    }
}

/// The cluster of files, or of the datastore where there are none.
async fn model(
    files: &[PathBuf],
    options: &FileOptions,
    config: Option<&Path>,
    context: &mut Context<'_>,
) -> Result<Model, Failure> {
    let picture = if files.is_empty() {
        let client = context.client(config).await?;
        Picture::live(&client, context).await?
    } else {
        Picture::offline(files, options, context).await?
    };
    Ok(Model::of(picture))
}

fn has_colours(context: &Context<'_>) -> bool {
    context.is_terminal && !context.sources.environment.contains_key("NO_COLOR")
}
