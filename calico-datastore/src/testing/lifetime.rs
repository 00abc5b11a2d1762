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

/// The second life time is the one that counts; without one the key stays. The expiry of a third key tells when to look. The
/// first life times are long enough for the second writes on a busy machine.
pub(super) async fn a_rewrite_renews_or_ends_the_life_time(subject: &dyn Subject) {
    let store = subject.first();
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut watch = subject.second().watch(&Scope::All, from).await.unwrap();
    write(&*store, put_for(tier("kept", 1.0), 3)).await.unwrap();
    write(&*store, put_for(tier("renewed", 1.0), 3)).await.unwrap();
    let (key, resource) = tier("kept", 2.0);
    write(&*store, Write::put(key, Precondition::Present, resource, None)).await.unwrap();
    write(&*store, put_for(tier("renewed", 2.0), 3600)).await.unwrap();
    write(&*store, put_for(tier("witness", 1.0), 4)).await.unwrap();
    for expected in
        ["+Tier(kept)", "+Tier(renewed)", "+Tier(kept)", "+Tier(renewed)", "+Tier(witness)", "-Tier(witness)"]
    {
        assert_eq!(mark(&next(&mut watch).await), expected);
    }
    for name in ["kept", "renewed"] {
        assert!(store.get(&tier(name, 0.0).0).await.is_ok(), "{name}");
    }
}
