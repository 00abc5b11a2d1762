//! The index itself: taking changes in. They are worked out in `settle`.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use super::class::Class;
use super::compiled::Compiled;
use super::interner::{Interner, Symbol};
use super::item::{Items, List};
use super::key_index::KeyIndex;
use super::label_set::{Holder, Kin, Own};
use super::parent::Parents;
use super::projection::{Projections, UNKNOWN, overlay};
use super::raw;
use super::slab::Slab;
use super::store::{Content as _, Store};
use super::strings::Strings;
use crate::selector::Selector;

/// That an item began or ceased to match a selector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Match {
    /// Key of the selector.
    pub selector: u32,
    /// Key of the item.
    pub item: u32,
    /// Whether it matches now.
    pub started: bool,
}

/// Selectors against items, both under keys that the index gives out and uses again after removal.
///
/// Changes are taken in cheaply and worked out by [`Index::settle`], which reports every match that started or stopped since the
/// last settling, each once. Removals take effect at once and are *not* reported as stopped matches: whoever removes an item
/// asks for [`Index::matching`] first, and whoever removes a selector forgets all it collected for it.
///
/// Cost of a change: the labels of the item, plus the selectors that one of its labels makes candidates. Items of which selectors see
/// the same are evaluated once. A selector that mentions a value for the first time costs the label sets that have the value, and one
/// that uses a label name for the first time one pass over the distinct label sets, shared by all that come in one settling.
#[derive(Debug, Default)]
pub struct Index {
    pub(super) strings: Strings,
    pub(super) owns: Store<Own>,
    pub(super) kins: Store<Kin>,
    pub(super) parents: Parents,
    pub(super) projections: Projections,
    pub(super) classes: Store<Class>,
    pub(super) names: KeyIndex,
    pub(super) selectors: Slab<Compiled>,
    pub(super) items: Items,
    pub(super) new_selectors: Vec<u32>,
    pub(super) changed_parents: Vec<u32>,
    pub(super) moved: Vec<u32>,
    /// Names of labels that are of the kin.
    common: Vec<Symbol>,
    scratch: Scratch,
}

/// Room for what is written before it is known whether it is there already.
#[derive(Debug, Default)]
struct Scratch {
    own: Vec<u8>,
    common: Vec<u8>,
    parents: Vec<u32>,
    kin: Vec<u8>,
    /// Names of the labels that were taken in last, in their order: those of the next item are mostly the same.
    names: Vec<Symbol>,
    /// Names that nobody holds but whoever takes labels in.
    fresh: Vec<Symbol>,
}

impl Index {
    /// An index of items of which many have the labels of those names in common. That makes no difference but in memory.
    pub fn with_common(names: &[&str]) -> Self {
        let mut index = Self::default();
        index.common = names.iter().map(|name| index.strings.names.acquire(name)).collect();
        index
    }

    /// Adds a selector; it matches nothing before the next settling.
    pub fn add_selector(&mut self, selector: &Selector) -> u32 {
        let compiled = Compiled::new(selector, &mut self.strings);
        self.names.reserve(&compiled);
        let key = self.selectors.insert(compiled);
        self.new_selectors.push(key);
        key
    }

    /// Removes a selector with all its matches.
    pub fn remove_selector(&mut self, key: u32) {
        let Some(compiled) = self.selectors.remove(key) else { return };
        if compiled.settled {
            let candidates = self.names.classes_for(&compiled.anchor);
            for class in candidates.unwrap_or_else(|| self.all_classes()) {
                let Some(class) = self.classes.get_mut(class) else { continue };
                if class.matching.binary_search(&key).is_ok() {
                    class.matching = class.matching.iter().copied().filter(|other| *other != key).collect();
                }
            }
        }
        self.names.remove_selector(key, &compiled);
        compiled.release(&mut self.strings);
    }

