//! What a rule may not say: words that would mean nothing to a kernel, or something else than they read.
//!
//! Every backend refuses such a rule as a whole, so that none carries it out in part.

use alloc::string::{String, ToString};

use super::{Field, Match, Reject, Rule, SetName, Statement, Table, Value, Verdict};
use crate::net::{Family, PortRange};

/// Protocols with ports in their first four octets: TCP, UDP, DCCP, SCTP, UDP-Lite.
pub const PORT_PROTOCOLS: [u8; 5] = [6, 17, 33, 132, 136];

const TCP: u8 = 6;

/// Why a rule cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RuleError {
    /// Ports are to be chosen, or a reset is to be sent, without a match on one protocol that has them.
    #[error("\"{word}\" needs a match on {needs}")]
    Protocol {
        /// The word, as text.
        word: String,
        /// What must be matched.
        needs: &'static str,
    },
    /// A number out of range.
    #[error("\"{word}\" is out of range: {range}")]
    Range {
        /// The word, as text.
        word: String,
        /// What would do.
        range: &'static str,
    },
    /// A word that the chain's table has not, or a name of another table.
    #[error("\"{word}\" is nothing for table {table:?}")]
    Table {
        /// The word, as text.
        word: String,
        /// The table of the rule's chain.
        table: Table,
    },
    /// A field that the word does not look at.
    #[error("\"{word}\" needs an address as a key")]
    Address {
        /// The word, as text.
        word: String,
    },
}

impl Rule {
    /// Whether every word of the rule can be carried out in a chain of this table, as far as the rule alone tells.
    ///
    /// # Errors
    /// The first word that cannot.
    pub fn check(&self, table: Table) -> Result<(), RuleError> {
        if let Some(word) = self.foreign_to(table) {
            return Err(RuleError::Table { word, table });
        }
        self.matches.iter().try_for_each(check_match)?;
        self.statements.iter().try_for_each(check_statement)?;
        self.verdict.as_ref().map_or(Ok(()), |verdict| self.check_verdict(verdict))
    }

    /// The first word that is none of this table.
    fn foreign_to(&self, table: Table) -> Option<String> {
        let text = |word: &dyn ToString| word.to_string();
        let condition = self.matches.iter().find(|condition| !condition_suits(condition, table)).map(|word| text(word));
        let statement = || self.statements.iter().find(|word| !statement_suits(word, table)).map(|word| text(word));
        let verdict = || self.verdict.as_ref().filter(|word| !verdict_suits(word, table)).map(|word| text(word));
        condition.or_else(statement).or_else(verdict)
    }

    /// Whether only packets of a protocol with ports can match, by the rule's own words.
    pub fn implies_ports(&self) -> bool {
        PORT_PROTOCOLS.iter().any(|protocol| self.requires(*protocol))
    }

    fn requires(&self, protocol: u8) -> bool {
        let wanted = Match::Equal { field: Field::L4Proto, value: Value::Proto(protocol), negated: false };
        self.matches.contains(&wanted)
    }

    fn check_verdict(&self, verdict: &Verdict) -> Result<(), RuleError> {
        let needs = |needs| Err(RuleError::Protocol { word: verdict.to_string(), needs });
        match verdict {
            Verdict::Reject(Reject::TcpReset) if !self.requires(TCP) => needs("TCP"),
            Verdict::Masquerade { ports: Some(_), .. } | Verdict::Snat { ports: Some(_), .. }
                if !self.implies_ports() =>
            {
                needs("one protocol with ports")
            }
            Verdict::SnatLookup { key, .. } | Verdict::DnatLookup { key, .. } if key_family(key).is_none() => {
                Err(RuleError::Address { word: verdict.to_string() })
            }
            Verdict::ByPort { field, verdicts } if !leads_by_port(*field, verdicts) => Err(RuleError::Range {
                word: verdict.to_string(),
                range: "ports stand in order, each at most once, and lead to plain verdicts",
            }),
            _ => Ok(()),
        }
    }
}

/// The family of the addresses in a key: that of its first address. An address map holds addresses of the same family.
pub fn key_family(key: &[Field]) -> Option<Family> {
    key.iter().find_map(|field| match field {
        Field::SrcAddr(family) | Field::DstAddr(family) => Some(*family),
        _ => None,
    })
}

