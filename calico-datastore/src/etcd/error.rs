//! etcd's errors, sorted by what a caller can do about them.

use etcd_client::Error;

use crate::DatastoreError;

/// gRPC status codes (`google.rpc.Code`) for which trying again is of no use until somebody changes something.
const REFUSALS: [i32; 4] = [INVALID_ARGUMENT, PERMISSION_DENIED, FAILED_PRECONDITION, UNAUTHENTICATED];
const INVALID_ARGUMENT: i32 = 3;
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
    let operation = format!("etcd {operation}");
    let source: Option<Box<dyn std::error::Error + Send + Sync>> = Some(Box::new(error));
    if refused {
        DatastoreError::Refused { operation, source }
    } else {
        DatastoreError::Unavailable { operation, source }
    }
}

/// Whether etcd says that a revision is compacted away (or, after a restore from a backup, not there yet).
pub(super) fn is_out_of_history(error: &DatastoreError) -> bool {
    let DatastoreError::Unavailable { source: Some(source), .. } = error else { return false };
    matches!(source.downcast_ref(), Some(Error::GRpcStatus(status)) if i32::from(status.code()) == OUT_OF_RANGE)
}

pub(super) fn timed_out(operation: &str) -> DatastoreError {
    DatastoreError::Unavailable { operation: format!("etcd {operation}: no answer in time"), source: None }
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
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable);
        }
        cause = match error.downcast_ref() {
            Some(Error::GRpcStatus(status)) if i32::from(status.code()) == RESOURCE_EXHAUSTED => return true,
            // The library's error does not name its own cause.
            Some(Error::GRpcStatus(status)) => std::error::Error::source(status),
            _ => error.source(),
        };
    }
    false
}
