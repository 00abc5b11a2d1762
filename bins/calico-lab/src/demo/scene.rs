//! One scene: what should be, what is, and how long it took to get there.

use std::time::Duration;

use calico_core::flow::Decision;
use serde::Serialize;
use tokio::time::Instant;

use crate::error::LabError;
use crate::probe::{Observed, Prober, Question, word};

/// The outcome of a scene, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct Scene {
    /// Its name.
    pub(crate) name: String,
    /// Whether it converged, and every cell is as expected.
    pub(crate) ok: bool,
    /// Milliseconds from the change to the first probes whose verdicts were all right; none if that never happened.
    pub(crate) converged_ms: Option<f64>,
    /// Every probe.
    pub(crate) cells: Vec<Cell>,
}

/// One probe of a scene.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    /// Sender.
    pub(crate) from: String,
    /// Receiver.
    pub(crate) to: String,
    /// `tcp`, `udp` or `icmp`.
    pub(crate) protocol: &'static str,
    /// Destination port, where there is one.
    pub(crate) port: Option<u16>,
    /// What the specification says.
    #[serde(serialize_with = "in_a_word")]
    pub(crate) expected: Decision,
    /// What became of the packets.
    pub(crate) observed: Observed,
}

impl Cell {
    /// Whether it is as it should be.
    pub(crate) fn is_ok(&self) -> bool {
        self.observed == Observed::Verdict(self.expected)
    }
}

/// Plays a scene: waits until the verdicts of `changed` are right, then asks everything. Whatever is wrong then is waited for
/// again, as long as there is time.
pub(crate) async fn play(
    name: &str,
    prober: &Prober,
    questions: &[Question],
    changed: &[Question],
    since: Instant,
) -> Result<Scene, LabError> {
    let deadline = Instant::now() + PATIENCE;
    let mut waited_for = changed.to_vec();
    loop {
        let converged = prober.converge(&waited_for, deadline).await?;
        let observed = prober.ask_all(questions).await?;
        let wrong: Vec<Question> = questions
            .iter()
            .zip(&observed)
            .filter(|(question, observed)| !question.is_answered_by(observed))
            .map(|(question, _)| *question)
            .collect();
        if wrong.is_empty() || converged.is_none() || Instant::now() > deadline {
            let took = converged.map(|at| at.duration_since(since).as_secs_f64() * 1000.0);
            let ok = wrong.is_empty() && took.is_some();
            return Ok(Scene { name: name.into(), ok, converged_ms: took, cells: cells(questions, observed) });
        }
        waited_for = wrong;
    }
}

fn cells(questions: &[Question], observed: Vec<Observed>) -> Vec<Cell> {
    let cell = |(question, observed): (&Question, Observed)| Cell {
        from: question.probe.from.to_string(),
        to: question.probe.to.to_string(),
        protocol: question.probe.kind.protocol(),
        port: question.probe.kind.port(),
        expected: question.expected,
        observed,
    };
    questions.iter().zip(observed).map(cell).collect()
}

fn in_a_word<S: serde::Serializer>(decision: &Decision, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(word(*decision))
}

/// Far longer than a change takes on a busy machine; a wrong rule is not waited for longer.
const PATIENCE: Duration = Duration::from_secs(20);
