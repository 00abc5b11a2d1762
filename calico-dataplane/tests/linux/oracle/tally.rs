//! What was put to the test: by way, protocol, family and decision, and by kind of policy.

use std::collections::BTreeMap;
use std::fmt;

use calico_core::flow::{ConnState, Decision};
use calico_core::net::Family;
use calico_core::resource::PolicyType;
use calico_core::verdict::Stage;

use super::question::{Cell, PROTOCOLS, Question, WAYS};

/// How often something was allowed, and how often denied.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    allowed: usize,
    denied: usize,
}

impl Counts {
    const fn add(&mut self, decision: Decision) {
        match decision {
            Decision::Allow => self.allowed += 1,
            Decision::Deny => self.denied += 1,
        }
    }

    const fn of(self, decision: Decision) -> usize {
        match decision {
            Decision::Allow => self.allowed,
            Decision::Deny => self.denied,
        }
    }

    fn least(self) -> usize {
        self.allowed.min(self.denied)
    }
}

/// The counts.
#[derive(Default)]
pub(crate) struct Tally {
    cells: BTreeMap<Cell, usize>,
    /// How often each kind of policy let a packet go on, and dropped one.
    stages: BTreeMap<(Stage, PolicyType), Counts>,
    /// Of translated packets, by way; of answers and complaints; of packets of no possible connection.
    translated: BTreeMap<&'static str, Counts>,
    answers: Counts,
    complaints: Counts,
    invalid: Counts,
}

impl Tally {
    pub(crate) fn count(&mut self, question: &Question) {
        let expected = question.expected;
        match question.state {
            ConnState::Established => return self.answers.add(expected),
            ConnState::Related => return self.complaints.add(expected),
            ConnState::Invalid => self.invalid.add(expected),
            ConnState::New => {}
        }
        *self.cells.entry(question.cell()).or_default() += 1;
        if question.before != question.after {
            self.translated.entry(question.cell().0).or_default().add(expected);
        }
        for end in question.verdicts.iter().flat_map(|verdict| &verdict.ends) {
            self.stages.entry((end.stage, end.direction)).or_default().add(end.verdict.decision);
        }
    }

    /// Of the rarest that there is to this question.
    pub(crate) fn cases(&self, question: &Question) -> usize {
        let cell = self.cells.get(&question.cell()).copied().unwrap_or_default();
        let ends = question.verdicts.iter().flat_map(|verdict| &verdict.ends);
        let stages = ends.map(|end| {
            let counts = self.stages.get(&(end.stage, end.direction)).copied().unwrap_or_default();
            counts.of(end.verdict.decision)
        });
        stages.min().unwrap_or(usize::MAX).min(cell)
    }

    /// All of them.
    pub(crate) fn packets(&self) -> usize {
        let others = [self.answers, self.complaints].map(|counts| counts.allowed + counts.denied);
        self.cells.values().chain(&others).sum()
    }

    /// What has fewer cases of either decision, but for what is empty by nature.
    pub(crate) fn below(&self, least: usize) -> Vec<String> {
        let cells = cells().filter(|cell| self.cells.get(cell).copied().unwrap_or_default() < least);
        let mut few: Vec<String> = cells.map(|cell| format!("{cell:?}")).collect();
        let mut counts: Vec<(String, Counts)> = Vec::new();
        let stages = self.stages.iter().filter(|((stage, _), _)| *stage != Stage::Forwarding);
        counts.extend(stages.map(|(stage, found)| (format!("{stage:?}"), *found)));
        let translated = self.translated.iter().filter(|(way, _)| **way != REACHED);
        counts.extend(translated.map(|(way, found)| (format!("translated {way}"), *found)));
        counts.push(("answers".into(), self.answers));
        counts.push(("complaints".into(), self.complaints));
        counts.push(("of no possible connection".into(), self.invalid));
        few.extend(counts.iter().filter(|(_, found)| found.least() < least).map(|one| format!("{one:?}")));
        few
    }
}

/// A host reaches its own workloads whatever their policy.
const REACHED: &str = "host to workload";

fn cells() -> impl Iterator<Item = Cell> {
    let columns = WAYS.into_iter().flat_map(|way| PROTOCOLS.map(|protocol| (way, protocol)));
    let families = columns.flat_map(|(way, protocol)| [Family::V4, Family::V6].map(|family| (way, protocol, family)));
    let all = families.flat_map(|(way, protocol, family)| {
        [Decision::Allow, Decision::Deny].map(|decision| (way, protocol, family, decision))
    });
    all.filter(|(way, .., decision)| *way != REACHED || *decision == Decision::Allow)
}

/// One line for each way and family, one column for each protocol.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:24}{:6}", "allowed/denied", "")?;
        PROTOCOLS.iter().try_for_each(|protocol| write!(f, "{protocol:>10}"))?;
        for (way, family) in WAYS.into_iter().flat_map(|way| [Family::V4, Family::V6].map(|family| (way, family))) {
            write!(f, "\n{way:24}{family:6}")?;
            for protocol in PROTOCOLS {
                let cases = |decision| self.cells.get(&(way, protocol, family, decision)).copied().unwrap_or_default();
                write!(f, "{:>10}", format!("{}/{}", cases(Decision::Allow), cases(Decision::Deny)))?;
            }
        }
        let line = |(name, Counts { allowed, denied }): (String, &Counts)| format!("\n{name}: {allowed}/{denied}");
        let stages =
            self.stages.iter().map(|((stage, direction), counts)| (format!("{stage:?} {direction:?}"), counts));
        let translated = self.translated.iter().map(|(way, counts)| (format!("translated, {way}"), counts));
        let others =
            [("answers", &self.answers), ("complaints", &self.complaints), ("of no connection", &self.invalid)];
        let others = others.into_iter().map(|(name, counts)| (name.to_string(), counts));
        stages.chain(translated).chain(others).try_for_each(|one| f.write_str(&line(one)))
    }
}
