//! The orchestrator's part: labels and named ports of endpoints, which a plain CNI runtime does not tell the plugin.

use std::fs;

use serde_json::{Value, json};

use crate::ctl;
use crate::error::{Context, LabError};
use crate::record::Record;
use crate::state::StateDir;

/// The port that policies call `web`.
pub(crate) const WEB: u16 = 8080;

/// Labels every attached pod's endpoint with its role and gives it a named port, through `calicoctl`.
pub(crate) async fn apply(state: &StateDir, record: &Record) -> Result<(), LabError> {
    let listing = ["get", "workloadendpoints", "--all-namespaces", "-o", "json"];
    let printed = ctl::run(state, &record.plan, listing).await?;
    let mut list: Value = serde_json::from_slice(&printed).context(|| "cannot read the endpoints".into())?;
    let items = list.get_mut("items").and_then(Value::as_array_mut);
    for endpoint in items.ok_or_else(|| LabError::new("calicoctl printed no list of endpoints"))? {
        label(endpoint, record);
    }
    let file = state.path().join("endpoints.json");
    fs::write(&file, list.to_string()).context(|| format!("cannot write {}", file.display()))?;
    ctl::run(state, &record.plan, ["apply".as_ref(), "-f".as_ref(), file.as_os_str()]).await?;
    Ok(())
}

fn label(endpoint: &mut Value, record: &Record) {
    let has = |address: std::net::IpAddr| {
        let networks = endpoint.pointer("/spec/ipNetworks").and_then(Value::as_array);
        networks.is_some_and(|networks| networks.contains(&json!(format!("{address}/32"))))
    };
    let Some(pod) = record.pods.iter().find(|attached| has(attached.address)).map(|attached| attached.pod) else {
        return;
    };
    if let Some(metadata) = endpoint.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.shift_remove("resourceVersion");
        let labels = metadata.entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert("role".into(), pod.role().label().into());
            labels.insert("host".into(), pod.host.to_string().into());
        }
    }
    if let Some(spec) = endpoint.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("ports".into(), json!([{"name": "web", "protocol": "TCP", "port": WEB}]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::DatastoreKind;
    use crate::plan::{HostId, Plan, PodId};
    use crate::record::AttachedPod;

    #[test]
    fn only_known_endpoints_are_labelled_and_other_labels_stay() {
        let pod = PodId { host: HostId(1), number: 1 };
        let plan = Plan { name: "t".into(), hosts: 1, pods: 1, datastore: DatastoreKind::Sqlite };
        let pods = vec![AttachedPod { pod, address: [10, 112, 0, 1].into(), add_ms: 1.0 }];
        let record = Record { pods, ..Record::new(plan) };
        let endpoint = |address: &str| json!({"metadata": {"resourceVersion": "7", "labels": {"a": "b"}}, "spec": {"ipNetworks": [address]}});
        let mut known = endpoint("10.112.0.1/32");
        label(&mut known, &record);
        assert_eq!(known["metadata"], json!({"labels": {"a": "b", "role": "frontend", "host": "h1"}}));
        assert_eq!(known["spec"]["ports"][0]["name"], "web");
        let mut foreign = endpoint("10.112.0.10/32");
        label(&mut foreign, &record);
        assert_eq!(foreign, endpoint("10.112.0.10/32"));
    }
}
