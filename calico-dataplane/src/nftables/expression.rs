//! nf_tables expressions: the instructions of a rule, in wire form.
//!
//! Pure. [`super::encode`] decides which instructions a rule consists of; here is only how each is written down. Registers are
//! numbered as `nft` numbers them: by the 16-octet name where a value starts on such a border, else by the 4-octet name.

use crate::netlink::wire::Writer;

use super::uapi::{LIST_ITEM, data};
use calico_core::table::Verdict;

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

    pub(crate) fn ct_state(&mut self, into: Register) {
        self.write("ct", |w| {
            w.be32(2, 0);
            w.be32(1, into.number());
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

    pub(crate) fn verdict_lookup(&mut self, register: Register, map: &str) {
        self.write("lookup", |w| {
            w.be32(2, register.number());
            w.be32(3, VERDICT_REGISTER);
            w.text(1, map);
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

    pub(crate) fn masquerade(&mut self) {
        self.write("masq", |_| {});
    }

    /// A verdict that is a plain value; not a look-up and no masquerade, which are expressions of their own.
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
