//! Limits on bandwidth come, change and go with endpoints and their interfaces.

use calico_core::resource::QosControls;
use calico_core::table::Shaper;

use super::*;
use crate::{Shaped, TokenBucket};

/// Endpoint 1, limited to so many bits a second in both directions, or in none.
fn limited(bandwidth: Option<i64>) -> Event {
    let Event::EndpointSet { id, endpoint } = endpoint(1, &[]) else { unreachable!("an endpoint event") };
    let qos = QosControls { ingress_bandwidth: bandwidth, egress_bandwidth: bandwidth, ..QosControls::default() };
    Event::EndpointSet { id, endpoint: Arc::new(ActiveEndpoint { qos: Some(Arc::new(qos)), ..(*endpoint).clone() }) }
}

fn sent() -> InterfaceName {
    Shaper::of_sent(cali(1)).device
}

/// The rates at both devices.
fn rates(host: &Recording) -> [Option<u64>; 2] {
    let shapings = host.shapings();
    [cali(1), sent()].map(|device| Some(shapings.get(&device)?.bucket?.rate))
}

fn limits_written(host: &Recording) -> usize {
    host.take_applied().iter().map(|delta| delta.shapings_set.len() + delta.shapings_removed.len()).sum()
}

fn limited_host() -> (Recording, Node) {
    let host = Recording::new();
    host.set_link(cali(1), up(7));
    let mut node = Node::in_sync(&host);
    node.events(&[limited(Some(8_000))]);
    node.settle();
    assert_eq!(rates(&host), [Some(1_000); 2]);
    assert_eq!(node.state("cali1"), WorkloadState::Programmed);
    assert_eq!(limits_written(&host), 2);
    (host, node)
}

#[test]
fn limits_are_written_once_and_changed_and_lifted() {
    let (host, mut node) = limited_host();
    node.events(&[limited(Some(8_000))]);
    node.settle();
    assert_eq!(limits_written(&host), 0);
    let mut successor = Node::in_sync(&host);
    successor.events(&[limited(Some(8_000))]);
    successor.settle();
    assert_eq!(limits_written(&host), 0, "a restart over an unchanged host");
    successor.events(&[limited(Some(16_000))]);
    successor.settle();
    assert_eq!((rates(&host), limits_written(&host)), ([Some(2_000); 2], 2));
    successor.events(&[limited(None)]);
    successor.settle();
    assert!(host.shapings().is_empty());
    // An agent that was not there when the limit was lifted finds it.
    let (host, _) = limited_host();
    Node::in_sync(&host).settle();
    assert!(host.shapings().is_empty());
}

#[test]
fn limits_follow_the_interface() {
    let (host, mut node) = limited_host();
    let bucket = || host.shapings()[&sent()].bucket;
    let before = bucket();
    for up in [false, true] {
        host.set_link(cali(1), Some(LinkState { index: 7, up, mtu: 1500 }));
        node.settle();
    }
    assert_eq!(limits_written(&host), 0, "a queue outlives that its device is down");
    host.set_link(cali(1), Some(LinkState { index: 7, up: true, mtu: 9000 }));
    node.settle();
    assert!(bucket() == before && limits_written(&host) == 0, "the burst is larger than any packet");
    host.set_link(cali(1), None);
    node.settle();
    assert_eq!((rates(&host), limits_written(&host)), ([None; 2], 0), "it waits");
    assert!(matches!(node.state("cali1"), WorkloadState::Waiting { .. }));
    host.set_link(cali(1), up(9));
    node.settle();
    assert_eq!((rates(&host), limits_written(&host)), ([Some(1_000); 2], 2));
    assert_eq!(node.driver.machine().take_drift(), None, "nobody undid anything");
    // The device goes with the endpoint, though the interface went first.
    host.set_link(cali(1), None);
    node.events(&[Event::EndpointRemoved(endpoint_id(1))]);
    node.settle();
    assert!(host.shapings().is_empty() && node.driver.state().is_settled());
}

#[test]
fn what_a_bucket_must_hold_follows_the_largest_packet() {
    let host = Recording::new();
    host.set_link(cali(1), up(7));
    let mut node = Node::in_sync(&host);
    let Event::EndpointSet { id, endpoint } = endpoint(1, &[]) else { unreachable!("an endpoint event") };
    let qos = QosControls { ingress_bandwidth: Some(8_000), ingress_burst: Some(8_000), ..QosControls::default() };
    let endpoint = ActiveEndpoint { qos: Some(Arc::new(qos)), ..(*endpoint).clone() };
    node.events(&[Event::EndpointSet { id, endpoint: Arc::new(endpoint) }]);
    node.settle();
    let depth = || host.shapings()[&cali(1)].bucket.unwrap().depth;
    let before = depth();
    host.set_link(cali(1), Some(LinkState { index: 7, up: true, mtu: 9000 }));
    node.settle();
    assert!(depth() > before && node.driver.state().is_settled(), "{before}");
}

