//! Services of Kubernetes, as far as rules can name them: the addresses and ports behind one.
//!
//! A service's endpoints are written by the cluster as any number of `EndpointSlice` documents (`discovery.k8s.io/v1`), which name it by a
//! label. All of their addresses count, ready or not (upstream's `felix/serviceindex`): policy must not flap with readiness. A port
//! without a number means any and counts as none; addresses that are host names count as none.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde_json::{Map, Value};

use crate::resource::Fault;

/// Label of a slice that names its service.
pub const SERVICE_NAME_LABEL: &str = "kubernetes.io/service-name";
/// Most pairs of address and port that one slice may have. Kubernetes allows 1000 endpoints; 100 ports each are more than anybody has.
const MAX_MEMBERS: usize = 100_000;

/// Identity of a service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a key and nothing else")]
pub struct ServiceKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// Identity of a slice.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "a key and nothing else")]
pub struct EndpointSliceKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// A part of a service's endpoints: each address with each port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[expect(clippy::exhaustive_structs, reason = "tests and generators build it with literals")]
pub struct EndpointSlice {
    /// Namespace of slice and service.
    pub namespace: Arc<str>,
    /// The service's name; empty where it belongs to none.
    pub service: Arc<str>,
    /// Addresses, sorted, none twice.
    pub addresses: Vec<IpAddr>,
    /// Protocol number (TCP, UDP or SCTP) and port, sorted, none twice.
    pub ports: Vec<(u8, u16)>,
}

impl EndpointSlice {
    /// Reads a document of `discovery.k8s.io/v1`. What it cannot read of the addresses and ports is left out and told.
    ///
    /// # Errors
    /// The document is none of this kind, or names no object, or has too much in it: the slice counts as absent.
    pub fn parse(document: &Value) -> Result<(EndpointSliceKey, Self, Vec<Fault>), Fault> {
        let root = document.as_object().ok_or_else(|| refused("", None, "an EndpointSlice is a mapping"))?;
        for (field, expected) in [("apiVersion", "discovery.k8s.io/v1"), ("kind", "EndpointSlice")] {
            // Members of a list have neither.
            if let Some(other) = root.get(field).filter(|value| value.as_str() != Some(expected)) {
                return Err(refused(field, Some(other), &format!("it must be {expected}")));
            }
        }
        let metadata = root.get("metadata").and_then(Value::as_object).ok_or_else(|| Fault::missing("metadata"))?;
        let key = EndpointSliceKey { namespace: name(metadata, "namespace")?, name: name(metadata, "name")? };
        let service = match metadata.get("labels").and_then(|labels| labels.get(SERVICE_NAME_LABEL)) {
            None | Some(Value::Null) => Arc::default(),
            Some(Value::String(name)) => Arc::from(name.as_str()),
            Some(other) => return Err(refused("metadata.labels", Some(other), "the service's name must be text")),
        };
        let mut unread = Vec::new();
        let addresses = addresses(root, &mut unread)?;
        let ports = ports(root, &mut unread)?;
        if addresses.len().saturating_mul(ports.len().max(1)) > MAX_MEMBERS {
            return Err(refused("", None, &format!("it has more than {MAX_MEMBERS} pairs of address and port")));
        }
        let slice = Self { namespace: key.namespace.clone(), service, addresses, ports };
        Ok((key, slice, Fault::few(unread)))
    }
}

fn name(metadata: &Map<String, Value>, field: &str) -> Result<Arc<str>, Fault> {
    match metadata.get(field) {
        Some(Value::String(name)) if !name.is_empty() => Ok(Arc::from(name.as_str())),
        Some(other) => Err(refused(&format!("metadata.{field}"), Some(other), "it must be text")),
        None => Err(Fault::missing(format!("metadata.{field}"))),
    }
}

fn addresses(root: &Map<String, Value>, unread: &mut Vec<Fault>) -> Result<Vec<IpAddr>, Fault> {
    match root.get("addressType") {
        Some(Value::String(family)) if matches!(family.as_str(), "IPv4" | "IPv6") => {}
        Some(Value::String(names)) if names == "FQDN" => return Ok(Vec::new()),
        other => return Err(refused("addressType", other, "it must be IPv4, IPv6 or FQDN")),
    }
    let mut addresses = Vec::new();
    for (index, endpoint) in list(root, "endpoints", "endpoints")?.iter().enumerate() {
        let place = format!("endpoints[{index}].addresses");
        let Some(endpoint) = endpoint.as_object() else {
            unread.push(refused(&format!("endpoints[{index}]"), Some(endpoint), "an endpoint is a mapping"));
            continue;
        };
        let texts = list(endpoint, "addresses", &place).unwrap_or_else(|fault| {
            unread.push(fault);
            &[]
        });
        for (index, text) in texts.iter().enumerate() {
            match text.as_str().and_then(|text| text.parse::<IpAddr>().ok()) {
                Some(address) => addresses.push(address.to_canonical()),
                None => unread.push(refused(&format!("{place}[{index}]"), Some(text), "it is no address")),
            }
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

fn ports(root: &Map<String, Value>, unread: &mut Vec<Fault>) -> Result<Vec<(u8, u16)>, Fault> {
    let mut ports = Vec::new();
    for (index, port) in list(root, "ports", "ports")?.iter().enumerate() {
        let place = format!("ports[{index}]");
        let Some(port) = port.as_object() else {
            unread.push(refused(&place, Some(port), "a port is a mapping"));
            continue;
        };
        let protocol = match port.get("protocol") {
            None | Some(Value::Null) => Ok(6),
            Some(Value::String(name)) => match name.as_str() {
                "TCP" => Ok(6),
                "UDP" => Ok(17),
                "SCTP" => Ok(132),
                _ => Err(port.get("protocol")),
            },
            other => Err(other),
        };
        let protocol = protocol.map_err(|value| refused(&format!("{place}.protocol"), value, "give TCP, UDP or SCTP"));
        let number = match port.get("port") {
            None | Some(Value::Null) => continue,
            Some(value) => value.as_u64().and_then(|number| u16::try_from(number).ok()).filter(|number| *number > 0),
        };
        let number = number.ok_or_else(|| refused(&format!("{place}.port"), port.get("port"), "a port is 1 to 65535"));
        match protocol.and_then(|protocol| Ok((protocol, number?))) {
            Ok(port) => ports.push(port),
            Err(fault) => unread.push(fault),
        }
    }
    ports.sort_unstable();
    ports.dedup();
    Ok(ports)
}

/// An absent list is an empty one.
fn list<'a>(object: &'a Map<String, Value>, field: &str, place: &str) -> Result<&'a [Value], Fault> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(list)) => Ok(list),
        Some(other) => Err(refused(place, Some(other), "it must be a list")),
    }
}

