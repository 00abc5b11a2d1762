//! Filters of a session, compiled: conditions and changes as data, and what they make of a route.
//!
//! In comes a [`RouteView`], out goes the rule that decides. Upstream renders the same rules as functions of BIRD
//! (`confd/pkg/resource/template/template_funcs.go`); what BIRD makes of odd ones is kept: `prefixLength` beside `Equal` matches nothing,
//! beside `NotEqual` everything.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Community;
use crate::net::{AsNumber, Cidr, Family, InterfaceName};

/// LOCAL_PREF and metric of the kernel add up to this.
pub const PRIORITY_SUM: u32 = 2_147_483_647;
/// Metric of an ordinary route, unless configured.
pub const NORMAL_PRIORITY: u32 = 1024;

/// A named filter.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct Filter {
    /// Name of the BGPFilter.
    pub name: Arc<str>,
    /// Rules by family and direction.
    pub import: ByFamily<Vec<FilterRule>>,
    /// See `import`.
    pub export: ByFamily<Vec<FilterRule>>,
}

/// A value for each family.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "the two families")]
pub struct ByFamily<T> {
    /// IPv4.
    pub ipv4: T,
    /// IPv6.
    pub ipv6: T,
}

/// One rule: what is given must match.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "built with literals over the default; a new condition must break every evaluator"
)]
pub struct FilterRule {
    /// The route's prefix.
    pub prefix: Option<PrefixMatch>,
    /// It was learned from a peer.
    pub learned: bool,
    /// The route's interface: a name, or its beginning.
    pub interface: Option<InterfaceMatch>,
    /// Kind of session.
    pub session: Option<SessionKind>,
    /// A community that it has.
    pub community: Option<Community>,
    /// How its AS path begins.
    pub as_path: Vec<AsNumber>,
    /// Its metric, as LOCAL_PREF says it.
    pub priority: Option<u32>,
    /// A condition that nobody here understands: an Accept with it never matches, a Reject matches without it.
    pub unknown: bool,
    /// Whether the route passes.
    pub accept: bool,
    /// How it is changed, in order.
    pub operations: Vec<FilterOperation>,
}

/// A condition on the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct PrefixMatch {
    /// What it is compared with.
    pub cidr: Cidr,
    /// How.
    pub operator: PrefixOperator,
    /// Lengths that it may have, within what `operator` says; bounds may be out of order, and nothing matches then.
    pub lengths: Option<(u8, u8)>,
}

/// How prefixes are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "upstream's four")]
pub enum PrefixOperator {
    /// The same.
    Equal,
    /// Another.
    NotEqual,
    /// Inside.
    In,
    /// Not inside.
    NotIn,
}

/// A condition on the interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a pattern")]
pub struct InterfaceMatch {
    /// Text with `*` for anything.
    pub pattern: String,
}

/// Kind of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the two kinds of RFC 4271")]
pub enum SessionKind {
    /// Within one AS.
    Internal,
    /// Between two.
    External,
}

/// A change of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "upstream's three; each must be carried out")]
pub enum FilterOperation {
    /// A community more.
    AddCommunity(Community),
    /// AS numbers before the path, in the order in which they stand then.
    Prepend(Vec<AsNumber>),
    /// A metric, told as LOCAL_PREF.
    SetPriority(u32),
}

/// What rules look at.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::exhaustive_structs, reason = "built with literals by whoever has a route")]
pub struct RouteView<'a> {
    /// Its prefix.
    pub prefix: Cidr,
    /// It was learned from a peer.
    pub learned: bool,
    /// The interface that it leads to, if that is known.
    pub interface: Option<InterfaceName>,
    /// Kind of the session that it comes from or goes to.
    pub session: SessionKind,
    /// Standard communities.
    pub communities: &'a [u32],
    /// Large communities.
    pub large_communities: &'a [[u32; 3]],
    /// The sequence that the AS path begins with.
    pub as_path: &'a [AsNumber],
    /// LOCAL_PREF.
    pub local_pref: Option<u32>,
}

