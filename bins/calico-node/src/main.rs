//! The node agent: start-up, policy and routes, BGP, in one process.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
