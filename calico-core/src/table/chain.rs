//! Chains and rules.

use alloc::string::String;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::net::IpAddr;

use super::{ChainName, Field, Match, SetName};
use crate::net::{Family, PortRange};

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
    /// Filtering at [`Hook::Output`] that routes anew when it changes a mark.
    Route,
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
    /// Name, unique in its table.
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
    /// Hand the packet's beginning to whoever listens to a group of `nfnetlink_log`.
    LogGroup {
        /// Group.
        group: u16,
        /// Prefix, at most 63 bytes.
        prefix: String,
        /// Octets of the packet.
        snaplen: u32,
    },
    /// Go on with the rule while packets come no faster than this (or, if `over`, only while they do).
    Limit(RateLimit),
    /// Go on with the rule only while more than this many connections went through it that still exist.
    ConnectionsOver(u32),
    /// Exempt the packet from connection tracking; only in a base chain that runs before it (below -200).
    NoTrack,
    /// Set the differentiated services code point, 0 to 63. A packet of the other family leaves the rule here.
    SetDscp {
        /// Family.
        family: Family,
        /// Code point.
        value: u8,
    },
    /// `mark = (mark & !mask) | value`.
    SetMark {
        /// Bits to change.
        mask: u32,
        /// Their new value.
        value: u32,
    },
}

/// A rate of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "the renderer builds it with literals")]
pub struct RateLimit {
    /// Packets in each unit of time.
    pub rate: u32,
    /// The unit, in seconds: 1, 60, 3600 or 86 400.
    pub seconds: u32,
    /// Packets that may come at once.
    pub burst: u32,
    /// Whether the rule goes on above the rate instead of below.
    pub over: bool,
}

/// How a packet is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Reject {
    /// By a TCP reset; the rule must match TCP.
    TcpReset,
    /// By ICMP "port unreachable" of the packet's family.
    PortUnreachable,
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
    /// The verdict beside the range that the port lies in; outside all of them, go on with the next rule.
    ByPort {
        /// [`Field::SrcPort`] or [`Field::DstPort`].
        field: Field,
        /// Ranges and what each leads to, a plain verdict; not empty, in order, none overlaps another.
        verdicts: Vec<(PortRange, Self)>,
    },
    /// The packet is gone, and its sender is told (not in what is reachable from [`Hook::Postrouting`] or before the routing decision).
    Reject(Reject),
    /// Source address becomes that of the outgoing interface (`nat` chains only).
    Masquerade {
        /// Source ports to choose from; the rule must match a protocol with ports.
        ports: Option<PortRange>,
        /// Whether ports are drawn at random.
        random: bool,
    },
    /// Source address becomes this one (`nat` chains only); with a packet of the other family, go on with the next rule.
    Snat {
        /// New address.
        address: IpAddr,
        /// Source ports to choose from; the rule must match a protocol with ports.
        ports: Option<PortRange>,
        /// Whether ports are drawn at random.
        random: bool,
    },
    /// Source address becomes what an address map holds for this key, in which there is an address of the family that the map holds; with no
    /// such element, go on with the next rule (`nat` chains only).
    SnatLookup {
        /// Packet fields that form the key, in order.
        key: Vec<Field>,
        /// The map, from keys to addresses.
        map: SetName,
    },
    /// Destination address becomes what an address map holds for this key, likewise.
    DnatLookup {
        /// Packet fields that form the key, in order.
        key: Vec<Field>,
        /// The map, from keys to addresses.
        map: SetName,
    },
}

/// Identity of a chain's content, stored with the chain in the kernel: equal fingerprints mean that nothing has to be written.
///
/// FNV-1a, 64 bits, over the derived `Hash` feed, in which a number is one step. It need only tell apart versions of one chain on one host; it is compared
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
        self.rules.iter().filter_map(|rule| rule.verdict.as_ref()).flat_map(Verdict::targets)
    }

    /// Sets and maps that its rules look up.
    pub fn set_references(&self) -> impl Iterator<Item = &SetName> {
        self.rules.iter().flat_map(|rule| {
            let matched = rule.matches.iter().filter_map(|condition| match condition {
                Match::InSet { set, .. } => Some(set),
                _ => None,
            });
            let looked_up = match &rule.verdict {
                Some(
                    Verdict::Lookup { map, .. } | Verdict::SnatLookup { map, .. } | Verdict::DnatLookup { map, .. },
                ) => Some(map),
                _ => None,
            };
            matched.chain(looked_up)
        })
    }
}

impl Verdict {
    /// Whether it is a plain decision or leads to a chain, and so may be looked up in a map.
    pub const fn is_plain(&self) -> bool {
        matches!(self, Self::Accept | Self::Drop | Self::Return | Self::Jump(_) | Self::Goto(_))
    }

    /// The chain it leads to, if it leads to one.
    pub const fn target(&self) -> Option<&ChainName> {
        match self {
            Self::Jump(chain) | Self::Goto(chain) => Some(chain),
            _ => None,
        }
    }

    /// The chains that it may lead to, as far as itself says.
    pub fn targets(&self) -> impl Iterator<Item = &ChainName> {
        let by_port = match self {
            Self::ByPort { verdicts, .. } => verdicts.as_slice(),
            _ => &[],
        };
        self.target().into_iter().chain(by_port.iter().filter_map(|(_, verdict)| verdict.target()))
    }
}

struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.step((*byte).into()));
    }

    // Numbers of variants, and lengths: of eight octets, of which seven are nearly always zero.
    fn write_usize(&mut self, number: usize) {
        self.step(u64::try_from(number).unwrap_or(u64::MAX));
    }

    fn write_isize(&mut self, number: isize) {
        self.write_usize(number.cast_unsigned());
    }
}

impl Fnv {
    const fn step(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x0100_0000_01b3);
    }
}
