//! The stages of a packet's way at which a host endpoint's policy is asked, each for one direction.

use alloc::sync::Arc;

use super::RenderConfig;
use super::names::Direction;
use super::owner::Layer;
use super::stack::Course;
use crate::calc::event::{ActiveHostEndpoint, Stack};
use crate::table::Field;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    UntrackedIn,
    UntrackedOut,
    PreDnat,
    HostIn,
    HostOut,
    /// As [`Self::HostOut`], behind the routing decision; a map of its own only where a denial is another there.
    HostOutDnat,
    ForwardIn,
    ForwardOut,
}

impl Stage {
    pub(super) fn all(config: &RenderConfig) -> impl Iterator<Item = Self> {
        let all = [
            Self::UntrackedIn,
            Self::UntrackedOut,
            Self::PreDnat,
            Self::HostIn,
            Self::HostOut,
            Self::HostOutDnat,
            Self::ForwardIn,
            Self::ForwardOut,
        ];
        let same = Layer::Mangle.shared(config) == Layer::Filter;
        all.into_iter().filter(move |stage| !(same && *stage == Self::HostOutDnat))
    }

    pub(super) const fn map(self) -> &'static str {
        match self {
            Self::UntrackedIn => "untracked-in",
            Self::UntrackedOut => "untracked-out",
            Self::PreDnat => "pre-dnat",
            Self::HostIn => "host-in",
            Self::HostOut => "host-out",
            Self::HostOutDnat => "host-out-dnat",
            Self::ForwardIn => "forward-in",
            Self::ForwardOut => "forward-out",
        }
    }

    pub(super) const fn direction(self) -> Direction {
        match self {
            Self::UntrackedIn | Self::PreDnat | Self::HostIn | Self::ForwardIn => Direction::Ingress,
            Self::UntrackedOut | Self::HostOut | Self::HostOutDnat | Self::ForwardOut => Direction::Egress,
        }
    }

    /// The interface that it is about.
    pub(super) const fn field(self) -> Field {
        match self.direction() {
            Direction::Ingress => Field::IifName,
            Direction::Egress => Field::OifName,
        }
    }

    pub(super) fn course(self, config: &RenderConfig) -> Course {
        let (layer, closed) = match self {
            Self::UntrackedIn | Self::UntrackedOut => (Layer::Raw, false),
            Self::PreDnat => (Layer::Mangle, false),
            Self::HostIn | Self::HostOut => (Layer::Filter, true),
            Self::HostOutDnat => (Layer::Mangle, true),
            Self::ForwardIn | Self::ForwardOut => (Layer::Filter, false),
        };
        Course { direction: self.direction(), layer: layer.shared(config), closed }
    }

    pub(super) const fn stack(self, endpoint: &ActiveHostEndpoint) -> &Arc<Stack> {
        match self {
            Self::UntrackedIn => &endpoint.untracked.ingress,
            Self::UntrackedOut => &endpoint.untracked.egress,
            Self::PreDnat => &endpoint.pre_dnat,
            Self::HostIn => &endpoint.normal.ingress,
            Self::HostOut | Self::HostOutDnat => &endpoint.normal.egress,
            Self::ForwardIn => &endpoint.forward.ingress,
            Self::ForwardOut => &endpoint.forward.egress,
        }
    }

    /// Whether a stack has a chain here: an open one without tiers says nothing.
    pub(super) fn leads_to(self, stack: &Stack) -> bool {
        matches!(self, Self::HostIn | Self::HostOut | Self::HostOutDnat) || !stack.tiers.is_empty()
    }
}
