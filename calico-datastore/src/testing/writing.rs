//! Commits: preconditions, atomicity, errors, what is carried over.

use std::sync::Arc;

use calico_core::resource::{Kind, Resource, ResourceKey};
use serde_json::json;

use super::{Subject, network_set, tier};
use crate::{Batch, Change, Datastore, DatastoreError, MAX_BATCH, Precondition, Revision, Scope, Stored, Write};

/// Commits one write.
pub(super) async fn write(store: &dyn Datastore, write: Write) -> Result<Revision, DatastoreError> {
    store.commit(write.into()).await.map(|committed| committed[0].revision)
}

/// Creates an object.
pub(super) async fn create(store: &dyn Datastore, object: (ResourceKey, Arc<Resource>)) -> Revision {
    write(store, Write::create(object.0, object.1)).await.expect("a new key")
}

fn order(stored: &Stored) -> Option<f64> {
    match &*stored.resource {
        Resource::Tier(tier) => tier.spec.order,
        other => panic!("a tier, not {other:?}"),
    }
}

pub(super) async fn creates_and_reads_back(subject: &dyn Subject) {
    let (store, other) = (subject.first(), subject.second());
    let (key, resource) = tier("t", 7.0);
    let absent = store.get(&key).await.unwrap_err();
    assert!(matches!(&absent, DatastoreError::NotFound { key: named } if *named == key), "{absent}");
    let revision = create(&*store, (key.clone(), resource)).await;
    for handle in [&store, &other] {
        let stored = handle.get(&key).await.unwrap();
        assert_eq!((&stored.key, stored.revision, order(&stored)), (&key, revision, Some(7.0)));
        assert_eq!(stored.raw["kind"], json!("Tier"));
        assert_eq!(stored.raw["apiVersion"], json!("projectcalico.org/v3"));
    }
}

pub(super) async fn preconditions_decide(subject: &dyn Subject) {
    let store = subject.first();
    let (key, first) = tier("t", 1.0);
    let put = |precondition, order| Write::put(key.clone(), precondition, tier("t", order).1, None);

    let at = |revision| Precondition::At(Revision::from_raw(revision));
    for precondition in [Precondition::Present, at(0), at(1), at(u64::MAX)] {
        for attempt in [put(precondition, 1.0), Write::delete(key.clone(), precondition)] {
            let error = write(&*store, attempt).await.unwrap_err();
            assert!(matches!(error, DatastoreError::NotFound { .. }), "{precondition:?}: {error}");
        }
    }
    let one = write(&*store, Write::create(key.clone(), first)).await.unwrap();
    let exists = write(&*store, put(Precondition::Absent, 2.0)).await.unwrap_err();
    assert!(
        matches!(&exists, DatastoreError::AlreadyExists { key: named, current: Some(current) }
            if *named == key && current.revision == one && order(current) == Some(1.0)),
        "{exists}"
    );
    let two = write(&*store, put(Precondition::At(one), 2.0)).await.unwrap();
    assert_ne!(one, two);
    let conflict = write(&*store, put(Precondition::At(one), 3.0)).await.unwrap_err();
    assert!(
        matches!(&conflict, DatastoreError::Conflict { key: named, current: Some(current) }
            if *named == key && current.revision == two && order(current) == Some(2.0)),
        "{conflict}"
    );
    assert_eq!(store.get(&key).await.unwrap().revision, two, "failed writes left no trace");
    let three = write(&*store, put(Precondition::Present, 3.0)).await.unwrap();
    let four = write(&*store, put(Precondition::None, 4.0)).await.unwrap();
    assert_ne!(three, four);
    assert_eq!(order(&store.get(&key).await.unwrap()), Some(4.0));
}

