//! What a peer may hear, and in which form (RFC 4271 sections 5 and 9.2, RFC 1997, 4456, 8950, 9234, 9494).
//!
//! Upstream's order: what BGP itself forbids, then the filters, whose verdict is final, then the node's policy, which adds its
//! communities.

use std::sync::Arc;

use calico_core::bgp::{
    Community, ExportPolicy, ExportReason, Exported, FilterRule, LocalSpeaker, NextHop as Mode, Originated,
    PRIORITY_SUM, Role, RouteDirection, first_match,
};
use calico_core::net::Cidr;

use super::decision::Candidate;
use super::group::GroupKey;
use super::import::{cluster_id, fits};
use super::intern::PathSet;
use super::policy::{add_communities, apply, large_communities, local_pref, prepend, priority, view};
use crate::wire::attribute::{LLGR_STALE, NO_ADVERTISE, NO_EXPORT, NO_EXPORT_SUBCONFED};
use crate::wire::{NextHop, PathAttributes, PeerType};

/// Why a peer does not hear of a route.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Withheld {
    /// There is no session, or it does not carry the family.
    #[error("no session carries it")]
    NoSession,
    /// There is nothing to tell.
    #[error("there is no usable path")]
    NoPath,
    /// It is the peer's own.
    #[error("the peer announced it")]
    SplitHorizon,
    /// Neither end of the way is a client (RFC 4271 section 9.2, RFC 4456 section 6).
    #[error("internal peers hear of it from whoever announced it")]
    Internal,
    /// NO_ADVERTISE, NO_EXPORT or NO_EXPORT_SUBCONFED.
    #[error("community {} keeps it here", Community::Standard(*.0))]
    WellKnown(u32),
    /// It may go to customers only (RFC 9234 section 5).
    #[error("it may go to customers only")]
    OnlyToCustomer,
    /// The route is a last resort, and the peer would not know (RFC 9494 section 4.6).
    #[error("it is stale, and the peer does not know long-lived graceful restart")]
    LongLivedStale,
    /// A filter says so.
    #[error("rule {rule} of filter {filter} rejects it")]
    Filter {
        /// Name.
        filter: Arc<str>,
        /// Place of the rule among those of the direction and the family, from zero.
        rule: usize,
    },
    /// The node's policy says so.
    #[error("this node does not announce it: {}", why(.0))]
    Policy(ExportReason),
    /// The peer could not make anything of the next hop.
    #[error("the session has no next hop for it")]
    NextHop,
}

/// Why the node's policy keeps a route here.
fn why(reason: &ExportReason) -> String {
    match reason {
        ExportReason::PrivatePool(pool) => format!("its pool {pool} is kept out of BGP"),
        ExportReason::InOwnBlock(block) => format!("it lies in block {block} of this node, which is announced whole"),
        ExportReason::Other => "it lies in no pool".into(),
        other => format!("{other:?}"),
    }
}

/// What may be told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Offer<'a> {
    Originated(&'a Originated),
    Path(Candidate<'a>),
}

/// A route that may go out, and what is still to be done to it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Permit<'a> {
    pub(crate) rule: Option<&'a FilterRule>,
    pub(crate) communities: Vec<Community>,
}

/// This speaker and whom it speaks to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exporter<'a> {
    pub(crate) local: &'a LocalSpeaker,
    pub(crate) policy: &'a ExportPolicy,
    pub(crate) key: &'a GroupKey,
}

