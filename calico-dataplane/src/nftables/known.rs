//! What is known of our tables without asking: what was last seen or written.

use std::collections::{BTreeMap, BTreeSet};

use calico_core::table::{BaseChain, ChainName, Datum, Delta, Element, SetDecl, SetKind, SetName, Table};

use super::decode::ChainListing;
use crate::{DataplaneError, ObservedChain};

/// Chains and sets as last seen or written.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Chains, by which one that lost its name is missed.
    chains: BTreeSet<ChainName>,
    /// Chains that hang in a hook (none: in one that we do not know), for the kernel moves none in place and quietly leaves it hanging
    /// when asked for a plain chain.
    hanging: BTreeMap<ChainName, Option<BaseChain>>,
    /// Kinds of sets: in an interval set, an address without an end would match all that follow.
    kinds: BTreeMap<SetName, SetKind>,
}

impl Known {
    /// Takes note of a chain that was read.
    pub(super) fn chain_found(&mut self, name: &ChainName, mut found: ChainListing, dormant: bool) -> ObservedChain {
        self.chains.insert(name.clone());
        match found.hangs {
            true => self.hanging.insert(name.clone(), found.chain.base),
            false => self.hanging.remove(name),
        };
        if dormant && found.chain.base.is_some() {
            // Nothing in a dormant table is run: what hangs at a hook is not as we wrote it, and writing it wakes the table.
            found.chain.fingerprint = None;
        }
        found.chain
    }

    /// Takes note of a set that was read, with the declaration that it has if we can say it.
    pub(super) fn set_found(&mut self, name: &SetName, decl: Option<&SetDecl>) {
        match decl {
            Some(decl) => self.kinds.insert(name.clone(), decl.kind),
            None => self.kinds.remove(name),
        };
    }

    /// A chain is gone.
    pub(super) fn forget_chain(&mut self, name: &ChainName) {
        self.chains.remove(name);
        self.hanging.remove(name);
    }

    /// A set is gone.
    pub(super) fn forget_set(&mut self, name: &SetName) {
        self.kinds.remove(name);
    }

    /// Takes note of what was written.
    pub(super) fn remember(&mut self, delta: &Delta) {
        for name in &delta.sets_removed {
            self.forget_set(name);
        }
        for decl in &delta.sets_added {
            self.kinds.insert(decl.name.clone(), decl.kind);
        }
        for name in &delta.chains_removed {
            self.forget_chain(name);
        }
        for chain in &delta.chains_set {
            self.chains.insert(chain.name.clone());
            match chain.base {
                Some(base) => self.hanging.insert(chain.name.clone(), Some(base)),
                None => self.hanging.remove(&chain.name),
            };
        }
    }

    /// Whether a chain of that name is known.
    pub(super) fn has_chain(&self, name: &ChainName) -> bool {
        self.chains.contains(name)
    }

    /// The known chains of a table.
    pub(super) fn chains(&self, table: Table) -> impl Iterator<Item = &ChainName> {
        self.chains.iter().filter(move |name| name.table() == table)
    }

    /// Chains of a delta that hang elsewhere now.
    pub(super) fn moved(&self, delta: &Delta) -> BTreeSet<ChainName> {
        let moved = |name: &ChainName, base: Option<BaseChain>| self.hanging.get(name).is_some_and(|now| *now != base);
        delta.chains_set.iter().filter(|chain| moved(&chain.name, chain.base)).map(|chain| chain.name.clone()).collect()
    }

    /// Whether all elements suit their sets: prefixes in interval sets, anything else elsewhere; and what maps hold.
    pub(super) fn check_members(&self, delta: &Delta) -> Result<(), DataplaneError> {
        let new: BTreeMap<_, _> = delta.sets_added.iter().map(|decl| (&decl.name, &decl.kind)).collect();
        for change in &delta.elements {
            let known = new.get(&change.set).copied().or_else(|| self.kinds.get(&change.set));
            let Some(kind) = known.copied() else { continue };
            let prefix = |element: &Element| matches!(&*element.key, [Datum::Net(_)]);
            let suits = |element: &&Element| {
                prefix(element) == (kind == SetKind::Interval) && kind.takes(element.data.as_ref())
            };
            if let Some(element) = change.added.iter().find(|element| !suits(element)) {
                return Err(DataplaneError::Unwritable {
                    object: format!("element {element} of set {}", change.set),
                    detail: format!("such a set ({kind:?}) holds none of that kind"),
                });
            }
        }
        Ok(())
    }
}
