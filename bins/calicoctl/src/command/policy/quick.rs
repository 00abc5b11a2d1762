//! Verdicts without reasons, for very many flows: by the compiled evaluator, which does not look at rules that cannot match.

use std::rc::Rc;

use calico_core::calc::event::EndpointId;
use calico_core::flow::{Decision, Flow};
use calico_core::resource::PolicyType;
use calico_core::verdict::{Asker, Compiled, Settings};

use super::ask;
use super::model::Model;
use super::names::Party;

const UDP: u8 = 17;
const IPIP: u8 = 4;

/// What a model has been compiled to.
#[derive(Debug)]
pub(super) struct Quick(Rc<Compiled>);

/// Asks a model about one flow after the other.
pub(super) struct QuickAsker<'a> {
    asker: Asker<'a>,
}

impl Quick {
    pub(super) fn of(model: &Model) -> Self {
        Self(Rc::clone(&model.compiled))
    }

    pub(super) fn asker(&self) -> QuickAsker<'_> {
        QuickAsker { asker: self.0.asker() }
    }
}

impl QuickAsker<'_> {
    /// The same as [`ask::ask`] decides.
    pub(super) fn decide(&mut self, model: &mut Model, from: &Party, to: &Party, flow: &Flow) -> Decision {
        if !is_plain(model, from, to, flow) {
            return ask::ask(model, from, to, flow).decision;
        }
        let ends = [(from, PolicyType::Egress), (to, PolicyType::Ingress)];
        for (party, direction) in ends {
            let Party::Workload { key, .. } = party else { continue };
            if self.asker.decide(&EndpointId(key.clone()), direction, flow) == Decision::Deny {
                return Decision::Deny;
            }
        }
        Decision::Allow
    }
}

/// Whether nothing but the policy of workloads has a say.
fn is_plain(model: &Model, from: &Party, to: &Party, flow: &Flow) -> bool {
    let Settings { host, .. } = &model.settings;
    let is_plain = |party: &Party| matches!(party, Party::Workload { .. } | Party::Outside(_));
    let is_tunnel = flow.protocol == IPIP || flow.protocol == UDP && flow.destination_port == host.vxlan_port;
    is_plain(from)
        && is_plain(to)
        && !is_tunnel
        && model.host_endpoints.is_empty()
        && !model.state.network.services.iter().any(|net| net.contains(flow.destination))
}
