//! Secrets out of a directory: one directory for each, one file for each key, as Kubernetes mounts them.
//!
//! In come the names that are wanted; out go facts for the agent. What is wanted is read again every few seconds, and told when it changed.
//! What cannot be read is not gone: what was told of it stands, and if nothing was, the session stays down.
//! Names come from the datastore, so that they are looked for among what is there and never made part of a path.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tracing::warn;

use crate::agent::Fact;

/// Pause between two looks, while anything is wanted.
const PAUSE: Duration = Duration::from_secs(5);
/// Longest value that is read; a password has 80 bytes at most.
const MOST: u64 = 4096;

/// What secrets hold, as last told.
type Told = BTreeMap<Arc<str>, Option<BTreeMap<String, String>>>;

/// Tells the agent of the secrets that it wants, for as long as it lives.
pub(crate) async fn follow(
    directory: PathBuf,
    mut wanted: watch::Receiver<BTreeSet<Arc<str>>>,
    facts: mpsc::Sender<Fact>,
) {
    let mut told = Told::new();
    let mut warned = BTreeSet::new();
    loop {
        let names = wanted.borrow_and_update().clone();
        told.retain(|name, _| names.contains(name));
        if names.is_empty() {
            if wanted.changed().await.is_err() {
                return;
            }
            continue;
        }
        let place = directory.clone();
        let Ok(found) = tokio::task::spawn_blocking(move || read(&place, &names)).await else { return };
        for text in found.warnings.difference(&warned) {
            warn!("{text}");
        }
        warned = found.warnings;
        for (name, value) in found.secrets {
            if told.get(&name) == Some(&value) {
                continue;
            }
            told.insert(Arc::clone(&name), value.clone());
            if facts.send(Fact::Secret { name, value }).await.is_err() {
                return;
            }
        }
        tokio::select! {
            changed = wanted.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(PAUSE) => {}
        }
    }
}

#[derive(Debug, Default)]
struct Found {
    secrets: Told,
    warnings: BTreeSet<String>,
}

fn read(directory: &Path, names: &BTreeSet<Arc<str>>) -> Found {
    let mut found = Found::default();
    let Some(all) = entries(directory, &mut found.warnings) else { return found };
    found.secrets.extend(names.iter().map(|name| (Arc::clone(name), None)));
    for (name, path) in all {
        let Some(name) = names.get(name.as_str()) else { continue };
        match keys(&path, &mut found.warnings) {
            Some(keys) => drop(found.secrets.insert(Arc::clone(name), Some(keys))),
            None => drop(found.secrets.remove(name)),
        }
    }
    found
}

/// What a secret holds; none if a part of it cannot be read.
fn keys(directory: &Path, warnings: &mut BTreeSet<String>) -> Option<BTreeMap<String, String>> {
    let mut keys = BTreeMap::new();
    let mut is_whole = true;
    for (key, path) in entries(directory, warnings)? {
        match value(&path) {
            Ok(Some((value, is_open))) => {
                if is_open {
                    warnings.insert(format!("{}: others may read this password", path.display()));
                }
                keys.insert(key, value);
            }
            // A directory is no key.
            Ok(None) => {}
            Err(reason) => {
                is_whole = false;
                warnings.insert(format!("{}: {reason}", path.display()));
            }
        }
    }
    is_whole.then_some(keys)
}

/// Names and paths in a directory, without those with a dot in front, which are Kubernetes' own; none if it cannot be read. One that is not
/// there has nothing in it.
fn entries(directory: &Path, warnings: &mut BTreeSet<String>) -> Option<Vec<(String, PathBuf)>> {
    let listed = std::fs::read_dir(directory).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    match listed {
        Ok(entries) => {
            let named = entries.into_iter().filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                (!name.starts_with('.')).then(|| (name, entry.path()))
            });
            Some(named.collect())
        }
        Err(error) => {
            warnings.insert(format!("{}: {error}", directory.display()));
            (error.kind() == std::io::ErrorKind::NotFound).then(Vec::new)
        }
    }
}

/// The value, without the newline that an editor leaves, and whether others may read it; none for what is no file.
fn value(path: &Path) -> Result<Option<(String, bool)>, String> {
    let metadata = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Ok(None);
    }
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    file.take(MOST + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MOST {
        return Err(format!("it has more than {MOST} bytes and is passed over"));
    }
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(Some((text, metadata.mode() & 0o007 != 0)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn names(names: &[&str]) -> BTreeSet<Arc<str>> {
        names.iter().map(|name| Arc::from(*name)).collect()
    }

    fn put(directory: &Path, secret: &str, key: &str, value: &[u8]) {
        std::fs::create_dir_all(directory.join(secret)).unwrap();
        let path = directory.join(secret).join(key);
        std::fs::write(&path, value).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn reads_what_is_wanted_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "bgp", "tor", b"sesame\n");
        put(folder.path(), "odd", "large", &[b'x'; 5000]);
        put(folder.path(), "odd", "binary", &[0xff]);
        put(folder.path(), "odd", "good", b"x");
        put(folder.path(), "other", "key", b"not wanted");
        std::fs::create_dir(folder.path().join("bgp/..data")).unwrap();
        let found = read(folder.path(), &names(&["bgp", "odd", "../bgp", "absent", ""]));
        let keys = BTreeMap::from([("tor".to_owned(), "sesame".to_owned())]);
        assert_eq!(found.secrets["bgp"], Some(keys));
        for absent in ["../bgp", "absent", ""] {
            assert_eq!(found.secrets[absent], None, "{absent:?}");
        }
        assert!(!found.secrets.contains_key("other"));
        assert!(!found.secrets.contains_key("odd"), "what cannot be read is not said to hold less");
        assert_eq!(found.warnings.len(), 2, "{:?}", found.warnings);
        assert!(!format!("{found:?}").contains("not wanted"));
    }

    #[test]
    fn says_what_is_in_the_way() {
        let folder = tempfile::tempdir().unwrap();
        let found = read(&folder.path().join("none"), &names(&["bgp"]));
        assert_eq!((found.secrets["bgp"].clone(), found.warnings.len()), (None, 1));
        put(folder.path(), "bgp", "tor", b"x");
        std::fs::set_permissions(folder.path().join("bgp/tor"), std::fs::Permissions::from_mode(0o644)).unwrap();
        let found = read(folder.path(), &names(&["bgp"]));
        assert!(found.warnings.iter().all(|text| text.ends_with("others may read this password")), "{found:?}");
        assert_eq!(found.warnings.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn tells_what_changes_while_it_is_wanted() {
        let folder = tempfile::tempdir().unwrap();
        put(folder.path(), "bgp", "tor", b"one");
        let (want, wanted) = watch::channel(BTreeSet::new());
        let (sender, mut facts) = mpsc::channel(4);
        tokio::spawn(follow(folder.path().to_owned(), wanted, sender));
        want.send(names(&["bgp"])).unwrap();
        let mut next = async || {
            let fact = tokio::time::timeout(Duration::from_secs(30), facts.recv()).await;
            let Fact::Secret { name, value } = fact.unwrap().unwrap();
            (name.to_string(), value.and_then(|keys| keys.get("tor").cloned()))
        };
        assert_eq!(next().await, ("bgp".into(), Some("one".into())));
        put(folder.path(), "bgp", "tor", b"two");
        assert_eq!(next().await, ("bgp".into(), Some("two".into())));
        std::fs::remove_dir_all(folder.path().join("bgp")).unwrap();
        assert_eq!(next().await, ("bgp".into(), None));
    }
}
