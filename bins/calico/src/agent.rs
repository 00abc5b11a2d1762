//! What the agent does for the plugin: it says when the endpoint's policy is in the kernel, and waits in the plugin's place until the
//! kernel has freed an interface.
//!
//! Until the policy is in the kernel the agent drops all traffic of the interface, so an early return would not be unsafe, only surprising. As with upstream
//! (`policy_setup_timeout_seconds`), a wait that ends without success is a warning and not a failure.

use std::path::PathBuf;
use std::time::Duration;

use calico_cmd::control::{Client, ControlError, DEFAULT_SOCKET, SOCKET_ENV};
use calico_core::cni::{Identity, NetConf};
use calico_core::net::InterfaceName;
use calico_ipam::plugin::{Variables, chain, warn};

/// How long is waited where the configuration does not say, if an agent listens.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long the agent may take to remove an interface, beyond the control protocol's own grace.
const REMOVAL: Duration = Duration::from_secs(1);

/// Whoever enforces policy.
pub(crate) trait Agent: Send + Sync {
    /// Returns when the endpoint's policy is in force, or there is no point in waiting longer.
    fn wait(&self, identity: &Identity);

    /// Removes the host's interface of a workload, if an agent is there to do it. The caller looks afterwards what is left.
    fn remove(&self, interface: InterfaceName);
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

    fn remove(&self, interface: InterfaceName) {
        let removed =
            Client::connect(&self.path).and_then(|mut agent| agent.remove_interface(interface.as_str(), REMOVAL));
        match removed {
            Ok(()) | Err(ControlError::Unreachable { .. }) => {}
            // The plugin removes it itself; that only takes longer.
            Err(error) => warn(format_args!("calico-node did not remove {interface}: {}", chain(&error))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use calico_core::cni::{Invocation, Request};
    use serde_json::{Value, json};

    use super::*;

    fn request(conf: &Value) -> Box<Request> {
        let variables: Variables = [
            ("CNI_COMMAND", "ADD"),
            ("CNI_CONTAINERID", "c1"),
            ("CNI_NETNS", "/run/netns/a"),
            ("CNI_IFNAME", "eth0"),
            ("CNI_PATH", "/"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        match Invocation::parse(&|name: &str| variables.get(name).cloned(), conf.to_string().as_bytes()) {
            Ok(Invocation::Run(request)) => request,
            other => panic!("{other:?}"),
        }
    }

    fn wait(conf: &Value, variables: &Variables) {
        let request = request(conf);
        let identity = Identity::of(&request, "n", "cali").unwrap();
        ControlSocket::new(&request.conf, variables).wait(&identity);
    }

    /// What an agent at `path` is asked, which answers with `answer`.
    fn agent(path: &Path, answer: &'static str) -> std::thread::JoinHandle<Value> {
        let listener = UnixListener::bind(path).unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
            serde_json::from_str(&line).unwrap()
        })
    }

    #[test]
    fn asks_the_agent_for_the_endpoint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let enforced = agent(&path, "{\"v\":1,\"id\":1,\"ok\":{\"kind\":\"enforced\"}}\n");
        wait(&json!({"name": "net", "control_socket": path, "policy_setup_timeout_seconds": 3}), &Variables::new());
        let asked = enforced.join().unwrap();
        assert_eq!((&asked["verb"], &asked["timeout_ms"]), (&json!("wait-endpoint"), &json!(3000)));
        assert_eq!((&asked["namespace"], &asked["name"]), (&json!("default"), &json!("n-cni-c1-eth0")));
    }

    #[test]
    fn asks_the_agent_to_remove_an_interface() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let request = request(&json!({"name": "net", "control_socket": path}));
        let socket = ControlSocket::new(&request.conf, &Variables::new());
        let interface = "cali0123456789a".parse().unwrap();
        socket.remove(interface);
        let gone = agent(&path, "{\"v\":1,\"id\":1,\"ok\":{\"kind\":\"gone\"}}\n");
        socket.remove(interface);
        let asked = gone.join().unwrap();
        assert_eq!((&asked["verb"], &asked["name"]), (&json!("remove-interface"), &json!("cali0123456789a")));
    }

    #[test]
    fn the_environment_names_the_socket_and_a_refusal_is_no_failure() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let late = agent(&path, "{\"v\":1,\"id\":1,\"error\":{\"code\":\"timeout\",\"message\":\"late\"}}\n");
        let variables = [(SOCKET_ENV.to_owned(), path.to_str().unwrap().to_owned())].into();
        wait(&json!({"name": "net"}), &variables);
        assert_eq!(late.join().unwrap()["timeout_ms"], 10_000);
        // Nobody listens any more: neither with nor without a configured wait is that a failure.
        wait(&json!({"name": "net"}), &variables);
        wait(&json!({"name": "net", "policy_setup_timeout_seconds": 1}), &variables);
    }

    #[test]
    fn no_wait_means_no_connection() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        wait(&json!({"name": "net", "control_socket": path, "policy_setup_timeout_seconds": 0}), &Variables::new());
        assert_eq!(listener.accept().unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }
}
