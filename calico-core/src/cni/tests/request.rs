use alloc::string::ToString;
use alloc::vec::Vec;

use super::{code, parse, request, variables};
use crate::cni::{Command, Invocation, Version, handle_id};

const CONF: &str = r#"{"cniVersion": "0.3.1", "name": "net", "type": "calico"}"#;

#[test]
fn reads_an_add() {
    let mut env = variables();
    env.insert("CNI_ARGS", "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=cart-0;IP=10.0.0.7;X=y".to_string());
    let request = request(&env, CONF);
    assert_eq!(request.command, Command::Add);
    assert_eq!((request.args.pod_namespace.as_str(), request.args.pod_name.as_str()), ("shop", "cart-0"));
    assert_eq!(request.args.ip, Some("10.0.0.7".parse().unwrap()));
    assert_eq!(request.path, ["/opt/cni/bin", "/usr/lib/cni"]);
    assert_eq!(request.netns.as_deref(), Some("/run/netns/pod"));
    assert_eq!(request.version, Version::V0_3_1);
}

#[test]
fn names_every_missing_variable() {
    let mut env = variables();
    env.remove("CNI_NETNS");
    env.insert("CNI_IFNAME", "".to_string());
    let error = parse(&env, CONF).unwrap_err();
    assert_eq!(error.to_string(), "required env variables [CNI_NETNS,CNI_IFNAME] missing");
    assert_eq!(error.code.number(), 4);
    env.insert("CNI_COMMAND", "DEL".to_string());
    env.insert("CNI_IFNAME", "eth0".to_string());
    assert_eq!(request(&env, CONF).netns, None, "DEL does without a namespace");
}

#[test]
fn every_fault_has_its_code() {
    let with = |name, value: &str| {
        let mut env = variables();
        env.insert(name, value.to_string());
        env
    };
    assert_eq!(code(&with("CNI_COMMAND", "add"), CONF), 4);
    for id in ["-a", ".a", "a/b", "a b", "ä"] {
        assert_eq!(code(&with("CNI_CONTAINERID", id), CONF), 4, "{id}");
    }
    for name in ["..", "a/b", "a:b", "sixteen-letters-"] {
        assert_eq!(code(&with("CNI_IFNAME", name), CONF), 4, "{name}");
    }
    for args in ["a", "a=b=c", "IP=300.0.0.1", "a=b;", ";"] {
        assert_eq!(code(&with("CNI_ARGS", args), CONF), 4, "{args}");
    }
    let env = variables();
    for text in ["", "{", "[", "nil"] {
        assert_eq!(code(&env, text), 6, "{text}");
    }
    for text in ["{}", r#"{"name": ""}"#, r#"{"name": "a b"}"#, r#"{"name": "n", "mtu": "big"}"#, "[]"] {
        assert_eq!(code(&env, text), 7, "{text}");
    }
    for text in ["[]", " [\"0.3.1\", \"net\"]", "null", "7", "\"net\""] {
        let error = parse(&env, text).unwrap_err();
        assert_eq!(
            (error.code.number(), error.to_string().as_str()),
            (7, "the network configuration is not a JSON object")
        );
    }
    assert_eq!(code(&env, r#"{"name": "n", "cniVersion": "0.9.0"}"#), 1);
    assert_eq!(code(&with("CNI_COMMAND", "CHECK"), CONF), 1, "0.3.1 knows no CHECK");
    assert_eq!(code(&with("CNI_COMMAND", "STATUS"), r#"{"name": "n", "cniVersion": "1.0.0"}"#), 1);
}

#[test]
fn other_invocations() {
    let mut env = variables();
    env.insert("CNI_COMMAND", "VERSION".to_string());
    assert_eq!(parse(&env, "not looked at"), Ok(Invocation::Version));
    env.remove("CNI_COMMAND");
    assert_eq!(parse(&env, ""), Ok(Invocation::About));
    let answer = Version::answer();
    assert_eq!(answer["cniVersion"], "1.1.0");
    assert_eq!(answer["supportedVersions"].as_array().unwrap().len(), 7);
}

#[test]
fn reads_upstreams_configuration() {
    let conf = r#"{
        "name": "net", "type": "calico", "unknown": {"deep": [1]}, "qps": 5, "mtu": 1440, "nodename": "n1",
        "datastore_type": "sqlite", "datastore_path": "/d", "policy_setup_timeout_seconds": 3,
        "ipam": {"type": "calico-ipam", "assign_ipv4": "false", "assign_ipv6": true, "ipv4_pools": ["p", "10.0.0.0/16"],
                 "routes": [{"dst": "10.0.0.0/8", "gw": "10.0.0.1"}]},
        "container_settings": {"allow_ip_forwarding": true}, "policy": {"type": "k8s"}, "kubernetes": null,
        "args": {"cni": {"x": 1}, "org.apache.mesos": {"network_info": {"name": "net", "labels": {"labels": [
            {"key": "app", "value": "web"}, {"key": "projectcalico.org/namespace", "value": "shop"}]}}}}
    }"#;
    let conf = request(&variables(), conf).conf;
    assert_eq!((conf.ipam.assign_ipv4, conf.ipam.assign_ipv6), (Some(false), Some(true)));
    assert_eq!(conf.ipam.ipv4_pools, ["p", "10.0.0.0/16"]);
    assert_eq!(conf.ipam.routes.first().unwrap().dst.to_string(), "10.0.0.0/8");
    assert_eq!(Vec::from_iter(conf.labels()), [("app", "web"), ("projectcalico.org/namespace", "shop")]);
    assert!(conf.container_settings.allow_ip_forwarding && !conf.include_default_routes);
    assert_eq!((conf.mtu, conf.policy_setup_timeout_seconds), (1440, Some(3)));
    assert_eq!(conf.policy.source, "k8s");
    assert_eq!(conf.datastore_path, "/d");
}

#[test]
fn a_configuration_without_a_version_is_upstreams_default() {
    assert_eq!(request(&variables(), r#"{"name": "n"}"#).version, Version::V0_2_0);
    assert_eq!(&*handle_id("net", "c1"), "net.c1");
    assert_eq!(&*handle_id("", "c1"), "k8s-pod-network.c1");
}
