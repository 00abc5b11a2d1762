//! Chains and rules.

use alloc::string::String;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use super::{ChainName, Field, Match, SetName};

/// Netfilter hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Hook {
    /// Before the routing decision.
    Prerouting,
    /// To this host.
    Input,
    /// Through this host.
    Forward,
    /// From this host.
    Output,
    /// After the routing decision.
    Postrouting,
}

/// What a base chain is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ChainType {
    /// Filtering.
    Filter,
    /// Address translation.
    Nat,
}

/// Where a base chain hangs. Its policy is always accept: what must be dropped is dropped by a rule that says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the renderer builds it with literals")]
pub struct BaseChain {
    /// Type.
    pub chain_type: ChainType,
    /// Hook.
    pub hook: Hook,
    /// Lower runs first.
    pub priority: i32,
}

/// A chain with all its rules. Chains are replaced whole.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the renderer builds it with literals")]
pub struct Chain {
    /// Name, unique in our table.
    pub name: ChainName,
    /// Present on base chains.
    pub base: Option<BaseChain>,
    /// Rules in order.
    pub rules: Vec<Rule>,
}

/// One rule: if all matches hold, run the statements, then the verdict.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[expect(clippy::exhaustive_structs, reason = "the renderer builds it with literals")]
pub struct Rule {
    /// Conditions, ANDed.
    pub matches: Vec<Match>,
    /// Effects before the verdict.
    pub statements: Vec<Statement>,
    /// Verdict; none means go on with the next rule.
    pub verdict: Option<Verdict>,
    /// Text for whoever lists the ruleset: at most 127 bytes are kept.
    pub comment: Option<String>,
}

/// An effect that does not decide.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Statement {
    /// Count packets and bytes.
    Counter,
    /// Log at level info with a prefix of at most 127 bytes.
    Log {
        /// Prefix.
        prefix: String,
    },
    /// `mark = (mark & !mask) | value`.
    SetMark {
        /// Bits to change.
        mask: u32,
        /// Their new value.
        value: u32,
    },
}

/// A decision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// End this base chain; the packet goes on to the next one.
    Accept,
    /// The packet is gone.
    Drop,
    /// Back to the calling chain; in a base chain, its end.
    Return,
    /// Call a chain.
    Jump(ChainName),
    /// Continue in a chain and return to this chain's caller.
    Goto(ChainName),
    /// The verdict that a verdict map holds for this key; with no such element, go on with the next rule.
    Lookup {
        /// Packet fields that form the key, in order.
        key: Vec<Field>,
        /// The map.
        map: SetName,
    },
    /// Source address becomes that of the outgoing interface (`nat` chains only).
    Masquerade,
}

/// Identity of a chain's content, stored with the chain in the kernel: equal fingerprints mean that nothing has to be written.
///
/// FNV-1a, 64 bits, over the derived `Hash` feed. It need only tell apart versions of one chain on one host; it is compared
/// with what a build of the same release wrote, and any other release may rewrite every chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(u64);

impl Fingerprint {
    /// Reads back a stored value.
    pub const fn from_raw(value: u64) -> Self {
        Self(value)
    }

    /// The value to store.
    pub const fn raw(self) -> u64 {
        self.0
    }
}

impl Chain {
    /// Identity of this content.
    pub fn fingerprint(&self) -> Fingerprint {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        self.hash(&mut hasher);
        Fingerprint(hasher.finish())
    }

    /// Chains that its rules jump or go to.
    pub fn chain_references(&self) -> impl Iterator<Item = &ChainName> {
        self.rules.iter().filter_map(|rule| rule.verdict.as_ref()?.target())
    }

    /// Sets and maps that its rules look up.
    pub fn set_references(&self) -> impl Iterator<Item = &SetName> {
        self.rules.iter().flat_map(|rule| {
            let matched = rule.matches.iter().filter_map(|condition| match condition {
                Match::InSet { set, .. } => Some(set),
                _ => None,
            });
            let looked_up = match &rule.verdict {
                Some(Verdict::Lookup { map, .. }) => Some(map),
                _ => None,
            };
            matched.chain(looked_up)
        })
    }
}

impl Verdict {
    /// The chain it leads to, if it leads to one.
    pub const fn target(&self) -> Option<&ChainName> {
        match self {
            Self::Jump(chain) | Self::Goto(chain) => Some(chain),
            _ => None,
        }
    }
}

struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
