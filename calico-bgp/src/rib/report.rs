//! What the rest of the host should do with what was decided.

use core::net::IpAddr;
use std::sync::Arc;

use calico_core::bgp::PeerId;
use calico_core::net::Family;

use super::decision::{self, MULTIPATH};
use super::import::forwarding_address;
use super::intern::Interner;
use super::peer::Peers;
use super::policy::priority;
use super::table::{Chosen, Entry, PrefixId, Queue, Table};
use crate::backend::LearnedRoute;

/// A learned route but for its prefix: most prefixes of a peer share one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Forward {
    pub(crate) next_hop: IpAddr,
    pub(crate) next_hops: Arc<[IpAddr]>,
    pub(crate) priority: u32,
    pub(crate) peer: PeerId,
}

/// A change of what the rest of the host should do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RouteReport {
    Set(LearnedRoute),
    Removed(calico_core::net::Cidr),
}

/// What the host should do about a prefix. Nothing for one of our own: it is not learned.
fn forward(entry: &Entry, peers: &Peers, family: Family) -> Option<Forward> {
    let Chosen::Path(place) = entry.chosen() else { return None };
    let paths = entry.paths.as_slice();
    let best = decision::candidate(place, paths.get(place)?, peers, family)?;
    let next_hop = forwarding_address(best.set.next_hop);
    let mut next_hops = vec![next_hop];
    if paths.len() > 1 {
        for equal in decision::equals(paths, peers, family) {
            let other = forwarding_address(equal.set.next_hop);
            if next_hops.len() < MULTIPATH && !next_hops.contains(&other) {
                next_hops.push(other);
            }
        }
        next_hops.sort_unstable();
    }
    let (priority, peer) = (priority(&best.set.attributes), best.peer.settings.id);
    Some(Forward { next_hop, next_hops: next_hops.into(), priority, peer })
}

/// Looks at a prefix whose turn it is. Changes that cancel out are never reported.
pub(crate) fn report(
    table: &mut Table,
    id: PrefixId,
    peers: &Peers,
    family: Family,
    forwards: &mut Interner<Forward>,
) -> Option<RouteReport> {
    let entry = table.get_mut(id)?;
    entry.dequeue(Queue::Report);
    let wanted = forward(entry, peers, family);
    let prefix = entry.prefix;
    if entry.reported.as_deref() == wanted.as_ref() {
        table.release(id);
        return None;
    }
    entry.reported = wanted.map(|wanted| forwards.intern(wanted));
    let report = match &entry.reported {
        Some(forward) => RouteReport::Set(forward.route(prefix)),
        None => RouteReport::Removed(prefix),
    };
    table.release(id);
    Some(report)
}

impl Forward {
    pub(crate) fn route(&self, prefix: calico_core::net::Cidr) -> LearnedRoute {
        LearnedRoute {
            prefix,
            next_hop: self.next_hop,
            next_hops: Arc::clone(&self.next_hops),
            priority: self.priority,
            peer: self.peer,
        }
    }
}
