//! The etcd store against a real server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use calico_core::resource::{GlobalNetworkPolicySpec, Kind, Metadata, Object, Resource};
use etcd_client::{CompactionOptions, DeleteOptions};

use super::server::{Server, insist};
use super::*;
use crate::sync::{SyncEvent, SyncOptions, Syncer};
use crate::testing::{Subject, conformance, next, tier};
use crate::{Precondition, WatchEvent, Write};

async fn client(server: &Server) -> Client {
    Client::connect(server.config().endpoints, None).await.unwrap()
}

async fn connect(server: &Server) -> EtcdStore {
    EtcdStore::connect(server.config()).await.unwrap()
}

/// One server, emptied for each check.
struct TwoClients {
    first: Arc<EtcdStore>,
    second: Arc<EtcdStore>,
    raw: Client,
}

impl TwoClients {
    async fn new(server: &Server) -> Self {
        let mut raw = client(server).await;
        raw.delete(key::ROOT, Some(DeleteOptions::new().with_prefix())).await.unwrap();
        Self { first: Arc::new(connect(server).await), second: Arc::new(connect(server).await), raw }
    }
}

#[async_trait]
impl Subject for TwoClients {
    fn first(&self) -> Arc<dyn Datastore> {
        Arc::clone(&self.first) as _
    }

    fn second(&self) -> Arc<dyn Datastore> {
        Arc::clone(&self.second) as _
    }

    async fn inject(&self, key: &ResourceKey, bytes: &[u8]) {
        self.raw.clone().put(key::path(key).unwrap(), bytes, None).await.unwrap();
    }

    async fn compact(&self) {
        let mut raw = self.raw.clone();
        let newest = raw.get("x", None).await.unwrap().header().unwrap().revision();
        raw.compact(newest, Some(CompactionOptions::new().with_physical())).await.unwrap();
    }
}

fn put(name: &str) -> Batch {
    let (key, resource) = tier(name, 1.0);
    Write::put(key, Precondition::None, resource, None).into()
}

#[tokio::test]
async fn conforms() {
    let server = Server::start().await;
    conformance(|| async { Box::new(TwoClients::new(&server).await) as Box<dyn Subject> }).await;
}

