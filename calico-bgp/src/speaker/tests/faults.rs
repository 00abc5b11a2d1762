//! Scenarios on the simulated network. A failing one prints its seed.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use calico_core::bgp::Originated;
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

#[test]
fn a_killed_speaker_costs_no_route_and_what_it_released_goes_after_end_of_rib() {
    for seed in SEEDS {
        let mut simulation = mesh(seed, 4);
        simulation.start_all();
        assert!(simulation.run_until(5 * SECOND, |s| knows_all(s, 4)), "seed {seed}");
        simulation.kill(host(2));
        simulation.run_for(60 * SECOND);
        assert!(knows_all(&simulation, 4), "seed {seed}: routes must outlive the speaker");
        // While it was away, its block was exchanged for another one.
        simulation.desire(host(2), |desired| desired.originated = vec![Originated::block(block(22))]);
        simulation.start(host(2));
        let moved = |s: &Simulation| {
            [1, 3, 4].iter().all(|at| {
                let routes = s.routes(host(*at));
                routes.get(&block(22)) == Some(&host(2).into()) && !routes.contains_key(&block(2))
            })
        };
        assert!(simulation.run_until(5 * SECOND, moved), "seed {seed}: {simulation:#?}");
        assert!(simulation.is_settled(host(2)) && simulation.routes(host(2)).len() == 3, "seed {seed}");
    }
}

/// However often an agent is killed, no host ever lacks a route to a block that exists.
#[test]
fn ten_kills_in_a_row_cost_no_route() {
    let delays = [Duration::ZERO, SECOND];
    for (seed, delay) in SEEDS.flat_map(|seed| delays.map(|delay| (seed, delay))) {
        let mut simulation = mesh(seed, 3);
        // Without the head start, every reconnection is a collision.
        (1..=3).for_each(|number| simulation.configure(host(number), |config| config.passive_delay = delay));
        simulation.start_all();
        assert!(simulation.run_until(5 * SECOND, |s| knows_all(s, 3)), "seed {seed}");
        for round in 0..10_u64 {
            let victim = host(u8::try_from(round % 3).unwrap() + 1);
            simulation.kill(victim);
            // Before, during and after the peers reconnect.
            let pause = Duration::from_millis((seed * 37 + round * 211) % 1500);
            assert!(!simulation.run_until(pause, |s| !knows_all(s, 3)), "seed {seed}, round {round}: lost a route");
            simulation.start(victim);
            let pause = Duration::from_millis((seed * 91 + round * 57) % 900);
            assert!(!simulation.run_until(pause, |s| !knows_all(s, 3)), "seed {seed}, round {round}: lost a route");
        }
        let calm = |s: &Simulation| s.is_converged() && (1..=3).all(|number| s.is_settled(host(number)));
        assert!(simulation.run_until(30 * SECOND, calm), "seed {seed}: {simulation:#?}");
        assert!(knows_all(&simulation, 3), "seed {seed}");
    }
}

#[test]
fn all_restarting_at_once_lose_nothing_and_wait_for_each_other() {
    for seed in SEEDS {
        let mut simulation = mesh(seed, 4);
        simulation.start_all();
        assert!(simulation.run_until(5 * SECOND, |s| knows_all(s, 4)), "seed {seed}");
        (1..=4).for_each(|number| simulation.kill(host(number)));
        simulation.run_for(SECOND);
        simulation.start_all();
        assert!(!simulation.run_until(10 * SECOND, |s| !knows_all(s, 4)), "seed {seed}: lost a route");
        assert!(simulation.is_converged() && (1..=4).all(|number| simulation.is_settled(host(number))), "seed {seed}");
    }
}

#[test]
fn a_peer_that_stays_away_is_given_up_after_its_restart_time() {
    let mut simulation = mesh(3, 2);
    simulation.start_all();
    assert!(simulation.run_until(5 * SECOND, |s| knows_all(s, 2)));
    simulation.kill(host(2));
    simulation.run_for(115 * SECOND);
    assert!(knows_all(&simulation, 2), "the restart time of 120 s is not over");
    simulation.run_for(10 * SECOND);
    assert!(simulation.routes(host(1)).is_empty(), "{:?}", simulation.routes(host(1)));
}

