//! What the process may do, asked before anything is opened: the kernel itself says only "Operation not permitted".
//!
//! It is for the message alone: where the kernel does not tell, the agent starts and meets the refusal.

use tracing::warn;

/// Something that the process must be allowed to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capability {
    name: &'static str,
    bit: u32,
    needed_for: &'static str,
}

const NET_ADMIN: Capability =
    Capability { name: "NET_ADMIN", bit: 12, needed_for: "nf_tables, routes and interface settings" };
const NET_BIND_SERVICE: Capability = Capability { name: "NET_BIND_SERVICE", bit: 10, needed_for: "the port of BGP" };

/// The process may not do what nothing works without.
#[derive(Debug, thiserror::Error)]
#[error("{}", advice(.0))]
pub(crate) struct Forbidden(Capability);

fn advice(Capability { name, needed_for, .. }: &Capability) -> String {
    format!(
        "this process lacks the capability {name}, needed for {needed_for}: start it as root, or give it the capability \
         (systemd: AmbientCapabilities=CAP_{name}; a container: add {name})"
    )
}

/// Ends what could not work without its capabilities; BGP goes on trying, and is served on `bgp_port`, if at all.
pub(crate) fn require(bgp_port: Option<u16>) -> Result<(), Forbidden> {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    // The kernel's default, should it not tell.
    let first_free = read("/proc/sys/net/ipv4/ip_unprivileged_port_start").trim().parse().unwrap_or(1024);
    let binds_low_port = bgp_port.is_some_and(|port| port < first_free);
    for capability in missing(&read("/proc/self/status"), binds_low_port) {
        if capability == NET_ADMIN {
            return Err(Forbidden(capability));
        }
        warn!("{}", advice(&capability));
    }
    Ok(())
}

fn missing(status: &str, binds_low_port: bool) -> Vec<Capability> {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(effective) = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()) else {
        return Vec::new();
    };
    let needed = [NET_ADMIN].into_iter().chain(binds_low_port.then_some(NET_BIND_SERVICE));
    needed.filter(|capability| effective & (1 << capability.bit) == 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let missing = |effective: &str, binds_low_port| {
            missing(&format!("CapPrm:\tffffffffffffffff\nCapEff:\t{effective}\nCapBnd:\t0\n"), binds_low_port)
        };
        assert_eq!(missing("000001ffffffffff", true), [], "root");
        assert_eq!(missing("0000000000000000", true), [NET_ADMIN, NET_BIND_SERVICE]);
        assert_eq!(missing("0000000000000400", true), [NET_ADMIN]);
        assert_eq!(missing("0000000000001000", true), [NET_BIND_SERVICE]);
        assert_eq!(missing("0000000000001000", false), [], "BGP is off, or its port is everybody's");
        assert_eq!(missing("many", true), [], "not told");
        let text = Forbidden(NET_ADMIN).to_string();
        assert!(text.contains("lacks the capability NET_ADMIN") && text.contains("as root"), "{text}");
    }
}
