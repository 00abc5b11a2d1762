//! What a rule does once its conditions hold: statements, then the verdict.

use calico_core::net::{Family, PortRange};
use calico_core::table::{Field, SetName, Statement, Verdict, key_family};

use super::rule::RuleEncoder;
use crate::nftables::expression::{Base, Choice, Meta, Register, SetReference, Translation};
use crate::nftables::key::push_address;
use crate::nftables::userdata;

/// The field with the code point lies in the first two octets of either header.
const DSCP_PLACE: u32 = 0;

impl RuleEncoder<'_, '_> {
    pub(super) fn statement(&mut self, statement: &Statement) -> Result<(), String> {
        match statement {
            Statement::Counter => self.emit().counter(),
            Statement::Log { prefix } => {
                let prefix = userdata::shorten(prefix);
                self.emit().log(&prefix);
            }
            Statement::LogGroup { group, prefix, snaplen } => {
                let prefix = userdata::shorten_to(prefix, userdata::MAX_GROUP_PREFIX);
                self.emit().log_group(*group, &prefix, *snaplen);
            }
            Statement::Limit(limit) => self.emit().limit(*limit),
            Statement::ConnectionsOver(count) => self.emit().connections_over(*count),
            Statement::NoTrack => self.emit().notrack(),
            Statement::SetDscp { family, value } => self.set_dscp(*family, *value),
            Statement::SetMark { mask, value } => {
                let mut emit = self.emit();
                emit.meta(Meta::Mark, Register::FIRST);
                emit.bitwise(Register::FIRST, &(!mask & !value).to_ne_bytes(), &value.to_ne_bytes());
                emit.set_mark(Register::FIRST);
            }
            other => return Err(format!("unknown statement {other:?}")),
        }
        Ok(())
    }

    pub(super) fn verdict(&mut self, verdict: &Verdict) -> Result<(), String> {
        match verdict {
            Verdict::Accept | Verdict::Drop | Verdict::Return | Verdict::Jump(_) | Verdict::Goto(_) => {
                self.emit().immediate(verdict);
            }
            Verdict::Lookup { key, map } => {
                self.load_key(key)?;
                self.emit().verdict_lookup(Register::FIRST, SetReference { name: map.as_str(), id: None });
            }
            Verdict::ByPort { field, verdicts } => self.by_port(*field, verdicts)?,
            Verdict::Reject(reject) => self.emit().reject(*reject),
            Verdict::Masquerade { ports, random } => {
                let choice = self.choice(0, *ports, *random);
                self.emit().masquerade(choice);
            }
            Verdict::Snat { address, ports, random } => {
                let mut octets = Vec::new();
                push_address(&mut octets, *address);
                self.emit().load(&octets, Register::FIRST);
                let choice = self.choice(REGISTER, *ports, *random);
                self.emit().nat(Translation::Source, Family::of(*address), Register::FIRST, choice);
            }
            Verdict::SnatLookup { key, map } => self.translate_by_map(Translation::Source, key, map)?,
            Verdict::DnatLookup { key, map } => self.translate_by_map(Translation::Destination, key, map)?,
            other => return Err(format!("unknown verdict {other:?}")),
        }
        Ok(())
    }

    /// The code point is the upper six bits behind the version: of the second octet in IPv4, across both octets in IPv6.
    fn set_dscp(&mut self, family: Family, value: u8) {
        self.family(family);
        let (mask, set) = match family {
            Family::V4 => ([0xff, 0x03], [0, value << 2]),
            Family::V6 => ([0xf0, 0x3f], [value >> 2, value << 6]),
        };
        let mut emit = self.emit();
        emit.payload(Base::Network, DSCP_PLACE, 2, Register::FIRST);
        emit.bitwise(Register::FIRST, &mask, &set);
        emit.rewrite(family, DSCP_PLACE, 2, Register::FIRST);
    }

    /// Loads ports to choose from, each into a whole register from this unit on.
    fn choice(&mut self, unit: u8, ports: Option<PortRange>, random: bool) -> Choice {
        let Some(range) = ports else { return Choice { random, ..Choice::NONE } };
        let (lowest, highest) = (Register::at(unit), Register::at(unit + REGISTER));
        self.emit().load(&range.min().to_be_bytes(), lowest);
        let highest = (range.min() != range.max()).then_some(highest);
        if let Some(highest) = highest {
            self.emit().load(&range.max().to_be_bytes(), highest);
        }
        Choice { ports: Some((lowest, highest)), random }
    }

    fn translate_by_map(&mut self, translation: Translation, key: &[Field], map: &SetName) -> Result<(), String> {
        let family = key_family(key).ok_or("a translation without an address as a key")?;
        self.load_key(key)?;
        self.emit().value_lookup(Register::FIRST, map.as_str(), Register::FIRST);
        self.emit().nat(translation, family, Register::FIRST, Choice::NONE);
        Ok(())
    }
}

/// Units of four octets in a whole register.
const REGISTER: u8 = 4;
