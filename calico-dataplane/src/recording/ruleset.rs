//! What our table holds, and transactions on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use calico_core::table::{
    Chain, ChainName, Datum, Delta, Element, ElementData, ElementDelta, Fingerprint, Key, Rule, SetDecl, SetKind,
    SetName,
};

use crate::{DataplaneError, ObservedChain, ObservedSet};

/// The chains and sets of our table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ruleset {
    pub(super) chains: BTreeMap<ChainName, Arc<Chain>>,
    pub(super) sets: BTreeMap<SetName, StoredSet>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StoredSet {
    pub(super) decl: SetDecl,
    pub(super) elements: BTreeMap<Key, Option<ElementData>>,
}

impl Ruleset {
    /// A chain by name.
    pub fn chain(&self, name: &str) -> Option<&Chain> {
        self.chains.iter().find(|(found, _)| found.as_str() == name).map(|(_, chain)| &**chain)
    }

    /// All chains, by name.
    pub fn chains(&self) -> impl Iterator<Item = &Chain> {
        self.chains.values().map(|chain| &**chain)
    }

    /// All sets with their elements, by name.
    pub fn sets(&self) -> impl Iterator<Item = (&SetDecl, impl Iterator<Item = Element>)> {
        self.sets.values().map(|set| (&set.decl, set.elements()))
    }

    /// Carries out the nf_tables part of a change, all or nothing.
    ///
    /// # Errors
    /// What the kernel would refuse; nothing has changed then.
    pub fn apply(&mut self, delta: &Delta) -> Result<(), DataplaneError> {
        let mut next = self.clone();
        next.transact(delta)?;
        *self = next;
        Ok(())
    }

    fn transact(&mut self, delta: &Delta) -> Result<(), DataplaneError> {
        for name in &delta.chains_removed {
            self.chains.remove(name);
        }
        let remade: BTreeSet<&SetName> = delta.sets_added.iter().map(|decl| &decl.name).collect();
        for name in delta.sets_removed.iter().filter(|name| remade.contains(name)) {
            self.sets.remove(name);
        }
        for decl in &delta.sets_added {
            match self.sets.get(&decl.name) {
                Some(found) if found.decl == *decl => {}
                Some(_) => return Err(refused("add set", &decl.name, std::io::ErrorKind::AlreadyExists)),
                None => {
                    let set = StoredSet { decl: decl.clone(), elements: BTreeMap::new() };
                    self.sets.insert(decl.name.clone(), set);
                }
            }
        }
        for chain in &delta.chains_set {
            check_rules(chain)?;
            match self.chains.get(&chain.name) {
                Some(found) if found.base != chain.base => {
                    return Err(refused("move chain", &chain.name, std::io::ErrorKind::Unsupported));
                }
                _ => self.chains.insert(chain.name.clone(), Arc::new(chain.clone())),
            };
        }
        for change in &delta.elements {
            let set = self.sets.get_mut(&change.set);
            // What is to go from a set that is gone, is gone.
            if set.is_none() && change.added.is_empty() {
                continue;
            }
            set.ok_or_else(|| refused("change set", &change.set, std::io::ErrorKind::NotFound))?.change(change)?;
        }
        for name in delta.sets_removed.iter().filter(|name| !remade.contains(name)) {
            self.sets.remove(name);
        }
        self.check_references()?;
        match self.misplaced() {
            Some(object) => Err(refused("run", &object, std::io::ErrorKind::Unsupported)),
            None => Ok(()),
        }
    }

    /// Whatever is referred to must be there at the end: the kernel refuses both a reference into the void and a deletion that
    /// would make one.
    fn check_references(&self) -> Result<(), DataplaneError> {
        let missing = |object: &dyn fmt::Display| Err(refused("refer to", object, std::io::ErrorKind::NotFound));
        let targets =
            self.sets.values().flat_map(|set| set.elements.values().flatten().filter_map(ElementData::target));
        let jumps = self.chains.values().flat_map(|chain| chain.chain_references());
        for chain in jumps.chain(targets) {
            if self.chains.get(chain).is_none_or(|found| found.base.is_some()) {
                return missing(chain);
            }
        }
        for set in self.chains.values().flat_map(|chain| chain.set_references()) {
            if !self.sets.contains_key(set) {
                return missing(set);
            }
        }
        Ok(())
    }

    pub(super) fn observed_chains(&self, tampered: &BTreeSet<ChainName>) -> BTreeMap<ChainName, ObservedChain> {
        let observe = |(name, chain): (&ChainName, &Arc<Chain>)| {
            let fingerprint: Option<Fingerprint> = (!tampered.contains(name)).then(|| chain.fingerprint());
            (name.clone(), ObservedChain { base: chain.base, fingerprint })
        };
        self.chains.iter().map(observe).collect()
    }

    pub(super) fn observed_sets(&self) -> BTreeMap<SetName, ObservedSet> {
        let observe = |(name, set): (&SetName, &StoredSet)| {
            (name.clone(), ObservedSet { decl: Some(set.decl.clone()), elements: set.elements().collect() })
        };
        self.sets.iter().map(observe).collect()
    }
}

impl StoredSet {
    fn elements(&self) -> impl Iterator<Item = Element> {
        self.elements.iter().map(|(key, data)| Element { key: key.clone(), data: data.clone() })
    }

    fn change(&mut self, change: &ElementDelta) -> Result<(), DataplaneError> {
        for element in &change.removed {
            self.elements.remove(&element.key);
        }
        for element in &change.added {
            let clash =
                || refused("add element", &format!("@{} {element}", change.set), std::io::ErrorKind::AlreadyExists);
            if !self.decl.kind.takes(element.data.as_ref()) || element.key.len() != self.decl.key.len() {
                return Err(refused("add element", element, std::io::ErrorKind::InvalidInput));
            }
            let overlaps = |found: &[Datum]| match (found.first(), element.key.first()) {
                (Some(Datum::Net(found)), Some(Datum::Net(added))) => found != added && found.overlaps(added),
                _ => false,
            };
            if self.decl.kind == SetKind::Interval && self.elements.keys().any(|found| overlaps(found)) {
                return Err(clash());
            }
            match self.elements.insert(element.key.clone(), element.data.clone()) {
                Some(found) if found != element.data => return Err(clash()),
                _ => {}
            }
        }
        Ok(())
    }
}

fn check_rules(chain: &Chain) -> Result<(), DataplaneError> {
    let unwritable = |(index, rule): (usize, &Rule)| {
        let error = rule.check(chain.name.table()).err()?;
        let object = format!("rule {index} of {}chain {}", chain.name.table().prefix(), chain.name);
        Some(DataplaneError::Unwritable { object, detail: error.to_string() })
    };
    chain.rules.iter().enumerate().find_map(unwritable).map_or(Ok(()), Err)
}

fn refused(operation: &'static str, object: &dyn fmt::Display, kind: std::io::ErrorKind) -> DataplaneError {
    DataplaneError::Kernel { operation, object: object.to_string(), source: kind.into() }
}

/// The whole table as text.
impl fmt::Display for Ruleset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (decl, elements) in self.sets() {
            writeln!(f, "{decl}")?;
            for element in elements {
                writeln!(f, "\t{element}")?;
            }
        }
        self.chains().try_for_each(|chain| writeln!(f, "{chain}"))
    }
}
