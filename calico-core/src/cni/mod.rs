//! The Container Network Interface: what a plugin was asked, what it plans, and how it answers.
//!
//! The specification is at `github.com/containernetworking/cni` (`SPEC.md`); upstream's plugin is `cni-plugin/`. What comes in is
//! an environment and a document from standard input, both hostile; [`Invocation::parse`] makes typed requests of them or one
//! [`CniError`]. What goes out is a [`CniResult`] or an error, in the version that the network's configuration names.
//!
//! | Module | |
//! |---|---|
//! | `request`, `args`, `conf` | environment, `CNI_ARGS`, configuration |
//! | `version` | the versions of the specification, 0.1.0 to 1.1.0 |
//! | `result`, `error` | answers, in every version |
//! | `identity` | names that follow from a request: endpoint, host interface |
//! | `prefixes` | how names of host interfaces begin |
//! | `endpoint` | the objects that an attached workload has in the datastore |
//! | `gc` | what belongs to no attachment that the runtime knows |
//! | `plan` | the steps of an ADD, and how each is undone |

mod args;
mod conf;
mod endpoint;
mod error;
mod gc;
mod identity;
mod plan;
mod prefixes;
mod request;
mod result;
#[cfg(test)]
mod tests;
mod version;

pub use args::Args;
pub use conf::{ContainerSettings, IpamConf, KubernetesConf, NetConf, PolicyConf, RouteConf};
pub use endpoint::{network_profile, renewed_endpoint, workload_endpoint};
pub use error::{CniError, ErrorCode};
pub use gc::{ValidAttachment, is_stale_endpoint, stale_containers};
pub(crate) use identity::pod_suffix;
pub use identity::{Identity, Orchestrator};
pub use plan::{Plan, Step};
pub use prefixes::WorkloadPrefixes;
pub use request::{Command, Environment, Invocation, Request, handle_id};
pub use result::{CniResult, Interface, IpConfig, Route};
pub use version::Version;
