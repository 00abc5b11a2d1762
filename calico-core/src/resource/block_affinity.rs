//! `BlockAffinity` of the v3 API: the claim of a block, as whoever asks the API sees it.
//!
//! IPAM keeps its claims elsewhere ([`BlockAffinity`], under the key of owner and block). With etcd, the API's objects are a store of
//! their own that IPAM never looks at; with Kubernetes they are the same objects. Either way the one can be made of the other.

use alloc::borrow::ToOwned;
use alloc::string::{String, ToString};

use serde::{Deserialize, Deserializer, Serialize};

use super::formats::PREFIX;
use super::limit::Limit;
use super::model::{Absent, model, scalars};
use super::{AffinityOwner, AffinityState, BlockAffinity, Fault, ResourceKey};
use crate::net::Cidr;

model! {
    /// Specification of a `BlockAffinity`.
    pub struct BlockAffinitySpec: specification {
        /// Progress of the claim.
        "state" state: AffinityState;
        /// Who claims: the name of a host, or of a pseudo-host.
        "node" node: String;
        /// What sort of owner that is: `host` (also where it is empty) or `virtual`.
        "type" owner_type: String;
        /// The block.
        "cidr" cidr: String, required where [Limit::Text(&PREFIX)];
        /// Whether the claim is only still there so that its deletion is a race that somebody wins.
        "deleted" deleted: Tombstone = "false";
    }
}

/// Whether an object counts as deleted. The API has a truth value; what is stored has its text, since earlier versions wrote that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(transparent)]
#[expect(clippy::exhaustive_structs, reason = "it is one truth value")]
pub struct Tombstone(pub bool);

scalars!(Tombstone, AffinityState);

impl<'de> Deserialize<'de> for Tombstone {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected true or false")]
        enum Form {
            Value(bool),
            Text(String),
        }
        match Form::deserialize(deserializer)? {
            Form::Value(value) => Ok(Self(value)),
            Form::Text(text) => match text.as_str() {
                "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Self(true)),
                "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Self(false)),
                _ => Err(serde::de::Error::custom("expected true or false")),
            },
        }
    }
}

/// Both are always written.
impl Absent for Tombstone {
    fn is_absent(&self) -> bool {
        false
    }
}

/// Both are always written.
impl Absent for AffinityState {
    fn is_absent(&self) -> bool {
        false
    }
}

const HOST: &str = "host";
const VIRTUAL: &str = "virtual";

impl BlockAffinitySpec {
    /// IPAM's claim as the API has it.
    pub fn of(owner: &AffinityOwner, block: Cidr, claim: &BlockAffinity) -> Self {
        let (owner_type, node) = match owner {
            AffinityOwner::Host(name) => (HOST, name),
            AffinityOwner::Virtual(name) => (VIRTUAL, name),
        };
        Self {
            state: claim.state,
            node: node.to_string(),
            owner_type: owner_type.to_owned(),
            cidr: block.to_string(),
            deleted: Tombstone(claim.deleted),
        }
    }

    /// Why nobody may write it so: only who deletes it may mark it deleted.
    pub fn refusal(&self) -> Option<Fault> {
        let is_deleted = self.deleted.0;
        is_deleted.then(|| Fault::value("spec.deleted", Some("true".to_owned()), "cannot be set to \"true\""))
    }

    /// Key and claim of IPAM.
    ///
    /// # Errors
    /// What of the specification says neither who claims nor what.
    pub fn claim(&self) -> Result<(ResourceKey, BlockAffinity), Fault> {
        let name = Some(self.node.as_str()).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Fault::missing("spec.node"))?;
        let owner = match self.owner_type.as_str() {
            "" | HOST => AffinityOwner::Host(name.into()),
            VIRTUAL => AffinityOwner::Virtual(name.into()),
            other => return Err(Fault::value("spec.type", Some(other.to_owned()), "expected host or virtual")),
        };
        let block = self.cidr.parse::<Cidr>();
        let block = block.map_err(|error| Fault::value("spec.cidr", Some(self.cidr.clone()), error.to_string()))?;
        let claim = BlockAffinity { state: self.state, deleted: self.deleted.0 };
        Ok((ResourceKey::Affinity { owner, block }, claim))
    }
}
