//! The IPAM plugin that the configuration delegates to.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use calico_core::cni::{CniError, CniResult, ErrorCode, Request, Version};
use calico_datastore::Datastore;
use calico_ipam::Allocator;
use calico_ipam::plugin::{Context, Variables, now};

/// How often a program is tried that is just being replaced ("text file busy"), a second apart; as the reference library.
const BUSY_ATTEMPTS: u32 = 5;

/// A source of addresses, as a plugin sees it.
#[async_trait]
pub(crate) trait Addresses: Send + Sync {
    /// Assigns.
    async fn add(&self, request: &Request) -> Result<CniResult, CniError>;
    /// Releases; nothing is fine.
    async fn del(&self, request: &Request) -> Result<(), CniError>;
    /// Tells whether what was assigned is still.
    async fn check(&self, request: &Request) -> Result<(), CniError>;
    /// Releases what belongs to no attachment that the runtime knows, but for the containers of `kept`.
    async fn gc(&self, request: &Request, node: &str, kept: &BTreeSet<String>) -> Result<(), CniError>;
    /// Tells whether it could assign.
    async fn run_status(&self, request: &Request) -> Result<(), CniError>;
    /// Whether [`add`](Self::add) for the same container gives the same addresses again.
    fn is_idempotent(&self) -> bool;
}

/// `calico-ipam` in this process.
pub(crate) struct InProcess {
    pub(crate) allocator: Allocator,
    pub(crate) store: Arc<dyn Datastore>,
    pub(crate) node: String,
}

#[async_trait]
impl Addresses for InProcess {
    async fn add(&self, request: &Request) -> Result<CniResult, CniError> {
        self.allocator.add(request, &self.node, now()).await
    }

    async fn del(&self, request: &Request) -> Result<(), CniError> {
        self.allocator.del(request, now()).await
    }

    async fn check(&self, request: &Request) -> Result<(), CniError> {
        self.allocator.check(request).await
    }

    async fn gc(&self, request: &Request, node: &str, kept: &BTreeSet<String>) -> Result<(), CniError> {
        self.allocator.gc(&*self.store, request, node, kept, now()).await
    }

    async fn run_status(&self, _request: &Request) -> Result<(), CniError> {
        calico_ipam::status(&*self.store).await
    }

    fn is_idempotent(&self) -> bool {
        true
    }
}

/// A plugin that cannot be called, for a DEL whose other steps go on: each request fails for the same reason.
pub(crate) struct Absent(pub(crate) CniError);

#[async_trait]
impl Addresses for Absent {
    async fn add(&self, _request: &Request) -> Result<CniResult, CniError> {
        Err(self.0.clone())
    }

    async fn del(&self, _request: &Request) -> Result<(), CniError> {
        Err(self.0.clone())
    }

    async fn check(&self, _request: &Request) -> Result<(), CniError> {
        Err(self.0.clone())
    }

    async fn gc(&self, _request: &Request, _node: &str, _kept: &BTreeSet<String>) -> Result<(), CniError> {
        Err(self.0.clone())
    }

    async fn run_status(&self, _request: &Request) -> Result<(), CniError> {
        Err(self.0.clone())
    }

    fn is_idempotent(&self) -> bool {
        false
    }
}

/// Another plugin's program, such as `host-local`.
pub(crate) struct Program {
    path: PathBuf,
    variables: Variables,
    stdin: Vec<u8>,
}

impl Program {
    /// Looks the plugin up in `CNI_PATH`.
    pub(crate) fn find(context: &Context<'_>) -> Result<Self, CniError> {
        let Request { conf, path, .. } = context.request;
        let name = &conf.ipam.plugin_type;
        if name.contains('/') {
            return Err(CniError::new(ErrorCode::InvalidConfig, format!("ipam.type {name:?} is not a plugin's name")));
        }
        let found = path.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file());
        let found = found.ok_or_else(|| {
            let message = format!("failed to find plugin {name:?} in path [{}]", path.join(" "));
            CniError::new(ErrorCode::InvalidConfig, message)
        })?;
        let mut variables = context.variables.clone();
        let args = variables.entry("CNI_ARGS".into()).or_default();
        *args = if args.is_empty() { "IgnoreUnknown=1".into() } else { format!("IgnoreUnknown=1;{args}") };
        Ok(Self { path: found, variables, stdin: context.stdin.to_vec() })
    }

    fn run(&self, command: &str) -> Result<Vec<u8>, CniError> {
        let failed = |error: std::io::Error| {
            CniError::new(ErrorCode::Io, format!("cannot run {}: {error}", self.path.display()))
        };
        let mut child = self.start(command).map_err(failed)?;
        if let Some(mut stdin) = child.stdin.take() {
            // A plugin need not read its input.
            let _ = stdin.write_all(&self.stdin);
        }
        let Output { status, stdout, .. } = child.wait_with_output().map_err(failed)?;
        if status.success() {
            return Ok(stdout);
        }
        let error = serde_json::from_slice(&stdout).ok().and_then(|document| CniError::from_json(&document));
        Err(error.unwrap_or_else(|| {
            let message = format!("{} failed ({status}) without an error document", self.path.display());
            CniError::new(ErrorCode::Internal, message)
        }))
    }

    fn start(&self, command: &str) -> std::io::Result<Child> {
        let mut attempts = 1..BUSY_ATTEMPTS;
        loop {
            let child = Command::new(&self.path)
                .env_clear()
                .envs(&self.variables)
                .env("CNI_COMMAND", command)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::inherit())
                .spawn();
            match child {
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy && attempts.next().is_some() => {
                    std::thread::sleep(Duration::from_secs(1));
                }
                other => return other,
            }
        }
    }
}

#[async_trait]
impl Addresses for Program {
    async fn add(&self, request: &Request) -> Result<CniResult, CniError> {
        let output = self.run("ADD")?;
        let document = serde_json::from_slice(&output).map_err(|error| {
            CniError::new(ErrorCode::Decode, format!("cannot read the result of {}", self.path.display()))
                .with_details(error.to_string())
        })?;
        CniResult::from_json(&document, request.version)
    }

    async fn del(&self, _request: &Request) -> Result<(), CniError> {
        self.run("DEL").map(drop)
    }

    async fn check(&self, _request: &Request) -> Result<(), CniError> {
        self.run("CHECK").map(drop)
    }

    /// The specification knows of none that are kept.
    async fn gc(&self, _request: &Request, _node: &str, _kept: &BTreeSet<String>) -> Result<(), CniError> {
        self.run("GC").map(drop)
    }

    async fn run_status(&self, request: &Request) -> Result<(), CniError> {
        if request.version < Version::V1_1_0 { Ok(()) } else { self.run("STATUS").map(drop) }
    }

    fn is_idempotent(&self) -> bool {
        false
    }
}
