//! Filters of sessions as functions of BIRD: one for each filter, direction and family, which sessions call in order.
//!
//! A function that has no verdict returns. What never matches is not written, since BIRD refuses some of it (bounds that are out of order).

use calico_core::bgp::{
    Community, Filter, FilterOperation, FilterRule, PRIORITY_SUM, PrefixMatch, PrefixOperator, RouteDirection,
    SessionKind,
};
use calico_core::net::Family;

use super::left_out::Unsupported;
use super::names;
use super::session::Session;
use super::settings::Dialect;
use super::text::{Text, pattern};

const DIRECTIONS: [RouteDirection; 2] = [RouteDirection::Import, RouteDirection::Export];

/// Filters that sessions use, each once.
#[derive(Debug, Default)]
pub(super) struct Filters<'a> {
    /// With how many different filters of its name stand before it.
    used: Vec<(&'a Filter, usize)>,
}

/// When a rule decides.
enum When {
    Never,
    Always,
    If(String),
}

impl<'a> Filters<'a> {
    /// Takes up the filters of a session, unless one of them cannot be written.
    pub(super) fn add(&mut self, session: &mut Session<'a>) -> Result<(), Unsupported> {
        for filter in &session.peer.policy.filters {
            check(filter, session)?;
        }
        session.filters = session.peer.policy.filters.iter().map(|filter| self.place(filter)).collect();
        Ok(())
    }

    fn place(&mut self, filter: &'a Filter) -> usize {
        if let Some(place) = self.used.iter().position(|(used, _)| *used == filter) {
            return place;
        }
        let occurrence = self.used.iter().filter(|(used, _)| used.name == filter.name).count();
        self.used.push((filter, occurrence));
        self.used.len() - 1
    }

    /// What a session calls.
    pub(super) fn calls(&self, places: &[usize], direction: RouteDirection, family: Family) -> Vec<String> {
        let used = places.iter().filter_map(|place| self.used.get(*place));
        let with_rules = used.filter(|(filter, _)| !filter.rules(direction, family).is_empty());
        with_rules.map(|(filter, occurrence)| names::function(&filter.name, *occurrence, direction, family)).collect()
    }

    /// All of them.
    pub(super) fn functions(&self, text: &mut Text, dialect: Dialect) {
        for family in dialect.families() {
            for (filter, occurrence) in &self.used {
                for direction in DIRECTIONS {
                    let rules = filter.rules(direction, family);
                    if rules.is_empty() {
                        continue;
                    }
                    let name = names::function(&filter.name, *occurrence, direction, family);
                    text.open(format_args!("function {name}(bool internal_peer)"));
                    rules.iter().for_each(|rule| write(text, rule, family));
                    text.close();
                }
            }
        }
    }
}

fn check(filter: &Filter, session: &Session<'_>) -> Result<(), Unsupported> {
    for family in session.families.iter() {
        for rule in DIRECTIONS.into_iter().flat_map(|direction| filter.rules(direction, family)) {
            when(rule, family)
                .map_err(|what| Unsupported::Filter { filter: filter.name.to_string(), what: Box::new(what) })?;
        }
    }
    Ok(())
}

fn write(text: &mut Text, rule: &FilterRule, family: Family) {
    // Sessions that use a filter with an unwritable rule are not written; of other families it does no harm.
    let condition = match when(rule, family) {
        Ok(When::If(condition)) => condition,
        Ok(When::Always) => "true".into(),
        Ok(When::Never) | Err(_) => return,
    };
    if !rule.accept {
        return text.line(format_args!("if {condition} then reject;"));
    }
    if rule.operations.is_empty() {
        return text.line(format_args!("if {condition} then accept;"));
    }
    text.open(format_args!("if {condition} then"));
    for operation in &rule.operations {
        change(text, operation);
    }
    text.line("accept;");
    text.close();
}

fn change(text: &mut Text, operation: &FilterOperation) {
    match operation {
        FilterOperation::AddCommunity(community) => add_community(text, *community),
        FilterOperation::Prepend(numbers) => {
            // The last one that is put before the path stands first.
            for number in numbers.iter().rev() {
                text.line(format_args!("bgp_path.prepend({});", number.value()));
            }
        }
        FilterOperation::SetPriority(priority) => {
            text.line(format_args!("bgp_local_pref = {};", PRIORITY_SUM.wrapping_sub(*priority)));
        }
    }
}

/// One community more.
pub(super) fn add_community(text: &mut Text, community: Community) {
    let (attribute, value) = (attribute(community), value(community));
    text.line(format_args!("{attribute}.add({value});"));
}

const fn attribute(community: Community) -> &'static str {
    match community {
        Community::Standard(_) => "bgp_community",
        Community::Large(_) => "bgp_large_community",
    }
}

fn value(community: Community) -> String {
    match community {
        Community::Standard(number) => format!("({}, {})", number >> 16, number & 0xffff),
        Community::Large([global, first, second]) => format!("({global}, {first}, {second})"),
    }
}

