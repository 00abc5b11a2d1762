//! A store in a map, with revisions, conflicts and, on demand, batches that are carried out in part.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;
use std::collections::btree_map::Entry;

use crate::ipam::{
    Allocation, Assign, Assigned, Block, FamilyWant, Fetched, Found, Holder, IpamError, Machine, Op, Outcome, Query,
    ReleaseHandle, Released, Request, Step, Version, Want, Write,
};
use crate::net::Cidr;
use crate::resource::{
    AffinityOwner, AllowedUse, BlockAffinity, IpPool, IpPoolSpec, IpamBlock, IpamConfig, IpamHandle, Kind, Metadata,
    NodeSpec, ReportedObject, Resource, ResourceKey,
};
use crate::time::Timestamp;

pub(super) const NOW: Timestamp = Timestamp::from_secs(1_787_000_000);

#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    pub(super) objects: BTreeMap<ResourceKey, (Arc<Resource>, u64)>,
    pub(super) unreadable: BTreeSet<ResourceKey>,
    revision: u64,
}

impl Model {
    /// A store with pools, named `pool-0`, `pool-1` …
    pub(super) fn with_pools(pools: &[(&str, u8)]) -> Self {
        let mut model = Self::default();
        for (index, (cidr, length)) in pools.iter().enumerate() {
            let spec = IpPoolSpec { cidr: cidr.parse().unwrap(), block_size: Some(*length), ..Default::default() };
            model.put_pool(&alloc::format!("pool-{index}"), spec);
        }
        model
    }

    pub(super) fn put_pool(&mut self, name: &str, spec: IpPoolSpec) {
        self.put(ResourceKey::cluster(Kind::IpPool, name), Resource::IpPool(IpPool::named(name, spec)));
    }

    pub(super) fn put_node(&mut self, name: &str, labels: &[(&str, &str)]) {
        let labels = labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let metadata = Metadata { name: name.into(), labels, ..Default::default() };
        let node = ReportedObject::new(metadata, NodeSpec::default());
        self.put(ResourceKey::cluster(Kind::Node, name), Resource::Node(node.into()));
    }

    pub(super) fn put_config(&mut self, config: IpamConfig) {
        self.put(ResourceKey::IpamConfig, Resource::IpamConfig(config));
    }

    pub(super) fn put(&mut self, key: ResourceKey, resource: Resource) {
        self.revision += 1;
        self.objects.insert(key, (Arc::new(resource), self.revision));
    }

    /// Carries out an operation; of a commit only the first `limit` writes, as if the writer died then.
    pub(super) fn carry_out(&mut self, op: &Op, limit: usize) -> Outcome {
        match op {
            Op::Fetch(queries) => Outcome::Fetched(queries.iter().map(|query| self.fetch(query)).collect()),
            Op::Commit(writes) => self.commit(writes, limit),
        }
    }

    fn fetch(&self, query: &Query) -> Fetched {
        let wanted = |key: &ResourceKey| match (query, key) {
            (Query::Object(wanted), key) => wanted == key,
            (Query::Pools, key) => key.kind() == Kind::IpPool,
            (Query::Affinities(wanted), ResourceKey::Affinity { owner, .. }) => wanted == owner,
            (Query::Blocks(prefix), ResourceKey::Block(block)) => prefix.covers(block),
            _ => false,
        };
        let found = self.objects.iter().filter(|(key, _)| wanted(key)).map(|(key, (resource, revision))| {
            let found = if self.unreadable.contains(key) {
                Found::Unreadable { reason: "garbled".into() }
            } else {
                Found::Present { resource: resource.clone(), version: Version::from_raw(*revision) }
            };
            (key.clone(), found)
        });
        Fetched { query: query.clone(), found: found.collect() }
    }

    fn commit(&mut self, writes: &[Write], limit: usize) -> Outcome {
        let distinct: BTreeSet<_> = writes.iter().map(|write| &write.key).collect();
        assert_eq!(distinct.len(), writes.len(), "no key twice in a batch");
        let revision = |key: &ResourceKey| self.objects.get(key).map(|(_, revision)| Version::from_raw(*revision));
        if writes.iter().any(|write| revision(&write.key) != write.expected) {
            return Outcome::Conflict;
        }
        for Write { key, resource, .. } in writes.iter().take(limit) {
            match resource {
                Some(resource) => self.put(key.clone(), resource.clone()),
                None => drop(self.objects.remove(key)),
            }
        }
        Outcome::Committed
    }

    /// Runs a request to its end, alone.
    pub(super) fn run<R: Request>(&mut self, request: R) -> Result<R::Output, IpamError> {
        let mut machine = Machine::new(request);
        for _ in 0..200 {
            let op = match machine.poll() {
                Step::Do(op) => op,
                Step::Done(result) => return result,
            };
            let outcome = self.carry_out(&op, usize::MAX);
            if let Some(output) = machine.handle_outcome(outcome) {
                return Ok(output);
            }
        }
        panic!("the machine does not end");
    }

    pub(super) fn release(&mut self, handle: &str) -> Released {
        self.run(ReleaseHandle { handle: handle.into(), now: NOW }).unwrap()
    }

