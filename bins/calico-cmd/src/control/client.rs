//! A blocking client of the control socket: one connection, one request at a time. No runtime, so that a CNI plugin starts fast.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use calico_core::net::Cidr;

use super::bgp::{BgpExplanation, PathReport, ToldReport};
use super::protocol::{
    Answer, Attachment, ErrorCode, Failure, MAX_LINE, MOST_ROUTES, NodeStatus, Reply, Request, RouteReport, Success,
    VERSION, Verb,
};

/// How long an agent may take to answer what it can answer at once.
const PROMPT: Duration = Duration::from_secs(2);

/// The most that the agent's deadline lies before the client's, so that the agent's own reason comes within the latter. Of short waits a
/// twentieth.
const LEAD: Duration = Duration::from_millis(500);

/// A failed request to the agent.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ControlError {
    /// Nobody listens there.
    #[error("cannot reach calico-node at {path}: is the agent running?")]
    Unreachable {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The agent took the request, or not even that, and said nothing.
    #[error(
        "calico-node at {path} did not answer within {} s: it is hung or overloaded; look at its log, or restart it",
        tenths(*.patience)
    )]
    Silent {
        /// The socket.
        path: PathBuf,
        /// How long it was waited for.
        patience: Duration,
    },
    /// The connection broke.
    #[error("calico-node at {path} closed the connection without an answer")]
    Lost {
        /// The socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The answer is not of this protocol.
    #[error("calico-node at {path} answered with something unexpected: {detail}")]
    Protocol {
        /// The socket.
        path: PathBuf,
        /// What is odd.
        detail: String,
    },
    /// The agent says no.
    #[error("{}", .0.message)]
    Failed(Failure),
}

impl ControlError {
    /// Whether the agent is not there, went away during the request or says nothing: it may be restarting.
    pub fn is_agent_away(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Lost { .. } | Self::Silent { .. } => true,
            Self::Failed(failure) => failure.code == ErrorCode::Stopping,
            Self::Protocol { .. } => false,
        }
    }
}

/// A connection to the agent.
#[derive(Debug)]
pub struct Client {
    path: PathBuf,
    reader: BufReader<UnixStream>,
    next_id: u64,
    prompt: Duration,
}

