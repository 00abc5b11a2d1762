//! The wait until the agent has the endpoint's policy in the kernel.
//!
//! Until then the agent drops all traffic of the interface, so an early return would not be unsafe, only surprising. As with upstream
//! (`policy_setup_timeout_seconds`), a wait that ends without success is a warning and not a failure.

use std::path::PathBuf;
use std::time::Duration;

use calico_cmd::control::{Client, ControlError, DEFAULT_SOCKET, SOCKET_ENV};
use calico_core::cni::{Identity, NetConf};
use calico_ipam::plugin::{Variables, chain, warn};

/// How long is waited where the configuration does not say, if an agent listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whoever enforces policy.
pub(crate) trait Agent: Send + Sync {
    /// Returns when the endpoint's policy is in force, or there is no point in waiting longer.
    fn wait(&self, identity: &Identity);
}

/// The agent behind its control socket.
pub(crate) struct ControlSocket {
    path: PathBuf,
    timeout: Option<Duration>,
}

impl ControlSocket {
    /// The socket and the patience that the configuration names.
    pub(crate) fn new(conf: &NetConf, variables: &Variables) -> Self {
        let configured = Some(&conf.control_socket).filter(|path| !path.is_empty());
        let path = configured.or_else(|| variables.get(SOCKET_ENV)).map_or(DEFAULT_SOCKET, String::as_str);
        let seconds = conf.policy_setup_timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Self { path: path.into(), timeout: seconds.map(Duration::from_secs) }
    }
}

impl Agent for ControlSocket {
    fn wait(&self, identity: &Identity) {
        let timeout = self.timeout.unwrap_or(PATIENCE);
        if timeout.is_zero() {
            return;
        }
        let (namespace, name) = (&identity.namespace, identity.endpoint_name.to_string());
        let outcome = Client::connect(&self.path).and_then(|mut agent| agent.wait_endpoint(namespace, &name, timeout));
        match outcome {
            // Nobody asked for the wait, and nobody is there to wait for.
            Err(ControlError::Unreachable { .. }) if self.timeout.is_none() => {}
            Err(error) => warn(format_args!("policy of {namespace}/{name} may not be in force yet: {}", chain(&error))),
            Ok(()) => {}
        }
    }
}
