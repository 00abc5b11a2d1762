//! Fail-safe ports: what no policy of a host endpoint closes, so that nobody locks himself, the datastore or the routing out.
//!
//! In come two lists of ports, out comes whether a flow is to or from one of them. The peer is whoever is at the other end: the source of what
//! comes in, the destination of what goes out. Defaults, syntax and the questions of the raw layer are upstream's (`felix/config`, parameters
//! `FailsafeInboundHostPorts` and `FailsafeOutboundHostPorts`; `felix/rules/static.go`).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;

use super::Cidr;
use crate::flow::Flow;
use crate::resource::PolicyType;

/// One fail-safe port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(clippy::exhaustive_structs, reason = "whoever renders it must know every part")]
pub struct FailsafePort {
    /// Protocol number: TCP, UDP or SCTP.
    pub protocol: u8,
    /// Peers that it is open to; none means all of both families.
    pub net: Option<Cidr>,
    /// Port.
    pub port: u16,
}

/// The fail-safe ports of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "there are two directions")]
pub struct Failsafes {
    /// Ports of this host that peers may reach.
    pub inbound: Vec<FailsafePort>,
    /// Ports of peers that this host may reach.
    pub outbound: Vec<FailsafePort>,
}

/// Text that is no fail-safe port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not a fail-safe port: give PORT, PROTOCOL:PORT or PROTOCOL:CIDR:PORT, where the protocol is tcp, udp or sctp, the port a \
     number from 0 to 65535, and a CIDR of IPv6 stands in brackets"
)]
pub struct FailsafeError(String);

impl FailsafePort {
    /// A port that is open to everybody.
    pub const fn any(protocol: u8, port: u16) -> Self {
        Self { protocol, net: None, port }
    }

    fn is(&self, protocol: u8, peer: IpAddr, port: u16) -> bool {
        self.protocol == protocol && self.port == port && self.net.is_none_or(|net| net.contains(peer))
    }
}

impl Failsafes {
    /// No fail-safe port at all.
    pub const NONE: Self = Self { inbound: Vec::new(), outbound: Vec::new() };

    /// A list as settings write it: ports with commas between, or `none`. What sets nothing (empty text) is the caller's to leave at the
    /// default.
    ///
    /// # Errors
    ///
    /// When an entry is no fail-safe port.
    pub fn parse_list(text: &str) -> Result<Vec<FailsafePort>, FailsafeError> {
        if text.trim().eq_ignore_ascii_case("none") {
            return Ok(Vec::new());
        }
        text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(str::parse).collect()
    }

    /// Whether no policy has a say about a flow to (ingress) or from (egress) the host: it goes to a fail-safe port, or finds neighbours
    /// (upstream polices that, too: then no fail-safe port is reached over IPv6 once the host forgot its neighbours).
    pub fn admits(&self, direction: PolicyType, flow: &Flow) -> bool {
        if flow.is_icmpv6(&DISCOVERY) {
            return true;
        }
        let (ports, peer) = match direction {
            PolicyType::Ingress => (&self.inbound, flow.source),
            PolicyType::Egress => (&self.outbound, flow.destination),
        };
        ports.iter().any(|port| port.is(flow.protocol, peer, flow.destination_port))
    }

    /// Whether a packet comes from a fail-safe port of the other direction: before connection tracking, where nothing tells an answer from
    /// something new, it must not be told to go untracked.
    pub fn admits_reply(&self, direction: PolicyType, flow: &Flow) -> bool {
        let (ports, peer) = match direction {
            PolicyType::Ingress => (&self.outbound, flow.source),
            PolicyType::Egress => (&self.inbound, flow.destination),
        };
        ports.iter().any(|port| port.is(flow.protocol, peer, flow.source_port))
    }
}

/// Types of ICMPv6 by which a host finds routers and neighbours (RFC 4861) and tells which groups it listens to, without which a switch
/// does not hand it their questions (RFC 2710, RFC 3810). None of them is routed.
/// Linux tracks no connection of these (`nf_conntrack_icmpv6`), nor of redirects (137), which can begin none.
pub(crate) const DISCOVERY: [u8; 8] = [130, 131, 132, 133, 134, 135, 136, 143];

