//! A stored workload endpoint into the model and back, as every store does it for every object that it lists or that changes.
//!
//! Peer: `serde_json` of the same bytes into a `Value` and back, in the same run. Limit: the same, for a `Value` is what fields that
//! the model does not know are kept in. Target: decoding within twice the peer's time, encoding within three times (it makes the `Value`
//! first). D1 of `calico-lab bench` measures 250 000 of them out of etcd.

use calico_core::resource::{Kind, Resource};
use divan::{Bencher, black_box};
use serde_json::Value;

fn main() {
    divan::main();
}

/// About 1 kB, as Kubernetes' plugin writes it.
const STORED: &str = r#"{"kind":"WorkloadEndpoint","apiVersion":"projectcalico.org/v3","metadata":{"name":"worker--17.zone--a.example.com-k8s-checkout--8f3a9c21d4--006a1-eth0","namespace":"team-6","uid":"0d1ad7f2-52f9-4bb5-9d0c-0f7a0c6b52a4","creationTimestamp":"2026-11-30T12:00:00Z","labels":{"app.kubernetes.io/name":"checkout","pod-template-hash":"8f3a9c21d4","projectcalico.org/namespace":"team-6","projectcalico.org/orchestrator":"k8s","projectcalico.org/serviceaccount":"default","tier":"backend"}},"spec":{"orchestrator":"k8s","node":"worker-17.zone-a.example.com","containerID":"5f0c3d0be2a3b8d1f1b5c1a27c9cc0f8f0f36a9dd1a4b5a4e8df04f2f4a0c3bd","pod":"checkout-8f3a9c21d4-006a1","endpoint":"eth0","serviceAccountName":"default","ipNetworks":["10.0.6.161/32"],"profiles":["kns.team-6","ksa.team-6.default"],"interfaceName":"cali0f3a9c21d40","mac":"02:42:0a:00:06:a1","ports":[{"name":"http","protocol":"TCP","port":8080,"hostPort":0,"hostIP":""}]}}"#;

fn document() -> Value {
    serde_json::from_str(STORED).unwrap_or_default()
}

/// Bytes to the model.
#[divan::bench]
fn decode() -> Option<Resource> {
    let document: Value = serde_json::from_slice(black_box(STORED).as_bytes()).ok()?;
    Resource::decode(Kind::WorkloadEndpoint, &document).ok()
}

/// The peer of [`decode`].
#[divan::bench]
fn decode_peer() -> Option<Value> {
    serde_json::from_slice(black_box(STORED).as_bytes()).ok()
}

/// The model to bytes.
#[divan::bench]
fn encode(bencher: Bencher<'_, '_>) {
    let resource = Resource::decode(Kind::WorkloadEndpoint, &document()).ok();
    bencher.bench_local(|| black_box(&resource).as_ref().map(|resource| resource.encode().to_string()));
}

/// The peer of [`encode`].
#[divan::bench]
fn encode_peer(bencher: Bencher<'_, '_>) {
    let document = document();
    bencher.bench_local(|| black_box(&document).to_string());
}
