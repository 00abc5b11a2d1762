//! The sets that a rule's peers are, remembered for as long as many rules are read: most say what others have said, and to read a selector
//! and work out its id is most of what a rule costs.

use alloc::boxed::Box;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::rule_scan::Definition;
use super::scope::{self, Fault};
use crate::resource::{EntityRule, Packed as _};

/// More are forgotten together: what is remembered must not grow with the policies of a cluster.
const MOST: usize = 1024;

/// The sets.
#[derive(Debug, Default)]
pub(super) struct PeerSets {
    known: HashMap<Box<[u8]>, PeerSet>,
    scratch: Vec<u8>,
}

/// Peers of one side of a rule: those that they must be one of, and those that they must be none of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PeerSet {
    pub(super) positive: Option<Definition>,
    pub(super) negative: Option<Definition>,
}

impl PeerSets {
    /// The sets of one side of a rule, in a policy of that namespace.
    pub(super) fn of(&mut self, namespace: Option<&str>, entity: &EntityRule) -> Result<PeerSet, Fault> {
        let texts = [&entity.selector, &entity.not_selector, &entity.namespace_selector].map(|text| text.as_str());
        if entity.service_accounts.is_some() {
            return PeerSet::of(namespace, entity);
        }
        if texts.iter().all(|text| text.is_empty()) {
            return Ok(PeerSet::default());
        }
        // Lengths first, so that no two ways to say it look alike.
        let said = &mut self.scratch;
        said.clear();
        namespace.map_or(0, |namespace| namespace.len() as u64 + 1).write(said);
        texts.iter().for_each(|text| (text.len() as u64).write(said));
        said.extend_from_slice(namespace.unwrap_or_default().as_bytes());
        texts.iter().for_each(|text| said.extend_from_slice(text.as_bytes()));
        if let Some(known) = self.known.get(said.as_slice()) {
            return Ok(known.clone());
        }
        let new = PeerSet::of(namespace, entity)?;
        if self.known.len() == MOST {
            self.known.clear();
        }
        self.known.insert(said.as_slice().into(), new.clone());
        Ok(new)
    }
}

impl PeerSet {
    fn of(namespace: Option<&str>, entity: &EntityRule) -> Result<Self, Fault> {
        let peers = scope::peers(namespace, entity)?;
        let set = |selector| Definition::new(selector, None);
        Ok(Self { positive: peers.positive.map(set), negative: peers.negative.map(set) })
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::String;

    use proptest::prelude::*;

    use super::*;
    use crate::resource::ServiceAccountMatch;

    fn entity() -> impl Strategy<Value = EntityRule> {
        let text = || {
            prop::sample::select(alloc::vec!["", "", "has(a)", "has(b)", "all()", "a ==", "global()"])
                .prop_map(String::from)
        };
        let accounts = prop::option::weighted(0.2, "[ab]").prop_map(|name| {
            name.map(|name| ServiceAccountMatch { names: alloc::vec![name], ..ServiceAccountMatch::default() })
        });
        (text(), text(), text(), accounts).prop_map(|(selector, not_selector, namespace_selector, service_accounts)| {
            EntityRule { selector, not_selector, namespace_selector, service_accounts, ..EntityRule::default() }
        })
    }

    proptest! {
        #[test]
        fn what_is_remembered_is_what_would_be_worked_out(
            entities in prop::collection::vec((prop::option::of("[ab]"), entity()), 1..60),
        ) {
            let mut sets = PeerSets::default();
            for (namespace, entity) in entities {
                let namespace = namespace.as_deref();
                let shown = |set: Result<PeerSet, Fault>| format!("{:?}", set);
                prop_assert_eq!(shown(sets.of(namespace, &entity)), shown(PeerSet::of(namespace, &entity)));
            }
        }
    }

    #[test]
    fn no_more_is_remembered_than_so_much() {
        let mut sets = PeerSets::default();
        for number in 0..3 * MOST {
            let entity = EntityRule { selector: format!("has(a{number})"), ..EntityRule::default() };
            assert!(sets.of(None, &entity).is_ok());
            assert!(sets.known.len() <= MOST);
        }
    }
}
