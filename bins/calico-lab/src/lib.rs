//! A many-host network of namespaces on one machine: demo, fixture and benchmarks.
//!
//! [`main_from`] is the whole program. Called as `calico-node`, `calico`, `calico-ipam` or `calicoctl`, it is that program;
//! otherwise it is the lab:
//!
//! | Module, each above those that it knows | |
//! |---|---|
//! | `cli` | what is offered, and who carries it out |
//! | `network`, `exec`, `demo`, `bench` | the verbs: on one network, inside it, the scenes and how they are told, measurements beside peers |
//! | `plan` | names and addresses of everything, from the size alone |
//! | `topology` | namespaces, the segment, cables |
//! | `server`, `agent`, `cni` | the datastore, `calico-node` in each host, the plugins as a runtime executes them |
//! | `lab`, `state`, `ownership`, `record`, `process` | a network's life, its directory, what is its own, what is written down, how a killed run is cleaned up |
//! | `probe`, `oracle`, `descriptors` | real packets and their verdicts; what these should be; the open files that takes |
//! | `args`, `interrupt`, `progress`, `report` | what the command line can say, what ends work early, what is shown |

mod agent;
mod args;
mod bench;
mod cli;
mod cni;
mod ctl;
mod demo;
mod descriptors;
mod error;
mod exec;
mod interrupt;
mod lab;
mod labels;
mod network;
mod oracle;
mod ownership;
mod plan;
mod probe;
mod process;
mod programs;
mod progress;
mod record;
mod report;
mod server;
mod state;
mod status;
mod topology;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::Path;
use std::process::ExitCode;

use calico_ipam::plugin::Variables;

use programs::Program;

/// The program: its arguments, the name it was called by first.
pub fn main_from(arguments: Vec<OsString>) -> ExitCode {
    let name = arguments.first().cloned().unwrap_or_default();
    match Program::called(Path::new(&name)) {
        Program::Lab => cli::main_from(arguments),
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
