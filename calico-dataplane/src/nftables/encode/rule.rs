//! Rules: matches, statements and verdict as instructions.
//!
//! The instructions are those that `nft` writes for the same condition (a test compares them), so that `nft list` shows what we
//! meant. Two guards keep a match from reading what is not there: an address is read only from a packet of its family, and a port
//! only behind a protocol that has ports. A guard is left out where the rule itself implies it. Lists become anonymous sets, which
//! live and die with their rule.

use std::net::IpAddr;

use calico_core::net::{Cidr, Family, PortRange};
use calico_core::table::{Chain, ChainName, Field, Match, PORT_PROTOCOLS, Rule, Value, Verdict};

use super::element::{Anonymous, Span};
use super::field::{address_field, address_place, interface_field, mask_octets, units, value_octets};
use super::{Batch, Subject};
use crate::DataplaneError;
use crate::netlink::wire::Writer;
use crate::nftables::expression::{Base, Comparison, Expressions, Fib, Meta, Register, SetReference, family_number};
use crate::nftables::key::{after, push_address};
use crate::nftables::userdata::{self, Seal, Target};

const ICMP: u8 = 1;
const TCP: u8 = 6;
/// Where the flags stand.
const TCP_FLAGS: u32 = 13;
const ICMPV6: u8 = 58;
/// `nft`'s number of a port's type.
const PORT_TYPE: u32 = 13;
/// `IPS_DST_NAT`.
const TRANSLATED: u32 = 0x20;
/// `RTN_LOCAL`.
const LOCAL: u32 = 2;
/// `ARPOP_REPLY`, and where it stands.
const ARP_REPLY: u16 = 2;
const ARP_OPERATION: u32 = 6;

/// Appends the rules of a chain.
pub(super) fn rules<'a>(batch: &mut Batch<'a>, chain: &'a Chain) -> Result<(), DataplaneError> {
    let fingerprint = chain.fingerprint();
    let count = u32::try_from(chain.rules.len()).unwrap_or(u32::MAX);
    for (index, rule) in chain.rules.iter().enumerate() {
        let subject = Subject::Rule { chain: &chain.name, index };
        let mut encoder =
            RuleEncoder { batch, subject, writer: Writer::default(), families: Vec::new(), ports: false, tcp: false };
        encoder.rule(rule).map_err(|detail| DataplaneError::Unwritable { object: subject.to_string(), detail })?;
        let expressions = encoder.writer.finish().ok_or_else(|| DataplaneError::Unwritable {
            object: subject.to_string(),
            detail: "its conditions need more than 64 KiB".into(),
        })?;
        let target = target(rule.verdict.as_ref());
        let seal = Seal { fingerprint, index: u32::try_from(index).unwrap_or(u32::MAX), count, target };
        batch.rule(chain, index, &expressions, &userdata::write(rule.comment.as_deref(), seal));
    }
    Ok(())
}

/// Where a rule with this verdict leads.
fn target(verdict: Option<&Verdict>) -> Target {
    match verdict {
        Some(Verdict::ByPort { verdicts, .. }) => {
            let mut verdicts: Vec<_> = verdicts.iter().collect();
            verdicts.sort_unstable_by_key(|(range, _)| PortRange::min(*range));
            Target::of_map(verdicts.into_iter().map(|(_, verdict)| verdict.target().map(ChainName::as_str)))
        }
        other => Target::of(other.and_then(Verdict::target).map(ChainName::as_str)),
    }
}

pub(super) struct RuleEncoder<'b, 'a> {
    batch: &'b mut Batch<'a>,
    subject: Subject<'a>,
    writer: Writer,
    /// Families whose guard stands already.
    families: Vec<Family>,
    /// The rule itself sees to it that only protocols with ports pass.
    ports: bool,
    /// The same with TCP.
    tcp: bool,
}

