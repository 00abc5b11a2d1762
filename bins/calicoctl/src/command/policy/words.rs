//! Rules, actions and keys in words, as operators write and read them.

use calico_core::kubernetes::POLICY_PREFIX;
use calico_core::net::Protocol;
use calico_core::resource::{Action, EntityRule, Icmp, Kind, PolicyType, ResourceKey, Rule};
use calico_core::verdict::Stage;

/// How the selector of a policy of Kubernetes begins.
const PODS: &str = "projectcalico.org/orchestrator == 'k8s'";

/// Kind and name of an object, as operators type them.
pub(super) fn object(key: &ResourceKey) -> (String, String) {
    let (kind, name) = (key.kind(), key.name().unwrap_or_default());
    let (kind, name) = match (kind, name.strip_prefix(POLICY_PREFIX)) {
        (Kind::NetworkPolicy, Some(name)) => ("KubernetesNetworkPolicy", name),
        _ => (kind.name(), name),
    };
    let name = key.namespace().map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    (kind.to_owned(), name)
}

/// Both.
pub(super) fn named(key: &ResourceKey) -> String {
    let (kind, name) = object(key);
    format!("{kind} {name}")
}

pub(super) const fn direction(direction: PolicyType) -> &'static str {
    match direction {
        PolicyType::Ingress => "ingress",
        PolicyType::Egress => "egress",
    }
}

/// Which policy of an endpoint was asked, for programs.
pub(super) const fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Untracked => "doNotTrack",
        Stage::PreDnat => "preDNAT",
        Stage::Workload => "workload",
        Stage::Host => "host",
        Stage::Forward => "applyOnForward",
        _ => "none",
    }
}

pub(super) const fn action(action: Action) -> &'static str {
    match action {
        Action::Allow => "Allow",
        Action::Deny => "Deny",
        Action::Log => "Log",
        Action::Pass => "Pass",
    }
}

/// A rule on one line.
pub(super) fn rule(rule: &Rule) -> String {
    let mut words = vec![action(rule.action).to_owned()];
    words.extend(rule.ip_version.map(|version| format!("IPv{version}")));
    words.extend(rule.protocol.map(protocol));
    words.extend(rule.not_protocol.map(|unwanted| format!("all but {}", protocol(unwanted))));
    words.extend(rule.icmp.map(icmp));
    words.extend(rule.not_icmp.map(|unwanted| format!("not {}", icmp(unwanted))));
    for (word, entity) in [("from", &rule.source), ("to", &rule.destination)] {
        let text = side(entity);
        words.extend((!text.is_empty()).then(|| format!("{word} {text}")));
    }
    words.extend(rule.http.is_some().then(|| "with http conditions".to_owned()));
    words.extend(rule.unread.is_some().then(|| "with what this version does not understand".to_owned()));
    words.join(" ")
}

fn protocol(protocol: Protocol) -> String {
    if protocol.is_named() { protocol.to_string() } else { format!("protocol {protocol}") }
}

fn icmp(icmp: Icmp) -> String {
    match (icmp.icmp_type, icmp.code) {
        (Some(kind), Some(code)) => format!("type {kind} code {code}"),
        (Some(kind), None) => format!("type {kind}"),
        (None, Some(code)) => format!("code {code}"),
        (None, None) => "any type".into(),
    }
}

fn side(entity: &EntityRule) -> String {
    let mut words = Vec::new();
    let mut say = |given: bool, text: &dyn Fn() -> String| words.extend(given.then(text));
    say(!entity.nets.is_empty(), &|| list(&entity.nets));
    say(!entity.not_nets.is_empty(), &|| format!("not {}", list(&entity.not_nets)));
    say(!entity.selector.is_empty(), &|| selector(&entity.selector));
    say(!entity.not_selector.is_empty(), &|| format!("not [{}]", entity.not_selector));
    say(!entity.namespace_selector.is_empty(), &|| format!("in namespaces [{}]", entity.namespace_selector));
    if let Some(accounts) = &entity.service_accounts {
        say(!accounts.names.is_empty(), &|| format!("of accounts {}", accounts.names.join(", ")));
        say(!accounts.selector.is_empty(), &|| format!("of accounts [{}]", accounts.selector));
    }
    if let Some(service) = &entity.services {
        let namespace = if service.namespace.is_empty() { String::new() } else { format!("{}/", service.namespace) };
        say(true, &|| format!("service {namespace}{}", service.name));
    }
    say(!entity.ports.is_empty(), &|| format!("port {}", list(&entity.ports)));
    say(!entity.not_ports.is_empty(), &|| format!("not port {}", list(&entity.not_ports)));
    let text = words.join(" ");
    // "from in namespaces" and "from of accounts" would be one word too many.
    let bare = text.strip_prefix("in ").or_else(|| text.strip_prefix("of "));
    bare.map_or_else(|| text.clone(), str::to_owned)
}

