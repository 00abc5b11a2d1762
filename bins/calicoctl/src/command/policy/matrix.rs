//! `policy matrix`: who may reach whom.

use std::path::{Path, PathBuf};

use clap::{ArgAction, Args};

use super::grid::Grid;
use super::model::Model;
use super::names::End;
use super::progress::Progress;
use super::reach::Matrix;
use super::traffic::Traffic;
use super::{FelixArgs, pairs, ports};
use crate::args::FileOptions;
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Form;

/// What there is to know beyond the options.
pub(crate) const HELP: &str = "\
Without --from and --to, all workload endpoints are asked against each other. The table shows those
that nothing tells apart as one, with their number; json and yaml list every pair. The answer is
what hosts do with a new connection: policy of both workloads, and that of the host endpoints that
it passes between hosts. Where IPv4 and IPv6 differ, the table shows 4 or 6 for the version that
is allowed, and json and yaml have an entry with \"ipVersion\" for each.

Examples:
  calicoctl policy matrix --ports tcp/80,udp/53
  calicoctl policy matrix --from shop/ --to db/,192.0.2.7 --ports tcp/5432,icmp
  calicoctl policy matrix -f cluster/ -o json

Without --ports, those are taken that policies and named ports give, up to eight. Policy does not
see services: hosts translate their addresses to those of endpoints before it is asked.

Exit codes: 0 success, 1 failure, 2 wrong usage.";

/// Arguments of `policy matrix`.
#[derive(Debug, Clone, Args)]
pub(crate) struct MatrixArgs {
    /// Sources: NAMESPACE/ for all of it, NAMESPACE/WORKLOAD, hep/NAME or an address; separated by commas [default: all workloads]
    #[arg(long, value_name = "ENDS", value_delimiter = ',')]
    from: Vec<String>,
    /// Destinations, likewise
    #[arg(long, value_name = "ENDS", value_delimiter = ',')]
    to: Vec<String>,
    /// Traffic, as PROTOCOL/PORT or icmp, separated by commas
    #[arg(long, value_name = "PORTS", value_delimiter = ',', value_parser = Traffic::parse)]
    ports: Vec<Traffic>,
    /// File or directory to ask instead of the datastore, or - for standard input; may be repeated
    #[arg(short = 'f', long = "filename", value_name = "FILE", action = ArgAction::Append)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    options: FileOptions,
    #[command(flatten)]
    felix: FelixArgs,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

pub(super) async fn matrix(args: &MatrixArgs, config: Option<&Path>, context: &mut Context<'_>) -> Result<(), Failure> {
    let model = super::model(&args.files, &args.felix, &args.options, config, context).await?;
    let rows = ends(&model, "--from", &args.from, context)?;
    let columns = ends(&model, "--to", &args.to, context)?;
    let mut traffic = args.ports.clone();
    if traffic.is_empty() {
        traffic = ports::usual(&model);
        let list: Vec<_> = traffic.iter().map(ToString::to_string).collect();
        context.tell(&format!("info: asked about {}; --ports chooses others", list.join(", ")));
    }
    let mut seen = std::collections::BTreeSet::new();
    traffic.retain(|one| seen.insert(*one));
    let matrix = Matrix::of(&model, rows, columns, traffic, &mut Progress::new(context));
    match args.output {
        Form::Table => {
            let text = Grid::of(&matrix).text(super::has_colours(context));
            context.stdout.write_all(text.as_bytes())?;
        }
        Form::Json => pairs::write(&matrix, context.stdout, Form::Json)?,
        Form::Yaml => pairs::write(&matrix, context.stdout, Form::Yaml)?,
    }
    Ok(())
}

/// The ends that were named, or all workloads.
fn ends(model: &Model, option: &str, names: &[String], context: &mut Context<'_>) -> Result<Vec<End>, Failure> {
    let mut ends: Vec<End> = Vec::new();
    if names.is_empty() {
        let all = model.names.workloads().into_iter();
        ends.extend(all.filter_map(|key| Some(End { name: model.names.name(&key), party: model.names.party(&key)? })));
        if ends.is_empty() {
            return Err(Failure::message("there are no workload endpoints"));
        }
        return Ok(ends);
    }
    for name in names {
        for meant in model.names.select(option, name)? {
            if meant.port.is_some() {
                return Err(Failure::Usage(format!("{option} {name}: ports are given with --ports")));
            }
            meant.remarks.iter().for_each(|remark| context.tell(&format!("info: {remark}")));
            let end = End::from(meant);
            if !ends.contains(&end) {
                ends.push(end);
            }
        }
    }
    Ok(ends)
}
