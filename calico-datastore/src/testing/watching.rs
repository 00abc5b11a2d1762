//! Watches: order, completeness, scopes, lost history.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use calico_core::resource::Kind;

use super::writing::{create, write};
use super::{Subject, mark, network_set, next, take, tier, within};
use crate::{Datastore, DatastoreError, Precondition, Scope, WatchEvent, Write};

pub(super) async fn replays_then_follows(subject: &dyn Subject) {
    let store = subject.first();
    let start = store.list(&Scope::All).await.unwrap().revision;
    create(&*store, tier("a", 1.0)).await;
    let middle = store.list(&Scope::All).await.unwrap().revision;
    create(&*store, tier("b", 1.0)).await;
    let mut early = subject.second().watch(&Scope::All, start).await.unwrap();
    let mut late = subject.second().watch(&Scope::All, middle).await.unwrap();
    let (key, resource) = tier("a", 2.0);
    let put = write(&*store, Write::put(key.clone(), Precondition::Present, resource, None)).await.unwrap();
    let deleted = write(&*store, Write::delete(key, Precondition::Present)).await.unwrap();

    let events = take(&mut early, 4).await;
    assert_eq!(events.iter().map(mark).collect::<Vec<_>>(), ["+Tier(a)", "+Tier(b)", "+Tier(a)", "-Tier(a)"]);
    assert_eq!((events[2].revision(), events[3].revision()), (put, deleted));
    assert_eq!(take(&mut late, 3).await, events[1..], "a later start sees exactly the rest");
}

pub(super) async fn batches_arrive_whole_and_in_order(subject: &dyn Subject) {
    let store = subject.first();
    create(&*store, tier("old", 1.0)).await;
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut watch = subject.second().watch(&Scope::All, from).await.unwrap();
    let (z, a) = (tier("z", 1.0), network_set("n", "a"));
    let batch = vec![
        Write::create(z.0, z.1),
        Write::delete(tier("old", 1.0).0, Precondition::Present),
        Write::delete(tier("never", 1.0).0, Precondition::None),
        Write::create(a.0, a.1),
    ];
    let revision = store.commit(batch.into()).await.unwrap()[0].revision;
    let events = take(&mut watch, 3).await;
    assert_eq!(events.iter().map(mark).collect::<Vec<_>>(), ["+Tier(z)", "-Tier(old)", "+NetworkSet(n/a)"]);
    assert!(events.iter().all(|event| event.revision() == revision));
}

pub(super) async fn scopes_filter(subject: &dyn Subject) {
    let store = subject.first();
    let from = store.list(&Scope::All).await.unwrap().revision;
    let scopes = [
        (Scope::Kind(Kind::Tier), "+Tier(a)"),
        (Scope::Namespace { kind: Kind::NetworkSet, namespace: "n".into() }, "+NetworkSet(n/a)"),
        (Scope::Key(tier("b", 1.0).0), "+Tier(b)"),
        (Scope::BlocksWithin("10.1.0.0/16".parse().unwrap()), "+IPAMBlock(10.1.2.0/26)"),
    ];
    let mut watches = Vec::new();
    for (scope, _) in &scopes {
        watches.push(subject.second().watch(scope, from).await.unwrap());
    }
    for object in [
        super::block("10.2.0.0/26"),
        network_set("n2", "a"),
        network_set("n", "a"),
        tier("a", 1.0),
        super::block("10.1.2.0/26"),
        tier("b", 1.0),
    ] {
        create(&*store, object).await;
    }
    for (watch, (scope, expected)) in watches.iter_mut().zip(scopes) {
        assert_eq!(mark(&next(watch).await), expected, "{scope:?}");
    }
}

