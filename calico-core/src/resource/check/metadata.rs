//! Names, labels and annotations, by the rules of Kubernetes.

use super::Checker;
use crate::resource::path::Path;
use crate::resource::{Kind, Metadata};
use crate::text::TextMap;

/// Most bytes of all annotations together.
const MAX_ANNOTATIONS: usize = 262_144;

impl Checker {
    pub(super) fn metadata(&mut self, kind: Kind, metadata: &Metadata) {
        let root = Path::Root;
        let path = root.field("metadata");
        if !self.is_manifest() {
            return;
        }
        self.object_name(kind, &metadata.name, &path);
        self.faults.extend(kind.misnamed(&metadata.name));
        if let Some(namespace) = metadata.namespace.as_deref().filter(|namespace| !namespace.is_empty()) {
            if !super::is_namespaced(kind) {
                self.refuse(path.field("namespace"), namespace, format_args!("{kind} is not namespaced"));
            } else if !is_subdomain(namespace) {
                self.refuse(path.field("namespace"), namespace, SUBDOMAIN);
            }
        }
        for (key, value) in &metadata.labels {
            self.label(key, value, &path.field("labels"));
        }
        self.annotations(&metadata.annotations, path.field("annotations"));
    }

    /// Annotations of an object or of a rule.
    pub(super) fn annotations(&mut self, annotations: &TextMap, path: Path<'_>) {
        for key in annotations.keys().filter(|key| !is_qualified_name(&key.to_ascii_lowercase())) {
            self.refuse(path, key, QUALIFIED_NAME);
        }
        let size: usize = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
        if size > MAX_ANNOTATIONS {
            self.refuse_field(path, format_args!("{size} bytes altogether; the limit is {MAX_ANNOTATIONS}"));
        }
    }

    fn object_name(&mut self, kind: Kind, name: &str, metadata: &Path<'_>) {
        let path = metadata.field("name");
        // A workload endpoint's name follows from its specification and may be left out.
        match (name, kind) {
            ("", Kind::WorkloadEndpoint) => return,
            ("", _) => return self.missing(path),
            _ => {}
        }
        if name.len() > 253 {
            return self.refuse(path, name, "at most 253 characters");
        }
        match kind {
            Kind::Tier if !is_label(name) => {
                self.refuse(
                    path,
                    name,
                    "a tier's name is a single DNS label: lower-case letters, digits and '-', at most 63",
                );
            }
            Kind::GlobalNetworkPolicy | Kind::StagedGlobalNetworkPolicy if !is_global_policy_name(name) => {
                self.refuse(path, name, POLICY_NAME)
            }
            Kind::NetworkPolicy | Kind::StagedNetworkPolicy
                if !is_global_policy_name(name) && !is_reserved_policy_name(name) =>
            {
                self.refuse(path, name, POLICY_NAME);
            }
            _ if !is_subdomain(name) => self.refuse(path, name, SUBDOMAIN),
            _ => {}
        }
    }

    /// One label of an object or of `labelsToApply`.
    pub(super) fn label(&mut self, key: &str, value: &str, path: &Path<'_>) {
        if !is_qualified_name(key) {
            self.refuse(path, key, QUALIFIED_NAME);
        }
        if !is_label_value(value) {
            self.refuse(path.field(key), value, LABEL_VALUE);
        }
    }

    /// An optional name.
    pub(super) fn name(&mut self, name: &str, path: Path<'_>) {
        if self.is_manifest() && !name.is_empty() && !is_subdomain(name) {
            self.refuse(path, name, SUBDOMAIN);
        }
    }
}

/// What [`is_subdomain`] asks for, for messages.
pub const SUBDOMAIN: &str =
    "a name consists of lower-case letters, digits, '-' and '.', and begins and ends with a letter or digit";
const POLICY_NAME: &str = "a policy's name consists of lower-case letters, digits and '-', with at most one '.' inside";
const QUALIFIED_NAME: &str =
    "a key is [DNS-SUBDOMAIN/]NAME, where NAME has at most 63 letters, digits, '-', '_' and '.'";
const LABEL_VALUE: &str =
    "a label's value has at most 63 letters, digits, '-', '_' and '.', and begins and ends with a letter or digit";

/// DNS-1123 label of any length: `[a-z0-9]([-a-z0-9]*[a-z0-9])?`.
fn is_label_text(text: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}

fn is_label(text: &str) -> bool {
    text.len() <= 63 && is_label_text(text)
}

/// Whether text is a DNS-1123 subdomain: what objects and namespaces are called.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label_text)
}

fn is_global_policy_name(name: &str) -> bool {
    match name.split_once('.') {
        None => is_label_text(name),
        Some((tier, rest)) => is_label_text(tier) && is_label_text(rest),
    }
}

/// Names that the Kubernetes and OpenStack integrations give.
fn is_reserved_policy_name(name: &str) -> bool {
    ["knp.default.", "ossg.default."].iter().any(|prefix| name.strip_prefix(prefix).is_some_and(is_subdomain))
}

fn is_qualified_name(key: &str) -> bool {
    match key.split_once('/') {
        None => is_name_part(key),
        Some((prefix, name)) => is_subdomain(prefix) && is_name_part(name),
    }
}

fn is_name_part(name: &str) -> bool {
    !name.is_empty() && is_label_value(name)
}

fn is_label_value(value: &str) -> bool {
    let edge = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = value.as_bytes();
    value.len() <= 63
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;

    #[test]
    fn names_follow_dns() {
        for good in ["a", "a-b.c", "0", "node-1.example.com"] {
            assert!(is_subdomain(good), "{good}");
        }
        for bad in ["", "-a", "a-", "a..b", "A", "a_b", ".a", "a."] {
            assert!(!is_subdomain(bad), "{bad}");
        }
        assert!(is_global_policy_name("tier.name") && is_global_policy_name("name"));
        assert!(!is_global_policy_name("a.b.c") && is_reserved_policy_name("knp.default.a.b.c"));
    }

    #[test]
    fn label_keys_and_values_follow_kubernetes() {
        for good in ["a", "projectcalico.org/tier", "A_b.c"] {
            assert!(is_qualified_name(good), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "UPPER.example/x", "-a"] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
        assert!(is_label_value("") && !is_label_value("a b") && !is_label_value(&String::from_iter(['a'; 64])));
    }
}
