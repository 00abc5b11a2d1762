//! What sort of traffic is asked about: protocol, ports, ICMP.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use calico_core::flow::Flow;
use calico_core::net::{Family, Protocol};
use calico_core::verdict::Service;
use clap::Args;

/// Source port of a flow that names none: the first of those that systems choose themselves.
pub(super) const SOURCE_PORT: u16 = 49_152;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// The traffic's options.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TrafficArgs {
    /// tcp, udp, sctp, icmp, icmpv6, udplite, or a number [default: tcp where a port is given]
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol)]
    protocol: Option<u8>,
    /// Destination port; may stand behind --to as well: shop/db:5432
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Source port [default: 49152]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    source_port: Option<u16>,
    /// Type of ICMP [default: echo request]
    #[arg(long, value_name = "TYPE")]
    icmp_type: Option<u8>,
    /// Code of ICMP, with a type
    #[arg(long, value_name = "CODE")]
    icmp_code: Option<u8>,
    /// 4 or 6 [default: IPv4, where both ends have both]
    #[arg(long, value_name = "VERSION", value_parser = clap::value_parser!(u8).range(..))]
    ip_version: Option<u8>,
}

/// Traffic without its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Traffic {
    /// A protocol with ports.
    Ports { protocol: u8, source: u16, destination: u16 },
    /// ICMP of whichever family the addresses are, unless one was named. Without a type it is an echo request.
    Icmp { family: Option<Family>, kind: Option<(u8, u8)> },
    /// Any other protocol.
    Bare { protocol: u8 },
}

pub(super) fn protocol(text: &str) -> Result<u8, String> {
    let named = match text.to_ascii_lowercase().as_str() {
        "tcp" => Some(6),
        "udp" => Some(17),
        "sctp" => Some(132),
        "icmp" => Some(ICMP),
        "icmpv6" | "icmp6" => Some(ICMPV6),
        "udplite" => Some(136),
        _ => None,
    };
    let number = || text.parse::<Protocol>().map(Protocol::number).map_err(|error| error.to_string());
    named.map_or_else(number, Ok)
}

impl TrafficArgs {
    /// The traffic that is meant, with a port that stood elsewhere.
    pub(super) fn traffic(&self, port: Option<u16>) -> Result<Traffic, String> {
        if let (Some(one), Some(other)) = (self.port, port)
            && one != other
        {
            return Err(format!("--to names port {other} and --port {one}: which is meant?"));
        }
        let port = self.port.or(port);
        if self.icmp_code.is_some() && self.icmp_type.is_none() {
            return Err("--icmp-code means nothing without --icmp-type".into());
        }
        let is_icmp = self.icmp_type.is_some();
        let protocol = match (self.protocol, port) {
            (Some(protocol), _) => protocol,
            (None, Some(_)) if is_icmp => return Err("ICMP has no ports: leave out --port or --icmp-type".into()),
            (None, Some(_)) => 6,
            (None, None) if is_icmp => return Ok(Traffic::Icmp { family: None, kind: self.kind() }),
            (None, None) => {
                return Err("what traffic? give --port 5432 (TCP), --protocol udp --port 53, or --protocol icmp".into());
            }
        };
        self.of_protocol(protocol, port)
    }

    fn of_protocol(&self, protocol: u8, port: Option<u16>) -> Result<Traffic, String> {
        let name = name(protocol);
        let has_ports = has_ports(protocol);
        if self.icmp_type.is_some() && !matches!(protocol, ICMP | ICMPV6) {
            return Err(format!(
                "--icmp-type is of ICMP, and the protocol is {name}: leave it out, or give --protocol icmp"
            ));
        }
        match (port.or(self.source_port), port) {
            (_, None) if has_ports => Err(format!("{name} needs a port: --port 443")),
            (Some(_), _) if !has_ports => Err(format!("{name} has no ports: leave out --port, or give --protocol tcp")),
            (_, Some(destination)) => {
                let source = self.source_port.unwrap_or(SOURCE_PORT);
                Ok(Traffic::Ports { protocol, source, destination })
            }
            _ => Ok(match protocol {
                ICMP => Traffic::Icmp { family: Some(Family::V4), kind: self.kind() },
                ICMPV6 => Traffic::Icmp { family: Some(Family::V6), kind: self.kind() },
                _ => Traffic::Bare { protocol },
            }),
        }
    }

