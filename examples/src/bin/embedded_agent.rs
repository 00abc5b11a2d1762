//! The agent as a library: a store in memory, a host in memory, nobody to speak BGP with, no root.
//!
//! An orchestrator that has a datastore or a way to program hosts of its own brings it as a `Datastore` or a `Dataplane`; the agent
//! in between is the one that `calico-node` runs.

use std::error::Error;
use std::sync::Arc;

use calico_bgp::RecordingBackend;
use calico_cmd::control::{Answer, Success, Verb};
use calico_core::bgp::RouterIdSource;
use calico_core::net::InterfaceList;
use calico_core::render::{RenderConfig, Renderer};
use calico_dataplane::LinkState;
use calico_dataplane::reconcile::ReconcileConfig;
use calico_dataplane::recording::Recording;
use calico_datastore::memory::MemoryStore;
use calico_datastore::sync::SyncOptions;
use calico_datastore::{Batch, Change, Datastore, Precondition, Write};
use calico_examples::{SAMPLE, read};
use calico_node::agent::{Agent, Parts};
use calico_node::control::Call;
use calico_node::metrics::Metrics;
use tokio::sync::oneshot;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (store, host) = (MemoryStore::new(), Recording::new());
    let agent = Agent::new(Parts {
        node: "host-2".into(),
        store: Arc::new(store.clone()),
        dataplane: Box::new(host.clone()),
        bgp: Some(Box::new(RecordingBackend::new())),
        bgp_port: 179,
        router_id: RouterIdSource::default(),
        renderer: Box::new(Renderer::new(RenderConfig::default())),
        excluded_interfaces: InterfaceList::default(),
        reconcile: ReconcileConfig::default(),
        end_denied_connections: Some(RenderConfig::default().settings()),
        sync: SyncOptions::default(),
        metrics: Arc::new(Metrics::default()),
    });
    let calls = agent.calls();
    let running = tokio::spawn(agent.run(std::future::pending()));

    // The orchestrator attaches a workload: its interface appears, its endpoint is written.
    host.set_link("cali0database".parse()?, Some(LinkState { index: 7, up: true, mtu: 1500 }));
    for resource in read("the sample", SAMPLE)? {
        let key = resource.key().ok_or("a document without a name")?;
        let change = Change::Put { resource: Arc::new(resource), base: None, ttl: None };
        store.commit(Batch { writes: vec![Write { key, precondition: Precondition::Absent, change }] }).await?;
    }

    // It waits until the policy is in force, as the CNI plugin does over the control socket.
    let (answer, enforced) = oneshot::channel();
    let name = "host--2-k8s-database--0-eth0".to_owned();
    let verb =
        Verb::WaitEndpoint { namespace: "shop".into(), name: name.clone(), attachment: None, timeout_ms: 10_000 };
    calls.send(Call { verb, answer }).await?;
    match enforced.await? {
        Answer::Ok(Success::Enforced) => println!("{name} is enforced; the host now holds:\n"),
        other => return Err(format!("{other:?}").into()),
    }
    for chain in host.ruleset().chains() {
        println!("{chain}");
    }
    for route in host.routes() {
        println!("{route}");
    }
    running.abort();
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn runs() {
        super::main().unwrap();
    }
}
