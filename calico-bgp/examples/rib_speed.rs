//! How fast and how large the RIB alone is: prefixes in, UPDATEs and routes out, nothing else in the process.
//!
//! ```text
//! cargo run --release -p calico-bgp --features testing --example rib_speed -- 100000 20
//! ```
#![expect(clippy::disallowed_methods, reason = "a stopwatch needs a clock")]

use std::time::Instant;

use calico_bgp::testing::RibBench;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u32>().ok());
    let mut next = |usual: u32| arguments.next().flatten().unwrap_or(usual).max(1);
    let (prefixes, per_set) = (next(100_000), next(20));
    let mut bench = RibBench::new(1);
    let before = resident();
    let each = |since: Instant| since.elapsed().as_nanos() / u128::from(prefixes);
    for round in ["first", "again, otherwise"] {
        let start = Instant::now();
        bench.announce(prefixes, per_set);
        let announced = each(start);
        let start = Instant::now();
        let (octets, routes) = bench.deliver();
        println!("{round}: {announced} ns/prefix in, {} ns/prefix out; {octets} octets, {routes} routes", each(start));
    }
    println!("resident: {} octets/prefix", (resident() - before) * 1024 / u64::from(prefixes));
    let start = Instant::now();
    bench.withdraw(prefixes);
    bench.deliver();
    println!("withdrawn: {} ns/prefix; {} prefixes left", each(start), bench.prefixes());

    let listeners = 1000;
    let mut bench = RibBench::new(listeners);
    bench.announce(4000, 4);
    bench.deliver();
    let start = Instant::now();
    bench.announce(1, 1);
    bench.deliver();
    println!("one change to {listeners} peers: {} µs", start.elapsed().as_micros());
}

/// KiB that the process has in memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()).and_then(|number| number.parse().ok()).unwrap_or(0)
}
