//! Matches and elements in the schema of `nft`'s JSON.

use std::collections::HashSet;

use calico_core::net::{Cidr, Family, PortRange};
use calico_core::table::{self, CtState, Datum, Element, ElementData, Field, Match, PORT_PROTOCOLS, Value};
use nftables::expr::{
    BinaryOperation, CT, Expression, Fib, FibFlag, FibResult, Meta, MetaKey, NamedExpression, Payload, PayloadField,
    Prefix, Range, SetItem, Verdict,
};
use nftables::stmt::{self, JumpTarget, Operator, Statement};

pub(super) type Text = Expression<'static>;

/// A match as a statement. None for a word that this release does not know.
pub(super) fn condition(condition: &Match) -> Option<Statement<'static>> {
    let (left, right, op) = match condition {
        Match::Family(wanted) => return Some(family(*wanted)),
        Match::Equal { field, value: wanted, negated } => {
            (field_expression(*field)?, value(*wanted), equality(*negated))
        }
        Match::InterfacePrefix { field, prefix, negated } => {
            (field_expression(*field)?, text(format!("{prefix}*")), equality(*negated))
        }
        Match::InCidr { field, cidr, negated } => (field_expression(*field)?, prefix(cidr), equality(*negated)),
        Match::InCidrs { field, cidrs, negated } => {
            (field_expression(*field)?, set(cidrs.iter().map(prefix)), equality(*negated))
        }
        Match::InPorts { field, ranges, negated } => {
            let right = match ranges.as_slice() {
                [only] => range(*only),
                _ => set(ranges.iter().copied().map(range)),
            };
            (field_expression(*field)?, right, equality(*negated))
        }
        Match::InSet { key: fields, set, negated } => (key(fields)?, text(format!("@{set}")), equality(*negated)),
        Match::Icmp { family, icmp_type, code, negated } => icmp(*family, *icmp_type, *code, *negated),
        Match::Tcp { mask, value, negated } => {
            let masked = BinaryOperation::AND(payload("tcp", "flags"), Expression::Number(mask.bits().into()));
            (Expression::BinaryOperation(Box::new(masked)), Expression::Number(value.bits().into()), equality(*negated))
        }
        Match::CtState(states) => (connection("state"), states_expression(*states), Operator::IN),
        Match::Translated { negated: false } => (connection("status"), text("dnat"), Operator::IN),
        Match::Translated { negated: true } => {
            let bit = BinaryOperation::AND(connection("status"), text("dnat"));
            (Expression::BinaryOperation(Box::new(bit)), Expression::Number(0), Operator::EQ)
        }
        Match::Local { field, negated } => {
            let side = if matches!(field, Field::SrcAddr(_)) { FibFlag::Saddr } else { FibFlag::Daddr };
            (address_type(side), text("local"), equality(*negated))
        }
        Match::ArpReply => (payload("arp", "operation"), text("reply"), Operator::EQ),
        Match::Mark { mask, value, negated } => {
            let masked = BinaryOperation::AND(meta(MetaKey::Mark), Expression::Number(*mask));
            (Expression::BinaryOperation(Box::new(masked)), Expression::Number(*value), equality(*negated))
        }
        _ => return None,
    };
    Some(Statement::Match(stmt::Match { left, right, op }))
}

/// The packet is of a protocol with ports.
pub(super) fn has_ports() -> Statement<'static> {
    let protocols = PORT_PROTOCOLS.iter().map(|number| Expression::Number((*number).into()));
    Statement::Match(stmt::Match { left: meta(MetaKey::L4proto), right: set(protocols), op: Operator::EQ })
}

pub(super) fn family(family: Family) -> Statement<'static> {
    let right = text(if family == Family::V4 { "ipv4" } else { "ipv6" });
    Statement::Match(stmt::Match { left: meta(MetaKey::Nfproto), right, op: Operator::EQ })
}

fn address_type(side: FibFlag) -> Text {
    Expression::Named(NamedExpression::Fib(Fib { result: FibResult::Type, flags: HashSet::from([side]) }))
}

fn connection(key: &'static str) -> Text {
    Expression::Named(NamedExpression::CT(CT { key: key.into(), family: None, dir: None }))
}

