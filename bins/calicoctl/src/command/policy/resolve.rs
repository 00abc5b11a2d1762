//! What operators type for an end of a flow, and what to tell them where it is none.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use calico_core::net::Cidr;
use calico_core::resource::{Kind, ResourceKey, nearest};

use super::names::{HOST_ENDPOINT, Meant, Names, Party, Workload};
use crate::failure::Failure;

/// Most names that a message lists.
const LISTED: usize = 8;

impl Names {
    /// What an operator means. `option` is what he typed it behind.
    pub(super) fn resolve(&self, option: &str, text: &str) -> Result<Meant, Failure> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(self.address(address.to_canonical(), None));
        }
        if let Ok(socket) = text.parse::<SocketAddr>() {
            return Ok(self.address(socket.ip().to_canonical(), Some(socket.port())));
        }
        if text.parse::<Cidr>().is_ok() {
            return Err(Failure::Usage(format!("{option} {text} is a prefix: give one address of it")));
        }
        let (bare, port) = match text.rsplit_once(':').map(|(bare, port)| (bare, port.parse::<u16>())) {
            Some((bare, Ok(port))) if port > 0 => (bare, Some(port)),
            Some((_, _)) => {
                return Err(Failure::Usage(format!("{option} {text}: what stands behind the colon is no port")));
            }
            None => (text, None),
        };
        if let Some(name) = bare.strip_prefix(HOST_ENDPOINT) {
            return self.host_endpoint(option, name).map(|party| Meant {
                party,
                name: bare.to_owned(),
                port,
                remarks: Vec::new(),
            });
        }
        self.workload(option, bare).map(|meant| Meant { port, ..meant })
    }

    /// All that an operator means: a namespace and a slash stand for all of it.
    pub(super) fn select(&self, option: &str, text: &str) -> Result<Vec<Meant>, Failure> {
        let Some(namespace) = text.strip_suffix('/').filter(|namespace| !namespace.contains('/')) else {
            let begun = text.split_once('/').map(|(namespace, rest)| self.begun(namespace, rest)).unwrap_or_default();
            return match (self.resolve(option, text), begun.as_slice()) {
                (Ok(meant), [] | [_]) => Ok(vec![meant]),
                // Of one that was named whole there is but one; others only begin so.
                (Ok(meant), _) if meant.name == text => Ok(vec![meant]),
                (Err(error), [] | [_]) => Err(error),
                (_, several) => Ok(several.iter().map(|(key, one)| self.meant(key, one, Vec::new())).collect()),
            };
        };
        let inside = self.workloads().into_iter().filter(|key| key.namespace() == Some(namespace));
        let inside: Vec<_> = inside
            .filter_map(|key| self.workloads.get(&key).map(|workload| self.meant(&key, workload, Vec::new())))
            .collect();
        if inside.is_empty() { Err(self.unknown(option, namespace, text)) } else { Ok(inside) }
    }

    /// Workloads whose name begins so: a pod of a deployment is called by it, a dash and what makes it unique.
    fn begun(&self, namespace: &str, name: &str) -> Vec<(&ResourceKey, &Workload)> {
        let is = |one: &Workload| one.workload.strip_prefix(name).is_some_and(|rest| rest.starts_with('-'));
        self.workloads.iter().filter(|(_, one)| *one.namespace == *namespace && is(one)).collect()
    }

    fn address(&self, address: IpAddr, port: Option<u16>) -> Meant {
        let owners: Vec<&ResourceKey> = self.by_address.get(&address).into_iter().flatten().collect();
        let party = owners.first().and_then(|key| self.workloads.get(*key).map(|workload| (key, workload)));
        let Some((key, workload)) = party else {
            return self.of_host(address, port).unwrap_or_else(|| Meant {
                party: Party::Outside(address),
                name: address.to_string(),
                port,
                remarks: self.floats(address).into_iter().collect(),
            });
        };
        let mut remarks = Vec::new();
        let name = self.name(key);
        remarks.push(format!("{address} is the address of {name}"));
        if owners.len() > 1 {
            let others: Vec<_> = owners.iter().skip(1).map(|key| self.name(key)).collect();
            remarks.push(format!("{address} is also the address of {}: the answer is for {name}", others.join(", ")));
        }
        let party = Party::Workload { key: (*key).clone(), node: workload.node.clone(), addresses: vec![address] };
        Meant { party, name, port, remarks }
    }

    /// Whose floating address it is. Whether hosts carry those out is a setting of each.
    fn floats(&self, address: IpAddr) -> Option<String> {
        let owners: Vec<_> = self.floating.get(&address)?.iter().map(|key| self.name(key)).collect();
        let owners = owners.join(" and of ");
        Some(format!(
            "{address} is a floating address of {owners}: hosts with FELIX_FLOATINGIPS translate it to the workload's own before policy of \
             the workload is asked; ask for the workload"
        ))
    }

    /// An address of a host endpoint, or of a host without.
    fn of_host(&self, address: IpAddr, port: Option<u16>) -> Option<Meant> {
        let meant = |party, name: String, remark: String| Meant { party, name, port, remarks: vec![remark] };
        let expecting = self.expected.get(&address).map(Vec::as_slice).unwrap_or_default();
        if let Some(name) = expecting.first() {
            let key = ResourceKey::cluster(Kind::HostEndpoint, name);
            let Party::HostEndpoint { node, .. } = self.host_party(&key)? else { return None };
            let shown = self.name(&key);
            let others: Vec<_> = expecting.iter().skip(1).map(|name| format!("{HOST_ENDPOINT}{name}")).collect();
            let remark = if others.is_empty() {
                format!("{address} is the address of {shown}")
            } else {
                format!(
                    "{address} is the address of {shown}, and of {}: the answer is for the first",
                    others.join(", ")
                )
            };
            return Some(meant(Party::HostEndpoint { key, node, addresses: vec![address] }, shown, remark));
        }
        let node = self.hosts.get(&address)?;
        let remark = format!("{address} is the host {node}");
        Some(meant(Party::Host { node: node.clone(), address }, format!("host {node}"), remark))
    }

    fn workload(&self, option: &str, text: &str) -> Result<Meant, Failure> {
        let Some((namespace, rest)) = text.split_once('/') else {
            let hint = self.anywhere(text).map_or_else(String::new, |name| format!("; did you mean {name}?"));
            return Err(Failure::Usage(format!(
                "{option} {text}: give NAMESPACE/WORKLOAD, hep/NAME or an address{hint}"
            )));
        };
        let of_namespace = || self.workloads.iter().filter(move |(_, workload)| *workload.namespace == *namespace);
        let exact: Vec<_> = of_namespace()
            .filter(|(key, one)| {
                let with_interface = rest.strip_prefix(one.workload.as_str()).and_then(|rest| rest.strip_prefix('/'));
                one.workload == rest
                    || key.name() == Some(rest)
                    || with_interface.is_some_and(|rest| rest == one.interface)
            })
            .collect();
        match exact.as_slice() {
            [(key, workload)] => return Ok(self.meant(key, workload, Vec::new())),
            [] => {}
            several => return Err(self.ambiguous(option, text, several)),
        }
        let alike = self.begun(namespace, rest);
        match alike.as_slice() {
            [] => Err(self.unknown(option, namespace, text)),
            [(key, workload), others @ ..] if others.iter().all(|(_, other)| other.likeness == workload.likeness) => {
                let name = self.name(key);
                let remark = match others.len() {
                    0 => format!("{text} is taken for {name}"),
                    more => format!(
                        "{text} is taken for {name}; policy sees no difference between it and {more} more called so"
                    ),
                };
                Ok(self.meant(key, workload, vec![remark]))
            }
            several => Err(self.ambiguous(option, text, several)),
        }
    }

    fn meant(&self, key: &ResourceKey, workload: &Workload, remarks: Vec<String>) -> Meant {
        let party =
            Party::Workload { key: key.clone(), node: workload.node.clone(), addresses: workload.addresses.clone() };
        Meant { party, name: self.name(key), port: None, remarks }
    }

    fn ambiguous(&self, option: &str, text: &str, several: &[(&ResourceKey, &Workload)]) -> Failure {
        let mut lines = vec![format!("{option} {text} may be any of:")];
        for (key, workload) in several.iter().take(LISTED) {
            let addresses: Vec<_> = workload.addresses.iter().map(ToString::to_string).collect();
            lines.push(format!("  {}  ({} on {})", self.name(key), addresses.join(", "), workload.node));
        }
        if several.len() > LISTED {
            lines.push(format!("  and {} more", several.len() - LISTED));
        }
        lines.push("  name one of them, or give its address".into());
        Failure::message(lines.join("\n"))
    }

    fn unknown(&self, option: &str, namespace: &str, text: &str) -> Failure {
        let mut message = format!("{option} {text}: there is no such workload endpoint");
        let names: BTreeSet<String> = self.workloads.keys().map(|key| self.name(key)).collect();
        if let Some(hint) = self.service(namespace, text) {
            return Failure::message(format!("{message}\n  {hint}"));
        }
        let inside: Vec<&str> =
            names.iter().map(String::as_str).filter(|name| name.split('/').next() == Some(namespace)).collect();
        if let Some(near) =
            nearest(text, names.iter().map(String::as_str)).map(str::to_owned).or_else(|| self.elsewhere(text))
        {
            message += &format!("\n  did you mean {near}?");
        } else if names.is_empty() {
            message += "\n  there are no workload endpoints at all";
        } else if inside.is_empty() {
            let namespaces: BTreeSet<&str> = self.workloads.values().map(|one| &*one.namespace).collect();
            message += &format!(
                "\n  no endpoint is in the namespace {namespace}; there are some in: {}",
                few(namespaces.into_iter())
            );
        } else {
            message += &format!("\n  in the namespace {namespace} there are: {}", few(inside.into_iter()));
        }
        Failure::message(message)
    }

    /// A workload of that name in another namespace.
    fn elsewhere(&self, text: &str) -> Option<String> {
        self.anywhere(text.split_once('/')?.1)
    }

    /// The only workload of that name, or of a name that begins so.
    fn anywhere(&self, workload: &str) -> Option<String> {
        let is = |one: &Workload| {
            one.workload.strip_prefix(workload).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let mut found = self.workloads.iter().filter(|(_, one)| is(one));
        let (key, _) = found.next()?;
        found.next().is_none().then(|| self.name(key))
    }

    fn host_endpoint(&self, option: &str, name: &str) -> Result<Party, Failure> {
        if let Some(party) = self.host_party(&ResourceKey::cluster(Kind::HostEndpoint, name)) {
            return Ok(party);
        }
        let mut message = format!("{option} {HOST_ENDPOINT}{name}: there is no such host endpoint");
        let known = self.host_endpoints.keys().map(String::as_str);
        match nearest(name, known.clone()) {
            Some(near) => message += &format!("\n  did you mean {HOST_ENDPOINT}{near}?"),
            None if self.host_endpoints.is_empty() => message += "\n  there are none at all",
            None => message += &format!("\n  there are: {}", few(known)),
        }
        Err(Failure::message(message))
    }

    /// Of what operators take for an end and is none: a service.
    fn service(&self, namespace: &str, text: &str) -> Option<String> {
        let bare = text.split_once('/').map_or(text, |(_, rest)| rest);
        let is_one = self.services.contains(&(namespace.to_owned(), bare.to_owned()))
            || matches!(namespace, "svc" | "service" | "services");
        is_one.then(|| {
            "policy does not see services: hosts translate to an endpoint behind it before policy is asked; name one of those".into()
        })
    }
}

fn few<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.collect();
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let text = names.join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}
