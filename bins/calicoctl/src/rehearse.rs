//! What the datastore would refuse, found out for all resources before the first of them is written.

use calico_core::Few;
use calico_core::resource::{Fault, Kind, ResourceKey};
use calico_datastore::DatastoreError;
use calico_datastore::client::{Client, ClientError, Intent, Rehearsal};

use crate::failure::{Failure, InputFault};
use crate::input::Item;
use crate::protected::{self, Operation};
use crate::write::{draft, told};

/// Fails with everything that the resources, written in this order once the cluster's own tiers are there, would be refused for.
pub(crate) async fn check(
    client: &Client,
    verb: &'static str,
    intent: Intent,
    skip_exists: bool,
    items: &mut [Item],
) -> Result<(), Failure> {
    let mut rehearsal = Rehearsal::after_initialising(client);
    let mut faults = Few::default();
    for item in items {
        let reserved = item.resource.key().and_then(|key| protected::refusal(Operation::from(intent), &key));
        if let Some(message) = reserved {
            faults.add(|| {
                let place = Box::new(item.document.place(&Fault::value("metadata.name", None, "")));
                InputFault::Refused { verb, kind: item.kind, message, place }
            });
            continue;
        }
        match rehearsal.write(intent, draft(item)).await {
            Ok(rehearsed) => {
                if let Some(metadata) = item.resource.metadata_mut().filter(|_| rehearsed.without_revision) {
                    metadata.resource_version = None;
                }
                item.rehearsed = rehearsed;
            }
            Err(ClientError::Store(DatastoreError::AlreadyExists { .. })) if skip_exists => {}
            Err(error) => {
                let is_answer = is_answer(&error);
                report(error, verb, item, &mut faults);
                if !is_answer {
                    // The rest would wait for the same store.
                    break;
                }
            }
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(Failure::Input(faults)) }
}

/// Whether it is about the resource, and not about reaching the store.
fn is_answer(error: &ClientError) -> bool {
    match error {
        ClientError::Store(error) => matches!(
            error,
            DatastoreError::NotFound { .. }
                | DatastoreError::AlreadyExists { .. }
                | DatastoreError::Conflict { .. }
                | DatastoreError::Unreadable { .. }
                | DatastoreError::Inexact { .. }
        ),
        _ => true,
    }
}

fn report(error: ClientError, verb: &'static str, item: &Item, told_faults: &mut Few<InputFault>) {
    let kind = item.kind;
    let place = |fault: &Fault| Box::new(item.document.place(fault));
    if let ClientError::Invalid { faults } = error {
        for fault in faults {
            told_faults.add(|| InputFault::Fault { verb, kind, place: place(&fault), fault });
        }
        return;
    }
    let field = match &error {
        ClientError::Store(DatastoreError::Conflict { .. }) => "metadata.resourceVersion",
        ClientError::Store(DatastoreError::NotFound { key, .. }) if is_missing_tier(key, kind) => "spec.tier",
        _ => "metadata.name",
    };
    told_faults.add(|| {
        let place = place(&Fault::value(field, None, ""));
        InputFault::Refused { verb, kind, message: told(&error, &item.resource), place }
    });
}

fn is_missing_tier(key: &ResourceKey, kind: Kind) -> bool {
    key.kind() == Kind::Tier && kind != Kind::Tier
}
