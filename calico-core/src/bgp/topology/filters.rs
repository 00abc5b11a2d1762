//! BGPFilters compiled.
//!
//! What of a rule is not understood makes it fail closed ([`FilterRule::unknown`]): an Accept never matches, a Reject matches without it.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::problem::BgpProblem;
use crate::bgp::{
    ByFamily, Filter, FilterOperation, FilterRule, InterfaceMatch, PrefixMatch, PrefixOperator, SessionKind,
};
use crate::net::{Cidr, Family};
use crate::resource::{
    self, BgpFilterRule, BgpFilterSpec, BgpPeerType, FilterAction, MatchOperator, Metadata, PrefixLengthRange,
};

/// A filter, and what is odd about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bgp) struct CompiledFilter {
    pub(in crate::bgp) filter: Arc<Filter>,
    pub(in crate::bgp) problems: Vec<BgpProblem>,
}

/// Largest metric that a rule may name: LOCAL_PREF is what is missing to 2 147 483 647.
const MOST: i64 = 2_147_483_646;

impl CompiledFilter {
    pub(in crate::bgp) fn new(name: &Arc<str>, metadata: &Metadata, spec: &BgpFilterSpec) -> Self {
        let mut problems: Vec<_> = metadata.unread.iter().cloned().map(BgpProblem::NotUnderstood).collect();
        let mut list = |list, rules: &[BgpFilterRule], family| {
            let rules = rules.iter().enumerate().map(|(index, rule)| {
                let mut compiler = Compiler { list, index, problems: &mut problems, unknown: false };
                let rule = compiler.rule(rule, family);
                let unknown = compiler.unknown || is_marked(metadata, list, index);
                FilterRule { unknown, ..rule }
            });
            rules.collect::<Vec<_>>()
        };
        let import = ByFamily {
            ipv4: list("importV4", &spec.import_v4, Family::V4),
            ipv6: list("importV6", &spec.import_v6, Family::V6),
        };
        let export = ByFamily {
            ipv4: list("exportV4", &spec.export_v4, Family::V4),
            ipv6: list("exportV6", &spec.export_v6, Family::V6),
        };
        Self { filter: Arc::new(Filter { name: name.clone(), import, export }), problems }
    }
}

/// Whether a field is not known that stands in this rule, or beside all rules.
fn is_marked(metadata: &Metadata, list: &str, index: usize) -> bool {
    const LISTS: [&str; 4] = ["importV4", "importV6", "exportV4", "exportV6"];
    metadata.unread.iter().any(|fault| {
        let Some(place) = fault.path.strip_prefix("spec.") else { return fault.path.is_empty() };
        match place.split_once('[') {
            Some((of, rest)) if LISTS.contains(&of) => {
                of == list && rest.split_once(']').is_some_and(|(at, _)| at.parse() == Ok(index))
            }
            _ => true,
        }
    })
}

/// Compiles one rule.
struct Compiler<'a> {
    list: &'static str,
    index: usize,
    problems: &'a mut Vec<BgpProblem>,
    unknown: bool,
}

