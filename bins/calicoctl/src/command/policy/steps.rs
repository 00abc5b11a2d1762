//! What an end says, in the words of whoever wrote the policies: the rules that matched, and why those that did not match did not.

use std::net::IpAddr;

use calico_core::calc::event::{ActiveRules, Member, PolicyId, Stack};
use calico_core::flow::{Decision, Flow};
use calico_core::net::Family;
use calico_core::resource::{Action, DefaultAction, PolicyType, ResourceKey};
use calico_core::verdict::{End, Lack, Matched, Mismatch, Owner, RuleStep, Side, Step};
use serde_json::{Value, json};

use super::model::Model;
use super::written::{self, Written};
use super::{traffic, words};

/// One step of an end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    /// Tier of the policy.
    pub(super) tier: Option<String>,
    /// Policy or profile.
    pub(super) owner: Option<ResourceKey>,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum What {
    /// A rule that matched.
    Rule { written: Written, action: Action, matched: Vec<String>, is_staged: bool },
    /// A policy none of whose rules matched.
    NoMatch { tried: Vec<Tried>, is_staged: bool },
    /// The end of a tier.
    EndOfTier(DefaultAction),
    /// Of a tier with staged policies alone, none of which decided: its end would deny if they were enforced.
    WouldEndTier,
    /// Anything else: a word for programs, and a sentence for people.
    Said(&'static str, String),
}

/// A rule that did not match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) written: Written,
    pub(super) because: String,
}

/// The steps of an end in order.
pub(super) fn of(model: &Model, end: &End, flow: &Flow) -> Vec<Shown> {
    let mut teller =
        Teller { model, flow, direction: end.direction, steps: end.verdict.steps.iter().peekable(), shown: Vec::new() };
    if let Some(stack) = stack_of(model, end) {
        teller.walk(stack);
    }
    teller.rest();
    teller.shown
}

/// The policies that an end runs through, if they were asked.
fn stack_of<'a>(model: &'a Model, end: &End) -> Option<&'a Stack> {
    let was_asked = end.verdict.steps.iter().any(|step| {
        matches!(
            step,
            Step::Rule(_)
                | Step::Staged(_)
                | Step::EndOfTier { .. }
                | Step::EndOfProfiles
                | Step::EndOfPolicies
                | Step::UnknownReference(_)
        )
    });
    let id = end.endpoint.as_ref().filter(|_| was_asked)?;
    if let Some(endpoint) = model.state().endpoints.get(id) {
        return Some(match end.direction {
            PolicyType::Ingress => &endpoint.ingress,
            PolicyType::Egress => &endpoint.egress,
        });
    }
    let endpoint = model.state().host_endpoints.get(id)?;
    end.stage.stack_of(endpoint, end.direction).map(|stack| &**stack)
}

/// Goes through a stack and the steps of its verdict side by side.
struct Teller<'a> {
    model: &'a Model,
    flow: &'a Flow,
    direction: PolicyType,
    steps: std::iter::Peekable<std::slice::Iter<'a, Step>>,
    shown: Vec<Shown>,
}

/// How a policy or profile was left.
#[derive(PartialEq, Eq)]
enum Left {
    /// It had nothing to say.
    On,
    /// Its tier was left.
    Tier,
    /// Its tier would be left if it were enforced.
    Would,
}

