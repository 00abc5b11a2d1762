//! Whether a condition holds for a packet.

use std::net::IpAddr;

use calico_core::net::Family;
use calico_core::table::{Datum, Field, Key, Match, SetKind, Value};

use super::interpret::Run;
use super::ruleset::StoredSet;
use super::{Packet, Ruleset};

const TCP: u8 = 6;

impl Run<'_> {
    pub(super) fn holds(&self, ruleset: &Ruleset, condition: &Match) -> bool {
        let packet = &self.packet;
        let flow = &packet.flow;
        match condition {
            Match::Family(family) => flow.family() == *family,
            Match::Equal { field, value, negated } => {
                let same = |found: Datum| match (found, value) {
                    (Datum::Interface(a), Value::Interface(b)) => a == *b,
                    (Datum::Addr(a), Value::Addr(b)) => a == *b,
                    (Datum::Proto(a), Value::Proto(b)) => a == *b,
                    (Datum::Port(a), Value::Port(b)) => a == *b,
                    _ => false,
                };
                datum(*field, packet).is_some_and(|found| same(found) != *negated)
            }
            Match::InterfacePrefix { field, prefix, negated } => match datum(*field, packet) {
                Some(Datum::Interface(name)) => name.as_str().starts_with(prefix.as_str()) != *negated,
                _ => false,
            },
            Match::InCidr { field, cidr, negated } => {
                address(*field, packet).is_some_and(|address| cidr.contains(address) != *negated)
            }
            Match::InCidrs { field, cidrs, negated } => address(*field, packet)
                .is_some_and(|address| cidrs.iter().any(|cidr| cidr.contains(address)) != *negated),
            Match::InPorts { field, ranges, negated } => match datum(*field, packet) {
                Some(Datum::Port(port)) => ranges.iter().any(|range| range.contains(port)) != *negated,
                _ => false,
            },
            Match::InSet { key, set, negated } => {
                let key: Option<Key> = key.iter().map(|field| datum(*field, packet)).collect();
                let set = ruleset.sets.get(set);
                set.zip(key).is_some_and(|(set, key)| is_member(set, &key) != *negated)
            }
            Match::Icmp { family, icmp_type, code, negated } => {
                let number = if *family == Family::V4 { 1 } else { 58 };
                let same = |(found, found_code)| found == *icmp_type && code.is_none_or(|code| code == found_code);
                flow.protocol == number && flow.icmp.is_some_and(|found| same(found) != *negated)
            }
            Match::Tcp { mask, value, negated } => {
                let same = packet.tcp_flags & mask.bits() == value.bits();
                flow.protocol == TCP && same != *negated
            }
            Match::CtState(states) => self.ct_state().bits() & states.bits() != 0,
            Match::Translated { negated } => self.has_connection() && packet.translated != *negated,
            Match::ArpReply => packet.arp.is_some_and(|arp| arp.reply),
            Match::Local { field, negated } => {
                address(*field, packet).is_some_and(|address| self.surroundings.is_local(address) != *negated)
            }
            Match::Mark { mask, value, negated } => (packet.mark & mask == *value) != *negated,
            // A condition that this interpreter does not know holds for nothing.
            _ => false,
        }
    }
}

fn is_member(set: &StoredSet, key: &[Datum]) -> bool {
    match (set.decl.kind, key) {
        (SetKind::Interval, [Datum::Addr(address)]) => {
            set.elements.keys().any(|found| matches!(**found, [Datum::Net(cidr)] if cidr.contains(*address)))
        }
        _ => set.elements.contains_key(key),
    }
}

fn address(field: Field, packet: &Packet) -> Option<IpAddr> {
    match datum(field, packet) {
        Some(Datum::Addr(address)) => Some(address),
        _ => None,
    }
}

/// A field's value, if the packet has the field.
pub(super) fn datum(field: Field, packet: &Packet) -> Option<Datum> {
    let flow = &packet.flow;
    match field {
        Field::IifName => packet.iif.map(Datum::Interface),
        Field::OifName => packet.oif.map(Datum::Interface),
        Field::SrcAddr(family) => (Family::of(flow.source) == family).then_some(Datum::Addr(flow.source)),
        Field::DstAddr(family) => (Family::of(flow.destination) == family).then_some(Datum::Addr(flow.destination)),
        Field::L4Proto => Some(Datum::Proto(flow.protocol)),
        // Of protocols without ports the kernel reads whatever stands there; programs ask for the protocol first.
        Field::SrcPort => Some(Datum::Port(flow.source_port)),
        Field::DstPort => Some(Datum::Port(flow.destination_port)),
        Field::ArpSender => packet.arp.map(|arp| Datum::Addr(arp.sender.into())),
        _ => None,
    }
}
