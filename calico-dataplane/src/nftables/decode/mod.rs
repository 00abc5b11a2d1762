//! What the kernel lists of our table, as [`ObservedChain`](crate::ObservedChain)s and [`ObservedSet`](crate::ObservedSet)s.
//!
//! Pure: bodies of netlink messages in. Anything may be in a listing, since anybody may write to our table: what is not
//! recognisable is reported as present without a fingerprint or declaration, so that the reconciler replaces it.

mod chain;
mod element;
mod set;
#[cfg(test)]
mod tests;

use calico_core::table::Table;

use super::uapi::table_of;

pub(crate) use chain::{ChainListing, Chains};
pub(crate) use element::Elements;
pub(crate) use set::{Sets, is_ours};

/// Octets of the fixed header in front of the attributes: family, version, resource id.
const HEADER: usize = 4;

/// The attributes of a message on a family that we have a table of, and which.
pub(super) fn attributes_of(body: &[u8]) -> Option<(Table, &[u8])> {
    let (header, attributes) = body.split_first_chunk::<HEADER>()?;
    Some((table_of(header[0])?, attributes))
}

/// Feeds arbitrary bytes to every decoder; for fuzzing, and replayed over a corpus by the tests.
#[cfg(any(test, feature = "testing"))]
pub(crate) fn decode_any(bytes: &[u8]) {
    let mut chains = Chains::default();
    let mut sets = Sets::default();
    for message in crate::netlink::wire::messages(bytes) {
        chains.add_chain(message.body);
        chains.add_rule(message.body);
        sets.add(message.body);
        let _ = is_ours(message.body);
    }
    for map in chains.take_maps() {
        let mut elements = Elements::default();
        for message in crate::netlink::wire::messages(bytes) {
            elements.add(message.body);
        }
        chains.add_map(&map, elements.target());
    }
    let _ = chains.finish();
    for decl in sets.finish().into_values().flatten() {
        let mut elements = Elements::default();
        for message in crate::netlink::wire::messages(bytes) {
            elements.add(message.body);
        }
        let _ = elements.observe(&decl);
    }
}
