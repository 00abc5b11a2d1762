//! Against the real kernel and the embedded datastore. These need root.

use calico_core::resource::{Kind, Resource, ResourceKey};
use calico_datastore::{Precondition, Write};
use serde_json::{Value, json};

use super::fixture::{CONTAINER, Scene, block_on};

fn resource(scene: &Scene, key: &ResourceKey) -> Resource {
    let store = scene.store();
    Resource::clone(&block_on(store.get(key)).unwrap().resource)
}

#[test]
fn attaches_tells_and_detaches() {
    let scene = Scene::new();
    let result = scene.add();
    assert_eq!(result["cniVersion"], "1.1.0");
    assert_eq!(result["interfaces"][0], json!({"name": "cali0123456789a"}));
    assert_eq!(result["interfaces"][1]["name"], "eth0");
    assert_eq!(result["interfaces"][1]["mtu"], 1440);
    let [four, six] = [0, 1].map(|index| result["ips"][index]["address"].as_str().unwrap().to_owned());
    assert!(four.starts_with("10.65.") && four.ends_with("/32"), "{four}");
    assert!(six.starts_with("fd00:65::") && six.ends_with("/128"), "{six}");
    assert_eq!(
        result["routes"],
        json!([{"dst": "0.0.0.0/0", "gw": "169.254.1.1"}, {"dst": "::/0", "gw": "fe80::ecee:eeff:feee:eeee"}]),
        "what the container has"
    );
    assert_eq!(Scene::interfaces(&scene.container), ["eth0"]);
    assert_eq!(Scene::interfaces(&scene.host), ["cali0123456789a"]);

    let name = format!("node--1-cni-{CONTAINER}-eth0");
    let Resource::WorkloadEndpoint(endpoint) =
        resource(&scene, &ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", &name))
    else {
        panic!("no endpoint");
    };
    assert_eq!(endpoint.spec.ip_networks, [four.parse().unwrap(), six.parse().unwrap()]);
    assert_eq!(endpoint.spec.mac.unwrap().to_string(), result["interfaces"][1]["mac"].as_str().unwrap());
    assert_eq!(endpoint.metadata.labels.get("app").map(|label| label.as_str()), Some("web"));
    assert_eq!(endpoint.metadata.uid.unwrap().len(), 36);
    let Resource::Profile(profile) = resource(&scene, &ResourceKey::cluster(Kind::Profile, "net1")) else {
        panic!("no profile");
    };
    assert_eq!(profile.spec.ingress[0].source.selector, "has(net1)");

    assert_eq!(scene.add(), result, "a repeated ADD gives the same result");
    let check = Value::Object([("prevResult".to_owned(), result)].into_iter().chain(members(scene.conf())).collect());
    assert_eq!(scene.act("CHECK", &check), (0, String::new()));

    assert_eq!(scene.act("DEL", &scene.conf()), (0, String::new()));
    assert!(Scene::interfaces(&scene.container).is_empty() && Scene::interfaces(&scene.host).is_empty());
    assert!(scene.traces().is_empty(), "{:?}", scene.traces());
    assert_eq!(scene.act("DEL", &scene.conf()), (0, String::new()), "DEL is repeatable");
    let (code, error) = scene.act("CHECK", &check);
    assert_eq!((code, document(&error)["code"].as_u64()), (1, Some(3)), "{error}");
}

#[test]
fn a_broken_attachment_is_made_anew() {
    let scene = Scene::new();
    let first = scene.add();
    scene.container.run(|| delete("eth0")).unwrap();
    assert!(Scene::interfaces(&scene.host).is_empty());
    let second = scene.add();
    assert_eq!(second["ips"], first["ips"], "the container keeps its addresses");
    assert_eq!(Scene::interfaces(&scene.container), ["eth0"]);
}

/// A policy may select the endpoint by a label that an operator put there.
#[test]
fn a_repaired_attachment_keeps_what_others_wrote_into_the_endpoint() {
    let scene = Scene::new();
    scene.add();
    let name = format!("node--1-cni-{CONTAINER}-eth0");
    let key = ResourceKey::namespaced(Kind::WorkloadEndpoint, "default", &name);
    let store = scene.store();
    let stored = block_on(store.get(&key)).unwrap();
    let mut resource = Resource::clone(&stored.resource);
    let Resource::WorkloadEndpoint(endpoint) = &mut resource else { panic!("no endpoint") };
    endpoint.metadata.labels.insert("role".into(), "db".into());
    endpoint.spec.profiles.push("guarded".into());
    let mut raw = Value::clone(&stored.raw);
    raw["spec"]["ofTheFuture"] = json!({"kept": true});
    let write = Write::put(
        key.clone(),
        Precondition::At(stored.revision),
        resource.into(),
        Some(std::sync::Arc::new(raw.into())),
    );
    block_on(store.commit(write.into())).unwrap();

    scene.container.run(|| delete("eth0")).unwrap();
    let repaired = scene.add();
    let after = block_on(store.get(&key)).unwrap();
    let Resource::WorkloadEndpoint(endpoint) = after.resource.as_ref() else { panic!("no endpoint") };
    let label = |name: &str| endpoint.metadata.labels.get(name).map(|label| label.as_str());
    assert_eq!((label("role"), label("app")), (Some("db"), Some("web")));
    assert_eq!(endpoint.spec.profiles, ["net1", "guarded"]);
    assert_eq!(after.raw["spec"]["ofTheFuture"], json!({"kept": true}));
    assert_eq!(endpoint.spec.mac.unwrap().to_string(), repaired["interfaces"][1]["mac"].as_str().unwrap());
    assert_eq!(after.raw["metadata"]["uid"], stored.raw["metadata"]["uid"]);
}

/// Packets to the container go to the endpoint's Ethernet address: a container with another one gets none.
#[test]
fn another_ethernet_address_is_found_and_repaired() {
    let scene = Scene::new();
    let result = scene.add();
    let check = |result: &Value| {
        let previous = [("prevResult".to_owned(), result.clone())];
        scene.act("CHECK", &Value::Object(previous.into_iter().chain(members(scene.conf())).collect()))
    };
    assert_eq!(check(&result), (0, String::new()));
    let mac = result["interfaces"][1]["mac"].as_str().unwrap();
    let other = calico_core::net::Mac::new([2, 0, 0, 0, 0, 1]);
    scene.container.run(|| set_mac("eth0", other)).unwrap();
    let (code, error) = check(&result);
    assert_eq!((code, document(&error)["code"].as_u64()), (1, Some(999)), "3 were: nothing to clean up: {error}");
    assert!(error.contains(mac) && error.contains("02:00:00:00:00:01"), "{error}");

    let repaired = scene.add();
    assert_eq!(repaired["ips"], result["ips"]);
    assert_eq!(check(&repaired), (0, String::new()));
    let mut other_mtu = repaired.clone();
    other_mtu["interfaces"][1]["mtu"] = 1300.into();
    let (code, error) = check(&other_mtu);
    assert!(code == 1 && error.contains("MTU is 1440 and should be 1300"), "{error}");
    let mut wrong = repaired;
    wrong["interfaces"][1]["mac"] = "02:00:00:00:00:01".into();
    let (code, error) = check(&wrong);
    assert_eq!(code, 1, "the result tells of another one: {error}");
}

#[test]
fn a_pod_made_anew_is_safe_from_the_end_of_its_former_self() {
    let mut scene = Scene::new();
    scene.args = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=cart-0".into();
    let first = scene.add();
    let host_interface = first["interfaces"][0]["name"].clone();
    scene.container_id = "fedcba9876543210".into();
    let old = std::mem::replace(&mut scene.container, calico_dataplane::testing::netns::scratch());
    let second = scene.add();
    assert_eq!(second["interfaces"][0]["name"], host_interface, "it depends on the pod's name only");
    assert_ne!(second["ips"], first["ips"]);

    let new = std::mem::replace(&mut scene.container, old);
    scene.container_id = CONTAINER.into();
    assert_eq!(scene.act("DEL", &scene.conf()).0, 0);
    assert_eq!(Scene::interfaces(&scene.host), [host_interface.as_str().unwrap()]);
    assert_eq!(Scene::interfaces(&new), ["eth0"]);
    let traces = scene.traces();
    assert!(traces.contains(&"WorkloadEndpoint(shop/node--1-k8s-cart--0-eth0)".to_owned()), "{traces:?}");
    assert!(traces.contains(&"IPAMHandle(net1.fedcba9876543210)".to_owned()), "{traces:?}");
    assert!(!traces.contains(&format!("IPAMHandle(net1.{CONTAINER})")), "{traces:?}");
}

/// The same while the new container is attached and its endpoint not written yet: the stored one is still the old container's.
#[test]
fn the_end_of_a_pods_former_self_leaves_a_half_made_attachment() {
    let scene = Scene::new();
    scene.add();
    let new = calico_dataplane::testing::netns::scratch();
    let attach = || {
        calico_dataplane::workload::attach(&calico_dataplane::workload::AttachRequest {
            netns: new.path(),
            container_interface: "eth0".parse().unwrap(),
            host_interface: "cali0123456789a".parse().unwrap(),
            addresses: vec!["10.65.0.99/32".parse().unwrap()],
            routes: Vec::new(),
            mtu: 1440,
            container_mac: None,
            ip_forwarding: false,
        })
    };
    scene.host.run(attach).unwrap().unwrap();
    assert_eq!(scene.act("DEL", &scene.conf()), (0, String::new()));
    assert_eq!(Scene::interfaces(&new), ["eth0"]);
    assert_eq!(Scene::interfaces(&scene.host), ["cali0123456789a"]);
    assert!(scene.traces().is_empty(), "endpoint and address are the old one's: {:?}", scene.traces());
}

#[test]
fn collects_what_the_runtime_does_not_know() {
    let mut scene = Scene::new();
    let known = scene.add();
    let first = std::mem::replace(&mut scene.container, calico_dataplane::testing::netns::scratch());
    scene.container_id = "fedcba9876543210".into();
    scene.add();
    let both = scene.traces();
    let gc = |scene: &Scene, name: &str, node: &str, valid: &Value| {
        let mut conf = scene.conf();
        (conf["name"], conf["nodename"]) = (name.into(), node.into());
        conf["cni.dev/valid-attachments"] = valid.clone();
        scene.act("GC", &conf)
    };
    assert_eq!(scene.act("GC", &scene.conf()).0, 1, "no list is not an empty list");
    assert_eq!(gc(&scene, "net2", "node-1", &json!([])), (0, String::new()));
    assert_eq!(gc(&scene, "net1", "node-2", &json!([])), (0, String::new()));
    assert_eq!(scene.traces(), both, "another network's and another node's are none of theirs");

    let valid = json!([{"containerID": CONTAINER, "ifname": "eth0"}]);
    assert_eq!(gc(&scene, "net1", "node-1", &valid), (0, String::new()));
    assert!(!scene.traces().iter().any(|key| key.contains("fedcba9876543210")), "{:?}", scene.traces());
    assert_eq!(Scene::interfaces(&scene.host), ["cali0123456789a"]);
    assert_eq!(Scene::interfaces(&first), ["eth0"]);
    scene.container = first;
    scene.container_id = CONTAINER.into();
    assert_eq!(scene.add(), known, "the known one is untouched");
}

/// Two container ids with the same beginning want the same host interface: the first keeps it.
#[test]
fn a_host_interface_of_another_container_is_left_alone() {
    let [mut scene, other] = [Scene::new(), Scene::new()];
    let act = |scene: &Scene, command, id: &str, netns: Option<&calico_dataplane::netns::Netns>| {
        let pairs = [("CNI_COMMAND", command), ("CNI_CONTAINERID", id), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/")];
        let mut variables: calico_ipam::plugin::Variables =
            pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        variables.extend(netns.map(|netns| ("CNI_NETNS".to_owned(), netns.path().to_str().unwrap().to_owned())));
        scene.act_with(&variables, &scene.conf())
    };
    scene.container_id = "abcdefghijkl1".into();
    let first = scene.add();
    let before = scene.traces();
    let (code, error) = act(&scene, "ADD", "abcdefghijkl2", Some(&other.container));
    assert_eq!((code, document(&error)["code"].as_u64()), (1, Some(11)), "{error}");
    assert!(error.contains("caliabcdefghijk") && error.contains("abcdefghijkl1"), "{error}");
    // The runtime's DEL after the failed ADD, with and without the namespace.
    for netns in [Some(&other.container), None] {
        assert_eq!(act(&scene, "DEL", "abcdefghijkl2", netns), (0, String::new()));
    }
    assert_eq!((Scene::interfaces(&other.container), scene.traces()), (vec![], before));
    assert_eq!(Scene::interfaces(&scene.container), ["eth0"]);
    assert_eq!(scene.add(), first, "the first is untouched");

    // The first loses its interface, and the second gets the name: the end of the first does not take it.
    scene.container.run(|| delete("eth0")).unwrap();
    let (code, output) = act(&scene, "ADD", "abcdefghijkl2", Some(&other.container));
    assert_eq!(code, 0, "{output}");
    for netns in [Some(&scene.container), None] {
        assert_eq!(act(&scene, "DEL", "abcdefghijkl1", netns), (0, String::new()));
        assert_eq!(Scene::interfaces(&scene.host), ["caliabcdefghijk"]);
        assert_eq!(Scene::interfaces(&other.container), ["eth0"]);
    }
    assert_eq!(act(&scene, "DEL", "abcdefghijkl2", None), (0, String::new()));
    assert!(Scene::interfaces(&scene.host).is_empty());
    assert!(scene.traces().is_empty(), "{:?}", scene.traces());
}

#[test]
fn detaches_without_a_namespace_or_a_node_name() {
    let scene = Scene::new();
    scene.add();
    let variables = [("CNI_COMMAND", "DEL"), ("CNI_CONTAINERID", CONTAINER), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    assert_eq!(scene.act_with(&variables, &scene.conf()), (0, String::new()));
    assert!(Scene::interfaces(&scene.host).is_empty());
    assert!(scene.traces().is_empty());

    let mut nameless = scene.conf();
    nameless["nodename"] = "".into();
    nameless["nodename_file"] = scene.path("nodename").to_str().unwrap().into();
    assert_eq!(scene.act_with(&variables, &nameless), (0, String::new()));
    let (code, error) = scene.act("ADD", &nameless);
    assert_eq!((code, document(&error)["code"].as_u64()), (1, Some(7)), "{error}");
}

/// A file that is not there says that nothing was written in the node's name; one that cannot be read says nothing.
#[test]
fn an_unreadable_node_name_keeps_the_endpoint_and_its_address() {
    let scene = Scene::new();
    scene.add();
    let before = scene.traces();
    let mut conf = scene.conf();
    conf["nodename"] = "".into();
    conf["nodename_file"] = scene.path("").to_str().unwrap().into();
    let (code, error) = scene.act("DEL", &conf);
    assert_eq!((code, document(&error)["code"].as_u64()), (1, Some(7)), "{error}");
    assert!(Scene::interfaces(&scene.container).is_empty(), "the interface goes nevertheless");
    assert_eq!(scene.traces(), before, "and neither endpoint nor address");
    assert_eq!(scene.act("DEL", &scene.conf()), (0, String::new()));
    assert!(scene.traces().is_empty());
}

/// The container was attached before the configuration went wrong.
#[test]
fn a_configuration_that_add_refuses_detaches() {
    for (key, value) in
        [("policy", json!({"type": "k8s"})), ("device_type", "odd".into()), ("policy_setup_timeout_seconds", json!(-1))]
    {
        let scene = Scene::new();
        scene.add();
        let mut conf = scene.conf();
        conf[key] = value;
        assert_eq!(scene.act("ADD", &conf).0, 1, "{key}");
        assert_eq!(scene.act("DEL", &conf), (0, String::new()), "{key}");
        assert!(scene.traces().is_empty() && Scene::interfaces(&scene.host).is_empty(), "{key}");
    }
    for ipam in [json!({}), json!({"type": "gone-ipam"})] {
        let scene = Scene::new();
        scene.add();
        let mut conf = scene.conf();
        conf["ipam"] = ipam;
        let (code, error) = scene.act("DEL", &conf);
        assert_eq!((code, document(&error)["code"].as_u64()), (1, Some(7)), "{error}");
        assert!(Scene::interfaces(&scene.host).is_empty(), "{error}");
        assert!(!scene.traces().iter().any(|key| key.starts_with("WorkloadEndpoint")), "{error}");
    }
}

#[test]
fn a_second_interface_of_one_workload_is_refused() {
    let scene = Scene::new();
    let first = scene.add();
    let path = scene.container.path().to_str().unwrap().to_owned();
    let pairs = [("CNI_COMMAND", "ADD"), ("CNI_CONTAINERID", CONTAINER), ("CNI_IFNAME", "eth1"), ("CNI_PATH", "/")];
    let mut variables: calico_ipam::plugin::Variables =
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    variables.insert("CNI_NETNS".into(), path);
    let (code, error) = scene.act_with(&variables, &scene.conf());
    assert_eq!((code, document(&error)["code"].as_u64()), (1, Some(2)), "{error}");
    assert_eq!(Scene::interfaces(&scene.container), ["eth0"]);
    variables.insert("CNI_COMMAND".into(), "DEL".into());
    assert_eq!(scene.act_with(&variables, &scene.conf()), (0, String::new()), "the runtime's DEL after a failed ADD");
    assert_eq!(Scene::interfaces(&scene.container), ["eth0"]);
    assert_eq!(scene.add(), first, "the first is untouched");
    variables.insert("CNI_COMMAND".into(), "ADD".into());

    let alone = Scene { container_id: "another".into(), ..Scene::new() };
    variables.insert("CNI_CONTAINERID".into(), "another".into());
    variables.insert("CNI_NETNS".into(), alone.container.path().to_str().unwrap().to_owned());
    let (code, output) = alone.act_with(&variables, &alone.conf());
    assert_eq!(code, 0, "the only one may have any name: {output}");
}

#[test]
fn the_interface_goes_even_while_the_datastore_is_away() {
    let scene = Scene::new();
    scene.add();
    let mut conf = scene.conf();
    conf["datastore_path"] = "/proc/no/such.db".into();
    let (code, error) = scene.act("DEL", &conf);
    assert_eq!((code, document(&error)["code"].as_u64()), (1, Some(11)), "{error}");
    assert!(Scene::interfaces(&scene.host).is_empty());
    assert_eq!(scene.act("DEL", &scene.conf()), (0, String::new()));
    assert!(scene.traces().is_empty());
}

#[test]
fn refuses_the_hosts_own_namespace_and_an_occupied_name() {
    let scene = Scene::new();
    let mut variables = calico_ipam::plugin::Variables::new();
    let own = scene.host.path().to_str().unwrap().to_owned();
    let pairs = [("CNI_COMMAND", "ADD"), ("CNI_CONTAINERID", CONTAINER), ("CNI_IFNAME", "eth0"), ("CNI_PATH", "/")];
    variables.extend(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())));
    variables.insert("CNI_NETNS".into(), own);
    let (code, error) = scene.act_with(&variables, &scene.conf());
    assert_eq!((code, document(&error)["code"].as_u64()), (1, Some(8)), "{error}");
    variables.insert("CNI_NETNS".into(), "/nonexistent".into());
    let (code, error) = scene.act_with(&variables, &scene.conf());
    assert_eq!((code, document(&error)["code"].as_u64()), (1, Some(8)), "{error}");
    assert!(scene.traces().is_empty());

    scene.add();
    let other = Scene { container: reopen(&scene), container_id: "another".into(), ..Scene::new() };
    let (code, error) = other.act("ADD", &other.conf());
    assert_eq!(code, 1, "{error}");
    assert_eq!(Scene::interfaces(&scene.container), ["eth0"], "not ours to take away");
    assert!(other.traces().is_empty());
}

/// One address of two that nobody can have is enough: the endpoint would be there without it, and the pod has no such traffic.
#[test]
fn an_address_that_is_never_a_workloads_is_refused_and_given_back() {
    for (address, reason) in [
        ("fe80::7/64", "fe80::7, which holds on one link only"),
        ("127.0.0.7/8", "127.0.0.7, which is the host's own"),
        ("::ffff:10.9.0.8/128", "which is an IPv4 address"),
        ("224.0.0.7/4", "224.0.0.7, which is a multicast address"),
    ] {
        let scene = Scene::new();
        let log = scene.path("log");
        let result = json!({"cniVersion": "1.0.0", "ips": [{"address": "10.9.0.7/24"}, {"address": address}]});
        let script = format!(
            "#!/bin/sh\necho $CNI_COMMAND >> {}\n[ $CNI_COMMAND = ADD ] && echo '{result}'\nexit 0\n",
            log.display()
        );
        install(&scene, "fake-ipam", &script);
        let mut conf = scene.conf();
        conf["ipam"] = json!({"type": "fake-ipam"});
        let (code, error) = scene.act("ADD", &conf);
        assert_eq!(code, 1, "{address}: {error}");
        assert!(error.contains(reason), "{address}: {error}");
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "ADD\nDEL\n", "{address} is given back");
        assert!(scene.traces().is_empty(), "{address}: {:?}", scene.traces());
        assert!(Scene::interfaces(&scene.host).is_empty() && Scene::interfaces(&scene.container).is_empty());
    }
}

