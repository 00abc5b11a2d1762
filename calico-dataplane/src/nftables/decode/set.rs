//! Declarations of sets and maps.

use std::collections::BTreeMap;

use calico_core::table::{FieldType, SetDecl, SetKind, SetName};

use super::attributes_of;
use crate::netlink::wire::{find, read_be32, read_text};
use crate::nftables::key::{key_length, key_of_type};
use crate::nftables::uapi::{TABLE, set};

/// Collects declarations.
#[derive(Debug, Default)]
pub(crate) struct Sets(BTreeMap<SetName, Option<SetDecl>>);

impl Sets {
    /// Adds a listed set; anonymous ones are part of their rules and left out.
    pub(crate) fn add(&mut self, body: &[u8]) -> Option<()> {
        let (table, attributes) = attributes_of(body)?;
        find(attributes, set::TABLE).and_then(read_text).filter(|name| *name == TABLE)?;
        let name = find(attributes, set::NAME).and_then(read_text).and_then(|name| SetName::of(table, name).ok())?;
        let flags = number(attributes, set::FLAGS).unwrap_or(0);
        if flags & set::ANONYMOUS == 0 {
            let decl = declaration(attributes, flags).map(|(key, kind)| SetDecl { name: name.clone(), key, kind });
            self.0.insert(name, decl);
        }
        Some(())
    }

    /// What was collected; a set that is nothing that we would declare has no declaration.
    pub(crate) fn finish(self) -> BTreeMap<SetName, Option<SetDecl>> {
        self.0
    }
}

/// Whether a message, of whatever kind, is about one of our tables: its first attribute names it, in every kind.
pub(crate) fn is_ours(body: &[u8]) -> bool {
    let name = attributes_of(body).and_then(|(_, attributes)| find(attributes, set::TABLE)).and_then(read_text);
    name == Some(TABLE)
}

fn declaration(attributes: &[u8], flags: u32) -> Option<(Vec<FieldType>, SetKind)> {
    let key = number(attributes, set::KEY_TYPE).and_then(key_of_type)?;
    let length = number(attributes, set::KEY_LENGTH).and_then(|length| usize::try_from(length).ok())?;
    let kind = match flags {
        0 => SetKind::Hash,
        set::INTERVAL if matches!(key.as_slice(), [FieldType::Addr(_)]) => SetKind::Interval,
        set::MAP => map(number(attributes, set::DATA_TYPE)?)?,
        _ => return None,
    };
    (length == key_length(&key)).then_some((key, kind))
}

/// The kind of a map by the type of its data.
fn map(data_type: u32) -> Option<SetKind> {
    if data_type == set::VERDICTS {
        return Some(SetKind::VerdictMap);
    }
    match key_of_type(data_type)?.as_slice() {
        [FieldType::Addr(family)] => Some(SetKind::AddressMap(*family)),
        _ => None,
    }
}

fn number(attributes: &[u8], kind: u16) -> Option<u32> {
    find(attributes, kind).and_then(read_be32)
}
