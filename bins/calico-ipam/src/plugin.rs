//! The shell of a CNI plugin: input, output, errors, node name, datastore.
//!
//! A plugin process lives for milliseconds, once per container: it has a current-thread runtime, reads no configuration beside what the
//! runtime hands it, and logs to standard error only.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use calico_cmd::output::chain;
use calico_cmd::store::{Sources, environment, open_in_place, resolve};
use calico_core::cni::{CniError, ErrorCode, Invocation, NetConf, Request, Version};
use calico_core::resource::{Kind, Resource, ResourceKey, SINGLE_NAME};
use calico_core::time::Timestamp;
use calico_datastore::ipam::IpamFailure;
use calico_datastore::{Clock, Datastore, DatastoreError, SystemClock};
use serde_json::Value;

/// A process' environment.
pub type Variables = BTreeMap<String, String>;

/// What a command prints on standard output: a document, nothing, or an error.
pub type Answer = Result<Option<Value>, CniError>;

/// Largest configuration that is read, in bytes.
const MAX_INPUT: u64 = 16 << 20;
/// Where calico-node writes the node's name unless the configuration says otherwise.
const NODENAME_FILE: &str = "/var/lib/calico/nodename";

/// Upstream's words, and why.
const LOCKED: &str = "Calico is currently not ready to process requests: an operator has locked the datastore (calicoctl datastore \
                      migrate lock), which calicoctl datastore migrate unlock ends";

/// A command and the environment that it came in.
#[derive(Debug)]
#[non_exhaustive]
pub struct Context<'a> {
    /// The command.
    pub request: &'a Request,
    /// The environment.
    pub variables: &'a Variables,
    /// Standard input, for delegates.
    pub stdin: &'a [u8],
}

impl Context<'_> {
    /// Spreads what processes that collide do next: differs between processes.
    pub fn seed(&self) -> u64 {
        u64::from(std::process::id())
    }
}

/// The process' environment.
pub fn process_variables() -> Variables {
    environment(std::env::vars_os())
}

/// Reads an invocation, has `serve` carry it out, prints the answer. Answers with the exit code.
pub fn run(
    about: &str,
    variables: &Variables,
    stdin: &mut dyn Read,
    stdout: &mut dyn Write,
    serve: impl AsyncFnOnce(Context<'_>) -> Answer,
) -> u8 {
    let mut version = Version::LATEST;
    let answer = answer(about, variables, stdin, serve, &mut version);
    let (document, code) = match answer {
        Ok(None) => return 0,
        Ok(Some(document)) => (document, 0),
        Err(error) => (error.to_json(version), 1),
    };
    match print(stdout, &document) {
        Ok(()) => code,
        Err(error) => {
            warn(format_args!("cannot write to standard output: {error}"));
            1
        }
    }
}

fn answer(
    about: &str,
    variables: &Variables,
    stdin: &mut dyn Read,
    serve: impl AsyncFnOnce(Context<'_>) -> Answer,
    version: &mut Version,
) -> Answer {
    // Asked first without input: a terminal that somebody typed the name on would never end.
    let command = variables.get("CNI_COMMAND").map_or("", String::as_str);
    let mut input = Vec::new();
    if !matches!(command, "" | "VERSION") {
        let read = stdin.take(MAX_INPUT).read_to_end(&mut input);
        read.map_err(|error| CniError::new(ErrorCode::Io, format!("error reading from stdin: {error}")))?;
    }
    let request = match Invocation::parse(&|name: &str| variables.get(name).cloned(), &input)? {
        Invocation::Run(request) => request,
        Invocation::Version => return Ok(Some(Version::answer())),
        _ => {
            let supported = Version::ALL.map(Version::as_str).join(", ");
            warn(format_args!("{about} {}\nCNI protocol versions supported: {supported}", env!("CARGO_PKG_VERSION")));
            return Ok(None);
        }
    };
    *version = request.version;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| CniError::new(ErrorCode::Io, format!("cannot start: {error}")))?;
    runtime.block_on(serve(Context { request: &request, variables, stdin: &input }))
}

/// Prints a document with an indent of four, as the reference library does.
fn print(stdout: &mut dyn Write, document: &Value) -> std::io::Result<()> {
    let mut text = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(b"    ");
    serde::Serialize::serialize(document, &mut serde_json::Serializer::with_formatter(&mut text, format))?;
    text.push(b'\n');
    stdout.write_all(&text)?;
    stdout.flush()
}

/// Tells the operator, by way of the runtime's log.
pub fn warn(message: std::fmt::Arguments<'_>) {
    // Nobody is left to tell if that fails.
    let _ = writeln!(std::io::stderr(), "{message}");
}

/// The time.
pub fn now() -> Timestamp {
    SystemClock.now()
}

/// Why a node's name is not known.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeNameError {
    /// The file that calico-node writes cannot be read.
    #[error(
        "cannot read the node's name from {path}: {source}: check that the calico/node container is running and has mounted \
         /var/lib/calico/"
    )]
    File {
        /// Which.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// Nor is the kernel's name of the host.
    #[error("cannot read the host's name: {0}")]
    Host(std::io::Error),
}

