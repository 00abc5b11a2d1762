//! The CNI plugin: attaches a container's interface to the network.
//!
//! [`run`] is the program: environment, standard input and output in, exit code out. The flow of an ADD is that of
//! `calico_core::cni::Plan`: addresses from the IPAM plugin, a veth pair, the WorkloadEndpoint in the datastore, and then the wait until
//! the agent says that its policy is in the kernel. That wait is bounded (`policy_setup_timeout_seconds`, else ten seconds): after it the
//! ADD succeeds with a warning on standard error, and the container's traffic is denied until the agent has set its policy up. The
//! plugin touches no policy, but makes the network's profile where that is missing; and whatever fails, it takes back what it did.
//!
//! | Module | |
//! |---|---|
//! | `add`, `del`, `check`, `gc` | the commands |
//! | `delegate` | the IPAM plugin: `calico-ipam` in-process, any other by its program |
//! | `links` | interfaces, by `calico_dataplane::workload` |
//! | `ownership` | whose the host's interface is |
//! | `endpoint` | the WorkloadEndpoint and the network's profile in the datastore |
//! | `agent` | the wait for policy, over the agent's control socket |
//!
//! Upstream: `cni-plugin/pkg/plugin`, orchestrator `cni`, and the naming of `k8s` where no API server is asked.

mod add;
mod agent;
mod check;
mod del;
mod delegate;
mod endpoint;
mod gc;
mod links;
mod ownership;
#[cfg(test)]
mod tests;

use std::io::{Read, Write};
use std::sync::Arc;

use calico_core::cni::{CniError, Command, ErrorCode, Identity, Request, WorkloadPrefixes};
use calico_core::resource::{Kind, ResourceKey};
use calico_datastore::{Clock, Datastore, IdSource, SystemClock, SystemIds};
use calico_ipam::Allocator;
use calico_ipam::plugin::{self, Answer, Context, Variables};

use crate::agent::{Agent, ControlSocket};
use crate::delegate::{Absent, Addresses, InProcess, Program};
use crate::links::{Kernel, Links};

/// What is said to somebody who types the program's name.
pub const ABOUT: &str = "Calico CNI plugin";

/// Acts as `calico`; answers with the exit code.
pub fn run(variables: &Variables, stdin: &mut dyn Read, stdout: &mut dyn Write) -> u8 {
    plugin::run(ABOUT, variables, stdin, stdout, async |context| serve(&context).await)
}

/// What the commands work with. Tests put their own in.
struct Parts<'a> {
    store: Arc<dyn Datastore>,
    addresses: &'a dyn Addresses,
    links: &'a dyn Links,
    agent: &'a dyn Agent,
}

/// What new objects need.
struct Births<'a> {
    clock: &'a dyn Clock,
    ids: &'a dyn IdSource,
}

async fn serve(context: &Context<'_>) -> Answer {
    let request = context.request;
    match request.command {
        Command::Add | Command::Check => attach_or_check(context).await,
        Command::Del => detach(context).await.map(|()| None),
        Command::Status => status(context).await.map(|()| None).map_err(CniError::into_unavailable),
        Command::Gc => collect(context).await.map(|()| None),
        _ => Ok(None),
    }
}

async fn attach_or_check(context: &Context<'_>) -> Answer {
    let (request, variables) = (context.request, context.variables);
    refuse_unsupported(request)?;
    let identity = identity(context, &plugin::node_name(&request.conf)?)?;
    let store = match request.command {
        Command::Check => plugin::store(&request.conf, variables).await?,
        _ => plugin::unlocked_store(&request.conf, variables).await?,
    };
    let addresses = delegate(context, &store, &identity.node)?;
    let agent = ControlSocket::new(&request.conf, variables);
    let parts = Parts { store, addresses: &*addresses, links: &Kernel, agent: &agent };
    if request.command == Command::Check {
        return check::check(request, &identity, &parts).await.map(|()| None);
    }
    let ids = SystemIds::open().map_err(|error| CniError::new(ErrorCode::Io, format!("/dev/urandom: {error}")))?;
    let births = Births { clock: &SystemClock, ids: &ids };
    let result = add::add(request, &identity, &parts, &births).await?;
    result.to_json(request.version).map(Some)
}

