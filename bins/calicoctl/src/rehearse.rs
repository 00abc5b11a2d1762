//! What the datastore would refuse, found out for all resources before the first of them is written.

use calico_core::Few;
use calico_core::resource::{Fault, Kind, ResourceKey};
use calico_datastore::DatastoreError;
use calico_datastore::client::{Client, ClientError, Intent, Rehearsal, Rehearsed};
use serde_json::Value;

use crate::failure::{Failure, InputFault};
use crate::input::Item;
use crate::order;
use crate::protected::{self, Operation};
use crate::spoilt;
use crate::write::{draft, told};

/// Fails with everything that the resources, written once the cluster's own tiers are there, would be refused for.
pub(crate) async fn check(
    client: &Client,
    verb: &'static str,
    intent: Intent,
    skip_exists: bool,
    items: &mut [Item],
) -> Result<(), Failure> {
    let mut rehearsal = Rehearsal::after_initialising(client);
    let mut refusals = Vec::new();
    for place in order::of_writing(items.iter().map(|item| item.kind)) {
        let Some(item) = items.get_mut(place) else { continue };
        match tried(&mut rehearsal, client, verb, intent, item).await {
            Ok(rehearsed) => {
                if let Some(metadata) = item.resource.metadata_mut().filter(|_| rehearsed.without_revision) {
                    metadata.resource_version = None;
                }
                item.rehearsed = rehearsed;
            }
            Err(Refusal::Client(error)) if skip_exists && spoilt::exists_readable(&error) => {}
            Err(refusal) => {
                let is_stores = matches!(&refusal, Refusal::Client(error) if error.is_of_store());
                refusals.push((place, refusal));
                if is_stores {
                    // The rest would wait for the same store.
                    break;
                }
            }
        }
    }
    refusals.sort_by_key(|(place, _)| *place);
    let mut faults = Few::default();
    for (place, refusal) in refusals {
        match (refusal, items.get(place)) {
            (Refusal::Client(error), Some(item)) => report(error, verb, item, &mut faults),
            (Refusal::Reserved(fault), _) => faults.add(|| *fault),
            (Refusal::Client(_), None) => {}
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(Failure::Input(faults)) }
}

/// Why a resource would not be written.
enum Refusal {
    Client(ClientError),
    /// It is not the operator's to write, or not like this.
    Reserved(Box<InputFault>),
}

async fn tried(
    rehearsal: &mut Rehearsal<'_>,
    client: &Client,
    verb: &'static str,
    intent: Intent,
    item: &Item,
) -> Result<Rehearsed, Refusal> {
    let refused = |message: String, path: &str| {
        let place = Box::new(item.document.place(&Fault::value(path, None, "")));
        Refusal::Reserved(Box::new(InputFault::Refused { verb, kind: item.kind, message, place }))
    };
    let key = item.resource.key();
    let mut intent = intent;
    if let Some(message) = key.as_ref().and_then(|key| protected::refusal(Operation::from(intent), key)) {
        let may_mend = intent == Intent::Update && item.kind == Kind::ClusterInformation;
        if !may_mend || !is_spoilt(client, key.as_ref()).await? {
            return Err(refused(message, "metadata.name"));
        }
        // Whether the datastore is locked is nobody's to guess.
        if !item.document.value.pointer("/spec/datastoreReady").is_some_and(Value::is_boolean) {
            let reason = "what is stored cannot be read, so the document must say whether the datastore is locked: \
                          spec.datastoreReady: false keeps everybody from acting on it, true does not";
            return Err(refused(reason.to_owned(), "spec.datastoreReady"));
        }
        // And nothing else: if somebody mends it in between, it is not an operator's to write any more.
        intent = Intent::Mend;
    }
    match rehearsal.write(intent, draft(item)).await {
        Err(error) if intent == Intent::Update && spoilt::is_spoilt(&error) => {
            rehearsal.write(Intent::Mend, draft(item)).await.map_err(Refusal::Client)
        }
        other => other.map_err(Refusal::Client),
    }
}

/// Whether what is stored cannot be read, or not be written back.
async fn is_spoilt(client: &Client, key: Option<&ResourceKey>) -> Result<bool, Refusal> {
    let Some(key) = key else { return Ok(false) };
    match client.entry(key).await {
        Ok(Ok(stored)) => Ok(stored.raw.inexact().is_some()),
        Ok(Err(_)) => Ok(true),
        Err(error) if error.is_of_store() => Err(Refusal::Client(error)),
        Err(_) => Ok(false),
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
    if error.is_of_store() {
        told_faults.add(|| InputFault::Store { verb, kind, message: told(&error, None) });
        return;
    }
    let field = match &error {
        ClientError::Store(DatastoreError::Conflict { .. }) => "metadata.resourceVersion",
        ClientError::Store(DatastoreError::NotFound { key, .. }) if is_missing_tier(key, kind) => "spec.tier",
        _ => "metadata.name",
    };
    told_faults.add(|| {
        let place = place(&Fault::value(field, None, ""));
        InputFault::Refused { verb, kind, message: told(&error, Some(&item.resource)), place }
    });
}

fn is_missing_tier(key: &ResourceKey, kind: Kind) -> bool {
    key.kind() == Kind::Tier && kind != Kind::Tier
}