impl Client {
    /// Connects.
    pub fn connect(path: &Path) -> Result<Self, ControlError> {
        let stream =
            UnixStream::connect(path).map_err(|source| ControlError::Unreachable { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), reader: BufReader::new(stream), next_id: 1, prompt: PROMPT })
    }

    /// A picture of the agent.
    pub fn status(&mut self) -> Result<NodeStatus, ControlError> {
        match self.call(Verb::Status, self.prompt)? {
            Success::Status(status) => Ok(*status),
            other => Err(self.odd(&other)),
        }
    }

    /// Routes behind a destination, and whether there are others behind those.
    pub fn routes(&mut self, after: Option<Cidr>) -> Result<(Vec<RouteReport>, bool), ControlError> {
        match self.call(Verb::Routes { after, most: MOST_ROUTES }, self.prompt)? {
            Success::Routes { routes, more } => Ok((routes, more)),
            other => Err(self.odd(&other)),
        }
    }

    /// Why a prefix is routed and announced as it is.
    pub fn bgp_explain(&mut self, prefix: Cidr) -> Result<BgpExplanation, ControlError> {
        match self.call(Verb::BgpExplain { prefix }, self.prompt)? {
            Success::BgpExplanation(explanation) => Ok(*explanation),
            other => Err(self.odd(&other)),
        }
    }

    /// What a BGP peer announced behind a prefix, and whether there is more behind that.
    pub fn bgp_received(&mut self, peer: &str, after: Option<Cidr>) -> Result<(Vec<PathReport>, bool), ControlError> {
        match self.call(Verb::BgpReceived { peer: peer.into(), after }, self.prompt)? {
            Success::BgpReceived { paths, more } => Ok((paths, more)),
            other => Err(self.odd(&other)),
        }
    }

    /// What a BGP peer is told behind a prefix, and whether there is more behind that.
    pub fn bgp_advertised(&mut self, peer: &str, after: Option<Cidr>) -> Result<(Vec<ToldReport>, bool), ControlError> {
        match self.call(Verb::BgpAdvertised { peer: peer.into(), after }, self.prompt)? {
            Success::BgpAdvertised { routes, more } => Ok((routes, more)),
            other => Err(self.odd(&other)),
        }
    }

    /// Returns once the policy of the endpoint, as attached, is in the kernel, or after `timeout`. A timeout of zero asks how it is now.
    pub fn wait_endpoint(
        &mut self,
        namespace: &str,
        name: &str,
        attachment: Option<&Attachment>,
        timeout: Duration,
    ) -> Result<(), ControlError> {
        let (timeout_ms, attachment) = (agents_share(timeout), attachment.cloned());
        let verb = Verb::WaitEndpoint { namespace: namespace.into(), name: name.into(), attachment, timeout_ms };
        match self.call(verb, self.patience(timeout))? {
            Success::Enforced => Ok(()),
            other => Err(self.odd(&other)),
        }
    }

    /// Returns once the endpoint is gone from the kernel, or after `timeout`. A timeout of zero asks how it is now.
    pub fn wait_endpoint_gone(&mut self, namespace: &str, name: &str, timeout: Duration) -> Result<(), ControlError> {
        let timeout_ms = agents_share(timeout);
        let verb = Verb::WaitEndpointGone { namespace: namespace.into(), name: name.into(), timeout_ms };
        match self.call(verb, self.patience(timeout))? {
            Success::Gone => Ok(()),
            other => Err(self.odd(&other)),
        }
    }

    /// Returns once the host's interface of a workload, and with it the container's, is gone, or after `timeout`.
    pub fn remove_interface(&mut self, name: &str, timeout: Duration) -> Result<(), ControlError> {
        match self.call(Verb::RemoveInterface { name: name.into() }, self.patience(timeout))? {
            Success::Gone => Ok(()),
            other => Err(self.odd(&other)),
        }
    }

    fn call(&mut self, verb: Verb, patience: Duration) -> Result<Success, ControlError> {
        let id = self.next_id;
        self.next_id += 1;
        let line = self.exchange(&Request { v: VERSION, id, verb }, patience);
        let line = line.map_err(|source| self.unanswered(source, patience))?;
        let reply: Reply = serde_json::from_slice(&line)
            .map_err(|error| ControlError::Protocol { path: self.path.clone(), detail: error.to_string() })?;
        if reply.id != id {
            let detail = format!("answer {} to request {id}", reply.id);
            return Err(ControlError::Protocol { path: self.path.clone(), detail });
        }
        match reply.answer {
            Answer::Ok(success) => Ok(success),
            Answer::Error(failure) => Err(ControlError::Failed(failure)),
        }
    }

    /// A socket takes no deadline of zero.
    fn patience(&self, timeout: Duration) -> Duration {
        if timeout.is_zero() { self.prompt } else { timeout }
    }

    fn unanswered(&self, source: io::Error, patience: Duration) -> ControlError {
        let path = self.path.clone();
        match source.kind() {
            // Which of the two a socket's deadline gives depends on the system.
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ControlError::Silent { path, patience },
            _ => ControlError::Lost { path, source },
        }
    }

    fn exchange(&mut self, request: &Request, patience: Duration) -> io::Result<Vec<u8>> {
        let mut line = serde_json::to_vec(request)?;
        line.push(b'\n');
        let stream = self.reader.get_mut();
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        stream.write_all(&line)?;
        line.clear();
        let limit = u64::try_from(MAX_LINE).unwrap_or(u64::MAX);
        (&mut self.reader).take(limit).read_until(b'\n', &mut line)?;
        if line.last() == Some(&b'\n') { Ok(line) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn odd(&self, success: &Success) -> ControlError {
        ControlError::Protocol { path: self.path.clone(), detail: format!("{success:?} is no answer to this request") }
    }
}

/// Milliseconds that the agent is given of a client's time.
fn agents_share(timeout: Duration) -> u64 {
    let share = timeout.saturating_sub(LEAD.min(timeout / 20));
    u64::try_from(share.as_millis()).unwrap_or(u64::MAX)
}

/// Seconds, rounded up to tenths: what is left of two seconds when the clock has been looked at are two seconds for who reads it.
fn tenths(time: Duration) -> f64 {
    let tenths = time.as_millis().div_ceil(100);
    f64::from(u32::try_from(tenths).unwrap_or(u32::MAX)) / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// A one-shot agent that answers whatever comes with `reply`, and hands back what it was asked.
    fn agent(reply: &'static str) -> (tempfile::TempDir, PathBuf, std::thread::JoinHandle<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).unwrap();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
            stream.write_all(reply.as_bytes()).unwrap();
            line
        });
        (folder, path, thread)
    }

    /// A client that gives a busy machine time.
    fn patient(path: &Path) -> Client {
        Client { prompt: Duration::from_secs(30), ..Client::connect(path).unwrap() }
    }

    #[test]
    fn waits_for_an_endpoint() {
        let (_folder, path, thread) = agent("{\"v\":1,\"id\":1,\"ok\":{\"kind\":\"enforced\"}}\n");
        patient(&path).wait_endpoint("ns", "name", None, Duration::from_secs(30)).unwrap();
        assert!(thread.join().unwrap().contains("\"timeout_ms\":29500"), "the agent speaks before the client gives up");
        assert_eq!(agents_share(Duration::from_secs(1)), 950);
    }

    #[test]
    fn hands_on_the_agents_own_words() {
        let answer = "{\"v\":1,\"id\":1,\"error\":{\"code\":\"timeout\",\"message\":\"waits for eth0\"}}\n";
        let (_folder, path, thread) = agent(answer);
        let error = patient(&path).wait_endpoint("ns", "n", None, Duration::ZERO).unwrap_err();
        assert_eq!(error.to_string(), "waits for eth0");
        thread.join().unwrap();
    }

    #[test]
    fn says_how_long_a_silent_agent_was_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        // Whoever connects waits in the backlog for ever.
        let _listener = UnixListener::bind(&path).unwrap();
        let mut client = Client::connect(&path).unwrap();
        client.prompt = Duration::from_millis(500);
        let error = client.status().unwrap_err();
        assert!(matches!(error, ControlError::Silent { .. }), "{error:?}");
        let told = error.to_string();
        assert!(told.contains("/s did not answer within 0.5 s"), "{told}");
        assert!(std::error::Error::source(&error).is_none(), "no errno of the socket");
        // As long as was asked for, and no longer; in words, whole tenths of what was left when the call was made.
        let left = Duration::from_micros(199_990);
        for error in [
            client.wait_endpoint("ns", "n", None, left).unwrap_err(),
            client.wait_endpoint_gone("ns", "n", left).unwrap_err(),
            client.remove_interface("cali1", left).unwrap_err(),
        ] {
            assert!(matches!(error, ControlError::Silent { patience, .. } if patience == left), "{error:?}");
            assert!(error.to_string().contains(" within 0.2 s"), "{error}");
        }
        assert_eq!(
            [1_999_999, 2_000_000, 2_000_999, 2_001_000].map(|us| tenths(Duration::from_micros(us))),
            [2.0, 2.0, 2.0, 2.1]
        );
    }

    #[test]
    fn names_the_socket_when_nobody_listens_or_talks_nonsense() {
        let missing = Path::new("/nonexistent/calico.sock");
        assert!(Client::connect(missing).unwrap_err().to_string().contains("/nonexistent/calico.sock"));
        for nonsense in ["hello\n", "{}\n", "{\"v\":1,\"id\":9,\"ok\":{\"kind\":\"enforced\"}}\n", ""] {
            let (_folder, path, thread) = agent(nonsense);
            let error = patient(&path).status().unwrap_err();
            assert!(
                matches!(error, ControlError::Protocol { .. } | ControlError::Lost { .. }),
                "{nonsense:?}: {error}"
            );
            thread.join().unwrap();
        }
    }
}
