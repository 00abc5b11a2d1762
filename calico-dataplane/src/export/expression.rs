//! Matches, statements, verdicts and elements in the schema of `nft`'s JSON.

use calico_core::net::{Cidr, Family, PortRange};
use calico_core::table::{self, CtState, Datum, Element, Field, Match, Value};
use nftables::expr::{
    BinaryOperation, CT, Expression, Meta, MetaKey, NamedExpression, Payload, PayloadField, Prefix, Range, SetItem,
    Verdict,
};
use nftables::stmt::{self, JumpTarget, Log, LogLevel, Mangle, Operator, Statement, VerdictMap};

type Text = Expression<'static>;

/// A match as a statement.
pub(super) fn condition(condition: &Match) -> Statement<'static> {
    let (left, right, op) = match condition {
        Match::Family(family) => {
            (meta(MetaKey::Nfproto), text(if *family == Family::V4 { "ipv4" } else { "ipv6" }), Operator::EQ)
        }
        Match::Equal { field, value: wanted, negated } => {
            (field_expression(*field), value(*wanted), equality(*negated))
        }
        Match::InterfacePrefix { field, prefix, negated } => {
            (field_expression(*field), text(format!("{prefix}*")), equality(*negated))
        }
        Match::InCidr { field, cidr, negated } => (field_expression(*field), prefix(cidr), equality(*negated)),
        Match::InCidrs { field, cidrs, negated } => {
            (field_expression(*field), set(cidrs.iter().map(prefix)), equality(*negated))
        }
        Match::InPorts { field, ranges, negated } => {
            let right = match ranges.as_slice() {
                [only] => range(*only),
                _ => set(ranges.iter().copied().map(range)),
            };
            (field_expression(*field), right, equality(*negated))
        }
        Match::InSet { key: fields, set, negated } => (key(fields), text(format!("@{set}")), equality(*negated)),
        Match::Icmp { family, icmp_type, code, negated } => icmp(*family, *icmp_type, *code, *negated),
        Match::CtState(states) => (ct_state(), states_expression(*states), Operator::IN),
        Match::Mark { mask, value, negated } => {
            let masked = BinaryOperation::AND(meta(MetaKey::Mark), Expression::Number(*mask));
            (Expression::BinaryOperation(Box::new(masked)), Expression::Number(*value), equality(*negated))
        }
        // A word this release does not know matches nothing: no packet is of both families.
        _ => (meta(MetaKey::Nfproto), Expression::Number(0), Operator::EQ),
    };
    Statement::Match(stmt::Match { left, right, op })
}

/// A statement.
pub(super) fn statement(statement: &table::Statement) -> Statement<'static> {
    match statement {
        table::Statement::Log { prefix } => {
            let log = Log { prefix: Some(prefix.clone().into()), level: Some(LogLevel::Info), ..Log::new(None) };
            Statement::Log(Some(log))
        }
        table::Statement::SetMark { mask, value } => {
            let kept = BinaryOperation::AND(meta(MetaKey::Mark), Expression::Number(!mask & !value));
            let kept = Expression::BinaryOperation(Box::new(kept));
            let changed = BinaryOperation::XOR(kept, Expression::Number(*value));
            Statement::Mangle(Mangle {
                key: meta(MetaKey::Mark),
                value: Expression::BinaryOperation(Box::new(changed)),
            })
        }
        _ => Statement::Counter(stmt::Counter::Anonymous(None)),
    }
}

/// A verdict as a statement.
pub(super) fn verdict(verdict: &table::Verdict) -> Statement<'static> {
    let target = |chain: &table::ChainName| JumpTarget { target: chain.to_string().into() };
    match verdict {
        table::Verdict::Accept => Statement::Accept(None),
        table::Verdict::Return => Statement::Return(None),
        table::Verdict::Jump(chain) => Statement::Jump(target(chain)),
        table::Verdict::Goto(chain) => Statement::Goto(target(chain)),
        table::Verdict::Lookup { key: fields, map } => {
            Statement::VerdictMap(VerdictMap { key: key(fields), data: text(format!("@{map}")) })
        }
        table::Verdict::Masquerade { .. } => Statement::Masquerade(None),
        // Fails closed for what is not known here.
        _ => Statement::Drop(None),
    }
}

/// An element, with its verdict in a map.
pub(super) fn element(element: &Element) -> Text {
    let mut parts: Vec<_> = element.key.iter().map(datum).collect();
    let key = if parts.len() == 1 { parts.swap_remove(0) } else { Expression::Named(NamedExpression::Concat(parts)) };
    let Some(verdict) = &element.verdict else { return key };
    let target = |chain: &table::ChainName| JumpTarget { target: chain.to_string().into() };
    let verdict = match verdict {
        table::Verdict::Accept => Verdict::Accept,
        table::Verdict::Return => Verdict::Return,
        table::Verdict::Jump(chain) => Verdict::Jump(target(chain)),
        table::Verdict::Goto(chain) => Verdict::Goto(target(chain)),
        _ => Verdict::Drop,
    };
    Expression::List(vec![key, Expression::Verdict(verdict)])
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

fn key(fields: &[Field]) -> Text {
    match fields {
        [only] => field_expression(*only),
        _ => Expression::Named(NamedExpression::Concat(fields.iter().map(|field| field_expression(*field)).collect())),
    }
}

fn field_expression(field: Field) -> Text {
    match field {
        Field::IifName => meta(MetaKey::Iifname),
        Field::OifName => meta(MetaKey::Oifname),
        Field::SrcAddr(Family::V4) => payload("ip", "saddr"),
        Field::DstAddr(Family::V4) => payload("ip", "daddr"),
        Field::SrcAddr(Family::V6) => payload("ip6", "saddr"),
        Field::DstAddr(Family::V6) => payload("ip6", "daddr"),
        Field::SrcPort => payload("th", "sport"),
        Field::DstPort => payload("th", "dport"),
        _ => meta(MetaKey::L4proto),
    }
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

fn range(range: PortRange) -> Text {
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

fn ct_state() -> Text {
    Expression::Named(NamedExpression::CT(CT { key: "state".into(), family: None, dir: None }))
}

const fn meta(key: MetaKey) -> Text {
    Expression::Named(NamedExpression::Meta(Meta { key }))
}

fn payload(protocol: &'static str, field: &'static str) -> Text {
    let field = PayloadField { protocol: protocol.into(), field: field.into() };
    Expression::Named(NamedExpression::Payload(Payload::PayloadField(field)))
}

fn text(text: impl Into<std::borrow::Cow<'static, str>>) -> Text {
    Expression::String(text.into())
}
