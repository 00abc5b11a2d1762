//! The task that gives daemons their configuration and looks at them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tokio::time::{Instant, sleep, timeout_at};
use tracing::{error, info, warn};

use super::picture::Observation;
use super::{BirdConfig, BirdPaths, Shared};
use crate::bird::client::{self, Client, ClientError, Configured, Reply};

/// Looks without details, in a row, if nothing changes.
const BRIEF: u32 = 10;
/// Pause between two looks at a configuration that is being taken.
const PAUSE: core::time::Duration = core::time::Duration::from_millis(50);
/// Longest wait for a configuration to be taken: sessions that end say so first.
const TAKING: core::time::Duration = core::time::Duration::from_secs(60);
/// What a learned route is, in both dialects.
const ROUTES: &str = "show route primary all where source = RTS_BGP";

/// What the task remembers of a daemon.
#[derive(Debug, Default)]
struct Memory {
    /// Which configuration it has, and since when it runs.
    loaded: Option<(u64, Option<String>)>,
    /// Which one it refused.
    refused: Option<(u64, String)>,
    /// Its sessions in brief, and how often they were the same.
    brief: Option<Reply>,
    same: u32,
    /// What was wrong with it, so that each trouble is told once.
    trouble: Option<String>,
}

/// Runs until it is aborted.
pub(super) async fn run(shared: Arc<Shared>, config: BirdConfig) {
    let mut memories: Vec<Memory> = Vec::new();
    loop {
        let (generation, daemons) = shared.wanted();
        memories.resize_with(daemons.len(), Memory::default);
        for (place, (paths, memory)) in daemons.iter().zip(&mut memories).enumerate() {
            let outcome = look(paths, generation, memory, &config).await;
            if !report(&shared, generation, place, memory, outcome) {
                break;
            }
        }
        shared.events.notify_one();
        tokio::select! {
            () = shared.work.notified() => {}
            () = sleep(config.poll) => {}
        }
    }
}

/// Tells the picture what was seen, unless another configuration came in the meantime: it is not of that.
fn report(
    shared: &Shared,
    generation: u64,
    place: usize,
    memory: &mut Memory,
    outcome: Result<Observation, String>,
) -> bool {
    let _current = shared.daemons.lock().unwrap_or_else(PoisonError::into_inner);
    if shared.generation.load(Ordering::Acquire) != generation {
        return false;
    }
    let now = shared.clock.now();
    match outcome {
        Ok(observation) => {
            memory.trouble = None;
            shared.picture().observe(now, place, observation);
        }
        Err(reason) => {
            if memory.trouble.as_ref() != Some(&reason) {
                warn!(reason, "BIRD is not as it should be; it is tried again");
            }
            shared.picture().trouble(now, place, &reason);
            memory.trouble = Some(reason);
        }
    }
    true
}

async fn look(
    paths: &BirdPaths,
    generation: u64,
    memory: &mut Memory,
    config: &BirdConfig,
) -> Result<Observation, String> {
    let text = |error: ClientError| error.to_string();
    let mut client = Client::connect(&paths.socket, config.answer).await.map_err(text)?;
    let mut status = client::status(&client.ask("show status").await.map_err(text)?);
    let wanted = (generation, status.last_boot.clone());
    if memory.loaded.as_ref() != Some(&wanted) {
        if let Some((_, reason)) = memory.refused.as_ref().filter(|(refused, _)| *refused == generation) {
            return Err(reason.clone());
        }
        load(&mut client, paths, generation, memory).await?;
        memory.loaded = Some(wanted);
        (memory.brief, memory.same) = (None, 0);
        status = client::status(&client.ask("show status").await.map_err(text)?);
    }
    let brief = client.ask("show protocols").await.map_err(text)?;
    memory.same = if memory.brief.as_ref() == Some(&brief) { memory.same + 1 } else { 0 };
    // What has just changed changes on: the number of routes of a session that is up.
    let details = memory.same < 3 || memory.same.is_multiple_of(BRIEF);
    memory.brief = Some(brief);
    let mut observation = Observation { status, loaded: true, ..Observation::default() };
    if details {
        let reply = client.ask("show protocols all").await.map_err(text)?;
        observation.protocols = Some(client::protocols(&reply));
    }
    if config.report_routes {
        let reply = client.ask(ROUTES).await.map_err(text)?;
        if let Some(failure) = reply.failure() {
            return Err(format!("{}: {ROUTES}: {failure}", paths.socket.display()));
        }
        observation.routes = Some(client::routes(&reply));
    }
    Ok(observation)
}

/// Has the daemon read its configuration, and waits until it is in force.
async fn load(client: &mut Client, paths: &BirdPaths, generation: u64, memory: &mut Memory) -> Result<(), String> {
    let text = |error: ClientError| error.to_string();
    let reply = client.ask("configure").await.map_err(text)?;
    let read = reply.texts(2).find_map(|line| line.strip_prefix("Reading configuration from "));
    let path = paths.config.to_string_lossy();
    if let Some(read) = read.filter(|read| *read != path) {
        warn!(read, written = %path, "BIRD reads another file than the one that is written for it: start it with -c");
    }
    match client::configured(&reply) {
        Configured::Done => {}
        Configured::Pending => in_force(client).await?,
        Configured::Refused(reason) => {
            let reason = format!("BIRD refuses its configuration, and keeps the former one: {reason}");
            error!(reason, "BIRD");
            memory.refused = Some((generation, reason.clone()));
            return Err(reason);
        }
        Configured::Unclear(said) => return Err(format!("BIRD answers to `configure`: {said}")),
    }
    info!(config = %path, version = client.version(), "BIRD has taken its configuration");
    Ok(())
}

/// Sessions that end take their time.
async fn in_force(client: &mut Client) -> Result<(), String> {
    let deadline = Instant::now() + TAKING;
    let asking = async {
        loop {
            sleep(PAUSE).await;
            let reply = client.ask("show status").await.map_err(|error| error.to_string())?;
            if !client::status(&reply).configuring {
                return Ok(());
            }
        }
    };
    let silent = |_| Err(format!("BIRD has not taken its configuration within {TAKING:?}"));
    timeout_at(deadline, asking).await.unwrap_or_else(silent)
}
