//! Names of chains and sets: one grammar, two types, so that neither is taken for the other.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

/// Longest name that the kernel and the `nft` program take.
const MAX_NAME: usize = 255;

/// A table of our own in the kernel. All names are those of one of them, and nothing in one refers to anything in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Table {
    /// IPv4 and IPv6 packets.
    Inet,
    /// ARP packets.
    Arp,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Inet, Self::Arp];

    /// What stands before the word "chain", "set" or "map" in texts: nothing for the one that nearly all is about.
    pub const fn prefix(self) -> &'static str {
        match self {
            Self::Inet => "",
            Self::Arp => "arp ",
        }
    }
}

/// Text that names no chain or set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a chain or set name: 1 to {MAX_NAME} letters, digits, '-', '_', '.' or '/', starting with a letter"
)]
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
        pub struct $type(Table, Arc<str>);

        impl $type {
            /// Checks and wraps a name of [`Table::Inet`].
            pub fn new(text: &str) -> Result<Self, NameError> {
                Self::of(Table::Inet, text)
            }

            /// Checks and wraps a name of any table.
            pub fn of(table: Table, text: &str) -> Result<Self, NameError> {
                parse(text).map(|text| Self(table, text))
            }

            /// Wraps text that core itself composed, as a name of [`Table::Inet`].
            pub(crate) fn composed(text: &str) -> Self {
                Self::composed_of(Table::Inet, text)
            }

            /// The same for any table.
            pub(crate) fn composed_of(table: Table, text: &str) -> Self {
                debug_assert!(parse(text).is_ok(), "composed a bad name: {text:?}");
                Self(table, text.into())
            }

            /// The table.
            pub const fn table(&self) -> Table {
                self.0
            }

            /// The name within its table.
            pub fn as_str(&self) -> &str {
                &self.1
            }
        }

        /// Without the table, as rules of the same table refer to it.
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.1)
            }
        }

        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.0.prefix())?;
                f.write_str(&self.1)
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
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn names_start_with_a_letter_and_fit_nft() {
        for good in ["a", "policy-in/np/shop/database", "s4.net_1", &"x".repeat(255)] {
            assert_eq!(ChainName::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "1a", "-a", "a b", "a\"", "a{", "ä", &"x".repeat(256)] {
            assert!(SetName::new(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn one_text_in_two_tables_is_two_names() {
        let [inet, arp] = Table::ALL.map(|table| SetName::of(table, "a").unwrap());
        assert_ne!(inet, arp);
        assert_eq!((inet.table(), inet.as_str()), (Table::Inet, "a"));
        assert_eq!(
            (arp.table(), arp.to_string().as_str(), alloc::format!("{arp:?}").as_str()),
            (Table::Arp, "a", "arp a")
        );
    }
}
