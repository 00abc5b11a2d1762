//! Documents of Kubernetes as far as policy is made of them: the resources that follow from each.
//!
//! In comes one document, out comes what upstream's Kubernetes datastore makes of it (`libcalico-go/lib/backend/k8s/conversion`): the profile
//! of a namespace or service account, the endpoint of a pod, the policy of a `NetworkPolicy`, the addresses of an `EndpointSlice`. Of a
//! pod only what policy looks at is taken over: names, labels, account, addresses, named ports.
//!
//! A policy is called `knp.default.` and its name, as upstream's controllers call their copies of it: it may have the name of a policy of
//! Calico's own beside it.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde_json::Value;

use crate::cni::pod_suffix;
use crate::net::{Cidr, Protocol};
use crate::resource::v1::{RuleOrigins, convert_kubernetes_policy};
use crate::resource::{
    Action, EndpointPort, Fault, Metadata, Object, ProfileSpec, Resource, Rule, SUBDOMAIN, WorkloadEndpointSpec,
    is_subdomain,
};
use crate::service::{EndpointSlice, EndpointSliceKey};
use crate::text::{Text, TextMap};

/// How policies of Kubernetes are called among the resources.
pub const POLICY_PREFIX: &str = "knp.default.";
/// Namespace of a document that names none.
const DEFAULT_NAMESPACE: &str = "default";
/// Label that Kubernetes itself gives to each namespace.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// How host interfaces of pods begin. Nothing but the agent of the host looks at it.
const INTERFACE_PREFIX: &str = "cali";
/// The agent takes a longer name of an account from the specification.
const LABEL_LENGTH: usize = 63;

