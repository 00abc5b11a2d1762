//! A host, a container and a datastore.

use std::path::PathBuf;
use std::sync::Arc;

use calico_core::resource::{IpPool, IpPoolSpec, Kind, Resource, ResourceKey};
use calico_dataplane::netns::Netns;
use calico_dataplane::testing::netns::scratch;
use calico_datastore::sqlite::SqliteStore;
use calico_datastore::{Batch, Change, Datastore, Precondition, Scope, Write};
use calico_ipam::plugin::Variables;
use serde_json::{Value, json};

pub(super) const CONTAINER: &str = "0123456789abcdef";

/// Real namespaces and a real embedded datastore. Needs root.
pub(super) struct Scene {
    pub(super) host: Netns,
    pub(super) container: Netns,
    pub(super) folder: tempfile::TempDir,
    pub(super) args: String,
    pub(super) container_id: String,
}

impl Scene {
    pub(super) fn new() -> Self {
        let scene = Self {
            host: scratch(),
            container: scratch(),
            folder: tempfile::tempdir().unwrap(),
            args: String::new(),
            container_id: CONTAINER.into(),
        };
        block_on(put_pools(&scene.store()));
        scene
    }

    pub(super) fn store(&self) -> Arc<dyn Datastore> {
        Arc::new(SqliteStore::open(&self.folder.path().join("calico.db")).unwrap())
    }

    pub(super) fn conf(&self) -> Value {
        let path = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        json!({
            "cniVersion": "1.1.0", "name": "net1", "type": "calico", "nodename": "node-1", "mtu": 1440,
            "datastore_type": "sqlite", "datastore_path": path("calico.db"), "ipam_lock_file": path("ipam.lock"),
            "control_socket": path("none.sock"), "policy_setup_timeout_seconds": 0,
            "ipam": {"type": "calico-ipam", "assign_ipv6": "true"},
            "args": {"org.apache.mesos": {"network_info": {"labels": {"labels": [{"key": "app", "value": "web"}]}}}},
        })
    }

    /// Acts as the plugin on the host: exit code and what it printed.
    pub(super) fn act(&self, command: &str, conf: &Value) -> (u8, String) {
        let pairs = [
            ("CNI_COMMAND", command.to_owned()),
            ("CNI_CONTAINERID", self.container_id.clone()),
            ("CNI_NETNS", self.container.path().to_str().unwrap().to_owned()),
            ("CNI_IFNAME", "eth0".to_owned()),
            ("CNI_PATH", self.folder.path().to_str().unwrap().to_owned()),
            ("CNI_ARGS", self.args.clone()),
        ];
        self.act_with(&pairs.map(|(name, value)| (name.to_owned(), value)).into(), conf)
    }

    pub(super) fn act_with(&self, variables: &Variables, conf: &Value) -> (u8, String) {
        let stdin = conf.to_string();
        let act = || {
            let mut stdout = Vec::new();
            let code = crate::run(variables, &mut stdin.as_bytes(), &mut stdout);
            (code, String::from_utf8(stdout).unwrap())
        };
        self.host.run(act).unwrap()
    }

    pub(super) fn add(&self) -> Value {
        let (code, output) = self.act("ADD", &self.conf());
        assert_eq!(code, 0, "{output}");
        serde_json::from_str(&output).unwrap()
    }

    /// Names of the interfaces in a namespace, less those that every namespace has.
    pub(super) fn interfaces(netns: &Netns) -> Vec<String> {
        let read = || std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let names = netns.run(read).unwrap();
        let names =
            names.lines().skip(2).filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim().to_owned());
        names.filter(|name| name.starts_with("eth") || name.starts_with("cali")).collect()
    }

    /// Everything in the datastore that an attachment leaves, as its keys print.
    pub(super) fn traces(&self) -> Vec<String> {
        block_on(traces(&*self.store()))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Pools for both families.
pub(super) async fn put_pools(store: &Arc<dyn Datastore>) {
    let pool = |name: &str, cidr: &str| {
        let spec = IpPoolSpec { cidr: cidr.parse().unwrap(), ..IpPoolSpec::default() };
        let resource = Arc::new(Resource::IpPool(IpPool::named(name, spec)));
        Write {
            key: ResourceKey::cluster(Kind::IpPool, name),
            precondition: Precondition::Absent,
            change: Change::Put { resource, base: None, ttl: None },
        }
    };
    let writes = vec![pool("four", "10.65.0.0/16"), pool("six", "fd00:65::/112")];
    store.commit(Batch { writes }).await.unwrap();
}

/// Endpoints, handles, and addresses that are held.
pub(super) async fn traces(store: &dyn Datastore) -> Vec<String> {
    let listing = store.list(&Scope::All).await.unwrap();
    let mut traces = Vec::new();
    for stored in listing.entries.into_iter().map(Result::unwrap) {
        match stored.resource.as_ref() {
            Resource::WorkloadEndpoint(_) | Resource::IpamHandle(_) => traces.push(stored.key.to_string()),
            Resource::IpamBlock(block) if block.allocations.iter().any(Option::is_some) => {
                traces.push(stored.key.to_string());
            }
            _ => {}
        }
    }
    traces
}

pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}
