//! The table language as text, close to the syntax of `nft`: for people, golden files and traces. Nothing parses it.

use alloc::string::String;
use core::fmt::{self, Display, Formatter};
use core::net::IpAddr;

use super::{
    BaseChain, Chain, ChainType, CtState, Delta, Element, ElementData, Field, FieldType, Hook, Match, Neighbor,
    RateLimit, Reject, Route, RouteClass, RouteTarget, Rule, SetDecl, SetKind, SetName, Shaper, Shaping, Statement,
    TcpFlags, Value, Verdict, key_family,
};
use crate::net::{Family, PortRange};

impl Display for Field {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IifName => "iifname",
            Self::OifName => "oifname",
            Self::SrcAddr(Family::V4) => "ip saddr",
            Self::SrcAddr(Family::V6) => "ip6 saddr",
            Self::DstAddr(Family::V4) => "ip daddr",
            Self::DstAddr(Family::V6) => "ip6 daddr",
            Self::L4Proto => "meta l4proto",
            Self::SrcPort => "th sport",
            Self::DstPort => "th dport",
            Self::ArpSender => "arp saddr ip",
        })
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(name) => write!(f, "\"{name}\""),
            Self::Addr(address) => address.fmt(f),
            Self::Proto(1) => f.write_str("icmp"),
            Self::Proto(4) => f.write_str("ipip"),
            Self::Proto(6) => f.write_str("tcp"),
            Self::Proto(17) => f.write_str("udp"),
            Self::Proto(58) => f.write_str("ipv6-icmp"),
            Self::Proto(132) => f.write_str("sctp"),
            Self::Proto(number) => number.fmt(f),
            Self::Port(port) => port.fmt(f),
        }
    }
}

impl Display for CtState {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = [
            (Self::INVALID, "invalid"),
            (Self::ESTABLISHED, "established"),
            (Self::RELATED, "related"),
            (Self::NEW, "new"),
            (Self::UNTRACKED, "untracked"),
        ];
        let set = names.into_iter().filter(|(state, _)| self.bits() & state.bits() != 0);
        joined(f, ",", set.map(|(_, name)| name))
    }
}

impl Display for TcpFlags {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let names = [(Self::FIN, "fin"), (Self::SYN, "syn"), (Self::RST, "rst"), (Self::ACK, "ack")];
        let set = names.into_iter().filter(|(flag, _)| self.bits() & flag.bits() != 0);
        joined(f, " | ", set.map(|(_, name)| name))
    }
}

impl Display for Match {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let not = |negated: &bool| if *negated { "!= " } else { "" };
        match self {
            Self::Family(Family::V4) => f.write_str("meta nfproto ipv4"),
            Self::Family(Family::V6) => f.write_str("meta nfproto ipv6"),
            Self::Equal { field, value, negated } => write!(f, "{field} {}{value}", not(negated)),
            Self::InterfacePrefix { field, prefix, negated } => write!(f, "{field} {}\"{prefix}*\"", not(negated)),
            Self::InCidr { field, cidr, negated } => write!(f, "{field} {}{cidr}", not(negated)),
            Self::InCidrs { field, cidrs, negated } => {
                write!(f, "{field} {}{{ ", not(negated))?;
                joined(f, ", ", cidrs.iter())?;
                f.write_str(" }")
            }
            Self::InPorts { field, ranges, negated } => {
                write!(f, "{field} {}", not(negated))?;
                ports(f, ranges)
            }
            Self::InSet { key, set, negated } => {
                joined(f, " . ", key.iter())?;
                write!(f, " {}@{set}", not(negated))
            }
            Self::Icmp { family, icmp_type, code, negated } => icmp(f, *family, *icmp_type, *code, *negated),
            Self::Tcp { mask, value, negated } => {
                write!(f, "tcp flags & ({mask}) {} {value}", if *negated { "!=" } else { "==" })
            }
            Self::CtState(states) => write!(f, "ct state {states}"),
            Self::Translated { negated } => write!(f, "ct status & dnat {} 0", if *negated { "==" } else { "!=" }),
            Self::Local { field, negated } => local(f, *field, *negated),
            Self::ArpReply => f.write_str("arp operation reply"),
            Self::Mark { mask, value, negated } => {
                write!(f, "meta mark & {mask:#010x} {} {value:#010x}", if *negated { "!=" } else { "==" })
            }
        }
    }
}