/// What a document says to policy.
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "whoever reads documents must handle each")]
pub enum Converted {
    /// A profile or an endpoint.
    Resource(Resource),
    /// A policy, and which rules of the document its rules come from.
    Policy(Resource, RuleOrigins),
    /// A part of a service, and what of it cannot be read.
    Slice(EndpointSliceKey, EndpointSlice, Vec<Fault>),
    /// Nothing yet, or no more: why.
    Nothing(&'static str),
}

/// Reads a document; none if it is of a kind that policy does not look at.
///
/// # Errors
/// At least one fault of the document.
pub fn convert(document: &Value) -> Option<Result<Converted, Vec<Fault>>> {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    let one = |found: Result<Converted, Fault>| found.map_err(|fault| vec![fault]);
    Some(match (text("apiVersion"), text("kind")) {
        ("v1", "Namespace") => one(namespace(document)),
        ("v1", "ServiceAccount") => one(service_account(document)),
        ("v1", "Pod") => one(pod(document)),
        ("networking.k8s.io/v1", "NetworkPolicy") => policy(document),
        ("discovery.k8s.io/v1", "EndpointSlice") => {
            one(EndpointSlice::parse(document).map(|(key, slice, unread)| Converted::Slice(key, slice, unread)))
        }
        _ => return None,
    })
}

/// The profile of a namespace of which no more than the name is known.
pub fn namespace_profile(name: &str) -> Resource {
    let labels = TextMap::from([(NAME_LABEL.into(), name.into())]);
    profile(format!("kns.{name}"), "pcns.", name, &labels, true)
}

/// The profile of a service account of which no more than the name is known.
pub fn account_profile(namespace: &str, name: &str) -> Resource {
    profile(format!("ksa.{namespace}.{name}"), "pcsa.", name, &TextMap::new(), false)
}

fn policy(document: &Value) -> Result<Converted, Vec<Fault>> {
    let (mut resource, origins) = convert_kubernetes_policy(document)?;
    if let Some(metadata) = resource.metadata_mut() {
        metadata.name = format!("{POLICY_PREFIX}{}", metadata.name);
        metadata.namespace.get_or_insert_with(|| DEFAULT_NAMESPACE.into());
    }
    resource.fill_defaults().map_err(|fault| vec![fault])?;
    Ok(Converted::Policy(resource, origins))
}

fn namespace(document: &Value) -> Result<Converted, Fault> {
    let name = name(document)?;
    let mut labels = labels(document)?;
    if !labels.contains_key(NAME_LABEL) {
        labels.insert(NAME_LABEL.into(), name.into());
    }
    Ok(Converted::Resource(profile(format!("kns.{name}"), "pcns.", name, &labels, true)))
}

fn service_account(document: &Value) -> Result<Converted, Fault> {
    let (namespace, name) = (namespace_of(document)?, name(document)?);
    Ok(Converted::Resource(profile(format!("ksa.{namespace}.{name}"), "pcsa.", name, &labels(document)?, false)))
}

/// A profile that hands labels down under a prefix, and the name of what it stands for.
fn profile(profile: String, prefix: &str, name: &str, labels: &TextMap, allows: bool) -> Resource {
    let rules = || if allows { vec![Rule { action: Action::Allow, ..Rule::default() }] } else { Vec::new() };
    let mut labels_to_apply: TextMap =
        labels.iter().map(|(label, value)| (format!("{prefix}{label}").into(), value.clone())).collect();
    labels_to_apply.insert(format!("{prefix}projectcalico.org/name").into(), name.into());
    Resource::Profile(Object::named(&profile, ProfileSpec { ingress: rules(), egress: rules(), labels_to_apply }))
}

fn pod(document: &Value) -> Result<Converted, Fault> {
    let text = |path: &str| text(document, path);
    let (namespace, name) = (namespace_of(document)?, name(document)?);
    let nothing = |why| Ok(Converted::Nothing(why));
    if document.pointer("/spec/hostNetwork").and_then(Value::as_bool) == Some(true) {
        return nothing("it is on its host's network");
    }
    let node = text("/spec/nodeName")?;
    if node.is_empty() {
        return nothing("it is on no node (spec.nodeName)");
    }
    if matches!(text("/status/phase")?, "Failed" | "Succeeded" | "Completed") {
        return nothing("it has ended");
    }
    let ip_networks = addresses(document)?;
    if ip_networks.is_empty() {
        return nothing("it has no address (status.podIPs)");
    }
    let account = text("/spec/serviceAccountName")?;
    let mut profiles: Vec<Text> = vec![format!("kns.{namespace}").into()];
    profiles.extend((!account.is_empty()).then(|| format!("ksa.{namespace}.{account}").into()));
    let interface = format!("{INTERFACE_PREFIX}{}", pod_suffix(namespace, name));
    let spec = WorkloadEndpointSpec {
        orchestrator: "k8s".into(),
        node: node.into(),
        pod: name.into(),
        endpoint: "eth0".into(),
        service_account_name: account.into(),
        ip_networks,
        profiles,
        interface_name: interface.parse().ok(),
        ports: ports(document),
        ..WorkloadEndpointSpec::default()
    };
    let mut labels = labels(document)?;
    if (1..LABEL_LENGTH).contains(&account.len()) {
        labels.insert("projectcalico.org/serviceaccount".into(), account.into());
    }
    let metadata = Metadata { namespace: Some(namespace.to_string()), labels, ..Metadata::default() };
    let mut endpoint = Resource::WorkloadEndpoint(Object::new(metadata, spec));
    endpoint.fill_defaults()?;
    Ok(Converted::Resource(endpoint))
}

/// From the first place that has any.
fn addresses(document: &Value) -> Result<Vec<Cidr>, Fault> {
    let list = |path: &str| document.pointer(path).and_then(Value::as_array).into_iter().flatten();
    let mut texts: Vec<&str> =
        list("/status/podIPs").filter_map(|one| one.get("ip")?.as_str()).filter(|one| !one.is_empty()).collect();
    let further = [
        "/status/podIP",
        "/metadata/annotations/cni.projectcalico.org~1podIPs",
        "/metadata/annotations/cni.projectcalico.org~1podIP",
    ];
    for path in further {
        if texts.is_empty() {
            let text = document.pointer(path).and_then(Value::as_str).unwrap_or_default();
            texts = text.split(',').filter(|one| !one.is_empty()).collect();
        }
    }
    let parse = |text: &str| {
        let bare = text.trim().split('/').next().unwrap_or_default();
        let address = bare.parse::<IpAddr>().map(Cidr::host);
        address.map_err(|error| Fault::value("status.podIPs", Some(text.to_string()), error))
    };
    texts.into_iter().map(parse).collect()
}

/// Ports with a name, or that the host forwards.
fn ports(document: &Value) -> Vec<EndpointPort> {
    let containers = ["/spec/containers", "/spec/initContainers"]
        .into_iter()
        .filter_map(|path| document.pointer(path)?.as_array())
        .flatten();
    let given = containers.filter_map(|container| container.get("ports")?.as_array()).flatten();
    given.filter_map(port).collect()
}

fn port(port: &Value) -> Option<EndpointPort> {
    let number = |field: &str| port.get(field).and_then(Value::as_u64).and_then(|number| u16::try_from(number).ok());
    let name = port.get("name").and_then(Value::as_str).unwrap_or_default();
    let protocol = match port.get("protocol").and_then(Value::as_str) {
        None | Some("TCP") => Protocol::TCP,
        Some("UDP") => Protocol::UDP,
        Some("SCTP") => Protocol::SCTP,
        Some(_) => return None,
    };
    let host_port = number("hostPort").unwrap_or_default();
    let found = number("containerPort").filter(|found| *found != 0 && (host_port != 0 || !name.is_empty()))?;
    Some(EndpointPort { name: name.into(), protocol, port: found, host_port, host_ip: Text::default() })
}

/// Text, or none where there is nothing. YAML 1.1 takes `n` for a truth value and `1` for a number: to pass over those would lose what was
/// written.
fn text<'a>(document: &'a Value, path: &str) -> Result<&'a str, Fault> {
    match document.pointer(path) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(other) => {
            let field = path.trim_start_matches('/').replace('/', ".");
            Err(Fault::value(field, Some(other.to_string()), "text is wanted here: put it in quotes"))
        }
    }
}

