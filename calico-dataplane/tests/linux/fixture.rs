//! A namespace with a workload interface and a backend in it.

use std::io::ErrorKind;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use calico_dataplane::netns::{Request, RouteSocket, VethEnd};
use calico_dataplane::testing::netns::scratch;
use calico_dataplane::{LinuxConfig, LinuxDataplane};
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

/// Name of the workload interface.
pub(crate) const WORKLOAD: &str = "cali00001";

/// Runs a test in a namespace of its own, on a runtime of one thread that lives in there.
pub(crate) fn in_namespace<T: Send>(test: impl AsyncFnOnce(LinuxDataplane) -> T + Send) -> T {
    let netns = scratch();
    let run = move || {
        workload();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(test(open()))
    };
    netns.run(run).unwrap()
}

/// A backend in the calling thread's namespace.
pub(crate) fn open() -> LinuxDataplane {
    LinuxDataplane::open(LinuxConfig::default()).unwrap()
}

fn workload() {
    let mut socket = RouteSocket::open().unwrap();
    let end = |name: &str| VethEnd { name: name.parse().unwrap(), netns: None, mac: None };
    socket.carry_out(&[Request::veth(end(WORKLOAD), end("peer0"), 0)]).unwrap();
    // No link-local addresses: the kernel would announce them seconds later, when it knows that nobody else has them.
    for name in [WORKLOAD, "peer0"] {
        std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/addr_gen_mode"), "1").unwrap();
    }
    // Until `lo` is up there is no local table, and without one no gateway passes as a unicast address.
    for name in [WORKLOAD, "peer0", "lo"] {
        let link = socket.link(name.parse().unwrap()).unwrap().unwrap();
        socket.carry_out(&[Request::up(link.index)]).unwrap();
    }
}

/// Keeps the calling thread on one processor. What it sends then is worked off in order, however many links it takes.
pub(crate) fn stay_on_one_processor() {
    let mut processors = CpuSet::new();
    processors.set(sched_getcpu().unwrap()).unwrap();
    sched_setaffinity(Pid::from_raw(0), &processors).unwrap();
}

/// Binds a socket where another may have been bound just before. One that was closed is still open in a process that a parallel test starts
/// just then, until that executes its program.
pub(crate) fn bind(address: IpAddr, port: u16) -> UdpSocket {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        match UdpSocket::bind((address, port)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            bound => return bound.unwrap(),
        }
    }
}

/// Runs a program in the calling thread's namespace and returns what it prints.
pub(crate) fn run(program: &str, arguments: &str) -> String {
    let output = std::process::Command::new(program).args(arguments.split_whitespace()).output();
    let output = output.unwrap_or_else(|error| {
        panic!("this test runs {program}, of the Debian packages nftables, iproute2 and conntrack: {error}")
    });
    assert!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Has `nft` read commands in the calling thread's namespace.
pub(crate) fn nft(commands: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), commands).unwrap();
    run("nft", &format!("-f {}", file.path().display()));
}
