//! Connections that were ended because policy denies them, by what their other ends may go on sending.
//!
//! Connection tracking takes a packet out of the middle of a TCP connection that it does not know for the first of a new one. What the other end
//! of a connection still sends would so begin one the other way, which policy may allow, and whose answers are the packets of the denied
//! one. So that goes nowhere, unless it really begins: a packet with SYN alone is for policy, as any other. All else that begins in the middle
//! is for policy, too: a host may have been restarted, or have taken over from another.
//!
//! Looked at are packets of TCP that are new and are not the first, and that nothing accepted before: hardly ever any.

use alloc::vec;
use alloc::vec::Vec;

use super::words::{chain, deny, family_set, jump, protocol};
use crate::flow::Flow;
use crate::net::Family;
use crate::table::{
    Chain, Datum, Delta, Element, ElementDelta, Field, FieldType, Match, Rule, SetDecl, SetKind, SetName, TcpFlags,
};

const TCP: u8 = 6;
/// The chain, and with the number of the family the sets.
const ENDED: &str = "ended";

pub(super) fn declarations() -> Vec<SetDecl> {
    let key = |family| vec![FieldType::Addr(family), FieldType::Port, FieldType::Addr(family), FieldType::Port];
    [Family::V4, Family::V6].map(|family| SetDecl::new(set(family), key(family), SetKind::Hash)).into()
}

pub(super) fn drops() -> Chain {
    let is_of = |family| {
        let key = vec![Field::SrcAddr(family), Field::SrcPort, Field::DstAddr(family), Field::DstPort];
        let one = Match::InSet { key, set: set(family), negated: false };
        deny(vec![protocol(TCP), one], "connection ended by policy")
    };
    chain(ENDED, [Family::V4, Family::V6].map(is_of).into())
}

/// To stand behind what accepts known connections.
pub(super) fn rule() -> Rule {
    let mask = TcpFlags::FIN.and(TcpFlags::SYN).and(TcpFlags::RST).and(TcpFlags::ACK);
    let begins_not = Match::Tcp { mask, value: TcpFlags::SYN, negated: true };
    Rule { matches: vec![protocol(TCP), begins_not], ..jump(ENDED) }
}

/// Adds what leads to the sets having these packets, or having them no more. Only those of TCP count.
pub(super) fn change(ended: &[Flow], over: &[Flow], delta: &mut Delta) {
    for family in [Family::V4, Family::V6] {
        let elements = |flows: &[Flow]| -> Vec<Element> {
            let counts = |flow: &&Flow| flow.protocol == TCP && flow.family() == family;
            flows.iter().filter(counts).map(element).collect()
        };
        let change = ElementDelta { set: set(family), removed: elements(over), added: elements(ended) };
        if !change.removed.is_empty() || !change.added.is_empty() {
            delta.elements.push(change);
        }
    }
}

fn element(flow: &Flow) -> Element {
    let Flow { source, source_port, destination, destination_port, .. } = *flow;
    let (from, to) = (Datum::Port(source_port), Datum::Port(destination_port));
    Element::member([Datum::Addr(source), from, Datum::Addr(destination), to])
}

fn set(family: Family) -> SetName {
    family_set(ENDED, family)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(protocol: u8, source: &str, destination: &str) -> Flow {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        Flow { source, destination, protocol, source_port: 40_000, destination_port: 80, icmp: None }
    }

    #[test]
    fn each_connection_of_tcp_is_an_element_of_its_family() {
        let (v4, v6) = (flow(TCP, "10.65.0.1", "192.0.2.9"), flow(TCP, "fd65::1", "2001:db8::9"));
        let udp = flow(17, "10.65.0.1", "192.0.2.9");
        let changed = |ended: &[Flow], over: &[Flow]| {
            let mut delta = Delta::default();
            change(ended, over, &mut delta);
            delta.elements
        };
        let of = |flow: Flow| {
            let (from, to) = (Datum::Port(flow.source_port), Datum::Port(flow.destination_port));
            vec![Element::member([Datum::Addr(flow.source), from, Datum::Addr(flow.destination), to])]
        };
        let delta = |family, removed, added| ElementDelta { set: set(family), removed, added };
        assert_eq!(
            changed(&[udp, v4, v6], &[]),
            [delta(Family::V4, vec![], of(v4)), delta(Family::V6, vec![], of(v6))]
        );
        assert_eq!(changed(&[v4], &[v6, udp]), [delta(Family::V4, vec![], of(v4)), delta(Family::V6, of(v6), vec![])]);
        assert_eq!(changed(&[udp], &[udp]), []);
    }
}