impl Teller<'_> {
    fn walk(&mut self, stack: &Stack) {
        for tier in &stack.tiers {
            let mut would_decide = false;
            for policy in &tier.policies {
                if self.steps.peek().is_none() {
                    return;
                }
                let owner = Owner::Policy { tier: tier.name.clone(), policy: policy.clone() };
                let rules = self.model.state().policies.get(policy).map(|rules| &**rules);
                match self.of_owner(&owner, Some(&tier.name), rules, policy.is_staged()) {
                    Left::Tier => break,
                    Left::Would => would_decide = true,
                    Left::On => {}
                }
            }
            if let Some(Step::EndOfTier { tier: name, action }) = self.steps.peek().copied()
                && *name == tier.name
            {
                self.steps.next();
                let at_end = |what| Shown { tier: Some(name.to_string()), owner: None, what };
                if tier.policies.iter().all(PolicyId::is_staged) && !would_decide && self.model.denies_at_end(name) {
                    self.shown.push(at_end(What::WouldEndTier));
                }
                self.shown.push(at_end(What::EndOfTier(*action)));
            }
        }
        for profile in &stack.profiles {
            if self.steps.peek().is_none() {
                return;
            }
            let rules = self.model.state().profiles.get(profile).map(|rules| &**rules);
            self.of_owner(&Owner::Profile(profile.clone()), None, rules, false);
        }
    }

    fn of_owner(&mut self, owner: &Owner, tier: Option<&str>, rules: Option<&ActiveRules>, is_staged: bool) -> Left {
        let key = written::key_of(owner);
        let list = written::list(self.model, &key, self.direction);
        let mut steps = Vec::new();
        while let Some(Step::Rule(step) | Step::Staged(step)) =
            self.steps.next_if(|step| matches!(step, Step::Rule(step) | Step::Staged(step) if step.owner == *owner))
        {
            steps.push(step);
        }
        let is_decided = steps.last().is_some_and(|step| step.action != Action::Log);
        if list.is_empty() {
            // A profile that does not exist has a rule that nobody wrote; one that only hands labels down has nothing to say.
            steps.iter().for_each(|step| self.matched(&key, tier, step, None, is_staged));
            if tier.is_some() && steps.is_empty() {
                self.push(&key, tier, What::NoMatch { tried: Vec::new(), is_staged });
            }
        }
        let last = steps.last().and_then(|last| list.iter().position(|written| written.active == Some(last.rule)));
        for (index, written) in list.iter().enumerate() {
            if let Some(step) = steps.iter().find(|step| written.active == Some(step.rule)) {
                self.matched(&key, tier, step, Some(written), is_staged);
            } else if !is_decided || (written.problem.is_some() && last.is_some_and(|last| index < last)) {
                // Where a rule decided, those before it are of interest only if they are not what they say.
                let tried = vec![self.tried(written, rules)];
                self.push(&key, tier, What::NoMatch { tried, is_staged });
            }
        }
        match (is_decided, is_staged) {
            (false, _) => Left::On,
            (true, true) => Left::Would,
            (true, false) => Left::Tier,
        }
    }

    fn matched(
        &mut self,
        key: &ResourceKey,
        tier: Option<&str>,
        step: &RuleStep,
        written: Option<&Written>,
        is_staged: bool,
    ) {
        let written = written.cloned().unwrap_or_else(|| Written {
            path: String::new(),
            text: format!("{}: there is no such object", words::action(step.action)),
            active: None,
            problem: self.model.problems.get(key).and_then(|problems| problems.first()).map(ToString::to_string),
        });
        let matched = step.matched.iter().map(|matched| self.member(matched)).collect();
        self.push(key, tier, What::Rule { written, action: step.action, matched, is_staged });
    }

    fn push(&mut self, key: &ResourceKey, tier: Option<&str>, what: What) {
        self.shown.push(Shown { tier: tier.map(str::to_owned), owner: Some(key.clone()), what });
    }

    /// Steps that belong to no policy.
    fn rest(&mut self) {
        for step in self.steps.by_ref() {
            self.shown.push(Shown { tier: None, owner: None, what: What::Said(word(step), step.to_string()) });
        }
    }

    fn tried(&self, written: &Written, rules: Option<&ActiveRules>) -> Tried {
        let list = rules.map(|rules| match self.direction {
            PolicyType::Ingress => &rules.ingress,
            PolicyType::Egress => &rules.egress,
        });
        let rule = written.active.and_then(|index| list?.get(index));
        let mismatch = rule.and_then(|rule| self.model.state().mismatch(rule, self.flow));
        let because = match (mismatch, &written.problem) {
            (Some(mismatch), _) => self.because(mismatch),
            (None, Some(problem)) => problem.clone(),
            (None, None) => "it is not in force".into(),
        };
        Tried { written: written.clone(), because }
    }

    fn because(&self, mismatch: Mismatch) -> String {
        let flow = self.flow;
        let family = match flow.family() {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        };
        match mismatch {
            Mismatch::Family => format!("it is not for {family}"),
            Mismatch::Protocol => format!("the protocol is {}", traffic::name(flow.protocol)),
            Mismatch::NoPorts => format!("{} has no ports", traffic::name(flow.protocol)),
            Mismatch::Icmp => format!("it is {}", traffic::described(flow)),
            Mismatch::Side(side, lack) => self.lack(side, lack),
            _ => "it does not match".into(),
        }
    }

    fn lack(&self, side: Side, lack: Lack) -> String {
        let (word, address, port) = match side {
            Side::Source => ("source", self.flow.source, self.flow.source_port),
            Side::Destination => ("destination", self.flow.destination, self.flow.destination_port),
        };
        let who = format!("the {word} {}", self.who(address));
        match lack {
            Lack::Net => format!("{who} is in none of its nets"),
            Lack::NotNet(net) => format!("{who} is in {net}, which it excepts"),
            Lack::Set => format!("{who} is not selected"),
            Lack::NotSet(_) => format!("{who} is selected by what it excepts"),
            Lack::Port => format!("the {word} port is {port}"),
            Lack::NotPort => format!("it excepts the {word} port {port}"),
            _ => format!("{who} does not match"),
        }
    }

    fn who(&self, address: IpAddr) -> String {
        self.model.names.owner(address).map_or_else(|| address.to_string(), |name| format!("{name} ({address})"))
    }

    fn member(&self, matched: &Matched) -> String {
        let side = match matched.side {
            Side::Source => "source",
            Side::Destination => "destination",
        };
        match (matched.member, matched.set) {
            (Member::Net(net), None) => format!("{side} in {net}"),
            (Member::Net(net), Some(_)) if net.is_host() => format!("{side} selected: {}", self.who(net.address())),
            (Member::Net(net), Some(_)) => format!("{side} selected: {net}"),
            (Member::AddrPort { address, port, .. }, _) => format!("{side} port {port} named by {}", self.who(address)),
        }
    }
}

