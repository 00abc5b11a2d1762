//! `StoreIpam` over the memory and the embedded store: the contract, many tasks at once, and faults.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use calico_core::ipam::{Assign, HeldBy, ReleaseHandle};
use calico_core::net::Cidr;
use calico_core::resource::{IpPool, IpPoolSpec, IpamHandle, Kind, Resource, ResourceKey};
use serde_json::Value;

use super::conformance::{NOW, request};
use super::{Ipam, StoreIpam, conformance};
use crate::memory::MemoryStore;
use crate::{Batch, Change, Datastore, Precondition, Scope, Stored, Write};

async fn with_pools(store: Arc<dyn Datastore>, pools: &[(&str, u8)]) -> Arc<dyn Datastore> {
    let writes = pools.iter().enumerate().map(|(index, (cidr, length))| {
        let name = format!("pool-{index}");
        let spec = IpPoolSpec { cidr: cidr.parse().unwrap(), block_size: Some(*length), ..IpPoolSpec::default() };
        Write {
            key: ResourceKey::cluster(Kind::IpPool, &name),
            precondition: Precondition::Absent,
            change: Change::Put {
                resource: Arc::new(Resource::IpPool(IpPool::named(&name, spec))),
                base: None,
                ttl: None,
            },
        }
    });
    let writes = writes.collect();
    store.commit(Batch { writes }).await.unwrap();
    store
}

const POOLS: [(&str, u8); 2] = [("10.0.0.0/24", 28), ("fd00::/120", 124)];

async fn stored(store: &Arc<dyn Datastore>, kind: Kind) -> Vec<Stored> {
    store.list(&Scope::Kind(kind)).await.unwrap().entries.into_iter().map(Result::unwrap).collect()
}

/// Who holds what, by the blocks.
async fn holders(store: &Arc<dyn Datastore>) -> BTreeMap<(Cidr, usize), String> {
    let mut holders = BTreeMap::new();
    for stored in stored(store, Kind::IpamBlock).await {
        let Resource::IpamBlock(block) = stored.resource.as_ref() else { panic!("{stored:?}") };
        for (ordinal, index) in block.allocations.iter().enumerate() {
            if let Some(index) = index {
                holders.insert((block.cidr, ordinal), block.attributes[*index].handle_id.clone().unwrap());
            }
        }
    }
    holders
}

#[tokio::test]
async fn conforms_over_the_memory_store() {
    let store = with_pools(Arc::new(MemoryStore::new()), &POOLS).await;
    conformance::run(&StoreIpam::new(store.clone(), 0)).await;
    assert!(holders(&store).await.is_empty());
    assert!(stored(&store, Kind::IpamHandle).await.is_empty());
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn conforms_over_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = crate::sqlite::SqliteStore::open(&folder.path().join("calico.db")).unwrap();
    let store = with_pools(Arc::new(store), &POOLS).await;
    conformance::run(&StoreIpam::new(store, 0).reading_one_by_one()).await;
}

/// Many handles of four nodes at once, each assigned, asked again and, every other one, released.
async fn contend(stores: &[Arc<dyn Datastore>], handles: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for index in 0..handles {
        let store = stores[index % stores.len()].clone();
        tasks.spawn(async move {
            let ipam = StoreIpam::new(store, index.try_into().unwrap());
            let handle = format!("handle-{index}");
            let node = format!("node-{}", index % 4).as_str().into();
            let assign = Assign { node, ..request(&handle, 1, 1) };
            let first = ipam.assign(assign.clone()).await.unwrap();
            assert_eq!(ipam.assign(assign).await.unwrap(), first, "{handle}");
            if index % 2 == 0 {
                return Vec::from_iter(first.into_iter().map(|one| (one.address, handle.clone())));
            }
            let released =
                ipam.release_handle(ReleaseHandle { handle: handle.as_str().into(), now: NOW }).await.unwrap();
            assert_eq!(released.released.len(), 2, "{handle}");
            Vec::new()
        });
    }
    let told: Vec<(IpAddr, String)> = tasks.join_all().await.into_iter().flatten().collect();
    let distinct: BTreeSet<_> = told.iter().map(|(address, _)| *address).collect();
    assert_eq!(distinct.len(), told.len(), "an address was handed out twice");
    assert_eq!(told.len(), handles.div_ceil(2) * 2);
    let store = &stores[0];
    assert_eq!(holders(store).await.len(), told.len());
    let counted = stored(store, Kind::IpamHandle).await.into_iter().map(|stored| match stored.resource.as_ref() {
        Resource::IpamHandle(IpamHandle { block, .. }) => block.values().sum::<u32>(),
        other => panic!("{other:?}"),
    });
    assert_eq!(Vec::from_iter(counted), vec![2; handles.div_ceil(2)], "handles count exactly");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_over_the_memory_store() {
    let store = with_pools(Arc::new(MemoryStore::new()), &[("10.0.0.0/20", 26), ("fd00::/116", 122)]).await;
    contend(&[store], 64).await;
}

/// Two connections to one file, as two processes would have.
#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_over_the_embedded_store() {
    let folder = tempfile::tempdir().unwrap();
    let open = || crate::sqlite::SqliteStore::open(&folder.path().join("calico.db")).unwrap();
    let first = with_pools(Arc::new(open()), &[("10.0.0.0/20", 26), ("fd00::/116", 122)]).await;
    contend(&[first, Arc::new(open())], 32).await;
}

#[tokio::test]
async fn conflicts_are_retried_and_a_lost_answer_is_found_again() {
    let memory = Arc::new(MemoryStore::new());
    let store = with_pools(memory.clone(), &POOLS).await;
    let ipam = StoreIpam::new(store.clone(), 0);
    memory.faults().conflict_next(6);
    let first = ipam.assign(request("a", 1, 0)).await.unwrap();
    assert_eq!(first.len(), 1);

    memory.faults().lose_answer_next(1);
    assert!(ipam.assign(request("b", 1, 0)).await.unwrap_err().is_retryable());
    let held = ipam.held_by(HeldBy { handle: "b".into() }).await.unwrap();
    assert_eq!(ipam.assign(request("b", 1, 0)).await.unwrap(), held);
    assert_eq!(holders(&store).await.len(), 2);

    memory.faults().conflict_next(100);
    let error = ipam.assign(request("c", 1, 0)).await.unwrap_err();
    assert!(error.is_retryable() && !error.is_exhausted(), "{error}");
}

#[tokio::test]
async fn fields_of_newer_versions_survive() {
    let memory = Arc::new(MemoryStore::new());
    let store = with_pools(memory.clone(), &POOLS).await;
    let ipam = StoreIpam::new(store.clone(), 0);
    let block = ipam.assign(request("a", 1, 0)).await.unwrap()[0].block;
    let key = ResourceKey::Block(block);
    let mut document = Value::clone(&store.get(&key).await.unwrap().raw);
    document["newField"] = "kept".into();
    memory.inject(key.clone(), document.to_string().as_bytes());
    ipam.assign(request("b", 1, 0)).await.unwrap();
    let after = store.get(&key).await.unwrap();
    assert_eq!(after.raw["newField"], "kept");
    assert_eq!(after.raw["allocations"].as_array().unwrap().iter().filter(|one| !one.is_null()).count(), 2);
}