fn leads_by_port(field: Field, verdicts: &[(PortRange, Verdict)]) -> bool {
    let ranges = || verdicts.iter().map(|(range, _)| *range);
    let in_order = ranges().zip(ranges().skip(1)).all(|(one, next)| one.max() < next.min());
    let plain = verdicts.iter().all(|(_, verdict)| verdict.is_plain());
    matches!(field, Field::SrcPort | Field::DstPort) && !verdicts.is_empty() && in_order && plain
}

const fn field_suits(field: Field, table: Table) -> bool {
    match field {
        Field::IifName | Field::OifName => true,
        Field::ArpSender => matches!(table, Table::Arp),
        _ => matches!(table, Table::Inet),
    }
}

fn key_suits(key: &[Field], set: &SetName, table: Table) -> bool {
    set.table() == table && key.iter().all(|field| field_suits(*field, table))
}

fn condition_suits(condition: &Match, table: Table) -> bool {
    match condition {
        Match::Equal { field, .. }
        | Match::InterfacePrefix { field, .. }
        | Match::InCidr { field, .. }
        | Match::InCidrs { field, .. }
        | Match::InPorts { field, .. } => field_suits(*field, table),
        Match::InSet { key, set, .. } => key_suits(key, set, table),
        Match::Mark { .. } => true,
        Match::ArpReply => table == Table::Arp,
        _ => table == Table::Inet,
    }
}

const fn statement_suits(statement: &Statement, table: Table) -> bool {
    let anywhere = matches!(
        statement,
        Statement::Counter
            | Statement::Log { .. }
            | Statement::LogGroup { .. }
            | Statement::Limit(_)
            | Statement::SetMark { .. }
    );
    anywhere || matches!(table, Table::Inet)
}

fn verdict_suits(verdict: &Verdict, table: Table) -> bool {
    match verdict {
        Verdict::Accept | Verdict::Drop | Verdict::Return => true,
        Verdict::Jump(chain) | Verdict::Goto(chain) => chain.table() == table,
        Verdict::Lookup { key, map } => key_suits(key, map, table),
        Verdict::ByPort { field, .. } => {
            field_suits(*field, table) && verdict.targets().all(|chain| chain.table() == table)
        }
        Verdict::SnatLookup { key, map } | Verdict::DnatLookup { key, map } => {
            table == Table::Inet && key_suits(key, map, table)
        }
        _ => table == Table::Inet,
    }
}

fn check_match(condition: &Match) -> Result<(), RuleError> {
    match condition {
        Match::Local { field, .. } if key_family(&[*field]).is_none() => {
            Err(RuleError::Address { word: condition.to_string() })
        }
        _ => Ok(()),
    }
}

