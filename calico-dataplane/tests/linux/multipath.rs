//! Routes by several gateways, in both families, as the kernel holds and uses them.

use std::net::IpAddr;
use std::time::Duration;

use calico_core::table::{Delta, Route, RouteClass, RouteKey, RouteTableId, RouteTarget};
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use calico_dataplane::{Dataplane, LinuxDataplane};

use super::fixture::{in_namespace, open, run};

fn route(dest: &str, gateways: &[&str]) -> Route {
    let key = RouteKey { table: RouteTableId::MAIN, dest: dest.parse().unwrap(), metric: 4096 };
    let gateways = gateways.iter().map(|gateway| gateway.parse::<IpAddr>().unwrap());
    Route { key, target: RouteTarget::via(gateways).unwrap(), class: RouteClass::Bgp }
}

fn addresses() {
    run("ip", "address add 192.0.2.1/24 dev peer0");
    run("ip", "address add 198.51.100.1/24 dev cali00001");
    run("ip", "-6 address add 2001:db8:1::1/64 dev peer0 nodad");
    run("ip", "-6 address add 2001:db8:2::1/64 dev cali00001 nodad");
}

async fn held(dataplane: &mut LinuxDataplane) -> Vec<Route> {
    dataplane.observe().await.unwrap().routes.into_values().collect()
}

const V4: [&str; 3] = ["192.0.2.2", "192.0.2.3", "198.51.100.2"];
const V6: [&str; 3] = ["2001:db8:1::2", "2001:db8:1::3", "2001:db8:2::2"];

#[test]
fn gateways_come_and_go_and_are_read_back() {
    in_namespace(async |mut dataplane| {
        addresses();
        for count in [2, 3, 1, 3, 2, 1] {
            let wanted = vec![route("10.65.0.0/26", &V4[..count]), route("fd65::/64", &V6[..count])];
            let delta = Delta { routes_set: wanted.clone(), ..Delta::default() };
            let report = dataplane.apply(&delta).await;
            assert!(report.routes.is_empty(), "{report:?}");
            assert_eq!(held(&mut dataplane).await, wanted);
            assert_eq!(run("ip", "-4 route show proto 82").matches("via ").count(), count);
            assert_eq!(run("ip", "-6 route show proto 82").matches("via ").count(), count);
        }
        let several = vec![route("10.65.0.0/26", &V4), route("fd65::/64", &V6)];
        dataplane.apply(&Delta { routes_set: several.clone(), ..Delta::default() }).await;
        let removal = Delta { routes_removed: several.iter().map(|route| route.key).collect(), ..Delta::default() };
        dataplane.apply(&removal).await;
        assert_eq!(
            run("ip", "-4 route show proto 82") + &run("ip", "-6 route show proto 82"),
            "",
            "every gateway went"
        );
    });
}

/// Each flow keeps to one way, and flows are spread.
#[test]
fn flows_are_spread_over_the_gateways() {
    in_namespace(async |mut dataplane| {
        addresses();
        std::fs::write("/proc/sys/net/ipv4/fib_multipath_hash_policy", "1").unwrap();
        let delta = Delta { routes_set: vec![route("10.65.0.0/26", &[V4[0], V4[2]])], ..Delta::default() };
        dataplane.apply(&delta).await;
        let way = |port: u16| run("ip", &format!("route get 10.65.0.1 ipproto tcp sport 40000 dport {port}"));
        let ways: Vec<String> = (1..40).map(way).collect();
        assert!(ways.iter().any(|way| way.contains("via 192.0.2.2")), "{ways:?}");
        assert!(ways.iter().any(|way| way.contains("via 198.51.100.2")), "{ways:?}");
        assert_eq!(way(1), way(1));
    });
}

#[test]
fn a_gateway_that_others_take_away_comes_back_and_a_restart_writes_nothing() {
    in_namespace(async |dataplane| {
        addresses();
        let wanted = vec![route("10.65.0.0/26", &V4[..2]), route("fd65::/64", &V6[..2])];
        let clock = || Duration::ZERO;
        let start = async |dataplane| {
            let mut driver =
                Driver::new(Reconciler::new(Delta::default(), ReconcileConfig::default()), Box::new(dataplane));
            driver.machine().set_in_sync();
            driver.machine().desire(&Delta { routes_set: wanted.clone(), ..Delta::default() });
            let mut written = 0;
            loop {
                match driver.step(&clock).await {
                    Step::Idle => return (driver, written),
                    Step::Applied { .. } => written += 1,
                    _ => {}
                }
            }
        };
        let (mut driver, _) = start(dataplane).await;
        let whole = || (run("ip", "-4 route show proto 82"), run("ip", "-6 route show proto 82"));
        let before = whole();
        for command in [
            "route replace 10.65.0.0/26 via 192.0.2.2 metric 4096 proto 82",
            "route replace 10.65.0.0/26 metric 4096 proto 82 nexthop via 192.0.2.2 weight 3 nexthop via 192.0.2.3",
            "-6 route del fd65::/64 via 2001:db8:1::3 metric 4096 proto 82",
        ] {
            run("ip", command);
            assert_ne!(whole(), before, "{command}");
            let deadline = std::time::Instant::now() + Duration::from_secs(30);
            while whole() != before {
                assert!(std::time::Instant::now() < deadline, "{command}: {:?}", whole());
                tokio::time::timeout(Duration::from_secs(30), driver.next_change()).await.unwrap().unwrap();
                while !matches!(driver.step(&clock).await, Step::Idle) {}
            }
        }
        drop(driver);
        let (_, written) = start(open()).await;
        assert_eq!(written, 0, "what is as it should be is not written");
    });
}