#[test]
fn a_dead_host_is_noticed_by_the_hold_timer_and_its_routes_go() {
    for seed in SEEDS {
        let mut simulation = mesh(seed, 3);
        simulation.start_all();
        assert!(simulation.run_until(5 * SECOND, |s| knows_all(s, 3)), "seed {seed}");
        simulation.power_off(host(3));
        simulation.run_for(55 * SECOND);
        assert!(simulation.routes(host(1)).contains_key(&block(3)), "seed {seed}: 90 s of silence are not over");
        simulation.run_for(40 * SECOND);
        assert!(!simulation.routes(host(1)).contains_key(&block(3)), "seed {seed}");
        let status = simulation.speaker(host(1)).unwrap().status();
        let dead = status.peers.iter().find(|peer| peer.peer.id.address == IpAddr::V4(host(3))).unwrap();
        assert_eq!(dead.last_error.as_deref(), Some("hold timer expired"), "seed {seed}");
        simulation.start(host(3));
        assert!(simulation.run_until(20 * SECOND, |s| knows_all(s, 3)), "seed {seed}: it must be welcome again");
    }
}

#[test]
fn a_host_that_lost_power_and_returns_before_the_hold_time_replaces_its_old_session() {
    for seed in SEEDS {
        let mut simulation = mesh(seed, 2);
        simulation.start_all();
        assert!(simulation.run_until(5 * SECOND, |s| knows_all(s, 2)), "seed {seed}");
        simulation.run_for(20 * SECOND);
        simulation.power_off(host(2));
        simulation.run_for(5 * SECOND);
        simulation.start(host(2));
        // Host 1 has never noticed: the R bit in the new OPEN tells it.
        let back = |s: &Simulation| s.is_converged() && knows_all(s, 2);
        assert!(simulation.run_until(10 * SECOND, back), "seed {seed}: {simulation:#?}");
        assert_eq!(simulation.open_connections(), 2, "seed {seed}");
    }
}

#[test]
fn a_short_partition_goes_unnoticed_and_a_long_one_heals() {
    for seed in SEEDS {
        let mut simulation = mesh(seed, 3);
        simulation.start_all();
        assert!(simulation.run_until(5 * SECOND, |s| knows_all(s, 3)), "seed {seed}");
        simulation.partition(host(1), host(2));
        simulation.run_for(30 * SECOND);
        simulation.heal();
        simulation.run_for(60 * SECOND);
        assert!(simulation.is_converged() && knows_all(&simulation, 3), "seed {seed}");
        simulation.partition(host(1), host(2));
        simulation.run_for(200 * SECOND);
        assert!(!simulation.routes(host(1)).contains_key(&block(2)), "seed {seed}");
        assert!(simulation.routes(host(1)).contains_key(&block(3)), "seed {seed}");
        simulation.heal();
        let healed = |s: &Simulation| s.is_converged() && knows_all(s, 3);
        assert!(simulation.run_until(60 * SECOND, healed), "seed {seed}: {simulation:#?}");
    }
}

#[test]
fn lost_connections_are_made_anew_without_losing_a_route() {
    for seed in SEEDS {
        let mut simulation = mesh(seed, 3);
        simulation.start_all();
        assert!(simulation.run_until(5 * SECOND, |s| knows_all(s, 3)), "seed {seed}");
        for _ in 0..5 {
            simulation.reset(host(1), host(2));
            assert!(!simulation.run_until(2 * SECOND, |s| !knows_all(s, 3)), "seed {seed}: lost a route");
        }
        assert!(simulation.run_until(10 * SECOND, Simulation::is_converged), "seed {seed}");
    }
}

/// Without the head start both ends call at the same time, always.
#[test]
fn simultaneous_opens_leave_one_session() {
    for seed in 0..100 {
        let mut simulation = mesh(seed, 2);
        for number in [1, 2] {
            simulation.configure(host(number), |config| config.passive_delay = Duration::ZERO);
        }
        simulation.start_all();
        let up = |s: &Simulation| s.is_converged() && knows_all(s, 2);
        assert!(simulation.run_until(SECOND, up), "seed {seed}: {simulation:#?}");
        simulation.run_for(300 * SECOND);
        assert!(up(&simulation), "seed {seed}: the session did not stay");
        assert_eq!(simulation.open_connections(), 2, "seed {seed}: one connection, two ends");
    }
}

