//! Fuzz bodies: functions of bytes that must not panic.

use std::sync::Arc;

use calico_core::resource::{Kind, Resource, ResourceKey};

use super::{affinity, block, handle};
use crate::{DatastoreError, Entry, Revision, Write, document, lenient};

/// Takes arbitrary bytes for the stored value of an object of each kind, as any writer may have left them: reads them, and writes back
/// what was read.
///
/// # Panics
/// When a reader of ours is at odds with itself: what was read is not what is read again after it was written back, something would be
/// written back that was not read as it is stored, or an object that cannot be used has no reason.
pub fn fuzz_document(bytes: &[u8]) {
    for kind in Kind::ALL.iter().copied() {
        readers_agree(kind, bytes);
        let key = key(kind);
        let entry = document::decode(key.clone(), bytes, Revision::from_raw(1));
        assert_eq!(entry, document::decode(key.clone(), bytes, Revision::from_raw(1)), "{kind}: read twice");
        goes_back(&key, entry);
    }
}

/// The lenient reader is there for what the usual one refuses or rounds, and reads the rest as that does.
fn readers_agree(kind: Kind, bytes: &[u8]) {
    let Ok(usual) = serde_json::from_slice::<serde_json::Value>(bytes) else { return };
    let Some(lenient) = lenient::read(kind, bytes) else { panic!("the lenient reader refuses {usual}") };
    if lenient.inexact().is_none() {
        assert_eq!(*lenient, usual);
    }
}

fn goes_back(key: &ResourceKey, entry: Entry) {
    let stored = match entry {
        Ok(stored) => stored,
        Err(bad) => {
            assert!(!bad.reason.is_empty(), "{key}: no reason");
            let remains = bad.remains.as_deref().and_then(Resource::key);
            assert!(remains.is_none_or(|remains| remains == *key), "{key}: something of another object remains");
            return;
        }
    };
    let refused = document::check(&Write::update(&stored, Arc::clone(&stored.resource)).into());
    if stored.raw.inexact().is_some() {
        assert!(matches!(refused, Err(DatastoreError::Inexact { .. })), "{key}: {refused:?}");
        return;
    }
    assert!(refused.is_ok(), "{key}: {refused:?}");
    let written = document::encode(&stored.resource, Some(&stored.raw));
    let again = document::decode_value(key.clone(), written.clone(), Revision::from_raw(1));
    let again = again.unwrap_or_else(|bad| panic!("{key}: cannot be read any more: {}", bad.reason));
    assert_eq!(in_order(&again.resource), in_order(&stored.resource), "{key}: changed on its way");
    assert_eq!(document::encode(&again.resource, Some(&again.raw)), written, "{key}: written otherwise each time");
}

/// With its faults by path: they come in the order of the fields in the document, which writing may change.
fn in_order(resource: &Resource) -> Resource {
    let mut resource = resource.clone();
    if let Some(metadata) = resource.metadata_mut() {
        metadata.unread.sort_by(|one, other| one.path.cmp(&other.path));
    }
    resource
}

/// A key under which an object of that kind may lie.
fn key(kind: Kind) -> ResourceKey {
    match kind {
        Kind::IpamBlock => block("10.0.0.0/26").0,
        Kind::IpamHandle => handle("fuzz").0,
        Kind::IpamConfig => ResourceKey::IpamConfig,
        Kind::BlockAffinity => affinity("host", "10.0.0.0/26").0,
        kind if kind.scope() == calico_core::resource::Scope::Namespaced => {
            ResourceKey::namespaced(kind, "default", "fuzz")
        }
        kind => ResourceKey::cluster(kind, "fuzz"),
    }
}

#[cfg(test)]
mod tests {
    use super::fuzz_document;

    fn corpus() -> Vec<Vec<u8>> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/document");
        std::fs::read_dir(folder).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
    }

    #[test]
    fn replays_the_corpus() {
        let corpus = corpus();
        assert!(corpus.len() >= 12, "{} files", corpus.len());
        corpus.iter().for_each(|bytes| fuzz_document(bytes));
    }

    /// What a fuzzer would begin with.
    #[test]
    fn survives_what_is_made_of_the_corpus() {
        let mut random = crate::testing::random();
        let mut roll = |sides: usize| random.below(sides);
        let corpus: Vec<_> = corpus().into_iter().filter(|bytes| bytes.len() < 2_000).collect();
        let words =
            ["null", "[]", "{}", "\"x\"", "-0.0", "1e400", "\\ud800", "\u{7f}", "true", "9007199254740993", "\"\""];
        for _ in 0..300 {
            let mut bytes = corpus[roll(corpus.len())].clone();
            for _ in 0..1 + roll(4) {
                let at = roll(bytes.len().max(1));
                match roll(4) {
                    0 => bytes[at..].iter_mut().take(1).for_each(|byte| *byte = roll(256) as u8),
                    1 => drop(bytes.drain(at..(at + roll(20)).min(bytes.len()))),
                    2 => drop(bytes.splice(at..at, words[roll(words.len())].bytes())),
                    _ => {
                        let other = &corpus[roll(corpus.len())];
                        let from = roll(other.len());
                        drop(bytes.splice(at..at, other[from..(from + roll(60)).min(other.len())].iter().copied()));
                    }
                }
            }
            fuzz_document(&bytes);
        }
    }
}
