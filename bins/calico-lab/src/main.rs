//! A many-host network of namespaces on one machine: demo, fixture and benchmarks.

use std::process::ExitCode;

fn main() -> ExitCode {
    calico_lab::main_from(std::env::args_os().collect())
}
