//! Settings under `/proc/sys/net`, of the namespace of the calling thread.

use std::fs;
use std::io;

use calico_core::net::InterfaceName;

use super::WorkloadError;

/// What a container's interface needs before it gets up.
pub(super) fn prepare_container(
    interface: InterfaceName,
    v4: bool,
    v6: bool,
    ip_forwarding: bool,
) -> Result<(), WorkloadError> {
    let forwarding = if ip_forwarding { "1" } else { "0" };
    if v4 {
        write("net/ipv4/ip_forward", forwarding)?;
    }
    if v6 {
        for scope in ["all", "default", "lo"] {
            write(&format!("net/ipv6/conf/{scope}/disable_ipv6"), "0")?;
        }
        // Nobody else is on the link: detection would only delay the first packet by a second.
        write(&format!("net/ipv6/conf/{interface}/accept_dad"), "0")?;
        write("net/ipv6/conf/all/forwarding", forwarding)?;
    }
    Ok(())
}

/// What a workload's host interface needs before it gets up; the agent keeps it so. Reverse path filtering is inherited from the
/// host's `default`, which is the value that the agent writes too.
pub(super) fn prepare_host(interface: InterfaceName, v4: bool, v6: bool) -> Result<(), WorkloadError> {
    if v4 {
        let conf = |name: &str| format!("net/ipv4/conf/{interface}/{name}");
        write(&conf("route_localnet"), "1")?;
        // Without it the kernel waits up to 0.8 s before a proxied answer. Some sandboxes hide the file.
        let _ = write(&format!("net/ipv4/neigh/{interface}/proxy_delay"), "0");
        write(&conf("proxy_arp"), "1")?;
        write(&conf("forwarding"), "1")?;
    }
    let conf = |name: &str| format!("net/ipv6/conf/{interface}/{name}");
    if v6 {
        write(&conf("accept_dad"), "0")?;
        write(&conf("disable_ipv6"), "0")?;
        write(&conf("proxy_ndp"), "1")?;
        write(&conf("forwarding"), "1")?;
    }
    // A workload must not configure the host by router advertisements. Absent where the kernel has no IPv6.
    write_if_present(&conf("accept_ra"), "0")
}

fn write(path: &str, value: &str) -> Result<(), WorkloadError> {
    let path = format!("/proc/sys/{path}");
    fs::write(&path, value).map_err(|source| WorkloadError::Sysctl { path, value: value.into(), source })
}

fn write_if_present(path: &str, value: &str) -> Result<(), WorkloadError> {
    match write(path, value) {
        Err(WorkloadError::Sysctl { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
