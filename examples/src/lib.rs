//! What the programs in `src/bin` share: a sample cluster, and reading it. Start with one of them; each is complete in itself.

use std::error::Error;

use calico_cmd::manifest;
use calico_core::resource::{Kind, Resource};

/// Two pods on two hosts and a policy between them.
pub const SAMPLE: &str = include_str!("../data/policy_offline.yaml");

/// The documents of a manifest, checked, and completed as they are when they are stored.
pub fn read(source: &str, yaml: &str) -> Result<Vec<Resource>, Box<dyn Error>> {
    let mut resources = Vec::new();
    for document in manifest::read(source, yaml)? {
        let kind = document.kind().and_then(Kind::from_name).ok_or("a document of unknown kind")?;
        let place = |fault| format!("{}: {fault}", document.place(&fault));
        let mut resource = Resource::decode_strict(kind, &document.value, None)
            .map_err(|faults| faults.into_iter().map(place).collect::<Vec<_>>().join("\n"))?;
        resource.fill_defaults().map_err(place)?;
        resources.push(resource);
    }
    Ok(resources)
}
