//! ADD, DEL, CHECK and STATUS of address management.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use calico_core::cni::{CniError, CniResult, ErrorCode, IpConfig, Request, Route, handle_id, stale_containers};
use calico_core::ipam::{Assign, Assigned, FamilyWant, HeldBy, Holder, PoolRef, ReleaseHandle, Want};
use calico_core::net::Cidr;
use calico_core::resource::{AllowedUse, Kind, NodeAddress, Resource};
use calico_core::time::Timestamp;
use calico_datastore::ipam::{Ipam, StoreIpam};
use calico_datastore::{Datastore, Scope};

use crate::lock;
use crate::plugin::{datastore_failure, ipam_failure, warn};

/// The plugin's work, over any source of addresses.
pub struct Allocator {
    ipam: Arc<dyn Ipam>,
}

impl Allocator {
    /// Over a datastore's pools.
    pub fn new(store: Arc<dyn Datastore>, seed: u64) -> Self {
        // Most often a local file; to etcd the few reads of one ADD in turn are a matter of round trips on a local network.
        Self::over(Arc::new(StoreIpam::new(store, seed).reading_one_by_one()))
    }

    /// Over any source.
    pub const fn over(ipam: Arc<dyn Ipam>) -> Self {
        Self { ipam }
    }

    /// Assigns what the configuration asks for; the same again if the container has it already.
    pub async fn add(&self, request: &Request, node: &str, now: Timestamp) -> Result<CniResult, CniError> {
        let assign = Assign {
            node: node.into(),
            // Only the Kubernetes API has them, and there is none.
            namespace_labels: None,
            holder: Holder { handle: handle(request), attributes: attributes(request, node, now) },
            want: want(request),
            intended_use: AllowedUse::Workload,
            max_blocks: 0,
            seed: 0,
            now,
        };
        let _lock = lock::acquire(&request.conf);
        let assigned = self.ipam.assign(assign).await.map_err(|failure| ipam_failure(&failure))?;
        Ok(result(&assigned, request.args.ip))
    }

    /// Releases what the container holds. Nothing is fine.
    pub async fn del(&self, request: &Request, now: Timestamp) -> Result<(), CniError> {
        let _lock = lock::acquire(&request.conf);
        // The second is the handle of version 2 and early version 3; looked for only where the first holds nothing.
        for handle in [handle(request), old_handle(request)] {
            let release = ReleaseHandle { handle: handle.clone(), now };
            let released = self.ipam.release_handle(release).await.map_err(|failure| ipam_failure(&failure))?;
            for (block, reason) in &released.unusable {
                warn(format_args!(
                    "handle {handle} keeps its addresses in block {block}, which cannot be used: {reason}"
                ));
            }
            if !released.released.is_empty() || !released.unusable.is_empty() {
                break;
            }
        }
        Ok(())
    }

    /// Releases what containers of this node hold in the network that the runtime does not know any more. Not that of `kept`: something
    /// else still names their addresses. One failure does not keep the rest.
    pub async fn gc(
        &self,
        store: &dyn Datastore,
        request: &Request,
        node: &str,
        kept: &BTreeSet<String>,
        now: Timestamp,
    ) -> Result<(), CniError> {
        let (conf, valid) = (&request.conf, request.conf.valid_attachments()?);
        let listing = store.list(&Scope::Kind(Kind::IpamBlock)).await;
        let listing = listing.map_err(|error| datastore_failure("cannot list IPAM blocks", &error))?;
        let mut containers = BTreeSet::new();
        for stored in listing.entries.iter().flatten() {
            if let Resource::IpamBlock(block) = stored.resource.as_ref() {
                containers.extend(stale_containers(block, &conf.name, node, valid).map(ToOwned::to_owned));
            }
        }
        let _lock = lock::acquire(conf);
        let mut failures = Vec::new();
        for container in containers.difference(kept) {
            let release = ReleaseHandle { handle: handle_id(&conf.name, container), now };
            failures.extend(self.ipam.release_handle(release).await.err().map(|failure| ipam_failure(&failure)));
        }
        CniError::join(failures)
    }

