//! Names of sessions and of functions.
//!
//! Upstream's tools tell sessions by their names: kind, then the address with `_` for its separators. BIRD takes names of up to 64 characters; in single
//! quotes they may have `-`, `.` and `:`, too.

use core::net::IpAddr;

use calico_core::bgp::{PeerId, PeerKind, RouteDirection};
use calico_core::net::{Cidr, Family};

/// Longest name that is written in full, so that what functions are called beside it fits.
const LONGEST: usize = 44;
/// What is left of longer ones.
const STEM: usize = 27;

/// The name of a peer's session.
pub(super) fn session(kind: PeerKind, id: PeerId) -> String {
    let name = format!("{}_{}", word(kind), address(id.address));
    match id.interface {
        None => name,
        Some(interface) if interface.as_str().bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            format!("{name}_{interface}")
        }
        // Two names may look alike once their other characters are replaced.
        Some(interface) => format!("{name}_{:08x}", fold(hash(interface.as_str()))),
    }
}

/// The name of the sessions of a range.
pub(super) fn range(kind: PeerKind, range: Cidr) -> String {
    format!("Range_{}_{}_{}", word(kind), address(range.address()), range.length())
}

/// The name of a filter's function.
pub(super) fn function(filter: &str, occurrence: usize, direction: RouteDirection, family: Family) -> String {
    let direction = match direction {
        RouteDirection::Import => "import",
        RouteDirection::Export => "export",
    };
    let family = match family {
        Family::V4 => "V4",
        Family::V6 => "V6",
    };
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let stem = if occurrence == 0 && filter.len() <= LONGEST && filter.chars().all(allowed) {
        filter.to_owned()
    } else {
        let start: String = filter.chars().take(STEM).map(|c| if allowed(c) { c } else { '_' }).collect();
        format!("{start}_{:016X}", hash(filter).wrapping_add(occurrence as u64))
    };
    format!("'bgp_{stem}_{direction}Filter{family}'")
}

const fn word(kind: PeerKind) -> &'static str {
    match kind {
        PeerKind::Mesh => "Mesh",
        PeerKind::Node => "Node",
        PeerKind::Global => "Global",
        PeerKind::LocalWorkload => "Local_Workload",
        _ => "Peer",
    }
}

fn address(address: IpAddr) -> String {
    address.to_string().replace(['.', ':'], "_")
}

/// FNV-1a: names must not change with the compiler's version.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

const fn fold(hash: u64) -> u64 {
    (hash >> 32) ^ (hash & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BIRD's `SYM_MAX_LEN`.
    const MOST: usize = 64;

    fn id(address: &str, interface: Option<&str>) -> PeerId {
        PeerId { address: address.parse().unwrap(), interface: interface.map(|name| name.parse().unwrap()) }
    }

    #[test]
    fn sessions_are_called_as_upstreams() {
        assert_eq!(session(PeerKind::Mesh, id("10.0.0.2", None)), "Mesh_10_0_0_2");
        assert_eq!(session(PeerKind::Global, id("fd00::1", None)), "Global_fd00__1");
        assert_eq!(session(PeerKind::LocalWorkload, id("10.0.0.2", None)), "Local_Workload_10_0_0_2");
        assert_eq!(session(PeerKind::Node, id("fe80::1", Some("eth0"))), "Node_fe80__1_eth0");
        let (dot, dash) = (id("fe80::1", Some("eth0.1")), id("fe80::1", Some("eth0-1")));
        assert_ne!(session(PeerKind::Node, dot), session(PeerKind::Node, dash));
    }

    #[test]
    fn no_name_is_longer_than_bird_takes() {
        let long = id("2001:db8:1111:2222:3333:4444:5555:6666", Some("abcdefghijkl.12"));
        assert!(session(PeerKind::LocalWorkload, long).len() <= MOST);
        let range_of_long = Cidr::new(long.address, 127).unwrap();
        assert!(range(PeerKind::LocalWorkload, range_of_long).len() <= MOST);
        for length in [1, 44, 45, 46, 63, 253, 5000] {
            let name = function(&"é".repeat(length), 0, RouteDirection::Import, Family::V6);
            assert!(name.len() - 2 <= MOST && name.is_ascii(), "{name}");
            let name = function(&"x".repeat(length), 0, RouteDirection::Export, Family::V6);
            assert!(name.len() - 2 <= MOST, "{name}");
        }
    }

    #[test]
    fn functions_of_different_filters_differ() {
        let name = |filter: &str, occurrence| function(filter, occurrence, RouteDirection::Import, Family::V4);
        assert_eq!(name("a.b-c", 0), "'bgp_a.b-c_importFilterV4'");
        assert_ne!(name("a.b-c", 0), name("a.b-c", 1));
        assert_ne!(name("a b", 0), name("a'b", 0));
        let long = "x".repeat(60);
        assert_ne!(name(&format!("{long}1"), 0), name(&format!("{long}2"), 0));
    }
}
