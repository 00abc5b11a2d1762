//! Errors as the specification wants them: a code for the runtime, a message for the operator.

use alloc::string::{String, ToString};
use core::fmt;

use super::Version;

/// Why a command failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct CniError {
    /// For the runtime.
    pub code: ErrorCode,
    /// What failed; this is what shows in a pod's events.
    pub msg: String,
    /// More of it, often empty.
    pub details: String,
}

/// Codes of the specification (1 to 99) and of these plugins (from 100).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCode {
    /// The version of the configuration is not supported.
    IncompatibleVersion,
    /// A field of the configuration asks for what is not supported.
    UnsupportedField,
    /// The container is unknown or gone: nothing to clean up.
    UnknownContainer,
    /// A variable or argument is missing or wrong.
    InvalidEnvironment,
    /// Reading or writing failed.
    Io,
    /// Input that is not JSON.
    Decode,
    /// The configuration is wrong.
    InvalidConfig,
    /// The container's network namespace is not usable (the reference library's own code).
    InvalidNamespace,
    /// A passing condition: the same call may succeed later.
    TryAgain,
    /// STATUS: the plugin cannot serve an ADD.
    NotAvailable,
    /// Anything else; the reference library's code for an error without one, and so upstream's for nearly all.
    Internal,
    /// A code that another plugin gave.
    Other(u32),
}

impl ErrorCode {
    /// The number on the wire.
    pub const fn number(self) -> u32 {
        match self {
            Self::IncompatibleVersion => 1,
            Self::UnsupportedField => 2,
            Self::UnknownContainer => 3,
            Self::InvalidEnvironment => 4,
            Self::Io => 5,
            Self::Decode => 6,
            Self::InvalidConfig => 7,
            Self::InvalidNamespace => 8,
            Self::TryAgain => 11,
            Self::NotAvailable => 50,
            Self::Internal => 999,
            Self::Other(number) => number,
        }
    }
}

impl CniError {
    /// An error without details.
    pub fn new(code: ErrorCode, msg: impl Into<String>) -> Self {
        Self { code, msg: msg.into(), details: String::new() }
    }

    /// One error for all of them: the first one's code, everybody's words.
    pub fn join(failures: impl IntoIterator<Item = Self>) -> Result<(), Self> {
        let mut failures = failures.into_iter();
        let Some(mut joined) = failures.next() else { return Ok(()) };
        for failure in failures {
            let words = [joined.to_string(), failure.to_string()].join("; ");
            joined = Self::new(joined.code, words);
        }
        Err(joined)
    }

    /// The same with details.
    #[must_use]
    pub fn with_details(self, details: impl Into<String>) -> Self {
        Self { details: details.into(), ..self }
    }

    /// The same as the answer to STATUS, for which the specification has codes of its own.
    #[must_use]
    pub fn into_unavailable(self) -> Self {
        let is_one = matches!(self.code.number(), 50 | 51);
        Self { code: if is_one { self.code } else { ErrorCode::NotAvailable }, ..self }
    }

    /// The document for standard output.
    pub fn to_json(&self, version: Version) -> serde_json::Value {
        let mut document =
            serde_json::json!({"cniVersion": version.as_str(), "code": self.code.number(), "msg": self.msg});
        if let Some(object) = document.as_object_mut().filter(|_| !self.details.is_empty()) {
            object.insert("details".into(), self.details.as_str().into());
        }
        document
    }

    /// Reads the document that a delegate printed; `None` if it is none.
    pub fn from_json(document: &serde_json::Value) -> Option<Self> {
        let number = document.get("code")?.as_u64().and_then(|code| u32::try_from(code).ok())?;
        let text = |field| document.get(field).and_then(serde_json::Value::as_str).unwrap_or_default();
        let error = Self::new(ErrorCode::Other(number), text("msg")).with_details(text("details"));
        (number != 0).then_some(error)
    }
}

impl fmt::Display for CniError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.msg)?;
        if self.details.is_empty() { Ok(()) } else { write!(f, "; {}", self.details) }
    }
}
