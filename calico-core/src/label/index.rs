//! The index itself.

use alloc::vec::Vec;
use core::mem;

use super::class::Classes;
use super::compiled::{Compiled, Pairs};
use super::interner::{Interner, Symbol};
use super::key_index::KeyIndex;
use super::parent::Parents;
use super::slab::Slab;
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
/// Cost of a change: the labels of the item, plus the selectors that one of its labels makes candidates. Items with equal own
/// labels and parents are evaluated once. A selector on a label name that no other selector uses costs one pass over the
/// distinct label sets, shared by all that come in one settling.
#[derive(Debug, Default)]
pub struct Index {
    strings: Interner,
    classes: Classes,
    parents: Parents,
    names: KeyIndex,
    selectors: Slab<Compiled>,
    items: Slab<Item>,
    new_selectors: Vec<u32>,
    new_classes: Vec<u32>,
    changed_parents: Vec<u32>,
    moved: Vec<u32>,
}

/// An item's class as reported and as it is.
#[derive(Debug, Clone, Copy)]
struct Item {
    reported: u32,
    position: u32,
    current: u32,
}

/// No class.
const NONE: u32 = u32::MAX;

impl Index {
    /// Adds a selector; it matches nothing before the next settling.
    pub fn add_selector(&mut self, selector: &Selector) -> u32 {
        let compiled = Compiled::new(selector, &mut self.strings);
        self.names.reserve(&compiled.anchor);
        let key = self.selectors.insert(compiled);
        self.new_selectors.push(key);
        key
    }

    /// Removes a selector with all its matches.
    pub fn remove_selector(&mut self, key: u32) {
        let Some(compiled) = self.selectors.remove(key) else { return };
        let pending = self.new_selectors.iter().position(|other| *other == key);
        match pending {
            Some(position) => {
                self.new_selectors.swap_remove(position);
            }
            None => {
                let candidates = self.names.classes_for(&compiled.anchor);
                for class in candidates.unwrap_or_else(|| self.evaluated_classes()) {
                    let Some(class) = self.classes.get_mut(class) else { continue };
                    if let Ok(position) = class.matching.binary_search(&key) {
                        class.matching.remove(position);
                    }
                }
            }
        }
        self.names.remove_selector(key, &compiled.anchor);
        compiled.release(&mut self.strings);
    }