/// What programs know a step by.
const fn word(step: &Step) -> &'static str {
    match step {
        Step::EndOfProfiles => "end-of-profiles",
        Step::EndOfPolicies => "end-of-policies",
        Step::Established => "established",
        Step::Invalid => "invalid",
        Step::Failsafe => "failsafe",
        Step::Spoofed => "spoofed",
        Step::Encapsulated(_) => "encapsulated",
        Step::NeighborDiscovery => "neighbor-discovery",
        Step::EndpointToHost(_) => "endpoint-to-host",
        Step::FromOwnHost => "from-own-host",
        Step::AllowedBefore => "allowed-before",
        Step::ServiceLoop => "service-loop",
        Step::UnknownEndpoint => "unknown-endpoint",
        Step::UnknownReference(_) => "unknown-reference",
        _ => "other",
    }
}

pub(super) const fn verdict(decision: Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Deny => "deny",
    }
}

/// Adds a member to an object.
pub(super) fn put(object: &mut Value, name: &str, member: Value) {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), member);
    }
}

impl Shown {
    pub(super) fn json(&self) -> Value {
        let mut value = match &self.what {
            What::Rule { written, action, matched, is_staged } => {
                let mut value = json!({
                    "type": if *is_staged { "staged-rule" } else { "rule" },
                    "action": words::action(*action),
                    "rule": written.path,
                    "text": written.text,
                    "matched": matched,
                });
                if let Some(problem) = &written.problem {
                    put(&mut value, "diagnostic", json!(problem));
                }
                value
            }
            What::NoMatch { tried, is_staged } => json!({
                "type": if *is_staged { "staged-no-match" } else { "no-match" },
                "rules": tried.iter().map(Tried::json).collect::<Vec<_>>(),
            }),
            What::EndOfTier(action) => json!({
                "type": "end-of-tier",
                "action": if *action == DefaultAction::Pass { "Pass" } else { "Deny" },
            }),
            What::WouldEndTier => json!({ "type": "staged-end-of-tier", "action": "Deny" }),
            What::Said(word, text) => json!({ "type": word, "text": text }),
        };
        if let Some(tier) = &self.tier {
            put(&mut value, "tier", json!(tier));
        }
        if let Some(owner) = &self.owner {
            let (kind, name) = words::object(owner);
            put(&mut value, "kind", json!(kind));
            put(&mut value, "name", json!(name));
        }
        value
    }
}

impl Tried {
    fn json(&self) -> Value {
        json!({ "rule": self.written.path, "text": self.written.text, "because": self.because })
    }
}
