//! What the agent does for the plugin: it says when the endpoint's policy is in the kernel, and waits in the plugin's place until the
//! kernel has freed an interface.
//!
//! Until the policy is in the kernel the agent drops all traffic of the interface, so an early return would not be unsafe, only
//! surprising. As with upstream (`policy_setup_timeout_seconds`), a wait that ends without success is a warning and not a failure: the
//! ADD is done, and the agent sets the policy up whenever it runs again.
//!
//! | Configuration | Wait |
//! |---|---|
//! | `policy_setup_timeout_seconds` is 0 | none |
//! | it is more | so long, whether or not an agent is there yet |
//! | absent; `control_socket`, the environment, or a file at the default path names an agent | ten seconds |
//! | absent, and nothing names an agent | none |
//!
//! Within that time an agent that is not there, or that goes away, is called again and again: it may just be restarting. An agent that
//! took the call is to answer shortly before that time is up, so that its reason is heard; one that hangs gets no more of it.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use calico_cmd::control::{Attachment, Client, ControlError, DEFAULT_SOCKET, SOCKET_ENV};
use calico_cmd::output::chain;
use calico_core::cni::{Identity, NetConf};
use calico_core::net::{Cidr, InterfaceName, Mac};
use calico_ipam::plugin::{Variables, warn};

/// How long is waited where the configuration does not say, if there should be an agent.
const PATIENCE: Duration = Duration::from_secs(10);
/// No wait is longer, whatever the configuration says.
const LONGEST: Duration = Duration::from_secs(3600);
/// Pause before an agent that is away is called again.
const PAUSE: Duration = Duration::from_millis(20);

/// How long the agent may take to remove an interface.
const REMOVAL: Duration = Duration::from_secs(3);

/// Whoever enforces policy.
pub(crate) trait Agent: Send + Sync {
    /// Returns when the endpoint's policy is in force, or there is no point in waiting longer.
    fn wait(&self, identity: &Identity, addresses: &[Cidr], mac: Option<Mac>);

    /// Removes the host's interface of a workload, if an agent is there to do it. The caller looks afterwards what is left.
    fn remove(&self, interface: InterfaceName);
}

/// The agent behind its control socket.
pub(crate) struct ControlSocket {
    path: PathBuf,
    /// Whether somebody said that there is an agent.
    is_named: bool,
    timeout: Duration,
}

impl ControlSocket {
    /// The socket and the patience that the configuration names.
    pub(crate) fn new(conf: &NetConf, variables: &Variables) -> Self {
        let configured = Some(&conf.control_socket).filter(|path| !path.is_empty());
        let named = configured.or_else(|| variables.get(SOCKET_ENV));
        let seconds = conf.policy_setup_timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Self {
            path: named.map_or(DEFAULT_SOCKET, String::as_str).into(),
            is_named: named.is_some() || seconds.is_some(),
            timeout: seconds.map_or(PATIENCE, Duration::from_secs).min(LONGEST),
        }
    }

    /// Waits. A wait that ends without success gives the reason.
    fn enforced(&self, namespace: &str, name: &str, attachment: &Attachment) -> Result<(), ControlError> {
        if self.timeout.is_zero() || !(self.is_named || self.path.exists()) {
            return Ok(());
        }
        let deadline = Instant::now() + self.timeout;
        loop {
            // Nothing left would ask how it is now, and give a hung agent the time for that.
            let left = deadline.saturating_duration_since(Instant::now()).max(PAUSE);
            let call = Client::connect(&self.path);
            match call.and_then(|mut agent| agent.wait_endpoint(namespace, name, Some(attachment), left)) {
                Err(error) if error.is_agent_away() && Instant::now() + PAUSE < deadline => sleep(PAUSE),
                other => return other,
            }
        }
    }
}

