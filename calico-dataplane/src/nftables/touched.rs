//! Which of our objects notifications name.
//!
//! Every notification but those of whole tables names a chain or a set. One thing is told in part only: of a chain that was renamed, the
//! kernel tells the new name. So after any news of a chain that is there, those that are known are to be looked for.

use std::collections::BTreeSet;

use calico_core::table::{ChainName, SetName, Table};

use super::decode::{attributes_of, is_ours};
use super::uapi::{self, chain, element, rule, set};
use crate::netlink::wire::{Message, find, read_text};

/// Most objects that are named; where more are, all that is ours is looked at.
const MOST: usize = 1024;

/// Objects that others touched.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    pub(crate) chains: BTreeSet<ChainName>,
    pub(crate) sets: BTreeSet<SetName>,
    /// Tables in which a chain may have lost its name.
    pub(crate) renamed: BTreeSet<Table>,
    /// Chains that may have been given their name.
    pub(crate) named: BTreeSet<ChainName>,
}

/// How much of what is ours a notification is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Nothing.
    Nothing,
    /// What is [`Touched`] now.
    Objects,
    /// A whole table, or more than is worth naming.
    Everything,
}

impl Touched {
    /// Takes in a notification.
    pub(crate) fn note(&mut self, message: Message<'_>) -> Extent {
        if message.kind == uapi::NEW_GENERATION || !is_ours(message.body) {
            return Extent::Nothing;
        }
        let Some((table, attributes)) = attributes_of(message.body) else { return Extent::Nothing };
        let name = |kind: u16| find(attributes, kind).and_then(read_text);
        // What has a name that we could not have given does no harm: nothing of ours leads there.
        let chain = |kind| name(kind).and_then(|name| ChainName::of(table, name).ok());
        let set = |kind| name(kind).and_then(|name| SetName::of(table, name).ok());
        match message.kind {
            uapi::NEW_CHAIN => {
                self.renamed.insert(table);
                self.named.extend(chain(chain::NAME));
                self.chains.extend(chain(chain::NAME));
            }
            uapi::DEL_CHAIN | uapi::DESTROY_CHAIN => self.chains.extend(chain(chain::NAME)),
            uapi::NEW_RULE | uapi::DEL_RULE | uapi::DESTROY_RULE => self.chains.extend(chain(rule::CHAIN)),
            uapi::NEW_SET | uapi::DEL_SET | uapi::DESTROY_SET => self.sets.extend(set(set::NAME)),
            uapi::NEW_ELEMENT | uapi::DEL_ELEMENT | uapi::DESTROY_ELEMENT => self.sets.extend(set(element::LIST_SET)),
            _ => return Extent::Everything,
        }
        if self.chains.len() + self.sets.len() > MOST { Extent::Everything } else { Extent::Objects }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chains.is_empty() && self.sets.is_empty() && self.renamed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::wire::{Writer, messages};
    use crate::testing::sample::{chain_name, set_name};

    fn noted(touched: &mut Touched, kind: u16, family: u8, texts: &[(u16, &str)]) -> Extent {
        let mut writer = Writer::default();
        writer.message(kind, 0, 0, |w| {
            w.raw(&[family, 0, 0, 0]);
            texts.iter().for_each(|(kind, text)| w.text(*kind, text));
        });
        let bytes = writer.finish().unwrap();
        let message = messages(&bytes).next().unwrap();
        touched.note(message)
    }

    #[test]
    fn objects_are_named_by_what_was_done_to_them() {
        use Extent::{Everything, Nothing, Objects};
        let ours = (1, uapi::TABLE);
        for (kind, texts, expected, chains, sets) in [
            (uapi::NEW_CHAIN, [ours, (chain::NAME, "a")], Objects, vec!["a"], vec![]),
            (uapi::DEL_CHAIN, [ours, (chain::NAME, "a")], Objects, vec!["a"], vec![]),
            (uapi::DESTROY_CHAIN, [ours, (chain::NAME, "a")], Objects, vec!["a"], vec![]),
            (uapi::NEW_RULE, [ours, (rule::CHAIN, "a")], Objects, vec!["a"], vec![]),
            (uapi::DEL_RULE, [ours, (rule::CHAIN, "a")], Objects, vec!["a"], vec![]),
            (uapi::DESTROY_RULE, [ours, (rule::CHAIN, "a")], Objects, vec!["a"], vec![]),
            (uapi::NEW_SET, [ours, (set::NAME, "a")], Objects, vec![], vec!["a"]),
            (uapi::DEL_SET, [ours, (set::NAME, "a")], Objects, vec![], vec!["a"]),
            (uapi::DESTROY_SET, [ours, (set::NAME, "a")], Objects, vec![], vec!["a"]),
            (uapi::NEW_ELEMENT, [ours, (element::LIST_SET, "a")], Objects, vec![], vec!["a"]),
            (uapi::DEL_ELEMENT, [ours, (element::LIST_SET, "a")], Objects, vec![], vec!["a"]),
            (uapi::DESTROY_ELEMENT, [ours, (element::LIST_SET, "a")], Objects, vec![], vec!["a"]),
            (uapi::NEW_TABLE, [ours, (2, "")], Everything, vec![], vec![]),
            (uapi::NEW_TABLE + 2, [ours, (2, "")], Everything, vec![], vec![]),
            (uapi::DESTROY_TABLE, [ours, (2, "")], Everything, vec![], vec![]),
            // Not ours.
            (uapi::NEW_RULE, [(1, "calico"), (rule::CHAIN, "a")], Nothing, vec![], vec![]),
            (uapi::NEW_GENERATION, [ours, (2, "")], Nothing, vec![], vec![]),
        ] {
            let mut touched = Touched::default();
            assert_eq!(noted(&mut touched, kind, 1, &texts), expected, "{kind:#x}");
            assert_eq!(touched.chains, chains.into_iter().map(chain_name).collect(), "{kind:#x}");
            assert_eq!(touched.sets, sets.into_iter().map(set_name).collect(), "{kind:#x}");
            assert_eq!(!touched.named.is_empty(), kind == uapi::NEW_CHAIN, "{kind:#x}");
            assert_eq!(!touched.is_empty(), expected == Objects, "{kind:#x}");
            assert_eq!(touched.renamed.contains(&Table::Inet), kind == uapi::NEW_CHAIN, "{kind:#x}");
        }
        // A family of which we have no table.
        assert_eq!(noted(&mut Touched::default(), uapi::NEW_TABLE, 2, &[ours]), Nothing);
    }

    #[test]
    fn more_than_is_worth_naming_is_everything() {
        let mut touched = Touched::default();
        for number in 0..MOST {
            let name = format!("c{number}");
            assert_eq!(noted(&mut touched, uapi::DEL_RULE, 1, &[(1, uapi::TABLE), (2, &name)]), Extent::Objects);
        }
        assert_eq!(noted(&mut touched, uapi::DEL_RULE, 1, &[(1, uapi::TABLE), (2, "c0")]), Extent::Objects);
        assert_eq!(noted(&mut touched, uapi::DEL_SET, 1, &[(1, uapi::TABLE), (2, "c0")]), Extent::Everything);
    }
}
