use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use std::vec;

use proptest::prelude::*;

use super::*;
use crate::selector::{Inherited, Selector};

type Map = BTreeMap<String, String>;

/// One step of a random history over a few names, so that steps meet.
#[derive(Debug, Clone)]
enum Step {
    AddSelector(usize),
    RemoveSelector(usize),
    SetItem(u8, Map, Vec<u8>),
    RemoveItem(u8),
    SetParent(u8, Option<Map>),
    Settle,
}

const SELECTORS: [&str; 16] = [
    "all()",
    "a == 'x'",
    "a == 'y' && has(b)",
    "a in {'x', 'y'} && !has(c)",
    "has(b)",
    "!has(b)",
    "b != 'x'",
    "c not in {'x', 'z'}",
    "c contains 'z'",
    "has(a) && !has(a)",
    "a starts with 'x' || b ends with 'y'",
    "a == 'x' || a == 'z'",
    "!(a == 'x' && b == 'x')",
    "d == 'x' && d in {'x', 'y'}",
    "has(d) || has(c)",
    "d == 'x'",
];

fn labels() -> impl Strategy<Value = Map> {
    let name = prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(String::from);
    let value = prop::sample::select(vec!["x", "y", "xz", "z"]).prop_map(String::from);
    prop::collection::btree_map(name, value, 0..4)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..SELECTORS.len()).prop_map(Step::AddSelector),
        2 => (0..SELECTORS.len()).prop_map(Step::RemoveSelector),
        6 => (0..8u8, labels(), prop::collection::vec(0..4u8, 0..3)).prop_map(|(item, labels, parents)| Step::SetItem(item, labels, parents)),
        2 => (0..8u8).prop_map(Step::RemoveItem),
        3 => (0..4u8, prop::option::weighted(0.7, labels())).prop_map(|(parent, labels)| Step::SetParent(parent, labels)),
        3 => Just(Step::Settle),
    ]
}

/// The index under test, and beside it the plain state that a naive answer is computed from.
#[derive(Default)]
struct Pair {
    index: Index,
    matches: BTreeSet<(u32, u32)>,
    selectors: BTreeMap<usize, u32>,
    items: BTreeMap<u8, (u32, Map, Vec<u8>)>,
    parents: BTreeMap<u8, Map>,
}

fn pairs(map: &Map) -> impl Iterator<Item = (&str, &str)> {
    map.iter().map(|(name, value)| (name.as_str(), value.as_str()))
}

impl Pair {
    fn take(&mut self, step: Step) {
        match step {
            Step::AddSelector(which) => {
                let Self { selectors, index, .. } = self;
                selectors
                    .entry(which)
                    .or_insert_with(|| index.add_selector(&Selector::parse(SELECTORS[which]).unwrap()));
            }
            Step::RemoveSelector(which) => {
                if let Some(key) = self.selectors.remove(&which) {
                    self.index.remove_selector(key);
                    self.matches.retain(|(selector, _)| *selector != key);
                }
            }
            Step::SetItem(item, labels, parents) => {
                let names: Vec<String> = parents.iter().map(u8::to_string).collect();
                let names = names.iter().map(String::as_str);
                let key = match self.items.get(&item) {
                    Some((key, ..)) => {
                        self.index.change_item(*key, pairs(&labels), names);
                        *key
                    }
                    None => self.index.add_item(pairs(&labels), names),
                };
                self.items.insert(item, (key, labels, parents));
            }
            Step::RemoveItem(item) => {
                if let Some((key, ..)) = self.items.remove(&item) {
                    for selector in self.index.matching(key).to_vec() {
                        assert!(self.matches.remove(&(selector, key)), "matching() names what was reported");
                    }
                    assert!(
                        !self.matches.iter().any(|(_, item)| *item == key),
                        "matching() names all that was reported"
                    );
                    self.index.remove_item(key);
                }
            }
            Step::SetParent(parent, labels) => {
                self.index.set_parent(&parent.to_string().into(), labels.as_ref().map(pairs));
                match labels {
                    Some(labels) => self.parents.insert(parent, labels),
                    None => self.parents.remove(&parent),
                };
            }
            Step::Settle => self.settle(),
        }
    }

    fn settle(&mut self) {
        let matches = &mut self.matches;
        self.index.settle(|one| {
            let pair = (one.selector, one.item);
            let changed = if one.started { matches.insert(pair) } else { matches.remove(&pair) };
            assert!(changed, "reported twice: {one:?}");
        });
        let mut expected = BTreeSet::new();
        for (which, selector) in &self.selectors {
            let parsed = Selector::parse(SELECTORS[*which]).unwrap();
            for (item, own, parents) in self.items.values() {
                let parents: Vec<&Map> = parents.iter().filter_map(|parent| self.parents.get(parent)).collect();
                if parsed.matches(&Inherited { own, parents: &parents }) {
                    expected.insert((*selector, *item));
                }
            }
        }
        assert_eq!(self.matches, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn agrees_with_evaluating_everything(steps in prop::collection::vec(step(), 1..80)) {
        // Which labels items have in common with their kin is nobody's concern.
        let mut pair = Pair { index: Index::with_common(&["c", "nowhere"]), ..Pair::default() };
        for step in steps {
            pair.take(step);
        }
        pair.settle();
        (0..SELECTORS.len()).for_each(|which| pair.take(Step::RemoveSelector(which)));
        (0..8).for_each(|item| pair.take(Step::RemoveItem(item)));
        (0..4).for_each(|parent| pair.take(Step::SetParent(parent, None)));
        pair.settle();
        prop_assert_eq!(pair.index.held(), [0; 6], "something is held for ever");
    }
}

#[test]
fn items_with_equal_labels_are_one_class() {
    let mut index = Index::default();
    for _ in 0..100 {
        index.add_item([("app", "web"), ("tier", "front")], ["kns.default"]);
    }
    index.settle(|_| ());
    assert_eq!(index.held()[2], 1);
}

#[test]
fn a_change_that_is_undone_before_settling_is_not_reported() {
    let mut index = Index::default();
    index.add_selector(&Selector::parse("app == 'web'").unwrap());
    let item = index.add_item([("app", "web")], []);
    let mut first = Vec::new();
    index.settle(|one| first.push(one));
    assert_eq!(first.len(), 1);
    index.change_item(item, [("app", "db")], []);
    index.change_item(item, [("app", "web")], []);
    index.settle(|one| panic!("{one:?}"));
}
