//! Text that many objects have in common.
//!
//! The hundred thousands of endpoints of a large cluster say the same few hundred words: label keys, nodes, profiles, accounts. A
//! [`Text`] is two words long where it stands and its clones share what it says; a [`TextMap`] is a sorted list of them, a quarter of
//! a tree of the size of an object's labels. Who reads many objects lets [`Words`] make one of what is equal.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::borrow::Borrow;
use core::fmt;
use core::hash::BuildHasher;
use core::mem;
use core::ops::Deref;

use hashbrown::DefaultHashBuilder;
use serde::de::{self, MapAccess};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Text that does not change and is cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Text(Arc<str>);

impl Text {
    /// As a slice.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        text.as_str().into()
    }
}

impl From<Arc<str>> for Text {
    fn from(text: Arc<str>) -> Self {
        Self(text)
    }
}

impl From<Text> for String {
    fn from(text: Text) -> Self {
        (*text).into()
    }
}

impl From<Text> for Arc<str> {
    fn from(text: Text) -> Self {
        text.0
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl PartialEq<String> for Text {
    fn eq(&self, other: &String) -> bool {
        **self == **other
    }
}

impl PartialEq<Text> for str {
    fn eq(&self, other: &Text) -> bool {
        *self == **other
    }
}

impl PartialEq<Text> for &str {
    fn eq(&self, other: &Text) -> bool {
        **self == **other
    }
}

impl PartialEq<Text> for String {
    fn eq(&self, other: &Text) -> bool {
        **self == **other
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                // As for a `String`: what operators are told is made from it.
                f.write_str("a string")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text, E> {
                Ok(text.into())
            }
        }
        // Not `deserialize_string`: nobody needs a string of his own.
        deserializer.deserialize_str(Visitor)
    }
}

/// Text by name, sorted by name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TextMap(Box<[(Text, Text)]>);

impl TextMap {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts a value under a name; answers with the one that was there.
    pub fn insert(&mut self, name: Text, value: Text) -> Option<Text> {
        match self.position(&name) {
            Ok(at) => self.0.get_mut(at).map(|(_, old)| mem::replace(old, value)),
            Err(at) => {
                self.change(|pairs| pairs.insert(at, (name, value)));
                None
            }
        }
    }

    /// Takes a name out; answers with its value.
    pub fn remove(&mut self, name: &str) -> Option<Text> {
        let at = self.position(name).ok()?;
        Some(self.change(|pairs| pairs.remove(at)).1)
    }