impl RuleEncoder<'_, '_> {
    fn rule(&mut self, rule: &Rule) -> Result<(), String> {
        rule.check(self.subject.table()).map_err(|error| error.to_string())?;
        self.ports = rule.implies_ports();
        let is_tcp = Match::Equal { field: Field::L4Proto, value: Value::Proto(TCP), negated: false };
        self.tcp = rule.matches.contains(&is_tcp);
        for condition in &rule.matches {
            self.condition(condition)?;
        }
        for statement in &rule.statements {
            self.statement(statement)?;
        }
        rule.verdict.as_ref().map_or(Ok(()), |verdict| self.verdict(verdict))
    }

    pub(super) const fn emit(&mut self) -> Expressions<'_> {
        Expressions::new(&mut self.writer)
    }

    fn condition(&mut self, condition: &Match) -> Result<(), String> {
        match condition {
            Match::Family(family) => self.family(*family),
            Match::Equal { field, value, negated } => self.equal(*field, *value, *negated)?,
            Match::InterfacePrefix { field, prefix, negated } => {
                interface_field(*field)?;
                self.load(*field, Register::FIRST)?;
                self.compare(*negated, prefix.as_str().as_bytes());
            }
            Match::InCidr { field, cidr, negated } => self.in_cidr(*field, cidr, *negated)?,
            Match::InCidrs { field, cidrs, negated } => self.in_cidrs(*field, cidrs, *negated)?,
            Match::InPorts { field, ranges, negated } => self.in_ports(*field, ranges, *negated)?,
            Match::InSet { key, set, negated } => {
                self.load_key(key)?;
                self.emit().lookup(Register::FIRST, SetReference { name: set.as_str(), id: None }, *negated);
            }
            Match::Icmp { family, icmp_type, code, negated } => self.icmp(*family, *icmp_type, *code, *negated),
            Match::Tcp { mask, value, negated } => {
                if !self.tcp {
                    self.emit().meta(Meta::L4Proto, Register::FIRST);
                    self.compare(false, &[TCP]);
                }
                self.emit().payload(Base::Transport, TCP_FLAGS, 1, Register::FIRST);
                self.emit().bitwise(Register::FIRST, &[mask.bits()], &[0]);
                self.compare(*negated, &[value.bits()]);
            }
            Match::CtState(states) => {
                self.emit().ct_state(Register::FIRST);
                self.any_bit(states.bits(), false);
            }
            Match::Translated { negated } => {
                self.emit().ct_status(Register::FIRST);
                self.any_bit(TRANSLATED, *negated);
            }
            Match::Local { field, negated } => {
                self.guard(*field);
                let source = matches!(field, Field::SrcAddr(_));
                let asked = if source { Fib::SourceType } else { Fib::DestinationType };
                self.emit().fib(asked, Register::FIRST);
                self.compare(*negated, &LOCAL.to_ne_bytes());
            }
            Match::ArpReply => {
                self.emit().payload(Base::Network, ARP_OPERATION, 2, Register::FIRST);
                self.compare(false, &ARP_REPLY.to_be_bytes());
            }
            Match::Mark { mask, value, negated } => {
                self.emit().meta(Meta::Mark, Register::FIRST);
                self.emit().bitwise(Register::FIRST, &mask.to_ne_bytes(), &[0; 4]);
                self.compare(*negated, &value.to_ne_bytes());
            }
            other => return Err(format!("unknown match {other:?}")),
        }
        Ok(())
    }

    pub(super) fn family(&mut self, family: Family) {
        if self.families.contains(&family) {
            return;
        }
        self.families.push(family);
        self.emit().meta(Meta::NfProto, Register::FIRST);
        self.compare(false, &[family_number(family)]);
    }

    /// Whether the number in the first register has (or, negated, has not) any of the bits.
    fn any_bit(&mut self, bits: u32, negated: bool) {
        self.emit().bitwise(Register::FIRST, &bits.to_ne_bytes(), &[0; 4]);
        let comparison = if negated { Comparison::Equal } else { Comparison::NotEqual };
        self.emit().compare(Register::FIRST, comparison, &[0; 4]);
    }

    pub(super) fn compare(&mut self, negated: bool, value: &[u8]) {
        let comparison = if negated { Comparison::NotEqual } else { Comparison::Equal };
        self.emit().compare(Register::FIRST, comparison, value);
    }

    fn equal(&mut self, field: Field, value: Value, negated: bool) -> Result<(), String> {
        let octets = value_octets(field, value).ok_or_else(|| format!("{field:?} is never {value:?}"))?;
        self.guard(field);
        self.load(field, Register::FIRST)?;
        self.compare(negated, &octets);
        Ok(())
    }

    fn in_cidr(&mut self, field: Field, cidr: &Cidr, negated: bool) -> Result<(), String> {
        address_field(field, cidr)?;
        self.guard(field);
        let mut network = Vec::new();
        push_address(&mut network, cidr.address());
        let length = cidr.length();
        if length > 0 && length.is_multiple_of(8) {
            // Whole octets: read just those, and save the mask.
            network.truncate(usize::from(length / 8));
            self.load_part(field, length / 8)?;
        } else {
            self.load(field, Register::FIRST)?;
            let mask = mask_octets(cidr);
            self.emit().bitwise(Register::FIRST, &mask, &vec![0; mask.len()]);
        }
        self.compare(negated, &network);
        Ok(())
    }

    fn in_cidrs(&mut self, field: Field, cidrs: &[Cidr], negated: bool) -> Result<(), String> {
        if let [cidr] = cidrs {
            return self.in_cidr(field, cidr, negated);
        }
        let first = cidrs.first().ok_or("an empty list of prefixes")?;
        for cidr in cidrs {
            address_field(field, cidr)?;
        }
        let spans = cidrs.iter().map(|cidr| {
            let octets = |address: IpAddr| {
                let mut octets = Vec::new();
                push_address(&mut octets, address);
                octets
            };
            Span { first: octets(cidr.address()), end: after(cidr).map(octets), single: cidr.is_host(), verdict: None }
        });
        let kind = match first.family() {
            Family::V4 => 7,
            Family::V6 => 8,
        };
        self.guard(field);
        self.anonymous(field, Anonymous { key_type: kind, spans: spans.collect() }, negated)
    }

    fn in_ports(&mut self, field: Field, ranges: &[PortRange], negated: bool) -> Result<(), String> {
        self.guard_port(field)?;
        let [range] = *ranges else {
            if ranges.is_empty() {
                return Err("an empty list of ports".into());
            }
            let spans = ranges.iter().map(|range| Span::ports(*range, None));
            return self.anonymous(field, Anonymous { key_type: PORT_TYPE, spans: spans.collect() }, negated);
        };
        self.load(field, Register::FIRST)?;
        let (min, max) = (range.min().to_be_bytes(), range.max().to_be_bytes());
        match (min == max, negated) {
            (true, _) => self.compare(negated, &min),
            (false, true) => self.emit().outside(Register::FIRST, &min, &max),
            (false, false) => {
                self.emit().compare(Register::FIRST, Comparison::AtLeast, &min);
                self.emit().compare(Register::FIRST, Comparison::AtMost, &max);
            }
        }
        Ok(())
    }

    fn anonymous(&mut self, field: Field, set: Anonymous<'_>, negated: bool) -> Result<(), String> {
        self.load(field, Register::FIRST)?;
        self.lookup_anonymous(set, negated);
        Ok(())
    }

    fn lookup_anonymous(&mut self, set: Anonymous<'_>, negated: bool) {
        let found = self.write_anonymous(&set);
        self.emit().lookup(Register::FIRST, found, negated);
    }

    fn write_anonymous(&mut self, set: &Anonymous<'_>) -> SetReference<'static> {
        let id = self.batch.next_set();
        set.write(self.batch, id, self.subject);
        SetReference { name: set.name(), id: Some(id) }
    }

    pub(super) fn by_port(&mut self, field: Field, verdicts: &[(PortRange, Verdict)]) -> Result<(), String> {
        self.guard_port(field)?;
        self.load(field, Register::FIRST)?;
        let spans = verdicts.iter().map(|(range, verdict)| Span::ports(*range, Some(verdict)));
        let map = self.write_anonymous(&Anonymous { key_type: PORT_TYPE, spans: spans.collect() });
        self.emit().verdict_lookup(Register::FIRST, map);
        Ok(())
    }

    fn guard_port(&mut self, field: Field) -> Result<(), String> {
        if !matches!(field, Field::SrcPort | Field::DstPort) {
            return Err(format!("{field:?} is no port"));
        }
        self.guard(field);
        Ok(())
    }

    fn icmp(&mut self, family: Family, icmp_type: u8, code: Option<u8>, negated: bool) {
        self.family(family);
        self.emit().meta(Meta::L4Proto, Register::FIRST);
        self.compare(
            false,
            &[match family {
                Family::V4 => ICMP,
                Family::V6 => ICMPV6,
            }],
        );
        // Type and code are neighbours, and one comparison of both negates as a pair.
        let length = if code.is_some() { 2 } else { 1 };
        self.emit().payload(Base::Transport, 0, length, Register::FIRST);
        match code {
            Some(code) => self.compare(negated, &[icmp_type, code]),
            None => self.compare(negated, &[icmp_type]),
        }
    }

    /// Loads the fields of a key side by side from the first register on.
    pub(super) fn load_key(&mut self, key: &[Field]) -> Result<(), String> {
        if key.is_empty() {
            return Err("a look-up without a key".into());
        }
        let proto_in_key = key.contains(&Field::L4Proto);
        for field in key {
            if !(proto_in_key && matches!(field, Field::SrcPort | Field::DstPort)) {
                self.guard(*field);
            }
        }
        let mut unit = 0;
        for field in key {
            self.load(*field, Register::at(unit))?;
            unit += units(*field);
            if unit > Register::COUNT {
                return Err("a key of more than 64 octets".into());
            }
        }
        Ok(())
    }

    fn guard(&mut self, field: Field) {
        match field {
            Field::SrcAddr(family) | Field::DstAddr(family) => self.family(family),
            Field::SrcPort | Field::DstPort if !self.ports => {
                self.ports = true;
                self.emit().meta(Meta::L4Proto, Register::FIRST);
                let spans =
                    PORT_PROTOCOLS.map(|proto| Span { first: vec![proto], end: None, single: true, verdict: None });
                self.lookup_anonymous(Anonymous { key_type: 12, spans: spans.to_vec() }, false);
            }
            _ => {}
        }
    }

    fn load(&mut self, field: Field, into: Register) -> Result<(), String> {
        let mut emit = self.emit();
        match field {
            Field::IifName => emit.meta(Meta::IifName, into),
            Field::OifName => emit.meta(Meta::OifName, into),
            Field::L4Proto => emit.meta(Meta::L4Proto, into),
            Field::SrcPort => emit.payload(Base::Transport, 0, 2, into),
            Field::DstPort => emit.payload(Base::Transport, 2, 2, into),
            Field::SrcAddr(_) | Field::DstAddr(_) | Field::ArpSender => {
                let (offset, length) = address_place(field).unwrap_or((0, 0));
                emit.payload(Base::Network, offset, length, into);
            }
            other => return Err(format!("unknown field {other:?}")),
        }
        Ok(())
    }

    /// Loads the first octets of an address.
    fn load_part(&mut self, field: Field, octets: u8) -> Result<(), String> {
        let (offset, _) = address_place(field).ok_or_else(|| format!("{field:?} is no address"))?;
        self.emit().payload(Base::Network, offset, octets.into(), Register::FIRST);
        Ok(())
    }
}