    fn kind(&self) -> Option<(u8, u8)> {
        self.icmp_type.map(|kind| (kind, self.icmp_code.unwrap_or_default()))
    }

    /// The family that was asked for.
    pub(super) fn family(&self) -> Result<Option<Family>, String> {
        match self.ip_version {
            None => Ok(None),
            Some(4) => Ok(Some(Family::V4)),
            Some(6) => Ok(Some(Family::V6)),
            Some(other) => Err(format!("there is no IP version {other}: give --ip-version 4 or 6")),
        }
    }
}

impl Traffic {
    /// The only family that it is of.
    pub(super) const fn family(self) -> Option<Family> {
        match self {
            Self::Icmp { family, .. } => family,
            _ => None,
        }
    }

    /// Between two addresses of one family.
    pub(super) fn flow(self, source: IpAddr, destination: IpAddr) -> Flow {
        let bare = |protocol| Flow { source, destination, protocol, source_port: 0, destination_port: 0, icmp: None };
        match self {
            Self::Ports { protocol, source, destination } => {
                Flow { source_port: source, destination_port: destination, ..bare(protocol) }
            }
            Self::Icmp { kind, .. } => {
                let (protocol, echo) = match Family::of(source) {
                    Family::V4 => (ICMP, 8),
                    Family::V6 => (ICMPV6, 128),
                };
                Flow { icmp: Some(kind.unwrap_or((echo, 0))), ..bare(protocol) }
            }
            Self::Bare { protocol } => bare(protocol),
        }
    }

    /// The same for the matrix; none of a family that it is not of.
    pub(super) fn service(self, family: Family) -> Option<Service> {
        if self.family().is_some_and(|own| own != family) {
            return None;
        }
        let any = match family {
            Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let Flow { protocol, source_port, destination_port, icmp, .. } = self.flow(any, any);
        Some(Service { protocol, source_port, destination_port, icmp })
    }

    /// `tcp/80`, as in a list of ports; ICMP and others by name.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (name, port) = text.split_once('/').map_or((text, None), |(name, port)| (name, Some(port)));
        if port.is_none() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(format!("{text:?} is a port or a protocol: write tcp/{text}, udp/{text} …"));
        }
        let number = protocol(name)?;
        let args = TrafficArgs::default();
        let port = port.map(|port| match port.parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(format!("{port:?} is no port: give a number from 1 to 65535, as in tcp/80")),
        });
        match port.transpose()? {
            None if has_ports(number) => Err(format!("{text} needs a port: {name}/80")),
            port => args.of_protocol(number, port).map(|traffic| match traffic {
                Self::Icmp { kind, .. } => Self::Icmp { family: None, kind },
                other => other,
            }),
        }
    }

    /// Name of the protocol, in lower case as users type it.
    pub(super) fn protocol(self) -> String {
        match self {
            Self::Ports { protocol, .. } | Self::Bare { protocol } => name(protocol).to_ascii_lowercase(),
            Self::Icmp { .. } => "icmp".into(),
        }
    }

    /// Destination port.
    pub(super) const fn port(self) -> Option<u16> {
        match self {
            Self::Ports { destination, .. } => Some(destination),
            _ => None,
        }
    }
}

/// What some traffic is to the matrix.
#[derive(Debug, Default)]
pub(super) struct Services {
    pub(super) list: Vec<Service>,
    known: HashMap<Service, usize>,
    /// For each traffic the place in the list over IPv4 and over IPv6.
    places: Vec<[Option<usize>; 2]>,
}

impl Services {
    pub(super) fn of(traffic: impl IntoIterator<Item = Traffic>) -> Self {
        let mut services = Self::default();
        for one in traffic {
            let places =
                [Family::V4, Family::V6].map(|family| one.service(family).map(|service| services.place(service)));
            services.places.push(places);
        }
        services
    }

