//! A matrix for programs: every pair, each on a line. Of a large cluster there are millions, so they are written as they come.

use std::io::{BufWriter, Write};

use calico_core::flow::Decision;

use super::reach::{Cell, Class, Matrix};
use super::steps;
use crate::output::Form;

/// Writes all pairs of two ends that are not the same. Where the families differ, each has an entry.
pub(super) fn write(matrix: &Matrix, output: &mut dyn Write, form: Form) -> std::io::Result<()> {
    let mut output = BufWriter::with_capacity(1 << 20, output);
    // Nothing that one would take for something else: of those that would be, few have a slash.
    let is_plain = |text: &str| {
        let mut characters = text.chars();
        characters.next().is_some_and(|first| first.is_ascii_alphabetic())
            && characters.all(|one| one.is_ascii_alphanumeric() || matches!(one, '/' | '-' | '.'))
            && (text.contains('/') || matches!(text, "tcp" | "udp" | "sctp" | "icmp" | "icmpv6"))
    };
    let quoted = |text: &str| {
        if form == Form::Yaml && is_plain(text) { text.to_owned() } else { serde_json::Value::from(text).to_string() }
    };
    let names: Vec<String> = matrix.ends.iter().map(|end| quoted(&end.name)).collect();
    let traffic: Vec<(String, String)> = matrix
        .traffic
        .iter()
        .map(|one| (quoted(&one.protocol()), one.port().map_or_else(|| "null".into(), |port| port.to_string())))
        .collect();
    let (rows, columns) = (places(&matrix.rows, matrix.ends.len()), places(&matrix.columns, matrix.ends.len()));
    let mut count = 0_usize;
    if form == Form::Json {
        output.write_all(b"[")?;
    }
    for from in &matrix.from {
        for to in matrix.to.iter().filter(|to| *to != from) {
            let place = |places: &[usize], end: usize| places.get(end).copied().unwrap_or_default();
            let (row, column) = (place(&rows, *from), place(&columns, *to));
            let name = |end: &usize| names.get(*end).map(String::as_str).unwrap_or_default();
            for (index, (protocol, port)) in traffic.iter().enumerate() {
                for (version, decision) in verdicts(matrix.cell(row, column, index)) {
                    let verdict = steps::verdict(decision);
                    let (from, to) = (name(from), name(to));
                    if form == Form::Json {
                        let comma = if count > 0 { "," } else { "" };
                        let version = version.map_or_else(String::new, |version| format!(",\"ipVersion\":{version}"));
                        write!(
                            output,
                            "{comma}\n  {{\"from\":{from},\"to\":{to},\"protocol\":{protocol},\"port\":{port}{version},\"verdict\":\"{verdict}\"}}"
                        )?;
                    } else {
                        let version = version.map_or_else(String::new, |version| format!("  ipVersion: {version}\n"));
                        write!(
                            output,
                            "- from: {from}\n{version}  port: {port}\n  protocol: {protocol}\n  to: {to}\n  verdict: {verdict}\n"
                        )?;
                    }
                    count += 1;
                }
            }
        }
    }
    match (form, count) {
        (Form::Json, 0) => output.write_all(b"]\n")?,
        (Form::Json, _) => output.write_all(b"\n]\n")?,
        (_, 0) => output.write_all(b"[]\n")?,
        _ => {}
    }
    output.flush()
}

/// For each end the place of its class.
fn places(classes: &[Class], ends: usize) -> Vec<usize> {
    let mut places = vec![0; ends];
    for (place, class) in classes.iter().enumerate() {
        for member in &class.members {
            if let Some(known) = places.get_mut(*member) {
                *known = place;
            }
        }
    }
    places
}

/// Verdicts, with the family where it matters.
fn verdicts(cell: Cell) -> impl Iterator<Item = (Option<u8>, Decision)> {
    let common = cell.verdict().map(|verdict| (None, verdict));
    let apart =
        |decision: Option<Decision>, version| decision.filter(|_| common.is_none()).map(|one| (Some(version), one));
    common.into_iter().chain(apart(cell.v4, 4)).chain(apart(cell.v6, 6))
}
