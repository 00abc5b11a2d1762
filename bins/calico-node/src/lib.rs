//! The node agent: start-up, policy and routes, BGP, in one process.
//!
//! Embedders link [`agent::Agent`] with a datastore, a dataplane and a BGP backend of their choice; the program `calico-node` is
//! [`main`], which brings the real ones.
//!
//! | Module | Is |
//! |---|---|
//! | [`agent`] | the loop and the machines in it |
//! | [`startup`] | who and where this host is; making it known |
//! | [`control`] | the serving side of the control socket |
//! | [`health`], [`metrics`] | what probes and Prometheus see |
//! | [`cli`] | the command line |

pub mod agent;
mod bgp;
mod bird;
pub mod bird_args;
pub mod cli;
pub mod control;
pub mod health;
mod memory;
pub mod metrics;
pub mod policy_args;
mod reporter;
mod run;
mod secrets;
pub mod startup;
mod status;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use calico_cmd::exit::Exit;
use calico_cmd::output::{self, chain};
use calico_cmd::store::{PatientStore, Sources, open, resolve};
use calico_cmd::telemetry::{self, LogLevel};
use calico_dataplane::leftovers::{self, Removed};
use calico_datastore::Datastore;

use cli::{Backend, Cli, Command, RunArgs};
use startup::capability;

/// The program: parses, runs, and says how it ended (0 done, 1 failed, 2 wrong usage).
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::parse_from_process(args) {
        Ok(cli) => cli,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Success };
            // A closed terminal is no reason to fail.
            let _ = error.print();
            return exit.into();
        }
    };
    match cli.command {
        Command::Run(args) => run_agent(*args),
        Command::Status(args) => match status::fetch(&args) {
            Ok(text) => print(&text),
            Err(error) => fail(&error),
        },
        Command::CleanupIptables => match leftovers::remove() {
            Ok(removed) if removed.is_nothing() => print("Nothing of an upstream node in iptables mode is there.\n"),
            Ok(Removed { rules, chains, sets }) => {
                print(&format!("Removed {rules} rules from chains of others, {chains} chains and {sets} IP sets.\n"))
            }
            Err(error) => fail(&error),
        },
    }
    .into()
}

fn run_agent(args: RunArgs) -> Exit {
    let level: LogLevel = match args.log_level.parse() {
        Ok(level) => level,
        Err(error) => return usage(&error),
    };
    telemetry::init(level, std::env::var("RUST_LOG").ok().as_deref());
    memory::share_arenas();
    // BIRD has capabilities of its own.
    let bgp_port = (args.backend == Backend::Native).then_some(args.bgp_port);
    if let Err(error) = capability::require(bgp_port) {
        return fail(&error);
    }
    let resolved = match resolve(&Sources::of_process(None)) {
        Ok(resolved) => resolved,
        Err(error) => return usage(&error),
    };
    if let Some(warning) = &resolved.warning {
        tracing::warn!("{warning}");
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error),
    };
    let outcome = runtime.block_on(async {
        let store: Arc<dyn Datastore> = match open(&resolved.config).await {
            Ok(store) => store,
            Err(error) if error.is_retryable() => {
                tracing::warn!(error = %chain(&error), "the datastore cannot be opened yet; it is tried again");
                Arc::new(PatientStore::new(resolved.config))
            }
            Err(error) => return Err(error.into()),
        };
        run::run(args, store).await
    });
    match outcome {
        Ok(()) => Exit::Success,
        Err(error) => fail(&*error),
    }
}

/// A reader that has gone, as `head` does, has seen all it wanted.
fn print(text: &str) -> Exit {
    match output::print(text) {
        Ok(()) => Exit::Success,
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Exit::Failure,
        Err(error) => {
            output::remark(format_args!("Error: cannot write to standard output: {error}"));
            Exit::Failure
        }
    }
}

fn usage(error: &dyn std::error::Error) -> Exit {
    output::remark(format_args!("Error: {}", chain(error)));
    Exit::Usage
}

fn fail(error: &dyn std::error::Error) -> Exit {
    output::remark(format_args!("Error: {}", chain(error)));
    Exit::Failure
}
