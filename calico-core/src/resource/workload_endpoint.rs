//! `WorkloadEndpoint`: one interface of a workload.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::formats::ADDRESS;
use super::limit::Limit;
use super::model::model;
use crate::net::{Cidr, Dscp, InterfaceName, Mac, Protocol};
use crate::text::{Text, Words};

/// Specification of a `WorkloadEndpoint`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct WorkloadEndpointSpec {
    /// Orchestrator that made it: `cni`, `k8s`, `libnetwork`, `openstack` …
    #[serde(skip_serializing_if = "str::is_empty")]
    pub orchestrator: Text,
    /// Workload name, for orchestrators other than `k8s`, `cni` and `libnetwork`.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub workload: Text,
    /// Host it runs on.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub node: Text,
    /// Container id, from the CNI runtime.
    #[serde(rename = "containerID", skip_serializing_if = "str::is_empty")]
    pub container_id: Text,
    /// Pod name.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub pod: Text,
    /// Interface name inside the workload.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub endpoint: Text,
    /// Kubernetes service account.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub service_account_name: Text,
    /// Addresses, as host prefixes.
    #[serde(rename = "ipNetworks", skip_serializing_if = "Vec::is_empty")]
    pub ip_networks: Vec<Cidr>,
    /// IPv4 gateway as the workload sees it.
    #[serde(rename = "ipv4Gateway", skip_serializing_if = "Option::is_none")]
    pub ipv4_gateway: Option<IpAddr>,
    /// IPv6 gateway as the workload sees it.
    #[serde(rename = "ipv6Gateway", skip_serializing_if = "Option::is_none")]
    pub ipv6_gateway: Option<IpAddr>,
    /// Profiles, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Text>,
    /// Host-side interface. Required: an object without it does not decode as usable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface_name: Option<InterfaceName>,
    /// Workload-side Ethernet address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mac: Option<Mac>,
    /// Named ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<EndpointPort>,
    /// Source prefixes the workload may use although they are not its own.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allow_spoofed_source_prefixes: Vec<Cidr>,
    /// Floating addresses.
    #[serde(rename = "ipNATs", skip_serializing_if = "Vec::is_empty")]
    pub ip_nats: Vec<IpNat>,
    /// Limits on traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qos_controls: Option<Box<QosControls>>,
}

impl WorkloadEndpointSpec {
    /// The addresses of [`ip_networks`](Self::ip_networks) that can be a workload's: what counts of a stored endpoint. The others stand for
    /// the host itself, for many, or for nobody, and a route or a rule for one would concern traffic that is none of the workload's.
    pub fn addresses(&self) -> impl Iterator<Item = Cidr> + Clone {
        self.ip_networks.iter().copied().filter(|net| nobodys(net.address()).is_none())
    }

    /// See [`Resource::share`](super::Resource::share).
    pub(super) fn share(&mut self, words: &mut Words) {
        let own = [&mut self.orchestrator, &mut self.node, &mut self.endpoint, &mut self.service_account_name];
        let ports = self.ports.iter_mut().map(|port| &mut port.name);
        own.into_iter().chain(&mut self.profiles).chain(ports).for_each(|text| words.share(text));
    }
}

/// Why an address is never a workload's; upstream takes them all. Those from 240.0.0.0 on, but the last, are in use: hosts route them, and
/// clouds give them to pods. So are those of 169.254.0.0/16.
pub fn nobodys(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) if address.is_broadcast() => Some("is the broadcast address"),
        IpAddr::V6(address) if address.is_unicast_link_local() => {
            Some("holds on one link only: nothing is routed to it")
        }
        IpAddr::V6(address) if address.to_ipv4_mapped().is_some() => Some("is an IPv4 address: write it as such"),
        address if address.is_loopback() => Some("is the host's own (loopback)"),
        address if address.is_multicast() => Some("is a multicast address"),
        address if address.is_unspecified() => Some("is no address"),
        _ => None,
    }
}

