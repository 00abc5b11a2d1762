//! Scenarios on the simulated network. A failing one prints its seed.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use calico_core::net::{AsNumber, Cidr};

use crate::testing::Simulation;

const SECOND: Duration = Duration::from_secs(1);
const SEEDS: core::ops::Range<u64> = 0..20;

fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(192, 168, 0, number)
}

fn block(number: u8) -> Cidr {
    format!("10.0.{number}.0/26").parse().unwrap()
}

/// Hosts 1 to `count` in one AS, each with one block.
fn mesh(seed: u64, count: u8) -> Simulation {
    let mut simulation = Simulation::new(seed);
    for number in 1..=count {
        simulation.add(host(number), AsNumber::DEFAULT, &[block(number)]);
    }
    simulation.mesh();
    simulation
}

fn knows_all(simulation: &Simulation, count: u8) -> bool {
    (1..=count).all(|at| {
        let others = (1..=count).filter(|other| *other != at);
        simulation.routes(host(at)) == others.map(|other| (block(other), IpAddr::V4(host(other)))).collect()
    })
}

#[test]
fn a_mesh_converges_within_two_seconds_and_settles() {
    for seed in SEEDS {
        for count in [2, 3, 8] {
            let mut simulation = mesh(seed, count);
            simulation.start_all();
            let done = |s: &Simulation| {
                s.is_converged() && knows_all(s, count) && (1..=count).all(|number| s.is_settled(host(number)))
            };
            assert!(simulation.run_until(2 * SECOND, done), "seed {seed}, {count} hosts: {simulation:#?}");
            simulation.run_for(600 * SECOND);
            assert!(done(&simulation), "seed {seed}: the mesh did not stay up");
            let sessions = usize::from(count) * usize::from(count - 1);
            assert_eq!(simulation.open_connections(), sessions, "seed {seed}: one connection per pair, two ends each");
        }
    }
}

#[test]
fn a_speaker_alone_settles_at_once() {
    let mut simulation = mesh(1, 1);
    simulation.start(host(1));
    assert!(simulation.is_settled(host(1)));
}
