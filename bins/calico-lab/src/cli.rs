//! The command line: what it offers, and who carries out what. It stands above all others; nobody imports it.

use std::ffi::OsString;
use std::process::ExitCode;

use calico_cmd::output;
use clap::{Parser, Subcommand};

use crate::args::{BenchArgs, DemoArgs, ExecArgs, NameArgs, RestartArgs, StatusArgs, UpArgs};
use crate::bench::WorkerArgs;
use crate::error::{Context, LabError};
use crate::{bench, demo, exec, network};

/// A network of many hosts on this one machine: namespaces for hosts and pods, a real calico-node in each host, the real CNI
/// plugins, real packets.
#[derive(Debug, Parser)]
#[command(name = "calico-lab", version, about, max_term_width = 110, after_help = AFTER)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER: &str = "\
Everything happens in network namespaces whose names begin with the lab's name (`ip netns` lists them) and below its state directory; \
nothing else on the machine is touched. Root is needed.

Exit codes: 0 all is as expected, 1 it is not or something failed, 2 usage, or not root, 130 interrupted.";

/// Verbs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Build a network, police it, and compare real packets with what the policies say; then remove it
    ///
    /// Three scenes: no policy, a policy set applied with `calicoctl apply -f`, the policies removed. In each, TCP, UDP and ICMP go
    /// between all pairs of pods, and every verdict is compared with the one that the specification gives for the same YAML.
    Demo(DemoArgs),
    /// Build the same network and leave it running
    Up(UpArgs),
    /// Remove a network that `up` left, or whatever a killed run left
    Down(NameArgs),
    /// Show hosts, pods, agents and BGP sessions of a running network
    ///
    /// Exits with 1, and says why, when something is not as it should be: an agent that has ended, does not answer or is not in sync, a
    /// BGP session that is not established, a pod whose endpoint or namespace is missing.
    Status(StatusArgs),
    /// Probe all pairs of a running network and compare with what its datastore says now
    Check(StatusArgs),
    /// Stop the agent of one host and start it anew; traffic goes on meanwhile
    Restart(RestartArgs),
    /// Measure, side by side with a peer
    ///
    /// P4, P5, P8 and P12 measure what a host does: sets, endpoints, routes, CNI. D1, D2 and D3 measure the datastore: reading a cluster,
    /// watching it, `calicoctl get`. `--list` says what each is, its peer and its target.
    Bench(BenchArgs),
    /// Do one task of a benchmark
    #[command(hide = true)]
    BenchWorker(WorkerArgs),
    /// Run a command inside a host or pod, with the host's environment and all of Calico's programs on its PATH
    ///
    /// Without a command, a shell. `calico-lab exec h1 -- calico-node status`, `calico-lab exec net -- calicoctl get nodes`.
    ///
    /// Exits as the command does: with its code, or 128 and the number of the signal that killed it; 127 if there is no such command, 126
    /// if it cannot be executed.
    Exec(ExecArgs),
}

impl Command {
    /// All but the list of benchmarks.
    const fn needs_root(&self) -> bool {
        !matches!(self, Self::Bench(BenchArgs { id: None, .. }))
    }
}

/// The lab: its arguments, the name it was called by first.
pub(crate) fn main_from(arguments: Vec<OsString>) -> ExitCode {
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
    if command.needs_root() {
        require_root()?;
    }
    let runtime = tokio::runtime::Runtime::new().context(|| "cannot start".into())?;
    match command {
        Command::Demo(arguments) => runtime.block_on(demo::run(&arguments)),
        Command::Check(arguments) => runtime.block_on(demo::check(&arguments)),
        Command::Up(arguments) => runtime.block_on(network::up(&arguments)),
        Command::Down(arguments) => network::down(&arguments),
        Command::Status(arguments) => runtime.block_on(network::show(&arguments)),
        Command::Restart(arguments) => runtime.block_on(network::restart(&arguments)),
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_benchmark_or_the_list_is_needed_and_not_both() {
        let parse = |args: &[&str]| Cli::try_parse_from([&["calico-lab", "bench"], args].concat());
        assert!(parse(&[]).is_err());
        assert!(parse(&["--list", "P8"]).is_err());
        assert!(parse(&["P8", "--json"]).is_ok());
        assert!(parse(&["--list"]).is_ok());
        assert!(parse(&["--list", "--json"]).is_ok());
    }
}
