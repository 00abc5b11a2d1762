//! The CNI IPAM plugin: assigns addresses from Calico's pools.
//!
//! [`run`] is the program: environment, standard input and output in, exit code out. [`Allocator`] is the plugin's work alone, which
//! the `calico` plugin calls in-process where the configuration delegates to `calico-ipam`: one process start less per container.
//! [`plugin`] is the shell that both plugins share.
//!
//! Upstream: `cni-plugin/pkg/ipamplugin`. The handle is `<network>.<container id>`; a repeated ADD gives the same addresses; a DEL of
//! something unknown succeeds.

mod allocator;
mod lock;
pub mod plugin;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::sync::Arc;

use calico_core::cni::{CniError, CniResult, Command, Request};
use serde_json::Value;

pub use allocator::{Allocator, status};
use plugin::{Answer, Context, Variables};

/// What is said to somebody who types the program's name.
pub const ABOUT: &str = "Calico CNI IPAM";

/// Acts as `calico-ipam`; answers with the exit code.
pub fn run(variables: &Variables, stdin: &mut dyn Read, stdout: &mut dyn Write) -> u8 {
    plugin::run(ABOUT, variables, stdin, stdout, async |context| serve(&context).await)
}

async fn serve(context: &Context<'_>) -> Answer {
    let request = context.request;
    if request.command == Command::Status {
        return available(context).await.map(|()| None).map_err(CniError::into_unavailable);
    }
    let store = match request.command {
        Command::Check => plugin::store(&request.conf, context.variables).await?,
        _ => plugin::unlocked_store(&request.conf, context.variables).await?,
    };
    match request.command {
        Command::Add => {
            let node = plugin::node_name(&request.conf)?;
            let allocator = Allocator::new(store, context.seed());
            let result = allocator.add(request, &node, plugin::now()).await?;
            document(request, &result)
        }
        Command::Del => Allocator::new(store, context.seed()).del(request, plugin::now()).await.map(|()| None),
        Command::Check => Allocator::new(store, context.seed()).check(request).await.map(|()| None),
        Command::Gc => {
            let node = plugin::node_name_if_any(&request.conf)?.unwrap_or_default();
            let allocator = Allocator::new(Arc::clone(&store), context.seed());
            allocator.gc(&*store, request, &node, &BTreeSet::new(), plugin::now()).await.map(|()| None)
        }
        _ => Ok(None),
    }
}

async fn available(context: &Context<'_>) -> Result<(), CniError> {
    let conf = &context.request.conf;
    plugin::node_name(conf)?;
    status(&*plugin::unlocked_store(conf, context.variables).await?).await
}

fn document(request: &Request, result: &CniResult) -> Answer {
    result.to_json(request.version).map(|document: Value| Some(document))
}
