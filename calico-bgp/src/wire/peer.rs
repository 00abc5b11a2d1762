//! The kind of session, which decides how some attributes are read and written (RFC 4271 section 5).

/// Whether a session stays within one system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_enums, reason = "a session is one or the other; every rule says what it does for both")]
pub enum PeerType {
    /// iBGP.
    Internal,
    /// eBGP.
    External,
}