model! {
    /// An address by which a workload is reached from outside.
    pub struct IpNat {
        /// The workload's own address.
        "internalIP" internal_ip: String where [Limit::Text(&ADDRESS)];
        /// The address outside.
        "externalIP" external_ip: String where [Limit::Text(&ADDRESS)];
    }
}

/// Between which numbers a value of [`QosControls`] lies. Manifests are held to it; stored data counts as the nearest within.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QosRange {
    pub(crate) least: i64,
    pub(crate) most: i64,
}

impl QosRange {
    pub(crate) const BANDWIDTH: Self = Self { least: 1_000, most: 1_000_000_000_000_000 };
    pub(crate) const BURST: Self = Self { least: 1_000, most: 34_359_738_360 };
    pub(crate) const PEAK_RATE: Self = Self { least: 1_010, most: 1_010_000_000_000_000 };
    pub(crate) const MIN_BURST: Self = Self { least: 1_000, most: 100_000_000 };

    const fn limit(self) -> Limit {
        Limit::Range(self.least, self.most)
    }
}

const BANDWIDTH: Limit = QosRange::BANDWIDTH.limit();
const BURST: Limit = QosRange::BURST.limit();
const PEAK_RATE: Limit = QosRange::PEAK_RATE.limit();
const MIN_BURST: Limit = QosRange::MIN_BURST.limit();
const PACKETS: Limit = Limit::Range(1, 10_000);
const CONNECTIONS: Limit = Limit::Range(1, 4_294_967_295);

model! {
    /// Limits on a workload's traffic; what is absent is not limited.
    pub struct QosControls {
        /// Bits a second to the workload.
        "ingressBandwidth" ingress_bandwidth: Option<i64> where [BANDWIDTH];
        /// Bits to the workload at once.
        "ingressBurst" ingress_burst: Option<i64> where [BURST];
        /// Bits a second to the workload within a burst.
        "ingressPeakrate" ingress_peakrate: Option<i64> where [PEAK_RATE];
        /// Bytes to the workload that the peak rate is measured in.
        "ingressMinburst" ingress_minburst: Option<i64> where [MIN_BURST];
        /// Bits a second from the workload.
        "egressBandwidth" egress_bandwidth: Option<i64> where [BANDWIDTH];
        /// Bits from the workload at once.
        "egressBurst" egress_burst: Option<i64> where [BURST];
        /// Bits a second from the workload within a burst.
        "egressPeakrate" egress_peakrate: Option<i64> where [PEAK_RATE];
        /// Bytes from the workload that the peak rate is measured in.
        "egressMinburst" egress_minburst: Option<i64> where [MIN_BURST];
        /// Packets a second to the workload.
        "ingressPacketRate" ingress_packet_rate: Option<i64> where [PACKETS];
        /// Packets to the workload at once.
        "ingressPacketBurst" ingress_packet_burst: Option<i64> where [PACKETS];
        /// Packets a second from the workload.
        "egressPacketRate" egress_packet_rate: Option<i64> where [PACKETS];
        /// Packets from the workload at once.
        "egressPacketBurst" egress_packet_burst: Option<i64> where [PACKETS];
        /// Connections to the workload.
        "ingressMaxConnections" ingress_max_connections: Option<i64> where [CONNECTIONS];
        /// Connections from the workload.
        "egressMaxConnections" egress_max_connections: Option<i64> where [CONNECTIONS];
        /// Mark of the workload's packets.
        "dscp" dscp: Option<Dscp>;
    }
}

