use calico_core::table::{Delta, InterfaceSetting};
use calico_dataplane::Dataplane;
use calico_dataplane::testing::netns::scratch;

use super::fixture::{WORKLOAD, in_namespace, open};

fn setting(interface: &str, path: &'static str, value: &str) -> Delta {
    let setting = InterfaceSetting { interface: interface.parse().unwrap(), path, value: value.into() };
    Delta { settings: vec![setting], ..Delta::default() }
}

#[test]
fn settings_are_those_of_the_namespace_that_was_opened() {
    let path = "net/ipv4/conf/{}/forwarding";
    let read = || std::fs::read_to_string("/proc/sys/net/ipv4/conf/lo/forwarding").unwrap();
    let (netns, other) = (scratch(), scratch());
    let mut dataplane = netns.run(open).unwrap();
    let before = netns.run(read).unwrap();
    let value = if before.trim() == "1" { "0" } else { "1" };
    let apply = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(dataplane.apply(&setting("lo", path, value)))
    };
    // From a thread in another namespace.
    assert!(other.run(apply).unwrap().is_complete());
    assert_eq!(netns.run(read).unwrap().trim(), value);
    assert_eq!(other.run(read).unwrap(), before);
}

#[test]
fn both_families_and_neighbours_have_settings() {
    in_namespace(async |mut dataplane| {
        for (path, value) in [
            ("net/ipv4/conf/{}/proxy_arp", "1"),
            ("net/ipv4/conf/{}/rp_filter", "1"),
            ("net/ipv4/neigh/{}/proxy_delay", "0"),
            ("net/ipv6/conf/{}/accept_ra", "0"),
            ("net/ipv6/conf/{}/proxy_ndp", "1"),
        ] {
            let report = dataplane.apply(&setting(WORKLOAD, path, value)).await;
            assert!(report.is_complete(), "{report:?}");
            let written = std::fs::read_to_string(format!("/proc/sys/{}", path.replace("{}", WORKLOAD))).unwrap();
            assert_eq!(written.trim(), value, "{path}");
        }
        let refused = dataplane.apply(&setting(WORKLOAD, "net/ipv4/conf/{}/proxy_arp", "yes")).await;
        assert_eq!(refused.settings.len(), 1);
        let unknown = dataplane.apply(&setting(WORKLOAD, "net/ipv4/conf/{}/no_such_setting", "1")).await;
        assert_eq!(unknown.settings.len(), 1);
    });
}
