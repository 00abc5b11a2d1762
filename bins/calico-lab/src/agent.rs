//! The agents: a real `calico-node` process in each host.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use calico_cmd::control::{Client, DatastoreState, NodeStatus};
use calico_cmd::output;
use tokio::time::{Instant, sleep};

use crate::ctl;
use crate::error::{Context, LabError};
use crate::plan::{HostId, POOL, Plan, SEGMENT_LENGTH};
use crate::progress::Progress;
use crate::record::Record;
use crate::server;
use crate::state::StateDir;
use crate::topology;

/// The environment of programs on a host. Where a real host has `/var/lib/calico` and `/var/run/calico`, these name the host's own
/// directory.
pub(crate) fn environment(state: &StateDir, plan: &Plan, host: HostId) -> Vec<(&'static str, OsString)> {
    let mut variables = server::environment(state, plan);
    variables.extend([
        ("CALICO_NODENAME_FILE", state.nodename(host).into()),
        (calico_cmd::control::SOCKET_ENV, state.socket(host).into()),
    ]);
    variables
}

/// Starts a host's agent.
pub(crate) fn spawn(state: &StateDir, plan: &Plan, host: HostId) -> Result<Child, LabError> {
    let failed = || format!("cannot start calico-node on {host}");
    let netns = topology::open(&plan.host_netns(host))?;
    let log = File::options().create(true).append(true).open(state.agent_log(host)).context(failed)?;
    let errors = log.try_clone().context(failed)?;
    let mut command = Command::new(state.program("calico-node"));
    command
        .arg("run")
        .env_clear()
        .envs(environment(state, plan, host))
        .env("NODENAME", host.to_string())
        .env("IP", format!("{}/{SEGMENT_LENGTH}", host.address()))
        .env("CALICO_IPV4POOL_CIDR", POOL)
        .stdin(Stdio::null())
        .stdout(log)
        .stderr(errors)
        // Ctrl-C at our terminal is for us; we stop it in order.
        .process_group(0);
    // A child inherits the namespaces of the thread that starts it.
    netns.run(|| command.spawn()).context(failed)?.context(failed)
}

/// Returns when every agent is in sync and has a session with every other one.
pub(crate) async fn wait_until_ready(state: &StateDir, record: &Record, progress: &Progress) -> Result<(), LabError> {
    let deadline = Instant::now() + PATIENCE;
    for agent in &record.agents {
        loop {
            let missing = match status(state, agent.host).await {
                Ok(status) => match missing(&status, usize::from(record.plan.hosts)) {
                    None => break,
                    Some(missing) => missing,
                },
                Err(error) => output::chain(&error),
            };
            // Whichever: the others wait for its sessions in vain.
            if let Some(ended) = record.agents.iter().find(|agent| !agent.process.is_alive()) {
                return Err(gave_up(state, ended.host, "calico-node has ended"));
            }
            if Instant::now() > deadline {
                let what = format!("calico-node is not ready after {} s: {missing}", PATIENCE.as_secs());
                return Err(gave_up(state, agent.host, &what));
            }
            progress.step_quietly(format!("waiting for {}: {missing}", agent.host));
            sleep(POLL).await;
        }
    }
    Ok(())
}

/// Returns when pods can be given addresses. An agent polices its host before it has registered it and made the pool, and a lone host
/// has no session to wait for.
pub(crate) async fn wait_for_pool(state: &StateDir, plan: &Plan) -> Result<(), LabError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let printed = ctl::run(state, plan, ["get", "ippools", "-o", "json"]).await?;
        let list: serde_json::Value = serde_json::from_slice(&printed).context(|| "cannot read the pools".into())?;
        if list.pointer("/items/0").is_some() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(LabError::new(format!("no agent has made the pool after {} s", PATIENCE.as_secs())));
        }
        sleep(POLL).await;
    }
}

/// What an agent still lacks, in words.
pub(crate) fn missing(status: &NodeStatus, hosts: usize) -> Option<String> {
    let established = status.bgp.iter().filter(|peer| peer.state == "Established").count();
    if status.datastore != DatastoreState::InSync {
        Some("datastore not in sync yet".into())
    } else if !status.dataplane_in_sync {
        let reason = status.dataplane_error.as_deref().unwrap_or("being written");
        Some(format!("kernel not in sync yet ({reason})"))
    } else if established + 1 < hosts {
        Some(format!("{established} of {} BGP sessions established", hosts - 1))
    } else {
        None
    }
}

/// Asks a host's agent how it is.
pub(crate) async fn status(state: &StateDir, host: HostId) -> Result<NodeStatus, LabError> {
    let socket = state.socket(host);
    let ask = move || Client::connect(&socket).and_then(|mut client| client.status());
    let answer = tokio::task::spawn_blocking(ask).await.context(|| "cannot ask".into())?;
    answer.context(|| format!("no status of {host}"))
}

fn gave_up(state: &StateDir, host: HostId, what: &str) -> LabError {
    let log = fs::read_to_string(state.agent_log(host)).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    let last = lines.get(lines.len().saturating_sub(LOG_LINES)..).unwrap_or_default().join("\n  ");
    LabError::new(format!("{what} on {host}; its last words:\n  {last}"))
}

/// Start-up and BGP sessions take well below a second on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
const LOG_LINES: usize = 12;
