//! What must hold before a condition may look at a packet: said where `nft` does not say it by itself, and once, as in the other encoder.

use calico_core::net::Family;
use calico_core::table::{Field, Match, Rule, Verdict, key_family};
use nftables::stmt::Statement;

use super::expression::{family, has_ports};

/// The guards that stand in a rule already.
#[derive(Debug)]
pub(super) struct Guards {
    families: Vec<Family>,
    ports: bool,
}

impl Guards {
    pub(super) fn new(rule: &Rule) -> Self {
        Self { families: Vec::new(), ports: rule.implies_ports() }
    }

    /// What to say before a condition, or in its place: the family, which is said where no address says it; ports.
    pub(super) fn before(&mut self, condition: &Match) -> Vec<Statement<'static>> {
        let key: &[Field] = match condition {
            Match::Equal { field, .. } | Match::InCidr { field, .. } | Match::InCidrs { field, .. } => &[*field],
            Match::InPorts { field, .. } => &[*field],
            Match::InSet { key, .. } => key,
            Match::Local { field, .. } => {
                // `fib` looks at the address of whichever family.
                return key_family(&[*field]).filter(|of| self.notes(*of)).map(family).into_iter().collect();
            }
            Match::Icmp { family, .. } => {
                self.notes(*family);
                return Vec::new();
            }
            _ => return Vec::new(),
        };
        self.before_key(key)
    }

    /// Whether a condition says nothing new: a family that an earlier word implies.
    pub(super) fn implies(&mut self, condition: &Match) -> bool {
        matches!(condition, Match::Family(family) if !self.notes(*family))
    }

    /// What to say before a verdict.
    pub(super) fn before_verdict(&mut self, verdict: &Verdict) -> Vec<Statement<'static>> {
        match verdict {
            Verdict::Lookup { key, .. } | Verdict::SnatLookup { key, .. } | Verdict::DnatLookup { key, .. } => {
                self.before_key(key)
            }
            Verdict::ByPort { field, .. } => self.before_key(&[*field]),
            _ => Vec::new(),
        }
    }

    fn before_key(&mut self, key: &[Field]) -> Vec<Statement<'static>> {
        if let Some(family) = key_family(key) {
            self.notes(family);
        }
        // Beside the protocol, a port of none is no member.
        let reads = key.iter().any(|field| matches!(field, Field::SrcPort | Field::DstPort));
        if !reads || key.contains(&Field::L4Proto) || std::mem::replace(&mut self.ports, true) {
            return Vec::new();
        }
        vec![has_ports()]
    }

    /// Takes note of a family that stands now; whether it stood not before.
    fn notes(&mut self, family: Family) -> bool {
        let new = !self.families.contains(&family);
        if new {
            self.families.push(family);
        }
        new
    }
}
