//! Keys as paths: upstream's layout of etcd, which the SQLite store uses as well.
//!
//! Comes in: a [`ResourceKey`] or a [`Scope`]; goes out: the path, or the half-open range of paths, and back. Upstream writes
//! names raw (no escaping), so a name that is empty or holds a `/` has no path of its own: such a key is refused instead of
//! meaning another object. Handle ids are the last segment and may hold anything.
//!
//! Invariants: `parse(path(key)) == key` for every key that has a path, two keys never share one, and every key in a scope
//! lies in the scope's range (the range may hold more: filter with [`Scope::contains`]).

pub mod model;
#[cfg(any(feature = "etcd", feature = "sqlite", test))]
mod parse;

use calico_core::net::{Cidr, Family};
use calico_core::resource::{self, AffinityOwner, Kind, ResourceKey};

#[cfg(any(feature = "etcd", feature = "sqlite", test))]
pub(crate) use self::parse::parse;
use crate::{DatastoreError, Scope};

/// Everything lives below.
pub(crate) const ROOT: &str = "/calico/";

const V3: &str = "/calico/resources/v3/projectcalico.org/";
const ASSIGNMENT: &str = "/calico/ipam/v2/assignment/";
const HOST: &str = "/calico/ipam/v2/host/";
const VIRTUAL: &str = "/calico/ipam/v2/virtual/";
const HANDLE: &str = "/calico/ipam/v2/handle/";
const CONFIG: &str = "/calico/ipam/v2/config";

/// Paths from `start` (included) to `end` (excluded), in byte order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PathRange {
    pub(crate) start: String,
    pub(crate) end: String,
}

/// Path of a key: what upstream calls the object in etcd.
///
/// # Errors
/// [`DatastoreError::InvalidKey`] if it has none.
pub fn path(key: &ResourceKey) -> Result<String, DatastoreError> {
    let invalid = |reason: &str| DatastoreError::InvalidKey { key: key.clone(), reason: reason.to_owned() };
    match key {
        ResourceKey::Named { kind, namespace, name } => {
            if !kind.is_v3() {
                return Err(invalid("IPAM objects have keys of their own"));
            }
            segment(name).map_err(|fault| invalid(&format!("name {fault}")))?;
            let plural = kind.plural();
            match (kind.scope(), namespace) {
                (resource::Scope::Cluster, None) => Ok(format!("{V3}{plural}/{name}")),
                (resource::Scope::Namespaced, Some(namespace)) => {
                    segment(namespace).map_err(|fault| invalid(&format!("namespace {fault}")))?;
                    Ok(format!("{V3}{plural}/{namespace}/{name}"))
                }
                (resource::Scope::Cluster, Some(_)) => Err(invalid("the kind has no namespace")),
                (resource::Scope::Namespaced, None) => Err(invalid("the kind needs a namespace")),
            }
        }
        ResourceKey::Block(cidr) => Ok(format!("{ASSIGNMENT}{}", block_path(cidr))),
        ResourceKey::Affinity { owner, block } => {
            let root = owner_root(owner).map_err(|fault| invalid(&format!("owner {fault}")))?;
            Ok(format!("{root}{}", block_path(block)))
        }
        ResourceKey::Handle(id) if id.is_empty() => Err(invalid("handle id is empty")),
        ResourceKey::Handle(id) => Ok(format!("{HANDLE}{id}")),
        ResourceKey::IpamConfig => Ok(CONFIG.to_owned()),
        _ => Err(invalid("this version has no path for it")),
    }
}

/// The smallest contiguous range that holds every key of a scope.
pub(crate) fn range(scope: &Scope) -> Result<PathRange, DatastoreError> {
    Ok(match scope {
        Scope::All => prefix(ROOT),
        Scope::Kind(Kind::IpamBlock) => prefix(ASSIGNMENT),
        // `host/` and `virtual/` are neighbours: nothing upstream sorts between them.
        Scope::Kind(Kind::BlockAffinity) => PathRange { start: HOST.to_owned(), end: prefix(VIRTUAL).end },
        Scope::Kind(Kind::IpamHandle) => prefix(HANDLE),
        Scope::Kind(Kind::IpamConfig) => exact(CONFIG),
        Scope::Kind(kind) => prefix(&format!("{V3}{}/", kind.plural())),
        Scope::Namespace { kind, namespace } => prefix(&format!("{V3}{}/{namespace}/", kind.plural())),
        Scope::Key(key) => exact(&path(key)?),
        Scope::AffinitiesOf(owner) => match owner_root(owner) {
            Ok(root) => prefix(&root),
            // No such owner can be written, so nothing can be found. etcd takes an empty key for a mistake, or for all keys.
            Err(_) => exact(&format!("{HOST}\0")),
        },
        Scope::BlocksWithin(cidr) => prefix(&format!("{ASSIGNMENT}{}/block/", version(cidr.family()))),
    })
}

