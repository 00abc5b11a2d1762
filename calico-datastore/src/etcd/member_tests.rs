//! Several members, members that die, and the history that goes on meanwhile: against real servers.

use std::net::TcpListener;
use std::time::Duration;

use calico_core::resource::Kind;
use etcd_client::CompactionOptions;

use super::relay::Relay;
use super::server::{Server, insist};
use super::*;
use crate::testing::{free_address, network_set, next, tier};
use crate::{Precondition, WatchEvent, Write};

fn put(name: &str) -> Batch {
    let (key, resource) = tier(name, 1.0);
    Write::put(key, Precondition::None, resource, None).into()
}

fn url(listener: &TcpListener) -> String {
    format!("http://{}", listener.local_addr().unwrap())
}

fn of(endpoints: Vec<String>) -> EtcdConfig {
    EtcdConfig { endpoints, ..EtcdConfig::default() }
}

#[tokio::test]
async fn a_member_that_is_dead_is_passed_over() {
    let server = Server::start().await;
    let live = server.config().endpoints.remove(0);
    let dead = format!("http://{}", free_address());
    for endpoints in [
        vec![dead.clone(), live.clone()],
        vec![live.clone(), dead.clone()],
        vec![dead.clone(), dead.clone(), live.clone()],
    ] {
        // Each sort of request as the first one.
        let connect = async || EtcdStore::connect(of(endpoints.clone())).await.unwrap();
        connect().await.commit(put("t")).await.expect("a write that was not sent goes to the next member");
        assert!(connect().await.get(&tier("t", 1.0).0).await.is_ok());
        let listing = connect().await.list(&Scope::All).await.unwrap();
        let mut watch = connect().await.watch(&Scope::All, listing.revision).await.unwrap();
        let store = connect().await;
        for _ in 0..10 {
            store.commit(put("t")).await.expect("and so do all that follow");
        }
        assert!(matches!(next(&mut watch).await, WatchEvent::Put(Ok(_))));
    }
    let error = EtcdStore::connect(of(vec![dead.clone(), dead])).await.unwrap().list(&Scope::All).await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
}

/// Members that take connections and never say a word: each costs a read or a watch a moment, and a write nothing worse.
#[tokio::test]
async fn members_that_hang_are_passed_over() {
    let server = Server::start().await;
    let mute: Vec<_> = (0..6).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let endpoints: Vec<_> = mute.iter().map(url).chain(server.config().endpoints).collect();
    // Each sort of request as the first one. To wait for each of the mute ones would take twice as long as this has.
    let connect = async || EtcdStore::connect(of(endpoints.clone())).await.unwrap();
    let patience = 3 * DEADLINE;
    let written = tokio::time::timeout(patience, async { connect().await.commit(put("t")).await });
    written.await.expect("a write goes past who says nothing").unwrap();
    let read = async {
        let store = connect().await;
        store.get(&tier("t", 1.0).0).await.unwrap();
        // All that follows goes where the last one was answered.
        let asked = store.members.turn();
        for _ in 0..10 {
            store.commit(put("t")).await.unwrap();
        }
        assert_eq!(store.members.turn(), asked);
    };
    let listed = async { drop(connect().await.list(&Scope::All).await.unwrap()) };
    let watched = async { drop(connect().await.watch(&Scope::All, Revision::from_raw(1)).await.unwrap()) };
    let all = async { tokio::join!(read, listed, watched) };
    tokio::time::timeout(patience, all).await.expect("who reads or watches goes past who says nothing");
}

/// The member's answer to a write is lost: the caller is told so, and nobody writes it a second time.
#[tokio::test]
async fn a_write_that_was_not_answered_is_not_sent_again() {
    let server = Server::start().await;
    let live = server.config().endpoints.remove(0);
    // Between a sign of life and the write must be less than a second, which a busy machine may miss: then it goes elsewhere.
    for round in 0.. {
        let relay = Relay::start(&live).await;
        let store = EtcdStore::connect(of(vec![relay.url(), live.clone()])).await.unwrap();
        store.commit(put("before")).await.unwrap();
        relay.lose_answers();
        let name = format!("once-{round}");
        let Err(error) = store.commit(put(&name)).await else { continue };
        assert!(matches!(error, DatastoreError::Undecided { .. }), "{error:?}");
        let mut raw = Client::connect(server.config().endpoints, None).await.unwrap();
        let found = raw.get(key::path(&tier(&name, 1.0).0).unwrap(), None).await.unwrap();
        assert_eq!(found.kvs()[0].version(), 1, "it had arrived, once");
        store.commit(put("after")).await.expect("the next one goes elsewhere");
        break;
    }
}

