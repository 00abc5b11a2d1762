//! Keys of stored objects in little room, for who has a quarter of a million of them and must know each again.
//!
//! Nothing of a caller's is held on to. Namespaces, and what the endpoints of one host have in common in their names, are held once
//! for all; the rest of a name stands in one piece with those of others.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;

use super::{Kind, ResourceKey};
use crate::label::runs::Runs;
use crate::label::store::{Content, Store, says};

/// A key, as far as it takes to know it again. It is to be forgotten one day ([`ShortKeys::forget`]).
#[derive(Debug)]
pub(crate) enum ShortKey {
    /// Namespace and head of the name are words of [`ShortKeys`], or [`NONE`]; the tail has that place and length.
    Named { kind: Kind, length: u16, namespace: u32, head: u32, tail: u32 },
    /// Any other.
    Other(Box<ResourceKey>),
}

/// What short keys refer to.
#[derive(Debug, Default)]
pub(crate) struct ShortKeys {
    words: Store<Word>,
    tails: Runs,
}

#[derive(Debug)]
struct Word {
    text: Arc<str>,
    references: u32,
}

says!(Word, text: str);

/// No word: the store gives out no such key.
const NONE: u32 = u32::MAX;

impl ShortKeys {
    /// A key in short.
    pub(crate) fn keep(&mut self, key: &ResourceKey) -> ShortKey {
        if let ResourceKey::Named { kind, namespace, name } = key {
            let (head, rest) = split(*kind, name);
            if let Ok(length) = u16::try_from(rest.len()) {
                let tail = self.tails.take(rest.len());
                let room = self.tails.slice_mut(tail, rest.len());
                room.iter_mut().zip(rest.bytes()).for_each(|(to, byte)| *to = byte);
                let namespace = namespace.as_ref().map_or(NONE, |name| self.acquire(name, || name.clone()));
                let head = if head.is_empty() { NONE } else { self.acquire(head, || head.into()) };
                return ShortKey::Named { kind: *kind, length, namespace, head, tail };
            }
        }
        ShortKey::Other(Box::new(key.clone()))
    }

    /// Gives up what a key held.
    pub(crate) fn forget(&mut self, key: &ShortKey) {
        if let ShortKey::Named { length, namespace, head, tail, .. } = key {
            self.words.release(*namespace);
            self.words.release(*head);
            self.tails.give_back(*tail, usize::from(*length));
        }
    }

    /// Whether a key in short is that one.
    pub(crate) fn is(&self, known: &ShortKey, key: &ResourceKey) -> bool {
        match (known, key) {
            (
                ShortKey::Named { kind, length, namespace, head, tail },
                ResourceKey::Named { kind: kind_two, namespace: two, name },
            ) => {
                let tail = self.tails.slice(*tail, usize::from(*length));
                let head_two = name.as_bytes().strip_suffix(tail);
                kind == kind_two
                    && head_two.is_some_and(|two| two == self.word(*head).map_or("", |head| &**head).as_bytes())
                    && self.word(*namespace) == two.as_ref()
            }
            (ShortKey::Other(known), key) => **known == *key,
            _ => false,
        }
    }

    /// A key in full.
    pub(crate) fn whole(&self, key: &ShortKey) -> ResourceKey {
        match key {
            ShortKey::Named { kind, length, namespace, head, tail } => {
                let head = self.word(*head).map_or("", |head| &**head);
                // Cut behind a dash, it is text.
                let tail = core::str::from_utf8(self.tails.slice(*tail, usize::from(*length))).unwrap_or_default();
                let name = String::from(head) + tail;
                ResourceKey::Named { kind: *kind, namespace: self.word(*namespace).cloned(), name: name.into() }
            }
            ShortKey::Other(key) => (**key).clone(),
        }
    }

    /// Words, and bytes of tails.
    #[cfg(test)]
    pub(crate) fn held(&self) -> (usize, usize) {
        (self.words.iter().count(), self.tails.held())
    }

    fn acquire(&mut self, text: &str, make: impl FnOnce() -> Arc<str>) -> u32 {
        self.words.acquire(text, || Word { text: make(), references: 0 }).0
    }

    fn word(&self, word: u32) -> Option<&Arc<str>> {
        self.words.get(word).map(|word| &word.text)
    }
}

/// What a name has in common with others, and the rest. Those of endpoints begin with host and orchestrator, which end at dashes that
/// are not doubled ([`super::WorkloadEndpointName`]); a name that is none is right in any split.
fn split(kind: Kind, name: &str) -> (&str, &str) {
    let nothing = ("", name);
    if kind != Kind::WorkloadEndpoint {
        return nothing;
    }
    let mut bytes = name.bytes().enumerate().peekable();
    let mut parts = 0;
    while let Some((at, byte)) = bytes.next() {
        if byte != b'-' || bytes.next_if(|(_, next)| *next == b'-').is_some() {
            continue;
        }
        parts += 1;
        if parts == 2 {
            return name.split_at_checked(at + 1).unwrap_or(nothing);
        }
    }
    nothing
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn endpoints_of_a_host_share_the_head_of_their_names() {
        let mut keys = ShortKeys::default();
        let names = ["a--1-k8s-pod--x-eth0", "a--1-k8s-pod--y-eth0", "a--1-k8s-", "a--1-k8s", "", "--é"];
        let whole: Vec<_> = names.map(|name| ResourceKey::namespaced(Kind::WorkloadEndpoint, "n", name)).into();
        let short: Vec<_> = whole.iter().map(|key| keys.keep(key)).collect();
        assert_eq!(keys.held().0, 2, "the namespace and one head");
        for (at, short) in short.iter().enumerate() {
            assert_eq!(keys.whole(short), whole[at]);
            let same = whole.iter().map(|key| keys.is(short, key));
            assert!(same.enumerate().all(|(other, is)| is == (other == at)), "{:?}", whole[at]);
        }
        short.iter().for_each(|key| keys.forget(key));
        assert_eq!(keys.held(), (0, 0));
        assert_eq!(size_of::<ShortKey>(), 16);
    }

    /// More than the length of a piece can say.
    #[test]
    fn a_name_of_any_length_is_known_again() {
        let mut keys = ShortKeys::default();
        let long = |length| ResourceKey::namespaced(Kind::WorkloadEndpoint, "n", &"x".repeat(length));
        let (one, two) = (long(1 << 16), long((1 << 16) + 1));
        let short = keys.keep(&one);
        assert!(keys.is(&short, &one) && !keys.is(&short, &two));
        assert_eq!(keys.whole(&short), one);
        keys.forget(&short);
        assert_eq!(keys.held(), (0, 0));
    }
}
