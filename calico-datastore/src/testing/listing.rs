//! Listings: scopes, order, one revision.

use calico_core::resource::{AffinityOwner, Kind, ResourceKey};

use super::writing::create;
use super::{Subject, affinity, block, handle, network_set, tier};
use crate::store::entry_key;
use crate::{Listing, Scope};

pub(super) fn keys(listing: &Listing) -> Vec<ResourceKey> {
    listing.entries.iter().map(entry_key).cloned().collect()
}

pub(super) async fn scopes_select(subject: &dyn Subject) {
    let store = subject.first();
    let objects = [
        tier("b", 1.0),
        tier("a", 1.0),
        tier("a-longer", 1.0),
        network_set("n1", "x"),
        network_set("n10", "x"),
        network_set("n1", "y"),
        affinity("host", "10.9.0.0/26"),
        affinity("host", "10.10.0.0/26"),
        affinity("host", "fd00::/122"),
        affinity("host-2", "10.9.0.64/26"),
        block("10.9.0.0/26"),
        block("10.10.0.0/26"),
        block("192.168.0.0/26"),
        handle("net.AbC"),
    ];
    let mut all: Vec<ResourceKey> = objects.iter().map(|(key, _)| key.clone()).collect();
    all.sort();
    let mut newest = None;
    for object in objects {
        newest = Some(create(&*store, object).await);
    }
    let scopes = [
        Scope::All,
        Scope::Kind(Kind::Tier),
        Scope::Kind(Kind::NetworkSet),
        Scope::Kind(Kind::NetworkPolicy),
        Scope::Kind(Kind::BlockAffinity),
        Scope::Kind(Kind::IpamBlock),
        Scope::Kind(Kind::IpamHandle),
        Scope::Kind(Kind::IpamConfig),
        Scope::Namespace { kind: Kind::NetworkSet, namespace: "n1".into() },
        Scope::Key(tier("a", 1.0).0),
        Scope::Key(tier("absent", 1.0).0),
        Scope::AffinitiesOf(AffinityOwner::Host("host".into())),
        Scope::AffinitiesOf(AffinityOwner::Virtual("host".into())),
        Scope::AffinitiesOf(AffinityOwner::Host("not/a name".into())),
        Scope::AffinitiesOf(AffinityOwner::Host("".into())),
        Scope::BlocksWithin("10.0.0.0/8".parse().unwrap()),
        Scope::BlocksWithin("10.9.0.0/26".parse().unwrap()),
        Scope::BlocksWithin("fd00::/64".parse().unwrap()),
    ];
    for scope in scopes {
        let listing = subject.second().list(&scope).await.unwrap();
        let expected: Vec<_> = all.iter().filter(|key| scope.contains(key)).cloned().collect();
        assert_eq!(keys(&listing), expected, "{scope:?}");
        assert_eq!(Some(listing.revision), newest, "{scope:?}");
        let mut scan = subject.second().scan(&scope).await.unwrap();
        let mut scanned = Listing { entries: Vec::new(), revision: scan.revision() };
        while let Some(entries) = scan.next().await.unwrap() {
            scanned.entries.extend(entries);
        }
        let mut found = keys(&scanned);
        found.sort();
        assert_eq!((found, Some(scanned.revision)), (expected, newest), "{scope:?}");
    }
}

/// Pairs are created and deleted together; no listing may see half of one.
pub(super) async fn a_listing_is_one_revision(subject: &dyn Subject) {
    use crate::{Precondition, Write};
    let (writer, reader) = (subject.first(), subject.second());
    let (a, z) = (tier("a", 1.0), tier("z", 1.0));
    let write = async {
        for round in 0..20 {
            let batch = if round % 2 == 0 {
                vec![Write::create(a.0.clone(), a.1.clone()), Write::create(z.0.clone(), z.1.clone())]
            } else {
                vec![
                    Write::delete(a.0.clone(), Precondition::Present),
                    Write::delete(z.0.clone(), Precondition::Present),
                ]
            };
            writer.commit(batch.into()).await.unwrap();
        }
    };
    let read = async {
        for _ in 0..20 {
            let count = reader.list(&Scope::Kind(Kind::Tier)).await.unwrap().entries.len();
            assert!(count == 0 || count == 2, "half a batch was listed");
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(write, read);
}