    /// Adds an item; it matches nothing before the next settling.
    pub fn add_item<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        parents: impl IntoIterator<Item = &'a str>,
    ) -> u32 {
        let (own, kin) = self.take_in(labels, parents);
        let key = self.items.insert(own, kin);
        self.join(key, own, kin);
        self.moved.push(key);
        key
    }

    /// Changes an item's own labels and parents.
    pub fn change_item<'a>(
        &mut self,
        key: u32,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        parents: impl IntoIterator<Item = &'a str>,
    ) {
        let (own, kin) = self.take_in(labels, parents);
        let Some(item) = self.items.get_mut(key) else {
            self.release_own(own);
            return self.release_kin(kin);
        };
        let former = item.replace(own, kin);
        if former == (own, kin) {
            self.release_own(own);
            return self.release_kin(kin);
        }
        self.part(key, former.0, former.1);
        self.join(key, own, kin);
        self.moved.push(key);
    }

    /// Removes an item with all its matches.
    pub fn remove_item(&mut self, key: u32) {
        let Some(item) = self.items.get(key).copied() else { return };
        self.leave_class(key, item.class);
        self.part(key, item.own(), item.kin);
        self.items.remove(key);
    }

    /// Selectors that an item has been reported to match, sorted.
    pub fn matching(&self, item: u32) -> &[u32] {
        let class = self.items.get(item).and_then(|item| self.classes.get(item.class));
        class.map_or(&[], |class| &class.matching)
    }

    /// Sets the labels that a parent hands down; `None` when it does not exist.
    pub fn set_parent<'a>(&mut self, name: &Arc<str>, labels: Option<impl IntoIterator<Item = (&'a str, &'a str)>>) {
        let name = self.strings.names.acquire_shared(name);
        let key = self.parent_named(name);
        let labels = labels.map(|labels| {
            let raw = &mut self.scratch.own;
            raw.clear();
            labels.into_iter().for_each(|(name, value)| raw::write(raw, self.strings.names.acquire(name), value));
            raw.as_slice().into()
        });
        let Some(parent) = self.parents.slab.get_mut(key) else { return };
        let former = mem::replace(&mut parent.labels, labels).unwrap_or_default();
        if mem::replace(&mut parent.settled, false) {
            self.names.unpost_holder(Holder::Parent(key).raw(), &former);
            self.changed_parents.push(key);
        }
        raw::release(&former, &mut self.strings.names);
    }

    /// Raw labels and kin, each held once more.
    fn take_in<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        parents: impl IntoIterator<Item = &'a str>,
    ) -> (u32, u32) {
        let mut scratch = mem::take(&mut self.scratch);
        scratch.clear();
        for (position, (name, value)) in labels.into_iter().enumerate() {
            let name = scratch.name(position, name, &mut self.strings.names);
            let out = if self.common.contains(&name) { &mut scratch.common } else { &mut scratch.own };
            raw::write(out, name, value);
        }
        scratch.parents.extend(parents.into_iter().map(|name| self.parent_of(name)));
        raw::write_kin(&mut scratch.kin, &scratch.common, &scratch.parents);
        let (own, new) = self.owns.acquire_in_room(&scratch.own, |room| Own::new(&scratch.own, room));
        if new {
            raw::retain(&scratch.own, &mut self.strings.names);
        }
        let (kin, new) = self.kins.acquire(&scratch.kin, || Kin::new(&scratch.kin));
        if new {
            raw::retain(&scratch.common, &mut self.strings.names);
            scratch.parents.iter().for_each(|parent| self.parents.named_by(*parent, kin));
        }
        scratch.fresh.drain(..).for_each(|name| self.strings.names.release(name));
        self.scratch = scratch;
        (own, kin)
    }

    /// Puts an item into the lists of its labels and of its kin.
    fn join(&mut self, key: u32, own: u32, kin: u32) {
        if let Some(own) = self.owns.get_mut(own) {
            self.items.link(key, List::Own, &mut own.first);
        }
        if let Some(kin) = self.kins.get_mut(kin) {
            self.items.link(key, List::Kin, &mut kin.first);
        }
    }

    /// Undoes [`Self::join`] and [`Self::take_in`].
    fn part(&mut self, key: u32, own: u32, kin: u32) {
        if let Some(own) = self.owns.get_mut(own) {
            self.items.unlink(key, List::Own, &mut own.first);
        }
        if let Some(kin) = self.kins.get_mut(kin) {
            self.items.unlink(key, List::Kin, &mut kin.first);
        }
        self.release_own(own);
        self.release_kin(kin);
    }

    fn release_own(&mut self, key: u32) {
        let Some(own) = self.owns.release(key) else { return };
        let labels = own.said(self.owns.room());
        if own.projection != UNKNOWN {
            self.names.unpost_holder(Holder::Own(key).raw(), labels);
            self.projections.release(own.projection, &mut self.strings);
        }
        raw::release(labels, &mut self.strings.names);
        own.forget(self.owns.room_mut());
    }

    fn release_kin(&mut self, key: u32) {
        let Some(kin) = self.kins.release(key) else { return };
        if kin.projection != UNKNOWN {
            self.names.unpost_holder(Holder::Kin(key).raw(), kin.labels());
            self.projections.release(kin.projection, &mut self.strings);
        }
        raw::release(kin.labels(), &mut self.strings.names);
        for parent in kin.parents() {
            if let Some(parent) = self.parents.slab.get_mut(parent) {
                parent.kins.remove(key);
            }
            self.forget_parent(parent);
        }
    }

    /// Takes an item out of its class, and forgets the class with its last one.
    pub(super) fn leave_class(&mut self, item: u32, class: u32) {
        let Some(found) = self.classes.get_mut(class) else { return };
        self.items.unlink(item, List::Class, &mut found.first);
        let Some(Class { seen, .. }) = self.classes.release(class) else { return };
        let mut labels = Vec::new();
        overlay(self.projections.labels(seen.0), self.projections.labels(seen.1), &mut labels);
        self.names.unpost_class(class, &labels);
        self.projections.release(seen.0, &mut self.strings);
        self.projections.release(seen.1, &mut self.strings);
    }

    pub(super) fn all_classes(&self) -> Vec<u32> {
        self.classes.iter().map(|(key, _)| key).collect()
    }

    fn parent_of(&mut self, name: &str) -> u32 {
        let name = self.strings.names.acquire(name);
        self.parent_named(name)
    }

    /// The parent of that name, of which one hold is given away.
    fn parent_named(&mut self, name: Symbol) -> u32 {
        let (key, new) = self.parents.intern(name);
        if !new {
            self.strings.names.release(name);
        }
        key
    }

    pub(super) fn forget_parent(&mut self, key: u32) {
        let Some(name) = self.parents.forget_unused(key) else { return };
        self.strings.names.release(name);
    }

    /// Strings, classes, items, label sets and projections that are held: none once everything is removed.
    #[cfg(test)]
    pub(super) fn held(&self) -> [usize; 6] {
        [
            self.strings.names.len() - self.common.len(),
            self.strings.values.len(),
            self.classes.iter().count(),
            self.items.count(),
            self.owns.iter().count() + self.owns.room().held() + self.kins.iter().count(),
            self.projections.count(),
        ]
    }
}

impl Scratch {
    /// The symbol of the name at that position.
    fn name(&mut self, position: usize, name: &str, names: &mut Interner) -> Symbol {
        let last = self.names.get(position).copied().filter(|last| names.text(*last) == name);
        if let Some(symbol) = last.or_else(|| names.find(name)) {
            self.remember(position, symbol);
            return symbol;
        }
        let symbol = names.acquire(name);
        self.fresh.push(symbol);
        self.remember(position, symbol);
        symbol
    }

    fn remember(&mut self, position: usize, symbol: Symbol) {
        match self.names.get_mut(position) {
            Some(last) => *last = symbol,
            None => self.names.push(symbol),
        }
    }

    fn clear(&mut self) {
        self.own.clear();
        self.common.clear();
        self.parents.clear();
        self.kin.clear();
    }
}
