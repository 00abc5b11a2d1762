//! What a run of random passages has put to the test.
//!
//! Each policy that was asked counts once for each of its steps, in a cell of a table: protocol, family, translation, whose policy (by kind
//! of endpoint), and what it did. A cell that stays empty says that nothing is proved about it.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use super::World;
use crate::flow::Passage;
use crate::net::Family;
use crate::resource::{Action, DefaultAction, Kind, Resource, ResourceKey};
use crate::verdict::{End, Owner, PassageVerdict, Step};

/// Protocols that rules can treat differently: those with ports, ICMP of the family, and any other.
const PROTOCOLS: [&str; 5] = ["TCP", "UDP", "SCTP", "ICMP", "other"];
/// Whose policy: a workload's, or that of a host endpoint that has its interface by name, by address, or as one of all others.
const OWNERS: [&str; 4] = ["workload", "by name", "by address", "wildcard"];
/// What a tier or a profile did.
const ACTIONS: [&str; 11] = [
    "tier allow",
    "tier deny",
    "tier pass",
    "tier log",
    "tier end deny",
    "tier end pass",
    "profile allow",
    "profile deny",
    "profile pass",
    "profile log",
    "profile end",
];

/// Protocol, family, whether the destination is translated, owner, action; each by its index.
type Cell = (usize, Family, bool, usize, usize);

/// The counts.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Coverage {
    cells: BTreeMap<Cell, usize>,
}

impl Coverage {
    /// Counts what was decided about a passage of a world.
    pub fn count(&mut self, world: &World, passage: &Passage<'_>, verdict: &PassageVerdict) {
        let flow = &passage.flow;
        let protocol = match flow.protocol {
            6 => 0,
            17 => 1,
            132 => 2,
            1 | 58 => 3,
            _ => 4,
        };
        for End { endpoint, verdict, .. } in &verdict.ends {
            let Some(owner) = endpoint.as_ref().and_then(|id| owner(world, &id.0)) else { continue };
            for action in verdict.steps.iter().filter_map(action) {
                let translated = passage.arriving != passage.flow;
                *self.cells.entry((protocol, flow.family(), translated, owner, action)).or_default() += 1;
            }
        }
    }

    /// The cells with less than `least` cases, in words.
    pub fn below(&self, least: usize) -> Vec<String> {
        let few = cells().filter(|cell| self.cases(*cell) < least);
        few.map(|(protocol, family, translated, owner, action)| {
            let nat = if translated { "translated" } else { "as it is" };
            let names = [&PROTOCOLS[..], &OWNERS, &ACTIONS].map(|names| names.iter().copied());
            let [mut protocols, mut owners, mut actions] = names;
            let words =
                [protocols.nth(protocol), owners.nth(owner), actions.nth(action)].map(Option::unwrap_or_default);
            alloc::format!("{family} {nat} {}", words.join(" "))
        })
        .collect()
    }

    fn cases(&self, cell: Cell) -> usize {
        self.cells.get(&cell).copied().unwrap_or_default()
    }
}

/// One line for each protocol, family, translation and owner, one column for each action.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:8}{:6}{:5}{:11}", "", "", "", "")?;
        ACTIONS.iter().try_for_each(|action| write!(f, "{action:>14}"))?;
        for cell in cells() {
            let (protocol, family, translated, owner, action) = cell;
            if action == 0 {
                let nat = if translated { "NAT" } else { "-" };
                let (protocol, owner) = (PROTOCOLS.get(protocol), OWNERS.get(owner));
                let (protocol, owner) = (protocol.copied().unwrap_or_default(), owner.copied().unwrap_or_default());
                write!(f, "\n{protocol:8}{family:6}{nat:5}{owner:11}")?;
            }
            write!(f, "{:>14}", self.cases(cell))?;
        }
        Ok(())
    }
}

fn cells() -> impl Iterator<Item = Cell> {
    let protocols = (0..PROTOCOLS.len()).flat_map(|protocol| [Family::V4, Family::V6].map(|family| (protocol, family)));
    let translations = protocols.flat_map(|(protocol, family)| [false, true].map(|nat| (protocol, family, nat)));
    let owners = translations
        .flat_map(|(protocol, family, nat)| (0..OWNERS.len()).map(move |owner| (protocol, family, nat, owner)));
    owners.flat_map(|(protocol, family, nat, owner)| {
        (0..ACTIONS.len()).map(move |action| (protocol, family, nat, owner, action))
    })
}

fn owner(world: &World, endpoint: &ResourceKey) -> Option<usize> {
    match world.objects.get(endpoint).map(|object| &**object) {
        Some(Resource::HostEndpoint(object)) => Some(match object.spec.interface_name.as_str() {
            "*" => 3,
            "" => 2,
            _ => 1,
        }),
        _ => (endpoint.kind() == Kind::WorkloadEndpoint).then_some(0),
    }
}

fn action(step: &Step) -> Option<usize> {
    match step {
        Step::Rule(step) => {
            let offset = match step.owner {
                Owner::Policy { .. } => 0,
                Owner::Profile(_) => 6,
            };
            let action = match step.action {
                Action::Allow => 0,
                Action::Deny => 1,
                Action::Pass => 2,
                Action::Log => 3,
            };
            Some(offset + action)
        }
        Step::EndOfTier { action: DefaultAction::Deny, .. } => Some(4),
        Step::EndOfTier { action: DefaultAction::Pass, .. } => Some(5),
        Step::EndOfProfiles => Some(10),
        _ => None,
    }
}