impl PathRange {
    /// Whether a path lies inside.
    #[cfg(test)]
    fn holds(&self, path: &str) -> bool {
        self.start.as_str() <= path && path < self.end.as_str()
    }
}

fn exact(path: &str) -> PathRange {
    PathRange { start: path.to_owned(), end: format!("{path}\0") }
}

/// All paths that begin with `prefix`, which ends in `/`: the end is the same with the next byte, `0`.
fn prefix(prefix: &str) -> PathRange {
    let end = prefix.strip_suffix('/').map_or_else(|| format!("{prefix}\u{10ffff}"), |root| format!("{root}0"));
    PathRange { start: prefix.to_owned(), end }
}

/// `ipv4/block/10.65.0.0-26`.
fn block_path(block: &Cidr) -> String {
    format!("{}/block/{}-{}", version(block.family()), block.address(), block.length())
}

const fn version(family: Family) -> &'static str {
    match family {
        Family::V4 => "ipv4",
        Family::V6 => "ipv6",
    }
}

fn owner_root(owner: &AffinityOwner) -> Result<String, &'static str> {
    match owner {
        AffinityOwner::Host(name) => segment(name).map(|()| format!("{HOST}{name}/")),
        AffinityOwner::Virtual(name) => segment(name).map(|()| format!("{VIRTUAL}{name}/")),
        _ => Err("is of a sort that this version does not know"),
    }
}