pub(super) async fn a_guard_sees_what_is_newer_in_its_kind(subject: &dyn Subject) {
    let (store, other) = (subject.first(), subject.second());
    let put = |name: &str, listed| {
        let (key, resource) = tier(name, 1.0);
        Write::put(key, Precondition::NothingNewerIn(Kind::Tier, listed), resource, None)
    };
    let listed = store.list(&Scope::Kind(Kind::Tier)).await.unwrap().revision;
    create(&*other, network_set("ns", "another-kind")).await;
    write(&*store, put("b", listed)).await.expect("nothing of the kind at all");

    let refused = |error| matches!(&error, DatastoreError::Conflict { key, current: None } if key.name() == Some("a"));
    assert!(refused(write(&*store, put("a", listed)).await.unwrap_err()), "one was created");
    let listed = store.list(&Scope::Kind(Kind::Tier)).await.unwrap().revision;
    write(&*other, Write::put(tier("b", 0.0).0, Precondition::Present, tier("b", 2.0).1, None)).await.unwrap();
    assert!(refused(write(&*store, put("a", listed)).await.unwrap_err()), "one was changed");
    assert!(store.get(&tier("a", 0.0).0).await.unwrap_err().is_not_found());
    let present = write(&*store, put("b", listed)).await.unwrap_err();
    assert!(matches!(&present, DatastoreError::Conflict { current: Some(current), .. } if order(current) == Some(2.0)));

    // The first refusal of a batch decides, whichever sort it is.
    let listed = store.list(&Scope::Kind(Kind::Tier)).await.unwrap().revision;
    let set = network_set("ns", "another-kind");
    let error = store.commit(vec![put("a", listed), Write::create(set.0, set.1)].into()).await.unwrap_err();
    assert!(matches!(error, DatastoreError::AlreadyExists { .. }), "{error}");
    write(&*other, Write::delete(tier("b", 0.0).0, Precondition::Present)).await.unwrap();
    write(&*store, put("a", listed)).await.expect("what is deleted is not newer");
    write(&*store, put("c", listed)).await.expect_err("what was just made is");
}

/// Many tasks make one object each, but only as long as there are few: the limit holds however they interleave.
pub(super) async fn guarded_creators_exclude_each_other(subject: &dyn Subject) {
    const TASKS: usize = 24;
    const LIMIT: usize = 3;
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let store = if task % 2 == 0 { subject.first() } else { subject.second() };
        tasks.spawn(async move {
            loop {
                let listing = store.list(&Scope::Kind(Kind::Tier)).await.unwrap();
                if listing.entries.len() >= LIMIT {
                    return false;
                }
                let (key, resource) = tier(&format!("t{task}"), 1.0);
                let guard = Precondition::NothingNewerIn(Kind::Tier, listing.revision);
                match write(&*store, Write::put(key, guard, resource, None)).await {
                    Ok(_) => return true,
                    Err(error) => assert!(error.is_conflict(), "{error}"),
                }
            }
        });
    }
    let made = tasks.join_all().await.into_iter().filter(|made| *made).count();
    assert_eq!(made, LIMIT);
    assert_eq!(subject.first().list(&Scope::Kind(Kind::Tier)).await.unwrap().entries.len(), LIMIT);
}

pub(super) async fn deletes_answer_with_what_was_there(subject: &dyn Subject) {
    let store = subject.first();
    let (key, resource) = tier("t", 5.0);
    let delete = |precondition| Batch::from(Write::delete(key.clone(), precondition));

    let absent = store.commit(delete(Precondition::Present)).await.unwrap_err();
    assert!(matches!(absent, DatastoreError::NotFound { .. }), "{absent}");
    let before = store.list(&Scope::All).await.unwrap().revision;
    let nothing = store.commit(delete(Precondition::None)).await.unwrap();
    assert_eq!(nothing[0].previous, None);
    assert_eq!(store.list(&Scope::All).await.unwrap().revision, before, "deleting nothing is no change");

    let one = create(&*store, (key.clone(), Arc::clone(&resource))).await;
    let two = write(&*store, Write::put(key.clone(), Precondition::At(one), resource, None)).await.unwrap();
    let stale = store.commit(delete(Precondition::At(one))).await.unwrap_err();
    assert!(matches!(stale, DatastoreError::Conflict { .. }), "{stale}");
    let deleted = store.commit(delete(Precondition::At(two))).await.unwrap();
    let previous = deleted[0].previous.as_ref().expect("what was deleted");
    assert_eq!((previous.revision, order(previous)), (two, Some(5.0)));
    assert_ne!(deleted[0].revision, two);
    assert!(store.get(&key).await.unwrap_err().is_not_found());
    assert!(store.list(&Scope::All).await.unwrap().entries.is_empty());
}

