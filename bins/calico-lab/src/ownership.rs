//! Which namespaces are a network's own: those whose identity its record holds. A name alone says nothing, anybody can give it.

use calico_dataplane::netns::{Netns, NetnsError, named};

use crate::error::{Context, LabError};
use crate::plan::Plan;
use crate::record::{Identity, Record};

/// Who has a name now.
enum Holder {
    Nobody,
    Own(Netns),
    /// A bare file: our own creation was interrupted before it became a namespace.
    Debris,
    Stranger,
}

fn holder(name: &str, identity: Identity) -> Result<Holder, LabError> {
    let failed = || format!("cannot look at network namespace {name}");
    match named::open(name) {
        Ok(netns) if netns.identity().context(failed)? == identity => Ok(Holder::Own(netns)),
        Ok(_) => Ok(Holder::Stranger),
        Err(NetnsError::NotNetns { .. }) => Ok(Holder::Debris),
        Err(error) if error.is_absent() => Ok(Holder::Nobody),
        Err(error) => Err(error).context(failed),
    }
}

/// Refuses a plan of which a name is taken.
pub(crate) fn require_free(plan: &Plan) -> Result<(), LabError> {
    let present = named::list().context(|| "cannot list network namespaces".into())?;
    match plan.all_netns().into_iter().find(|name| present.contains(name)) {
        None => Ok(()),
        Some(name) => Err(LabError::new(format!(
            "network namespace {name} exists and is not this lab's: remove it with `ip netns delete {name}`, or choose another --name"
        ))),
    }
}

/// Those of a network that are there.
pub(crate) fn own(record: &Record) -> Result<Vec<Netns>, LabError> {
    let mut found = Vec::new();
    for (name, identity) in &record.namespaces {
        if let Holder::Own(netns) = holder(name, *identity)? {
            found.push(netns);
        }
    }
    Ok(found)
}

/// Names of a network that others have taken since.
pub(crate) fn strangers(record: &Record) -> Result<Vec<&str>, LabError> {
    let mut found = Vec::new();
    for (name, identity) in &record.namespaces {
        if matches!(holder(name, *identity)?, Holder::Stranger) {
            found.push(name.as_str());
        }
    }
    Ok(found)
}

/// Deletes a network's own namespaces, and nobody else's. Links go with them.
pub(crate) fn remove(record: &Record) -> Result<(), LabError> {
    let mut failure = None;
    for (name, identity) in &record.namespaces {
        let deleted = match holder(name, *identity)? {
            Holder::Own(_) | Holder::Debris => named::delete(name),
            Holder::Nobody | Holder::Stranger => Ok(()),
        };
        if let Err(error) = deleted.context(|| format!("cannot delete network namespace {name}")) {
            failure.get_or_insert(error);
        }
    }
    failure.map_or(Ok(()), Err)
}