/// An element, with its data in a map. None for a word that this release does not know.
pub(super) fn element(element: &Element) -> Option<Text> {
    let mut parts: Vec<_> = element.key.iter().map(datum).collect();
    let key = if parts.len() == 1 { parts.swap_remove(0) } else { Expression::Named(NamedExpression::Concat(parts)) };
    let verdict = match &element.data {
        None => return Some(key),
        Some(ElementData::Addr(address)) => return Some(Expression::List(vec![key, text(address.to_string())])),
        Some(data) => data.verdict()?,
    };
    let target = |chain: &table::ChainName| JumpTarget { target: chain.to_string().into() };
    let verdict = match verdict {
        table::Verdict::Accept => Verdict::Accept,
        table::Verdict::Return => Verdict::Return,
        table::Verdict::Jump(chain) => Verdict::Jump(target(chain)),
        table::Verdict::Goto(chain) => Verdict::Goto(target(chain)),
        table::Verdict::Drop => Verdict::Drop,
        _ => return None,
    };
    Some(Expression::List(vec![key, Expression::Verdict(verdict)]))
}

fn icmp(family: Family, icmp_type: u8, code: Option<u8>, negated: bool) -> (Text, Text, Operator) {
    let protocol = if family == Family::V4 { "icmp" } else { "icmpv6" };
    let (kind, code_field) = (payload(protocol, "type"), payload(protocol, "code"));
    let Some(code) = code else { return (kind, Expression::Number(icmp_type.into()), equality(negated)) };
    let both = |a, b| Expression::Named(NamedExpression::Concat(vec![a, b]));
    let pair = both(Expression::Number(icmp_type.into()), Expression::Number(code.into()));
    (both(kind, code_field), set([pair].into_iter()), equality(negated))
}

const fn equality(negated: bool) -> Operator {
    if negated { Operator::NEQ } else { Operator::EQ }
}

pub(super) fn key(fields: &[Field]) -> Option<Text> {
    match fields {
        [only] => field_expression(*only),
        _ => {
            let parts: Option<_> = fields.iter().map(|field| field_expression(*field)).collect();
            Some(Expression::Named(NamedExpression::Concat(parts?)))
        }
    }
}

fn field_expression(field: Field) -> Option<Text> {
    Some(match field {
        Field::IifName => meta(MetaKey::Iifname),
        Field::OifName => meta(MetaKey::Oifname),
        Field::SrcAddr(Family::V4) => payload("ip", "saddr"),
        Field::DstAddr(Family::V4) => payload("ip", "daddr"),
        Field::SrcAddr(Family::V6) => payload("ip6", "saddr"),
        Field::DstAddr(Family::V6) => payload("ip6", "daddr"),
        Field::SrcPort => payload("th", "sport"),
        Field::DstPort => payload("th", "dport"),
        Field::L4Proto => meta(MetaKey::L4proto),
        Field::ArpSender => payload("arp", "saddr ip"),
        _ => return None,
    })
}

fn value(value: Value) -> Text {
    match value {
        Value::Interface(name) => text(name.to_string()),
        Value::Addr(address) => text(address.to_string()),
        Value::Proto(proto) => Expression::Number(proto.into()),
        Value::Port(port) => Expression::Number(port.into()),
        other => text(format!("{other}")),
    }
}

fn datum(datum: &Datum) -> Text {
    match datum {
        Datum::Interface(name) => text(name.to_string()),
        Datum::Addr(address) => text(address.to_string()),
        Datum::Net(cidr) => prefix(cidr),
        Datum::Proto(proto) => Expression::Number((*proto).into()),
        Datum::Port(port) => Expression::Number((*port).into()),
        other => text(format!("{other}")),
    }
}

fn prefix(cidr: &Cidr) -> Text {
    let address = text(cidr.address().to_string());
    if cidr.is_host() {
        return address;
    }
    Expression::Named(NamedExpression::Prefix(Prefix { addr: Box::new(address), len: cidr.length().into() }))
}

pub(super) fn range(range: PortRange) -> Text {
    let number = |port: u16| Expression::Number(port.into());
    let (min, max) = (range.min(), range.max());
    if min == max { number(min) } else { Expression::Range(Box::new(Range { range: [number(min), number(max)] })) }
}

fn set(items: impl Iterator<Item = Text>) -> Text {
    Expression::Named(NamedExpression::Set(items.map(SetItem::Element).collect()))
}

fn states_expression(states: CtState) -> Text {
    Expression::List(states.to_string().split(',').map(|state| text(state.to_owned())).collect())
}

pub(super) const fn meta(key: MetaKey) -> Text {
    Expression::Named(NamedExpression::Meta(Meta { key }))
}

pub(super) fn payload(protocol: &'static str, field: &'static str) -> Text {
    let field = PayloadField { protocol: protocol.into(), field: field.into() };
    Expression::Named(NamedExpression::Payload(Payload::PayloadField(field)))
}

pub(super) fn text(text: impl Into<std::borrow::Cow<'static, str>>) -> Text {
    Expression::String(text.into())
}