pub(super) async fn batches_are_atomic(subject: &dyn Subject) {
    let store = subject.first();
    let taken = tier("taken", 1.0);
    create(&*store, taken.clone()).await;
    let (a, b, c) = (tier("a", 1.0), tier("b", 1.0), network_set("ns", "c"));
    let missing = Write::delete(tier("missing", 0.0).0, Precondition::Present);

    // The first failing write decides which error it is.
    let batch = vec![Write::create(a.0.clone(), a.1.clone()), Write::create(taken.0.clone(), taken.1), missing];
    let error = store.commit(batch.into()).await.unwrap_err();
    assert!(matches!(&error, DatastoreError::AlreadyExists { key, .. } if *key == taken.0), "{error}");
    assert!(store.get(&a.0).await.unwrap_err().is_not_found(), "nothing of a failed batch takes effect");

    let batch = vec![
        Write::create(a.0.clone(), a.1),
        Write::create(c.0.clone(), c.1),
        Write::delete(taken.0.clone(), Precondition::Present),
        Write::create(b.0.clone(), b.1),
    ];
    let committed = store.commit(batch.into()).await.unwrap();
    assert_eq!(committed.len(), 4);
    assert!(committed.iter().all(|one| one.revision == committed[0].revision), "one revision for all");
    assert_eq!(committed[2].previous.as_ref().map(|stored| &stored.key), Some(&taken.0));
    for key in [&a.0, &b.0, &c.0] {
        assert_eq!(subject.second().get(key).await.unwrap().revision, committed[0].revision);
    }
    assert!(store.get(&taken.0).await.unwrap_err().is_not_found());
    assert_eq!(store.commit(Batch::default()).await.unwrap(), [], "an empty batch is no trouble");
}

pub(super) async fn impossible_batches_are_refused(subject: &dyn Subject) {
    let store = subject.first();
    let (key, resource) = tier("t", 1.0);
    let create = |key: &ResourceKey| Write::create(key.clone(), Arc::clone(&resource));

    let twice = store.commit(vec![create(&key), create(&key)].into()).await.unwrap_err();
    assert!(matches!(twice, DatastoreError::Refused { .. }), "{twice}");
    let kind = store.commit(create(&network_set("ns", "n").0).into()).await.unwrap_err();
    assert!(matches!(kind, DatastoreError::Refused { .. }), "{kind}");
    for name in ["", "a/b"] {
        let odd = tier(name, 1.0).0;
        let error = store.commit(vec![create(&key), create(&odd)].into()).await.unwrap_err();
        assert!(matches!(&error, DatastoreError::InvalidKey { key, .. } if *key == odd), "{error}");
        assert!(matches!(store.get(&odd).await.unwrap_err(), DatastoreError::InvalidKey { .. }));
    }
    assert!(store.list(&Scope::All).await.unwrap().entries.is_empty());
}

