//! What the runtime asks: environment and standard input, typed.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use serde::de::IgnoredAny;

use super::{Args, CniError, ErrorCode, NetConf, Version};
use crate::net::InterfaceName;

/// The variables of a process, as far as a plugin looks at them.
pub trait Environment {
    /// A variable's value, if it is set.
    fn var(&self, name: &str) -> Option<String>;
}

impl<F: Fn(&str) -> Option<String>> Environment for F {
    fn var(&self, name: &str) -> Option<String> {
        self(name)
    }
}

/// Why a plugin was started.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Invocation {
    /// `CNI_COMMAND` is not set: somebody typed the program's name.
    About,
    /// VERSION; standard input does not matter.
    Version,
    /// A command on a network.
    Run(Box<Request>),
}

/// What a network is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// Attach a container.
    Add,
    /// Detach it.
    Del,
    /// Tell whether it is attached as it was.
    Check,
    /// Tell whether ADD can be served.
    Status,
    /// Remove what belongs to no attachment that the runtime knows.
    Gc,
}

/// A command on a network.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Request {
    /// What to do.
    pub command: Command,
    /// `CNI_CONTAINERID`; empty for STATUS and GC.
    pub container_id: String,
    /// `CNI_NETNS`; none for a DEL whose namespace is gone.
    pub netns: Option<String>,
    /// `CNI_IFNAME`; none for STATUS and GC.
    pub interface: Option<InterfaceName>,
    /// `CNI_ARGS`.
    pub args: Args,
    /// `CNI_PATH`: folders with plugins.
    pub path: Vec<String>,
    /// The configuration.
    pub conf: NetConf,
    /// Its version.
    pub version: Version,
}

impl Invocation {
    /// Reads environment and standard input.
    pub fn parse(env: &impl Environment, stdin: &[u8]) -> Result<Self, CniError> {
        let Some(command) = env.var("CNI_COMMAND").filter(|command| !command.is_empty()) else {
            return Ok(Self::About);
        };
        let command = match command.as_str() {
            "VERSION" => return Ok(Self::Version),
            "ADD" => Command::Add,
            "DEL" => Command::Del,
            "CHECK" => Command::Check,
            "STATUS" => Command::Status,
            "GC" => Command::Gc,
            other => return Err(environment(format!("unknown CNI_COMMAND: {other}"))),
        };
        command.require(env)?;
        let (container_id, interface) = command.identity(env)?;
        let (conf, version) = configuration(stdin)?;
        command.check_version(version)?;
        let var = |name| env.var(name).unwrap_or_default();
        Ok(Self::Run(Box::new(Request {
            command,
            container_id,
            netns: env.var("CNI_NETNS").filter(|path| !path.is_empty()),
            interface,
            args: Args::parse(&var("CNI_ARGS"))?,
            path: var("CNI_PATH").split(':').filter(|folder| !folder.is_empty()).map(ToString::to_string).collect(),
            conf,
            version,
        })))
    }
}

impl Command {
    /// All missing variables in one error.
    fn require(self, env: &impl Environment) -> Result<(), CniError> {
        let needed: &[&str] = match self {
            Self::Add | Self::Check => &["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
            Self::Del => &["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
            Self::Status | Self::Gc => &["CNI_PATH"],
        };
        let missing: Vec<_> =
            needed.iter().copied().filter(|name| env.var(name).is_none_or(|value| value.is_empty())).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let details = format!("required env variables [{}] missing", missing.join(","));
        Err(environment(details))
    }

    fn identity(self, env: &impl Environment) -> Result<(String, Option<InterfaceName>), CniError> {
        if matches!(self, Self::Status | Self::Gc) {
            return Ok((String::new(), None));
        }
        let container_id = env.var("CNI_CONTAINERID").unwrap_or_default();
        if !is_container_id(&container_id) {
            return Err(environment(format!("invalid characters in containerID: {container_id:?}")));
        }
        let name = env.var("CNI_IFNAME").unwrap_or_default();
        let interface = name.parse().map_err(|error| environment(format!("CNI_IFNAME: {error}")))?;
        Ok((container_id, Some(interface)))
    }

    fn check_version(self, version: Version) -> Result<(), CniError> {
        let since = match self {
            Self::Add | Self::Del => return Ok(()),
            Self::Check => Version::V0_4_0,
            Self::Status | Self::Gc => Version::V1_1_0,
        };
        if version >= since {
            return Ok(());
        }
        let message = format!("config version {version} does not allow {self:?}, which came with {since}");
        Err(CniError::new(ErrorCode::IncompatibleVersion, message))
    }
}

/// The IPAM handle of a container in a network.
pub fn handle_id(network: &str, container_id: &str) -> Arc<str> {
    // What upstream takes an empty name for.
    let network = if network.is_empty() { "k8s-pod-network" } else { network };
    format!("{network}.{container_id}").into()
}

fn configuration(stdin: &[u8]) -> Result<(NetConf, Version), CniError> {
    // A list would be read as the members in order.
    let is_object = stdin.trim_ascii_start().first() == Some(&b'{');
    if !is_object && serde_json::from_slice::<IgnoredAny>(stdin).is_ok() {
        return Err(CniError::new(ErrorCode::InvalidConfig, "the network configuration is not a JSON object"));
    }
    let conf: NetConf = serde_json::from_slice(stdin).map_err(|error| {
        let code = if error.is_data() { ErrorCode::InvalidConfig } else { ErrorCode::Decode };
        CniError::new(code, "failed to load netconf").with_details(error.to_string())
    })?;
    let version = conf.cni_version.parse()?;
    if conf.name.is_empty() {
        return Err(CniError::new(ErrorCode::InvalidConfig, "missing network name"));
    }
    if !conf.name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')) {
        let message =
            format!("invalid characters in network name {:?}: only letters, digits, '_', '.' and '-'", conf.name);
        return Err(CniError::new(ErrorCode::InvalidConfig, message));
    }
    Ok((conf, version))
}

fn is_container_id(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}

fn environment(message: impl Into<String>) -> CniError {
    CniError::new(ErrorCode::InvalidEnvironment, message)
}