/// Which way a route goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "in and out")]
pub enum RouteDirection {
    /// Received.
    Import,
    /// Announced.
    Export,
}

impl<T> ByFamily<T> {
    /// That of a family.
    pub const fn get(&self, family: Family) -> &T {
        match family {
            Family::V4 => &self.ipv4,
            Family::V6 => &self.ipv6,
        }
    }
}

impl Filter {
    /// The rules for routes of a family that go one way.
    pub fn rules(&self, direction: RouteDirection, family: Family) -> &[FilterRule] {
        match direction {
            RouteDirection::Import => self.import.get(family),
            RouteDirection::Export => self.export.get(family),
        }
    }
}

/// The filter and the place of the rule in it that decide about a route; none if no rule matches.
pub fn first_match<'a>(
    filters: &'a [Arc<Filter>],
    direction: RouteDirection,
    route: &RouteView<'_>,
) -> Option<(&'a Filter, usize, &'a FilterRule)> {
    filters.iter().find_map(|filter| {
        let rules = filter.rules(direction, route.prefix.family());
        let (place, rule) = rules.iter().enumerate().find(|(_, rule)| rule.matches(route))?;
        Some((&**filter, place, rule))
    })
}

impl FilterRule {
    /// Whether it decides about a route.
    pub fn matches(&self, route: &RouteView<'_>) -> bool {
        if self.unknown && self.accept {
            return false;
        }
        self.prefix.is_none_or(|prefix| prefix.matches(route.prefix))
            && (!self.learned || route.learned)
            && self.session.is_none_or(|kind| kind == route.session)
            && self.interface.as_ref().is_none_or(|pattern| pattern.matches(route.interface))
            && self.community.is_none_or(|community| route.has(community))
            && route.as_path.starts_with(&self.as_path)
            && self.priority.is_none_or(|priority| route.local_pref == Some(PRIORITY_SUM.wrapping_sub(priority)))
    }
}

impl PrefixMatch {
    /// Whether it holds for a prefix.
    pub fn matches(&self, prefix: Cidr) -> bool {
        let Some((least, most)) = self.lengths else {
            return match self.operator {
                PrefixOperator::Equal => prefix == self.cidr,
                PrefixOperator::NotEqual => prefix != self.cidr,
                PrefixOperator::In => self.cidr.covers(&prefix),
                PrefixOperator::NotIn => !self.cidr.covers(&prefix),
            };
        };
        let bits = self.cidr.family().bits();
        let bounds = least.max(self.cidr.length())..=most.min(bits);
        let inside = self.cidr.covers(&prefix) && bounds.contains(&prefix.length());
        match self.operator {
            // BIRD compares a prefix with a set of prefixes here, which is never the same.
            PrefixOperator::Equal => false,
            PrefixOperator::NotEqual => true,
            PrefixOperator::In => inside,
            PrefixOperator::NotIn => !inside,
        }
    }
}

impl InterfaceMatch {
    /// Whether an interface is meant. A route without one matches nothing.
    pub fn matches(&self, interface: Option<InterfaceName>) -> bool {
        interface.is_some_and(|name| glob(self.pattern.as_bytes(), name.as_str().as_bytes()))
    }
}

/// `*` stands for any text. Linear in the text for each `*`: names have 15 bytes.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|skip| text.get(skip..).is_some_and(|text| glob(rest, text))),
        Some((first, rest)) => text.split_first().is_some_and(|(byte, text)| byte == first && glob(rest, text)),
    }
}

impl RouteView<'_> {
    fn has(&self, community: Community) -> bool {
        match community {
            Community::Standard(number) => self.communities.contains(&number),
            Community::Large(numbers) => self.large_communities.contains(&numbers),
        }
    }
}

#[cfg(test)]
mod tests;
