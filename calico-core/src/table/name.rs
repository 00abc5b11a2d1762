//! Names of chains and sets: one grammar, two types, so that neither is taken for the other.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// Longest name that every supported kernel and the `nft` program take.
const MAX_NAME: usize = 127;

/// Text that names no chain or set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a chain or set name: 1 to 127 letters, digits, '-', '_', '.' or '/', starting with a letter")]
pub struct NameError(String);

fn parse(text: &str) -> Result<Arc<str>, NameError> {
    let letter = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic());
    let all = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'));
    if letter && all && text.len() <= MAX_NAME { Ok(text.into()) } else { Err(NameError(text.into())) }
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $type(Arc<str>);

        impl $type {
            /// Checks and wraps a name.
            pub fn new(text: &str) -> Result<Self, NameError> {
                parse(text).map(Self)
            }

            /// Wraps text that core itself composed.
            pub(crate) fn composed(text: &str) -> Self {
                debug_assert!(parse(text).is_ok(), "composed a bad name: {text:?}");
                Self(text.into())
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name! {
    /// Name of a chain.
    ChainName
}
name! {
    /// Name of a set or map.
    SetName
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_start_with_a_letter_and_fit_nft() {
        for good in ["a", "policy-in/np/shop/database", "s4.net_1", &"x".repeat(127)] {
            assert_eq!(ChainName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "1a", "-a", "a b", "a\"", "a{", "ä", &"x".repeat(128)] {
            assert!(SetName::new(bad).is_err(), "{bad:?}");
        }
    }
}
