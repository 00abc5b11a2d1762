//! What verbs work with: streams, and the datastore that the configuration chooses.

use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use calico_cmd::output::printable;
use calico_cmd::store::{self, OpenError, Resolved, Sources};
use calico_datastore::client::Client;
use calico_datastore::memory::MemoryStore;
use calico_datastore::{Clock, Datastore, IdSource};

use crate::DEFAULT_CONFIG;
use crate::failure::Failure;

/// What verbs work with.
pub(crate) struct Context<'a> {
    pub(crate) sources: Sources<'static>,
    pub(crate) stdin: &'a mut dyn Read,
    pub(crate) stdout: &'a mut dyn Write,
    pub(crate) stderr: &'a mut dyn Write,
    pub(crate) is_terminal: bool,
    pub(crate) is_watched: bool,
    pub(crate) store: Option<Arc<dyn Datastore>>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) ids: Arc<dyn IdSource>,
    /// The embedded datastore that must be made before anything is written.
    pub(crate) absent: Option<PathBuf>,
}

impl Context<'_> {
    /// A client of the datastore that was handed in, or of the one that the configuration chooses, which must be there.
    pub(crate) async fn client(&mut self, config: Option<&Path>) -> Result<Client, Failure> {
        let store = self.existing(config).await??;
        Ok(self.client_of(store))
    }

    /// A client to check with what is to be written: a datastore that is missing is taken for an empty one.
    pub(crate) async fn client_before_writing(&mut self, config: Option<&Path>) -> Result<Client, Failure> {
        let store = match self.existing(config).await? {
            Ok(store) => store,
            Err(OpenError::Absent { path }) => {
                self.absent = Some(path);
                Arc::new(MemoryStore::new())
            }
            Err(error) => return Err(error.into()),
        };
        Ok(self.client_of(store))
    }

    /// The client to write with: the one that was checked with, unless its datastore must be made first.
    pub(crate) async fn client_for_writing(
        &mut self,
        checked: Client,
        config: Option<&Path>,
    ) -> Result<Client, Failure> {
        let Some(path) = self.absent.take() else { return Ok(checked) };
        let store = store::open(&self.resolve(config)?.config).await?;
        self.tell(&format!("info: made a new, empty datastore: {}", path.display()));
        Ok(self.client_of(store))
    }

    /// Tells an operator something on standard error. If nobody reads it, what was asked for is done all the same: half of it done
    /// without a word would be worse.
    pub(crate) fn tell(&mut self, text: &str) {
        for line in text.lines() {
            let _closed = writeln!(self.stderr, "{}", printable(line));
        }
    }

    /// The datastore, or why it cannot be opened.
    pub(crate) async fn existing(
        &mut self,
        config: Option<&Path>,
    ) -> Result<Result<Arc<dyn Datastore>, OpenError>, Failure> {
        if let Some(store) = &self.store {
            return Ok(Ok(Arc::clone(store)));
        }
        let resolved = self.resolve(config)?;
        if let Some(warning) = &resolved.warning {
            self.tell(&format!("warning: {warning}"));
        }
        Ok(store::open_existing(&resolved.config).await)
    }

    pub(crate) fn client_of(&self, store: Arc<dyn Datastore>) -> Client {
        Client::new(store, Arc::clone(&self.clock), Arc::clone(&self.ids))
    }

    pub(crate) fn resolve(&self, config: Option<&Path>) -> Result<Resolved, Failure> {
        let file = configuration(config, Path::new(DEFAULT_CONFIG))?;
        let mut sources: Sources<'_> = self.sources.clone();
        sources.file = file.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
        let failed = |error| Failure::message(format_args!("Failed to create Calico API client: {error}"));
        store::resolve(&sources).map_err(failed)
    }
}

/// Name and text of the configuration file: the one that was given, or the usual one if there is any. One that is there and cannot be
/// read is not passed over: the command would go to another datastore.
fn configuration(given: Option<&Path>, usual: &Path) -> Result<Option<(String, String)>, Failure> {
    let path = given.unwrap_or(usual);
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some((path.display().to_string(), text))),
        Err(error) if given.is_none() && error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::message(format_args!("Error reading config file: {}\n  {error}", path.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_usual_configuration_that_is_not_there_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let usual = folder.path().join("calicoctl.cfg");
        assert_eq!(configuration(None, &usual).unwrap(), None);
        assert!(configuration(Some(&usual), &usual).is_err());
        // A directory cannot be read, by whomever.
        std::fs::create_dir(&usual).unwrap();
        let told = configuration(None, &usual).unwrap_err().to_string();
        assert!(told.starts_with(&format!("Error reading config file: {}", usual.display())), "{told}");
        std::fs::remove_dir(&usual).unwrap();
        std::fs::write(&usual, b"DATASTORE_TYPE=\xff").unwrap();
        assert!(configuration(None, &usual).is_err());
        std::fs::write(&usual, "DATASTORE_TYPE=sqlite").unwrap();
        assert!(configuration(None, &usual).unwrap().is_some_and(|(_, text)| text == "DATASTORE_TYPE=sqlite"));
    }
}