/// When a rule decides about a route of a family.
fn when(rule: &FilterRule, family: Family) -> Result<When, Unsupported> {
    if rule.unknown && rule.accept {
        return Ok(When::Never);
    }
    let mut conditions = Vec::new();
    match rule.prefix.map(|prefix| within(prefix, family)) {
        None | Some(When::Always) => {}
        Some(When::Never) => return Ok(When::Never),
        Some(When::If(condition)) => conditions.push(condition),
    }
    if rule.learned {
        conditions.push("source = RTS_BGP".into());
    }
    if let Some(interface) = &rule.interface {
        let quoted = pattern(&interface.pattern).ok_or_else(|| Unsupported::Interface(interface.pattern.clone()))?;
        conditions.push(format!("(defined(ifname) && ifname ~ {quoted})"));
    }
    match rule.session {
        None => {}
        Some(SessionKind::Internal) => conditions.push("internal_peer".into()),
        Some(SessionKind::External) => conditions.push("!internal_peer".into()),
    }
    if let Some(community) = rule.community {
        conditions.push(format!("{} ~ {}", value(community), attribute(community)));
    }
    if !rule.as_path.is_empty() {
        let numbers: Vec<String> = rule.as_path.iter().map(|number| number.value().to_string()).collect();
        conditions.push(format!("bgp_path ~ [= {} * =]", numbers.join(" ")));
    }
    if let Some(priority) = rule.priority {
        let preference = PRIORITY_SUM.wrapping_sub(priority);
        conditions.push(format!("(defined(bgp_local_pref) && bgp_local_pref = {preference})"));
    }
    Ok(if conditions.is_empty() { When::Always } else { When::If(conditions.join(" && ")) })
}

fn within(prefix: PrefixMatch, family: Family) -> When {
    let PrefixMatch { cidr, operator, lengths } = prefix;
    let inside = match (cidr.family() == family, lengths) {
        (false, _) => None,
        (true, None) => Some(cidr.to_string()),
        (true, Some((least, most))) => {
            let (least, most) = (least.max(cidr.length()), most.min(family.bits()));
            (least <= most).then(|| format!("[ {cidr}{{{least},{most}}} ]"))
        }
    };
    match (operator, inside) {
        // A prefix is never the same as a set of prefixes.
        (PrefixOperator::Equal, _) if lengths.is_some() => When::Never,
        (PrefixOperator::NotEqual, _) if lengths.is_some() => When::Always,
        (PrefixOperator::Equal | PrefixOperator::In, None) => When::Never,
        (PrefixOperator::NotEqual | PrefixOperator::NotIn, None) => When::Always,
        (PrefixOperator::Equal, Some(inside)) => When::If(format!("net = {inside}")),
        (PrefixOperator::NotEqual, Some(inside)) => When::If(format!("net != {inside}")),
        (PrefixOperator::In, Some(inside)) => When::If(format!("net ~ {inside}")),
        (PrefixOperator::NotIn, Some(inside)) => When::If(format!("net !~ {inside}")),
    }
}

#[cfg(test)]
mod tests {
    use calico_core::bgp::InterfaceMatch;

    use super::*;

    fn condition(rule: &FilterRule) -> String {
        match when(rule, Family::V4).unwrap() {
            When::Never => "never".into(),
            When::Always => "always".into(),
            When::If(condition) => condition,
        }
    }

    fn prefix(cidr: &str, operator: PrefixOperator, lengths: Option<(u8, u8)>) -> FilterRule {
        FilterRule {
            prefix: Some(PrefixMatch { cidr: cidr.parse().unwrap(), operator, lengths }),
            ..FilterRule::default()
        }
    }

    #[test]
    fn prefixes() {
        use PrefixOperator::{Equal, In, NotEqual, NotIn};
        let rows = [
            (prefix("10.0.0.0/8", Equal, None), "net = 10.0.0.0/8"),
            (prefix("10.0.0.0/8", NotEqual, None), "net != 10.0.0.0/8"),
            (prefix("10.0.0.0/8", In, None), "net ~ 10.0.0.0/8"),
            (prefix("10.0.0.0/8", NotIn, None), "net !~ 10.0.0.0/8"),
            (prefix("10.0.0.0/8", Equal, Some((16, 24))), "never"),
            (prefix("10.0.0.0/8", NotEqual, Some((16, 24))), "always"),
            (prefix("10.0.0.0/8", In, Some((0, 200))), "net ~ [ 10.0.0.0/8{8,32} ]"),
            (prefix("10.0.0.0/8", NotIn, Some((16, 24))), "net !~ [ 10.0.0.0/8{16,24} ]"),
            (prefix("10.0.0.0/8", In, Some((24, 16))), "never"),
            (prefix("10.0.0.0/8", NotIn, Some((0, 7))), "always"),
            (prefix("fd00::/8", In, None), "never"),
            (prefix("fd00::/8", NotEqual, None), "always"),
        ];
        for (rule, expected) in rows {
            assert_eq!(condition(&rule), expected, "{rule:?}");
        }
    }

    #[test]
    fn what_nobody_understands_allows_nothing() {
        let unknown = |accept| FilterRule { unknown: true, learned: true, accept, ..FilterRule::default() };
        assert_eq!(condition(&unknown(true)), "never");
        assert_eq!(condition(&unknown(false)), "source = RTS_BGP");
        assert_eq!(condition(&FilterRule::default()), "always");
    }

    #[test]
    fn a_pattern_that_bird_would_take_for_another_is_refused() {
        for bad in ["eth?", "a\\*", "\"; accept; \"", "a\nb"] {
            let rule = FilterRule {
                interface: Some(InterfaceMatch { pattern: bad.into() }),
                accept: true,
                ..FilterRule::default()
            };
            assert!(matches!(when(&rule, Family::V4), Err(Unsupported::Interface(text)) if text == bad));
        }
    }
}