fn check_statement(statement: &Statement) -> Result<(), RuleError> {
    let range = |range| Err(RuleError::Range { word: statement.to_string(), range });
    match statement {
        Statement::Limit(limit) if limit.rate == 0 || limit.burst == 0 => range("neither rate nor burst may be 0"),
        Statement::Limit(limit) if ![1, 60, 3600, 86_400].contains(&limit.seconds) => {
            range("the unit is a second, a minute, an hour or a day")
        }
        Statement::SetDscp { value, .. } if *value > 63 => range("code points are 0 to 63"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::net::PortRange;
    use crate::table::{ChainName, RateLimit};

    fn verdict(matches: &[Match], verdict: Verdict) -> Result<(), RuleError> {
        Rule { matches: matches.to_vec(), verdict: Some(verdict), ..Rule::default() }.check(Table::Inet)
    }

    fn statement(statement: Statement) -> bool {
        Rule { statements: vec![statement], ..Rule::default() }.check(Table::Inet).is_ok()
    }

    fn protocol(number: u8, negated: bool) -> Match {
        Match::Equal { field: Field::L4Proto, value: Value::Proto(number), negated }
    }

    #[test]
    fn ports_and_resets_need_their_protocol() {
        let ports = Some(PortRange::new(1024, 2048).unwrap());
        for word in [
            Verdict::Masquerade { ports, random: false },
            Verdict::Snat { address: [1, 2, 3, 4].into(), ports, random: true },
        ] {
            assert!(verdict(&[protocol(17, false)], word.clone()).is_ok());
            for other in [&[][..], &[protocol(17, true)], &[protocol(1, false)]] {
                assert!(verdict(other, word.clone()).is_err());
            }
        }
        assert!(verdict(&[], Verdict::Masquerade { ports: None, random: true }).is_ok());
        assert!(verdict(&[protocol(6, false)], Verdict::Reject(Reject::TcpReset)).is_ok());
        let error = verdict(&[protocol(17, false)], Verdict::Reject(Reject::TcpReset)).unwrap_err();
        assert_eq!(error.to_string(), "\"reject with tcp reset\" needs a match on TCP");
    }

    #[test]
    fn translations_by_map_have_a_family() {
        let map = SetName::new("map").unwrap();
        let lookup = |field| Verdict::DnatLookup { key: vec![Field::IifName, field], map: map.clone() };
        assert!(verdict(&[], lookup(Field::DstAddr(Family::V6))).is_ok());
        assert!(verdict(&[], lookup(Field::DstPort)).is_err());
    }

    #[test]
    fn verdicts_by_port_stand_in_order_and_are_plain() {
        let by_port = |field, verdicts: &[(u16, u16, Verdict)]| {
            let verdicts = verdicts.iter().map(|(min, max, to)| (PortRange::new(*min, *max).unwrap(), to.clone()));
            verdict(&[protocol(6, false)], Verdict::ByPort { field, verdicts: verdicts.collect() }).is_ok()
        };
        let chain = Verdict::Goto(ChainName::new("chain").unwrap());
        let (low, high) = ((1, 80, chain), (81, 90, Verdict::Return));
        assert!(by_port(Field::DstPort, &[low.clone(), high.clone()]));
        assert!(!by_port(Field::L4Proto, core::slice::from_ref(&low)));
        assert!(!by_port(Field::DstPort, &[]));
        assert!(!by_port(Field::DstPort, &[high, low.clone()]));
        assert!(!by_port(Field::DstPort, &[low.clone(), (80, 90, Verdict::Drop)]));
        assert!(!by_port(Field::SrcPort, &[low, (81, 90, Verdict::Reject(Reject::TcpReset))]));
        let elsewhere = Verdict::Goto(ChainName::of(Table::Arp, "chain").unwrap());
        assert!(!by_port(Field::DstPort, &[(1, 2, elsewhere)]));
    }

    #[test]
    fn each_table_has_its_own_words() {
        let [inet, arp] = Table::ALL.map(|table| {
            let set = SetName::of(table, "set").unwrap();
            let key = if table == Table::Arp { Field::ArpSender } else { Field::SrcAddr(Family::V4) };
            let matches = vec![Match::InSet { key: vec![Field::IifName, key], set, negated: true }];
            let verdict = Some(Verdict::Jump(ChainName::of(table, "chain").unwrap()));
            Rule { matches, verdict, ..Rule::default() }
        });
        assert!(inet.check(Table::Inet).is_ok() && arp.check(Table::Arp).is_ok());
        let alone = |rule: &Rule| [Rule { verdict: None, ..rule.clone() }, Rule { matches: vec![], ..rule.clone() }];
        for (rules, table) in [(alone(&inet), Table::Arp), (alone(&arp), Table::Inet)] {
            for rule in rules {
                assert!(matches!(rule.check(table), Err(RuleError::Table { .. })), "{rule}");
            }
        }
        let tracked = Rule { statements: vec![Statement::NoTrack], ..Rule::default() };
        assert!(tracked.check(Table::Inet).is_ok() && tracked.check(Table::Arp).is_err());
    }

    #[test]
    fn numbers_stay_in_range() {
        let limit = |rate, seconds, burst| statement(Statement::Limit(RateLimit { rate, seconds, burst, over: false }));
        assert!(limit(1, 60, 1));
        assert!(!limit(0, 60, 1) && !limit(1, 60, 0) && !limit(1, 61, 1));
        let dscp = |value| statement(Statement::SetDscp { family: Family::V4, value });
        assert!(dscp(63) && !dscp(64));
    }
}