#[tokio::test]
async fn keys_and_values_are_upstreams() {
    let server = Server::start().await;
    let store = connect(&server).await;
    let metadata = Metadata { name: "allow-dns".to_owned(), ..Metadata::default() };
    let spec = GlobalNetworkPolicySpec { tier: "default".to_owned(), ..GlobalNetworkPolicySpec::default() };
    let policy = Resource::GlobalNetworkPolicy(Object { metadata, spec });
    let key = ResourceKey::cluster(Kind::GlobalNetworkPolicy, "allow-dns");
    store.commit(Write::create(key.clone(), Arc::new(policy)).into()).await.unwrap();

    let path = "/calico/resources/v3/projectcalico.org/globalnetworkpolicies/allow-dns";
    let found = client(&server).await.get(path, None).await.unwrap();
    let value: serde_json::Value = serde_json::from_slice(found.kvs()[0].value()).unwrap();
    assert_eq!(value["kind"], "GlobalNetworkPolicy");
    assert_eq!(value["apiVersion"], "projectcalico.org/v3");
    assert_eq!(value["metadata"]["annotations"]["projectcalico.org/metadata"], r#"{"name":"allow-dns"}"#);
    let read = store.get(&key).await.unwrap();
    assert!(read.resource.metadata().unwrap().annotations.is_empty(), "the annotation is the store's own");
    assert_eq!(read.revision.raw(), u64::try_from(found.kvs()[0].mod_revision()).unwrap());
}

#[tokio::test]
async fn a_long_listing_is_read_in_pages_at_one_revision() {
    let server = Server::start().await;
    let store = connect(&server).await;
    for batch in 0..12 {
        let writes = (0..100).map(|one| tier(&format!("t{batch}-{one}"), 1.0));
        let writes: Vec<_> = writes.map(|(key, resource)| Write::create(key, resource)).collect();
        store.commit(writes.into()).await.unwrap();
    }
    let listing = store.list(&Scope::Kind(Kind::Tier)).await.unwrap();
    assert_eq!(listing.entries.len(), 1200);
}

#[tokio::test]
async fn watches_go_on_when_the_server_is_killed_and_restarted() {
    let mut server = Server::start().await;
    let store = connect(&server).await;
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut watch = store.watch(&Scope::All, from).await.unwrap();
    store.commit(put("a")).await.unwrap();
    assert!(matches!(next(&mut watch).await, WatchEvent::Put(Ok(stored)) if stored.key.name() == Some("a")));
    server.restart();
    server.ready(server.config()).await;
    insist(async || store.commit(put("b")).await).await;
    assert!(matches!(next(&mut watch).await, WatchEvent::Put(Ok(stored)) if stored.key.name() == Some("b")));
}

#[tokio::test]
async fn a_syncer_starts_without_a_server_and_survives_its_absence() {
    let mut server = Server::start().await;
    let store = Arc::new(connect(&server).await);
    server.kill();
    let mut syncer = Syncer::start(store.clone(), vec![Scope::All], SyncOptions::default());
    let mut told = false;
    let mut names = Vec::new();
    let mut events = Vec::new();
    let deadline = tokio::time::Instant::now() + Duration::from_secs(90);
    loop {
        let event = tokio::time::timeout_at(deadline, syncer.next()).await;
        match event.unwrap_or_else(|_| panic!("caught up: {names:?} {events:?}")).unwrap() {
            SyncEvent::Diagnostic(_) if !told => {
                told = true;
                server.restart();
                server.ready(server.config()).await;
                insist(async || store.commit(put("late")).await).await;
            }
            SyncEvent::Updates(updates) => names.extend(updates.into_iter().map(|update| update.key.to_string())),
            other => events.push(other),
        }
        // A write that was insisted on may have been made twice.
        if told && names.first().is_some_and(|name| name == "Tier(late)") {
            break;
        }
    }
}

#[tokio::test]
async fn wrong_credentials_are_refused_and_right_ones_work() {
    let server = Server::start().await;
    let mut raw = client(&server).await;
    raw.user_add("root", "secret", None).await.unwrap();
    raw.user_grant_role("root", "root").await.unwrap();
    raw.auth_enable().await.unwrap();
    let with = |password: &str| {
        let credentials = Some(("root".to_owned(), password.to_owned()));
        EtcdConfig { credentials, ..server.config() }
    };
    let wrong = EtcdStore::connect(with("guess")).await.unwrap().list(&Scope::All).await.unwrap_err();
    assert!(matches!(wrong, DatastoreError::Refused { .. }), "{wrong:?}");
    let nobody = connect(&server).await.list(&Scope::All).await.unwrap_err();
    assert!(matches!(nobody, DatastoreError::Refused { .. }), "{nobody:?}");
    let right = EtcdStore::connect(with("secret")).await.unwrap();
    right.list(&Scope::All).await.unwrap();
}

/// Upstream's table of transactions, row by row: what a client of upstream would be told is what ours tells.
#[tokio::test]
async fn each_sort_of_write_maps_as_upstreams() {
    let server = Server::start().await;
    let store = connect(&server).await;
    let mut raw = client(&server).await;
    let (key, resource) = tier("t", 1.0);
    let path = key::path(&key).unwrap();
    let write = async |precondition, order: Option<f64>| {
        let write = match order {
            Some(order) => Write::put(key.clone(), precondition, tier("t", order).1, None),
            None => Write::delete(key.clone(), precondition),
        };
        store.commit(write.into()).await.map(|mut committed| committed.remove(0))
    };
    let stale = Revision::from_raw(1);
    // Absent: update and delete find nothing, with a revision or without.
    for (precondition, order) in [
        (Precondition::At(stale), Some(1.0)),
        (Precondition::At(stale), None),
        (Precondition::Present, None),
        (Precondition::Present, Some(1.0)),
    ] {
        let error = write(precondition, order).await.unwrap_err();
        assert!(error.is_not_found(), "{precondition:?} {order:?}: {error}");
    }
    assert!(store.get(&key).await.unwrap_err().is_not_found());

    // Create: the revision is the transaction's, which is the key's; a second one meets the first.
    let created = store.commit(Write::create(key.clone(), resource).into()).await.unwrap()[0].revision;
    let found = raw.get(path.as_str(), None).await.unwrap();
    assert_eq!((from_etcd(found.kvs()[0].mod_revision()), found.kvs()[0].version()), (created, 1));
    let exists = write(Precondition::Absent, Some(2.0)).await.unwrap_err();
    assert!(
        matches!(&exists, DatastoreError::AlreadyExists { current: Some(current), .. } if current.revision == created),
        "{exists:?}"
    );

    // Update and delete at a revision that is not the key's: conflict, with what is there.
    for order in [Some(2.0), None] {
        let conflict = write(Precondition::At(stale), order).await.unwrap_err();
        assert!(
            matches!(&conflict, DatastoreError::Conflict { current: Some(current), .. } if current.revision == created),
            "{conflict:?}"
        );
    }
    let updated = write(Precondition::At(created), Some(2.0)).await.unwrap().revision;
    assert_eq!(store.get(&key).await.unwrap().revision, updated, "good for the next comparison at once");

    // Apply: whatever is there, and also where nothing is.
    let applied = write(Precondition::None, Some(3.0)).await.unwrap().revision;
    let deleted = write(Precondition::At(applied), None).await.unwrap();
    assert_eq!(deleted.previous.map(|previous| previous.revision), Some(applied));
    write(Precondition::None, Some(4.0)).await.unwrap();
    let deleted = write(Precondition::Present, None).await.unwrap();
    assert!(deleted.previous.is_some());
    assert_eq!(
        write(Precondition::None, None).await.unwrap().previous,
        None,
        "nothing left, and no fault of the caller's"
    );

    // Deletion is of the exact key.
    let (longer, resource) = tier("t-longer", 1.0);
    store.commit(Write::create(longer.clone(), resource).into()).await.unwrap();
    write(Precondition::None, None).await.unwrap();
    assert!(store.get(&longer).await.is_ok());

    // A life time is a lease of whole seconds, one for each write; a write without one drops it.
    for (ttl, granted) in [(Duration::from_millis(90_900), 90), (Duration::from_millis(60_100), 60)] {
        let (key, resource) = tier("leased", 1.0);
        let change = crate::Change::Put { resource, base: None, ttl: Some(ttl) };
        let path = key::path(&key).unwrap();
        store.commit(Write { key, precondition: Precondition::None, change }.into()).await.unwrap();
        let lease = raw.get(path, None).await.unwrap().kvs()[0].lease();
        assert_eq!(raw.lease_client().time_to_live(lease, None).await.unwrap().granted_ttl(), granted);
    }
    let (key, resource) = tier("leased", 2.0);
    let path = key::path(&key).unwrap();
    store.commit(Write::put(key, Precondition::None, resource, None).into()).await.unwrap();
    assert_eq!(raw.get(path, None).await.unwrap().kvs()[0].lease(), 0);
}

/// Pages are of one revision though somebody writes meanwhile: two keys at both ends are always written together.
#[tokio::test]
async fn a_listing_of_pages_is_no_mixture() {
    let server = Server::start().await;
    let store = Arc::new(connect(&server).await);
    let writes = |names: Vec<String>, order: f64| -> Batch {
        let one = |name: String| {
            let (key, resource) = tier(&name, order);
            Write::put(key, Precondition::None, resource, None)
        };
        names.into_iter().map(one).collect::<Vec<_>>().into()
    };
    for batch in 0..11 {
        store.commit(writes((0..100).map(|one| format!("m{batch}-{one}")).collect(), 0.0)).await.unwrap();
    }
    let ends = || ["a".to_owned(), "z".to_owned()].to_vec();
    store.commit(writes(ends(), 0.0)).await.unwrap();
    let writer = tokio::spawn({
        let store = Arc::clone(&store);
        async move {
            for order in 1.. {
                store.commit(writes(ends(), f64::from(order))).await.unwrap();
            }
        }
    });
    let mut orders = std::collections::BTreeSet::new();
    while orders.len() < 10 {
        let listing = store.list(&Scope::Kind(Kind::Tier)).await.unwrap();
        assert_eq!(listing.entries.len(), 1102);
        let [first, last] =
            [listing.entries.first(), listing.entries.last()].map(|entry| entry.unwrap().as_ref().unwrap());
        assert_eq!(first.revision, last.revision);
        orders.insert(first.revision.raw());
    }
    writer.abort();
}