fn refused(path: &str, value: Option<&Value>, reason: &str) -> Fault {
    let value = match value {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(format!("{number}")),
        _ => None,
    };
    Fault::value(path, value, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec;
    use serde_json::json;

    fn slice(rest: &Value) -> Value {
        let mut document = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": "web-x1", "namespace": "shop", "labels": {SERVICE_NAME_LABEL: "web"}},
        });
        let object = document.as_object_mut().unwrap();
        object.extend(rest.as_object().unwrap().clone());
        document
    }

    #[test]
    fn what_a_rule_can_name_is_read() {
        let (key, slice, unread) = EndpointSlice::parse(&slice(&json!({
            "endpoints": [
                {"addresses": ["10.0.0.2", "10.0.0.1"], "conditions": {"ready": false}},
                {"addresses": ["10.0.0.1", "::ffff:10.0.0.3"], "conditions": {"ready": true}},
            ],
            "ports": [
                {"name": "dns", "protocol": "UDP", "port": 53}, {"port": 80}, {"port": 80, "protocol": "TCP"},
                {"name": "any", "port": null}, {"protocol": "SCTP"},
            ],
        })))
        .unwrap();
        assert_eq!((&*key.namespace, &*key.name), ("shop", "web-x1"));
        assert_eq!((&*slice.namespace, &*slice.service), ("shop", "web"));
        assert_eq!(slice.addresses, [1, 2, 3].map(|last| IpAddr::from([10, 0, 0, last])));
        assert_eq!(slice.ports, [(6, 80), (17, 53)]);
        assert_eq!(unread, []);
    }

    #[test]
    fn names_of_hosts_are_no_addresses() {
        let document = slice(&json!({"addressType": "FQDN", "endpoints": [{"addresses": ["example.com"]}]}));
        let (_, slice, unread) = EndpointSlice::parse(&document).unwrap();
        assert_eq!((slice.addresses, unread), (vec![], vec![]));
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_told() {
        let (_, slice, unread) = EndpointSlice::parse(&slice(&json!({
            "endpoints": [{"addresses": ["10.0.0.1", "10.0.0", 7]}, {"addresses": "10.0.0.2"}, "x", {}],
            "ports": [{"port": 0}, {"port": 70000}, {"port": "80"}, {"port": 1, "protocol": "ICMP"}, 80, {"port": 9}],
        })))
        .unwrap();
        assert_eq!((slice.addresses.len(), slice.ports), (1, vec![(6, 9)]));
        let told: Vec<_> = unread.iter().map(|fault| fault.path.as_str()).collect();
        let endpoints = ["endpoints[0].addresses[1]", "endpoints[0].addresses[2]", "endpoints[1].addresses"];
        let ports = ["ports[0].port", "ports[1].port", "ports[2].port", "ports[3].protocol", "ports[4]"];
        assert_eq!(told, [&endpoints[..], &["endpoints[2]"], &ports[..]].concat());
    }

    #[test]
    fn what_is_no_slice_is_refused() {
        let many: Vec<_> = (0..400).map(|number| json!(format!("10.0.{}.{}", number / 250, number % 250))).collect();
        let ports: Vec<_> = (1..400).map(|port| json!({"port": port})).collect();
        for (document, told) in [
            (json!([]), "is a mapping"),
            (json!({"kind": "EndpointSlice"}), "metadata"),
            (slice(&json!({"kind": "Service"})), "kind"),
            (slice(&json!({"apiVersion": "discovery.k8s.io/v1beta1"})), "apiVersion"),
            (slice(&json!({"addressType": "IPX"})), "addressType"),
            (slice(&json!({"addressType": null})), "addressType"),
            (slice(&json!({"metadata": {"name": "a"}})), "metadata.namespace"),
            (slice(&json!({"metadata": {"name": "", "namespace": "b"}})), "metadata.name"),
            (slice(&json!({"metadata": {"name": "a", "namespace": "b", "labels": {SERVICE_NAME_LABEL: 1}}})), "labels"),
            (slice(&json!({"endpoints": {}})), "endpoints"),
            (slice(&json!({"ports": 3})), "ports"),
            (slice(&json!({"endpoints": [{"addresses": many}], "ports": ports})), "more than 100000"),
        ] {
            let fault = EndpointSlice::parse(&document).unwrap_err().to_string();
            assert!(fault.contains(told), "{fault}");
        }
    }
}
