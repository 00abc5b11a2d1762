//! The index itself.

use alloc::vec::Vec;
use core::mem;

use super::class::{Classes, NONE};
use super::compiled::{Compiled, Labels};
use super::interner::Symbol;
use super::item::Items;
use super::key_index::KeyIndex;
use super::pair::Pairs;
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
    pairs: Pairs,
    classes: Classes,
    parents: Parents,
    names: KeyIndex,
    selectors: Slab<Compiled>,
    items: Items,
    new_selectors: Vec<u32>,
    new_classes: Vec<u32>,
    changed_parents: Vec<u32>,
    moved: Vec<u32>,
    content: Vec<u32>,
}

impl Index {
    /// Adds a selector; it matches nothing before the next settling.
    pub fn add_selector(&mut self, selector: &Selector) -> u32 {
        let compiled = Compiled::new(selector, &mut self.pairs.strings);
        self.names.reserve(&compiled.anchor);
        let key = self.selectors.insert(compiled);
        self.new_selectors.push(key);
        key
    }

    /// Removes a selector with all its matches.
    pub fn remove_selector(&mut self, key: u32) {
        let Some(compiled) = self.selectors.remove(key) else { return };
        if compiled.settled {
            let candidates = self.names.classes_for(&compiled.anchor);
            for class in candidates.unwrap_or_else(|| self.evaluated_classes()) {
                let Some(class) = self.classes.get_mut(class) else { continue };
                if class.matching.binary_search(&key).is_ok() {
                    class.matching = class.matching.iter().copied().filter(|other| *other != key).collect();
                }
            }
        }
        self.names.remove_selector(key, &compiled.anchor);
        compiled.release(&mut self.pairs.strings);
    }