/// Those that a workload may send to its host whatever its policy: without them it finds no IPv6 gateway. Upstream's list: a workload is no
/// router (134), and its newer reports of groups (143) are left to policy.
pub(crate) const WORKLOAD_DISCOVERY: [u8; 6] = [130, 131, 132, 133, 135, 136];

/// Upstream's defaults: SSH, DHCP, DNS, BGP, etcd (both generations), Typha and the Kubernetes API.
impl Default for Failsafes {
    fn default() -> Self {
        let open =
            |ports: &[(u8, u16)]| ports.iter().map(|&(protocol, port)| FailsafePort::any(protocol, port)).collect();
        let (tcp, udp) = (6, 17);
        Self {
            inbound: open(&[
                (tcp, 22),
                (udp, 68),
                (tcp, 179),
                (tcp, 2379),
                (tcp, 2380),
                (tcp, 5473),
                (tcp, 6443),
                (tcp, 6666),
                (tcp, 6667),
            ]),
            outbound: open(&[
                (udp, 53),
                (udp, 67),
                (tcp, 179),
                (tcp, 2379),
                (tcp, 2380),
                (tcp, 5473),
                (tcp, 6443),
                (tcp, 6666),
                (tcp, 6667),
            ]),
        }
    }
}

/// Protocols by the names that settings give them, in any case. SCTP is ours: upstream's settings refuse it, its API offers it.
const PROTOCOLS: [(&str, u8); 3] = [("tcp", 6), ("udp", 17), ("sctp", 132)];

impl FromStr for FailsafePort {
    type Err = FailsafeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (rest, port) = text.rsplit_once(':').unwrap_or(("tcp", text));
            let (protocol, net) = match rest.split_once(':') {
                Some((protocol, net)) => (protocol, Some(parse_net(net)?)),
                None => (rest, None),
            };
            let (_, protocol) = PROTOCOLS.iter().find(|(name, _)| name.eq_ignore_ascii_case(protocol))?;
            // The number parser would take a sign.
            let port = Some(port).filter(|port| port.bytes().all(|byte| byte.is_ascii_digit()))?;
            Some(Self { protocol: *protocol, net, port: port.parse().ok()? })
        };
        read().ok_or_else(|| FailsafeError(text.into()))
    }
}

/// A prefix or address; one of IPv6, and no other, in brackets.
fn parse_net(text: &str) -> Option<Cidr> {
    match text.strip_prefix('[') {
        Some(bracketed) => bracketed.strip_suffix(']').filter(|net| net.contains(':')),
        None => Some(text).filter(|net| !net.contains(':')),
    }?
    .parse()
    .ok()
}

impl fmt::Display for FailsafePort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match PROTOCOLS.iter().find(|(_, number)| *number == self.protocol) {
            Some((name, _)) => f.write_str(name)?,
            None => self.protocol.fmt(f)?,
        }
        match self.net {
            Some(net) if net.address().is_ipv6() => write!(f, ":[{net}]")?,
            Some(net) => write!(f, ":{net}")?,
            None => {}
        }
        write!(f, ":{}", self.port)
    }
}

