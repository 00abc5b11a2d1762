//! Whose rules they are, and where they run.

use alloc::string::{String, ToString};

use super::names::{self, Direction};
use super::{DenyAction, RenderConfig};
use crate::calc::event::{PolicyId, ProfileId};
use crate::table::{ChainName, Reject, Verdict};

/// A policy or a profile.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Owner {
    Policy(PolicyId),
    Profile(ProfileId),
}

impl Owner {
    pub(super) const fn is_staged(&self) -> bool {
        matches!(self, Self::Policy(id) if id.is_staged())
    }

    /// The chain of its rules. What is only tried out does the same everywhere.
    pub(super) fn chain(&self, direction: Direction, layer: Layer) -> ChainName {
        let layer = if self.is_staged() { Layer::Filter } else { layer };
        match self {
            Self::Policy(id) => names::policy_chain(id, direction, layer.prefix()),
            Self::Profile(id) => names::profile_chain(id, direction, layer.prefix()),
        }
    }

    /// `np`, `gnp` … or `pro`.
    pub(super) const fn kind(&self) -> &'static str {
        match self {
            Self::Policy(id) => names::short_kind(&id.0),
            Self::Profile(_) => "pro",
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Policy(id) => id.0.name().unwrap_or_default(),
            Self::Profile(id) => &id.0,
        }
    }

    /// The name, behind its namespace where it has one.
    pub(super) fn full_name(&self) -> String {
        match self {
            Self::Policy(id) => match id.0.namespace() {
                Some(namespace) => [namespace, self.name()].join("/"),
                None => self.name().to_string(),
            },
            Self::Profile(id) => id.0.to_string(),
        }
    }
}

/// Where rules run. Only in the filter may a packet be refused; before connection tracking, upstream logs no flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Layer {
    /// Input, forward and output.
    Filter,
    /// Before the routing decision, or behind all else.
    Mangle,
    /// Before connection tracking.
    Raw,
}

impl Layer {
    /// The first layer in which the same rules do the same: they share chains. Mostly that is the filter.
    pub(super) fn shared(self, config: &RenderConfig) -> Self {
        let does = |layer: Self| (layer.deny(config), layer.logs_flows(config));
        let all = [Self::Filter, Self::Mangle, Self::Raw];
        all.into_iter().find(|layer| does(*layer) == does(self)).unwrap_or(self)
    }

    /// What a denied packet meets.
    pub(super) const fn deny(self, config: &RenderConfig) -> Verdict {
        match (self, config.deny_action) {
            (Self::Filter, DenyAction::Reject) => Verdict::Reject(Reject::PortUnreachable),
            _ => Verdict::Drop,
        }
    }

    pub(super) const fn logs_flows(self, config: &RenderConfig) -> bool {
        config.flow_logs && !matches!(self, Self::Raw)
    }

    /// How names of chains that are special to it begin.
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            Self::Filter => "",
            Self::Mangle => "mangle-",
            Self::Raw => "raw-",
        }
    }
}
