//! One flow, asked on all hosts that it passes.

use calico_core::calc::event::EndpointId;
use calico_core::flow::{ConnState, Decision, Flow, Passage, Place};
use calico_core::resource::PolicyType;
use calico_core::verdict::{End, Stage};

use super::model::Model;
use super::names::Party;

/// What becomes of a flow, and who had a say.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) decision: Decision,
    pub(super) ends: Vec<Asked>,
}

/// What one end says, and where.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) node: Option<String>,
    pub(super) end: End,
}

/// The flow's first packet on its way. Both ends are asked though the first of them may deny: an operator wants to know of both.
pub(super) fn ask(model: &Model, from: &Party, to: &Party, flow: &Flow) -> Answer {
    let mut answer = Answer { decision: Decision::Allow, ends: Vec::new() };
    let beyond = Place::Interface(model.beyond);
    if from.node().is_some() && from.node() == to.node() {
        answer.pass(model, from, (place(from), place(to)), flow);
    } else {
        if from.node().is_some() {
            answer.pass(model, from, (place(from), beyond), flow);
        }
        if to.node().is_some() {
            answer.pass(model, to, (beyond, place(to)), flow);
        }
    }
    if answer.decision == Decision::Deny {
        answer.complete(model, to, flow);
    }
    answer
}

impl Answer {
    /// Through the host of a party.
    fn pass(&mut self, model: &Model, party: &Party, (from, to): (Place<'_>, Place<'_>), flow: &Flow) {
        let given = match party {
            Party::HostEndpoint { key, .. } => Some(key),
            _ => None,
        };
        let host = party.node().unwrap_or_default();
        let uplink = model.uplink(host, given);
        let passage = Passage { from, to, arriving: *flow, flow: *flow, state: ConnState::New };
        let found = model.state().passage_at(uplink.as_ref(), model.settings_of(host), &passage);
        self.decision = self.decision.max(found.decision);
        let node = party.node().map(str::to_owned);
        self.ends.extend(found.ends.into_iter().map(|end| Asked { node: node.clone(), end }));
    }

    /// Asks a workload that the packet did not reach.
    fn complete(&mut self, model: &Model, to: &Party, flow: &Flow) {
        let Party::Workload { key, node, .. } = to else { return };
        let (id, direction) = (EndpointId(key.clone()), PolicyType::Ingress);
        let is_it = |end: &End| end.endpoint.as_ref() == Some(&id) && end.direction == direction;
        if self.ends.iter().any(|asked| is_it(&asked.end)) {
            return;
        }
        let verdict = model.state().judge(&id, direction, flow);
        let end = End { endpoint: Some(id), direction, stage: Stage::Workload, verdict };
        self.ends.push(Asked { node: Some(node.clone()), end });
    }
}

const fn place(party: &Party) -> Place<'_> {
    match party {
        Party::Workload { key, .. } => Place::Workload(key),
        _ => Place::Host,
    }
}
