//! The container runtime's part: executing the CNI plugin in a host, with the environment and standard input of the specification.

use std::ffi::OsString;
use std::path::PathBuf;
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
use crate::record::AttachedPod;
use crate::state::StateDir;
use crate::topology;

/// Name of the network, and with it of the profile that its pods share.
pub(crate) const NETWORK: &str = "lab";
/// Name of the interface inside pods.
pub(crate) const INTERFACE: &str = "eth0";

/// A plugin with its network configuration.
#[derive(Debug)]
pub(crate) struct Plugin {
    /// The program.
    pub(crate) program: PathBuf,
    /// Where it finds those that it delegates to.
    pub(crate) path: PathBuf,
    /// Environment of the runtime.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    /// What it reads.
    pub(crate) configuration: Value,
}

/// Attaches a pod of the network.
pub(crate) async fn add(state: &StateDir, plan: &Plan, pod: PodId) -> Result<AttachedPod, LabError> {
    let plugin = calico(state, plan, pod);
    let (result, add_ms) = plugin.execute(plan, pod, "ADD").await?;
    let address = result.pointer("/ips/0/address").and_then(Value::as_str).unwrap_or_default();
    let address: Cidr = address.parse().context(|| format!("pod {pod} has no address"))?;
    Ok(AttachedPod { pod, address: address.address(), add_ms })
}

/// Our plugin, as the runtime of the pod's host calls it.
pub(crate) fn calico(state: &StateDir, plan: &Plan, pod: PodId) -> Plugin {
    Plugin {
        program: state.program("calico"),
        path: state.programs(),
        environment: agent::environment(state, plan, pod.host),
        configuration: json!({
            "cniVersion": "1.0.0",
            "name": NETWORK,
            "type": "calico",
            "nodename_file": state.nodename(pod.host),
            "ipam_lock_file": state.host(pod.host).join("ipam.lock"),
            "ipam": {"type": "calico-ipam"},
        }),
    }
}

impl Plugin {
    /// Executes it in the pod's host. Returns its result and how many milliseconds it took.
    pub(crate) async fn execute(&self, plan: &Plan, pod: PodId, verb: &str) -> Result<(Value, f64), LabError> {
        let failed = || format!("CNI {verb} of pod {pod} failed");
        let begun = Instant::now();
        let output = self.run(plan, pod, verb).await?;
        let took = begun.elapsed().as_secs_f64() * 1000.0;
        if !output.status.success() {
            return Err(LabError::new(format!("{}: {}", failed(), complaint(&output))));
        }
        // DEL answers nothing.
        let text = output.stdout.trim_ascii();
        let result = if text.is_empty() { Value::Null } else { serde_json::from_slice(text).context(failed)? };
        Ok((result, took))
    }

    async fn run(&self, plan: &Plan, pod: PodId, verb: &str) -> Result<Output, LabError> {
        let failed = || format!("cannot run {} for pod {pod}", self.program.display());
        let host = topology::open(&plan.host_netns(pod.host))?;
        let netns = named::path(&plan.pod_netns(pod)).context(failed)?;
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .env("CNI_COMMAND", verb)
            .env("CNI_CONTAINERID", pod.container_id())
            .env("CNI_NETNS", netns)
            .env("CNI_IFNAME", INTERFACE)
            .env("CNI_PATH", &self.path)
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
            let _ = input.write_all(self.configuration.to_string().as_bytes()).await;
        }
        let output = timeout(PATIENCE, child.wait_with_output()).await.context(failed)?;
        output.context(failed)
    }
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
