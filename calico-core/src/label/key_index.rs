//! What selectors use of labels, and by that: the label sets and classes that have it, and the selectors that demand it.
//!
//! A name is indexed only while a selector uses it. Everything else about labels is invisible here.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hash::{BuildHasher as _, Hash};
use core::mem;

use hashbrown::{DefaultHashBuilder, HashMap};

use super::compiled::{Anchor, Compiled, Use};
use super::id_set::IdSet;
use super::interner::Symbol;
use super::raw;
use super::strings::{Label, Strings};

/// What is known of one label name.
#[derive(Debug, Default)]
struct Name {
    /// Conditions that use the name; it leaves the index with the last.
    references: u32,
    /// Those among them that look into the value: all values are told apart while there is one.
    textual: u32,
    /// Whether all holders and classes have been posted under it.
    complete: bool,
    /// Selectors that demand the name, whatever its value.
    present: IdSet,
    /// Values that selectors mention.
    values: HashMap<Symbol, Value>,
    /// Classes by value.
    classes: HashMap<Symbol, IdSet>,
    /// Who holds labels of that name, by a hash of the value.
    holders: HashMap<u32, IdSet>,
}

/// A value that selectors mention.
#[derive(Debug, Default)]
struct Value {
    /// Conditions that mention it.
    references: u32,
    /// Selectors that demand it.
    selectors: IdSet,
}

/// What selectors have begun to see since this was last asked.
#[derive(Debug, Default)]
pub(super) struct Sights {
    names: Vec<Symbol>,
    values: Vec<(Symbol, Symbol)>,
    textual: Vec<Symbol>,
}

/// The index.
#[derive(Debug, Default)]
pub(super) struct KeyIndex {
    /// By the name's symbol.
    names: Vec<Option<Box<Name>>>,
    /// Selectors without an anchor: candidates for every class.
    unanchored: IdSet,
    new: Sights,
    hasher: DefaultHashBuilder,
}

impl KeyIndex {
    /// Takes note of what a selector uses. What is new about that must be looked for ([`Self::take_new`]) before the selector can be
    /// looked up.
    pub(super) fn reserve(&mut self, selector: &Compiled) {
        selector.visit(&mut |one| self.begin(one));
    }

    fn begin(&mut self, one: Use) {
        let name = one.name();
        let at = name.raw() as usize;
        if self.names.len() <= at {
            self.names.resize_with(at + 1, || None);
        }
        let Some(slot) = self.names.get_mut(at) else { return };
        let entry = slot.get_or_insert_default();
        entry.references += 1;
        if entry.references == 1 {
            self.new.names.push(name);
        }
        match one {
            Use::Name(_) => {}
            Use::Value(_, value) => {
                let wanted = entry.values.entry(value).or_default();
                wanted.references += 1;
                if wanted.references == 1 {
                    self.new.values.push((name, value));
                }
            }
            Use::Text(_) => {
                entry.textual += 1;
                if entry.textual == 1 {
                    self.new.textual.push(name);
                }
            }
        }
    }

    /// What selectors see of a label: nothing if they do not use its name. The symbol is held once more.
    pub(super) fn see(&self, name: Symbol, value: &str, strings: &mut Strings) -> Option<Symbol> {
        let entry = self.name(name)?;
        if entry.textual > 0 {
            return Some(strings.values.acquire(value));
        }
        let found = strings.values.find(value).filter(|value| entry.values.contains_key(value));
        found.into_iter().for_each(|value| strings.values.retain(value));
        Some(found.unwrap_or(Symbol::OTHER))
    }

    /// What selectors began to use since the last call.
    pub(super) fn take_new(&mut self) -> Sights {
        mem::take(&mut self.new)
    }

    /// Whether a label's name still lacks its holders and classes.
    fn is_incomplete(&self, name: Symbol) -> bool {
        self.name(name).is_some_and(|entry| !entry.complete)
    }

    /// Posts holders under names that lack theirs; says which have such a name.
    pub(super) fn complete_with_holder(&mut self, holder: u32, labels: &[u8], concerned: &mut Vec<u32>) {
        let mut found = false;
        for (name, value) in raw::read(labels) {
            if self.is_incomplete(name) {
                self.add_holder(name, value, holder);
                found = true;
            }
        }
        concerned.extend(found.then_some(holder));
    }

    /// Posts a class under names that lack theirs.
    pub(super) fn complete_with_class(&mut self, class: u32, labels: &[Label]) {
        for (name, value) in labels {
            if self.is_incomplete(*name) {
                self.add_class(*name, *value, class);
            }
        }
    }

    /// Everything has been posted under new names. Says who holds labels that selectors see anew: `text` gives a value's text.
    pub(super) fn completed(&mut self, new: &Sights, strings: &Strings, concerned: &mut Vec<u32>) {
        // Of a name that is new all holders are concerned already.
        for (name, value) in &new.values {
            let hash = self.hash(strings.values.text(*value));
            let Some(entry) = self.name(*name).filter(|entry| entry.complete) else { continue };
            concerned.extend(entry.holders.get(&hash).into_iter().flat_map(IdSet::iter));
        }
        for name in &new.textual {
            let Some(entry) = self.name(*name).filter(|entry| entry.complete) else { continue };
            concerned.extend(entry.holders.values().flat_map(IdSet::iter));
        }
        for name in &new.names {
            if let Some(entry) = self.name_mut(*name) {
                entry.complete = true;
            }
        }
    }

