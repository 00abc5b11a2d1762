//! Finding this host's address among its interfaces' (upstream `node/pkg/lifecycle/startup/autodetection`).

use std::net::IpAddr;

use calico_core::net::{Cidr, Family};
use calico_core::resource::NodeAddress;
use nix::sys::socket::SockaddrStorage;

/// Interfaces that never hold the host's own address: other programs' bridges, ours, and loopback. Upstream anchors these at the start.
const EXCLUDED: [&str; 19] = [
    "docker",
    "cbr",
    "dummy",
    "podman",
    "virbr",
    "lxcbr",
    "veth",
    "br-",
    "cali",
    "tunl",
    "flannel",
    "kube-ipvs",
    "cni",
    "vxlan.calico",
    "vxlan-v6.calico",
    "wireguard.cali",
    "wg-v6.cali",
    "nodelocaldns",
    "lo",
];

/// An address on an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "built with literals")]
pub struct InterfaceAddress {
    /// Interface.
    pub interface: String,
    /// Address and subnet.
    pub address: NodeAddress,
}

/// How to choose.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Method {
    /// The first usable address of an interface that is not excluded.
    FirstFound,
    /// The first usable address of an interface with one of these names; a trailing `*` stands for any rest.
    Interface(Vec<String>),
    /// The first usable address inside one of these.
    Cidr(Vec<Cidr>),
}

/// Text that is no method.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no way to find an address: give first-found, interface=NAME[,NAME…] or cidr=CIDR[,CIDR…]")]
pub struct MethodError(String);

impl std::str::FromStr for Method {
    type Err = MethodError;

    fn from_str(text: &str) -> Result<Self, MethodError> {
        let error = || MethodError(text.into());
        match text.split_once('=') {
            None if text == "first-found" => Ok(Self::FirstFound),
            Some(("interface", names)) if !names.is_empty() => {
                Ok(Self::Interface(names.split(',').map(|name| name.trim().into()).collect()))
            }
            Some(("cidr", cidrs)) => {
                let cidrs: Result<Vec<Cidr>, _> = cidrs.split(',').map(|cidr| cidr.trim().parse()).collect();
                cidrs.map(Self::Cidr).map_err(|_| error())
            }
            _ => Err(error()),
        }
    }
}

impl Method {
    /// Chooses one of a family from the host's addresses, which come in the kernel's order.
    pub fn choose(&self, family: Family, addresses: &[InterfaceAddress]) -> Option<NodeAddress> {
        let mut of_family = addresses.iter().filter(|candidate| Family::of(candidate.address.address()) == family);
        of_family.find(|candidate| self.admits(candidate)).map(|candidate| candidate.address)
    }

    fn admits(&self, candidate: &InterfaceAddress) -> bool {
        let address = candidate.address.address();
        usable(address)
            && match self {
                Self::FirstFound => !EXCLUDED.iter().any(|prefix| candidate.interface.starts_with(prefix)),
                Self::Interface(names) => names.iter().any(|name| matches_name(name, &candidate.interface)),
                Self::Cidr(cidrs) => cidrs.iter().any(|cidr| cidr.contains(address)),
            }
    }
}

/// Go's `IsGlobalUnicast`, which upstream asks: private ranges qualify.
const fn usable(address: IpAddr) -> bool {
    let on_one_link = match address {
        IpAddr::V4(address) => address.is_link_local() || address.is_broadcast(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(on_one_link || address.is_loopback() || address.is_multicast() || address.is_unspecified())
}

fn matches_name(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*').or_else(|| pattern.strip_suffix(".*")) {
        Some(prefix) => name.starts_with(prefix.trim_end_matches('.')),
        None => name == pattern,
    }
}

/// The addresses of this network namespace, in the kernel's order.
pub fn interface_addresses() -> std::io::Result<Vec<InterfaceAddress>> {
    let mut found = Vec::new();
    for entry in nix::ifaddrs::getifaddrs()? {
        let [address, mask] = [&entry.address, &entry.netmask].map(|socket| socket.as_ref().and_then(address_of));
        let (Some(address), Some(mask)) = (address, mask) else { continue };
        let length = match mask {
            IpAddr::V4(mask) => mask.to_bits().leading_ones(),
            IpAddr::V6(mask) => mask.to_bits().leading_ones(),
        };
        if let Some(address) = u8::try_from(length).ok().and_then(|length| NodeAddress::new(address, length)) {
            found.push(InterfaceAddress { interface: entry.interface_name, address });
        }
    }
    Ok(found)
}

fn address_of(socket: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = || socket.as_sockaddr_in().map(|socket| socket.ip().into());
    v4().or_else(|| socket.as_sockaddr_in6().map(|socket| socket.ip().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> Vec<InterfaceAddress> {
        let address = |(interface, address): (&str, &str)| InterfaceAddress {
            interface: interface.into(),
            address: address.parse().unwrap(),
        };
        let v4 =
            [("lo", "127.0.0.1/8"), ("docker0", "172.17.0.1/16"), ("eth0", "10.1.0.5/24"), ("eth1", "192.0.2.7/25")];
        let v6 = [("lo", "::1/128"), ("eth0", "fe80::5/64"), ("eth0", "fd00::5/64"), ("eth1", "2001:db8::7/64")];
        v4.into_iter().chain(v6).map(address).collect()
    }

    fn choose_of(family: Family, method: &str) -> Option<String> {
        method.parse::<Method>().unwrap().choose(family, &host()).map(|address| address.to_string())
    }

    fn choose(method: &str) -> Option<String> {
        choose_of(Family::V4, method)
    }

    #[test]
    fn ipv6_is_chosen_by_itself_and_never_link_local() {
        let choose = |method| choose_of(Family::V6, method);
        assert_eq!(choose("first-found").as_deref(), Some("fd00::5/64"));
        assert_eq!(choose("interface=eth1").as_deref(), Some("2001:db8::7/64"));
        assert_eq!(choose("cidr=2001:db8::/32").as_deref(), Some("2001:db8::7/64"));
        for none in ["interface=lo", "interface=docker0", "cidr=fe80::/10", "cidr=10.1.0.0/16"] {
            assert_eq!(choose(none), None, "{none}");
        }
    }

    #[test]
    fn methods_choose_as_upstream() {
        assert_eq!(choose("first-found").as_deref(), Some("10.1.0.5/24"));
        assert_eq!(choose("interface=eth1").as_deref(), Some("192.0.2.7/25"));
        assert_eq!(choose("interface=ens*,eth.*").as_deref(), Some("10.1.0.5/24"));
        assert_eq!(choose("cidr=192.0.2.0/24").as_deref(), Some("192.0.2.7/25"));
        assert_eq!(choose("interface=docker0").as_deref(), Some("172.17.0.1/16"));
        assert_eq!(choose("cidr=203.0.113.0/24"), None);
        assert_eq!(choose("interface=lo"), None, "loopback is never the host's address");
    }

    #[test]
    fn odd_methods_are_refused() {
        for bad in ["", "first", "interface=", "cidr=x", "can-reach=8.8.8.8"] {
            assert!(bad.parse::<Method>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_kernel_lists_loopback() {
        let addresses = interface_addresses().unwrap();
        for own in ["127.0.0.1/8", "::1/128"] {
            assert!(addresses.iter().any(|found| found.interface == "lo" && found.address.to_string() == own), "{own}");
        }
    }
}
