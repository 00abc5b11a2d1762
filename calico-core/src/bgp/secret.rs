//! What must not be seen.

use alloc::string::String;
use core::fmt;

/// The key of a session (RFC 2385). Neither its `Debug` nor anything else here shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

/// A key that TCP cannot carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// Nothing in it.
    #[error("the password is empty")]
    Empty,
    /// Linux keeps 80 bytes (`TCP_MD5SIG_MAXKEYLEN`).
    #[error("the password has {0} bytes: a TCP MD5 signature takes at most 80")]
    Long(usize),
}

impl Secret {
    /// A key of 1 to 80 bytes.
    pub fn new(key: String) -> Result<Self, SecretError> {
        match key.len() {
            0 => Err(SecretError::Empty),
            1..=80 => Ok(Self(key)),
            length => Err(SecretError::Long(length)),
        }
    }

    /// The key itself, for whoever must hand it to the kernel or to a daemon.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use super::*;

    #[test]
    fn is_not_shown_and_fits_the_kernel() {
        let secret = Secret::new("hunter2".into()).unwrap();
        assert_eq!(format!("{secret:?}"), "Secret(..)");
        assert_eq!(secret.expose(), "hunter2");
        assert_eq!(Secret::new("".into()), Err(SecretError::Empty));
        assert_eq!(Secret::new("x".repeat(81)), Err(SecretError::Long(81)));
        assert!(Secret::new("x".repeat(80)).is_ok());
    }
}
