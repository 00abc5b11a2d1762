//! Listings that are read in parts.

use calico_core::resource::Kind;
use futures_util::FutureExt;

use super::*;
use crate::Scan;
use crate::store::entry_key;

/// More than one part has.
const MANY: usize = 700;

async fn filled(store: &SqliteStore) -> Vec<ResourceKey> {
    let objects: Vec<_> = (0..MANY).map(|number| tier(&format!("t{number:04}"), 1.0)).collect();
    for some in objects.chunks(100) {
        let writes: Vec<_> = some.iter().map(|(key, tier)| Write::create(key.clone(), tier.clone())).collect();
        store.commit(writes.into()).await.unwrap();
    }
    objects.into_iter().map(|(key, _)| key).collect()
}

async fn rest(scan: &mut dyn Scan) -> (Vec<ResourceKey>, usize) {
    let (mut found, mut largest) = (Vec::new(), 0);
    while let Some(entries) = scan.next().await.unwrap() {
        largest = largest.max(entries.len());
        found.extend(entries.iter().map(entry_key).cloned());
    }
    (found, largest)
}

/// Whatever is written between two parts, and whoever reads meanwhile: there are fewer turns than scans under way.
#[tokio::test]
async fn parts_are_of_one_revision_and_hold_nobody_up() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("calico.db")).unwrap();
    let expected = filled(&store).await;
    let revision = store.list(&Scope::All).await.unwrap().revision;
    let mut scans = Vec::new();
    for _ in 0..8 {
        scans.push(store.scan(&Scope::Kind(Kind::Tier)).await.unwrap());
    }
    store.commit(put("t0000-later", 1.0)).await.unwrap();
    store.commit(put("t9999", 1.0)).await.unwrap();
    let last = expected.last().unwrap().clone();
    store.commit(Write::delete(last, Precondition::Present).into()).await.unwrap();
    assert_eq!(store.list(&Scope::All).await.unwrap().entries.len(), MANY + 1);
    for mut scan in scans {
        assert_eq!(scan.revision(), revision);
        let (found, largest) = rest(&mut *scan).await;
        assert_eq!(found, expected);
        assert!(largest < MANY / 2, "{largest} at once");
        assert!(scan.next().await.unwrap().is_none(), "it has ended");
    }
    let mut scan = store.scan(&Scope::Kind(Kind::Tier)).await.unwrap();
    assert_eq!(rest(&mut *scan).await.0.len(), MANY + 1);
}

/// Nobody may take what came before it for a complete picture.
#[tokio::test]
async fn a_part_that_nobody_waited_for_ends_the_scan_with_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let store = SqliteStore::open(&directory.path().join("calico.db")).unwrap();
    filled(&store).await;
    // A part may be read before anybody can turn away from it; then it was waited for.
    for _ in 0..100 {
        let mut scan = store.scan(&Scope::Kind(Kind::Tier)).await.unwrap();
        assert!(scan.next().await.unwrap().is_some());
        if scan.next().now_or_never().is_none() {
            assert!(scan.next().await.is_err());
            return;
        }
    }
    panic!("no part is read beside");
}

/// The first part ends at paths that are no text, which have no place in any order.
#[tokio::test]
async fn a_path_that_is_no_text_ends_no_part() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("calico.db");
    let store = SqliteStore::open(&path).unwrap();
    let expected = filled(&store).await;
    let odd = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
        INSERT INTO object SELECT CAST(path || x'ff' || i AS TEXT), x'7b7d', object.revision, NULL
        FROM object, n WHERE path LIKE '%t0200'";
    connection::open(&path).unwrap().execute_batch(odd).unwrap();
    let mut scan = store.scan(&Scope::Kind(Kind::Tier)).await.unwrap();
    assert_eq!(rest(&mut *scan).await.0, expected);
}