    /// Keeps only what passes.
    pub fn retain(&mut self, mut keep: impl FnMut(&Text, &Text) -> bool) {
        self.change(|pairs| pairs.retain(|(name, value)| keep(name, value)));
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&Text> {
        let at = self.position(name).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// Whether there is such a name.
    pub fn contains_key(&self, name: &str) -> bool {
        self.position(name).is_ok()
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> Iter<'_> {
        Iter(self.0.iter())
    }

    /// The names, sorted.
    pub fn keys(&self) -> impl Iterator<Item = &Text> {
        self.0.iter().map(|(name, _)| name)
    }

    /// How many names there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn position(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(own, _)| (**own).cmp(name))
    }

    fn change<T>(&mut self, change: impl FnOnce(&mut Vec<(Text, Text)>) -> T) -> T {
        let mut pairs = mem::take(&mut self.0).into_vec();
        let result = change(&mut pairs);
        self.0 = pairs.into();
        result
    }
}

/// Names and values of a [`TextMap`].
#[derive(Debug, Clone)]
pub struct Iter<'a>(core::slice::Iter<'a, (Text, Text)>);

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a Text, &'a Text);

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(name, value)| (name, value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl<'a> IntoIterator for &'a TextMap {
    type Item = (&'a Text, &'a Text);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl IntoIterator for TextMap {
    type Item = (Text, Text);
    type IntoIter = alloc::vec::IntoIter<(Text, Text)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_vec().into_iter()
    }
}

/// Of a name that is there twice the last value counts.
impl FromIterator<(Text, Text)> for TextMap {
    fn from_iter<I: IntoIterator<Item = (Text, Text)>>(pairs: I) -> Self {
        let mut map = Self::new();
        map.extend(pairs);
        map
    }
}

impl Extend<(Text, Text)> for TextMap {
    fn extend<I: IntoIterator<Item = (Text, Text)>>(&mut self, further: I) {
        self.change(|pairs| {
            pairs.extend(further);
            pairs.sort_by(|(left, _), (right, _)| left.cmp(right));
            pairs.dedup_by(|later, earlier| {
                let is_same = later.0 == earlier.0;
                if is_same {
                    mem::swap(later, earlier);
                }
                is_same
            });
        });
    }
}

impl<const LENGTH: usize> From<[(Text, Text); LENGTH]> for TextMap {
    fn from(pairs: [(Text, Text); LENGTH]) -> Self {
        pairs.into_iter().collect()
    }
}

impl fmt::Debug for TextMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl Serialize for TextMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

impl<'de> Deserialize<'de> for TextMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = TextMap;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<TextMap, A::Error> {
                let mut pairs: Vec<(Text, Text)> = Vec::with_capacity(8);
                while let Some(pair) = access.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs.into_iter().collect())
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// Words that were said lately. It does not grow: a word may be forgotten, and is shared again from the next time on.
#[derive(Debug)]
pub struct Words {
    /// By hash.
    slots: Box<[Text]>,
    hasher: DefaultHashBuilder,
}

/// Enough for the words of a namespace and of a host, between which a listing does not leap.
const SLOTS: usize = 512;

/// Longer text is nobody else's, and would be kept for nothing.
const LONGEST: usize = 64;

impl Default for Words {
    fn default() -> Self {
        Self { slots: alloc::vec![Text::default(); SLOTS].into(), hasher: DefaultHashBuilder::default() }
    }
}

impl Words {
    /// Makes a text one with an equal one that was seen lately.
    pub fn share(&mut self, text: &mut Text) {
        if text.len() > LONGEST {
            return;
        }
        let place = self.hasher.hash_one(text.as_str()) % SLOTS as u64;
        let Some(slot) = usize::try_from(place).ok().and_then(|place| self.slots.get_mut(place)) else { return };
        if slot == text {
            text.clone_from(slot);
        } else {
            slot.clone_from(text);
        }
    }

    /// Names and values of a map.
    pub fn share_all(&mut self, map: &mut TextMap) {
        for (name, value) in &mut map.0 {
            self.share(name);
            self.share(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;
    use alloc::string::ToString;

    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Insert(String, String),
        Remove(String),
        Extend(Vec<(String, String)>),
        Retain(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let pair = || ("[a-e]{0,2}", "[a-c]{0,1}");
        prop_oneof![
            pair().prop_map(|(name, value)| Step::Insert(name, value)),
            "[a-e]{0,2}".prop_map(Step::Remove),
            prop::collection::vec(pair(), 0..6).prop_map(Step::Extend),
            (0..3_usize).prop_map(Step::Retain),
        ]
    }

    proptest! {
        #[test]
        fn a_map_is_what_a_tree_is(steps in prop::collection::vec(step(), 0..20)) {
            let (mut map, mut tree) = (TextMap::new(), BTreeMap::new());
            for step in steps {
                match step {
                    Step::Insert(name, value) => {
                        let old = map.insert(Text::from(&name), Text::from(&value)).map(String::from);
                        prop_assert_eq!(old, tree.insert(name, value));
                    }
                    Step::Remove(name) => prop_assert_eq!(map.remove(&name).map(String::from), tree.remove(&name)),
                    Step::Extend(pairs) => {
                        map.extend(pairs.iter().map(|(name, value)| (name.into(), value.into())));
                        tree.extend(pairs);
                    }
                    Step::Retain(length) => {
                        map.retain(|name, _| name.len() != length);
                        tree.retain(|name: &String, _| name.len() != length);
                    }
                }
                let shown = serde_json::to_string(&map).unwrap();
                prop_assert_eq!(&shown, &serde_json::to_string(&tree).unwrap());
                prop_assert_eq!(&serde_json::from_str::<TextMap>(&shown).unwrap(), &map);
                for name in ["", "a", "b", "ab", "x"] {
                    prop_assert_eq!(map.get(name).map(ToString::to_string), tree.get(name).cloned());
                    prop_assert_eq!(map.contains_key(name), tree.contains_key(name));
                }
                prop_assert_eq!((map.len(), map.is_empty()), (tree.len(), tree.is_empty()));
            }
        }

        /// Whatever was forgotten in between, what a text says stays.
        #[test]
        fn shared_words_say_the_same(words in prop::collection::vec("[a-f]{0,5}", 0..3000)) {
            let mut lately = Words::default();
            for word in words {
                let mut text = Text::from(word.as_str());
                lately.share(&mut text);
                prop_assert_eq!(text, word);
            }
        }
    }

    #[test]
    fn equal_words_are_one() {
        let mut words = Words::default();
        let of = |words: &mut Words| {
            let mut map = TextMap::from([("a".into(), "b".into())]);
            words.share_all(&mut map);
            map.into_iter().next().unwrap()
        };
        let (first, second) = (of(&mut words), of(&mut words));
        assert!(Arc::ptr_eq(&first.0.0, &second.0.0) && Arc::ptr_eq(&first.1.0, &second.1.0));
    }
}