/// What is wrong with configuration or host stops nothing here but what needs it: the container was attached before it went wrong.
async fn detach(context: &Context<'_>) -> Result<(), CniError> {
    let (request, variables) = (context.request, context.variables);
    let store = match plugin::unlocked_store(&request.conf, variables).await {
        Ok(store) => store,
        // What needs no datastore is done; the runtime will come again for the rest.
        Err(error) => return del::detach(request, &Kernel, None).and(Err(error)),
    };
    let node = plugin::node_name_if_any(&request.conf).map_err(CniError::from);
    let identity = node.and_then(|node| node.map(|node| identity(context, &node)).transpose());
    let addresses = delegate(context, &store, "").unwrap_or_else(|error| Box::new(Absent(error)));
    let agent = ControlSocket::new(&request.conf, variables);
    del::del(request, identity, &Parts { store, addresses: &*addresses, links: &Kernel, agent: &agent }).await
}

async fn collect(context: &Context<'_>) -> Result<(), CniError> {
    let (request, variables) = (context.request, context.variables);
    let node = plugin::node_name_if_any(&request.conf)?.unwrap_or_default();
    let store = plugin::unlocked_store(&request.conf, variables).await?;
    let addresses = delegate(context, &store, &node)?;
    let agent = ControlSocket::new(&request.conf, variables);
    let parts = Parts { store, addresses: &*addresses, links: &Kernel, agent: &agent };
    gc::gc(request, &node, &prefixes(context)?, &parts).await
}

/// Whether an ADD could be served: all that it would stumble over whatever the container.
async fn status(context: &Context<'_>) -> Result<(), CniError> {
    let request = context.request;
    refuse_unsupported(request)?;
    plugin::node_name(&request.conf)?;
    let store = plugin::unlocked_store(&request.conf, context.variables).await?;
    // Opened is not reached. Whether there is such an object does not matter.
    match store.get(&ResourceKey::cluster(Kind::Profile, &request.conf.name)).await {
        Err(error) if error.is_retryable() => return Err(plugin::datastore_failure("cannot read", &error)),
        _ => {}
    }
    delegate(context, &store, "")?.run_status(request).await
}

fn identity(context: &Context<'_>, node: &str) -> Result<Identity, CniError> {
    Identity::of(context.request, node, prefixes(context)?.first().as_str())
}

fn prefixes(context: &Context<'_>) -> Result<WorkloadPrefixes, CniError> {
    let text = context.variables.get(WorkloadPrefixes::VARIABLE).filter(|text| !text.is_empty());
    text.map_or_else(|| Ok(WorkloadPrefixes::default()), |text| text.parse())
}

/// The IPAM plugin. `node` is who an address is assigned for; nobody, for what assigns none.
fn delegate(context: &Context<'_>, store: &Arc<dyn Datastore>, node: &str) -> Result<Box<dyn Addresses>, CniError> {
    let ipam = &context.request.conf.ipam.plugin_type;
    match ipam.as_str() {
        "" => Err(CniError::new(ErrorCode::InvalidConfig, "the configuration has no ipam.type")),
        // The same work as in its own process, less the process.
        "calico-ipam" => Ok(Box::new(InProcess {
            allocator: Allocator::new(store.clone(), context.seed()),
            store: store.clone(),
            node: node.to_owned(),
        })),
        _ => Program::find(context).map(|program| Box::new(program) as Box<dyn Addresses>),
    }
}

/// Refuses what this version cannot do. A DEL is not asked: it takes away what an older configuration made.
fn refuse_unsupported(request: &Request) -> Result<(), CniError> {
    let conf = &request.conf;
    if !matches!(conf.device_type.as_str(), "" | "veth" | "netkit") {
        let message = format!("device_type {:?} is not supported: veth or netkit", conf.device_type);
        return Err(CniError::new(ErrorCode::InvalidConfig, message));
    }
    if conf.policy_setup_timeout_seconds.is_some_and(|seconds| seconds < 0) {
        return Err(CniError::new(ErrorCode::InvalidConfig, "policy_setup_timeout_seconds is negative"));
    }
    if conf.policy.source == "k8s" {
        let message = "policy.type k8s needs the Kubernetes API, which this version does not read: leave policy out";
        return Err(CniError::new(ErrorCode::UnsupportedField, message));
    }
    Ok(())
}
