//! What can go wrong with a workload's interface.

use std::io;

use calico_core::net::InterfaceName;

use crate::netns::{NetnsError, RequestError};

/// A failed piece of workload plumbing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The container's namespace cannot be used.
    #[error("cannot use the container's network namespace")]
    Netns(#[source] NetnsError),
    /// The host's own namespace cannot be used.
    #[error("cannot use the host's network namespace")]
    HostNetns(#[source] NetnsError),
    /// The container's namespace is the host's.
    #[error("the container's network namespace is the host's own: a workload needs one for itself")]
    SharedNetns,
    /// The container has an interface of that name, which is not the one that is to be replaced.
    #[error("the container has an interface {interface} already")]
    ContainerInterfaceExists {
        /// Its name.
        interface: InterfaceName,
    },
    /// The host has an interface of that name that is no workload's.
    #[error("the host's interface {interface} is not a veth: it is left alone")]
    ForeignHostInterface {
        /// Its name.
        interface: InterfaceName,
    },
    /// An interface that was just made cannot be found.
    #[error("interface {interface} vanished")]
    Vanished {
        /// Its name.
        interface: InterfaceName,
    },
    /// The kernel refused a request.
    #[error("cannot set up {interface}")]
    Request {
        /// The interface that the request was for.
        interface: InterfaceName,
        /// What was refused.
        #[source]
        source: RequestError,
    },
    /// A setting under `/proc/sys` could not be written.
    #[error("cannot write {value} to {path}")]
    Sysctl {
        /// Which.
        path: String,
        /// What should be written.
        value: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// What was made by an attachment that failed could not be removed again: the interface may still be there.
    #[error("what was made of the interface could not be removed again ({second})")]
    CleanUp {
        /// Why the attachment failed.
        #[source]
        first: Box<Self>,
        /// Why it could not be taken back.
        second: Box<Self>,
    },
}

impl WorkloadError {
    /// Whether a failed attachment may have left something.
    pub const fn is_left_behind(&self) -> bool {
        matches!(self, Self::CleanUp { .. })
    }

    /// Whether the container's namespace is not there.
    pub const fn is_netns_absent(&self) -> bool {
        matches!(self, Self::Netns(error) if error.is_absent())
    }
}
