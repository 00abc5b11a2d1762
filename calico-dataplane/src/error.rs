//! What can go wrong in a kernel.

/// A failed dataplane operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataplaneError {
    /// The kernel, or the program between, refused.
    #[error("kernel refused {operation} ({object})")]
    Kernel {
        /// What was tried.
        operation: &'static str,
        /// On which object.
        object: String,
        /// The error number's meaning.
        #[source]
        source: std::io::Error,
    },
    /// The object waits for an interface that is not there.
    #[error("{object} waits for interface {interface}")]
    NoInterface {
        /// Which object.
        object: String,
        /// Which interface.
        interface: String,
    },
    /// Someone changed the ruleset between look and write; look again.
    #[error("the ruleset changed underneath")]
    Raced,
    /// The kernel lacks something.
    #[error("this kernel cannot do {feature}: {advice}")]
    Unsupported {
        /// What is missing.
        feature: String,
        /// What to do.
        advice: String,
    },
    /// The object says something that no kernel object can say.
    #[error("{object} cannot be written: {detail}")]
    Unwritable {
        /// Which object.
        object: String,
        /// What is odd about it.
        detail: String,
    },
    /// A reply that does not parse.
    #[error("unexpected reply from the kernel to {operation}: {detail}")]
    Reply {
        /// What was asked.
        operation: &'static str,
        /// What is odd about the reply.
        detail: String,
    },
}
