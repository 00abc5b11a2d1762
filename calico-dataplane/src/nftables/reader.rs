//! Questions to nf_tables: what is in our tables now.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use calico_core::table::{ChainName, Element, SetDecl, SetName, Table};
use nix::errno::Errno;

use super::decode::{ChainListing, Chains, Elements, Sets};
use super::uapi::{self, TABLE, chain, element, generation, set, title};
use crate::DataplaneError;
use crate::netlink::socket::RequestSocket;
use crate::netlink::wire::{ERROR, Message, REQUEST, Writer, find, read_be32};

/// Asks over a socket.
pub(super) struct Reader<'a>(pub(super) &'a mut RequestSocket);

impl Reader<'_> {
    /// The chains of a table, without their rules.
    pub(super) fn chains(&mut self, table: Table) -> Result<Chains, DataplaneError> {
        let collect = |chains: &mut Chains, message: Message<'_>| {
            chains.add_chain(message.body);
        };
        self.0.dump(uapi::GET_CHAIN, |w| header(w, table), collect).map_err(kernel("list the chains", &title(table)))
    }

    /// A chain, if it is there, without its rules.
    pub(super) fn chain(&mut self, name: &ChainName) -> Result<Chains, DataplaneError> {
        let request = |w: &mut Writer| {
            w.text(chain::TABLE, TABLE);
            w.text(chain::NAME, name.as_str());
        };
        let read = |body: &[u8]| {
            let mut chains = Chains::default();
            chains.add_chain(body);
            Some(chains)
        };
        let found = self.ask(uapi::GET_CHAIN, name.table(), request, read);
        absent_or(found).map(Option::unwrap_or_default).map_err(kernel("look for chain", name))
    }

    /// Reads the rules of chains. Chain by chain: to go on with a list of all rules, the kernel counts its way through those that it has told.
    pub(super) fn with_rules(
        &mut self,
        mut chains: Chains,
    ) -> Result<BTreeMap<ChainName, ChainListing>, DataplaneError> {
        for name in chains.names() {
            let request = |w: &mut Writer| {
                header(w, name.table());
                w.text(uapi::rule::TABLE, TABLE);
                w.text(uapi::rule::CHAIN, name.as_str());
            };
            let collect = |rules: &mut Chains, message: Message<'_>| {
                rules.add_rule(message.body);
            };
            let rules = self.0.dump(uapi::GET_RULE, request, collect);
            chains.take_rules(rules.map_err(kernel("list the rules of chain", &name))?);
        }
        for map in chains.take_maps() {
            let elements = absent_or(self.list_elements(map.chain.table(), &map.name).map(Some));
            let elements = elements.map_err(kernel("list a map of a rule of chain", &map.chain))?;
            chains.add_map(&map, elements.and_then(|elements| elements.target()));
        }
        Ok(chains.finish())
    }

    /// The declaration of a set, if it is there; none where it is none that we would write.
    pub(super) fn set(&mut self, name: &SetName) -> Result<Option<Option<SetDecl>>, DataplaneError> {
        let request = |w: &mut Writer| {
            w.text(set::TABLE, TABLE);
            w.text(set::NAME, name.as_str());
        };
        let read = |body: &[u8]| {
            let mut sets = Sets::default();
            sets.add(body);
            sets.finish().remove(name)
        };
        absent_or(self.ask(uapi::GET_SET, name.table(), request, read)).map_err(kernel("look for set", name))
    }

    pub(super) fn sets(&mut self, table: Table) -> Result<BTreeMap<SetName, Option<SetDecl>>, DataplaneError> {
        let request = |w: &mut Writer| {
            header(w, table);
            w.text(set::TABLE, TABLE);
        };
        let collect = |sets: &mut Sets, message: Message<'_>| {
            sets.add(message.body);
        };
        self.0.dump(uapi::GET_SET, request, collect).map(Sets::finish).map_err(kernel("list the sets", &title(table)))
    }

    pub(super) fn elements(&mut self, decl: &SetDecl) -> Result<Option<BTreeSet<Element>>, DataplaneError> {
        let elements = self.list_elements(decl.name.table(), decl.name.as_str());
        elements.map(|elements| elements.observe(decl)).map_err(kernel("list the elements of set", &decl.name))
    }

    fn list_elements(&mut self, table: Table, set: &str) -> io::Result<Elements> {
        let request = |w: &mut Writer| {
            header(w, table);
            w.text(element::LIST_TABLE, TABLE);
            w.text(element::LIST_SET, set);
        };
        let collect = |elements: &mut Elements, message: Message<'_>| {
            elements.add(message.body);
        };
        self.0.dump(uapi::GET_ELEMENT, request, collect)
    }

    /// Flags of a table, if it is there.
    pub(super) fn table_flags(&mut self, table: Table) -> Result<Option<u32>, DataplaneError> {
        let flags =
            |body: &[u8]| Some(find(body.get(4..)?, uapi::table::FLAGS).and_then(read_be32).unwrap_or_default());
        let answer = self.ask(uapi::GET_TABLE, table, |w| w.text(uapi::table::NAME, TABLE), flags);
        absent_or(answer).map_err(kernel("look for", &title(table)))
    }

    /// The number that every transaction, by anybody, raises.
    pub(super) fn generation(&mut self) -> Result<u32, DataplaneError> {
        let read = |body: &[u8]| find(body.get(4..)?, generation::ID).and_then(read_be32);
        let answer = self.ask(uapi::GET_GENERATION, Table::Inet, |_| {}, read);
        answer.map_err(kernel("read the generation", &"nf_tables"))?.ok_or_else(|| DataplaneError::Reply {
            operation: "read the generation of nf_tables",
            detail: "no number in it".into(),
        })
    }

    fn ask<T>(
        &mut self,
        kind: u16,
        table: Table,
        body: impl FnOnce(&mut Writer),
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> io::Result<Option<T>> {
        let sequence = self.0.reserve(1);
        let mut writer = Writer::default();
        writer.message(kind, REQUEST, sequence, |w| {
            header(w, table);
            body(w);
        });
        let request = writer.finish().ok_or(Errno::EMSGSIZE)?;
        let mut answer = Ok(None);
        self.0.exchange(&request, |message| {
            if message.sequence == sequence {
                match message.kind {
                    ERROR if message.errno() != 0 => answer = Err(io::Error::from_raw_os_error(message.errno())),
                    ERROR => {}
                    _ => answer = Ok(read(message.body)),
                }
            }
        })?;
        answer
    }
}

/// That something is not there is an answer.
fn absent_or<T>(answer: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match answer {
        Err(error) if error.raw_os_error() == Some(Errno::ENOENT as i32) => Ok(None),
        answer => answer,
    }
}

fn header(w: &mut Writer, table: Table) {
    w.raw(&[uapi::family(table), 0, 0, 0]);
}

/// How an error of the kernel is told.
pub(super) fn kernel(operation: &'static str, object: &impl ToString) -> impl FnOnce(io::Error) -> DataplaneError {
    let object = object.to_string();
    move |source| DataplaneError::Kernel { operation, object, source }
}
