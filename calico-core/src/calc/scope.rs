//! Which endpoints a policy's selectors mean, and which peers a rule's.
//!
//! Namespaces and service accounts are not items of their own: their labels reach endpoints through profiles, under the
//! prefixes `pcns.` and `pcsa.`. Here selectors over the three become one over the endpoint's labels, exactly as upstream's
//! update processors do it (their text surgery is repeated on the tree, so that ids agree).

use alloc::vec;

use crate::resource::{EntityRule, GlobalNetworkPolicySpec, NAMESPACE_LABEL, NetworkPolicySpec, ServiceAccountMatch};
use crate::selector::{Node, Selector, SelectorError, Test};

/// Label that names an endpoint's service account.
pub(super) const SERVICE_ACCOUNT: &str = "projectcalico.org/serviceaccount";
/// Prefix of labels that come from the namespace.
pub(super) const NAMESPACE_PREFIX: &str = "pcns.";
/// Prefix of labels that come from the service account.
pub(super) const SERVICE_ACCOUNT_PREFIX: &str = "pcsa.";

/// Field and fault.
pub(super) type Fault = (&'static str, SelectorError);

/// Endpoints of a namespaced policy.
pub(super) fn network_policy(namespace: &str, spec: &NetworkPolicySpec) -> Result<Selector, Fault> {
    let inside = Node::Test(NAMESPACE_LABEL.into(), Test::Equal(namespace.into()));
    let selector = match spec.selector.as_str() {
        "" => Selector::from(inside),
        text => Selector::from(Node::And(vec![root("spec.selector", text)?, inside])),
    };
    match parse("spec.serviceAccountSelector", &spec.service_account_selector)? {
        Some(accounts) => Ok(selector.and(&accounts.with_prefix(SERVICE_ACCOUNT_PREFIX))),
        None => Ok(selector),
    }
}

/// Endpoints of a global policy. With a condition on the namespace, `all()` means everything *in a namespace*; likewise for
/// service accounts.
pub(super) fn global_network_policy(spec: &GlobalNetworkPolicySpec) -> Result<Selector, Fault> {
    let mut selector = parse("spec.selector", &spec.selector)?;
    let narrowing = [
        ("spec.namespaceSelector", &spec.namespace_selector, NAMESPACE_PREFIX, NAMESPACE_LABEL),
        ("spec.serviceAccountSelector", &spec.service_account_selector, SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNT),
    ];
    for (field, text, prefix, label) in narrowing {
        let Some(condition) = parse(field, text)? else { continue };
        let condition = condition.with_prefix(prefix);
        let both = match selector {
            Some(selector) => selector.and(&condition),
            None => condition,
        };
        selector = Some(both.replace_all(&Selector::has(label)));
    }
    Ok(selector.unwrap_or_else(Selector::all))
}

/// Peers of a rule: those that it must be one of, and those that it must be none of.
#[derive(Debug, Default)]
pub(super) struct Peers {
    pub(super) positive: Option<Selector>,
    pub(super) negative: Option<Selector>,
}

/// Peers of one side of a rule, in a policy of that namespace.
///
/// A negative selector beside a positive one narrows it, giving one set. Alone it stays apart: then it also matches addresses
/// that no endpoint or network set has.
pub(super) fn peers(namespace: Option<&str>, entity: &EntityRule) -> Result<Peers, Fault> {
    let accounts = match &entity.service_accounts {
        Some(accounts) => service_accounts(accounts)?,
        None => None,
    };
    let combined = match (accounts, parse("selector", &entity.selector)?) {
        (Some(accounts), Some(selector)) => Some(accounts.and(&selector)),
        (accounts, selector) => accounts.or(selector),
    };
    let negative = parse("notSelector", &entity.not_selector)?;
    let namespaces = parse("namespaceSelector", &entity.namespace_selector)?.map(|selector| {
        let namespaced = Selector::has(NAMESPACE_LABEL);
        let selector = selector.with_prefix(NAMESPACE_PREFIX);
        selector.replace_all(&namespaced).replace_global(&namespaced.negated())
    });
    let scope = match namespaces {
        Some(namespaces) => Some(namespaces),
        None if combined.is_some() || negative.is_some() => {
            namespace.map(|name| Selector::equal(NAMESPACE_LABEL, name))
        }
        None => None,
    };
    let positive = match (scope, combined) {
        (Some(scope), Some(combined)) => Some(scope.and(&combined)),
        (scope, combined) => scope.or(combined),
    };
    Ok(match (positive, negative) {
        (Some(positive), Some(negative)) => Peers { positive: Some(positive.and(&negative.negated())), negative: None },
        (positive, negative) => Peers { positive, negative },
    })
}

fn service_accounts(accounts: &ServiceAccountMatch) -> Result<Option<Selector>, Fault> {
    let selector = parse("serviceAccounts.selector", &accounts.selector)?
        .map(|selector| selector.with_prefix(SERVICE_ACCOUNT_PREFIX));
    let names = (!accounts.names.is_empty())
        .then(|| Selector::any_of(SERVICE_ACCOUNT, accounts.names.iter().map(alloc::string::String::as_str)));
    Ok(match (selector, names) {
        (Some(selector), Some(names)) => Some(selector.and(&names)),
        (selector, names) => selector.or(names),
    })
}

fn root(field: &'static str, text: &str) -> Result<Node, Fault> {
    Selector::parse_root(text).map_err(|error| (field, error))
}

/// Absent text is no condition (and not `all()`).
fn parse(field: &'static str, text: &str) -> Result<Option<Selector>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    Selector::parse(text).map(Some).map_err(|error| (field, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    fn describe(namespace: Option<&str>, entity: &EntityRule) -> (String, String) {
        let peers = peers(namespace, entity).unwrap();
        let text = |selector: Option<Selector>| selector.map_or_else(String::new, |one| one.to_string());
        (text(peers.positive), text(peers.negative))
    }

    #[test]
    fn peers_of_a_namespaced_policy() {
        let entity = |selector: &str, not: &str, namespaces: &str| EntityRule {
            selector: selector.into(),
            not_selector: not.into(),
            namespace_selector: namespaces.into(),
            ..EntityRule::default()
        };
        let here = r#"projectcalico.org/namespace == "n""#;
        for (rule, positive) in [
            (entity("", "", ""), String::new()),
            (entity("a == 'x'", "", ""), alloc::format!(r#"({here} && a == "x")"#)),
            (entity("", "a == 'x'", ""), alloc::format!(r#"({here} && !a == "x")"#)),
            (entity("has(b)", "a == 'x'", ""), alloc::format!(r#"(({here} && has(b)) && !a == "x")"#)),
            (entity("has(b)", "", "role == 'r'"), r#"(pcns.role == "r" && has(b))"#.into()),
            (entity("", "", "all()"), "has(projectcalico.org/namespace)".into()),
            (entity("has(b)", "", "global()"), "(!has(projectcalico.org/namespace) && has(b))".into()),
        ] {
            assert_eq!(describe(Some("n"), &rule), (positive, String::new()));
        }
    }

    #[test]
    fn peers_of_a_global_policy() {
        let lone = EntityRule { not_selector: "has(a)".into(), ..EntityRule::default() };
        assert_eq!(describe(None, &lone), (String::new(), "has(a)".into()));
        let accounts = ServiceAccountMatch { names: alloc::vec!["b".into(), "a".into()], selector: "r == 'x'".into() };
        let entity =
            EntityRule { selector: "has(c)".into(), service_accounts: Some(accounts), ..EntityRule::default() };
        let expected = r#"((pcsa.r == "x" && projectcalico.org/serviceaccount in {"a", "b"}) && has(c))"#;
        assert_eq!(describe(None, &entity), (expected.into(), String::new()));
    }

    #[test]
    fn endpoints_of_policies() {
        let spec = NetworkPolicySpec { service_account_selector: "r == 'x'".into(), ..NetworkPolicySpec::default() };
        let selector = network_policy("n", &spec).unwrap();
        assert_eq!(selector.canonical(), r#"(projectcalico.org/namespace == "n" && pcsa.r == "x")"#);
        let spec = GlobalNetworkPolicySpec { selector: "all()".into(), ..GlobalNetworkPolicySpec::default() };
        assert_eq!(global_network_policy(&spec).unwrap().canonical(), "all()");
        let spec = GlobalNetworkPolicySpec { namespace_selector: "all() || a == 'x'".into(), ..spec };
        assert_eq!(
            global_network_policy(&spec).unwrap().canonical(),
            r#"(has(projectcalico.org/namespace) && (has(projectcalico.org/namespace) || pcns.a == "x"))"#
        );
        let spec = GlobalNetworkPolicySpec { namespace_selector: "a = 'x'".into(), ..spec };
        assert_eq!(global_network_policy(&spec).unwrap_err().0, "spec.namespaceSelector");
    }
}
