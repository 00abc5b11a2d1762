//! What an agent is made of.

use std::sync::Arc;

use calico_bgp::BgpBackend;
use calico_core::bgp::RouterIdSource;
use calico_core::net::InterfaceList;
use calico_core::render::PolicyRenderer;
use calico_core::verdict::Settings;
use calico_dataplane::Dataplane;
use calico_dataplane::reconcile::ReconcileConfig;
use calico_datastore::Datastore;
use calico_datastore::sync::SyncOptions;

use crate::metrics::Metrics;

/// What an agent is made of. An embedder brings any implementation of each seam.
#[expect(clippy::exhaustive_structs, reason = "callers build it with a literal; a new part must be thought about")]
pub struct Parts {
    /// Node name.
    pub node: String,
    /// Where resources come from.
    pub store: Arc<dyn Datastore>,
    /// What carries out tables and routes.
    pub dataplane: Box<dyn Dataplane>,
    /// What speaks BGP; none means policy only.
    pub bgp: Option<Box<dyn BgpBackend>>,
    /// Port that BGP peers listen on.
    pub bgp_port: u16,
    /// Where the BGP identifier of this node comes from.
    pub router_id: RouterIdSource,
    /// What turns active policy into tables.
    pub renderer: Box<dyn PolicyRenderer + Send>,
    /// Interfaces whose addresses do not tell which host endpoint has them.
    pub excluded_interfaces: InterfaceList,
    /// How the host is reconciled.
    pub reconcile: ReconcileConfig,
    /// With the settings of this host, connections end that policy denies although they have begun.
    pub end_denied_connections: Option<Settings>,
    /// How the datastore is followed.
    pub sync: SyncOptions,
    /// Where figures go.
    pub metrics: Arc<Metrics>,
}
