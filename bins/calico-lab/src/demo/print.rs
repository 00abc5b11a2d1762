//! The demo's findings for people: one table per scene, then times.

use std::collections::BTreeMap;

use comfy_table::{Cell as TableCell, Color};

use super::findings::Findings;
use super::scene::{Cell, Scene};
use crate::error::LabError;
use crate::probe::{Kind, Observed, word};
use crate::report;
use calico_core::flow::Decision;

/// One JSON document, or tables.
pub(super) fn show(findings: &Findings, json: bool) -> Result<(), LabError> {
    if json { report::print_json(findings) } else { report::print(&tables(findings)) }
}

/// Everything.
fn tables(findings: &Findings) -> String {
    let mut text: String = findings.scenes.iter().map(|scene| render(scene) + "\n").collect();
    text.push_str(&format!("CNI ADD: {}\n", spread(&findings.cni_add_ms)));
    text.push_str(if findings.ok { "ok: every verdict is as expected\n" } else { "NOT ok\n" });
    text
}

fn render(scene: &Scene) -> String {
    let kinds: Vec<String> = Kind::all().map(|kind| kind.to_string()).collect();
    let mut text = format!("\nScene: {}\n", scene.name);
    let pods = pods(scene);
    if pods.len() <= WIDEST {
        text.push_str(&format!("from ↓ to →   {ALLOW} allowed  {DENY} denied  in the order {}; ", kinds.join(", ")));
        text.push_str("expected/observed where they differ\n");
        text.push_str(&matrix(scene, &pods));
        text.push('\n');
    }
    let wrong = scene.cells.iter().filter(|cell| !cell.is_ok());
    for cell in wrong {
        let port = cell.port.map(|port| format!(" {port}")).unwrap_or_default();
        let expected = word(cell.expected);
        text.push_str(&format!(
            "wrong: {} → {} {}{port}: expected {expected}, observed {}\n",
            cell.from, cell.to, cell.protocol, cell.observed
        ));
    }
    text.push_str(&scene.summary());
    text
}

impl Scene {
    /// The scene in one line.
    pub(super) fn summary(&self) -> String {
        let right = self.cells.iter().filter(|cell| cell.is_ok()).count();
        let allowed = self.cells.iter().filter(|cell| cell.expected == Decision::Allow).count();
        let took = match self.converged_ms {
            Some(took) => format!("first correct after {took:.0} ms"),
            None => "never all correct".into(),
        };
        format!("{}: {right} of {} verdicts as expected ({allowed} to be allowed), {took}", self.name, self.cells.len())
    }
}

fn matrix(scene: &Scene, pods: &[&str]) -> String {
    let mut by_pair: BTreeMap<(&str, &str), Vec<&Cell>> = BTreeMap::new();
    for cell in &scene.cells {
        by_pair.entry((&cell.from, &cell.to)).or_default().push(cell);
    }
    let mut table = report::table([""]);
    table.set_header(std::iter::once("").chain(pods.iter().copied()));
    for from in pods {
        let mut row = vec![TableCell::new(from)];
        row.extend(
            pods.iter().map(|to| by_pair.get(&(*from, *to)).map_or_else(|| TableCell::new(""), |cells| pair(cells))),
        );
        table.add_row(row);
    }
    table.to_string()
}

/// All verdicts between two pods.
fn pair(cells: &[&Cell]) -> TableCell {
    let expected: String = cells.iter().map(|cell| mark(cell.expected)).collect();
    if cells.iter().all(|cell| cell.is_ok()) {
        return TableCell::new(expected);
    }
    let observed: String = cells
        .iter()
        .map(|cell| match cell.observed {
            Observed::Verdict(decision) => mark(decision),
            Observed::Error(_) => ERROR,
        })
        .collect();
    TableCell::new(format!("{expected}/{observed}")).fg(Color::Red)
}

const fn mark(decision: Decision) -> char {
    match decision {
        Decision::Allow => ALLOW,
        Decision::Deny => DENY,
    }
}

/// In order of first appearance as a sender, which is the order of the plan.
fn pods(scene: &Scene) -> Vec<&str> {
    let mut pods: Vec<&str> = scene.cells.iter().map(|cell| cell.from.as_str()).collect();
    pods.dedup();
    pods
}

/// Median and extremes.
fn spread(times: &[f64]) -> String {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.first(), sorted.get(sorted.len() / 2), sorted.last()) {
        (Some(least), Some(median), Some(most)) => {
            format!("median {median:.1} ms, {least:.1} to {most:.1} ms over {} pods", sorted.len())
        }
        _ => "no pod".into(),
    }
}

const ALLOW: char = '●';
const DENY: char = '·';
const ERROR: char = '!';
/// Wider matrices do not fit a terminal: their wrong cells are listed all the same.
const WIDEST: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn scene() -> Scene {
        let cell = |from: &str, to: &str, protocol, port, expected, observed| Cell {
            from: from.into(),
            to: to.into(),
            protocol,
            port,
            expected,
            observed,
        };
        let (allow, deny) = (Decision::Allow, Decision::Deny);
        Scene {
            name: "policy".into(),
            ok: false,
            converged_ms: Some(12.4),
            cells: vec![
                cell("h1-p1", "h2-p1", "tcp", Some(80), allow, Observed::Verdict(allow)),
                cell("h1-p1", "h2-p1", "icmp", None, deny, Observed::Verdict(deny)),
                cell("h2-p1", "h1-p1", "tcp", Some(80), deny, Observed::Verdict(allow)),
                cell("h2-p1", "h1-p1", "icmp", None, allow, Observed::Error("refused".into())),
            ],
        }
    }

    #[test]
    fn a_table_shows_what_is_and_what_should_be() {
        let text = render(&scene());
        let row = |start: &str| text.lines().find(|line| line.contains(start)).unwrap().to_owned();
        assert!(row("│ h1-p1").contains("●·"), "{text}");
        assert!(row("│ h2-p1").contains("·●/●!"), "{text}");
        assert!(text.contains("wrong: h2-p1 → h1-p1 tcp 80: expected deny, observed allow\n"), "{text}");
        assert!(text.contains("wrong: h2-p1 → h1-p1 icmp: expected allow, observed error: refused\n"), "{text}");
        assert!(
            text.ends_with("policy: 2 of 4 verdicts as expected (2 to be allowed), first correct after 12 ms"),
            "{text}"
        );
    }

    #[test]
    fn json_has_the_agreed_shape() {
        let findings = Findings { ok: false, scenes: vec![scene()], cni_add_ms: vec![1.5] };
        let json = serde_json::to_value(&findings).unwrap();
        assert_eq!(
            json["scenes"][0]["cells"][1],
            serde_json::json!({
                "from": "h1-p1", "to": "h2-p1", "protocol": "icmp", "port": null, "expected": "deny", "observed": "deny"
            })
        );
        assert_eq!(json["scenes"][0]["converged_ms"], 12.4);
        assert_eq!(json["cni_add_ms"], serde_json::json!([1.5]));
        assert_eq!(json["ok"], false);
    }

    #[test]
    fn spreads() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), "median 2.0 ms, 1.0 to 3.0 ms over 3 pods");
        assert_eq!(spread(&[]), "no pod");
    }
}
