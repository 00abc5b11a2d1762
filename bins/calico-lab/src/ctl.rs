//! The operator's part: `calicoctl`, as a process of its own on the segment.

use std::ffi::OsStr;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;
use tokio::runtime::Handle;
use tokio::time::timeout;

use crate::error::{Context, LabError};
use crate::plan::Plan;
use crate::server;
use crate::state::StateDir;
use crate::topology;

/// Runs `calicoctl` and returns what it printed.
pub(crate) async fn run<S: AsRef<OsStr>>(
    state: &StateDir,
    plan: &Plan,
    arguments: impl IntoIterator<Item = S>,
) -> Result<Vec<u8>, LabError> {
    let mut command = Command::new(state.program("calicoctl"));
    command
        .args(arguments)
        .env_clear()
        .envs(server::environment(state, plan))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let failed = || "cannot run calicoctl".into();
    let runtime = Handle::current();
    let spawn = || {
        // A child inherits the namespaces of the thread that starts it.
        let _inside = runtime.enter();
        command.spawn()
    };
    let child = topology::open(&plan.segment_netns())?.run(spawn).context(failed)?.context(failed)?;
    let output = timeout(PATIENCE, child.wait_with_output()).await.context(failed)?.context(failed)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(LabError::new(format!("calicoctl failed ({}): {complaint}", output.status)))
}

const PATIENCE: Duration = Duration::from_secs(60);