#[test]
fn what_fails_is_named_and_tried_again_and_the_rest_goes_on() {
    let host = Recording::new();
    host.set_link(cali(1), up(7));
    host.set_faults(Faults { shapers: BTreeSet::from([sent()]), ..Faults::default() });
    let mut node = Node::in_sync(&host);
    node.events(&[limited(Some(8_000)), policy(0, &[])]);
    node.work();
    assert_eq!(rates(&host), [Some(1_000), None]);
    assert_eq!(host.routes().len(), 1);
    assert!(node.failures()[0].starts_with(&format!("limit on bandwidth at {}: ", sent())), "{:?}", node.failures());
    let WorkloadState::Waiting { reasons } = node.state("cali1") else { panic!("{:?}", node.state("cali1")) };
    assert!(reasons[0].contains("limit on bandwidth"), "{reasons:?}");
    // No longer wanted: what failed may be there in part.
    host.take_applied();
    node.events(&[limited(None)]);
    node.work();
    assert_eq!(rates(&host), [None; 2]);
    host.set_faults(Faults::default());
    node.settle();
    assert!(host.take_applied().iter().any(|delta| delta.shapings_removed.contains(&Shaper::of_sent(cali(1)))));
    node.events(&[limited(Some(8_000))]);
    node.settle();
    assert_eq!((rates(&host), node.failures()), ([Some(1_000); 2], Vec::new()));
}

/// It may have been made in part, so what was there before is written again.
#[test]
fn a_change_that_failed_is_taken_back_by_writing() {
    let (host, mut node) = limited_host();
    host.set_faults(Faults { shapers: BTreeSet::from([sent()]), ..Faults::default() });
    node.events(&[limited(Some(16_000))]);
    node.work();
    assert_eq!(rates(&host), [Some(2_000), Some(1_000)]);
    host.take_applied();
    host.set_faults(Faults::default());
    node.events(&[limited(Some(8_000))]);
    node.settle();
    assert_eq!((rates(&host), limits_written(&host)), ([Some(1_000); 2], 2));
}

#[test]
fn what_leads_another_interface_to_the_device_goes() {
    let (host, _) = limited_host();
    let bucket = host.shapings()[&sent()].bucket;
    host.set_shaping(sent(), Some(Shaped { source: Some(cali(2)), bucket }));
    let mut successor = Node::in_sync(&host);
    successor.events(&[limited(Some(8_000))]);
    successor.settle();
    let removed: Vec<_> = host.take_applied().into_iter().flat_map(|delta| delta.shapings_removed).collect();
    assert_eq!(removed, [Shaper { device: sent(), source: Some(cali(2)) }]);
    assert_eq!(host.shapings()[&sent()].source, Some(cali(1)));
}

#[test]
fn what_others_change_is_made_right_and_what_is_theirs_is_left_alone() {
    let (host, mut node) = limited_host();
    let broken = Shaped { source: Some(cali(1)), bucket: None };
    for change in [None, Some(broken)] {
        for device in [cali(1), sent()] {
            host.set_shaping(device, change);
            node.settle();
            assert_eq!((rates(&host), limits_written(&host)), ([Some(1_000); 2], 1));
            assert_eq!(node.driver.machine().take_drift(), Some(Object::Shaper(device)));
        }
    }
    // Somebody's own limit at an interface that we do not limit.
    host.set_link(cali(2), up(8));
    let bucket = TokenBucket { rate: 1, depth: 1, limit: 1, peak: None };
    host.set_shaping(cali(2), Some(Shaped { source: None, bucket: Some(bucket) }));
    node.settle();
    assert!(host.shapings().contains_key(&cali(2)) && node.driver.state().is_settled());
    // A fight is named and slowed down.
    let before = node.now;
    for _ in 0..20 {
        host.set_shaping(cali(1), None);
        node.settle();
    }
    assert!(node.now > before);
    host.set_shaping(cali(1), None);
    node.work();
    assert_eq!(rates(&host), [None, Some(1_000)], "it waits");
    node.settle();
    assert_eq!(node.driver.state().fought_over(node.now).collect::<Vec<_>>(), [&Object::Shaper(cali(1))]);
    assert_eq!(rates(&host), [Some(1_000); 2]);
}
