//! Members that say nothing, or that nobody can reach: how soon that is known, and how it reads.

use calico_core::resource::Kind;
use calico_core::update::SyncStatus;

use super::relay::Relay;
use super::server::Server;
use super::*;
use crate::sync::{Diagnostic, SyncEvent, SyncOptions, Syncer};
use crate::testing::{free_address, tier};
use crate::{Precondition, Write};

fn put(name: &str) -> Batch {
    let (key, resource) = tier(name, 1.0);
    Write::put(key, Precondition::None, resource, None).into()
}

async fn at(endpoint: &str) -> Arc<EtcdStore> {
    let config = EtcdConfig { endpoints: vec![endpoint.to_owned()], ..EtcdConfig::default() };
    Arc::new(EtcdStore::connect(config).await.unwrap())
}

fn follow(store: &Arc<EtcdStore>) -> Syncer {
    Syncer::start(Arc::clone(store) as _, vec![Scope::Kind(Kind::Tier)], SyncOptions::default())
}

async fn in_sync(syncer: &mut Syncer) {
    let told = async { while syncer.next().await != Some(SyncEvent::Status(SyncStatus::InSync)) {} };
    crate::testing::within("in sync", told).await;
}

/// In sync, and past the moment between the listing and the watch.
async fn watching(store: &EtcdStore, syncer: &mut Syncer) {
    in_sync(syncer).await;
    store.commit(put("seen")).await.unwrap();
    let seen = async { while !matches!(syncer.next().await, Some(SyncEvent::Updates(_))) {} };
    crate::testing::within("a change", seen).await;
}

/// What is told of a lost datastore first, and that the picture does not count as current any more.
async fn told(syncer: &mut Syncer) -> String {
    let mut reason = None;
    loop {
        match syncer.next().await.unwrap() {
            SyncEvent::Diagnostic(Diagnostic::Unavailable { reason: told, .. }) => drop(reason.get_or_insert(told)),
            SyncEvent::Status(status) if status != SyncStatus::InSync => {
                return reason.expect("a reason before the status");
            }
            _ => {}
        }
    }
}

/// The process is there and its sockets are open, and nothing comes of them: a machine that swaps, a hypervisor that froze it.
#[tokio::test]
async fn a_server_that_is_stopped_is_noticed_though_nobody_asks_it_anything() {
    let server = Server::start().await;
    let endpoint = server.config().endpoints.remove(0);
    let store = at(&endpoint).await;
    let mut syncer = follow(&store);
    watching(&store, &mut syncer).await;
    server.signal("STOP");
    let reason = crate::testing::within("who only listens is told", told(&mut syncer)).await;
    assert!(reason.contains("datastore is unavailable: etcd watch at http://"), "{reason}");
    assert!(reason.contains(&endpoint), "{reason}");
    server.signal("CONT");
    in_sync(&mut syncer).await;
}

/// The same of a network that drops everything: a cut cable, a firewall.
#[tokio::test]
async fn a_network_that_swallows_everything_is_noticed() {
    let server = Server::start().await;
    let relay = Relay::start(&server.config().endpoints[0]).await;
    let store = at(&relay.url()).await;
    let mut syncer = follow(&store);
    watching(&store, &mut syncer).await;
    relay.hang();
    let reason = crate::testing::within("who only listens is told", told(&mut syncer)).await;
    assert!(reason.contains(&relay.url()), "{reason}");
}

/// What, of whom, and why: one sentence, without the library's types.
#[tokio::test]
async fn every_error_names_whom_was_asked_and_why_it_failed() {
    let dead = format!("http://{}", free_address());
    let store = at(&dead).await;
    let refused = "Connection refused (os error 111)";
    let errors = [
        ("list", store.list(&Scope::All).await.map(drop).unwrap_err()),
        ("get", store.get(&tier("t", 1.0).0).await.map(drop).unwrap_err()),
        ("commit", store.commit(put("t")).await.map(drop).unwrap_err()),
        ("watch", store.watch(&Scope::All, Revision::from_raw(1)).await.map(drop).unwrap_err()),
    ];
    for (operation, error) in errors {
        assert_eq!(error.chain(), format!("datastore is unavailable: etcd {operation} at {dead}: {refused}"));
    }

    let other = format!("http://{}", free_address());
    let config = EtcdConfig { endpoints: vec![dead.clone(), other.clone()], ..EtcdConfig::default() };
    let error = EtcdStore::connect(config).await.unwrap().list(&Scope::All).await.unwrap_err();
    let told = format!("datastore is unavailable: etcd list: none of its members answers ({dead}, {other}): {refused}");
    assert_eq!(error.chain(), told);

    let server = Server::start().await;
    let live = server.config().endpoints.remove(0);
    let relay = Relay::start(&live).await;
    let store = at(&relay.url()).await;
    store.list(&Scope::All).await.unwrap();
    relay.hang();
    let error = store.list(&Scope::All).await.unwrap_err();
    assert!(
        error.chain().starts_with(&format!("datastore is unavailable: etcd list at {}: ", relay.url())),
        "{error:?}"
    );
    for of_the_library in ["code:", "message:", "source:", "Status", "Error", "Kind", "hyper", "\""] {
        assert!(!error.chain().contains(of_the_library), "{}", error.chain());
    }

    let mut raw = Client::connect([&live], None).await.unwrap();
    raw.user_add("root", "secret", None).await.unwrap();
    raw.user_grant_role("root", "root").await.unwrap();
    raw.auth_enable().await.unwrap();
    let config = EtcdConfig { credentials: Some(("root".to_owned(), "guess".to_owned())), ..server.config() };
    let error = EtcdStore::connect(config).await.unwrap().list(&Scope::All).await.unwrap_err();
    let reason = "etcdserver: authentication failed, invalid user ID or password";
    assert_eq!(error.chain(), format!("datastore refuses: etcd log-in at {live}: {reason}"));
    let error = at(&live).await.list(&Scope::All).await.unwrap_err();
    assert_eq!(error.chain(), format!("datastore refuses: etcd list at {live}: etcdserver: user name is empty"));
    // A write of several megabytes is more than etcd takes.
    let Some(error) = at(&live).await.commit(put(&"x".repeat(4 << 20))).await.err() else { panic!("it was taken") };
    assert!(error.chain().contains(&live), "{}", error.chain());
}
