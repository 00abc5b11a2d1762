//! The machines: one Ethernet segment, hosts on it, and empty pods.
//!
//! The segment is a bridge in a namespace of its own; each host is a namespace whose `eth0` is a veth born with its peer as a port
//! of that bridge. A pod is a namespace with nothing but loopback: its network comes from the CNI plugin.

use std::fs;
use std::os::fd::AsFd;

use calico_core::net::InterfaceName;
use calico_dataplane::netns::{LinkInfo, Netns, Request, RouteSocket, VethEnd, named};

use crate::error::{Context, LabError};
use crate::plan::{HostId, Plan, PodId, SEGMENT_ADDRESS, SEGMENT_LENGTH};

/// Makes a namespace of a name, known as the network's own.
pub(crate) type Make<'a> = dyn FnMut(&str) -> Result<Netns, LabError> + 'a;

/// Makes segment and hosts.
pub(crate) fn build(plan: &Plan, make: &mut Make<'_>) -> Result<(), LabError> {
    let segment = make(&plan.segment_netns())?;
    let mut ports = RouteSocket::open_in(&segment).context(|| "cannot configure the segment".into())?;
    let bridge = interface("segment")?;
    let made = ports.carry_out(&[Request::bridge(bridge)]);
    made.context(|| "cannot make the segment's bridge".into())?;
    let bridge = find(&mut ports, bridge)?;
    let lo = find(&mut ports, interface("lo")?)?;
    let address = Request::address(bridge.index, SEGMENT_ADDRESS.into(), SEGMENT_LENGTH);
    let addressed = ports.carry_out(&[Request::up(lo.index), address]);
    addressed.context(|| "cannot give the segment an address".into())?;
    for host in plan.hosts() {
        let netns = make(&plan.host_netns(host))?;
        build_host(host, &netns, &mut ports, bridge.index)?;
    }
    Ok(())
}

fn build_host(host: HostId, netns: &Netns, ports: &mut RouteSocket, bridge: u32) -> Result<(), LabError> {
    let failed = || format!("cannot connect host {host} with the segment");
    let port = interface(&host.to_string())?;
    let eth0 = interface("eth0")?;
    let near = VethEnd { name: port, netns: None, mac: None };
    let far = VethEnd { name: eth0, netns: Some(netns.as_fd()), mac: None };
    ports.carry_out(&[Request::veth(near, far, 0)]).context(failed)?;
    let port = find(ports, port)?;
    ports.carry_out(&[Request::enslave(port.index, bridge), Request::up(port.index)]).context(failed)?;

    let mut inside = RouteSocket::open_in(netns).context(failed)?;
    let (lo, eth0) = (find(&mut inside, interface("lo")?)?, find(&mut inside, eth0)?);
    let address = Request::address(eth0.index, host.address().into(), SEGMENT_LENGTH);
    inside.carry_out(&[Request::up(lo.index), Request::up(eth0.index), address]).context(failed)
}

/// Makes an empty pod.
pub(crate) fn build_pod(plan: &Plan, pod: PodId, make: &mut Make<'_>) -> Result<(), LabError> {
    let netns = make(&plan.pod_netns(pod))?;
    let mut inside = RouteSocket::open_in(&netns).context(|| format!("cannot configure pod {pod}"))?;
    let lo = find(&mut inside, interface("lo")?)?;
    inside.carry_out(&[Request::up(lo.index)]).context(|| format!("cannot configure pod {pod}"))?;
    // Lets sockets of type ICMP be opened; the kernel's default admits no group at all.
    let allow = || fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
    let allowed = netns.run(allow).context(|| format!("cannot enter pod {pod}"))?;
    allowed.context(|| format!("cannot allow ICMP sockets in pod {pod}"))
}

/// The namespace called `name`, of a network that should be running.
pub(crate) fn open(name: &str) -> Result<Netns, LabError> {
    named::open(name).context(|| format!("cannot open network namespace {name}"))
}

fn find(routes: &mut RouteSocket, name: InterfaceName) -> Result<LinkInfo, LabError> {
    let found = routes.link(name).context(|| format!("cannot look for interface {name}"))?;
    found.ok_or_else(|| LabError::new(format!("interface {name} is not there")))
}

fn interface(name: &str) -> Result<InterfaceName, LabError> {
    name.parse().context(|| format!("cannot name an interface {name}"))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use super::*;
    use crate::args::DatastoreKind;
    use crate::plan::PodId;

    #[test]
    fn hosts_reach_each_other_and_the_segment_and_pods_reach_nobody() {
        let name = format!("topo{}", std::process::id());
        let plan = Plan { name, hosts: 2, pods: 1, datastore: DatastoreKind::Sqlite };
        let mut make = |name: &str| named::create(name).context(|| name.into());
        let pod = PodId { host: HostId(1), number: 1 };
        build(&plan, &mut make).unwrap();
        build_pod(&plan, pod, &mut make).unwrap();
        let pod = open(&plan.pod_netns(pod)).unwrap();
        let connect = |from: &Netns, to: std::net::Ipv4Addr| {
            from.run(|| TcpStream::connect_timeout(&(to, 80).into(), Duration::from_secs(30)))
        };
        let hosts = [HostId(1), HostId(2)].map(|host| open(&plan.host_netns(host)).unwrap());
        let _h2 = hosts[1].run(|| TcpListener::bind((HostId(2).address(), 80))).unwrap().unwrap();
        let segment = open(&plan.segment_netns()).unwrap();
        let _segment = segment.run(|| TcpListener::bind((SEGMENT_ADDRESS, 80))).unwrap().unwrap();
        let outcomes = [
            connect(&hosts[0], HostId(2).address()).unwrap().is_ok(),
            connect(&hosts[0], SEGMENT_ADDRESS).unwrap().is_ok(),
            connect(&pod, SEGMENT_ADDRESS).unwrap().is_ok(),
        ];
        plan.all_netns().iter().for_each(|name| named::delete(name).unwrap());
        assert_eq!(outcomes, [true, true, false]);
    }
}