impl<'a> Exporter<'a> {
    /// Whether a route may go out.
    pub(crate) fn permit(&self, prefix: Cidr, offer: Offer<'_>) -> Result<Permit<'a>, Withheld> {
        let own;
        let (attributes, origin, priority) = match offer {
            Offer::Originated(wanted) => {
                own = originated(wanted);
                (&own, Some(wanted.origin), wanted.priority)
            }
            Offer::Path(path) => {
                self.may_pass(&path)?;
                (&path.set.attributes, None, priority(&path.set.attributes))
            }
        };
        if !self.key.filters.is_empty() {
            let large = match offer {
                Offer::Originated(_) => Vec::new(),
                Offer::Path(path) => large_communities(path.set),
            };
            let route = view(prefix, attributes, &large, self.key.kind, origin.is_none());
            match first_match(&self.key.filters, RouteDirection::Export, &route) {
                Some((filter, rule, decision)) if !decision.accept => {
                    return Err(Withheld::Filter { filter: Arc::clone(&filter.name), rule });
                }
                Some((_, _, rule)) => return Ok(Permit { rule: Some(rule), communities: Vec::new() }),
                None => {}
            }
        }
        let route = Exported { prefix, origin, priority, reflector: self.local.cluster_id.is_some() };
        match self.policy.decide(&route) {
            (true, _) => Ok(Permit { rule: None, communities: self.policy.communities(prefix) }),
            (false, reason) => Err(Withheld::Policy(reason)),
        }
    }

    /// What BGP itself says of a learned path.
    fn may_pass(&self, path: &Candidate<'_>) -> Result<(), Withheld> {
        let from_internal = path.peer.kind() == PeerType::Internal;
        let reflects = self.key.is_client || path.peer.settings.policy.reflector_client;
        if from_internal && self.key.kind == PeerType::Internal && !reflects {
            return Err(Withheld::Internal);
        }
        let communities = &path.set.attributes.communities;
        let forbidden = |community: &&u32| match **community {
            NO_ADVERTISE => true,
            NO_EXPORT | NO_EXPORT_SUBCONFED => self.key.kind == PeerType::External,
            _ => false,
        };
        if let Some(community) = communities.iter().find(forbidden) {
            return Err(Withheld::WellKnown(*community));
        }
        let upwards = matches!(self.role(), Some(Role::Customer | Role::Peer | Role::RouteServerClient));
        if upwards && path.set.attributes.extra.only_to_customer.is_some() {
            return Err(Withheld::OnlyToCustomer);
        }
        if path.is_long_lived && !self.key.channel.long_lived {
            return Err(Withheld::LongLivedStale);
        }
        Ok(())
    }

    fn role(&self) -> Option<Role> {
        self.key.role.filter(|_| self.key.kind == PeerType::External)
    }

    /// What the peer hears.
    pub(crate) fn compose(&self, offer: Offer<'_>, permit: &Permit<'_>) -> Result<PathSet, Withheld> {
        let (mut attributes, received) = match offer {
            Offer::Originated(wanted) => (originated(wanted), None),
            Offer::Path(path) => (path.set.attributes.clone(), Some(path.set.next_hop)),
        };
        let next_hop = self.next_hop(received)?;
        if let Offer::Path(path) = offer {
            attributes.local_pref = Some(local_pref(&attributes));
            if path.is_long_lived {
                add_communities(&[Community::Standard(LLGR_STALE)], &mut attributes);
            }
        }
        apply(permit.rule.map_or(&[], |rule| &rule.operations), &mut attributes);
        add_communities(&permit.communities, &mut attributes);
        // Not transitive, and asked for on no session of ours (RFC 7311 section 3.3).
        if attributes.extra.aigp.is_some() {
            attributes.extra.make_mut().aigp = None;
        }
        match self.key.kind {
            PeerType::Internal => self.reflect(offer, &mut attributes),
            PeerType::External => self.leave(&mut attributes),
        }
        Ok(PathSet { attributes, next_hop })
    }

    /// RFC 4456 section 8.
    fn reflect(&self, offer: Offer<'_>, attributes: &mut PathAttributes) {
        if let Offer::Path(path) = offer
            && path.peer.kind() == PeerType::Internal
        {
            attributes.originator_id.get_or_insert(path.peer.identifier);
            attributes.cluster_list.insert(0, cluster_id(self.local));
        }
    }

    /// What leaves the system says so, and nothing that is only meant for it.
    fn leave(&self, attributes: &mut PathAttributes) {
        prepend(&[self.key.local_as], attributes);
        (attributes.local_pref, attributes.med) = (None, None);
        (attributes.originator_id, attributes.cluster_list) = (None, Vec::new());
        let downwards = matches!(self.role(), Some(Role::Provider | Role::Peer | Role::RouteServer));
        if downwards && attributes.extra.only_to_customer.is_none() {
            attributes.extra.make_mut().only_to_customer = Some(self.key.local_as);
        }
    }

    /// `received` is none for what we originate.
    fn next_hop(&self, received: Option<NextHop>) -> Result<NextHop, Withheld> {
        let keeps = match self.key.next_hop {
            // Unchanged to internal peers, as BIRD does: they resolve an external next hop themselves.
            Mode::Auto => self.key.kind == PeerType::Internal,
            Mode::Own => false,
            Mode::Keep => true,
        };
        // A link-local address means nothing elsewhere.
        let kept = received.filter(|_| keeps).and_then(|next_hop| match next_hop {
            NextHop::V6LinkLocal { global, .. } | NextHop::V6(global) => {
                (!global.is_unspecified() && !global.is_unicast_link_local()).then_some(NextHop::V6(global))
            }
            NextHop::V4(_) => Some(next_hop),
        });
        let next_hop = kept.or(self.key.channel.own_next_hop).ok_or(Withheld::NextHop)?;
        let fits = fits(next_hop, self.key.family, self.key.channel.extended_next_hop);
        if fits { Ok(next_hop) } else { Err(Withheld::NextHop) }
    }
}

/// LOCAL_PREF of what this node originates is 2147483647 less the route's priority, as upstream sends it: 1024 for ordinary workloads.
/// A node that a live migration moves a workload to announces a smaller priority and so wins.
fn originated(wanted: &Originated) -> PathAttributes {
    PathAttributes { local_pref: Some(PRIORITY_SUM.saturating_sub(wanted.priority)), ..PathAttributes::default() }
}
