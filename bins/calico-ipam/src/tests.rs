//! The program over an embedded store.

use calico_core::cni::CniError;
use calico_core::resource::{ClusterInformationSpec, IpPool, IpPoolSpec, Kind, Object, Resource, ResourceKey};
use calico_datastore::sqlite::SqliteStore;
use calico_datastore::{Batch, Change, Datastore, Precondition, Write};
use serde_json::{Value, json};

use super::*;

struct Scene {
    folder: tempfile::TempDir,
    variables: Variables,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let pairs = [
            ("CNI_CONTAINERID", "c1"),
            ("CNI_NETNS", "/run/netns/a"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/opt/cni/bin"),
        ];
        let variables = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let scene = Self { folder, variables };
        scene.put_pool("four", "10.65.3.0/28", 29);
        scene.put_pool("six", "fd00:65::/120", 122);
        scene
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    fn store(&self) -> SqliteStore {
        SqliteStore::open(self.path("calico.db").as_ref()).unwrap()
    }

    fn put_pool(&self, name: &str, cidr: &str, length: u8) {
        let spec = IpPoolSpec { cidr: cidr.parse().unwrap(), block_size: Some(length), ..IpPoolSpec::default() };
        self.put(ResourceKey::cluster(Kind::IpPool, name), Resource::IpPool(IpPool::named(name, spec)));
    }

    fn set_ready(&self, ready: bool) {
        let spec = ClusterInformationSpec { datastore_ready: Some(ready), ..ClusterInformationSpec::default() };
        let information = Box::new(Object { spec, ..Object::default() });
        let key = ResourceKey::cluster(Kind::ClusterInformation, "default");
        self.put(key, Resource::ClusterInformation(information));
    }

    fn put(&self, key: ResourceKey, resource: Resource) {
        let change = Change::Put { resource: resource.into(), base: None, ttl: None };
        let write = Write { key, precondition: Precondition::None, change };
        block_on(async { self.store().commit(Batch { writes: vec![write] }).await.unwrap() });
    }

    fn conf(&self) -> Value {
        json!({
            "cniVersion": "1.1.0", "name": "net1", "type": "calico", "nodename": "node-1", "datastore_type": "sqlite",
            "datastore_path": self.path("calico.db"), "ipam_lock_file": self.path("ipam.lock"),
            "ipam": {"type": "calico-ipam"},
        })
    }

    fn act(&self, command: &str, conf: &Value) -> (u8, String) {
        let mut variables = self.variables.clone();
        variables.insert("CNI_COMMAND".into(), command.into());
        act(&variables, &conf.to_string())
    }

    fn add(&self, conf: &Value) -> Value {
        let (code, output) = self.act("ADD", conf);
        assert_eq!(code, 0, "{output}");
        serde_json::from_str(&output).unwrap()
    }

    fn fails(&self, command: &str, conf: &Value) -> (u64, String) {
        let (code, output) = self.act(command, conf);
        assert_eq!(code, 1, "{output}");
        let document: Value = serde_json::from_str(&output).unwrap();
        (document["code"].as_u64().unwrap(), document["msg"].as_str().unwrap().to_owned())
    }
}

fn act(variables: &Variables, stdin: &str) -> (u8, String) {
    let mut stdout = Vec::new();
    let code = run(variables, &mut stdin.as_bytes(), &mut stdout);
    (code, String::from_utf8(stdout).unwrap())
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

#[test]
fn assigns_once_and_releases() {
    let mut scene = Scene::new();
    scene.variables.insert("CNI_ARGS".into(), "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=cart-0".into());
    let result = scene.add(&scene.conf());
    let address = result["ips"][0]["address"].as_str().unwrap();
    assert!(address.starts_with("10.65.3.") && address.ends_with("/29"), "the block's length: {address}");
    assert_eq!(result["routes"], json!([{"dst": address}]), "upstream's form");
    assert_eq!(result.as_object().unwrap().keys().collect::<Vec<_>>(), ["cniVersion", "ips", "routes"]);
    assert_eq!(scene.add(&scene.conf()), result, "again, the same");

    let block = address.parse().unwrap();
    let stored = block_on(async { scene.store().get(&ResourceKey::Block(block)).await.unwrap() });
    let attribute = &stored.raw["attributes"][0];
    assert_eq!(attribute["handle_id"], "net1.c1");
    let secondary = &attribute["secondary"];
    assert_eq!(
        (&secondary["node"], &secondary["pod"], &secondary["namespace"]),
        (&json!("node-1"), &json!("cart-0"), &json!("shop"))
    );
    assert!(secondary["timestamp"].as_str().unwrap().ends_with(" +0000 UTC"), "{secondary}");

    let mut check = scene.conf();
    check["prevResult"] = result;
    assert_eq!(scene.act("CHECK", &check), (0, String::new()));
    check["prevResult"]["ips"][0]["address"] = "10.65.3.77/29".into();
    assert_eq!(scene.fails("CHECK", &check), (999, "handle net1.c1 does not hold 10.65.3.77".into()));
    assert_eq!(scene.act("DEL", &scene.conf()), (0, String::new()));
    assert_eq!(scene.act("DEL", &scene.conf()), (0, String::new()));
    assert_eq!(scene.fails("CHECK", &check), (3, "handle net1.c1 holds no address".into()));
}

#[test]
fn a_locked_datastore_is_not_changed() {
    let scene = Scene::new();
    let result = scene.add(&scene.conf());
    scene.set_ready(false);
    for (command, code) in [("ADD", 11), ("DEL", 11), ("STATUS", 50)] {
        let (given, message) = scene.fails(command, &scene.conf());
        assert_eq!(given, code, "{command}");
        assert!(message.starts_with("Calico is currently not ready to process requests"), "{command}: {message}");
    }
    let mut check = scene.conf();
    check["prevResult"] = result.clone();
    assert_eq!(scene.act("CHECK", &check), (0, String::new()), "looking is allowed, and nothing was released");
    scene.set_ready(true);
    assert_eq!(scene.add(&scene.conf()), result);
    assert_eq!(scene.act("DEL", &scene.conf()), (0, String::new()));
}

#[test]
fn families_pools_and_certain_addresses() {
    let mut scene = Scene::new();
    let mut conf = scene.conf();
    conf["ipam"] = json!({"type": "calico-ipam", "assign_ipv4": "false", "assign_ipv6": "true", "ipv6_pools": ["six"]});
    let result = scene.add(&conf);
    assert_eq!(result["ips"].as_array().unwrap().len(), 1);
    assert!(result["ips"][0]["address"].as_str().unwrap().ends_with("/122"), "{result}");
    conf["ipam"] = json!({"type": "calico-ipam", "ipv4_pools": ["none"]});
    assert_eq!(scene.fails("ADD", &conf), (7, "the given pool (none) does not exist, or is not enabled".into()));

    scene.variables.insert("CNI_ARGS".into(), "IP=10.65.3.9".into());
    let result = scene.add(&scene.conf());
    assert_eq!(result["ips"], json!([{"address": "10.65.3.9/32"}]));
    scene.variables.insert("CNI_CONTAINERID".into(), "c2".into());
    let taken = "Address already assigned in block: 10.65.3.9 is held by net1.c1";
    assert_eq!(scene.fails("ADD", &scene.conf()), (999, taken.into()));
}

#[test]
fn a_pool_that_is_not_allocatable_serves_only_who_has_an_address() {
    let mut scene = Scene::new();
    let conf = scene.conf();
    let result = scene.add(&conf);
    for name in ["four", "six"] {
        let key = ResourceKey::cluster(Kind::IpPool, name);
        let mut document = (**block_on(async { scene.store().get(&key).await.unwrap() }).raw).clone();
        document["status"] =
            json!({"conditions": [{"type": "Allocatable", "status": "False", "reason": "CIDROverlap"}]});
        scene.put(key, Resource::decode(Kind::IpPool, &document).unwrap());
    }
    assert_eq!(scene.fails("STATUS", &conf), (50, "there is no enabled IPPool to assign addresses from".into()));
    assert_eq!(scene.add(&conf), result, "again, the same");
    scene.variables.insert("CNI_CONTAINERID".into(), "c2".into());
    let (code, message) = scene.fails("ADD", &conf);
    assert!(code == 7 && message.contains("why a pool's status says"), "{code} {message}");
    scene.variables.insert("CNI_CONTAINERID".into(), "c1".into());
    assert_eq!(scene.act("DEL", &conf), (0, String::new()));
    assert_eq!(scene.fails("ADD", &conf).0, 7, "it was given back");
}

#[test]
fn a_full_pool_assigns_nothing_of_either_family() {
    let mut scene = Scene::new();
    let mut conf = scene.conf();
    for index in 0..16 {
        scene.variables.insert("CNI_CONTAINERID".into(), format!("c{index}"));
        scene.add(&conf);
    }
    scene.variables.insert("CNI_CONTAINERID".into(), "late".into());
    conf["ipam"]["assign_ipv6"] = "true".into();
    let (code, message) = scene.fails("ADD", &conf);
    assert_eq!(code, 999);
    assert!(message.starts_with("Assigned 0 out of 1 requested IPv4 addresses"), "{message}");
    let handles = block_on(async { scene.store().get(&ResourceKey::Handle("net1.late".into())).await });
    assert!(handles.unwrap_err().is_not_found());
}

#[test]
fn tells_whether_it_could_serve() {
    let scene = Scene::new();
    assert_eq!(scene.act("STATUS", &scene.conf()), (0, String::new()));
    let mut conf = scene.conf();
    conf["datastore_path"] = scene.path("other.db").into();
    assert_eq!(scene.fails("STATUS", &conf), (50, "there is no enabled IPPool to assign addresses from".into()));
    conf["datastore_path"] = "/proc/no/such.db".into();
    assert_eq!(scene.fails("STATUS", &conf).0, 50);
    let mut nameless = scene.conf();
    nameless["nodename"] = "".into();
    nameless["nodename_file"] = scene.path("nodename").into();
    assert_eq!(scene.fails("STATUS", &nameless).0, 50);
    assert_eq!(scene.fails("ADD", &conf).0, 11, "a datastore that is away may come back");
    conf["datastore_type"] = "paper".into();
    assert_eq!(scene.fails("ADD", &conf).0, 7);
}

#[test]
fn collects_what_the_runtime_does_not_know() {
    let mut scene = Scene::new();
    let mut conf = scene.conf();
    for (network, node, container) in [
        ("net1", "node-1", "known"),
        ("net1", "node-1", "lost"),
        ("net1", "node-2", "elsewhere"),
        ("net1.b", "node-1", "other"),
    ] {
        (conf["name"], conf["nodename"]) = (network.into(), node.into());
        scene.variables.insert("CNI_CONTAINERID".into(), container.into());
        scene.add(&conf);
    }
    assert_eq!(scene.fails("GC", &scene.conf()).0, 7, "no list is not an empty list");
    let mut conf = scene.conf();
    conf["cni.dev/valid-attachments"] = json!([{"containerID": "known", "ifname": "eth0"}]);
    conf["cni.dev/attachments"] = conf["cni.dev/valid-attachments"].clone();
    assert_eq!(scene.act("GC", &conf), (0, String::new()));
    let holds = |handle: &str| block_on(async { scene.store().get(&ResourceKey::Handle(handle.into())).await.is_ok() });
    let held = ["net1.known", "net1.lost", "net1.elsewhere", "net1.b.other"].map(holds);
    assert_eq!(held, [true, false, true, true]);
    conf["cni.dev/valid-attachments"] = Value::Null;
    assert_eq!(scene.act("GC", &conf), (0, String::new()));
    assert!(!holds("net1.known"), "the runtime knows none");
}

#[test]
fn answers_without_a_network() {
    let version: Variables = [("CNI_COMMAND".to_owned(), "VERSION".to_owned())].into();
    let (code, output) = act(&version, "not looked at");
    assert_eq!((code, serde_json::from_str::<Value>(&output).unwrap()), (0, calico_core::cni::Version::answer()));
    assert!(output.starts_with("{\n    \"cniVersion\": \"1.1.0\",\n"), "an indent of four: {output}");
    assert_eq!(act(&Variables::new(), ""), (0, String::new()), "nothing on standard output for people");
    let scene = Scene::new();
    let mut variables = scene.variables.clone();
    variables.insert("CNI_COMMAND".into(), "ADD".into());
    let (code, output) = act(&variables, "{");
    let document: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, document["code"].as_u64(), document["cniVersion"].as_str()), (1, Some(6), Some("1.1.0")));
}

#[test]
fn the_nodes_name_comes_from_where_upstream_looks() {
    let scene = Scene::new();
    let name = |conf: Value| {
        plugin::node_name(&serde_json::from_value(conf).unwrap()).map_err(|error| CniError::from(error).code.number())
    };
    std::fs::write(scene.path("nodename"), "from-file\n").unwrap();
    let file = scene.path("nodename");
    assert_eq!(name(json!({"nodename": "a", "nodename_file": file, "hostname": "c"})), Ok("a".into()));
    assert_eq!(name(json!({"nodename_file": file, "hostname": "c"})), Ok("from-file".into()));
    let missing = scene.path("missing");
    assert_eq!(name(json!({"nodename_file": missing, "hostname": "c"})), Err(7));
    let optional = json!({"nodename_file": missing, "nodename_file_optional": true, "hostname": "c"});
    assert_eq!(name(optional), Ok("c".into()));
    let kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_lowercase();
    assert_eq!(name(json!({"nodename_file": missing, "nodename_file_optional": true})), Ok(kernel));
}
