//! nf_tables expressions: the instructions of a rule, in wire form.
//!
//! Pure. [`super::encode`] decides which instructions a rule consists of; here is only how each is written down. Registers are
//! numbered as `nft` numbers them: by the 16-octet name where a value starts on such a border, else by the 4-octet name.

use calico_core::net::Family;
use calico_core::table::{RateLimit, Reject, Verdict};

use super::uapi::{LIST_ITEM, data};
use crate::netlink::wire::{Writer, attributes, find, read_be32, read_text};

const NAME: u16 = 1;
const BODY: u16 = 2;

/// The register where verdicts go.
const VERDICT_REGISTER: u32 = 0;

/// A place in the 64 octets of registers, in units of four octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Register(u8);

impl Register {
    /// How many units there are.
    pub(crate) const COUNT: u8 = 16;
    pub(crate) const FIRST: Self = Self(0);

    /// The register that starts at a unit.
    pub(crate) const fn at(unit: u8) -> Self {
        Self(unit)
    }

    const fn number(self) -> u32 {
        // Widening casts; `From` is not const.
        if self.0.is_multiple_of(4) { 1 + self.0 as u32 / 4 } else { 8 + self.0 as u32 }
    }
}

/// `meta` keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meta {
    Mark = 3,
    IifName = 6,
    OifName = 7,
    NfProto = 15,
    L4Proto = 16,
}

/// Header that a payload offset counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    Network = 1,
    Transport = 2,
}

/// Comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal = 0,
    NotEqual = 1,
    AtMost = 3,
    AtLeast = 5,
}

/// Which address a fib look-up asks for, or whether it asks for the way back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fib {
    /// The type of the source address.
    SourceType,
    /// The type of the destination address.
    DestinationType,
}

/// What a `nat` expression changes, by the kernel's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Translation {
    Source = 0,
    Destination = 1,
}

/// Registers that hold the ports to choose from, and whether to choose at random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choice {
    /// The lowest port, and the highest where that is another.
    pub(crate) ports: Option<(Register, Option<Register>)>,
    pub(crate) random: bool,
}

impl Choice {
    /// Nothing to choose from.
    pub(crate) const NONE: Self = Self { ports: None, random: false };

    /// `NF_NAT_RANGE_PROTO_SPECIFIED` and `NF_NAT_RANGE_PROTO_RANDOM_FULLY`.
    const fn flags(self) -> u32 {
        (if self.ports.is_some() { 0x2 } else { 0 }) | (if self.random { 0x10 } else { 0 })
    }

    /// Writes the registers as two attributes, and the flags where there are some.
    fn write(self, w: &mut Writer, lowest: u16, highest: u16, flags: u16) {
        if let Some((min, max)) = self.ports {
            w.be32(lowest, min.number());
            if let Some(max) = max {
                w.be32(highest, max.number());
            }
        }
        if self.flags() != 0 {
            w.be32(flags, self.flags());
        }
    }
}

/// The set a look-up names: a named one, or one of the same transaction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetReference<'a> {
    pub(crate) name: &'a str,
    pub(crate) id: Option<u32>,
}

/// Writes the expressions of one rule.
pub(crate) struct Expressions<'a>(&'a mut Writer);

impl<'a> Expressions<'a> {
    pub(crate) const fn new(writer: &'a mut Writer) -> Self {
        Self(writer)
    }

    pub(crate) fn meta(&mut self, key: Meta, into: Register) {
        self.write("meta", |w| {
            w.be32(2, key as u32);
            w.be32(1, into.number());
        });
    }

    pub(crate) fn set_mark(&mut self, from: Register) {
        self.write("meta", |w| {
            w.be32(2, Meta::Mark as u32);
            w.be32(3, from.number());
        });
    }

    pub(crate) fn payload(&mut self, base: Base, offset: u32, length: u32, into: Register) {
        self.write("payload", |w| {
            w.be32(1, into.number());
            w.be32(2, base as u32);
            w.be32(3, offset);
            w.be32(4, length);
        });
    }

    /// Writes back to the header what [`payload`](Self::payload) loaded; in IPv4 the header's checksum follows.
    pub(crate) fn rewrite(&mut self, family: Family, offset: u32, length: u32, from: Register) {
        self.write("payload", |w| {
            w.be32(5, from.number());
            w.be32(2, Base::Network as u32);
            w.be32(3, offset);
            w.be32(4, length);
            let (sum, place) = match family {
                Family::V4 => (1, 10),
                Family::V6 => (0, 0),
            };
            w.be32(6, sum);
            w.be32(7, place);
        });
    }

