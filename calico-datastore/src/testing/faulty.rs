//! Objects that cannot be read.

use calico_core::resource::Kind;

use super::listing::keys;
use super::writing::{create, write};
use super::{Subject, mark, next, tier};
use crate::{DatastoreError, Precondition, Scope, Write};

pub(super) async fn a_bad_object_hides_nothing(subject: &dyn Subject) {
    let store = subject.first();
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut watch = store.watch(&Scope::Kind(Kind::Tier), from).await.unwrap();
    let bad = [
        ("b-garbage", &b"\xff\x00 not JSON"[..]),
        ("b-shape", b"[1, 2]"),
        ("b-type", br#"{"kind":"Tier","apiVersion":"projectcalico.org/v3","metadata":{"name":"b-type"},"spec":{"order":"high"}}"#),
    ];
    create(&*store, tier("a", 1.0)).await;
    for (name, bytes) in bad {
        subject.inject(&tier(name, 0.0).0, bytes).await;
    }
    create(&*store, tier("c", 1.0)).await;

    for expected in ["+Tier(a)", "!Tier(b-garbage)", "!Tier(b-shape)", "!Tier(b-type)", "+Tier(c)"] {
        assert_eq!(mark(&next(&mut watch).await), expected);
    }
    let listing = subject.second().list(&Scope::All).await.unwrap();
    let names: Vec<_> = keys(&listing).iter().map(ToString::to_string).collect();
    assert_eq!(names, ["Tier(a)", "Tier(b-garbage)", "Tier(b-shape)", "Tier(b-type)", "Tier(c)"]);
    let usable: Vec<_> = listing.entries.iter().map(Result::is_ok).collect();
    assert_eq!(usable, [true, false, false, false, true]);
    let texts: Vec<_> = listing.entries.iter().filter_map(|entry| entry.as_ref().err()).map(|bad| &*bad.text).collect();
    assert_eq!(texts, bad.map(|(_, bytes)| bytes), "what is stored is handed out as it lies there");
    for (name, _) in bad {
        let error = store.get(&tier(name, 0.0).0).await.unwrap_err();
        assert!(matches!(&error, DatastoreError::Unreadable { reason, .. } if !reason.is_empty()), "{error}");
    }
}

pub(super) async fn a_bad_object_can_be_replaced_and_deleted(subject: &dyn Subject) {
    let store = subject.first();
    let (key, good) = tier("t", 1.0);
    subject.inject(&key, b"{").await;
    let exists = write(&*store, Write::create(key.clone(), good.clone())).await.unwrap_err();
    assert!(matches!(exists, DatastoreError::AlreadyExists { current: None, .. }), "{exists}");
    let listing = store.list(&Scope::Key(key.clone())).await.unwrap();
    let bad = listing.entries[0].clone().unwrap_err();
    write(&*store, Write::put(key.clone(), Precondition::At(bad.revision), good, None)).await.unwrap();
    assert!(store.get(&key).await.is_ok());

    subject.inject(&key, b"{").await;
    let deleted = store.commit(Write::delete(key.clone(), Precondition::Present).into()).await.unwrap();
    assert_eq!(deleted[0].previous, None);
    assert!(store.get(&key).await.unwrap_err().is_not_found());
}
