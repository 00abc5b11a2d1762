use calico_dataplane::testing::conformance;

use super::fixture::{WORKLOAD, in_namespace};

#[test]
fn the_linux_backend_keeps_the_contract() {
    in_namespace(async |mut dataplane| {
        conformance::suite(&mut dataplane, WORKLOAD.parse().unwrap()).await;
    });
}