    /// Adds an item; it matches nothing before the next settling.
    pub fn add_item<'a>(
        &mut self,
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
        parents: impl IntoIterator<Item = &'a str>,
    ) -> u32 {
        let class = self.class_of(labels, parents);
        let key = self.items.insert(class);
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
        let Some(item) = self.items.get(key).copied() else { return };
        if item.reported != item.current {
            self.release_class(item.current);
        }
        self.leave(key, item.reported);
        self.items.remove(key);
    }

    /// Selectors that an item has been reported to match, sorted.
    pub fn matching(&self, item: u32) -> &[u32] {
        let class = self.items.get(item).and_then(|item| self.classes.get(item.reported));
        class.map_or(&[], |class| &class.matching)
    }

    /// Sets the labels that a parent hands down; `None` when it does not exist.
    pub fn set_parent<'a>(&mut self, name: &str, labels: Option<impl IntoIterator<Item = (&'a str, &'a str)>>) {
        let labels = labels.map(|labels| {
            let mut pairs = Vec::new();
            self.pairs.acquire_all(labels, &mut pairs);
            pairs.into_boxed_slice()
        });
        let key = self.parent_of(name);
        match self.parents.pending.insert(key, labels) {
            Some(former) => self.pairs.release_all(former.unwrap_or_default()),
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
        let mut labels = Vec::new();
        for class in &affected {
            self.effective(*class, &mut labels);
            self.names.unpost(*class, &labels);
        }
        for key in changed {
            let Some(new) = self.parents.pending.remove(&key) else { continue };
            let Some(parent) = self.parents.slab.get_mut(key) else { continue };
            let former = mem::replace(&mut parent.labels, new);
            self.pairs.release_all(former.unwrap_or_default());
            self.forget_parent(key);
        }
        for key in affected {
            self.effective(key, &mut labels);
            self.names.post(key, &labels);
            let matching = self.evaluate(&labels);
            let Some(class) = self.classes.get_mut(key) else { continue };
            let former = mem::replace(&mut class.matching, matching.into());
            for item in self.items.of(class) {
                report_difference(item, &former, &class.matching, report);
            }
        }
    }

    /// One pass over the distinct label sets for all names that selectors began to use.
    fn complete_names(&mut self) {
        if !self.names.is_incomplete() {
            return;
        }
        let mut labels = Vec::new();
        for (key, class) in self.classes.iter().filter(|(_, class)| class.evaluated) {
            self.parents.effective(class, &self.pairs, &mut labels);
            self.names.complete_with(key, &labels);
        }
        self.names.completed();
    }

    fn settle_new_classes(&mut self) {
        let mut labels = Vec::new();
        for key in mem::take(&mut self.new_classes) {
            if self.classes.get(key).is_none_or(|class| class.evaluated) {
                continue;
            }
            self.effective(key, &mut labels);
            self.names.post(key, &labels);
            let matching = self.evaluate(&labels);
            if let Some(class) = self.classes.get_mut(key) {
                class.matching = matching.into();
                class.evaluated = true;
            }
        }
    }

    fn settle_new_selectors(&mut self, report: &mut impl FnMut(Match)) {
        let mut labels = Vec::new();
        for key in mem::take(&mut self.new_selectors) {
            // It may be gone, or stand in the list twice because its key was used again.
            let Some(selector) = self.selectors.get_mut(key).filter(|selector| !selector.settled) else { continue };
            selector.settled = true;
            let Some(selector) = self.selectors.get(key) else { continue };
            self.names.add_selector(key, &selector.anchor);
            let candidates = self.names.classes_for(&selector.anchor);
            for class in candidates.unwrap_or_else(|| self.evaluated_classes()) {
                let Some(class) = self.classes.get_mut(class) else { continue };
                self.parents.effective(class, &self.pairs, &mut labels);
                if !selector.matches(&labels, &self.pairs.strings) {
                    continue;
                }
                if let Err(position) = class.matching.binary_search(&key) {
                    let mut matching = mem::take(&mut class.matching).into_vec();
                    matching.insert(position, key);
                    class.matching = matching.into();
                    self.items.of(class).for_each(|item| report(Match { selector: key, item, started: true }));
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
            self.leave(key, item.reported);
            if let Some(class) = self.classes.get_mut(item.current) {
                self.items.link(key, class);
            }
            if let Some(item) = self.items.get_mut(key) {
                item.reported = item.current;
            }
        }
    }

    /// Takes an item out of its reported class.
    fn leave(&mut self, item: u32, reported: u32) {
        let Some(class) = self.classes.get_mut(reported) else { return };
        self.items.unlink(item, class);
        self.release_class(reported);
    }

    fn evaluate(&self, labels: &Labels) -> Vec<u32> {
        let mut matching = Vec::new();
        self.names.selectors_for(labels, &mut matching);
        matching.retain(|key| self.selectors.get(*key).is_some_and(|one| one.matches(labels, &self.pairs.strings)));
        matching.sort_unstable();
        matching
    }

    fn effective(&self, class: u32, out: &mut Vec<(Symbol, Symbol)>) {
        out.clear();
        if let Some(class) = self.classes.get(class) {
            self.parents.effective(class, &self.pairs, out);
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
        let mut own = Vec::new();
        self.pairs.acquire_all(labels, &mut own);
        let mut content = mem::take(&mut self.content);
        content.extend(own.iter().map(|pair| pair.raw()));
        content.extend(parents.into_iter().map(|name| self.parent_of(name)));
        let length = u32::try_from(own.len()).unwrap_or(NONE);
        let key = match self.classes.find(&content, length) {
            Some(key) => {
                self.pairs.release_all(own);
                key
            }
            None => {
                let key = self.classes.insert(&content, length);
                for parent in content.iter().skip(own.len()) {
                    if let Some(parent) = self.parents.slab.get_mut(*parent) {
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
        content.clear();
        self.content = content;
        key
    }

    /// Gives one hold of a class up; the last one forgets it.
    fn release_class(&mut self, key: u32) {
        let Some(class) = self.classes.get_mut(key) else { return };
        class.references -= 1;
        if class.references > 0 {
            return;
        }
        let mut labels = Vec::new();
        self.effective(key, &mut labels);
        let Some(class) = self.classes.remove(key) else { return };
        if class.evaluated {
            self.names.unpost(key, &labels);
        }
        self.pairs.release_all(class.own());
        for parent in class.parents() {
            if let Some(parent) = self.parents.slab.get_mut(*parent) {
                parent.classes.remove(key);
            }
            self.forget_parent(*parent);
        }
    }

    fn parent_of(&mut self, name: &str) -> u32 {
        let name = self.pairs.strings.acquire(name);
        let (key, new) = self.parents.intern(name);
        if !new {
            self.pairs.strings.release(name);
        }
        key
    }

    fn forget_parent(&mut self, key: u32) {
        if let Some(name) = self.parents.forget_unused(key) {
            self.pairs.strings.release(name);
        }
    }

    /// Strings, classes and items that are held: zero of each once everything is removed.
    #[cfg(test)]
    pub(super) fn held(&self) -> (usize, usize, usize) {
        (self.pairs.strings.len(), self.classes.iter().count(), self.items.count())
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
