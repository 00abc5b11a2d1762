//! `calico-node run`: puts the real parts together, and keeps them going until told to stop.

use std::sync::Arc;

use calico_bgp::{BgpBackend, NativeConfig, SpeakerConfig};
use calico_core::render::{RenderConfig, Renderer};
use calico_dataplane::reconcile::ReconcileConfig;
use calico_dataplane::{LinuxConfig, LinuxDataplane};
use calico_datastore::client::Client;
use calico_datastore::sync::SyncOptions;
use calico_datastore::{Datastore, IdSource, SystemClock, SystemIds};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinError;
use tracing::{error, info, warn};

use crate::agent::{Agent, LEARNED_ROUTE_METRIC, Parts};
use crate::bgp::PatientSpeaker;
use crate::bird::BirdSpeaker;
use crate::cli::{Backend, IpSetting, RunArgs};
use crate::control::Server;
use crate::memory;
use crate::metrics::Metrics;
use crate::reporter::Reporter;
use crate::secrets;
use crate::startup::address::{Method, interface_addresses};
use crate::startup::alone::AloneInNamespace;
use crate::startup::identity;
use crate::startup::register::{IpChoice, RegisterError, Registration};
use crate::startup::registrar::Registrar;

/// Why the agent does not run.
pub(crate) type RunError = Box<dyn std::error::Error + Send + Sync>;

/// Runs until SIGTERM or SIGINT.
pub(crate) async fn run(args: RunArgs, store: Arc<dyn Datastore>) -> Result<(), RunError> {
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname")?;
    let node = identity::node_name(args.node_name.as_deref(), &args.nodename_file, &hostname)?;
    identity::remember(&node, &args.nodename_file)?;
    let registration = registration(&args, &node)?;
    let _alone = AloneInNamespace::claim()?;
    forward_packets();

    let ids = SystemIds::open()?;
    let agent = Agent::new(parts(&args, &node, Arc::clone(&store), &ids)?);
    let _server = Server::start(&args.control_socket, agent.calls())?;
    serve_health(&args, &agent);
    give_back_once_ready(&agent);
    tokio::spawn(secrets::follow(args.bgp_secrets.clone(), agent.wanted_secrets(), agent.facts()));
    info!(node, version = env!("CARGO_PKG_VERSION"), "calico-node starts");

    let client = Client::new(store, Arc::new(SystemClock), Arc::new(ids));
    let reporter = Reporter::new(&node, client.clone(), Arc::new(SystemClock), agent.calls());
    let reporter = tokio::spawn(reporter.run());
    let registrar = Registrar::new(registration, client, agent.own_node(), agent.registration());
    let mut registrar = tokio::spawn(registrar.run());
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut outcome = Ok(());
    let shutdown = async {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            ended = &mut registrar => outcome = Err(unregistered(ended)),
        }
    };
    agent.run(shutdown).await;
    registrar.abort();
    reporter.abort();
    info!("calico-node stops; what is enforced stays enforced");
    outcome
}

/// Why nobody keeps this host registered any more. Where the task itself went wrong the agent ends as well, to be started anew.
fn unregistered(ended: Result<RegisterError, JoinError>) -> RunError {
    match ended {
        Ok(error) => error.into(),
        Err(fault) => format!("what keeps this host registered has stopped: {fault}").into(),
    }
}

fn registration(args: &RunArgs, node: &str) -> Result<Registration, RunError> {
    let choice = |setting, method: &Method, unset: fn(Method) -> IpChoice| match setting {
        None => unset(method.clone()),
        Some(IpSetting::Autodetect) => IpChoice::Autodetect(method.clone()),
        Some(IpSetting::None) => IpChoice::None,
        Some(IpSetting::Address(address)) => IpChoice::Address(address),
    };
    Ok(Registration {
        node: node.into(),
        ip: choice(args.ip, &args.ip_autodetection_method, IpChoice::Keep),
        // As upstream, a host takes part in IPv6 only when told to.
        ip6: choice(args.ip6, &args.ip6_autodetection_method, |_| IpChoice::None),
        as_number: args.as_number,
        needs_address: args.backend != Backend::None,
        pool: args.ipv4_pool_cidr,
        pool_block_size: args.ipv4_pool_block_size,
        cluster_type: args.cluster_type.clone(),
        addresses: interface_addresses()?,
    })
}

