//! The node agent of Calico: policy, routes and BGP of one host, in one process.

fn main() -> std::process::ExitCode {
    calico_node::main(std::env::args_os())
}
