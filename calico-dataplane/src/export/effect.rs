//! Statements and verdicts in the schema of `nft`'s JSON.

use std::collections::HashSet;
use std::net::IpAddr;

use calico_core::net::{Family, PortRange};
use calico_core::table::{self, ChainName, Field, RateLimit, Reject, SetName, key_family};
use nftables::expr::{BinaryOperation, Expression, Map, MetaKey, NamedExpression, SetItem};
use nftables::stmt::{
    CTCount, Counter, JumpTarget, Limit, Log, LogLevel, Mangle, NAT, NATFamily, NATFlag, RejectType, Statement,
    VerdictMap,
};
use nftables::types::RejectCode;

use super::expression::{Text, key, meta, payload, range, text};

/// A statement. None for a word that this release does not know.
pub(super) fn statement(statement: &table::Statement) -> Option<Statement<'static>> {
    Some(match statement {
        table::Statement::Counter => Statement::Counter(Counter::Anonymous(None)),
        table::Statement::Log { prefix } => {
            let log = Log { prefix: Some(prefix.clone().into()), level: Some(LogLevel::Info), ..Log::new(None) };
            Statement::Log(Some(log))
        }
        table::Statement::LogGroup { group, prefix, snaplen } => {
            let prefix = (!prefix.is_empty()).then(|| prefix.clone().into());
            Statement::Log(Some(Log { prefix, snaplen: Some(*snaplen), ..Log::new(Some((*group).into())) }))
        }
        table::Statement::Limit(rate) => Statement::Limit(limit(*rate)),
        table::Statement::ConnectionsOver(count) => {
            Statement::CTCount(CTCount { val: Expression::Number(*count), inv: Some(true) })
        }
        table::Statement::NoTrack => Statement::Notrack,
        table::Statement::SetDscp { family, value } => {
            let protocol = if *family == Family::V4 { "ip" } else { "ip6" };
            mangle(payload(protocol, "dscp"), Expression::Number((*value).into()))
        }
        table::Statement::SetMark { mask, value } => {
            let kept = BinaryOperation::AND(meta(MetaKey::Mark), Expression::Number(!mask & !value));
            let kept = Expression::BinaryOperation(Box::new(kept));
            let changed = BinaryOperation::XOR(kept, Expression::Number(*value));
            mangle(meta(MetaKey::Mark), Expression::BinaryOperation(Box::new(changed)))
        }
        _ => return None,
    })
}

fn mangle(key: Text, value: Text) -> Statement<'static> {
    Statement::Mangle(Mangle { key, value })
}

fn limit(limit: RateLimit) -> Limit<'static> {
    let per = match limit.seconds {
        1 => "second",
        60 => "minute",
        3600 => "hour",
        _ => "day",
    };
    Limit {
        rate: limit.rate,
        rate_unit: None,
        per: Some(per.into()),
        burst: Some(limit.burst),
        burst_unit: None,
        inv: limit.over.then_some(true),
    }
}

/// A verdict as a statement. None for a word that this release does not know.
pub(super) fn verdict(verdict: &table::Verdict) -> Option<Statement<'static>> {
    let target = |chain: &ChainName| JumpTarget { target: chain.to_string().into() };
    Some(match verdict {
        table::Verdict::Accept => Statement::Accept(None),
        table::Verdict::Drop => Statement::Drop(None),
        table::Verdict::Return => Statement::Return(None),
        table::Verdict::Jump(chain) => Statement::Jump(target(chain)),
        table::Verdict::Goto(chain) => Statement::Goto(target(chain)),
        table::Verdict::Lookup { key: fields, map } => {
            Statement::VerdictMap(VerdictMap { key: key(fields)?, data: text(format!("@{map}")) })
        }
        table::Verdict::ByPort { field, verdicts } => {
            let item = |(ports, to): &(PortRange, table::Verdict)| {
                Some(SetItem::MappingStatement(range(*ports), self::verdict(to)?))
            };
            let items = verdicts.iter().map(item).collect::<Option<_>>()?;
            let data = Expression::Named(NamedExpression::Set(items));
            Statement::VerdictMap(VerdictMap { key: key(&[*field])?, data })
        }
        table::Verdict::Reject(Reject::TcpReset) => {
            Statement::Reject(Some(nftables::stmt::Reject { _type: Some(RejectType::TCPReset), expr: None }))
        }
        table::Verdict::Reject(Reject::PortUnreachable) => {
            let (_type, expr) = (Some(RejectType::ICMPX), Some(RejectCode::PortUnreach));
            Statement::Reject(Some(nftables::stmt::Reject { _type, expr }))
        }
        table::Verdict::Masquerade { ports: None, random: false } => Statement::Masquerade(None),
        table::Verdict::Masquerade { ports, random } => {
            Statement::Masquerade(Some(NAT { addr: None, family: None, port: ports.map(range), flags: flags(*random) }))
        }
        table::Verdict::Snat { address, ports, random } => Statement::SNAT(Some(snat(*address, *ports, *random))),
        table::Verdict::SnatLookup { key, map } => Statement::SNAT(Some(by_map(key, map)?)),
        table::Verdict::DnatLookup { key, map } => Statement::DNAT(Some(by_map(key, map)?)),
        _ => return None,
    })
}

fn snat(address: IpAddr, ports: Option<PortRange>, random: bool) -> NAT<'static> {
    NAT {
        addr: Some(text(address.to_string())),
        family: Some(nat_family(Family::of(address))),
        port: ports.map(range),
        flags: flags(random),
    }
}

fn by_map(fields: &[Field], map: &SetName) -> Option<NAT<'static>> {
    let found = Map { key: key(fields)?, data: text(format!("@{map}")) };
    Some(NAT {
        addr: Some(Expression::Named(NamedExpression::Map(Box::new(found)))),
        family: Some(nat_family(key_family(fields)?)),
        port: None,
        flags: None,
    })
}

const fn nat_family(family: Family) -> NATFamily {
    match family {
        Family::V4 => NATFamily::IP,
        Family::V6 => NATFamily::IP6,
    }
}

fn flags(random: bool) -> Option<HashSet<NATFlag>> {
    random.then(|| HashSet::from([NATFlag::FullyRandom]))
}
