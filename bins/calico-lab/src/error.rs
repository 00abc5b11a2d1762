//! What can go wrong, as far as a person at a terminal needs to tell it apart.

use std::error::Error;
use std::io::ErrorKind;
use std::process::ExitCode;

/// A failed run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LabError {
    /// Something did not work.
    #[error("{what}")]
    Failed {
        /// What was being done, and what to do about it.
        what: String,
        /// Why it failed, where something lower said so.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// The caller asked for what cannot be.
    #[error("{0}")]
    Usage(String),
    /// Ctrl-C, or a signal that asks to stop.
    #[error("interrupted")]
    Interrupted,
    /// The command to be run in a host or pod could not be started.
    #[error("cannot run {program}")]
    NotRun {
        /// Its name.
        program: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Whoever read standard output has gone, as `head` does.
    #[error("nobody reads standard output any more")]
    ReaderGone,
}

impl LabError {
    /// A failure that nothing lower explains.
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self::Failed { what: what.into(), source: None }
    }

    /// The code to exit with.
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Failed { .. } | Self::ReaderGone => ExitCode::FAILURE,
            // As a shell tells these apart.
            Self::NotRun { source, .. } if source.kind() == ErrorKind::NotFound => ExitCode::from(127),
            Self::NotRun { .. } => ExitCode::from(126),
            Self::Usage(_) => ExitCode::from(2),
            Self::Interrupted => ExitCode::from(130),
        }
    }
}

/// Says what was being done when something failed.
pub(crate) trait Context<T> {
    /// Wraps the error.
    fn context(self, what: impl FnOnce() -> String) -> Result<T, LabError>;
}

impl<T, E: Into<Box<dyn Error + Send + Sync>>> Context<T> for Result<T, E> {
    fn context(self, what: impl FnOnce() -> String) -> Result<T, LabError> {
        self.map_err(|error| LabError::Failed { what: what(), source: Some(error.into()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_tells_every_cause() {
        let inner: Result<(), _> = Err(LabError::new("disk full"));
        let error = inner.context(|| "cannot write".into()).unwrap_err();
        assert_eq!(calico_cmd::output::chain(&error), "cannot write: disk full");
    }
}
