//! Working changes out.
//!
//! In this order, so that each match is reported once: what selectors see now of what is there; which items are thereby, or by a
//! change of their own, in another class; and what new selectors match.

use alloc::vec::Vec;
use core::mem;

use super::class::Class;
use super::index::{Index, Match};
use super::item::{List, NONE};
use super::label_set::Holder;
use super::projection::{UNKNOWN, overlay};
use super::store::Content as _;
use super::strings::Label;

impl Index {
    /// Works out all changes and reports what they started and stopped.
    pub fn settle(&mut self, mut report: impl FnMut(Match)) {
        let mut concerned = Vec::new();
        self.look_anew(&mut concerned);
        self.settle_holders(concerned);
        self.settle_items(&mut report);
        self.settle_new_selectors(&mut report);
    }

    /// Finds out who holds labels of which selectors see more than they did.
    fn look_anew(&mut self, concerned: &mut Vec<u32>) {
        let new = self.names.take_new();
        if new.names_any() {
            for (key, own) in self.owns.iter().filter(|(_, own)| own.projection != UNKNOWN) {
                self.names.complete_with_holder(Holder::Own(key).raw(), own.said(self.owns.room()), concerned);
            }
            for (key, kin) in self.kins.iter().filter(|(_, kin)| kin.projection != UNKNOWN) {
                self.names.complete_with_holder(Holder::Kin(key).raw(), kin.labels(), concerned);
            }
            for (key, parent) in self.parents.slab.iter().filter(|(_, parent)| parent.settled) {
                let labels = parent.labels.as_deref().unwrap_or_default();
                self.names.complete_with_holder(Holder::Parent(key).raw(), labels, concerned);
            }
            let mut labels = Vec::new();
            for (key, class) in self.classes.iter() {
                overlay(self.projections.labels(class.seen.0), self.projections.labels(class.seen.1), &mut labels);
                self.names.complete_with_class(key, &labels);
            }
        }
        self.names.completed(&new, &self.strings, concerned);
    }

    /// Projects those label sets anew that are concerned or changed; items of those whose projection changes are moved.
    fn settle_holders(&mut self, mut concerned: Vec<u32>) {
        concerned.sort_unstable();
        concerned.dedup();
        let mut kins = Vec::new();
        for holder in concerned {
            match Holder::from_raw(holder) {
                Holder::Own(key) => self.settle_own(key),
                Holder::Kin(key) => kins.push(key),
                Holder::Parent(key) => self.settle_parent(key, &mut kins),
            }
        }
        for key in mem::take(&mut self.changed_parents) {
            let Some(parent) = self.parents.slab.get_mut(key) else { continue };
            parent.settled = true;
            self.names.post_holder(Holder::Parent(key).raw(), parent.labels.as_deref().unwrap_or_default());
            self.settle_parent(key, &mut kins);
            self.forget_parent(key);
        }
        kins.sort_unstable();
        kins.dedup();
        for key in kins {
            // The first item that needs it projects a new kin.
            if self.kins.get(key).is_some_and(|kin| kin.projection != UNKNOWN) && self.settle_kin(key) {
                let first = self.kins.get(key).map_or(NONE, |kin| kin.first);
                self.moved.extend(self.items.of(List::Kin, first));
            }
        }
    }

    fn settle_own(&mut self, key: u32) {
        let Some(own) = self.owns.get(key) else { return };
        let (first, former) = (own.first, own.projection);
        let new = self.projections.project(own.said(self.owns.room()), &self.names, &mut self.strings);
        self.set_projection(key, new);
        self.projections.release(former, &mut self.strings);
        if former != new {
            self.moved.extend(self.items.of(List::Own, first));
        }
    }

    fn settle_parent(&mut self, key: u32, kins: &mut Vec<u32>) {
        let Some(parent) = self.parents.slab.get_mut(key).filter(|parent| parent.settled) else { return };
        let labels = parent.labels.as_deref();
        let new = labels.map(|labels| self.projections.project(labels, &self.names, &mut self.strings));
        let new = new.unwrap_or(UNKNOWN);
        let former = mem::replace(&mut parent.projection, new);
        self.projections.release(former, &mut self.strings);
        if former != new {
            kins.extend(parent.kins.iter());
        }
    }