fn port_text(range: PortRange) -> String {
    match (range.min(), range.max()) {
        (min, max) if min == max => alloc::format!("{min}"),
        (min, max) => alloc::format!("{min}-{max}"),
    }
}

fn ports(f: &mut Formatter<'_>, ranges: &[PortRange]) -> fmt::Result {
    match ranges {
        [only] => f.write_str(&port_text(*only)),
        _ => {
            f.write_str("{ ")?;
            joined(f, ", ", ranges.iter().copied().map(port_text))?;
            f.write_str(" }")
        }
    }
}

/// `fib` looks at the address of whichever family.
fn local(f: &mut Formatter<'_>, field: Field, negated: bool) -> fmt::Result {
    if let Some(family) = key_family(&[field]) {
        write!(f, "{} ", Match::Family(family))?;
    }
    let side = if matches!(field, Field::SrcAddr(_)) { "saddr" } else { "daddr" };
    write!(f, "fib {side} type {}local", if negated { "!= " } else { "" })
}

fn icmp(f: &mut Formatter<'_>, family: Family, icmp_type: u8, code: Option<u8>, negated: bool) -> fmt::Result {
    let name = match family {
        Family::V4 => "icmp",
        Family::V6 => "icmpv6",
    };
    match (code, negated) {
        (None, false) => write!(f, "{name} type {icmp_type}"),
        (None, true) => write!(f, "{name} type != {icmp_type}"),
        (Some(code), false) => write!(f, "{name} type {icmp_type} {name} code {code}"),
        (Some(code), true) => write!(f, "{name} type . {name} code != {{ {icmp_type} . {code} }}"),
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counter => f.write_str("counter"),
            Self::Log { prefix } => write!(f, "log prefix {prefix:?} level info"),
            Self::LogGroup { group, prefix, snaplen } => {
                write!(f, "log prefix {prefix:?} group {group} snaplen {snaplen}")
            }
            Self::Limit(limit) => limit.fmt(f),
            Self::ConnectionsOver(count) => write!(f, "ct count over {count}"),
            Self::NoTrack => f.write_str("notrack"),
            Self::SetDscp { family: Family::V4, value } => write!(f, "ip dscp set {value}"),
            Self::SetDscp { family: Family::V6, value } => write!(f, "ip6 dscp set {value}"),
            Self::SetMark { mask, value } => write!(f, "meta mark set meta mark & {:#010x} | {value:#010x}", !mask),
        }
    }
}

impl Display for RateLimit {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let unit = match self.seconds {
            1 => "second",
            60 => "minute",
            3600 => "hour",
            _ => "day",
        };
        let over = if self.over { "over " } else { "" };
        write!(f, "limit rate {over}{}/{unit} burst {} packets", self.rate, self.burst)
    }
}

fn family_word(family: Option<Family>) -> &'static str {
    match family {
        Some(Family::V4) => "ip ",
        Some(Family::V6) => "ip6 ",
        None => "",
    }
}

fn masquerade(f: &mut Formatter<'_>, ports: Option<PortRange>, random: bool) -> fmt::Result {
    f.write_str("masquerade")?;
    if let Some(ports) = ports {
        write!(f, " to :{}", port_text(ports))?;
    }
    randomly(f, random)
}

fn snat(f: &mut Formatter<'_>, address: IpAddr, ports: Option<PortRange>, random: bool) -> fmt::Result {
    write!(f, "snat {}to ", family_word(Some(Family::of(address))))?;
    match (address, ports) {
        (_, None) => address.fmt(f)?,
        (IpAddr::V4(address), Some(ports)) => write!(f, "{address}:{}", port_text(ports))?,
        (IpAddr::V6(address), Some(ports)) => write!(f, "[{address}]:{}", port_text(ports))?,
    }
    randomly(f, random)
}