    pub(super) fn stored_block(&self, cidr: &str) -> &IpamBlock {
        match self.objects.get(&ResourceKey::Block(cidr.parse().unwrap())).map(|(resource, _)| resource.as_ref()) {
            Some(Resource::IpamBlock(block)) => block,
            other => panic!("no block {cidr}: {other:?}"),
        }
    }

    pub(super) fn stored_handle(&self, id: &str) -> Option<&IpamHandle> {
        match self.objects.get(&ResourceKey::Handle(id.into())).map(|(resource, _)| resource.as_ref()) {
            Some(Resource::IpamHandle(handle)) => Some(handle),
            _ => None,
        }
    }

    pub(super) fn affinity(&self, node: &str, cidr: &str) -> Option<BlockAffinity> {
        let key = ResourceKey::Affinity { owner: host(node), block: cidr.parse().unwrap() };
        match self.objects.get(&key).map(|(resource, _)| resource.as_ref()) {
            Some(Resource::BlockAffinity(affinity)) => Some(affinity.clone()),
            _ => None,
        }
    }

    /// Who holds what, from the blocks. Every block must be consistent.
    pub(super) fn holders(&self) -> BTreeMap<IpAddr, alloc::string::String> {
        let mut holders = BTreeMap::new();
        for (cidr, block) in self.blocks() {
            let mut index = 0;
            while let Some(address) = crate::ipam::address::at(cidr, index) {
                index += 1;
                if let Some(Allocation::Held(attribute)) = block.allocation(address) {
                    match holders.entry(address) {
                        Entry::Vacant(free) => drop(free.insert(attribute.handle_id.clone().unwrap())),
                        Entry::Occupied(_) => panic!("{address} is in two blocks"),
                    }
                }
            }
        }
        holders
    }

    pub(super) fn blocks(&self) -> Vec<(Cidr, Block)> {
        let blocks = self.objects.iter().filter_map(|(key, (resource, _))| match (key, resource.as_ref()) {
            (ResourceKey::Block(cidr), Resource::IpamBlock(block)) if !self.unreadable.contains(key) => {
                Some((*cidr, Block::admit(*cidr, block).unwrap()))
            }
            _ => None,
        });
        blocks.collect()
    }

    /// Whether each handle counts at least what blocks hold for it, and, if `exact`, no more.
    pub(super) fn check_handles(&self, exact: bool) {
        let mut real: BTreeMap<(alloc::string::String, Cidr), u32> = BTreeMap::new();
        for (address, handle) in self.holders() {
            let cidr = self.blocks().into_iter().find(|(cidr, _)| cidr.contains(address)).unwrap().0;
            *real.entry((handle, cidr)).or_default() += 1;
        }
        for ((handle, cidr), count) in &real {
            let counted = self.stored_handle(handle).and_then(|stored| stored.block.get(cidr)).copied();
            assert!(counted >= Some(*count), "{handle} counts {counted:?} of {count} in {cidr}");
        }
        if exact {
            for (key, (resource, _)) in &self.objects {
                if let (ResourceKey::Handle(id), Resource::IpamHandle(handle)) = (key, resource.as_ref()) {
                    assert!(!handle.block.is_empty(), "{id} is empty");
                    for (cidr, count) in &handle.block {
                        assert_eq!(real.get(&(id.to_string(), *cidr)), Some(count), "{id} in {cidr}");
                    }
                }
            }
        }
    }

    /// Whether every confirmed claim has a block of its owner, and every block's owner a claim.
    pub(super) fn check_affinities(&self) {
        let mut claims = BTreeSet::new();
        for (key, (resource, _)) in &self.objects {
            if let (ResourceKey::Affinity { owner, block }, Resource::BlockAffinity(affinity)) =
                (key, resource.as_ref())
            {
                assert!(affinity.is_confirmed(), "{key} is not confirmed");
                let stored = self.stored_block(&block.to_string());
                assert_eq!(stored.affinity.as_deref(), Some(owner.to_string().as_str()), "{key}");
                claims.insert(*block);
            }
        }
        for (cidr, block) in self.blocks() {
            assert!(block.affinity().is_none() || claims.contains(&cidr), "no claim for {cidr}");
        }
    }
}

pub(super) fn host(name: &str) -> AffinityOwner {
    AffinityOwner::Host(name.into())
}

pub(super) fn assign(node: &str, handle: &str, v4: u32, v6: u32) -> Assign {
    let any = |count| FamilyWant { count, pools: Vec::new() };
    Assign {
        node: node.into(),
        namespace_labels: None,
        holder: Holder { handle: handle.into(), attributes: [("node".into(), node.into())].into() },
        want: Want::Any { v4: any(v4), v6: any(v6) },
        intended_use: AllowedUse::Workload,
        max_blocks: 0,
        seed: 0,
        now: NOW,
    }
}

pub(super) fn addresses(assigned: &[Assigned]) -> Vec<alloc::string::String> {
    assigned.iter().map(|one| one.address.to_string()).collect()
}
