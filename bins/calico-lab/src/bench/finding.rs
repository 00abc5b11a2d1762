//! What a benchmark is, and what it found: the shape that `--json` and the tables share.

use serde::Serialize;

use super::stats::{Machine, Spread};
use crate::error::LabError;
use crate::progress::Progress;
use crate::report;

/// What a benchmark found, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct Finding {
    /// Benchmark.
    pub(super) id: &'static str,
    /// What was measured.
    pub(super) what: String,
    /// Unit of both measurements.
    pub(super) unit: &'static str,
    /// Our measurement.
    pub(super) ours: Spread,
    /// The peer's, of the same run.
    pub(super) peer: Option<Spread>,
    /// The peer, with its version.
    pub(super) peer_name: String,
    /// `measured` in this run, or `published` by somebody.
    pub(super) peer_source: &'static str,
    /// How many times better than the peer; above 1 is better, whatever the unit.
    pub(super) ratio: Option<f64>,
    /// What we want.
    pub(super) target: &'static str,
    /// Whether this run has it; none where the target cannot be told from this run alone.
    pub(super) met: Option<bool>,
    /// What the kernel can do at best.
    pub(super) limit: &'static str,
    /// That, where it was measured in this run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) limit_measured: Option<Spread>,
    /// Our share of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) of_limit: Option<f64>,
    /// Where it was measured.
    pub(super) machine: Machine,
    /// Measured beside it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) further: Vec<Further>,
}

/// Something measured beside the main thing.
#[derive(Debug, Serialize)]
pub(super) struct Further {
    pub(super) what: &'static str,
    pub(super) unit: &'static str,
    pub(super) ours: Spread,
    pub(super) peer: Option<Spread>,
    pub(super) target: &'static str,
}

/// A benchmark.
pub(super) struct Benchmark {
    pub(super) id: &'static str,
    pub(super) what: &'static str,
    pub(super) peer: &'static str,
    pub(super) target: &'static str,
}

impl Benchmark {
    /// What it found, with nothing beside it yet.
    pub(super) fn finding(&self, what: String, unit: &'static str, ours: Spread) -> Finding {
        Finding {
            id: self.id,
            what,
            unit,
            ours,
            peer: None,
            peer_name: self.peer.into(),
            peer_source: "measured",
            ratio: None,
            target: self.target,
            met: None,
            limit: "",
            limit_measured: None,
            of_limit: None,
            machine: Machine::look(),
            further: Vec::new(),
        }
    }
}

impl Finding {
    /// Beside a peer that was measured in the same run.
    pub(super) fn beside(self, peer: Spread, peer_name: String) -> Self {
        Self { ratio: Some(peer.median / self.ours.median), peer: Some(peer), peer_name, ..self }
    }

    pub(super) fn print(&self, json: bool, progress: &Progress) -> Result<(), LabError> {
        progress.end();
        if json { report::print_json(self) } else { report::print(&self.render()) }
    }

    fn render(&self) -> String {
        let mut table = report::table(["", "OURS", "PEER", "UNIT", "TARGET"]);
        let show = |spread: &Option<Spread>| spread.as_ref().map_or_else(|| "-".into(), ToString::to_string);
        let ours = self.ours.to_string();
        table.add_row([self.what.clone(), ours, show(&self.peer), self.unit.into(), self.target.into()]);
        for further in &self.further {
            let (ours, peer) = (further.ours.to_string(), show(&further.peer));
            table.add_row([further.what.into(), ours, peer, further.unit.into(), further.target.into()]);
        }
        let mut text = format!("{}: beside {} ({})\n{table}\n", self.id, self.peer_name, self.peer_source);
        if let Some(ratio) = self.ratio {
            text.push_str(&format!("{ratio:.1} times as good as the peer\n"));
        }
        let met = match self.met {
            Some(true) => "target met",
            Some(false) => "target NOT met",
            None => "whether the target is met cannot be told from this run alone",
        };
        text.push_str(&format!("{met}\nlimit: {}", self.limit));
        if let (Some(limit), Some(share)) = (&self.limit_measured, self.of_limit) {
            text.push_str(&format!(": {limit} {}, of which ours is {:.0} %", self.unit, share * 100.0));
        }
        text.push_str(&format!("\n{}\n", self.machine));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_have_the_agreed_shape() {
        let finding = Finding {
            id: "P0",
            what: "nothing".into(),
            unit: "ms",
            ours: Spread::of(vec![1.0, 3.0, 2.0]).unwrap(),
            peer: None,
            peer_name: "nobody".into(),
            peer_source: "measured",
            ratio: None,
            target: "none",
            met: Some(true),
            limit: "none",
            limit_measured: Spread::of(vec![4.0]),
            of_limit: Some(0.5),
            machine: Machine::look(),
            further: Vec::new(),
        };
        let json = serde_json::to_value(&finding).unwrap();
        let keys = ["id", "unit", "ours", "peer", "peer_name", "ratio", "target", "met", "limit", "machine"];
        for key in keys {
            assert!(json.get(key).is_some(), "{key}");
        }
        assert_eq!((&json["of_limit"], &json["limit_measured"]["median"]), (&0.5.into(), &4.0.into()));
        let text = finding.render();
        assert!(text.contains("limit: none: 4.00 (4.00 to 4.00, n=1) ms, of which ours is 50 %\n"), "{text}");
        assert_eq!(json["ours"], serde_json::json!({"median": 2.0, "least": 1.0, "most": 3.0, "samples": 3}));
    }
}