fn randomly(f: &mut Formatter<'_>, random: bool) -> fmt::Result {
    if random { f.write_str(" fully-random") } else { Ok(()) }
}

/// `kind` is `snat` or `dnat`.
fn translation_by_map(f: &mut Formatter<'_>, kind: &str, key: &[Field], map: &SetName) -> fmt::Result {
    write!(f, "{kind} {}to ", family_word(key_family(key)))?;
    joined(f, " . ", key.iter())?;
    write!(f, " map @{map}")
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accept => f.write_str("accept"),
            Self::Drop => f.write_str("drop"),
            Self::Return => f.write_str("return"),
            Self::Jump(chain) => write!(f, "jump {chain}"),
            Self::Goto(chain) => write!(f, "goto {chain}"),
            Self::Lookup { key, map } => {
                joined(f, " . ", key.iter())?;
                write!(f, " vmap @{map}")
            }
            Self::ByPort { field, verdicts } => {
                write!(f, "{field} vmap {{ ")?;
                joined(
                    f,
                    ", ",
                    verdicts.iter().map(|(range, verdict)| alloc::format!("{} : {verdict}", port_text(*range))),
                )?;
                f.write_str(" }")
            }
            Self::Reject(Reject::TcpReset) => f.write_str("reject with tcp reset"),
            Self::Reject(Reject::PortUnreachable) => f.write_str("reject"),
            Self::Masquerade { ports, random } => masquerade(f, *ports, *random),
            Self::Snat { address, ports, random } => snat(f, *address, *ports, *random),
            Self::SnatLookup { key, map } => translation_by_map(f, "snat", key, map),
            Self::DnatLookup { key, map } => translation_by_map(f, "dnat", key, map),
        }
    }
}

impl Display for Rule {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let matches = self.matches.iter().map(|part| part as &dyn Display);
        let statements = self.statements.iter().map(|part| part as &dyn Display);
        let verdict = self.verdict.iter().map(|part| part as &dyn Display);
        joined(f, " ", matches.chain(statements).chain(verdict))?;
        match &self.comment {
            Some(comment) => write!(f, " comment {comment:?}"),
            None => Ok(()),
        }
    }
}

impl Display for BaseChain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let chain_type = match self.chain_type {
            ChainType::Filter => "filter",
            ChainType::Nat => "nat",
            ChainType::Route => "route",
        };
        let hook = match self.hook {
            Hook::Prerouting => "prerouting",
            Hook::Input => "input",
            Hook::Forward => "forward",
            Hook::Output => "output",
            Hook::Postrouting => "postrouting",
        };
        write!(f, "type {chain_type} hook {hook} priority {}; policy accept;", self.priority)
    }
}

impl Display for Chain {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}chain {} {{", self.name.table().prefix(), self.name)?;
        if let Some(base) = &self.base {
            writeln!(f, "\t{base}")?;
        }
        self.rules.iter().try_for_each(|rule| writeln!(f, "\t{rule}"))?;
        f.write_str("}")
    }
}

impl Display for FieldType {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Interface => "ifname",
            Self::Addr(Family::V4) => "ipv4_addr",
            Self::Addr(Family::V6) => "ipv6_addr",
            Self::Proto => "inet_proto",
            Self::Port => "inet_service",
        })
    }
}

impl Display for SetDecl {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (word, value, flags) = match self.kind {
            SetKind::Hash => ("set", "", ""),
            SetKind::Interval => ("set", "", " flags interval;"),
            SetKind::VerdictMap => ("map", " : verdict", ""),
            SetKind::AddressMap(Family::V4) => ("map", " : ipv4_addr", ""),
            SetKind::AddressMap(Family::V6) => ("map", " : ipv6_addr", ""),
        };
        write!(f, "{}{word} {} {{ type ", self.name.table().prefix(), self.name)?;
        joined(f, " . ", self.key.iter())?;
        write!(f, "{value};{flags} }}")
    }
}

