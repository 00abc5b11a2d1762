//! What a running network looks like.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::Duration;

use calico_cmd::output;
use calico_dataplane::netns::named;
use comfy_table::Table;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::agent;
use crate::error::LabError;
use crate::plan::HostId;
use crate::process::ProcessId;
use crate::record::{Agent, Record};
use crate::report;
use crate::state::StateDir;

/// A network, as `status --json` and `up --json` print it.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    name: String,
    state_dir: String,
    ok: bool,
    problems: Vec<String>,
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
            hosts.push(look_at_host(state, record, *agent).await);
        }
        let ended = record.servers.iter().filter(|server| !server.is_alive());
        let problems: Vec<String> =
            ended.map(|server| format!("the datastore's server, process {}, has ended", server.pid)).collect();
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
            ok: problems.is_empty() && hosts.iter().all(|host| host.problems.is_empty()),
            problems,
            pods: pods.collect(),
            hosts,
        }
    }

    /// Whether everything is as it should be.
    pub(crate) const fn exit_code(&self) -> ExitCode {
        if self.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Prints it.
    pub(crate) fn print(&self, json: bool) -> Result<(), LabError> {
        if json {
            return report::print_json(self);
        }
        let mut text = format!("network {:?}, state in {}\n", self.name, self.state_dir);
        text.push_str(&format!("{}\n{}\n", self.host_table(), self.pod_table()));
        self.problems.iter().for_each(|problem| text.push_str(&format!("{problem}\n")));
        for host in &self.hosts {
            host.problems.iter().for_each(|problem| text.push_str(&format!("{}: {problem}\n", host.name)));
        }
        report::print(&text)
    }

    fn host_table(&self) -> Table {
        let mut table =
            report::table(["HOST", "NETNS", "ADDRESS", "PID", "DATASTORE", "KERNEL", "ENDPOINTS", "POLICIES", "BGP"]);
        let unknown = || "-".to_owned();
        for host in &self.hosts {
            // An agent that does not answer says nothing of these.
            let known = |cell: String| if host.datastore.is_some() { cell } else { unknown() };
            table.add_row([
                host.name.clone(),
                host.netns.clone(),
                host.address.to_string(),
                if host.alive { host.pid.to_string() } else { "dead".into() },
                host.datastore.clone().unwrap_or_else(unknown),
                known(if host.dataplane_in_sync { "in sync" } else { "not in sync" }.into()),
                known(host.endpoints.to_string()),
                known(host.policies.to_string()),
                known(format!("{}/{} up, {} routes", host.bgp_established, host.bgp_peers, host.bgp_routes)),
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

async fn look_at_host(state: &StateDir, record: &Record, agent: Agent) -> HostStatus {
    let plan = &record.plan;
    let mut host = HostStatus {
        name: agent.host.to_string(),
        netns: plan.host_netns(agent.host),
        address: agent.host.address(),
        pid: agent.process.pid,
        alive: true,
        datastore: None,
        dataplane_in_sync: false,
        endpoints: 0,
        policies: 0,
        bgp_established: 0,
        bgp_peers: 0,
        bgp_routes: 0,
        problems: missing_namespaces(record, agent.host),
    };
    match agent::status(state, agent.host).await {
        Err(error) => {
            host.alive = !ends_soon(agent.process).await;
            host.problems.push(if host.alive { output::chain(&error) } else { has_ended(state, agent) });
        }
        Ok(status) => {
            host.problems.extend(agent::missing(&status, usize::from(plan.hosts)));
            let attached = record.pods.iter().filter(|attached| attached.pod.host == agent.host).count();
            if status.endpoints < attached {
                host.problems.push(format!("{} of {attached} pods have an endpoint", status.endpoints));
            }
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

fn missing_namespaces(record: &Record, host: HostId) -> Vec<String> {
    let pods = record.pods.iter().map(|attached| attached.pod).filter(|pod| pod.host == host);
    let names = std::iter::once(record.plan.host_netns(host)).chain(pods.map(|pod| record.plan.pod_netns(pod)));
    names.filter(|name| named::open(name).is_err()).map(|name| format!("namespace {name} is missing")).collect()
}

fn has_ended(state: &StateDir, agent: Agent) -> String {
    let (log, restart) = (state.agent_log(agent.host), state.hint(&format!("restart {}", agent.host)));
    format!("calico-node, process {}, has ended: see {}; {restart} starts it anew", agent.process.pid, log.display())
}

/// Whether a process that does not answer has ended, or is about to: one that was killed this instant still has its id.
async fn ends_soon(process: ProcessId) -> bool {
    let deadline = Instant::now() + DYING;
    while process.is_alive() {
        if Instant::now() > deadline {
            return false;
        }
        sleep(POLL).await;
    }
    true
}

/// On a busy machine; otherwise it takes milliseconds.
const DYING: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);
