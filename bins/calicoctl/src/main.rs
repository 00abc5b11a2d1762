//! What operators type: apply, create, get and delete resources.

fn main() -> std::process::ExitCode {
    calicoctl::run_process(std::env::args_os()).into()
}
