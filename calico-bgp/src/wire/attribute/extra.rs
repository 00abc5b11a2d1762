//! Attributes that few paths carry, in one allocation that the others do without.

use core::hash::{Hash, Hasher};
use core::ops::Deref;

use calico_core::net::AsNumber;

use super::{Aggregator, Aigp, OtherAttribute};

/// The attributes themselves.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[expect(
    clippy::exhaustive_structs,
    reason = "originators build it with literals; a new attribute must break the encoder"
)]
pub struct ExtraAttributes {
    /// AGGREGATOR.
    pub aggregator: Option<Aggregator>,
    /// Extended communities (RFC 4360), in the order received.
    pub extended_communities: Vec<[u8; 8]>,
    /// Extended communities with an IPv6 address (RFC 5701), in the order received.
    pub ipv6_extended_communities: Vec<[u8; 20]>,
    /// AIGP (RFC 7311).
    pub aigp: Option<Aigp>,
    /// Large communities (RFC 8092), sorted and without duplicates.
    pub large_communities: Vec<[u8; 12]>,
    /// OTC: the system that said that the route may go to customers only (RFC 9234).
    pub only_to_customer: Option<AsNumber>,
    /// Optional transitive attributes that are only passed on, by type code.
    pub others: Vec<OtherAttribute>,
}

/// [`ExtraAttributes`], of which most paths have none. Reads like them; to write, say [`make_mut`](Self::make_mut).
#[derive(Clone, Default)]
pub struct Extra(Option<Box<ExtraAttributes>>);

static NOTHING: ExtraAttributes = ExtraAttributes {
    aggregator: None,
    extended_communities: Vec::new(),
    ipv6_extended_communities: Vec::new(),
    aigp: None,
    large_communities: Vec::new(),
    only_to_customer: None,
    others: Vec::new(),
};

impl Extra {
    /// To add, change or take away some.
    pub fn make_mut(&mut self) -> &mut ExtraAttributes {
        self.0.get_or_insert_default()
    }

    /// Whether there are none. True of an allocation with nothing in it, too.
    pub fn is_empty(&self) -> bool {
        self.0.as_ref().is_none_or(|extra| **extra == NOTHING)
    }
}

impl Deref for Extra {
    type Target = ExtraAttributes;

    fn deref(&self) -> &ExtraAttributes {
        self.0.as_deref().unwrap_or(&NOTHING)
    }
}

impl From<ExtraAttributes> for Extra {
    fn from(extra: ExtraAttributes) -> Self {
        Self((extra != NOTHING).then(|| Box::new(extra)))
    }
}

/// What is said counts, not whether memory was allocated to say nothing.
impl PartialEq for Extra {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            _ => **self == **other,
        }
    }
}

impl Eq for Extra {}

impl Hash for Extra {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Some(extra) if **extra != NOTHING => extra.hash(state),
            _ => state.write_u8(0),
        }
    }
}

impl core::fmt::Debug for Extra {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        if self.is_empty() { f.write_str("None") } else { (**self).fmt(f) }
    }
}