    fn place(&mut self, service: Service) -> usize {
        *self.known.entry(service).or_insert_with(|| {
            self.list.push(service);
            self.list.len() - 1
        })
    }

    pub(super) fn get(&self, traffic: usize, family: Family) -> Option<usize> {
        let [v4, v6] = self.places.get(traffic)?;
        match family {
            Family::V4 => *v4,
            Family::V6 => *v6,
        }
    }
}

/// `tcp/80`, as users type it.
impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.protocol())?;
        self.port().map_or(Ok(()), |port| write!(f, "/{port}"))
    }
}

pub(super) const fn has_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 132)
}

/// As people write it.
pub(super) fn name(protocol: u8) -> String {
    match protocol {
        6 => "TCP".into(),
        17 => "UDP".into(),
        132 => "SCTP".into(),
        ICMP => "ICMP".into(),
        ICMPV6 => "ICMPv6".into(),
        136 => "UDPLite".into(),
        other => format!("protocol {other}"),
    }
}

/// A flow's protocol and what belongs to it, for people.
pub(super) fn described(flow: &Flow) -> String {
    let protocol = name(flow.protocol);
    match flow.icmp {
        Some((kind, code)) => format!("{protocol} type {kind}, code {code}"),
        None if has_ports(flow.protocol) => format!("{protocol} port {}", flow.destination_port),
        None => protocol,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(args: TrafficArgs, port: Option<u16>) -> String {
        match args.traffic(port) {
            Ok(traffic) => format!("{traffic:?}"),
            Err(message) => message,
        }
    }

    #[test]
    fn combinations_that_make_no_sense_say_what_does() {
        let args = |protocol, port, icmp_type, icmp_code| TrafficArgs {
            protocol,
            port,
            icmp_type,
            icmp_code,
            ..TrafficArgs::default()
        };
        for (given, at, expected) in [
            (args(None, None, None, None), None, "what traffic?"),
            (args(None, Some(80), None, None), Some(81), "which is meant?"),
            (args(None, None, None, Some(1)), None, "means nothing without --icmp-type"),
            (args(None, Some(80), Some(8), None), None, "ICMP has no ports"),
            (args(Some(6), Some(80), Some(8), None), None, "--icmp-type is of ICMP, and the protocol is TCP"),
            (args(Some(17), None, None, None), None, "UDP needs a port"),
            (args(Some(1), Some(80), None, None), None, "ICMP has no ports"),
            (args(Some(47), None, None, None), Some(1), "protocol 47 has no ports"),
            (args(None, None, None, None), Some(80), "Ports { protocol: 6, source: 49152, destination: 80 }"),
            (args(None, None, Some(3), Some(1)), None, "Icmp { family: None, kind: Some((3, 1)) }"),
            (args(Some(58), None, None, None), None, "Icmp { family: Some(V6), kind: None }"),
            (args(Some(47), None, None, None), None, "Bare { protocol: 47 }"),
        ] {
            let told = told(given.clone(), at);
            assert!(told.contains(expected), "{given:?}: {told}");
        }
    }

    #[test]
    fn lists_of_ports() {
        let parsed = |text: &str| Traffic::parse(text).map_or_else(|message| message, |traffic| traffic.to_string());
        for (text, expected) in [
            ("tcp/80", "tcp/80"),
            ("UDP/53", "udp/53"),
            ("icmp", "icmp"),
            ("47", "\"47\" is a port or a protocol: write tcp/47, udp/47 …"),
            ("tcp", "tcp needs a port: tcp/80"),
            ("icmp/8", "ICMP has no ports: leave out --port, or give --protocol tcp"),
            ("tcp/0", "\"0\" is no port: give a number from 1 to 65535, as in tcp/80"),
        ] {
            assert_eq!(parsed(text), expected);
        }
        assert!(parsed("tpc/80").contains("is not a protocol"));
    }
}