    /// Says whether selectors see something else of it.
    fn settle_kin(&mut self, key: u32) -> bool {
        let Some(kin) = self.kins.get_mut(key) else { return false };
        let common = self.projections.project(kin.labels(), &self.names, &mut self.strings);
        let parents = kin.parents().filter_map(|parent| Some(self.parents.slab.get(parent)?.projection));
        let new = self.projections.merge([common].into_iter().chain(parents), &mut self.strings);
        self.projections.release(common, &mut self.strings);
        let former = mem::replace(&mut kin.projection, new);
        self.projections.release(former, &mut self.strings);
        former != new
    }

    fn settle_items(&mut self, report: &mut impl FnMut(Match)) {
        let mut labels = Vec::new();
        for key in mem::take(&mut self.moved) {
            let Some(item) = self.items.get(key).copied() else { continue };
            let seen = (self.seen_of_own(item.own()), self.seen_of_kin(item.kin));
            if self.classes.get(item.class).is_some_and(|class| class.seen == seen) {
                // It went back, or stands in the list twice.
                continue;
            }
            let class = self.class_of(seen, &mut labels);
            let matching = |class: u32| self.classes.get(class).map_or(&[][..], |class| &class.matching);
            report_difference(key, matching(item.class), matching(class), report);
            self.leave_class(key, item.class);
            if let Some(found) = self.classes.get_mut(class) {
                self.items.link(key, List::Class, &mut found.first);
            }
            if let Some(item) = self.items.get_mut(key) {
                item.class = class;
            }
        }
    }

    /// Projection of own labels, which are posted with their first item.
    fn seen_of_own(&mut self, key: u32) -> u32 {
        let Some(own) = self.owns.get(key) else { return UNKNOWN };
        if own.projection != UNKNOWN {
            return own.projection;
        }
        let labels = own.said(self.owns.room());
        self.names.post_holder(Holder::Own(key).raw(), labels);
        let projection = self.projections.project(labels, &self.names, &mut self.strings);
        self.set_projection(key, projection);
        projection
    }

    fn set_projection(&mut self, own: u32, projection: u32) {
        if let Some(own) = self.owns.get_mut(own) {
            own.projection = projection;
        }
    }

    /// Projection of a kin, which is posted with its first item.
    fn seen_of_kin(&mut self, key: u32) -> u32 {
        let Some(kin) = self.kins.get(key) else { return UNKNOWN };
        if kin.projection != UNKNOWN {
            return kin.projection;
        }
        self.names.post_holder(Holder::Kin(key).raw(), kin.labels());
        self.settle_kin(key);
        self.kins.get(key).map_or(UNKNOWN, |kin| kin.projection)
    }

    /// The class of items of which selectors see that, held once more.
    fn class_of(&mut self, seen: (u32, u32), labels: &mut Vec<Label>) -> u32 {
        let (key, new) = self.classes.acquire(&seen, || Class::new(seen));
        if new {
            self.projections.retain(seen.0);
            self.projections.retain(seen.1);
            overlay(self.projections.labels(seen.0), self.projections.labels(seen.1), labels);
            self.names.post_class(key, labels);
            let matching = self.evaluate(labels);
            if let Some(class) = self.classes.get_mut(key) {
                class.matching = matching.into();
            }
        }
        key
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
            for class in candidates.unwrap_or_else(|| self.all_classes()) {
                let Some(class) = self.classes.get_mut(class) else { continue };
                overlay(self.projections.labels(class.seen.0), self.projections.labels(class.seen.1), &mut labels);
                if !selector.matches(&labels, &self.strings) {
                    continue;
                }
                if let Err(position) = class.matching.binary_search(&key) {
                    let mut matching = mem::take(&mut class.matching).into_vec();
                    matching.insert(position, key);
                    class.matching = matching.into();
                    let items = self.items.of(List::Class, class.first);
                    items.for_each(|item| report(Match { selector: key, item, started: true }));
                }
            }
        }
    }

    fn evaluate(&self, labels: &[Label]) -> Vec<u32> {
        let mut matching = Vec::new();
        self.names.selectors_for(labels, &mut matching);
        matching.retain(|key| self.selectors.get(*key).is_some_and(|one| one.matches(labels, &self.strings)));
        matching.sort_unstable();
        matching
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