impl Compiler<'_> {
    fn tell(&mut self, reason: impl Into<String>) {
        self.problems.push(BgpProblem::Rule { list: self.list, index: self.index, reason: reason.into() });
    }

    /// A condition or change that nobody understands.
    fn not_understood(&mut self, what: &str) {
        self.unknown = true;
        self.tell(format!("{what}; it does not match if it accepts, and matches without that if it rejects"));
    }

    fn rule(&mut self, rule: &BgpFilterRule, family: Family) -> FilterRule {
        let accept = rule.action == Some(FilterAction::Accept);
        if rule.action.is_none() {
            self.tell("it has no action; it rejects");
        }
        if !matches!(rule.source.as_str(), "" | "RemotePeers") {
            self.not_understood("its source is not RemotePeers");
        }
        FilterRule {
            prefix: self.prefix(rule, family),
            learned: rule.source == "RemotePeers",
            interface: (!rule.interface.is_empty()).then(|| InterfaceMatch { pattern: rule.interface.clone() }),
            session: rule.peer_type.map(|kind| match kind {
                BgpPeerType::External => SessionKind::External,
                BgpPeerType::Internal => SessionKind::Internal,
            }),
            community: self.community(rule),
            as_path: rule.as_path_prefix.clone(),
            priority: rule.priority.and_then(|priority| self.metric(priority)),
            unknown: false,
            accept,
            operations: self.operations(rule, accept),
        }
    }

    fn prefix(&mut self, rule: &BgpFilterRule, family: Family) -> Option<PrefixMatch> {
        let operator = match (rule.cidr.is_empty(), rule.match_operator) {
            (true, None) => {
                if rule.prefix_length.is_some() {
                    self.not_understood("its prefixLength has no cidr");
                }
                return None;
            }
            (false, Some(operator)) => operator_of(operator),
            _ => {
                self.not_understood("it has one of cidr and matchOperator without the other");
                return None;
            }
        };
        let Ok(cidr) = rule.cidr.parse::<Cidr>() else {
            self.not_understood("its cidr is no prefix");
            return None;
        };
        if Cidr::parse_strict(&rule.cidr).is_err() {
            self.tell(format!("its cidr {} has host bits; {cidr} is compared", rule.cidr));
        }
        if cidr.family() != family {
            self.tell(format!("its cidr is no {family} prefix, and never covers one"));
        }
        let lengths = rule.prefix_length.as_ref().map(|range| self.lengths(range, cidr, operator));
        Some(PrefixMatch { cidr, operator, lengths })
    }

    fn lengths(&mut self, range: &PrefixLengthRange, cidr: Cidr, operator: PrefixOperator) -> (u8, u8) {
        let bits = cidr.family().bits();
        let bound = |given: Option<i32>, absent: u8| match given {
            Some(given) => u8::try_from(given.clamp(0, 255)).unwrap_or(absent),
            None => absent,
        };
        let (least, most) = (bound(range.min, 0), bound(range.max, bits));
        match operator {
            PrefixOperator::Equal => self.tell("Equal with a prefixLength matches nothing"),
            PrefixOperator::NotEqual => self.tell("NotEqual with a prefixLength matches everything"),
            _ if least.max(cidr.length()) > most.min(bits) => {
                self.tell("its prefixLength leaves no length: no prefix is inside");
            }
            _ => {}
        }
        (least, most)
    }

    fn community(&mut self, rule: &BgpFilterRule) -> Option<crate::bgp::Community> {
        let values = &rule.communities.as_ref()?.values;
        let community = match values.as_slice() {
            [value] => value.parse().ok(),
            _ => None,
        };
        if community.is_none() {
            self.not_understood("its communities are not exactly one community");
        }
        community
    }

    fn metric(&mut self, priority: i64) -> Option<u32> {
        let metric = Some(priority).filter(|priority| (1..=MOST).contains(priority));
        let metric = metric.and_then(|priority| u32::try_from(priority).ok());
        if metric.is_none() {
            self.not_understood("a priority in it is not from 1 to 2147483646");
        }
        metric
    }

    fn operations(&mut self, rule: &BgpFilterRule, accept: bool) -> Vec<FilterOperation> {
        if !accept {
            if !rule.operations.is_empty() {
                self.tell("its operations change nothing: it rejects");
            }
            return Vec::new();
        }
        rule.operations.iter().filter_map(|operation| self.operation(operation)).collect()
    }

    fn operation(&mut self, operation: &resource::FilterOperation) -> Option<FilterOperation> {
        let resource::FilterOperation { add_community, prepend_as_path, set_priority } = operation;
        let compiled = match (add_community, prepend_as_path, set_priority) {
            (Some(community), None, None) => community.value.parse().ok().map(FilterOperation::AddCommunity),
            (None, Some(path), None) => Some(FilterOperation::Prepend(path.prefix.clone())),
            (None, None, Some(priority)) => {
                let metric = self.metric(priority.value.unwrap_or_default());
                return metric.map(FilterOperation::SetPriority);
            }
            _ => None,
        };
        if compiled.is_none() {
            self.not_understood("an operation of it is not exactly one that is known");
        }
        compiled
    }
}

const fn operator_of(operator: MatchOperator) -> PrefixOperator {
    match operator {
        MatchOperator::Equal => PrefixOperator::Equal,
        MatchOperator::NotEqual => PrefixOperator::NotEqual,
        MatchOperator::In => PrefixOperator::In,
        MatchOperator::NotIn => PrefixOperator::NotIn,
    }
}