impl Agent for ControlSocket {
    fn wait(&self, identity: &Identity, addresses: &[Cidr], mac: Option<Mac>) {
        let attachment = Attachment { interface: identity.host_interface, addresses: addresses.to_vec(), mac };
        let (namespace, name) = (&identity.namespace, identity.endpoint_name.to_string());
        if let Err(error) = self.enforced(namespace, &name, &attachment) {
            warn(format_args!("{}", shortfall(namespace, &name, &error)));
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

/// What the operator is told when an ADD returns before the policy is in the kernel.
fn shortfall(namespace: &str, name: &str, error: &ControlError) -> String {
    format!(
        "warning: the container is attached, but its traffic is denied until calico-node has set up the policy of workload endpoint \
         {namespace}/{name}: {}",
        chain(error)
    )
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

    fn attachment() -> Attachment {
        Attachment { interface: "cali1".parse().unwrap(), addresses: Vec::new(), mac: None }
    }

    fn wait(conf: &Value, variables: &Variables) {
        let request = request(conf);
        let identity = Identity::of(&request, "n", "cali").unwrap();
        ControlSocket::new(&request.conf, variables).wait(&identity, &[], None);
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
        wait(&json!({"name": "net", "control_socket": path, "policy_setup_timeout_seconds": 60}), &Variables::new());
        let asked = enforced.join().unwrap();
        assert_eq!(asked["verb"], "wait-endpoint");
        assert!((30_000..=60_000).contains(&asked["timeout_ms"].as_u64().unwrap()), "{asked}");
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
        assert_eq!(late.join().unwrap()["verb"], "wait-endpoint");
        assert_eq!(ControlSocket::new(&request(&json!({"name": "net"})).conf, &variables).timeout, PATIENCE);
        // Nobody listens any more, which is no failure.
        wait(&json!({"name": "net", "policy_setup_timeout_seconds": 1}), &variables);
    }

    fn socket(path: &Path, is_named: bool, timeout: Duration) -> ControlSocket {
        ControlSocket { path: path.to_owned(), is_named, timeout }
    }

    #[test]
    fn an_agent_that_restarts_is_called_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let dying = UnixListener::bind(&path).unwrap();
        let restart = {
            let path = path.clone();
            std::thread::spawn(move || {
                // Takes the call and dies; its file stays, and nobody listens on it; then it is there again.
                drop(dying.accept().unwrap());
                drop(dying);
                std::fs::remove_file(&path).unwrap();
                agent(&path, "{\"v\":1,\"id\":1,\"ok\":{\"kind\":\"enforced\"}}\n").join().unwrap()
            })
        };
        socket(&path, false, Duration::from_secs(60)).enforced("default", "w", &attachment()).unwrap();
        assert_eq!(restart.join().unwrap()["name"], "w");
    }

    #[test]
    fn an_agent_that_stays_away_is_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let brief = Duration::from_millis(50);
        assert!(
            socket(&path, false, brief).enforced("default", "w", &attachment()).is_ok(),
            "nothing says that there is an agent"
        );
        assert!(socket(&path, true, brief).enforced("default", "w", &attachment()).unwrap_err().is_agent_away());
        // A file that nobody listens on any more.
        drop(UnixListener::bind(&path).unwrap());
        let error = socket(&path, false, brief).enforced("default", "w", &attachment()).unwrap_err();
        let told = shortfall("default", "w", &error);
        assert!(told.contains("denied until calico-node") && told.contains("default/w"), "{told}");
        assert!(told.contains(path.to_str().unwrap()), "{told}");
    }

    #[test]
    fn an_agent_that_hangs_gets_no_more_time_than_is_configured() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        // Whoever connects waits in the backlog for ever.
        let _hung = UnixListener::bind(&path).unwrap();
        let bound = Duration::from_millis(300);
        let error = socket(&path, true, bound).enforced("default", "w", &attachment()).unwrap_err();
        assert!(matches!(error, ControlError::Silent { patience, .. } if patience <= bound), "{error:?}");
    }

    #[test]
    fn no_wait_is_endless() {
        let request = request(&json!({"name": "net", "policy_setup_timeout_seconds": i64::MAX}));
        assert_eq!(ControlSocket::new(&request.conf, &Variables::new()).timeout, LONGEST);
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