    /// Whether the container holds every address of its result.
    pub async fn check(&self, request: &Request) -> Result<(), CniError> {
        let handle = handle(request);
        let held = self.ipam.held_by(HeldBy { handle: handle.clone() }).await;
        let held = held.map_err(|failure| ipam_failure(&failure))?;
        let held: BTreeSet<_> = held.iter().map(|assigned| assigned.address).collect();
        let expected = match &request.conf.prev_result {
            Some(document) => CniResult::from_json(document, request.version)?.ips,
            None => Vec::new(),
        };
        let missing: Vec<_> =
            expected.iter().map(|ip| ip.address.address()).filter(|address| !held.contains(address)).collect();
        if !held.is_empty() && missing.is_empty() {
            return Ok(());
        }
        if held.is_empty() {
            return Err(CniError::new(ErrorCode::UnknownContainer, format!("handle {handle} holds no address")));
        }
        let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
        Err(CniError::new(ErrorCode::Internal, format!("handle {handle} does not hold {}", missing.join(", "))))
    }
}

/// Whether an ADD could be served: the datastore answers and has a pool that may be used.
pub async fn status(store: &dyn Datastore) -> Result<(), CniError> {
    let unavailable = |message: String| CniError::new(ErrorCode::NotAvailable, message);
    let listing = store.list(&Scope::Kind(Kind::IpPool)).await;
    let listing = listing.map_err(|error| unavailable(datastore_failure("cannot list IP pools", &error).msg))?;
    let mut pools = listing.entries.iter().flatten();
    let is_usable = |resource: &Resource| matches!(resource, Resource::IpPool(pool) if pool.is_allocatable());
    if pools.any(|stored| is_usable(&stored.resource)) {
        return Ok(());
    }
    Err(unavailable("there is no enabled IPPool to assign addresses from".into()))
}

fn handle(request: &Request) -> Arc<str> {
    handle_id(&request.conf.name, &request.container_id)
}

fn old_handle(request: &Request) -> Arc<str> {
    let args = &request.args;
    if args.pod_name.is_empty() || args.pod_namespace.is_empty() {
        return request.container_id.as_str().into();
    }
    format!("{}.{}", args.pod_namespace, args.pod_name).into()
}

/// What upstream stores with each address; its controllers collect garbage by it.
fn attributes(request: &Request, node: &str, now: Timestamp) -> BTreeMap<String, String> {
    let mut attributes = BTreeMap::from([("node".into(), node.into()), ("timestamp".into(), now.go_text())]);
    let args = &request.args;
    if !args.pod_name.is_empty() && !args.pod_namespace.is_empty() {
        attributes.insert("pod".into(), args.pod_name.clone());
        attributes.insert("namespace".into(), args.pod_namespace.clone());
    }
    attributes
}

fn want(request: &Request) -> Want {
    if let Some(address) = request.args.ip {
        return Want::Address(address);
    }
    let ipam = &request.conf.ipam;
    let of = |wanted: bool, pools: &[String]| FamilyWant {
        count: u32::from(wanted),
        pools: pools.iter().map(|pool| PoolRef::parse(pool)).collect(),
    };
    Want::Any {
        v4: of(ipam.assign_ipv4.unwrap_or(true), &ipam.ipv4_pools),
        v6: of(ipam.assign_ipv6.unwrap_or(false), &ipam.ipv6_pools),
    }
}

/// Addresses with their block's prefix length; an address that was asked for has full length. Each is a route as well, of that same
/// text, as upstream's (`cni-plugin/pkg/ipamplugin/ipam_plugin.go`). They are no routes of
/// the container: a result without them tells `calico` that the workload's route is still another host's (live migration).
fn result(assigned: &[Assigned], asked: Option<IpAddr>) -> CniResult {
    let network = |one: &Assigned| if asked.is_some() { Cidr::host(one.address) } else { one.block };
    let addresses = assigned.iter().filter_map(|one| NodeAddress::new(one.address, network(one).length()));
    let addresses = Vec::from_iter(addresses);
    let ips = addresses.iter().map(|address| IpConfig { interface: None, address: *address, gateway: None });
    let routes = addresses.iter().map(|address| Route { dst: *address, gw: None });
    CniResult { ips: ips.collect(), routes: routes.collect(), ..CniResult::default() }
}