fn name(document: &Value) -> Result<&str, Fault> {
    match text(document, "/metadata/name")? {
        "" => Err(Fault::missing("metadata.name")),
        name if is_subdomain(name) => Ok(name),
        name => Err(Fault::value("metadata.name", Some(name.to_string()), SUBDOMAIN)),
    }
}

fn namespace_of(document: &Value) -> Result<&str, Fault> {
    match text(document, "/metadata/namespace")? {
        "" => Ok(DEFAULT_NAMESPACE),
        namespace if is_subdomain(namespace) => Ok(namespace),
        namespace => Err(Fault::value("metadata.namespace", Some(namespace.to_string()), SUBDOMAIN)),
    }
}

fn labels(document: &Value) -> Result<TextMap, Fault> {
    let Some(labels) = document.pointer("/metadata/labels").filter(|labels| !labels.is_null()) else {
        return Ok(TextMap::new());
    };
    let pairs = labels.as_object().ok_or_else(|| Fault::value("metadata.labels", None, "labels are a mapping"))?;
    let pair = |(name, value): (&String, &Value)| match value.as_str() {
        Some(value) => Ok((name.into(), value.into())),
        None => Err(Fault::value(format!("metadata.labels.{name}"), Some(value.to_string()), "a label is text")),
    };
    pairs.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn resource(document: &Value) -> Resource {
        match convert(document).unwrap().unwrap() {
            Converted::Resource(resource) | Converted::Policy(resource, _) => resource,
            other => panic!("{other:?}"),
        }
    }

    /// The vectors of upstream's conversion.
    #[test]
    fn a_pod_is_an_endpoint() {
        let document = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "nginx", "labels": {"app": "web"}},
            "spec": {"nodeName": "node-1", "serviceAccountName": "sa", "containers": [
                {"ports": [{"name": "http", "containerPort": 80}, {"containerPort": 81}, {"containerPort": 82, "hostPort": 1, "protocol": "UDP"}]},
                {"ports": [{"name": "odd", "containerPort": 83, "protocol": "IGMP"}]},
            ]},
            "status": {"phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
        });
        let Resource::WorkloadEndpoint(endpoint) = resource(&document) else { panic!() };
        assert_eq!(endpoint.metadata.name, "node--1-k8s-nginx-eth0");
        assert_eq!(endpoint.metadata.namespace.as_deref(), Some("default"));
        assert_eq!(endpoint.spec.interface_name.unwrap().as_str(), "calic440f455693");
        assert_eq!(endpoint.spec.profiles, ["kns.default", "ksa.default.sa"]);
        let labels: Vec<_> =
            endpoint.metadata.labels.iter().map(|(name, value)| format!("{}={}", &**name, &**value)).collect();
        assert_eq!(
            labels,
            [
                "app=web",
                "projectcalico.org/namespace=default",
                "projectcalico.org/orchestrator=k8s",
                "projectcalico.org/serviceaccount=sa"
            ]
        );
        let nets: Vec<_> = endpoint.spec.ip_networks.iter().map(ToString::to_string).collect();
        assert_eq!(nets, ["10.0.0.1/32", "fd00::1/128"]);
        let ports: Vec<_> = endpoint.spec.ports.iter().map(|port| (&*port.name, port.port, port.host_port)).collect();
        assert_eq!(ports, [("http", 80, 0), ("", 82, 1)]);
    }

    #[test]
    fn a_pod_that_has_no_endpoint_says_why() {
        let pod = |spec: Value, status: Value| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec, "status": status});
        let ready = json!({"podIP": "10.0.0.1"});
        for (document, told) in [
            (pod(json!({"nodeName": "n", "hostNetwork": true}), ready.clone()), "it is on its host's network"),
            (pod(json!({}), ready), "it is on no node (spec.nodeName)"),
            (pod(json!({"nodeName": "n"}), json!({"podIP": "10.0.0.1", "phase": "Succeeded"})), "it has ended"),
            (pod(json!({"nodeName": "n"}), json!({})), "it has no address (status.podIPs)"),
        ] {
            assert_eq!(convert(&document), Some(Ok(Converted::Nothing(told))));
        }
        // As YAML 1.1 reads `nodeName: n`.
        let faults = convert(&pod(json!({"nodeName": false}), json!({"podIP": "10.0.0.1"}))).unwrap().unwrap_err();
        assert!(
            faults[0].to_string().contains("spec.nodeName") && faults[0].to_string().contains("quotes"),
            "{faults:?}"
        );
        for name in [json!("a\nb"), json!("A"), json!(5)] {
            let document =
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": "n"}});
            assert_eq!(convert(&document).unwrap().unwrap_err()[0].path, "metadata.name");
        }
        let odd = pod(json!({"nodeName": "n"}), json!({"podIPs": [{"ip": "x"}]}));
        assert!(convert(&odd).unwrap().is_err());
        assert_eq!(convert(&json!({"apiVersion": "v1", "kind": "Service"})), None);
    }

    #[test]
    fn namespaces_and_accounts_are_profiles() {
        let document = |kind: &str, labels: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "one", "namespace": "shop", "labels": labels}});
        let Resource::Profile(profile) = resource(&document("Namespace", json!({"team": "a"}))) else { panic!() };
        assert_eq!((&*profile.metadata.name, profile.spec.ingress.len(), profile.spec.egress.len()), ("kns.one", 1, 1));
        let handed: Vec<_> =
            profile.spec.labels_to_apply.iter().map(|(name, value)| format!("{}={}", &**name, &**value)).collect();
        assert_eq!(handed, ["pcns.kubernetes.io/metadata.name=one", "pcns.projectcalico.org/name=one", "pcns.team=a"]);
        let bare = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "one"}});
        assert_eq!(resource(&bare), namespace_profile("one"));
        let Resource::Profile(profile) = resource(&document("ServiceAccount", json!({"team": "a"}))) else { panic!() };
        assert_eq!(
            (&*profile.metadata.name, profile.spec.ingress.len(), profile.spec.egress.len()),
            ("ksa.shop.one", 0, 0)
        );
        assert_eq!(profile.spec.labels_to_apply.get("pcsa.team").map(Text::as_str), Some("a"));
        assert!(convert(&document("Namespace", json!(["a"]))).unwrap().is_err());
        assert!(convert(&document("Namespace", json!({"a": 1}))).unwrap().is_err());
    }

    #[test]
    fn rules_of_a_policy_know_where_they_come_from() {
        let document = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"podSelector": {}, "egress": [{}], "ingress": [
                {"from": [{"podSelector": {}}, {"ipBlock": {"cidr": "10.0.0.0/8"}}]},
                {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}], "from": [{"podSelector": {}}]},
            ]},
        });
        let Some(Ok(Converted::Policy(resource, origins))) = convert(&document) else { panic!() };
        assert_eq!(resource.key().unwrap().to_string(), "NetworkPolicy(shop/knp.default.web)");
        assert_eq!((origins.ingress, origins.egress), (vec![0, 0, 1, 1], vec![0]));
    }
}