/// Writers on both handles, three watchers: all see the same sequence, which adds up to the final listing.
pub(super) async fn watchers_agree_without_gap_or_duplicate(subject: &dyn Subject) {
    const EACH: usize = 40;
    let from = subject.first().list(&Scope::All).await.unwrap().revision;
    let churn = |store: Arc<dyn Datastore>, own: char| async move {
        for round in 0..EACH {
            let (key, resource) = tier(&format!("{own}{}", round % 3), round as f64);
            let change = if round % 4 == 3 {
                Write::delete(tier(&format!("{own}{}", (round - 1) % 3), 0.0).0, Precondition::Present)
            } else {
                Write::put(key, Precondition::None, resource, None)
            };
            write(&*store, change).await.unwrap();
        }
    };
    let mut first = subject.first().watch(&Scope::All, from).await.unwrap();
    let mut second = subject.second().watch(&Scope::All, from).await.unwrap();
    tokio::join!(churn(subject.first(), 'x'), churn(subject.second(), 'y'));
    let mut third = subject.first().watch(&Scope::All, from).await.unwrap();

    let events = take(&mut first, 2 * EACH).await;
    assert_eq!(take(&mut second, 2 * EACH).await, events);
    assert_eq!(take(&mut third, 2 * EACH).await, events);
    let mut state = std::collections::BTreeMap::new();
    for event in events {
        match event {
            WatchEvent::Put(Ok(stored)) => drop(state.insert(stored.key.clone(), stored)),
            WatchEvent::Deleted { key, .. } => assert!(state.remove(&key).is_some(), "{key} deleted twice"),
            other => panic!("{other:?}"),
        }
    }
    let listing = subject.second().list(&Scope::All).await.unwrap();
    let listed: Vec<_> = listing.entries.into_iter().map(Result::unwrap).collect();
    assert_eq!(state.into_values().collect::<Vec<_>>(), listed);
}

pub(super) async fn a_dropped_wait_loses_nothing(subject: &dyn Subject) {
    let store = subject.first();
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut watch = subject.second().watch(&Scope::All, from).await.unwrap();
    for round in 0..20 {
        // Polled once, then dropped, both before and after the change.
        poll_once(&mut watch).await;
        create(&*store, tier(&format!("t{round}"), 1.0)).await;
        let event = match poll_once(&mut watch).await {
            Some(event) => event,
            None => next(&mut watch).await,
        };
        assert_eq!(mark(&event), format!("+Tier(t{round})"));
    }
}

async fn poll_once(watch: &mut Box<dyn crate::Watch>) -> Option<WatchEvent> {
    let mut future = pin!(watch.next());
    let answer = poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(event) => Some(event.unwrap()),
            Poll::Pending => None,
        })
    })
    .await;
    answer.filter(|event| !matches!(event, WatchEvent::Progress(_)))
}

pub(super) async fn history_that_is_gone_is_told(subject: &dyn Subject) {
    let store: Arc<dyn Datastore> = subject.first();
    let start = store.list(&Scope::All).await.unwrap().revision;
    let mut current = subject.second().watch(&Scope::All, start).await.unwrap();
    for name in ["a", "b", "c"] {
        create(&*store, tier(name, 1.0)).await;
    }
    take(&mut current, 3).await;
    subject.compact().await;
    let too_old = match store.watch(&Scope::All, start).await {
        Err(error) => error,
        Ok(mut watch) => within("the end of a watch without history", watch.next()).await.unwrap_err(),
    };
    assert!(matches!(too_old, DatastoreError::TooOld { .. }), "{too_old}");
    create(&*store, tier("d", 1.0)).await;
    assert_eq!(mark(&next(&mut current).await), "+Tier(d)", "a watch that had seen everything goes on");
    let listing = store.list(&Scope::All).await.unwrap();
    assert_eq!(listing.entries.len(), 4, "objects outlive history");
    let mut fresh = store.watch(&Scope::All, listing.revision).await.unwrap();
    create(&*store, tier("e", 1.0)).await;
    assert_eq!(mark(&next(&mut fresh).await), "+Tier(e)");
}