#[test]
fn delegates_to_another_ipam_plugin() {
    let scene = Scene::new();
    let log = scene.path("log");
    let script = format!(
        "#!/bin/sh\necho $CNI_COMMAND $CNI_ARGS >> {}\n[ $CNI_COMMAND = ADD ] && echo '{}'\nexit 0\n",
        log.display(),
        r#"{"ip4": {"ip": "10.9.0.7/24", "gateway": "10.9.0.1"}, "cniVersion": "0.2.0"}"#
    );
    install(&scene, "fake-ipam", &script);
    let mut conf = scene.conf();
    conf["ipam"] = json!({"type": "fake-ipam"});
    let (code, output) = scene.act("ADD", &conf);
    assert_eq!(code, 0, "{output}");
    assert_eq!(document(&output)["ips"], json!([{"interface": 1, "address": "10.9.0.7/32"}]));
    assert_eq!(scene.act("ADD", &conf), (0, output), "again, without asking the plugin again");
    assert_eq!(scene.act("DEL", &conf).0, 0);
    conf["cni.dev/valid-attachments"] = json!([]);
    assert_eq!(scene.act("GC", &conf), (0, String::new()));
    let told = std::fs::read_to_string(&log).unwrap();
    assert_eq!(told, "ADD IgnoreUnknown=1\nDEL IgnoreUnknown=1\nGC IgnoreUnknown=1\n");

    install(&scene, "fake-ipam", "#!/bin/sh\necho '{\"code\": 11, \"msg\": \"later\"}'\nexit 1\n");
    let (code, error) = scene.act("ADD", &conf);
    assert_eq!(
        (code, document(&error)["code"].as_u64(), document(&error)["msg"].as_str()),
        (1, Some(11), Some("later"))
    );
    for (key, value) in [("nodename_file", json!(scene.path("no-such-file"))), ("datastore_path", "/proc/no/db".into())]
    {
        let mut conf = conf.clone();
        conf["nodename"] = if key == "nodename_file" { "".into() } else { "node-1".into() };
        conf[key] = value;
        let (code, error) = scene.act("STATUS", &conf);
        assert_eq!((code, document(&error)["code"].as_u64()), (1, Some(50)), "no ADD could succeed: {error}");
    }
    conf["ipam"] = json!({"type": "missing-ipam"});
    let (_, error) = scene.act("ADD", &conf);
    assert!(error.contains("failed to find plugin"), "{error}");
    assert!(scene.traces().is_empty());
}

