//! What operators type: apply, create, get and delete resources.

fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