impl QosControls {
    /// Fields that mean nothing for want of others, and why: they are taken, as by upstream, and do nothing.
    pub fn without_effect(&self) -> Vec<(&'static str, &'static str)> {
        let is_given = |value: Option<i64>| value.is_some_and(|number| number > 0);
        let is_peak = |peak: Option<i64>, rate: Option<i64>| is_given(rate) && peak > rate;
        let (no_bandwidth, no_rate) = ("means nothing without a bandwidth", "means nothing without a packet rate");
        let no_peak = "means nothing unless it is above the bandwidth";
        let no_peak_rate = "means nothing without a peak rate above the bandwidth";
        let (ingress, egress) = (self.ingress_bandwidth, self.egress_bandwidth);
        let cases = [
            ("ingressBurst", self.ingress_burst, is_given(ingress), no_bandwidth),
            ("egressBurst", self.egress_burst, is_given(egress), no_bandwidth),
            ("ingressPeakrate", self.ingress_peakrate, is_peak(self.ingress_peakrate, ingress), no_peak),
            ("egressPeakrate", self.egress_peakrate, is_peak(self.egress_peakrate, egress), no_peak),
            ("ingressMinburst", self.ingress_minburst, is_peak(self.ingress_peakrate, ingress), no_peak_rate),
            ("egressMinburst", self.egress_minburst, is_peak(self.egress_peakrate, egress), no_peak_rate),
            ("ingressPacketBurst", self.ingress_packet_burst, is_given(self.ingress_packet_rate), no_rate),
            ("egressPacketBurst", self.egress_packet_burst, is_given(self.egress_packet_rate), no_rate),
        ];
        let idle = cases.into_iter().filter(|(_, value, works, _)| is_given(*value) && !works);
        idle.map(|(field, _, _, reason)| (field, reason)).collect()
    }
}

/// A port that rules may name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals; it is the API's own shape")]
pub struct EndpointPort {
    /// Name; may be empty only with a host port.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Text,
    /// Protocol, one that has ports.
    pub protocol: Protocol,
    /// Port number.
    pub port: u16,
    /// Port of the host that is forwarded to it; 0 for none.
    #[serde(default)]
    pub host_port: u16,
    /// Address of the host that is forwarded; empty for all.
    #[serde(default, rename = "hostIP")]
    pub host_ip: Text,
}

impl Eq for IpNat {}
impl Eq for QosControls {}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn a_limit_beside_another_needs_it() {
        let mut controls = QosControls {
            ingress_burst: Some(1_000),
            ingress_peakrate: Some(2_000),
            ingress_minburst: Some(1_000),
            egress_packet_burst: Some(5),
            egress_burst: Some(0),
            ..QosControls::default()
        };
        let idle =
            |controls: &QosControls| controls.without_effect().into_iter().map(|(field, _)| field).collect::<Vec<_>>();
        assert_eq!(idle(&controls), ["ingressBurst", "ingressPeakrate", "ingressMinburst", "egressPacketBurst"]);
        controls.ingress_bandwidth = Some(2_000);
        controls.egress_packet_rate = Some(1);
        assert_eq!(idle(&controls), ["ingressPeakrate", "ingressMinburst"]);
        controls.ingress_bandwidth = Some(1_999);
        assert!(idle(&controls).is_empty());
    }

    #[test]
    fn addresses_are_those_that_can_be_a_workloads() {
        let nobodys = [
            "127.0.0.1/32",
            "127.255.0.1/32",
            "224.0.0.5/32",
            "239.255.255.255/32",
            "0.0.0.0/32",
            "255.255.255.255/32",
            "::1/128",
            "::/128",
            "ff02::1/128",
            "fe80::1/128",
            "::ffff:10.0.0.1/128",
        ];
        let workloads = ["10.0.0.1/32", "240.0.0.1/32", "169.254.7.7/32", "fd00::1/128", "2001:db8::1/128"];
        let nets = nobodys.iter().chain(&workloads).map(|text| text.parse().unwrap());
        let spec = WorkloadEndpointSpec { ip_networks: nets.collect(), ..WorkloadEndpointSpec::default() };
        let expected: Vec<Cidr> = workloads.iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(spec.addresses().collect::<Vec<_>>(), expected);
    }
}
