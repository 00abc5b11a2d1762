//! What the control socket's callers ask for.

use std::time::Duration;

use calico_cmd::control::{Answer, ErrorCode, MOST_ROUTES, Success, Verb};
use calico_cmd::output::chain;
use calico_core::net::{Cidr, Family, InterfaceName};
use futures_util::FutureExt;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Agent;
use super::waits::Goal;
use crate::control::{Call, failure};

impl Agent {
    pub(super) fn handle_call(&mut self, Call { verb, answer }: Call) {
        let now = Instant::now();
        match verb {
            Verb::Status => {
                let mut status = self.state.report(&self.pipeline, self.driver.state(), self.bgp.as_deref(), now);
                status.notices.extend(self.registration.borrow().clone());
                status.notices.extend(self.not_forwarded());
                // A client that has gone away is no concern of ours.
                let _ = answer.send(Answer::Ok(Success::Status(Box::new(status))));
            }
            Verb::WaitEndpoint { namespace, name, attachment, timeout_ms } => {
                // The kernel has told of the caller's interface before the caller could ask: it is heard before the answer.
                // While the host is looked at nothing is told of.
                if self.deaf.is_none()
                    && self.state.looking_since.is_none()
                    && let Some(change) = self.driver.next_change().now_or_never()
                {
                    self.handle_change(change);
                }
                let patience = Duration::from_millis(timeout_ms);
                self.waits.add((&namespace, &name), Goal::Enforced(attachment), patience, now, answer);
            }
            Verb::WaitEndpointGone { namespace, name, timeout_ms } => {
                let patience = Duration::from_millis(timeout_ms);
                self.waits.add((&namespace, &name), Goal::Gone, patience, now, answer);
            }
            Verb::Routes { after, most } => {
                let mut routes = self.pipeline.routes(after);
                let more = routes.len() > most.min(MOST_ROUTES);
                routes.truncate(most.min(MOST_ROUTES));
                let _ = answer.send(Answer::Ok(Success::Routes { routes, more }));
            }
            Verb::BgpExplain { prefix } => drop(answer.send(self.bgp_explain(prefix))),
            Verb::BgpReceived { peer, after } => drop(answer.send(self.bgp_received(&peer, after))),
            Verb::BgpAdvertised { peer, after } => drop(answer.send(self.bgp_advertised(&peer, after))),
            Verb::RemoveInterface { name } => self.remove_interface(&name, answer),
            verb => {
                let text = format!("this agent does not know {verb:?}");
                let _ = answer.send(failure(ErrorCode::BadRequest, &text));
            }
        }
    }

    /// That no packet reaches IPv6 workloads that there are. It is not switched on, as that ends what a host learns from router
    /// advertisements.
    fn not_forwarded(&self) -> Option<String> {
        let mut endpoints = self.pipeline.active().endpoints.values();
        let is_v6 = |net: &Cidr| net.family() == Family::V6;
        let wanted = endpoints.any(|endpoint| endpoint.addresses.iter().any(is_v6));
        (wanted && self.driver.forwards_ipv6() == Some(false)).then(|| {
            "workloads of this host have IPv6 addresses, but it does not forward IPv6: they are not reached until \
             net.ipv6.conf.all.forwarding is 1 (where the host learns its routes from router advertisements, with accept_ra 2)"
                .into()
        })
    }

    /// Removes a workload's interface beside the loop: the kernel takes its time. The reconciler hears of it like of any other change.
    fn remove_interface(&mut self, name: &str, answer: oneshot::Sender<Answer>) {
        // A client that has gone away is no concern of ours.
        let refuse = |text: &str| failure(ErrorCode::BadRequest, text);
        let interface: InterfaceName = match name.parse() {
            Ok(interface) => interface,
            Err(error) => return drop(answer.send(refuse(&format!("{name:?}: {error}")))),
        };
        if !interface.starts_with_any(&self.workload_prefixes) {
            return drop(answer.send(refuse(&format!("{name} is no workload's interface"))));
        }
        let removal = self.driver.remove_workload(interface);
        tokio::spawn(async move {
            let outcome = match removal.await {
                Ok(()) => Answer::Ok(Success::Gone),
                Err(error) => failure(ErrorCode::Kernel, &chain(&error)),
            };
            drop(answer.send(outcome));
        });
    }
}
