//! Connections of addresses that left their workload.
//!
//! What the host remembers of a connection says nothing of the interface that it was allowed for. So when an address goes from one
//! workload to another, three things follow one another: the former owner loses it (source entry, route), its connections end, the
//! next owner gets it. An address waits here until the second is done, and what gives it to an interface waits for that. Should the
//! second fail for good, the address serves nobody, and the status says why.
//!
//! A table that somebody deletes is back within milliseconds, but a connection that began meanwhile would outlive that, as established.
//! So after such a loss the connections of all local workloads end. Those that policy allows begin anew.
//!
//! Addresses come from the graph, by way of the desired state. Those that left while no agent ran are found in what the host
//! still holds of them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use calico_core::delta::Difference;
use calico_core::net::Cidr;
use calico_core::table::{Datum, Delta, Route, RouteClass, RouteKey, SetName};

use super::machine::Reconciler;
use super::retry::Object;
use crate::ApplyReport;

impl Reconciler {
    /// Whether an address still waits for the end of its former owner's connections.
    fn is_held(&self, address: IpAddr) -> bool {
        self.cuts.contains(&address)
    }

    /// Whether an element would let an interface use an address that is held.
    pub(super) fn holds_element(&self, set: &SetName, key: &[Datum]) -> bool {
        !self.cuts.is_empty() && self.source_of(set, key).is_some_and(|address| self.is_held(address))
    }

    /// Whether a route leads to an address that is held.
    pub(super) fn holds_route(&self, key: &RouteKey) -> bool {
        host(key.dest).is_some_and(|address| self.is_held(address))
    }

    /// The address that an element lets an interface use.
    fn source_of(&self, set: &SetName, key: &[Datum]) -> Option<IpAddr> {
        match key {
            [Datum::Interface(_), Datum::Addr(address)] if self.interface_sets.contains(set) => Some(*address),
            _ => None,
        }
    }

    /// Addresses that the host gives to an interface that has them no more: what an earlier life did not get to, or did not live to see.
    /// To be asked once the desired state is complete and the host was looked at.
    pub(super) fn cut_what_left(&mut self) {
        let left: Vec<IpAddr> = self.stale_sources().chain(self.stale_routes_to_workloads()).collect();
        self.cuts.extend(left);
    }

    /// Addresses of all local workloads, none of which the host has in a table any more.
    pub(super) fn cut_all(&mut self) {
        let desired = self.elements.pending().filter(|(_, found)| found.desired.is_some());
        let all: Vec<_> = desired.filter_map(|(set, found)| self.source_of(set, found.key)).collect();
        self.cuts.extend(all);
    }

    fn stale_sources(&self) -> impl Iterator<Item = IpAddr> {
        let stale = self.elements.pending().filter(|(_, found)| found.desired.is_none());
        stale.filter_map(|(set, found)| self.source_of(set, found.key))
    }

    fn stale_routes_to_workloads(&self) -> impl Iterator<Item = IpAddr> {
        self.routes.pending().filter(|found| self.leads_elsewhere(found)).filter_map(|found| host(found.key.dest))
    }

    /// Whether the host routes an address to a workload's interface that has it no more. By a route of another metric, such as upstream
    /// leaves behind, the interface may still have it.
    fn leads_elsewhere(&self, found: &Difference<'_, RouteKey, Route>) -> bool {
        let Some(observed) = found.observed.filter(|route| route.class == RouteClass::LocalWorkload) else {
            return false;
        };
        let key = |metric| RouteKey { metric, ..*found.key };
        let mut wanted = self.routes.range(key(0)..=key(u32::MAX)).filter_map(|found| found.desired);
        wanted.all(|wanted| wanted.interface() != observed.interface())
    }

    /// Adds to what is carried out the addresses whose former owner has lost them once it is.
    pub(super) fn plan_cuts(&mut self, now: Duration, delta: &mut Delta) {
        // Without the table they would only begin anew.
        let has_table = self.table_present || !delta.chains_set.is_empty();
        if self.cuts.is_empty() || !has_table || !self.retries.may_try(&Object::Connections, now) {
            return;
        }
        let goes: BTreeSet<_> = delta
            .elements
            .iter()
            .flat_map(|change| change.removed.iter().map(|element| (&change.set, &element.key)))
            .collect();
        let sources = self.elements.pending().filter(|(_, found)| found.desired.is_none());
        let sources = sources.filter(|(set, found)| !goes.contains(&(*set, found.key)));
        let sources = sources.filter_map(|(set, found)| self.source_of(set, found.key));
        let goes: BTreeSet<_> = delta.routes_removed.iter().collect();
        let routes = self.routes.pending().filter(|found| !goes.contains(found.key) && self.leads_elsewhere(found));
        let early: BTreeSet<IpAddr> = sources.chain(routes.filter_map(|found| host(found.key.dest))).collect();
        delta.connections_cut = self.cuts.difference(&early).copied().collect();
        self.cuts = early.intersection(&self.cuts).copied().collect();
    }

    /// How carrying that out went. A former owner that could not be put out may have made new connections.
    pub(super) fn cuts_took_effect(&mut self, delta: &Delta, outcome: &ApplyReport, now: Duration) {
        if let Some(error) = &outcome.connections {
            self.retries.failed(Object::Connections, super::machine::chain_of(error), now);
        } else if !delta.connections_cut.is_empty() {
            self.retries.forget(&Object::Connections);
        }
        let again = outcome.connections.is_some() || outcome.ruleset.is_some();
        let failed: BTreeSet<IpAddr> = outcome.routes.iter().filter_map(|failure| host(failure.key.dest)).collect();
        let kept = delta.connections_cut.iter().filter(|address| again || failed.contains(*address));
        self.cuts.extend(kept);
    }
}

fn host(prefix: Cidr) -> Option<IpAddr> {
    prefix.is_host().then(|| prefix.address())
}