    pub(crate) fn ct_state(&mut self, into: Register) {
        self.ct(0, into);
    }

    pub(crate) fn ct_status(&mut self, into: Register) {
        self.ct(2, into);
    }

    fn ct(&mut self, key: u32, into: Register) {
        self.write("ct", |w| {
            w.be32(2, key);
            w.be32(1, into.number());
        });
    }

    pub(crate) fn fib(&mut self, asked: Fib, into: Register) {
        // The address type, of the source or the destination.
        let (result, flags) = match asked {
            Fib::SourceType => (3, 0x1),
            Fib::DestinationType => (3, 0x2),
        };
        self.write("fib", |w| {
            w.be32(1, into.number());
            w.be32(2, result);
            w.be32(3, flags);
        });
    }

    /// `register = (register & mask) ^ xor`.
    pub(crate) fn bitwise(&mut self, register: Register, mask: &[u8], xor: &[u8]) {
        self.write("bitwise", |w| {
            w.be32(1, register.number());
            w.be32(2, register.number());
            w.be32(3, u32::try_from(mask.len()).unwrap_or(0));
            w.be32(6, 0);
            w.nest(4, |w| w.attribute(data::VALUE, mask));
            w.nest(5, |w| w.attribute(data::VALUE, xor));
        });
    }

    pub(crate) fn compare(&mut self, register: Register, comparison: Comparison, value: &[u8]) {
        self.write("cmp", |w| {
            w.be32(1, register.number());
            w.be32(2, comparison as u32);
            w.nest(3, |w| w.attribute(data::VALUE, value));
        });
    }

    pub(crate) fn outside(&mut self, register: Register, from: &[u8], to: &[u8]) {
        self.write("range", |w| {
            w.be32(1, register.number());
            w.be32(2, 1);
            w.nest(3, |w| w.attribute(data::VALUE, from));
            w.nest(4, |w| w.attribute(data::VALUE, to));
        });
    }

    pub(crate) fn lookup(&mut self, register: Register, set: SetReference<'_>, negated: bool) {
        self.write("lookup", |w| {
            w.be32(2, register.number());
            w.text(1, set.name);
            if let Some(id) = set.id {
                w.be32(4, id);
            }
            if negated {
                w.be32(5, 1);
            }
        });
    }

    pub(crate) fn verdict_lookup(&mut self, register: Register, map: SetReference<'_>) {
        self.map_lookup(register, map, VERDICT_REGISTER);
    }

    pub(crate) fn value_lookup(&mut self, register: Register, map: &str, into: Register) {
        self.map_lookup(register, SetReference { name: map, id: None }, into.number());
    }

    fn map_lookup(&mut self, register: Register, map: SetReference<'_>, into: u32) {
        self.write("lookup", |w| {
            w.be32(2, register.number());
            w.be32(3, into);
            w.text(1, map.name);
            if let Some(id) = map.id {
                w.be32(4, id);
            }
        });
    }

    pub(crate) fn counter(&mut self) {
        self.write("counter", |w| {
            w.attribute(1, &0u64.to_be_bytes());
            w.attribute(2, &0u64.to_be_bytes());
        });
    }

    /// Logs at level info (6).
    pub(crate) fn log(&mut self, prefix: &str) {
        self.write("log", |w| {
            w.text(2, prefix);
            w.be32(5, 6);
        });
    }

    /// Hands packets to a group of `nfnetlink_log`, one by one.
    pub(crate) fn log_group(&mut self, group: u16, prefix: &str, snaplen: u32) {
        self.write("log", |w| {
            w.attribute(1, &group.to_be_bytes());
            if !prefix.is_empty() {
                w.text(2, prefix);
            }
            w.be32(3, snaplen);
            w.attribute(4, &0u16.to_be_bytes());
        });
    }

    pub(crate) fn limit(&mut self, limit: RateLimit) {
        self.write("limit", |w| {
            w.attribute(1, &u64::from(limit.rate).to_be_bytes());
            w.attribute(2, &u64::from(limit.seconds).to_be_bytes());
            w.be32(3, limit.burst);
            w.be32(4, 0);
            w.be32(5, limit.over.into());
        });
    }