pub(super) async fn batches_have_one_limit_everywhere(subject: &dyn Subject) {
    let store = subject.first();
    let writes = |prefix: &str, count: usize, precondition: Precondition| -> Batch {
        let objects = (0..count).map(|one| tier(&format!("{prefix}{one}"), 1.0));
        let writes = objects.map(|(key, resource)| Write::put(key, precondition, resource, None));
        writes.collect::<Vec<_>>().into()
    };
    let nothing = || Precondition::NothingNewerIn(Kind::NetworkSet, Revision::from_raw(1));
    for (prefix, most, precondition) in
        [("plain", MAX_BATCH, Precondition::Absent), ("guarded", MAX_BATCH / 2, nothing())]
    {
        let before = store.list(&Scope::All).await.unwrap();
        let error = store.commit(writes(prefix, most + 1, precondition)).await.unwrap_err();
        assert!(matches!(error, DatastoreError::TooLarge { limit: MAX_BATCH, .. }), "{prefix}: {error}");
        assert!(!error.is_retryable() && !error.is_conflict());
        assert_eq!(store.list(&Scope::All).await.unwrap(), before, "{prefix}");
        assert_eq!(store.commit(writes(prefix, most, precondition)).await.unwrap().len(), most, "{prefix}");
    }
    // What is refused must fit, too: a store may ask for more to find the reason.
    let again = store.commit(writes("plain", MAX_BATCH, Precondition::Absent)).await.unwrap_err();
    assert!(matches!(again, DatastoreError::AlreadyExists { .. }), "{again}");
    create(&*store, network_set("ns", "newer")).await;
    let newer = store.commit(writes("other", MAX_BATCH / 2, nothing())).await.unwrap_err();
    assert!(newer.is_conflict(), "{newer}");
}

pub(super) async fn unknown_fields_survive(subject: &dyn Subject) {
    let store = subject.first();
    let (key, _) = tier("t", 1.0);
    let newer = json!({
        "kind": "Tier", "apiVersion": "projectcalico.org/v3",
        "metadata": {"name": "t", "finalizers": ["someone.example/keep"]},
        "spec": {"order": 1, "inventedLater": {"a": [1, 2]}},
        "status": {"conditions": [], "inventedLater": [1]},
    });
    subject.inject(&key, newer.to_string().as_bytes()).await;
    let read = store.get(&key).await.unwrap();
    write(&*store, Write::update(&read, tier("t", 2.0).1)).await.unwrap();
    let after = subject.second().get(&key).await.unwrap();
    assert_eq!(order(&after), Some(2.0));
    assert_eq!(after.raw["spec"]["inventedLater"], json!({"a": [1, 2]}));
    assert_eq!(after.raw["metadata"]["finalizers"], json!(["someone.example/keep"]));
    assert_eq!(after.raw["status"]["inventedLater"], json!([1]));
}

pub(super) async fn the_revision_is_never_stored(subject: &dyn Subject) {
    let store = subject.first();
    let (key, resource) = tier("t", 1.0);
    let Resource::Tier(mut object) = (*resource).clone() else { panic!("a tier") };
    object.metadata.resource_version = Some("12345".to_owned());
    create(&*store, (key.clone(), Arc::new(Resource::Tier(object)))).await;
    assert_eq!(store.get(&key).await.unwrap().raw["metadata"].get("resourceVersion"), None);
}

/// Two handles count up one tier's order by compare-and-swap; no increment may be lost.
pub(super) async fn concurrent_counters_lose_nothing(subject: &dyn Subject) {
    const EACH: usize = 20;
    let (key, resource) = tier("counter", 0.0);
    create(&*subject.first(), (key.clone(), resource)).await;
    let count = |store: Arc<dyn Datastore>, key: ResourceKey| async move {
        for _ in 0..EACH {
            loop {
                let read = store.get(&key).await.unwrap();
                let next = tier("counter", order(&read).unwrap_or(0.0) + 1.0).1;
                match store.commit(Write::update(&read, next).into()).await {
                    Ok(_) => break,
                    Err(error) => assert!(error.is_conflict(), "{error}"),
                }
            }
        }
    };
    let (first, second) = (subject.first(), subject.second());
    tokio::join!(
        count(Arc::clone(&first), key.clone()),
        count(Arc::clone(&second), key.clone()),
        count(second, key.clone()),
    );
    assert_eq!(order(&first.get(&key).await.unwrap()), Some((3 * EACH) as f64));
}

/// A put with a life time.
pub(super) fn put_for(object: (ResourceKey, Arc<Resource>), seconds: u64) -> Write {
    let ttl = Some(std::time::Duration::from_secs(seconds));
    Write {
        key: object.0,
        precondition: Precondition::None,
        change: Change::Put { resource: object.1, base: None, ttl },
    }
}