    /// Posts a holder under the names that have theirs.
    pub(super) fn post_holder(&mut self, holder: u32, labels: &[u8]) {
        for (name, value) in raw::read(labels) {
            if self.name(name).is_some_and(|entry| entry.complete) {
                self.add_holder(name, value, holder);
            }
        }
    }

    pub(super) fn unpost_holder(&mut self, holder: u32, labels: &[u8]) {
        for (name, value) in raw::read(labels) {
            if self.name(name).is_none() {
                continue;
            }
            let hash = self.hash(value);
            let Some(entry) = self.name_mut(name) else { continue };
            remove_from(&mut entry.holders, hash, holder);
        }
    }

    /// Posts a class under the names that have theirs.
    pub(super) fn post_class(&mut self, class: u32, labels: &[Label]) {
        for (name, value) in labels {
            if self.name(*name).is_some_and(|entry| entry.complete) {
                self.add_class(*name, *value, class);
            }
        }
    }

    pub(super) fn unpost_class(&mut self, class: u32, labels: &[Label]) {
        for (name, value) in labels {
            let Some(entry) = self.name_mut(*name) else { continue };
            remove_from(&mut entry.classes, *value, class);
        }
    }

    /// Lets class changes find the selector from now on.
    pub(super) fn add_selector(&mut self, selector: u32, anchor: &Anchor) {
        if *anchor == Anchor::None {
            self.unanchored.insert(selector);
        }
        let Some(entry) = anchor.name().and_then(|name| self.name_mut(name)) else { return };
        if matches!(anchor, Anchor::Present(_)) {
            entry.present.insert(selector);
        }
        for value in anchor.values() {
            entry.values.entry(*value).or_default().selectors.insert(selector);
        }
    }

    /// Undoes [`Self::reserve`] and [`Self::add_selector`].
    pub(super) fn remove_selector(&mut self, key: u32, selector: &Compiled) {
        self.unanchored.remove(key);
        if let Some(entry) = selector.anchor.name().and_then(|name| self.name_mut(name)) {
            entry.present.remove(key);
            for value in selector.anchor.values() {
                if let Some(value) = entry.values.get_mut(value) {
                    value.selectors.remove(key);
                }
            }
        }
        selector.visit(&mut |one| self.end(one));
    }

    /// Undoes [`Self::begin`]. The name may stay among the new ones: looking for it then finds nothing.
    fn end(&mut self, one: Use) {
        let Some(slot) = self.names.get_mut(one.name().raw() as usize) else { return };
        let Some(entry) = slot else { return };
        entry.references -= 1;
        match one {
            Use::Name(_) => {}
            Use::Value(_, value) => {
                if let Some(wanted) = entry.values.get_mut(&value) {
                    wanted.references -= 1;
                    if wanted.references == 0 {
                        entry.values.remove(&value);
                    }
                }
            }
            Use::Text(_) => entry.textual -= 1,
        }
        if entry.references == 0 {
            *slot = None;
        }
    }

    /// Selectors that labels may satisfy.
    pub(super) fn selectors_for(&self, labels: &[Label], out: &mut Vec<u32>) {
        out.clear();
        out.extend(self.unanchored.iter());
        for (name, value) in labels {
            let Some(entry) = self.name(*name) else { continue };
            out.extend(entry.present.iter());
            out.extend(entry.values.get(value).into_iter().flat_map(|value| value.selectors.iter()));
        }
    }

    /// Classes that may satisfy an anchor; `None` means any.
    pub(super) fn classes_for(&self, anchor: &Anchor) -> Option<Vec<u32>> {
        if *anchor == Anchor::None {
            return None;
        }
        let Some(entry) = anchor.name().and_then(|name| self.name(name)) else { return Some(Vec::new()) };
        Some(match anchor {
            Anchor::Present(_) => entry.classes.values().flat_map(IdSet::iter).collect(),
            anchor => {
                anchor.values().iter().filter_map(|value| entry.classes.get(value)).flat_map(IdSet::iter).collect()
            }
        })
    }

    fn name(&self, name: Symbol) -> Option<&Name> {
        self.names.get(name.raw() as usize)?.as_deref()
    }

    fn name_mut(&mut self, name: Symbol) -> Option<&mut Name> {
        self.names.get_mut(name.raw() as usize)?.as_deref_mut()
    }

    fn add_holder(&mut self, name: Symbol, value: &str, holder: u32) {
        let hash = self.hash(value);
        let Some(entry) = self.name_mut(name) else { return };
        entry.holders.entry(hash).or_default().insert(holder);
    }

    fn add_class(&mut self, name: Symbol, value: Symbol, class: u32) {
        let Some(entry) = self.name_mut(name) else { return };
        entry.classes.entry(value).or_default().insert(class);
    }

    #[expect(clippy::cast_possible_truncation, reason = "a part of a hash is one")]
    fn hash(&self, value: &str) -> u32 {
        self.hasher.hash_one(value) as u32
    }
}

impl Sights {
    /// Whether some name lacks its holders and classes.
    pub(super) const fn names_any(&self) -> bool {
        !self.names.is_empty()
    }
}

fn remove_from<K: Hash + Eq>(map: &mut HashMap<K, IdSet>, key: K, id: u32) {
    let Some(ids) = map.get_mut(&key) else { return };
    ids.remove(id);
    if ids.is_empty() {
        map.remove(&key);
    }
}
