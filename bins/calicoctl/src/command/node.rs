//! `node`: how Calico is on this host. The agent is asked on its control socket; upstream looks for processes by name, and does not find
//! those of containers and packages.

use std::path::PathBuf;

use calico_cmd::control::{Client, ControlError, DEFAULT_SOCKET, NodeStatus, PeerReport, SOCKET_ENV};
use calico_cmd::output::chain;
use calico_core::net::Family;
use calico_core::time::Timestamp;
use clap::{Args, Subcommand};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::{self, Form, boxed};

/// Verbs about this host.
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Show whether the agent of this host runs, and its BGP sessions
    #[command(after_help = STATUS_HELP)]
    Status(StatusArgs),
}

const STATUS_HELP: &str = "\
STATE is `up` while a session is established and `start` otherwise; SINCE is the time of the last
change in UTC, or its date if that is a day ago; INFO is the state of RFC 4271, and why the last
session ended. `calico-node status` shows the rest of the agent.

Exit codes: 0 the agent answers, 1 it does not, 2 wrong usage.";

/// Arguments of `node status`.
#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    /// Control socket of the agent
    #[arg(long, env = SOCKET_ENV, value_name = "PATH", default_value = DEFAULT_SOCKET)]
    control_socket: PathBuf,
    /// Form of the answer
    #[arg(short, long, value_enum, default_value = "table")]
    output: Form,
}

pub(crate) fn run(command: &NodeCommand, context: &mut Context<'_>) -> Result<(), Failure> {
    match command {
        NodeCommand::Status(args) => status(args, context),
    }
}

fn status(args: &StatusArgs, context: &mut Context<'_>) -> Result<(), Failure> {
    let status = Client::connect(&args.control_socket).and_then(|mut agent| agent.status()).map_err(not_running)?;
    let text = match args.output {
        Form::Table => page(&status, context.clock.now()),
        form => output::value(serde_json::to_value(&status).unwrap_or_default(), form),
    };
    Ok(write!(context.stdout, "{text}")?)
}

/// Upstream's line first, where it is true.
pub(super) fn not_running(error: ControlError) -> Failure {
    let reason = chain(&error);
    if error.is_agent_away() {
        Failure::message(format_args!("Calico process is not running.\n  {reason}"))
    } else {
        Failure::message(format_args!("{reason}"))
    }
}

fn page(status: &NodeStatus, now: Timestamp) -> String {
    let mut text = "Calico process is running.\n".to_owned();
    match status.bgp_backend.as_deref() {
        None if status.bgp.is_empty() => text += "\nThe BGP backend process (BIRD) is not running.\n",
        backend => {
            if let Some(name @ "native") = backend {
                text += &format!("BGP is spoken by the agent itself ({name} backend).\n");
            }
            for family in [Family::V4, Family::V6] {
                text += &table(family, &status.bgp, now);
            }
        }
    }
    text + "\n"
}

fn table(family: Family, peers: &[PeerReport], now: Timestamp) -> String {
    let version = match family {
        Family::V4 => "IPv4",
        Family::V6 => "IPv6",
    };
    let mut rows = vec![["PEER ADDRESS", "PEER TYPE", "STATE", "SINCE", "INFO"].map(str::to_owned).to_vec()];
    rows.extend(peers.iter().filter(|peer| family_of(peer) == family).map(|peer| row(peer, now)));
    if rows.len() == 1 {
        return format!("\n{version} BGP status\nNo {version} peers found.\n");
    }
    format!("\n{version} BGP status\n{}", boxed::render(&rows))
}

/// A link-local address has its interface behind it.
fn family_of(peer: &PeerReport) -> Family {
    if peer.address.contains(':') { Family::V6 } else { Family::V4 }
}

fn row(peer: &PeerReport, now: Timestamp) -> Vec<String> {
    let is_up = peer.state == "Established";
    let since = peer.since.map_or_else(|| "-".to_owned(), |since| short(since, now));
    let info = match &peer.last_error {
        Some(reason) if !is_up => format!("{} {reason}", peer.state),
        _ => peer.state.clone(),
    };
    let state = if is_up { "up" } else { "start" };
    vec![peer.address.clone(), peer.peer_type.clone(), state.to_owned(), since, info]
}

/// The time within a day, else the date, as BIRD shows it, of seconds since 1970.
pub(super) fn short(since: u64, now: Timestamp) -> String {
    const DAY: u64 = 24 * 60 * 60;
    let since = Timestamp::from_secs(since);
    let text = since.rfc3339();
    let (date, time) = text.split_once('T').unwrap_or((&text, ""));
    let is_recent = now.secs().saturating_sub(since.secs()) < DAY;
    if is_recent { time.trim_end_matches('Z').to_owned() } else { date.to_owned() }
}
