//! etcd's errors, sorted by what a caller can do about them, and worded for people.
//!
//! Every message says what was asked of which member and, as its cause, the innermost reason. The library's own texts repeat each other
//! and show its types.

use etcd_client::Error;

use super::options::DEADLINE;
use crate::DatastoreError;

/// gRPC status codes (`google.rpc.Code`) for which trying again is of no use until somebody changes something.
const REFUSALS: [i32; 4] = [INVALID_ARGUMENT, PERMISSION_DENIED, FAILED_PRECONDITION, UNAUTHENTICATED];
const CANCELLED: i32 = 1;
const INVALID_ARGUMENT: i32 = 3;
const DEADLINE_EXCEEDED: i32 = 4;
const PERMISSION_DENIED: i32 = 7;
const FAILED_PRECONDITION: i32 = 9;
const RESOURCE_EXHAUSTED: i32 = 8;
const OUT_OF_RANGE: i32 = 11;
const UNAUTHENTICATED: i32 = 16;

pub(super) fn sort(operation: &str, error: Error) -> DatastoreError {
    let refused = match &error {
        Error::GRpcStatus(status) => REFUSALS.contains(&i32::from(status.code())),
        Error::InvalidArgs(_) | Error::InvalidUri(_) | Error::InvalidMetadataValue(_) => true,
        _ => false,
    };
    let operation = operation.to_owned();
    let source: Cause = Box::new(Reason { text: words(&error), error });
    if refused {
        DatastoreError::Refused { operation, source: Some(source) }
    } else {
        unavailable(operation, Some(source))
    }
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

pub(super) const fn unavailable(operation: String, source: Option<Cause>) -> DatastoreError {
    DatastoreError::Unavailable { operation, source }
}

/// Names the member whom an operation was asked of.
pub(super) fn at(endpoint: &str, mut error: DatastoreError) -> DatastoreError {
    if let DatastoreError::Unavailable { operation, .. }
    | DatastoreError::Undecided { operation, .. }
    | DatastoreError::Refused { operation, .. } = &mut error
    {
        *operation = format!("etcd {operation} at {endpoint}");
    }
    error
}

/// Why a member did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Reason {
    text: String,
    /// The library's, for [`is_out_of_history`] and [`surely_not_done`]. It is not told as a source: its text is no sentence.
    error: Error,
}

fn words(error: &Error) -> String {
    let Error::GRpcStatus(status) = error else { return error.to_string() };
    let causes = || std::iter::successors(std::error::Error::source(status), |error| error.source());
    let is_late = causes().any(|cause| cause.is::<tonic::TimeoutExpired>());
    let text = match causes().last() {
        Some(innermost) => innermost.to_string(),
        None => status.message().to_owned(),
    };
    match i32::from(status.code()) {
        _ if is_late => no_answer(),
        DEADLINE_EXCEEDED if causes().next().is_some() => no_answer(),
        // The library's words are that it cancelled something, which is not what the reader did.
        CANCELLED if causes().next().is_some() => "the connection ended before the answer".to_owned(),
        _ if text.is_empty() => format!("gRPC status {:?}", status.code()),
        _ => text,
    }
}

fn no_answer() -> String {
    format!("no answer within {} s", DEADLINE.as_secs())
}

/// Whether etcd says that a revision is compacted away (or, after a restore from a backup, not there yet).
pub(super) fn is_out_of_history(error: &DatastoreError) -> bool {
    matches!(library(error), Some(Error::GRpcStatus(status)) if i32::from(status.code()) == OUT_OF_RANGE)
}

/// The library's own error.
fn library(error: &DatastoreError) -> Option<&Error> {
    let DatastoreError::Unavailable { source: Some(source), .. } = error else { return None };
    source.downcast_ref::<Reason>().map(|reason| &reason.error)
}

pub(super) fn timed_out(operation: &str) -> DatastoreError {
    unavailable(operation.to_owned(), Some(no_answer().into()))
}

/// A write that may have arrived, and was not answered.
pub(super) fn undecided(error: DatastoreError) -> DatastoreError {
    match error {
        DatastoreError::Unavailable { operation, source } => DatastoreError::Undecided { operation, source },
        other => other,
    }
}

/// Whether a request that failed cannot have had an effect: no connection came about, or the member says that it takes no more.
pub(super) fn surely_not_done(error: &DatastoreError) -> bool {
    // The library's error does not name its own cause.
    let Some(Error::GRpcStatus(status)) = library(error) else { return false };
    if i32::from(status.code()) == RESOURCE_EXHAUSTED {
        return true;
    }
    let mut causes = std::iter::successors(std::error::Error::source(status), |error| error.source());
    // Whatever a connector says lies in one: an unknown name, a refused connection, a handshake that failed.
    causes.any(|error| error.is::<tonic::ConnectError>())
}
