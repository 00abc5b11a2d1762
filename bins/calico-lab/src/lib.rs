//! A many-host network of namespaces on one machine: demo, fixture and benchmarks.
//!
//! [`main_from`] is the whole program. Called as `calico-node`, `calico`, `calico-ipam` or `calicoctl`, it is that program;
//! otherwise it is the lab:
//!
//! | Module | |
//! |---|---|
//! | `plan` | names and addresses of everything, from the size alone |
//! | `topology` | namespaces, the segment, cables |
//! | `server`, `agent`, `cni` | the datastore, `calico-node` in each host, the plugins as a runtime executes them |
//! | `lab`, `state`, `ownership`, `process` | a network's life, its record, what is its own, how a killed run is cleaned up |
//! | `probe`, `oracle`, `descriptors` | real packets and their verdicts; what these should be; the open files that takes |
//! | `bench` | measurements beside peers |
//! | `demo` | the scenes, and how they are told |

mod agent;
mod bench;
mod cli;
mod cni;
mod ctl;
mod demo;
mod descriptors;
mod error;
mod exec;
mod lab;
mod labels;
mod oracle;
mod ownership;
mod plan;
mod probe;
mod process;
mod programs;
mod progress;
mod report;
mod server;
mod state;
mod status;
mod topology;

use std::ffi::OsString;
use std::future::Future;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use calico_cmd::output;
use calico_ipam::plugin::Variables;
use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};

use cli::{Cli, Command, NameArgs, RestartArgs, SizeArgs, StatusArgs, UpArgs};
use error::{Context, LabError};
use exec::Place;
use lab::{Lab, tear_down_after};
use plan::Plan;
use programs::Program;
use progress::Progress;
use state::StateDir;
use status::Status;

/// The program: its arguments, the name it was called by first.
pub fn main_from(arguments: Vec<OsString>) -> ExitCode {
    let name = arguments.first().cloned().unwrap_or_default();
    match Program::called(Path::new(&name)) {
        Program::Lab => lab_from(arguments),
        Program::Ctl => calicoctl::run_process(arguments).into(),
        Program::Node => calico_node::main(arguments),
        Program::Cni => as_plugin(calico_cni::run),
        Program::Ipam => as_plugin(calico_ipam::run),
    }
}

/// CNI plugins take no arguments: environment and standard input say everything.
fn as_plugin(run: fn(&Variables, &mut dyn Read, &mut dyn Write) -> u8) -> ExitCode {
    run(&calico_ipam::plugin::process_variables(), &mut std::io::stdin(), &mut std::io::stdout()).into()
}

fn lab_from(arguments: Vec<OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no errors, and go to standard output.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    run(cli.command).unwrap_or_else(|error| {
        // A reader that has gone has seen all it wanted.
        if !matches!(error, LabError::ReaderGone) {
            output::remark(format_args!("calico-lab: {}", output::chain(&error)));
        }
        error.exit_code()
    })
}

fn run(command: Command) -> Result<ExitCode, LabError> {
    if !matches!(command, Command::Bench(_)) {
        require_root()?;
    }
    let runtime = tokio::runtime::Runtime::new().context(|| "cannot start".into())?;
    match command {
        Command::Demo(arguments) => runtime.block_on(demo::run(&arguments)),
        Command::Check(arguments) => runtime.block_on(demo::check(&arguments)),
        Command::Up(arguments) => runtime.block_on(up(&arguments)),
        Command::Down(arguments) => down(&arguments),
        Command::Status(arguments) => runtime.block_on(show(&arguments)),
        Command::Restart(arguments) => runtime.block_on(restart(&arguments)),
        Command::Bench(arguments) => runtime.block_on(bench::run(&arguments)),
        Command::BenchWorker(arguments) => runtime.block_on(bench::work(arguments)),
        Command::Exec(arguments) => exec::run(&arguments),
    }
}

fn require_root() -> Result<(), LabError> {
    if nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    Err(LabError::Usage("the lab makes network namespaces and must be root: try again with sudo".into()))
}

async fn up(arguments: &UpArgs) -> Result<ExitCode, LabError> {
    let progress = Progress::start();
    let mut lab = claim(&arguments.which, arguments.size, &progress)?;
    match interruptible(lab.build(&progress)).await {
        Ok(()) => {
            let state = lab.state.clone();
            let record = lab.leave_running()?;
            let status = Status::look(&state, &record).await;
            drop(progress);
            status.print(arguments.json)?;
            if !arguments.json {
                let (look, end) = (state.hint("exec h1 -- calicoctl get nodes"), state.hint("down"));
                report::print(&format!("try {look}; {end} removes everything\n"))?;
            }
            Ok(status.exit_code())
        }
        Err(error) => tear_down_after(lab, Err(error), &progress, Ok),
    }
}

fn claim(which: &NameArgs, size: SizeArgs, progress: &Progress) -> Result<Lab, LabError> {
    server::require(size.datastore)?;
    let state = StateDir::new(&which.state, &which.name)?;
    Lab::claim(state, Plan::new(&which.name, size), progress)
}

fn down(which: &NameArgs) -> Result<ExitCode, LabError> {
    let progress = Progress::start();
    let state = StateDir::new(&which.state, &which.name)?;
    let text = if lab::down(&state, &progress)? { "network removed" } else { "no network there: nothing to do" };
    progress.done(text);
    Ok(ExitCode::SUCCESS)
}

async fn restart(arguments: &RestartArgs) -> Result<ExitCode, LabError> {
    let progress = Progress::start();
    let mut lab = Lab::find(StateDir::new(&arguments.which.state, &arguments.which.name)?)?;
    let Place::Host(host) = Place::parse(&arguments.host, &lab.record.plan)? else {
        return Err(LabError::Usage(format!("{} is no host: pods have no agent", arguments.host)));
    };
    lab.restart(host, arguments.kill, &progress).await?;
    progress.done(format!("calico-node on {host} is anew in sync"));
    Ok(ExitCode::SUCCESS)
}

async fn show(arguments: &StatusArgs) -> Result<ExitCode, LabError> {
    let state = StateDir::new(&arguments.which.state, &arguments.which.name)?;
    let record = state.running()?;
    let status = Status::look(&state, &record).await;
    status.print(arguments.json)?;
    Ok(status.exit_code())
}

/// Does `work` until it is done or somebody asks this process to stop.
async fn interruptible<T>(work: impl Future<Output = Result<T, LabError>>) -> Result<T, LabError> {
    let listen = |kind| signal(kind).context(|| "cannot listen for signals".into());
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    tokio::select! {
        outcome = work => outcome,
        _ = interrupt.recv() => Err(LabError::Interrupted),
        _ = terminate.recv() => Err(LabError::Interrupted),
        _ = hangup.recv() => Err(LabError::Interrupted),
    }
}
