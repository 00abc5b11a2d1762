//! The container runtime's part: executing the CNI plugin in a host, with the environment and standard input of the specification.

use std::process::{Output, Stdio};
use std::time::Duration;

use calico_core::net::Cidr;
use calico_dataplane::netns::named;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

use crate::agent;
use crate::error::{Context, LabError};
use crate::plan::{Plan, PodId, Role};
use crate::state::{AttachedPod, StateDir};
use crate::topology;

/// Name of the network, and with it of the profile that its pods share.
pub(crate) const NETWORK: &str = "lab";
/// Name of the interface inside pods.
pub(crate) const INTERFACE: &str = "eth0";

/// Attaches a pod.
pub(crate) async fn add(state: &StateDir, plan: &Plan, pod: PodId) -> Result<AttachedPod, LabError> {
    let failed = || format!("cannot attach pod {pod}");
    let begun = Instant::now();
    let output = execute(state, plan, pod, "ADD").await?;
    let add_ms = begun.elapsed().as_secs_f64() * 1000.0;
    if !output.status.success() {
        return Err(LabError::new(format!("{}: {}", failed(), complaint(&output))));
    }
    let result: Value = serde_json::from_slice(&output.stdout).context(failed)?;
    let address = result.pointer("/ips/0/address").and_then(Value::as_str).unwrap_or_default();
    let address: Cidr = address.parse().context(failed)?;
    Ok(AttachedPod { pod, address: address.address(), add_ms })
}

async fn execute(state: &StateDir, plan: &Plan, pod: PodId, verb: &str) -> Result<Output, LabError> {
    let failed = || format!("cannot run the CNI plugin for pod {pod}");
    let host = topology::open(&plan.host_netns(pod.host))?;
    let netns = named::path(&plan.pod_netns(pod)).context(failed)?;
    let mut command = Command::new(state.program("calico"));
    command
        .env_clear()
        .envs(agent::environment(state, plan, pod.host))
        .env("CNI_COMMAND", verb)
        .env("CNI_CONTAINERID", pod.container_id())
        .env("CNI_NETNS", netns)
        .env("CNI_IFNAME", INTERFACE)
        .env("CNI_PATH", state.programs())
        .env("CNI_ARGS", format!("IgnoreUnknown=1;CNI_TEST_NAMESPACE={}", pod.role().namespace()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let runtime = Handle::current();
    let spawn = || {
        // A child inherits the namespaces of the thread that starts it.
        let _inside = runtime.enter();
        command.spawn()
    };
    let mut child = host.run(spawn).context(failed)?.context(failed)?;
    if let Some(mut input) = child.stdin.take() {
        // A plugin that fails at once does not read; its exit code tells more than our broken pipe.
        let _ = input.write_all(configuration(state, pod).to_string().as_bytes()).await;
    }
    let output = timeout(PATIENCE, child.wait_with_output()).await.context(failed)?;
    output.context(failed)
}

fn configuration(state: &StateDir, pod: PodId) -> Value {
    json!({
        "cniVersion": "1.0.0",
        "name": NETWORK,
        "type": "calico",
        "nodename_file": state.nodename(pod.host),
        "ipam_lock_file": state.host(pod.host).join("ipam.lock"),
        "ipam": {"type": "calico-ipam"},
    })
}

/// The specification's error object, else whatever was said on standard error.
fn complaint(output: &Output) -> String {
    let object: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let words = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
    match (words("msg"), words("details")) {
        (Some(message), Some(details)) if !details.is_empty() => format!("{message}: {details}"),
        (Some(message), _) => message,
        (None, _) => format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()),
    }
}

impl Role {
    /// Namespace of the pod's endpoint.
    pub(crate) const fn namespace(self) -> &'static str {
        match self {
            Self::Frontend | Self::Backend => "shop",
            Self::Monitor => "ops",
        }
    }
}

/// An attachment takes milliseconds; the plugin's own bounds are far below this.
const PATIENCE: Duration = Duration::from_secs(60);
