//! Stable names: functions of content, length-limited, and readable wherever the content allows it.

use alloc::format;
use alloc::string::String;

use sha2::{Digest, Sha256};

use crate::calc::event::{PolicyId, ProfileId, SetId};
use crate::net::{Family, InterfaceName};
use crate::resource::{Kind, ResourceKey};
use crate::table::{ChainName, SetName};

/// Name of our table, of family `inet`. Upstream's is `calico`: the two never meet.
pub const TABLE: &str = "calico-dataplane";
/// Verdict map from interface to what its workload may send.
pub const FROM_WORKLOAD: &str = "from-workload";
/// Verdict map from interface to what its workload may receive.
pub const TO_WORKLOAD: &str = "to-workload";

/// A direction of traffic as seen from the endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Direction {
    Ingress,
    Egress,
}

impl Direction {
    const fn short(self) -> &'static str {
        match self {
            Self::Ingress => "in",
            Self::Egress => "out",
        }
    }

    /// Upstream's letter in prefixes of flow logs.
    pub(super) const fn letter(self) -> char {
        match self {
            Self::Ingress => 'I',
            Self::Egress => 'E',
        }
    }

    const fn long(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        }
    }
}

/// `policy-in/np/default/allow-dns`; of a layer of its own, behind the layer's name.
pub(super) fn policy_chain(id: &PolicyId, direction: Direction, layer: &str) -> ChainName {
    limited(&format!("{layer}policy-{}/", direction.short()), &policy_path(&id.0))
}

/// `profile-out/kns.default`.
pub(super) fn profile_chain(id: &ProfileId, direction: Direction, layer: &str) -> ChainName {
    limited(&format!("{layer}profile-{}/", direction.short()), &id.0)
}

/// `ingress-…`, for content that `text` and the beginning describe fully.
pub(super) fn stack_chain(text: &str, direction: Direction, beginning: &str) -> ChainName {
    ChainName::composed(&format!("{beginning}{}-{}", direction.long(), digest(text)))
}

/// `limits-in/cali12345`.
pub(super) fn limits_chain(interface: InterfaceName, direction: Direction) -> ChainName {
    limited(&format!("limits-{}/", direction.short()), interface.as_str())
}

/// `discovery-out/cali12345`.
pub(super) fn discovery_chain(interface: InterfaceName) -> ChainName {
    limited("discovery-out/", interface.as_str())
}

/// `connections-in/cali12345`.
pub(super) fn connections_chain(interface: InterfaceName, direction: Direction) -> ChainName {
    limited(&format!("connections-{}/", direction.short()), interface.as_str())
}

/// `sources-…`, for content that `text` describes fully.
pub(super) fn sources_chain(text: &str) -> ChainName {
    ChainName::composed(&format!("sources-{}", digest(text)))
}

/// What one kernel set of an IP set holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SetPart {
    Hosts,
    Nets,
    Ports,
}

/// `hosts4-…`, `nets6-…`, `ports4-…`.
pub(super) fn kernel_set(id: SetId, part: SetPart, family: Family) -> SetName {
    let part = match part {
        SetPart::Hosts => "hosts",
        SetPart::Nets => "nets",
        SetPart::Ports => "ports",
    };
    let version = match family {
        Family::V4 => '4',
        Family::V6 => '6',
    };
    // A change of one member makes such a name; to format it takes as long as to find the member.
    let mut name = String::with_capacity(LONGEST_SET);
    name.push_str(part);
    name.push(version);
    name.push('-');
    for octet in id.octets() {
        [octet >> 4, octet & 0xf].into_iter().for_each(|digit| name.extend(char::from_digit(digit.into(), 16)));
    }
    SetName::composed(&name)
}

const LONGEST_SET: usize = 40;

fn policy_path(key: &ResourceKey) -> String {
    let kind = short_kind(key);
    match (key.namespace(), key.name()) {
        (Some(namespace), Some(name)) => format!("{kind}/{namespace}/{name}"),
        (None, Some(name)) => format!("{kind}/{name}"),
        (_, None) => format!("{kind}/{key}"),
    }
}

/// Upstream's short names of kinds of policies.
pub(super) const fn short_kind(key: &ResourceKey) -> &'static str {
    match key.kind() {
        Kind::NetworkPolicy => "np",
        Kind::GlobalNetworkPolicy => "gnp",
        Kind::StagedNetworkPolicy => "snp",
        Kind::StagedGlobalNetworkPolicy => "sgnp",
        Kind::StagedKubernetesNetworkPolicy => "sknp",
        other => other.plural(),
    }
}

/// The name itself where it is one; else its digest behind an underscore, with which no kept name starts.
fn limited(prefix: &str, suffix: &str) -> ChainName {
    let full = format!("{prefix}{suffix}");
    match ChainName::new(&full) {
        Ok(name) if !suffix.starts_with('_') && full.len() <= MAX_READABLE => name,
        _ => ChainName::composed(&format!("{prefix}_{}", digest(suffix))),
    }
}

/// 80 bits of SHA-256: enough that nobody finds two policies that share a name.
fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().take(10).map(|octet| format!("{octet:02x}")).collect()
}

/// Fits every kernel, and a line of a listing.
const MAX_READABLE: usize = 120;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_is_a_name_and_digests_the_rest() {
        let policy = |name: &str| PolicyId(ResourceKey::namespaced(Kind::NetworkPolicy, "default", name));
        let name = |name: &str| policy_chain(&policy(name), Direction::Ingress, "");
        assert_eq!(name("allow-dns").as_str(), "policy-in/np/default/allow-dns");
        let (long, odd) = (name(&"x".repeat(200)), name("a b;drop"));
        assert_eq!(long.as_str().len(), "policy-in/_".len() + 20);
        assert!(odd.as_str().starts_with("policy-in/_") && odd != long);
        let profile = ProfileId("_0123".into());
        assert!(profile_chain(&profile, Direction::Egress, "").as_str().starts_with("profile-out/_"));
        assert_ne!(profile_chain(&profile, Direction::Egress, "").as_str(), "profile-out/_0123");
    }
}
