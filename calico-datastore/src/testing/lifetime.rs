//! Keys with a life time.

use super::writing::{put_for, write};
use super::{Subject, mark, next, tier};
use crate::{Precondition, Scope, Write};

pub(super) async fn keys_expire(subject: &dyn Subject) {
    let (store, other) = (subject.first(), subject.second());
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut watch = other.watch(&Scope::All, from).await.unwrap();
    let put = write(&*store, put_for(tier("t", 1.0), 1)).await.unwrap();
    assert_eq!(mark(&next(&mut watch).await), "+Tier(t)");
    let gone = next(&mut watch).await;
    assert_eq!(mark(&gone), "-Tier(t)");
    assert_ne!(gone.revision(), put, "an expiry has a revision of its own");
    assert!(store.get(&tier("t", 1.0).0).await.unwrap_err().is_not_found());
    let listing = store.list(&Scope::All).await.unwrap();
    assert!(listing.entries.is_empty());
    write(&*store, Write::create(tier("t", 1.0).0, tier("t", 1.0).1)).await.expect("the key is free again");
}

/// The second life time is the one that counts; without one the key stays.
pub(super) async fn a_rewrite_renews_or_ends_the_life_time(subject: &dyn Subject) {
    for seconds in [3, 10, 20] {
        if rewritten_in_time(subject, seconds).await {
            return;
        }
    }
    panic!("no two writes were made within twenty seconds");
}

/// Whether the second writes came before the first life times were over, which a busy machine may not do. If so, the check was made.
/// The expiry of a third key, later than the first life times, tells when to look.
async fn rewritten_in_time(subject: &dyn Subject, seconds: u64) -> bool {
    let name = |what: &str| format!("{what}-{seconds}");
    let (kept, renewed, witness) = (name("kept"), name("renewed"), name("witness"));
    let store = subject.first();
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut watch = subject.second().watch(&Scope::All, from).await.unwrap();
    write(&*store, put_for(tier(&kept, 1.0), seconds)).await.unwrap();
    write(&*store, put_for(tier(&renewed, 1.0), seconds)).await.unwrap();
    let (key, resource) = tier(&kept, 2.0);
    match write(&*store, Write::put(key, Precondition::Present, resource, None)).await {
        Err(error) if error.is_not_found() => return false,
        other => drop(other.unwrap()),
    }
    write(&*store, put_for(tier(&renewed, 2.0), 3600)).await.unwrap();
    write(&*store, put_for(tier(&witness, 1.0), seconds + 1)).await.unwrap();

    let [kept, renewed, witness] = [kept, renewed, witness].map(|name| format!("Tier({name})"));
    let mut marks = Vec::new();
    while marks.last() != Some(&format!("-{witness}")) {
        marks.push(mark(&next(&mut watch).await));
    }
    let again = marks.iter().rposition(|mark| *mark == format!("+{renewed}"));
    if marks.iter().position(|mark| *mark == format!("-{renewed}")).is_some_and(|gone| Some(gone) < again) {
        return false;
    }
    let expected = [('+', &kept), ('+', &renewed), ('+', &kept), ('+', &renewed), ('+', &witness), ('-', &witness)];
    assert_eq!(marks, expected.map(|(sign, key)| format!("{sign}{key}")));
    for name in [name("kept"), name("renewed")] {
        assert!(store.get(&tier(&name, 0.0).0).await.is_ok(), "{name}");
    }
    true
}