#[test]
fn a_removed_peer_is_told_and_its_routes_go_at_once() {
    let mut simulation = mesh(5, 3);
    simulation.start_all();
    assert!(simulation.run_until(5 * SECOND, |s| knows_all(s, 3)));
    simulation.desire(host(1), |desired| desired.peers.retain(|peer| peer.id.address != IpAddr::V4(host(2))));
    assert!(!simulation.routes(host(1)).contains_key(&block(2)));
    simulation.run_for(SECOND);
    assert!(!simulation.routes(host(2)).contains_key(&block(1)), "a Cease ends graceful restart");
    let status = simulation.speaker(host(2)).unwrap().status();
    let error = status.peers[0].last_error.clone().unwrap_or_default();
    assert!(error.contains("peer de-configured"), "{error}");
    assert!(simulation.routes(host(3)).contains_key(&block(1)), "others are not concerned");
    simulation.mesh();
    assert!(simulation.run_until(35 * SECOND, |s| knows_all(s, 3)));
}

/// A mesh of one AS per node: routes are passed on, loops are not, and the direct path wins.
#[test]
fn an_external_mesh_routes_around_a_broken_session() {
    for seed in SEEDS {
        let mut simulation = Simulation::new(seed);
        for number in 1..=3 {
            simulation.add(host(number), AsNumber::new(65000 + u32::from(number)), &[block(number)]);
        }
        simulation.mesh();
        simulation.start_all();
        assert!(simulation.run_until(5 * SECOND, |s| s.is_converged() && knows_all(s, 3)), "seed {seed}");
        for (at, without) in [(1, 2), (2, 1)] {
            simulation
                .desire(host(at), |desired| desired.peers.retain(|peer| peer.id.address != IpAddr::V4(host(without))));
        }
        let around = |s: &Simulation| {
            s.routes(host(1)).get(&block(2)) == Some(&host(3).into())
                && s.routes(host(2)).get(&block(1)) == Some(&host(3).into())
        };
        assert!(simulation.run_until(5 * SECOND, around), "seed {seed}: {simulation:#?}");
    }
}

#[test]
fn a_peer_with_too_many_prefixes_is_cut_off() {
    let mut simulation = Simulation::new(1);
    let many: Vec<Cidr> = (1..=20).map(block).collect();
    simulation.add(host(1), AsNumber::DEFAULT, &[]);
    simulation.add(host(2), AsNumber::DEFAULT, &many);
    simulation.mesh();
    simulation.configure(host(1), |config| config.maximum_prefixes = 19);
    simulation.start_all();
    simulation.run_for(4 * SECOND);
    assert!(simulation.routes(host(1)).is_empty());
    let error = simulation.speaker(host(2)).unwrap().status().peers[0].last_error.clone().unwrap_or_default();
    assert!(error.contains("maximum number of prefixes"), "{error}");
}

/// Random faults from a seed: once they stop, everything is as if there had been none.
#[test]
fn any_history_of_faults_ends_in_the_same_place() {
    for seed in 0..30_u64 {
        let mut simulation = mesh(seed, 4);
        simulation.start_all();
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut draw = |limit: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % limit
        };
        for _ in 0..25 {
            let (a, b) = (u8::try_from(draw(4)).unwrap() + 1, u8::try_from(draw(4)).unwrap() + 1);
            match draw(6) {
                0 => simulation.kill(host(a)),
                1 => simulation.power_off(host(a)),
                2 => simulation.start(host(a)),
                3 if a != b => simulation.partition(host(a), host(b)),
                4 => simulation.heal(),
                _ => simulation.reset(host(a), host(b)),
            }
            simulation.run_for(Duration::from_millis(draw(20_000)));
        }
        simulation.heal();
        for number in 1..=4 {
            if simulation.speaker(host(number)).is_none() {
                simulation.start(host(number));
            }
        }
        let calm = |s: &Simulation| s.is_converged() && knows_all(s, 4) && (1..=4).all(|n| s.is_settled(host(n)));
        assert!(simulation.run_until(400 * SECOND, calm), "seed {seed}: {simulation:#?}");
        // Half-open leftovers of hosts that lost power are gone once the OPEN exchange times out.
        simulation.run_for(300 * SECOND);
        assert!(calm(&simulation), "seed {seed}");
        assert_eq!(simulation.open_connections(), 12, "seed {seed}: {simulation:#?}");
    }
}
