//! What a running network looks like.

use std::net::{IpAddr, Ipv4Addr};

use comfy_table::Table;
use serde::Serialize;

use crate::agent;
use crate::error::LabError;
use crate::plan::Plan;
use crate::report;
use crate::state::{Record, StateDir};

/// A network, as `status --json` and `up --json` print it.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    name: String,
    state_dir: String,
    ok: bool,
    hosts: Vec<HostStatus>,
    pods: Vec<PodStatus>,
}

#[derive(Debug, Serialize)]
struct HostStatus {
    name: String,
    netns: String,
    address: Ipv4Addr,
    pid: i32,
    alive: bool,
    datastore: Option<String>,
    dataplane_in_sync: bool,
    endpoints: usize,
    policies: usize,
    bgp_established: usize,
    bgp_peers: usize,
    bgp_routes: usize,
    problems: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PodStatus {
    name: String,
    netns: String,
    address: IpAddr,
    namespace: &'static str,
    role: &'static str,
    cni_add_ms: f64,
}

impl Status {
    /// Asks every agent.
    pub(crate) async fn look(state: &StateDir, record: &Record) -> Self {
        let mut hosts = Vec::new();
        for agent in &record.agents {
            hosts.push(look_at_host(state, &record.plan, *agent).await);
        }
        let pods = record.pods.iter().map(|attached| PodStatus {
            name: attached.pod.to_string(),
            netns: record.plan.pod_netns(attached.pod),
            address: attached.address,
            namespace: attached.pod.role().namespace(),
            role: attached.pod.role().label(),
            cni_add_ms: attached.add_ms,
        });
        Self {
            name: record.plan.name.clone(),
            state_dir: state.path().display().to_string(),
            ok: hosts.iter().all(|host| host.problems.is_empty()),
            pods: pods.collect(),
            hosts,
        }
    }

    /// Whether every agent is well.
    pub(crate) const fn is_ok(&self) -> bool {
        self.ok
    }

    /// Prints it.
    pub(crate) fn print(&self, json: bool) -> Result<(), LabError> {
        if json {
            return report::print_json(self);
        }
        let mut text = format!("network {:?}, state in {}\n", self.name, self.state_dir);
        text.push_str(&format!("{}\n{}\n", self.host_table(), self.pod_table()));
        for host in &self.hosts {
            host.problems.iter().for_each(|problem| text.push_str(&format!("{}: {problem}\n", host.name)));
        }
        report::print(&text)
    }

    fn host_table(&self) -> Table {
        let mut table =
            report::table(["HOST", "NETNS", "ADDRESS", "PID", "DATASTORE", "KERNEL", "ENDPOINTS", "POLICIES", "BGP"]);
        for host in &self.hosts {
            table.add_row([
                host.name.clone(),
                host.netns.clone(),
                host.address.to_string(),
                host.pid.to_string(),
                host.datastore.clone().unwrap_or_else(|| "-".into()),
                if host.dataplane_in_sync { "in sync" } else { "not in sync" }.into(),
                host.endpoints.to_string(),
                host.policies.to_string(),
                format!("{}/{} up, {} routes", host.bgp_established, host.bgp_peers, host.bgp_routes),
            ]);
        }
        table
    }

    fn pod_table(&self) -> Table {
        let mut table = report::table(["POD", "NETNS", "ADDRESS", "NAMESPACE", "ROLE", "CNI ADD"]);
        for pod in &self.pods {
            table.add_row([
                pod.name.clone(),
                pod.netns.clone(),
                pod.address.to_string(),
                pod.namespace.into(),
                pod.role.into(),
                format!("{:.1} ms", pod.cni_add_ms),
            ]);
        }
        table
    }
}

async fn look_at_host(state: &StateDir, plan: &Plan, agent: crate::state::Agent) -> HostStatus {
    let mut host = HostStatus {
        name: agent.host.to_string(),
        netns: plan.host_netns(agent.host),
        address: agent.host.address(),
        pid: agent.process.pid,
        alive: agent.process.is_alive(),
        datastore: None,
        dataplane_in_sync: false,
        endpoints: 0,
        policies: 0,
        bgp_established: 0,
        bgp_peers: 0,
        bgp_routes: 0,
        problems: Vec::new(),
    };
    if !host.alive {
        host.problems.push(format!("calico-node has ended: see {}", state.agent_log(agent.host).display()));
        return host;
    }
    match agent::status(state, agent.host).await {
        Err(error) => host.problems.push(error.chain()),
        Ok(status) => {
            host.problems.extend(agent::missing(&status, usize::from(plan.hosts)));
            host.problems.extend(status.diagnostics);
            host.datastore =
                serde_json::to_value(status.datastore).ok().and_then(|word| word.as_str().map(str::to_owned));
            host.dataplane_in_sync = status.dataplane_in_sync;
            host.endpoints = status.endpoints;
            host.policies = status.policies;
            host.bgp_peers = status.bgp.len();
            host.bgp_established = status.bgp.iter().filter(|peer| peer.state == "Established").count();
            host.bgp_routes = status.bgp_routes;
        }
    }
    host
}