/// Those of Kubernetes begin with what makes them about pods.
fn selector(text: &str) -> String {
    match text.strip_prefix(PODS).map(|rest| rest.strip_prefix(" && ").unwrap_or(rest)) {
        Some("") => "pods".into(),
        Some(rest) => format!("pods [{rest}]"),
        None => format!("[{text}]"),
    }
}

/// The first few, so that a line stays one.
fn list<T: ToString>(items: &[T]) -> String {
    const SHOWN: usize = 6;
    let mut texts: Vec<String> = items.iter().take(SHOWN).map(ToString::to_string).collect();
    if items.len() > SHOWN {
        texts.push(format!("… {} more", items.len() - SHOWN));
    }
    texts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_read_like_sentences() {
        let read = |text: &str| rule(&serde_json::from_str(text).unwrap());
        assert_eq!(read(r#"{"action": "Allow"}"#), "Allow");
        let pods = |rest: &str| format!(r#"{{"action": "Allow", "source": {{"selector": "{PODS}{rest}"}}}}"#);
        assert_eq!(read(&pods("")), "Allow from pods");
        assert_eq!(read(&pods(" && a == 'b'")), "Allow from pods [a == 'b']");
        assert_eq!(
            read(
                r#"{"action": "Deny", "protocol": "TCP", "ipVersion": 4, "source": {"selector": "a == 'b'", "namespaceSelector": "all()",
                "notNets": ["10.0.0.0/8"]}, "destination": {"ports": [80, "8000:8080", "http"], "nets": ["1.0.0.0/8", "2.0.0.0/8",
                "3.0.0.0/8", "4.0.0.0/8", "5.0.0.0/8", "6.0.0.0/8", "7.0.0.0/8"]}}"#
            ),
            "Deny IPv4 TCP from not 10.0.0.0/8 [a == 'b'] in namespaces [all()] to 1.0.0.0/8, 2.0.0.0/8, 3.0.0.0/8, 4.0.0.0/8, \
             5.0.0.0/8, 6.0.0.0/8, … 1 more port 80, 8000:8080, http"
        );
        assert_eq!(
            read(
                r#"{"action": "Pass", "notProtocol": 47, "icmp": {"type": 3, "code": 1}, "notICMP": {"type": 8}, "http": {"methods": ["GET"]},
                "source": {"notSelector": "has(x)", "serviceAccounts": {"names": ["a", "b"], "selector": "c == 'd'"}},
                "destination": {"services": {"name": "s", "namespace": "n"}, "notPorts": [1]}}"#
            ),
            "Pass all but protocol 47 type 3 code 1 not type 8 from not [has(x)] of accounts a, b of accounts [c == 'd'] \
             to service n/s not port 1 with http conditions"
        );
    }

    #[test]
    fn what_stands_first_needs_no_word_to_join_it() {
        let read = |source: &str| {
            rule(&serde_json::from_str(&format!(r#"{{"action": "Allow", "source": {source}}}"#)).unwrap())
        };
        assert_eq!(read(r#"{"serviceAccounts": {"names": ["a"]}}"#), "Allow from accounts a");
        assert_eq!(read(r#"{"namespaceSelector": "all()"}"#), "Allow from namespaces [all()]");
        let both = r#"{"namespaceSelector": "all()", "serviceAccounts": {"selector": "has(x)"}}"#;
        assert_eq!(read(both), "Allow from namespaces [all()] of accounts [has(x)]");
    }

    #[test]
    fn a_policy_of_kubernetes_has_its_own_name() {
        let key = |name| ResourceKey::namespaced(Kind::NetworkPolicy, "shop", name);
        assert_eq!(named(&key("knp.default.web")), "KubernetesNetworkPolicy shop/web");
        assert_eq!(named(&key("web")), "NetworkPolicy shop/web");
        assert_eq!(named(&ResourceKey::cluster(Kind::GlobalNetworkPolicy, "web")), "GlobalNetworkPolicy web");
    }
}