impl Display for Element {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        joined(f, " . ", self.key.iter())?;
        match &self.data {
            Some(ElementData::Verdict(verdict)) => write!(f, " : {verdict}"),
            Some(ElementData::Addr(address)) => write!(f, " : {address}"),
            None => Ok(()),
        }
    }
}

impl Display for Route {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.key.dest)?;
        match &self.target {
            RouteTarget::Interface(interface) => write!(f, "dev {interface} scope link")?,
            RouteTarget::Via(gateway) => write!(f, "via {gateway}")?,
            RouteTarget::ViaMany(gateways) => {
                for (index, gateway) in gateways.iter().enumerate() {
                    write!(f, "{}via {gateway}", if index == 0 { "" } else { " or " })?;
                }
            }
            RouteTarget::ViaOnlink { gateway, interface } => write!(f, "via {gateway} dev {interface} onlink")?,
            RouteTarget::Blackhole => f.write_str("blackhole")?,
        }
        let class = match self.class {
            RouteClass::LocalWorkload => "workload",
            RouteClass::LocalBlock => "block",
            RouteClass::Bgp => "bgp",
        };
        write!(f, " metric {} table {} class {class}", self.key.metric, self.key.table.value())
    }
}

impl Display for Neighbor {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} dev {} lladdr {}", self.address, self.interface, self.mac)
    }
}

impl Display for Shaper {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.source {
            None => write!(f, "dev {}", self.device),
            Some(source) => write!(f, "dev {} from {source}", self.device),
        }
    }
}

impl Display for Shaping {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} rate {} burst {}", self.shaper, self.rate, self.burst)?;
        match self.peak {
            None => Ok(()),
            Some(peak) => write!(f, " peak {} burst {}", peak.rate, peak.burst),
        }
    }
}

/// One change a line, in the order in which it takes effect.
impl Display for Delta {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.sets_added.iter().try_for_each(|decl| writeln!(f, "add {decl}"))?;
        self.chains_set.iter().try_for_each(|chain| writeln!(f, "set {chain}"))?;
        for change in &self.elements {
            let (table, set) = (change.set.table().prefix(), &change.set);
            change.removed.iter().try_for_each(|element| writeln!(f, "delete {table}element @{set} {element}"))?;
            change.added.iter().try_for_each(|element| writeln!(f, "add {table}element @{set} {element}"))?;
        }
        self.chains_removed.iter().try_for_each(|name| writeln!(f, "delete {}chain {name}", name.table().prefix()))?;
        self.sets_removed.iter().try_for_each(|name| writeln!(f, "delete {}set {name}", name.table().prefix()))?;
        self.routes_set.iter().try_for_each(|route| writeln!(f, "set route {route}"))?;
        for key in &self.routes_removed {
            writeln!(f, "delete route {} metric {} table {}", key.dest, key.metric, key.table.value())?;
        }
        self.neighbors_set.iter().try_for_each(|neighbor| writeln!(f, "set neighbour {neighbor}"))?;
        self.neighbors_removed.iter().try_for_each(|neighbor| writeln!(f, "delete neighbour {neighbor}"))?;
        for setting in &self.settings {
            writeln!(f, "set {} = {}", setting.path.replace("{}", setting.interface.as_str()), setting.value)?;
        }
        self.settings_dropped.iter().try_for_each(|interface| writeln!(f, "forget settings of {interface}"))?;
        self.shapings_set.iter().try_for_each(|shaping| writeln!(f, "set limit {shaping}"))?;
        self.shapings_removed.iter().try_for_each(|shaper| writeln!(f, "delete limit {shaper}"))?;
        self.connections_cut.iter().try_for_each(|address| writeln!(f, "end connections of {address}"))
    }
}

fn joined<T: Display>(f: &mut Formatter<'_>, separator: &str, items: impl Iterator<Item = T>) -> fmt::Result {
    for (position, item) in items.enumerate() {
        if position > 0 {
            f.write_str(separator)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}
