//! Why the kernel decided: how many packets met rules of each policy and profile, by what those rules do.
//!
//! Which of a policy's rules it was is not compared: one rule can be several in the kernel. Rules that log are left out, as a packet may meet
//! several of the kernel's for one.

use std::collections::BTreeMap;

use calico_core::calc::event::EndpointId;
use calico_core::flow::Decision;
use calico_core::resource::{Action, Kind, PolicyType, ResourceKey};
use calico_core::verdict::{ActiveState, Owner, RuleStep, Stage, Step};
use serde_json::Value;

use super::super::fixture::run;
use super::question::{End, Question};

/// By chain and verdict.
pub(crate) type Counters = BTreeMap<(String, &'static str), u64>;

const VERDICTS: [&str; 3] = ["accept", "drop", "return"];

/// What the kernel has counted.
pub(crate) fn read() -> Counters {
    let text = run("nft", "-j list table inet calico-dataplane");
    let listing: Value = serde_json::from_str(&text).unwrap();
    let objects = listing.get("nftables").and_then(Value::as_array).unwrap();
    let mut counters = Counters::new();
    for rule in objects.iter().filter_map(|object| object.get("rule")) {
        let chain = rule.get("chain").and_then(Value::as_str).unwrap();
        let statements = rule.get("expr").and_then(Value::as_array).unwrap();
        let packets = statements.iter().find_map(|one| one.get("counter")?.get("packets")?.as_u64());
        let verdict = VERDICTS.into_iter().find(|verdict| statements.iter().any(|one| one.get(verdict).is_some()));
        if let (Some(packets), Some(verdict)) = (packets, verdict) {
            *counters.entry((chain.into(), verdict)).or_default() += packets;
        }
    }
    counters
}

/// What it must have counted, at least and at most. The kernel asks the workload before the host endpoint by which a packet comes in: of a packet that
/// either denies, the other may have counted it or not.
#[derive(Default)]
pub(crate) struct Expected {
    least: Counters,
    most: Counters,
}

impl Expected {
    pub(crate) fn take(&mut self, question: &Question, state: &ActiveState) {
        let rules = |steps: &[Step]| -> Vec<_> { steps.iter().filter_map(counted).collect() };
        for verdict in &question.verdicts {
            let forward = verdict.ends.iter().any(|end| end.stage == Stage::Forward);
            let open = matches!(&question.to, End::Workload(..)) && forward && verdict.decision == Decision::Deny;
            for end in &verdict.ends {
                let either = open && matches!(end.stage, Stage::Forward | Stage::Workload);
                for key in rules(&end.verdict.steps) {
                    if !either {
                        *self.least.entry(key.clone()).or_default() += 1;
                    }
                    if !(open && end.stage == Stage::Workload) {
                        *self.most.entry(key).or_default() += 1;
                    }
                }
            }
            if let (true, End::Workload(key, _)) = (open, &question.to) {
                let ingress = state.judge(&EndpointId(key.clone()), PolicyType::Ingress, &question.after);
                rules(&ingress.steps).into_iter().for_each(|key| *self.most.entry(key).or_default() += 1);
            }
        }
    }

    /// Compares; says how many packets were counted for sure.
    pub(crate) fn compare(&self, before: &Counters, after: &Counters, what: &str) -> u64 {
        let of = |counters: &Counters, key| counters.get(key).copied().unwrap_or_default();
        for key in after.keys().chain(self.most.keys()).filter(|(chain, _)| is_of_rules(chain)) {
            let counted = of(after, key) - of(before, key);
            let (least, most) = (of(&self.least, key), of(&self.most, key));
            assert!(
                (least..=most).contains(&counted),
                "{what}: {} packets met {} in {}, not {least} to {most}",
                counted,
                key.1,
                key.0
            );
        }
        self.least.values().sum()
    }
}

fn is_of_rules(chain: &str) -> bool {
    ["policy-in/", "policy-out/", "profile-in/", "profile-out/"].iter().any(|start| chain.starts_with(start))
}

fn counted(step: &Step) -> Option<(String, &'static str)> {
    let (step, staged) = match step {
        Step::Rule(step) => (step, false),
        Step::Staged(step) => (step, true),
        _ => return None,
    };
    let verdict = match step.action {
        Action::Log => return None,
        _ if staged => "return",
        Action::Allow => "accept",
        Action::Deny => "drop",
        Action::Pass => "return",
    };
    Some((chain(step), verdict))
}

fn chain(step: &RuleStep) -> String {
    let direction = if step.direction == PolicyType::Ingress { "in" } else { "out" };
    match &step.owner {
        Owner::Policy { policy, .. } => format!("policy-{direction}/{}", path(&policy.0)),
        Owner::Profile(profile) => format!("profile-{direction}/{}", profile.0),
    }
}

fn path(key: &ResourceKey) -> String {
    let kind = match key.kind() {
        Kind::NetworkPolicy => "np",
        Kind::GlobalNetworkPolicy => "gnp",
        Kind::StagedNetworkPolicy => "snp",
        Kind::StagedGlobalNetworkPolicy => "sgnp",
        _ => "sknp",
    };
    [Some(kind), key.namespace(), key.name()].into_iter().flatten().collect::<Vec<_>>().join("/")
}
