//! `policy matrix`: who may reach whom.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use calico_core::flow::Decision;
use calico_core::net::Family;
use clap::{ArgAction, Args};
use serde_json::json;

use super::grid::Grid;
use super::model::Model;
use super::names::{Meant, Party};
use super::progress::Progress;
use super::quick::{Quick, QuickAsker};
use super::traffic::Traffic;
use super::{Form, alike, ports, steps};
use crate::cli::FileOptions;
use crate::command::Context;
use crate::failure::Failure;

/// What there is to know beyond the options.
pub(crate) const HELP: &str = "\
Without --from and --to, all workload endpoints are asked against each other. The table shows those
that nothing tells apart as one, with their number; json and yaml list every pair.

Examples:
  calicoctl policy matrix --ports tcp/80,udp/53
  calicoctl policy matrix --from shop/ --to db/,192.0.2.7 --ports tcp/5432,icmp
  calicoctl policy matrix -f cluster/ -o json

Without --ports, those are taken that policies and named ports give, up to eight.

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
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = Form::Table)]
    output: Form,
}

/// Who may reach whom: sources, destinations and traffic, and a verdict for each combination.
#[derive(Debug)]
pub(super) struct Matrix {
    pub(super) rows: Vec<End>,
    pub(super) columns: Vec<End>,
    pub(super) traffic: Vec<Traffic>,
    /// By row, then column, then traffic; none where there is no such flow.
    pub(super) cells: Vec<Option<Decision>>,
}

/// An end, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    pub(super) name: String,
    pub(super) party: Party,
}

impl From<Meant> for End {
    fn from(meant: Meant) -> Self {
        Self { name: meant.name, party: meant.party }
    }
}

pub(super) async fn matrix(args: &MatrixArgs, config: Option<&Path>, context: &mut Context<'_>) -> Result<(), Failure> {
    let mut model = super::model(&args.files, &args.options, config, context).await?;
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
    let matrix = Matrix::of(&mut model, rows, columns, traffic, &mut Progress::new(context));
    match args.output {
        Form::Table => {
            let text = Grid::of(&matrix).text(super::has_colours(context));
            context.stdout.write_all(text.as_bytes())?;
        }
        Form::Json => matrix.write(context, "[", ",", "]\n", |value| format!("\n  {value}"))?,
        Form::Yaml if matrix.flows().next().is_none() => context.stdout.write_all(b"[]\n")?,
        Form::Yaml => matrix.write(context, "", "", "", |value| crate::output::yaml(json!([value])))?,
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

impl Matrix {
    /// Asks about each flow, of ends that no policy tells apart only once.
    pub(super) fn of(
        model: &mut Model,
        rows: Vec<End>,
        columns: Vec<End>,
        traffic: Vec<Traffic>,
        progress: &mut Progress<'_>,
    ) -> Self {
        let parties: Vec<&Party> = rows.iter().chain(&columns).map(|end| &end.party).collect();
        let classes = alike::classes(&[model], &parties);
        let (of_rows, of_columns) = classes.split_at(rows.len());
        let quick = Quick::of(model);
        let mut asker = quick.asker();
        let mut known: HashMap<(usize, usize, bool), Vec<Option<Decision>>> = HashMap::new();
        let mut cells = Vec::with_capacity(rows.len() * columns.len() * traffic.len());
        for (index, (from, of_from)) in rows.iter().zip(of_rows).enumerate() {
            progress.tell(index, rows.len());
            for (to, of_to) in columns.iter().zip(of_columns) {
                let verdicts = known.entry((*of_from, *of_to, from.party == to.party)).or_insert_with(|| {
                    let decide = |traffic: &Traffic| decision(model, &mut asker, &from.party, &to.party, *traffic);
                    traffic.iter().map(decide).collect()
                });
                cells.extend_from_slice(verdicts);
            }
        }
        progress.end();
        Self { rows, columns, traffic, cells }
    }

    pub(super) fn cell(&self, row: usize, column: usize, traffic: usize) -> Option<Decision> {
        let index = (row * self.columns.len() + column) * self.traffic.len() + traffic;
        self.cells.get(index).copied().flatten()
    }

    /// Every flow between two ends that are not the same.
    fn flows(&self) -> impl Iterator<Item = (&End, &End, Traffic, Decision)> {
        let ends = self.rows.iter().flat_map(|from| self.columns.iter().map(move |to| (from, to)));
        let flows = ends.flat_map(|(from, to)| self.traffic.iter().map(move |traffic| (from, to, *traffic)));
        flows
            .zip(&self.cells)
            .filter_map(|((from, to, traffic), cell)| (from != to).then_some((from, to, traffic, (*cell)?)))
    }

    /// Writes flow by flow: of a large cluster there are millions.
    fn write(
        &self,
        context: &mut Context<'_>,
        begin: &str,
        between: &str,
        end: &str,
        show: impl Fn(serde_json::Value) -> String,
    ) -> Result<(), Failure> {
        let mut output = std::io::BufWriter::new(&mut *context.stdout);
        output.write_all(begin.as_bytes())?;
        let mut is_first = true;
        for (from, to, traffic, decision) in self.flows() {
            let value = json!({
                "from": from.name,
                "to": to.name,
                "protocol": traffic.protocol(),
                "port": traffic.port(),
                "verdict": steps::verdict(decision),
            });
            let before = if is_first { "" } else { between };
            output.write_all(format!("{before}{}", show(value)).as_bytes())?;
            is_first = false;
        }
        if !is_first && begin == "[" {
            output.write_all(b"\n")?;
        }
        output.write_all(end.as_bytes())?;
        output.flush()?;
        Ok(())
    }
}

/// In the first family that both ends have.
fn decision(
    model: &mut Model,
    asker: &mut QuickAsker<'_>,
    from: &Party,
    to: &Party,
    traffic: Traffic,
) -> Option<Decision> {
    let of = |party: &Party, family| party.addresses().iter().copied().find(|address| Family::of(*address) == family);
    let families = [Family::V4, Family::V6].into_iter();
    let mut flows = families.filter_map(|family| Some(traffic.flow(of(from, family)?, of(to, family)?)));
    Some(asker.decide(model, from, to, &flows.next()?))
}
