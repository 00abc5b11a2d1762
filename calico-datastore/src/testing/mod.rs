//! The conformance suite: what every [`Datastore`] must do, as functions that fail when one does not.
//!
//! An implementation's test makes a [`Subject`] and calls [`conformance`]; embedders do the same for stores of their own. Each
//! check gets a fresh, empty store with two handles, as two processes would have. The suite waits for conditions, each with a
//! deadline, and never asserts a time; the check of life times takes some seconds where a store counts real ones.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test suite reports by panicking"
)]

mod address;
mod faulty;
mod fuzz;
mod lifetime;
mod listing;
mod objects;
#[cfg(test)]
mod seed;
mod watching;
mod writing;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use calico_core::resource::ResourceKey;

pub use self::address::free_address;
pub use self::fuzz::fuzz_document;
pub use self::objects::{affinity, block, handle, network_set, tier};
#[cfg(test)]
pub(crate) use self::seed::random;
use crate::{Datastore, Watch, WatchEvent};

/// A wait that takes longer is a failure.
const DEADLINE: Duration = Duration::from_secs(30);

/// A store under test, empty at first.
#[async_trait]
pub trait Subject: Send + Sync {
    /// A handle.
    fn first(&self) -> Arc<dyn Datastore>;

    /// Another handle of the same data; as independent of the first as another process' would be.
    fn second(&self) -> Arc<dyn Datastore>;

    /// Stores bytes under a key, whatever they are.
    async fn inject(&self, key: &ResourceKey, bytes: &[u8]);

    /// Makes the store forget its history up to now.
    async fn compact(&self);
}

/// Runs every check, each on a store of its own.
pub async fn conformance<F, Fut>(make: F)
where
    F: Fn() -> Fut,
    Fut: Future<Output = Box<dyn Subject>>,
{
    macro_rules! run {
        ($($check:path),* $(,)?) => {
            $(
                eprintln!("conformance: {}", stringify!($check));
                $check(&*make().await).await;
            )*
        };
    }
    run!(
        writing::creates_and_reads_back,
        writing::preconditions_decide,
        writing::a_guard_sees_what_is_newer_in_its_kind,
        writing::guarded_creators_exclude_each_other,
        writing::deletes_answer_with_what_was_there,
        writing::batches_are_atomic,
        writing::impossible_batches_are_refused,
        writing::batches_have_one_limit_everywhere,
        writing::unknown_fields_survive,
        writing::the_revision_is_never_stored,
        writing::concurrent_counters_lose_nothing,
        listing::scopes_select,
        listing::a_listing_is_one_revision,
        watching::replays_then_follows,
        watching::batches_arrive_whole_and_in_order,
        watching::scopes_filter,
        watching::watchers_agree_without_gap_or_duplicate,
        watching::a_dropped_wait_loses_nothing,
        watching::history_that_is_gone_is_told,
        faulty::a_bad_object_hides_nothing,
        faulty::a_bad_object_can_be_replaced_and_deleted,
        lifetime::keys_expire,
        lifetime::a_rewrite_renews_or_ends_the_life_time,
    );
}

/// Awaits with the suite's deadline.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(DEADLINE, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {DEADLINE:?}"),
    }
}

/// The next real change of a watch.
pub(crate) async fn next(watch: &mut Box<dyn Watch>) -> WatchEvent {
    loop {
        let event = within("the next change", watch.next()).await.expect("the watch goes on");
        if !matches!(event, WatchEvent::Progress(_)) {
            return event;
        }
    }
}

/// The next so many changes.
async fn take(watch: &mut Box<dyn Watch>, count: usize) -> Vec<WatchEvent> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(next(watch).await);
    }
    events
}

/// `+key` for a put, `!key` for a bad object, `-key` for a delete.
fn mark(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Put(Ok(stored)) => format!("+{}", stored.key),
        WatchEvent::Put(Err(bad)) => format!("!{}", bad.key),
        WatchEvent::Deleted { key, .. } => format!("-{key}"),
        WatchEvent::Progress(_) => "progress".to_owned(),
    }
}