/// A watch is not left at a member that hangs, however quiet it is.
#[tokio::test]
async fn a_watch_leaves_a_member_that_hangs() {
    let server = Server::start().await;
    let live = server.config().endpoints.remove(0);
    let relay = Relay::start(&live).await;
    let store = EtcdStore::connect(of(vec![relay.url(), live])).await.unwrap();
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut watch = store.watch(&Scope::All, from).await.unwrap();
    relay.hang();
    let other = EtcdStore::connect(server.config()).await.unwrap();
    other.commit(put("meanwhile")).await.unwrap();
    assert_eq!(next(&mut watch).await.key(), Some(&tier("meanwhile", 1.0).0));
}

/// Which member leads, once one does.
async fn leader(servers: &[Server]) -> usize {
    let found = async {
        loop {
            for (number, server) in servers.iter().enumerate() {
                let mut raw = Client::connect(server.config().endpoints, None).await.unwrap();
                let status = raw.status().await.unwrap();
                if status.header().unwrap().member_id() == status.leader() {
                    return number;
                }
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    crate::testing::within("the election of a leader", found).await
}

/// Writes until it works.
async fn write(store: &EtcdStore, name: &str) -> Revision {
    insist(async || store.commit(put(name)).await).await[0].revision
}

#[tokio::test]
async fn a_cluster_whose_leader_dies_goes_on_and_so_do_its_watches() {
    let mut servers = Server::cluster(3).await;
    let leader = leader(&servers).await;
    // The one that dies is asked first.
    let order = [leader, (leader + 1) % 3, (leader + 2) % 3];
    let endpoints: Vec<_> = order.iter().flat_map(|number| servers[*number].config().endpoints).collect();
    let store = EtcdStore::connect(of(endpoints)).await.unwrap();
    let from = write(&store, "before").await;
    let mut watch = insist(async || store.watch(&Scope::All, from).await).await;
    servers[leader].kill();
    write(&store, "after").await;
    assert_eq!(next(&mut watch).await.key(), Some(&tier("after", 1.0).0), "the same watch, without a gap");

    // The majority is lost and comes back.
    servers[order[1]].kill();
    assert!(store.list(&Scope::All).await.unwrap_err().is_retryable());
    servers[order[1]].restart();
    write(&store, "late").await;
    let listing = insist(async || store.list(&Scope::All).await).await;
    assert_eq!(listing.entries.len(), 3, "nothing that was acknowledged is lost");
}

/// A watch that sees nothing for long is told how far it is, so that a compaction meanwhile does not concern it.
#[tokio::test]
async fn a_quiet_watch_keeps_up_with_compactions() {
    let extra = ["--experimental-watch-progress-notify-interval=200ms".to_owned()].to_vec();
    let mut server = Server::spawn("http", extra, tempfile::tempdir().unwrap());
    server.ready(server.config()).await;
    let store = EtcdStore::connect(server.config()).await.unwrap();
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut quiet = store.watch(&Scope::Kind(Kind::NetworkSet), from).await.unwrap();
    let mut newest = from;
    for round in 0..20 {
        newest = store.commit(put(&format!("t{round}"))).await.unwrap()[0].revision;
    }
    let caught_up = async {
        loop {
            match quiet.next().await.unwrap() {
                WatchEvent::Progress(revision) if revision == newest => break,
                WatchEvent::Progress(_) => {}
                other => panic!("nothing happened here: {other:?}"),
            }
        }
    };
    crate::testing::within("news of how far the watch is", caught_up).await;
    let mut raw = Client::connect(server.config().endpoints, None).await.unwrap();
    raw.compact(to_etcd(newest), Some(CompactionOptions::new().with_physical())).await.unwrap();
    server.restart();
    server.ready(server.config()).await;
    let (key, set) = network_set("n", "s");
    let put = || Write::put(key.clone(), Precondition::None, set.clone(), None).into();
    insist(async || store.commit(put()).await).await;
    assert_eq!(next(&mut quiet).await.key(), Some(&key), "taken up again behind the compaction");

    // One that knows no better than the start is told at once.
    let late = store.watch(&Scope::Kind(Kind::NetworkSet), from).await;
    let told = match late {
        Ok(mut watch) => crate::testing::within("the compaction", watch.next()).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(matches!(told, DatastoreError::TooOld { revision } if revision == from), "{told:?}");
}

/// A copy of last week's data comes back under the watch, whose revisions are in its future.
#[tokio::test]
async fn a_store_that_went_back_in_time_is_noticed() {
    let mut server = Server::start().await;
    let store = EtcdStore::connect(server.config()).await.unwrap();
    for name in ["a", "b", "c"] {
        store.commit(put(name)).await.unwrap();
    }
    let from = store.list(&Scope::All).await.unwrap().revision;
    let mut watch = store.watch(&Scope::All, from).await.unwrap();
    server.kill();
    std::fs::remove_dir_all(server.directory.path().join("data")).unwrap();
    server.restart();
    server.ready(server.config()).await;
    match watch.next().await {
        Err(DatastoreError::TooOld { revision }) => assert_eq!(revision, from),
        other => panic!("{other:?}"),
    }
}
