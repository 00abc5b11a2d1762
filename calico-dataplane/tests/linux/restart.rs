//! A restart with other settings: the kernel refuses nothing of what leads from the former rendering to the new one.

use std::time::Duration;

use calico_core::render::{PolicyRenderer, RenderConfig, Renderer};
use calico_core::table::Delta;
use calico_dataplane::reconcile::{Driver, ReconcileConfig, Reconciler, Step};
use calico_dataplane::{Dataplane, LinuxDataplane, Observed};

use super::fixture::{in_namespace, open};
use super::host_endpoints::{everything, otherwise};

/// One life of an agent with everything active; answers what the host then holds.
async fn live(config: &RenderConfig, dataplane: LinuxDataplane) -> Observed {
    let mut renderer = Renderer::new(config.clone());
    let mut machine = Reconciler::new(renderer.skeleton(), ReconcileConfig::default());
    let [policies, endpoints] = everything();
    let mut delta = Delta::default();
    policies.iter().chain(&endpoints).for_each(|event| renderer.handle(event, &mut delta));
    // Interfaces and routes are not what this is about.
    (delta.routes_set, delta.neighbors_set, delta.settings) = Default::default();
    machine.desire(&delta);
    machine.set_in_sync();
    machine.set_bgp_settled();
    let mut driver = Driver::new(machine, Box::new(dataplane));
    for _ in 0..20 {
        match driver.step(&|| Duration::ZERO).await {
            Step::Idle => {
                assert!(driver.state().is_settled(), "{:?}", driver.state().failures().collect::<Vec<_>>());
                return open().observe().await.unwrap();
            }
            Step::Looked => {}
            Step::LookFailed(error) => panic!("{error}"),
            Step::Applied { delta, report } => assert!(report.is_complete(), "{report:?} for\n{delta}"),
        }
    }
    panic!("there is always something to do");
}

#[test]
fn a_restart_with_other_settings_is_refused_nothing() {
    in_namespace(async |dataplane| {
        let configs = [RenderConfig::default(), otherwise()];
        let first = live(&configs[0], dataplane).await;
        let second = live(&configs[1], open()).await;
        assert_ne!(first.chains, second.chains);
        let third = live(&configs[0], open()).await;
        assert_eq!((first.chains, first.sets), (third.chains, third.sets), "nothing of the other remains");
    });
}