    /// Goes on above the count.
    pub(crate) fn connections_over(&mut self, count: u32) {
        self.write("connlimit", |w| {
            w.be32(1, count);
            w.be32(2, 1);
        });
    }

    pub(crate) fn notrack(&mut self) {
        self.write("notrack", |_| {});
    }

    pub(crate) fn reject(&mut self, reject: Reject) {
        // Kinds: TCP reset, ICMP of the packet's family with the code of "port unreachable".
        let (kind, code) = match reject {
            Reject::TcpReset => (1, 0),
            _ => (2, 1),
        };
        self.write("reject", |w| {
            w.be32(1, kind);
            w.attribute(2, &[code]);
        });
    }

    pub(crate) fn masquerade(&mut self, choice: Choice) {
        self.write("masq", |w| choice.write(w, 2, 3, 1));
    }

    pub(crate) fn nat(&mut self, translation: Translation, family: Family, address: Register, choice: Choice) {
        self.write("nat", |w| {
            w.be32(1, translation as u32);
            w.be32(2, family_number(family).into());
            w.be32(3, address.number());
            choice.write(w, 5, 6, 7);
        });
    }

    /// Loads a value.
    pub(crate) fn load(&mut self, value: &[u8], into: Register) {
        self.write("immediate", |w| {
            w.be32(1, into.number());
            w.nest(2, |w| w.attribute(data::VALUE, value));
        });
    }

    /// A verdict that is a plain value; look-ups, refusals and translations are expressions of their own.
    pub(crate) fn immediate(&mut self, verdict: &Verdict) {
        self.write("immediate", |w| {
            w.be32(1, VERDICT_REGISTER);
            w.nest(2, |w| write_verdict(w, verdict));
        });
    }

    fn write(&mut self, name: &str, body: impl FnOnce(&mut Writer)) {
        self.0.nest(LIST_ITEM, |w| {
            w.text(NAME, name);
            w.nest(BODY, body);
        });
    }
}

/// The name of the chain that a listed rule leads to by a verdict of its own, which is its last expression.
pub(crate) fn target(expressions: &[u8]) -> Option<&str> {
    let (_, last) = attributes(expressions).last()?;
    find(last, NAME).and_then(read_text).filter(|name| *name == "immediate")?;
    let verdict = find(find(find(last, BODY)?, 2)?, data::VERDICT)?;
    find(verdict, data::VERDICT_CHAIN).and_then(read_text)
}

/// The name of the anonymous map by which a listed rule leads on, by its last expression.
pub(crate) fn anonymous_map(expressions: &[u8]) -> Option<&str> {
    let (_, last) = attributes(expressions).last()?;
    find(last, NAME).and_then(read_text).filter(|name| *name == "lookup")?;
    let lookup = find(last, BODY)?;
    find(lookup, 3).and_then(read_be32).filter(|register| *register == VERDICT_REGISTER)?;
    find(lookup, 1).and_then(read_text).filter(|name| name.starts_with(ANONYMOUS_MAP))
}

/// Of a map that belongs to its rule, as `nft` has it; the kernel puts a number behind.
const ANONYMOUS_MAP: &str = "__map";

/// `NFPROTO_IPV4`, `NFPROTO_IPV6`.
pub(crate) const fn family_number(family: Family) -> u8 {
    match family {
        Family::V4 => 2,
        Family::V6 => 10,
    }
}

/// Writes a verdict as data of an immediate or of a map element. Whoever calls has sorted out the verdicts that are none.
pub(crate) fn write_verdict(writer: &mut Writer, verdict: &Verdict) {
    let (code, chain) = match verdict {
        Verdict::Accept => (data::ACCEPT, None),
        Verdict::Return => (data::RETURN, None),
        Verdict::Jump(chain) => (data::JUMP, Some(chain)),
        Verdict::Goto(chain) => (data::GOTO, Some(chain)),
        // Fails closed for what is no plain verdict.
        _ => (data::DROP, None),
    };
    writer.nest(data::VERDICT, |w| {
        w.attribute(data::VERDICT_CODE, &code.to_be_bytes());
        if let Some(chain) = chain {
            w.text(data::VERDICT_CHAIN, chain.as_str());
        }
    });
}