/// Makes a program of a text. Another process writes the file: one that a parallel test starts just now would inherit it from this one,
/// open for writing, and the kernel does not execute such a file.
fn install(scene: &Scene, name: &str, text: &str) {
    let source = scene.path("source");
    std::fs::write(&source, text).unwrap();
    let status = std::process::Command::new("install").args(["-m", "755"]).args([source, scene.path(name)]).status();
    assert!(status.unwrap().success());
}

/// A second handle on the scene's container.
fn reopen(scene: &Scene) -> calico_dataplane::netns::Netns {
    calico_dataplane::netns::Netns::open(&scene.container.path()).unwrap()
}

fn delete(interface: &str) {
    use calico_dataplane::netns::{Request, RouteSocket};
    let mut routes = RouteSocket::open().unwrap();
    let link = routes.link(interface.parse().unwrap()).unwrap().unwrap();
    routes.carry_out(&[Request::delete_link(link.index)]).unwrap();
}

fn set_mac(interface: &str, mac: calico_core::net::Mac) {
    let mut ip = std::process::Command::new("ip");
    let status = ip.args(["link", "set", interface, "address", &mac.to_string()]).status();
    assert!(status.expect("`ip` is needed: install the Debian package iproute2").success());
}

fn document(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn members(value: Value) -> impl Iterator<Item = (String, Value)> {
    let Value::Object(members) = value else { panic!("not an object") };
    members.into_iter()
}