/// All that works on workload interfaces, with one set of prefixes: what one part would not know, it would not police.
fn configurations(args: &RunArgs) -> (RenderConfig, LinuxConfig, ReconcileConfig) {
    let prefixes = args.interface_prefix.to_vec();
    let render = RenderConfig {
        workload_prefixes: prefixes.clone(),
        rp_filter: default_rp_filter(),
        ipv6: std::path::Path::new("/proc/sys/net/ipv6").exists(),
        ..args.policy.config()
    };
    let linux = LinuxConfig::default().with_workload_prefixes(prefixes.clone());
    let reconcile = ReconcileConfig { workload_prefixes: prefixes, ..ReconcileConfig::default() };
    (render, linux, reconcile)
}

fn parts(args: &RunArgs, node: &str, store: Arc<dyn Datastore>, ids: &dyn IdSource) -> Result<Parts, RunError> {
    let (render, linux, reconcile) = configurations(args);
    let bgp: Option<Box<dyn BgpBackend>> = match args.backend {
        Backend::Native => Some(Box::new(PatientSpeaker::start(bgp_config(ids)))),
        Backend::Bird => Some(Box::new(BirdSpeaker::start(args.bird.config(LEARNED_ROUTE_METRIC, &args.log_level)))),
        Backend::None => None,
    };
    Ok(Parts {
        node: node.into(),
        store,
        dataplane: Box::new(LinuxDataplane::open(linux)?),
        bgp,
        bgp_port: args.bgp_port,
        router_id: args.router_id,
        end_denied_connections: args.policy.end_denied_connections.then(|| render.settings()),
        renderer: Box::new(Renderer::new(render)),
        excluded_interfaces: args.policy.interface_exclude.clone(),
        reconcile,
        sync: SyncOptions::default(),
        metrics: Arc::new(Metrics::default()),
    })
}

fn bgp_config(ids: &dyn IdSource) -> NativeConfig {
    // Half of a random id is a random seed.
    let seed = u64::try_from(ids.draw() >> 64).unwrap_or_default();
    NativeConfig {
        // As the desired state says, which starts from the same port.
        listen: None,
        speaker: SpeakerConfig { seed, ..SpeakerConfig::default() },
    }
}

/// A host that does not forward has no reachable workloads. A read-only `/proc/sys` (an unprivileged container) is told, not fatal:
/// somebody else may have set it.
fn forward_packets() {
    const PATH: &str = "/proc/sys/net/ipv4/ip_forward";
    if std::fs::read_to_string(PATH).is_ok_and(|text| text.trim() == "1") {
        return;
    }
    if let Err(error) = std::fs::write(PATH, "1") {
        warn!(%error, "cannot switch IPv4 forwarding on: workloads of this host cannot be reached until {PATH} is 1");
    }
}

/// Upstream copies the host's default to workload interfaces; unreadable means strict.
fn default_rp_filter() -> u8 {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/conf/default/rp_filter").unwrap_or_default();
    text.trim().parse().unwrap_or(1)
}

/// What came and went while the picture was made is free now, and nearly nothing of it will be needed again.
fn give_back_once_ready(agent: &Agent) {
    let mut health = agent.health();
    tokio::spawn(async move {
        if health.wait_for(|health| health.ready).await.is_ok() {
            // Nobody waits for it.
            drop(tokio::task::spawn_blocking(memory::give_back));
        }
    });
}

fn serve_health(args: &RunArgs, agent: &Agent) {
    let Some(address) = args.health_address() else { return };
    let (health, metrics) = (agent.health(), agent.metrics());
    tokio::spawn(async move {
        if let Err(error) = crate::health::serve(address, health, metrics).await {
            error!(%address, %error, "cannot serve health; policy goes on");
        }
    });
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    /// The host would stay unregistered without a word.
    #[tokio::test]
    async fn a_panic_of_the_registering_task_ends_the_agent() {
        let ended = tokio::spawn(async { panic!("injected") }).await;
        let error = unregistered(ended).to_string();
        assert!(error.starts_with("what keeps this host registered") && error.contains("injected"), "{error}");
    }

    /// The plugin names interfaces by the first prefix; an interface that one of these did not know would be reachable and unpoliced.
    #[test]
    fn every_part_has_the_prefixes_that_were_given() {
        let cli = Cli::try_parse_from(["calico-node", "run", "--interface-prefix", "tap,cali"]).unwrap();
        let Command::Run(args) = cli.command else { panic!("not run") };
        let (render, linux, reconcile) = configurations(&args);
        let expected = ["tap", "cali"].map(|prefix| prefix.parse().unwrap());
        assert_eq!(render.workload_prefixes, expected);
        assert_eq!(linux.workload_prefixes, expected);
        assert_eq!(reconcile.workload_prefixes, expected);
    }
}