impl NodeNameError {
    /// Whether the file is just not there: calico-node never ran on this host, and so nothing was ever written in the node's name.
    pub fn is_absent(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == std::io::ErrorKind::NotFound)
    }
}

impl From<NodeNameError> for CniError {
    fn from(error: NodeNameError) -> Self {
        let code = match error {
            NodeNameError::File { .. } => ErrorCode::InvalidConfig,
            NodeNameError::Host(_) => ErrorCode::Io,
        };
        Self::new(code, error.to_string())
    }
}

/// The node's name: from the configuration, from the file that calico-node wrote, from the older key, from the kernel.
pub fn node_name(conf: &NetConf) -> Result<String, NodeNameError> {
    if !conf.nodename.is_empty() {
        return Ok(conf.nodename.clone());
    }
    let path = if conf.nodename_file.is_empty() { NODENAME_FILE } else { &conf.nodename_file };
    match std::fs::read_to_string(path) {
        // Upstream takes the bytes as they are; a line end is never part of a name.
        Ok(name) if !name.trim().is_empty() => return Ok(name.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && conf.nodename_file_optional => {}
        Err(source) => return Err(NodeNameError::File { path: path.into(), source }),
    }
    if !conf.hostname.is_empty() {
        return Ok(conf.hostname.clone());
    }
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").map_err(NodeNameError::Host)?;
    Ok(name.trim().to_lowercase())
}

/// The same for commands that take away; none where calico-node never ran.
pub fn node_name_if_any(conf: &NetConf) -> Result<Option<String>, NodeNameError> {
    match node_name(conf) {
        Err(error) if error.is_absent() => {
            warn(format_args!("warning: nothing is looked for in this node's name: {error}"));
            Ok(None)
        }
        other => other.map(Some),
    }
}

/// Opens the datastore that the configuration names, or, where it names none, the environment.
pub async fn store(conf: &NetConf, variables: &Variables) -> Result<Arc<dyn Datastore>, CniError> {
    let keys = [
        ("DATASTORE_TYPE", &conf.datastore_type),
        ("DATASTORE_PATH", &conf.datastore_path),
        ("ETCD_ENDPOINTS", &conf.etcd_endpoints),
        ("ETCD_DISCOVERY_SRV", &conf.etcd_discovery_srv),
        ("ETCD_KEY_FILE", &conf.etcd_key_file),
        ("ETCD_CERT_FILE", &conf.etcd_cert_file),
        ("ETCD_CA_CERT_FILE", &conf.etcd_ca_cert_file),
        ("KUBECONFIG", &conf.kubernetes.kubeconfig),
    ];
    let mut sources = Sources::default();
    sources.environment.clone_from(variables);
    for (name, value) in keys.into_iter().filter(|(_, value)| !value.is_empty()) {
        // The prefixed name is looked up first, so the configuration wins over either.
        sources.environment.insert(format!("CALICO_{name}"), value.clone());
    }
    let resolved = resolve(&sources).map_err(|error| CniError::new(ErrorCode::InvalidConfig, chain(&error)))?;
    open_in_place(&resolved.config).await.map_err(|error| CniError::new(ErrorCode::TryAgain, chain(&error)))
}

/// As [`store`], for what changes it: refused while an operator has locked it. What does not say that it is locked, is not.
pub async fn unlocked_store(conf: &NetConf, variables: &Variables) -> Result<Arc<dyn Datastore>, CniError> {
    let store = store(conf, variables).await?;
    let stored = match store.get(&ResourceKey::cluster(Kind::ClusterInformation, SINGLE_NAME)).await {
        Ok(stored) => stored,
        Err(DatastoreError::NotFound { .. } | DatastoreError::Unreadable { .. }) => return Ok(store),
        Err(error) => return Err(datastore_failure("error getting ClusterInformation", &error)),
    };
    match &*stored.resource {
        Resource::ClusterInformation(information) if information.spec.datastore_ready == Some(false) => {
            Err(CniError::new(ErrorCode::TryAgain, LOCKED))
        }
        _ => Ok(store),
    }
}

/// A file's first line, if there is such a file.
pub fn first_line(path: &Path) -> std::io::Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text.lines().next().map(|line| line.trim().to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A failed datastore request as the runtime shall see it.
pub fn datastore_failure(what: &str, error: &DatastoreError) -> CniError {
    let code = if error.is_retryable() || error.is_conflict() { ErrorCode::TryAgain } else { ErrorCode::Internal };
    CniError::new(code, format!("{what}: {}", chain(error)))
}

/// A failed IPAM request as the runtime shall see it.
pub(crate) fn ipam_failure(failure: &IpamFailure) -> CniError {
    let code = match failure {
        failure if failure.is_retryable() => ErrorCode::TryAgain,
        IpamFailure::Ipam(error) if error.is_configuration() => ErrorCode::InvalidConfig,
        _ => ErrorCode::Internal,
    };
    CniError::new(code, chain(failure))
}
