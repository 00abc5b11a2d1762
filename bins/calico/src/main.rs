//! The CNI plugin: attaches a container's interface to the network.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|flag| matches!(flag.as_str(), "-v" | "--version")) {
        let written = calico_cmd::output::print(concat!(env!("CARGO_PKG_VERSION"), "\n"));
        return if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let variables = calico_ipam::plugin::process_variables();
    calico_cni::run(&variables, &mut std::io::stdin(), &mut std::io::stdout()).into()
}
