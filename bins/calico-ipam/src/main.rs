//! The CNI IPAM plugin: assigns addresses from Calico's pools.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|flag| matches!(flag.as_str(), "-v" | "--version")) {
        let written = calico_cmd::output::print(concat!(env!("CARGO_PKG_VERSION"), "\n"));
        return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let variables = calico_ipam::plugin::process_variables();
    calico_ipam::run(&variables, &mut std::io::stdin(), &mut std::io::stdout()).into()
}