    /// Adds an item; it matches nothing before the next settling.
    pub fn add_item<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        parents: impl IntoIterator<Item = &'a str>,
    ) -> u32 {
        let class = self.class_of(labels, parents);
        let key = self.items.insert(Item { reported: NONE, position: 0, current: class });
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
        let class = self.class_of(labels, parents);
        let Some(item) = self.items.get_mut(key) else { return self.release_class(class) };
        let former = mem::replace(&mut item.current, class);
        // The reported class keeps its hold until the next settling; every other class that was left, or entered twice, goes.
        match (former == item.reported, class == item.reported) {
            (true, true) => self.release_class(class),
            (true, false) => self.moved.push(key),
            (false, true) => {
                self.release_class(former);
                self.release_class(class);
            }
            (false, false) => self.release_class(former),
        }
    }

    /// Removes an item with all its matches.
    pub fn remove_item(&mut self, key: u32) {
        let Some(item) = self.items.remove(key) else { return };
        if item.reported != item.current {
            self.release_class(item.current);
        }
        self.leave(item);
    }

    /// Selectors that an item has been reported to match, sorted.
    pub fn matching(&self, item: u32) -> &[u32] {
        let class = self.items.get(item).and_then(|item| self.classes.get(item.reported));
        class.map_or(&[], |class| &class.matching)
    }

    /// Sets the labels that a parent hands down; `None` when it does not exist.
    pub fn set_parent<'a>(&mut self, name: &str, labels: Option<impl IntoIterator<Item = (&'a str, &'a str)>>) {
        let labels = labels.map(|labels| self.intern_labels(labels).into());
        let key = self.parent_of(name);
        let Some(parent) = self.parents.slab.get_mut(key) else { return };
        match parent.pending.replace(labels) {
            Some(former) => self.release_labels(former.as_deref().unwrap_or_default()),
            None => self.changed_parents.push(key),
        }
    }

    /// Works out all changes and reports what they started and stopped.
    pub fn settle(&mut self, mut report: impl FnMut(Match)) {
        self.settle_parents(&mut report);
        self.complete_names();
        self.settle_new_classes();
        self.settle_new_selectors(&mut report);
        self.settle_items(&mut report);
    }

    fn settle_parents(&mut self, report: &mut impl FnMut(Match)) {
        let changed = mem::take(&mut self.changed_parents);
        let mut affected: Vec<u32> = changed
            .iter()
            .filter_map(|key| self.parents.slab.get(*key))
            .flat_map(|parent| parent.classes.iter())
            .collect();
        affected.sort_unstable();
        affected.dedup();
        affected.retain(|class| self.classes.get(*class).is_some_and(|class| class.evaluated));
        let mut pairs = Vec::new();
        for class in &affected {
            self.effective(*class, &mut pairs);
            self.names.unpost(*class, &pairs);
        }
        for key in changed {
            let Some(parent) = self.parents.slab.get_mut(key) else { continue };
            let Some(labels) = parent.pending.take() else { continue };
            let former = mem::replace(&mut parent.labels, labels);
            self.release_labels(former.as_deref().unwrap_or_default());
            self.forget_parent(key);
        }
        for key in affected {
            self.effective(key, &mut pairs);
            self.names.post(key, &pairs);
            let matching = self.evaluate(&pairs);
            let Some(class) = self.classes.get_mut(key) else { continue };
            let former = mem::replace(&mut class.matching, matching);
            for item in &class.items {
                report_difference(*item, &former, &class.matching, report);
            }
        }
    }

    /// One pass over the distinct label sets for all names that selectors began to use.
    fn complete_names(&mut self) {
        if !self.names.is_incomplete() {
            return;
        }
        let mut pairs = Vec::new();
        for (key, class) in self.classes.iter().filter(|(_, class)| class.evaluated) {
            self.parents.effective(&class.own, &class.parents, &mut pairs);
            self.names.complete_with(key, &pairs);
        }
        self.names.completed();
    }

    fn settle_new_classes(&mut self) {
        let mut pairs = Vec::new();
        for key in mem::take(&mut self.new_classes) {
            if self.classes.get(key).is_none_or(|class| class.evaluated) {
                continue;
            }
            self.effective(key, &mut pairs);
            self.names.post(key, &pairs);
            let matching = self.evaluate(&pairs);
            if let Some(class) = self.classes.get_mut(key) {
                class.matching = matching;
                class.evaluated = true;
            }
        }
    }

    fn settle_new_selectors(&mut self, report: &mut impl FnMut(Match)) {
        let mut pairs = Vec::new();
        for key in mem::take(&mut self.new_selectors) {
            let Some(selector) = self.selectors.get(key) else { continue };
            self.names.add_selector(key, &selector.anchor);
            let candidates = self.names.classes_for(&selector.anchor);
            for class in candidates.unwrap_or_else(|| self.evaluated_classes()) {
                let Some(class) = self.classes.get_mut(class) else { continue };
                self.parents.effective(&class.own, &class.parents, &mut pairs);
                if !selector.matches(&pairs, &self.strings) {
                    continue;
                }
                if let Err(position) = class.matching.binary_search(&key) {
                    class.matching.insert(position, key);
                    class.items.iter().for_each(|item| report(Match { selector: key, item: *item, started: true }));
                }
            }
        }
    }

    fn settle_items(&mut self, report: &mut impl FnMut(Match)) {
        for key in mem::take(&mut self.moved) {
            let Some(item) = self.items.get(key).copied() else { continue };
            // It went back, or stands in the list twice.
            if item.reported == item.current {
                continue;
            }
            let matching = |class: u32| self.classes.get(class).map_or(&[][..], |class| &class.matching);
            report_difference(key, matching(item.reported), matching(item.current), report);
            self.leave(item);
            let Some(class) = self.classes.get_mut(item.current) else { continue };
            let position = u32::try_from(class.items.len()).unwrap_or(NONE);
            class.items.push(key);
            if let Some(item) = self.items.get_mut(key) {
                *item = Item { reported: item.current, position, current: item.current };
            }
        }
    }

    /// Takes an item out of its reported class.
    fn leave(&mut self, item: Item) {
        let Some(class) = self.classes.get_mut(item.reported) else { return };
        class.items.swap_remove(item.position as usize);
        let filler = class.items.get(item.position as usize).copied();
        if let Some(filler) = filler.and_then(|filler| self.items.get_mut(filler)) {
            filler.position = item.position;
        }
        self.release_class(item.reported);
    }

    fn evaluate(&self, pairs: &Pairs) -> Vec<u32> {
        let mut matching = Vec::new();
        self.names.selectors_for(pairs, &mut matching);
        matching.retain(|key| self.selectors.get(*key).is_some_and(|one| one.matches(pairs, &self.strings)));
        matching.sort_unstable();
        matching.shrink_to_fit();
        matching
    }

    fn effective(&self, class: u32, out: &mut Vec<(Symbol, Symbol)>) {
        out.clear();
        if let Some(class) = self.classes.get(class) {
            self.parents.effective(&class.own, &class.parents, out);
        }
    }

    fn evaluated_classes(&self) -> Vec<u32> {
        self.classes.iter().filter(|(_, class)| class.evaluated).map(|(key, _)| key).collect()
    }

    /// The class of such items, held once more.
    fn class_of<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        parents: impl IntoIterator<Item = &'a str>,
    ) -> u32 {
        let own = self.intern_labels(labels);
        let parents: Vec<u32> = parents.into_iter().map(|name| self.parent_of(name)).collect();
        let key = match self.classes.find(&own, &parents) {
            Some(key) => {
                self.release_labels(&own);
                key
            }
            None => {
                let key = self.classes.insert(&own, &parents);
                for parent in parents {
                    if let Some(parent) = self.parents.slab.get_mut(parent) {
                        parent.classes.insert(key);
                    }
                }
                self.new_classes.push(key);
                key
            }
        };
        if let Some(class) = self.classes.get_mut(key) {
            class.references += 1;
        }
        key
    }

    /// Gives one hold of a class up; the last one forgets it.
    fn release_class(&mut self, key: u32) {
        let Some(class) = self.classes.get_mut(key) else { return };
        class.references -= 1;
        if class.references > 0 {
            return;
        }
        let mut pairs = Vec::new();
        self.effective(key, &mut pairs);
        let Some(class) = self.classes.remove(key) else { return };
        if class.evaluated {
            self.names.unpost(key, &pairs);
        }
        self.release_labels(&class.own);
        for parent in &class.parents {
            if let Some(parent) = self.parents.slab.get_mut(*parent) {
                parent.classes.remove(key);
            }
            self.forget_parent(*parent);
        }
    }

    fn parent_of(&mut self, name: &str) -> u32 {
        let name = self.strings.acquire(name);
        let (key, new) = self.parents.intern(name);
        if !new {
            self.strings.release(name);
        }
        key
    }

    fn forget_parent(&mut self, key: u32) {
        if let Some(name) = self.parents.forget_unused(key) {
            self.strings.release(name);
        }
    }

    fn intern_labels<'a>(&mut self, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<(Symbol, Symbol)> {
        let intern = |(name, value)| (self.strings.acquire(name), self.strings.acquire(value));
        let mut pairs: Vec<_> = labels.into_iter().map(intern).collect();
        pairs.sort_unstable();
        pairs
    }

    fn release_labels(&mut self, pairs: &Pairs) {
        for (name, value) in pairs {
            self.strings.release(*name);
            self.strings.release(*value);
        }
    }

    /// Strings, classes and items that are held: zero of each once everything is removed.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize, usize) {
        (self.strings.len(), self.classes.iter().count(), self.items.iter().count())
    }
}

/// Merges two sorted lists of selectors and reports what only one of them has.
fn report_difference(item: u32, former: &[u32], current: &[u32], report: &mut impl FnMut(Match)) {
    let mut former = former.iter().copied().peekable();
    let mut current = current.iter().copied().peekable();
    loop {
        let (selector, started) = match (former.peek().copied(), current.peek().copied()) {
            (Some(old), Some(new)) if old == new => {
                former.next();
                current.next();
                continue;
            }
            (Some(old), Some(new)) if new < old => (new, true),
            (Some(old), _) => (old, false),
            (None, Some(new)) => (new, true),
            (None, None) => return,
        };
        if started {
            current.next()
        } else {
            former.next()
        };
        report(Match { selector, item, started });
    }
}
