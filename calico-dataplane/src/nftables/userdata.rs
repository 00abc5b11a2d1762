//! What we store with a rule besides its instructions, in the type-length-value form of `nft`.
//!
//! Type 0 is the comment that `nft list` shows; `nft` skips types that it does not know, and so there is room for ours: the
//! fingerprint of the chain, the rule's place in it and the number of rules there, and a hash of the name of the chain that it leads to. A
//! chain is unchanged if each of its rules carries the same fingerprint, its own place and the right number, and leads where it did: who
//! renames a chain takes along what leads there. Of a verdict by port, the names are in a map that the kernel lists apart from the rule. (Chains have user data too, but the kernel takes it at creation
//! only, and a chain is replaced in place.) A chain without rules needs nothing: its whole content is seen.

use calico_core::table::Fingerprint;

const COMMENT: u8 = 0;
/// Far from the numbers that `nft` assigns from zero up.
const SEAL: u8 = 0xca;
/// Raised when the encoder writes other instructions for the same rule, so that chains of older releases are rewritten.
const VERSION: u8 = 2;
/// `nft` takes comments of 128 octets with their zero.
const MAX_COMMENT: usize = 127;
/// Octets of a prefix that goes to a log group.
pub(crate) const MAX_GROUP_PREFIX: usize = 63;

/// Mark of a rule that is part of a chain as we wrote it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seal {
    /// Of the chain.
    pub(crate) fingerprint: Fingerprint,
    /// Place of the rule, from zero.
    pub(crate) index: u32,
    /// Number of rules of the chain.
    pub(crate) count: u32,
    /// Where it leads.
    pub(crate) target: Target,
}

/// A hash of the names of the chains that a rule leads to; zero if to none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Target(u32);

impl Target {
    pub(crate) fn of(name: Option<&str>) -> Self {
        Self(name.map_or(0, |name| hash(BASIS, name)))
    }

    /// Of a map: where its keys lead (none: to no chain), in their order.
    pub(crate) fn of_map<'a>(names: impl IntoIterator<Item = Option<&'a str>>) -> Self {
        // No name holds a zero.
        Self(names.into_iter().fold(BASIS, |found, name| hash(hash(found, name.unwrap_or_default()), "\0")))
    }
}

/// FNV-1a.
const BASIS: u32 = 0x811c_9dc5;

fn hash(from: u32, text: &str) -> u32 {
    text.bytes().fold(from, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Writes the user data of a rule.
pub(crate) fn write(comment: Option<&str>, seal: Seal) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(160);
    if let Some(comment) = comment {
        let text = shorten(comment);
        push(&mut bytes, COMMENT, &[text.as_bytes(), &[0]].concat());
    }
    let mut value = vec![VERSION];
    value.extend_from_slice(&seal.fingerprint.raw().to_be_bytes());
    value.extend_from_slice(&seal.index.to_be_bytes());
    value.extend_from_slice(&seal.count.to_be_bytes());
    value.extend_from_slice(&seal.target.0.to_be_bytes());
    push(&mut bytes, SEAL, &value);
    bytes
}

/// Reads the seal, if there is one of this version.
pub(crate) fn read_seal(mut bytes: &[u8]) -> Option<Seal> {
    loop {
        let [kind, length] = *bytes.first_chunk()?;
        let value = bytes.get(2..2 + usize::from(length))?;
        bytes = bytes.get(2 + usize::from(length)..)?;
        if kind == SEAL {
            return parse_seal(value);
        }
    }
}

fn parse_seal(value: &[u8]) -> Option<Seal> {
    let (version, value) = value.split_first()?;
    let (fingerprint, value) = value.split_first_chunk()?;
    let (index, value) = value.split_first_chunk()?;
    let (count, value) = value.split_first_chunk()?;
    let (target, rest) = value.split_first_chunk()?;
    (*version == VERSION && rest.is_empty()).then(|| Seal {
        fingerprint: Fingerprint::from_raw(u64::from_be_bytes(*fingerprint)),
        index: u32::from_be_bytes(*index),
        count: u32::from_be_bytes(*count),
        target: Target(u32::from_be_bytes(*target)),
    })
}

/// Cuts a text to what `nft` can show, between characters; without zeroes, which would end it, and without quotes, which `nft`
/// prints unescaped.
pub(crate) fn shorten(text: &str) -> String {
    shorten_to(text, MAX_COMMENT)
}

/// The same to another length in octets.
pub(crate) fn shorten_to(text: &str, length: usize) -> String {
    let mut short = String::new();
    for character in text.chars().map(|c| if c.is_control() || c == '"' { '_' } else { c }) {
        if short.len() + character.len_utf8() > length {
            break;
        }
        short.push(character);
    }
    short
}

fn push(bytes: &mut Vec<u8>, kind: u8, value: &[u8]) {
    if let Ok(length) = u8::try_from(value.len()) {
        bytes.push(kind);
        bytes.push(length);
        bytes.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seals_are_read_back_behind_any_comment() {
        let seal = Seal {
            fingerprint: Fingerprint::from_raw(0x0123_4567_89ab_cdef),
            index: 3,
            count: 9,
            target: Target::of(Some("a")),
        };
        for comment in [None, Some(""), Some("allow \"web\""), Some(&*"ä".repeat(200))] {
            let bytes = write(comment, seal);
            assert!(bytes.len() <= 256);
            assert_eq!(read_seal(&bytes), Some(seal), "{comment:?}");
            assert_eq!(read_seal(&bytes[..bytes.len() - 1]), None);
        }
        assert_eq!(read_seal(&[]), None);
        assert_eq!(read_seal(&[0, 3, b'h', b'i', 0]), None);
    }

    #[test]
    fn comments_are_cut_between_characters() {
        assert_eq!(shorten(&"ä".repeat(200)).len(), 126);
        assert_eq!(shorten("a\"b\0c"), "a_b_c");
    }
}
