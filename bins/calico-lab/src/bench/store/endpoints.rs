//! Workload endpoints as Kubernetes' plugin writes them, from a seed and a number.

use std::net::Ipv4Addr;
use std::sync::Arc;

use calico_core::resource::{Kind, Resource, ResourceKey};
use calico_core::testing::Random;
use serde_json::json;

use crate::error::LabError;

/// The seed of all runs, which they print.
pub(in crate::bench) const SEED: u64 = 20_261_130;

/// Endpoints of one host, and of one namespace.
const ON_A_HOST: u32 = 100;
const IN_A_NAMESPACE: u32 = 250;

/// The endpoint of a number. Its document takes about 1 kB.
pub(in crate::bench) fn endpoint(seed: u64, number: u32) -> Result<(ResourceKey, Arc<Resource>), LabError> {
    in_namespace(seed, number, &namespace(number / IN_A_NAMESPACE))
}

/// The name of a namespace's number.
pub(super) fn namespace(number: u32) -> String {
    format!("team-{number}")
}

/// The endpoint of a number, in a namespace of the caller's choice.
pub(super) fn in_namespace(seed: u64, number: u32, namespace: &str) -> Result<(ResourceKey, Arc<Resource>), LabError> {
    let mut random = Random::new(seed.wrapping_add(u64::from(number)));
    let app = ["frontend", "checkout", "catalogue", "payments", "search"].map(String::from);
    let app = random.pick(&app);
    let node = format!("worker-{}.zone-a.example.com", number / ON_A_HOST);
    let (replica, pod) = (format!("{:010x}", random.bits() >> 24), format!("{number:05x}"));
    let pod = format!("{app}-{replica}-{pod}");
    let hex = |random: &mut Random, words: usize| (0..words).map(|_| format!("{:016x}", random.bits())).collect();
    let (container, uid): (String, String) = (hex(&mut random, 4), hex(&mut random, 2));
    let [_, a, b, c] = number.to_be_bytes();
    let document = json!({
        "apiVersion": "projectcalico.org/v3",
        "kind": "WorkloadEndpoint",
        "metadata": {
            "name": format!("{}-k8s-{}-eth0", node.replace('-', "--"), pod.replace('-', "--")),
            "namespace": namespace,
            "uid": uid,
            "creationTimestamp": "2026-11-30T12:00:00Z",
            "labels": {
                "app.kubernetes.io/name": app,
                "pod-template-hash": replica,
                "projectcalico.org/namespace": namespace,
                "projectcalico.org/orchestrator": "k8s",
                "projectcalico.org/serviceaccount": "default",
                "tier": random.pick(&["backend", "edge"]),
            },
        },
        "spec": {
            "orchestrator": "k8s", "node": node, "containerID": container, "pod": pod, "endpoint": "eth0",
            "serviceAccountName": "default", "ipNetworks": [format!("{}/32", Ipv4Addr::new(10, a, b, c))],
            "profiles": [format!("kns.{namespace}"), format!("ksa.{namespace}.default")],
            "interfaceName": format!("cali{:011x}", random.bits() >> 20), "mac": format!("02:42:0a:{a:02x}:{b:02x}:{c:02x}"),
            "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
        },
    });
    let decoded = Resource::decode(Kind::WorkloadEndpoint, &document)
        .map_err(|faults| LabError::new(format!("the generated endpoint is refused: {faults:?}")))?;
    let key = decoded.key().ok_or_else(|| LabError::new("the generated endpoint has no key"))?;
    Ok((key, Arc::new(decoded)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_decides_and_no_two_are_alike() {
        let (key, resource) = endpoint(SEED, 7).unwrap();
        assert_eq!((&key, &resource), (&endpoint(SEED, 7).unwrap().0, &endpoint(SEED, 7).unwrap().1));
        assert_ne!(key, endpoint(SEED, 8).unwrap().0);
        assert_ne!(resource, endpoint(SEED + 1, 7).unwrap().1);
        let bytes = resource.encode().to_string().len();
        assert!((900..1300).contains(&bytes), "{bytes}");
    }
}