super::json_as_text!(FailsafePort);

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    fn flow(source: &str, source_port: u16, destination: &str, destination_port: u16) -> Flow {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        Flow { source, destination, protocol: 6, source_port, destination_port, icmp: None }
    }

    #[test]
    fn reads_every_form() {
        for (text, out) in [
            ("1", "tcp:1"),
            ("UDP:2", "udp:2"),
            ("sctp:0", "sctp:0"),
            ("tcp:10.0.0.7/8:3", "tcp:10.0.0.0/8:3"),
            ("tcp:10.0.0.7:3", "tcp:10.0.0.7/32:3"),
            ("udp:[fd00::1/64]:65535", "udp:[fd00::/64]:65535"),
        ] {
            let port: FailsafePort = text.parse().unwrap();
            assert_eq!(port.to_string(), out);
            assert_eq!(out.parse(), Ok(port));
        }
        for bad in [
            "",
            "tcp",
            "tcp:",
            "tcp:+1",
            "tcp:65536",
            "foo:1",
            "tcp:0.0.0.0/0:1:bar",
            "tcp:fd00::/8:1",
            "tcp:[10.0.0.0/8]:1",
            "tcp:[fd00::/8:1",
            "[::/0]:1",
        ] {
            assert!(bad.parse::<FailsafePort>().is_err(), "{bad}");
        }
    }

    #[test]
    fn reads_lists() {
        assert_eq!(
            Failsafes::parse_list("1, udp:2,,"),
            Ok(alloc::vec![FailsafePort::any(6, 1), FailsafePort::any(17, 2)])
        );
        assert_eq!(Failsafes::parse_list("None"), Ok(Vec::new()));
        assert_eq!(Failsafes::parse_list("1,none").unwrap_err().to_string().split(' ').next(), Some("\"none\""));
    }

    #[test]
    fn the_peer_is_at_the_other_end() {
        let list = |text| Failsafes::parse_list(text).unwrap();
        let failsafes = Failsafes { inbound: list("tcp:192.0.2.0/24:22"), outbound: list("tcp:[fd00::/64]:53") };
        let (near, far) = ("198.51.100.1", "192.0.2.1");
        assert!(failsafes.admits(PolicyType::Ingress, &flow(far, 4000, near, 22)));
        assert!(!failsafes.admits(PolicyType::Ingress, &flow(near, 4000, far, 22)));
        assert!(!failsafes.admits(PolicyType::Ingress, &flow(far, 22, near, 4000)));
        assert!(!failsafes.admits(PolicyType::Egress, &flow(near, 4000, far, 22)));
        assert!(failsafes.admits_reply(PolicyType::Egress, &flow(near, 22, far, 4000)));
        assert!(!failsafes.admits_reply(PolicyType::Egress, &flow(far, 22, near, 4000)));
        assert!(!failsafes.admits_reply(PolicyType::Ingress, &flow(far, 22, near, 4000)));
        assert!(failsafes.admits(PolicyType::Egress, &flow("fd00:1::1", 4000, "fd00::1", 53)));
        assert!(failsafes.admits_reply(PolicyType::Ingress, &flow("fd00::1", 53, "fd00:1::1", 4000)));
        assert!(!failsafes.admits_reply(PolicyType::Ingress, &flow(far, 53, near, 4000)));
        let udp = Flow { protocol: 17, ..flow(far, 4000, near, 22) };
        assert!(!failsafes.admits(PolicyType::Ingress, &udp));
    }

    #[test]
    fn neighbors_are_found_whatever_the_ports() {
        let icmp =
            |protocol, icmp_type| Flow { protocol, icmp: Some((icmp_type, 0)), ..flow("fd00::1", 0, "fd00::2", 0) };
        for direction in [PolicyType::Ingress, PolicyType::Egress] {
            let admitted = |protocol| {
                (0..=255)
                    .filter(|number| Failsafes::NONE.admits(direction, &icmp(protocol, *number)))
                    .collect::<Vec<u8>>()
            };
            assert_eq!(admitted(58), [130, 131, 132, 133, 134, 135, 136, 143]);
            assert_eq!(admitted(1), [0; 0]);
        }
    }

    #[test]
    fn defaults_keep_ssh_and_name_service() {
        let failsafes = Failsafes::default();
        let text = |ports: &[FailsafePort]| ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        assert_eq!(
            text(&failsafes.inbound),
            "tcp:22,udp:68,tcp:179,tcp:2379,tcp:2380,tcp:5473,tcp:6443,tcp:6666,tcp:6667"
        );
        assert_eq!(
            text(&failsafes.outbound),
            "udp:53,udp:67,tcp:179,tcp:2379,tcp:2380,tcp:5473,tcp:6443,tcp:6666,tcp:6667"
        );
    }
}
