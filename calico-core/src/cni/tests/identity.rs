use alloc::string::ToString;

use super::{request, variables};
use crate::cni::{Identity, Orchestrator, Plan, Step, WorkloadPrefixes, handle_id, network_profile, workload_endpoint};
use crate::net::{InterfaceName, Mac};

const CONF: &str = r#"{"name": "net1", "args": {"org.apache.mesos": {"network_info": {"labels": {"labels": [
    {"key": "app", "value": "web"}, {"key": "projectcalico.org/namespace", "value": "shop"}]}}}}}"#;

#[test]
fn a_container_is_named_by_its_id() {
    let identity = Identity::of(&request(&variables(), CONF), "node-1", "cali").unwrap();
    assert_eq!(identity.orchestrator, Orchestrator::Cni);
    assert_eq!(identity.namespace, "shop");
    assert_eq!(identity.endpoint_name.to_string(), "node--1-cni-0123456789abcdef-eth0");
    assert_eq!(identity.host_interface.as_str(), "cali0123456789a");
    assert_eq!(&*handle_id("net1", &identity.container_id), "net1.0123456789abcdef");
}

#[test]
fn a_pod_is_named_by_the_hash_of_its_name() {
    let mut env = variables();
    env.insert("CNI_ARGS", "K8S_POD_NAMESPACE=default;K8S_POD_NAME=frontend-5gs43".to_string());
    let identity = Identity::of(&request(&env, CONF), "n", "cali").unwrap();
    assert_eq!(identity.endpoint_name.to_string(), "n-k8s-frontend--5gs43-eth0");
    assert_eq!(identity.namespace, "default");
    // printf default.frontend-5gs43 | sha1sum
    assert_eq!(identity.host_interface.as_str(), "cali7f48edf42e2");
    assert!(Identity::of(&request(&env, CONF), "n", "a-long-prefix").is_err());
    env.insert("CNI_ARGS", "K8S_POD_NAME=p;CNI_TEST_NAMESPACE=t".to_string());
    let half = Identity::of(&request(&env, r#"{"name": "n"}"#), "n", "cali").unwrap();
    assert_eq!((half.orchestrator, half.namespace.as_str()), (Orchestrator::Cni, "t"));
}

#[test]
fn prefixes_are_a_list() {
    let prefixes = |text: &str| text.parse::<WorkloadPrefixes>();
    assert_eq!(prefixes("cali"), Ok(WorkloadPrefixes::default()));
    let two = prefixes("tap, cali").unwrap();
    assert_eq!(two.first().as_str(), "tap");
    assert_eq!(two.to_vec(), ["tap".parse().unwrap(), InterfaceName::CALI]);
    for bad in ["", "tap,", ",", "a/b", "cali,sixteen-letters-"] {
        assert_eq!(prefixes(bad).unwrap_err().code.number(), 7, "{bad:?}");
    }
}

#[test]
fn a_name_that_cannot_be_is_an_error() {
    let mut env = variables();
    env.insert("CNI_CONTAINERID", "abc-".to_string());
    let error = Identity::of(&request(&env, CONF), "n", "cali").unwrap_err();
    assert_eq!(error.code.number(), 4);
}

#[test]
fn the_endpoint_and_its_profile() {
    let request = request(&variables(), CONF);
    let identity = Identity::of(&request, "node-1", "cali").unwrap();
    let endpoint = workload_endpoint(&identity, &request, ["10.0.0.7/32".parse().unwrap()].into(), Mac::ALL_EE);
    let expected = serde_json::json!({
        "metadata": {
            "name": "node--1-cni-0123456789abcdef-eth0", "namespace": "shop",
            "labels": {"app": "web", "projectcalico.org/namespace": "shop", "projectcalico.org/orchestrator": "cni"},
        },
        "spec": {
            "orchestrator": "cni", "node": "node-1", "containerID": "0123456789abcdef", "endpoint": "eth0",
            "ipNetworks": ["10.0.0.7/32"], "profiles": ["net1"], "interfaceName": "cali0123456789a",
            "mac": "ee:ee:ee:ee:ee:ee",
        },
    });
    assert_eq!(serde_json::to_value(&endpoint).unwrap(), expected);

    let profile = network_profile("net1", &Orchestrator::Cni);
    let [ingress, egress] =
        [&profile.spec.ingress, &profile.spec.egress].map(|rules| serde_json::to_value(rules).unwrap());
    assert_eq!(ingress[0]["action"], "Allow");
    assert_eq!(ingress[0]["source"]["selector"], "has(net1)");
    assert_eq!((ingress.as_array().unwrap().len(), egress.as_array().unwrap().len()), (1, 1));
    assert_eq!(egress[0]["action"], "Allow");
    assert_eq!(serde_json::to_value(&profile.spec.labels_to_apply).unwrap(), serde_json::json!({"net1": ""}));
    let pods = network_profile("net1", &Orchestrator::Kubernetes { pod: "p".to_string() });
    assert!(pods.spec.ingress[0].source.is_empty());
}

#[test]
fn a_failed_add_is_undone_from_the_end() {
    let mut plan = Plan::default();
    for step in &Plan::STEPS {
        plan.done(*step);
    }
    assert!(plan.undo().eq([Step::Publish, Step::Attach, Step::Assign]));
}