/// Whether a text can be one segment of a path.
fn segment(text: &str) -> Result<(), &'static str> {
    if text.is_empty() {
        return Err("is empty");
    }
    if text.contains('/') {
        return Err("holds a \"/\"");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn paths_are_upstreams() {
        let cases = [
            (ResourceKey::cluster(Kind::Tier, "default"), "/calico/resources/v3/projectcalico.org/tiers/default"),
            (
                ResourceKey::namespaced(Kind::NetworkPolicy, "web", "allow-dns"),
                "/calico/resources/v3/projectcalico.org/networkpolicies/web/allow-dns",
            ),
            // Not that of IPAM, which never looks there.
            (
                ResourceKey::cluster(Kind::ApiBlockAffinity, "n1-10-65-0-0-26"),
                "/calico/resources/v3/projectcalico.org/blockaffinities/n1-10-65-0-0-26",
            ),
            (ResourceKey::Block(cidr("10.65.0.0/26")), "/calico/ipam/v2/assignment/ipv4/block/10.65.0.0-26"),
            (ResourceKey::Block(cidr("fd00:1::/122")), "/calico/ipam/v2/assignment/ipv6/block/fd00:1::-122"),
            (
                ResourceKey::Affinity { owner: AffinityOwner::Host("n1".into()), block: cidr("10.65.0.0/26") },
                "/calico/ipam/v2/host/n1/ipv4/block/10.65.0.0-26",
            ),
            (
                ResourceKey::Affinity {
                    owner: AffinityOwner::Virtual("load-balancer".into()),
                    block: cidr("10.65.0.0/26"),
                },
                "/calico/ipam/v2/virtual/load-balancer/ipv4/block/10.65.0.0-26",
            ),
            (ResourceKey::Handle("k8s-pod-network.AbC".into()), "/calico/ipam/v2/handle/k8s-pod-network.AbC"),
            (ResourceKey::IpamConfig, "/calico/ipam/v2/config"),
        ];
        for (key, text) in cases {
            assert_eq!(path(&key).unwrap(), text);
            assert_eq!(parse(text).unwrap(), key);
        }
    }

    #[test]
    fn foreign_and_malformed_paths_are_no_keys() {
        for text in [
            "",
            "/calico/",
            "/calico/resources/v3/projectcalico.org/tiers/",
            "/calico/resources/v3/projectcalico.org/tiers/a/b",
            "/calico/resources/v3/projectcalico.org/networkpolicies/only-a-name",
            "/calico/resources/v3/projectcalico.org/bgpfuturepeers/x",
            "/calico/resources/v3/projectcalico.org/ipamblocks/10-65-0-0-26",
            "/calico/resources/v3/projectcalico.org/ipamhandles/h",
            "/calico/ipam/v2/assignment/ipv6/block/10.65.0.0-26",
            "/calico/ipam/v2/assignment/ipv4/block/10.65.0.1-26",
            "/calico/ipam/v2/host/n1",
            "/calico/ipam/v2/config/",
            "/calico/felix/v1/host/n1/endpoint/eth0",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn names_that_would_mean_another_key_are_refused() {
        for key in [
            ResourceKey::cluster(Kind::Tier, "a/b"),
            ResourceKey::cluster(Kind::Tier, ""),
            ResourceKey::cluster(Kind::NetworkPolicy, "no-namespace"),
            ResourceKey::namespaced(Kind::Tier, "ns", "t"),
            ResourceKey::namespaced(Kind::NetworkPolicy, "a/b", "c"),
            ResourceKey::Handle("".into()),
            ResourceKey::Affinity { owner: AffinityOwner::Host("a/ipv4".into()), block: cidr("10.0.0.0/26") },
        ] {
            assert!(matches!(path(&key), Err(DatastoreError::InvalidKey { .. })), "{key}");
        }
    }

    #[test]
    fn claims_of_the_api_are_not_those_of_ipam() {
        let api = path(&ResourceKey::cluster(Kind::ApiBlockAffinity, "n1-10-65-0-0-26")).unwrap();
        let owner = AffinityOwner::Host("n1".into());
        let own = path(&ResourceKey::Affinity { owner, block: cidr("10.65.0.0/26") }).unwrap();
        for (kind, expected) in [(Kind::ApiBlockAffinity, [true, false]), (Kind::BlockAffinity, [false, true])] {
            let range = range(&Scope::Kind(kind)).unwrap();
            assert_eq!([range.holds(&api), range.holds(&own)], expected, "{kind:?}");
        }
    }

    #[test]
    fn a_prefix_never_reaches_a_longer_name() {
        let range = range(&Scope::AffinitiesOf(AffinityOwner::Host("a".into()))).unwrap();
        assert!(range.holds("/calico/ipam/v2/host/a/ipv4/block/10.0.0.0-26"));
        assert!(!range.holds("/calico/ipam/v2/host/ab/ipv4/block/10.0.0.0-26"));
    }

    fn any_cidr() -> impl Strategy<Value = Cidr> {
        prop_oneof![
            (any::<u32>(), 0..=32u8)
                .prop_map(|(bits, length)| Cidr::new(std::net::Ipv4Addr::from(bits).into(), length)),
            (any::<u128>(), 0..=128u8)
                .prop_map(|(bits, length)| Cidr::new(std::net::Ipv6Addr::from(bits).into(), length)),
        ]
        .prop_map(Option::unwrap)
    }

    fn any_key() -> impl Strategy<Value = ResourceKey> {
        let name = "[^/]{1,12}";
        let kind = proptest::sample::select(Kind::V3);
        prop_oneof![
            (kind, name, name).prop_map(|(kind, namespace, name)| match kind.scope() {
                resource::Scope::Cluster => ResourceKey::cluster(kind, &name),
                resource::Scope::Namespaced => ResourceKey::namespaced(kind, &namespace, &name),
            }),
            any_cidr().prop_map(ResourceKey::Block),
            (name, any_cidr(), any::<bool>()).prop_map(|(name, block, host)| ResourceKey::Affinity {
                owner: if host { AffinityOwner::Host(name.into()) } else { AffinityOwner::Virtual(name.into()) },
                block,
            }),
            ".{1,20}".prop_map(|id| ResourceKey::Handle(id.into())),
            Just(ResourceKey::IpamConfig),
        ]
    }

    fn scopes_of(key: &ResourceKey) -> Vec<Scope> {
        let mut scopes = vec![Scope::All, Scope::Kind(key.kind()), Scope::Key(key.clone())];
        match key {
            ResourceKey::Named { kind, namespace: Some(namespace), .. } => {
                scopes.push(Scope::Namespace { kind: *kind, namespace: Arc::clone(namespace) });
            }
            ResourceKey::Affinity { owner, .. } => scopes.push(Scope::AffinitiesOf(owner.clone())),
            ResourceKey::Block(cidr) => scopes.push(Scope::BlocksWithin(*cidr)),
            _ => {}
        }
        scopes
    }

    proptest! {
        #[test]
        fn every_key_comes_back(key in any_key()) {
            prop_assert_eq!(parse(&path(&key).unwrap()), Some(key));
        }

        #[test]
        fn every_key_lies_in_the_ranges_of_its_scopes(key in any_key()) {
            for scope in scopes_of(&key) {
                prop_assert!(scope.contains(&key), "{:?}", scope);
                prop_assert!(range(&scope).unwrap().holds(&path(&key).unwrap()), "{:?}", scope);
            }
        }

        #[test]
        fn text_that_parses_is_the_path_of_its_key(text in "/calico/ipam/v2/(assignment|host/[a-z/]{0,3})/?ipv[46]/block/[0-9a-f.:]{1,9}-[0-9]{1,3}") {
            if let Some(key) = parse(&text) {
                prop_assert_eq!(path(&key).unwrap(), text);
            }
        }
    }
}
