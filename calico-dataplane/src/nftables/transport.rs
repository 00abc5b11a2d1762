//! The nf_tables socket: sends transactions, reads listings.
//!
//! A transaction names no generation: the delta is right whatever other tables do, and a change by others to ours arrives as a
//! notification. What a foreign hand changed just before can make the kernel refuse a transaction; where the refusal says what it
//! stumbled over (something to remove is gone, a chain hangs elsewhere), the transaction is adapted and sent again.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use calico_core::table::{ChainName, Delta, SetDecl, SetName, Table};
use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::errno::Errno;

use super::encode::{Dialect, Subject, Transaction, encode, has_ruleset, probe_destroy};
use super::known::Known;
use super::reader::{Reader, kernel};
use super::touched::Touched;
use super::uapi;
use crate::netlink::socket::RequestSocket;
use crate::netlink::wire::ERROR;
use crate::{DataplaneError, ObservedChain, ObservedObjects, ObservedSet};

/// How often a refused transaction is adapted.
const ATTEMPTS: usize = 4;
/// Most octets of a transaction whose buffer is kept for the next one.
const KEPT: usize = 64 * 1024;
/// How often a listing starts over because somebody wrote meanwhile.
const LISTINGS: usize = 10;

/// Our tables in the kernel.
#[derive(Debug)]
pub(crate) struct Ruleset {
    socket: RequestSocket,
    destroy: bool,
    known: Known,
    /// Room for the next transaction.
    buffer: Vec<u8>,
}

/// What a listing holds.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) present: bool,
    pub(crate) chains: BTreeMap<ChainName, ObservedChain>,
    pub(crate) sets: BTreeMap<SetName, ObservedSet>,
}

/// An error that the kernel reported for one message.
type Refusal<'a> = (i32, Subject<'a>);

impl Ruleset {
    pub(crate) fn open() -> Result<Self, DataplaneError> {
        let socket = RequestSocket::open(NETLINK_NETFILTER).map_err(kernel("open a socket", &"netfilter netlink"))?;
        let mut ruleset = Self { socket, destroy: false, known: Known::default(), buffer: Vec::new() };
        let probe = probe_destroy(ruleset.socket.reserve(0))?;
        ruleset.destroy = ruleset.send(&probe)?.is_empty();
        Ok(ruleset)
    }

    pub(crate) const fn port(&self) -> u32 {
        self.socket.port()
    }

    const fn reader(&mut self) -> Reader<'_> {
        Reader(&mut self.socket)
    }

    /// Carries out the nf_tables part of a delta: all of it or nothing.
    pub(crate) fn apply(&mut self, delta: &Delta) -> Result<(), DataplaneError> {
        self.known.check_members(delta)?;
        let mut recreated = self.known.moved(delta);
        let mut adapted: Option<Delta> = None;
        for _ in 0..ATTEMPTS {
            let current = adapted.as_ref().unwrap_or(delta);
            if !has_ruleset(current) {
                return Ok(());
            }
            let dialect = Dialect { destroy: self.destroy, recreated: &recreated };
            let buffer = std::mem::take(&mut self.buffer);
            let transaction = encode(current, dialect, self.socket.reserve(0), buffer)?;
            let refusals = self.send(&transaction)?;
            self.buffer = Some(transaction.bytes).filter(|bytes| bytes.capacity() <= KEPT).unwrap_or_default();
            let Some((errno, subject)) = refusals.first() else {
                self.known.remember(delta);
                return Ok(());
            };
            let error = refused(*errno, subject);
            let (chains, absent) = causes(&refusals);
            if chains.is_subset(&recreated) && !absent {
                return Err(error);
            }
            recreated.extend(chains);
            if absent {
                adapted = Some(self.without_absent(current)?);
            }
        }
        Err(DataplaneError::Raced)
    }

    /// Reads our tables.
    pub(crate) fn list(&mut self) -> Result<Listing, DataplaneError> {
        for _ in 0..LISTINGS {
            let before = self.generation()?;
            let listing = self.list_once();
            if self.generation()? != before {
                continue;
            }
            return listing;
        }
        Err(DataplaneError::Raced)
    }

    fn list_once(&mut self) -> Result<Listing, DataplaneError> {
        let mut listing = Listing::default();
        self.known = Known::default();
        for table in Table::ALL {
            if let Some(flags) = self.reader().table_flags(table)? {
                listing.present |= table == Table::Inet;
                self.list_table(table, flags, &mut listing)?;
            }
        }
        Ok(listing)
    }

    fn list_table(&mut self, table: Table, flags: u32, listing: &mut Listing) -> Result<(), DataplaneError> {
        let dormant = flags & uapi::table::DORMANT != 0;
        let chains = self.reader().chains(table)?;
        let chains = self.reader().with_rules(chains)?;
        listing.chains.extend(chains.into_iter().map(|(name, found)| {
            let chain = self.known.chain_found(&name, found, dormant);
            (name, chain)
        }));
        for (name, decl) in self.reader().sets(table)? {
            let set = self.set_found(&name, decl)?;
            listing.sets.insert(name, set);
        }
        Ok(())
    }

    /// Reads the named objects; none where others may have been touched as well. Who renames a chain takes along whatever leads to it, of
    /// which nothing is told: so a known one is missing, or one that is led to may have been given its name.
    pub(crate) fn look_at(&mut self, touched: &Touched) -> Result<Option<ObservedObjects>, DataplaneError> {
        let mut seen = ObservedObjects::default();
        for table in Table::ALL {
            if touched.renamed.contains(&table) {
                let present: BTreeSet<_> = self.reader().chains(table)?.names().into_iter().collect();
                if self.known.chains(table).any(|name| !present.contains(name) && !touched.chains.contains(name)) {
                    return Ok(None);
                }
            }
            let flags = self.reader().table_flags(table)?;
            let dormant = flags.is_some_and(|flags| flags & uapi::table::DORMANT != 0);
            for name in touched.chains.iter().filter(|name| name.table() == table) {
                let found = self.reader().chain(name)?;
                let found = self.reader().with_rules(found)?.remove(name);
                let is_new = touched.named.contains(name) || !self.known.has_chain(name);
                if is_new && found.as_ref().is_some_and(|found| found.is_led_to) {
                    return Ok(None);
                }
                if found.is_none() {
                    self.known.forget_chain(name);
                }
                let chain = found.map(|found| self.known.chain_found(name, found, dormant));
                seen.chains.insert(name.clone(), chain);
            }
        }
        for name in &touched.sets {
            self.known.forget_set(name);
            let decl = self.reader().set(name)?;
            let set = decl.map(|decl| self.set_found(name, decl)).transpose()?;
            seen.sets.insert(name.clone(), set);
        }
        Ok(Some(seen))
    }

    /// Reads what a set with this declaration holds, and takes note of it.
    fn set_found(&mut self, name: &SetName, decl: Option<SetDecl>) -> Result<ObservedSet, DataplaneError> {
        let elements = decl.as_ref().map(|decl| self.reader().elements(decl)).transpose()?.flatten();
        // A set with an element that we cannot say is as foreign as one with a key that we cannot say.
        let decl = decl.filter(|_| elements.is_some());
        self.known.set_found(name, decl.as_ref());
        Ok(ObservedSet { decl, elements: elements.unwrap_or_default() })
    }

    /// The generation, of which all notifications are out: a transaction raises it before it notifies, and lets no other begin until it
    /// has. So after it is read, one that does nothing waits for whoever is in between.
    pub(crate) fn announced_generation(&mut self) -> Result<u32, DataplaneError> {
        let generation = self.generation()?;
        let nothing = probe_destroy(self.socket.reserve(0))?;
        self.send(&nothing)?;
        Ok(generation)
    }

    /// The number that every transaction, by anybody, raises.
    pub(crate) fn generation(&mut self) -> Result<u32, DataplaneError> {
        self.reader().generation()
    }

    /// Sends a transaction; no refusals mean that it was carried out.
    fn send<'a>(&mut self, transaction: &Transaction<'a>) -> Result<Vec<Refusal<'a>>, DataplaneError> {
        let count = u32::try_from(transaction.subjects.len()).unwrap_or(u32::MAX);
        let first = self.socket.reserve(count);
        let mut refusals = Vec::new();
        let mut acknowledged = false;
        let exchanged = self.socket.exchange(&transaction.bytes, |message| {
            let place = usize::try_from(message.sequence.wrapping_sub(first)).ok();
            let Some(subject) = place.and_then(|place| transaction.subjects.get(place)) else { return };
            match message.errno() {
                _ if message.kind != ERROR => {}
                0 => acknowledged = true,
                errno => refusals.push((errno, *subject)),
            }
        });
        if let Err(error) = exchanged {
            let lost = error.raw_os_error() == Some(Errno::ENOBUFS as i32);
            return match refusals.is_empty() {
                // What was refused at all was refused as a whole; without a word, nobody knows.
                false if lost => Ok(refusals),
                true if lost => Err(unclear("its answers were lost")),
                _ => Err(kernel("write", &Subject::Transaction)(error)),
            };
        }
        if refusals.is_empty() && !acknowledged {
            return Err(unclear("neither acknowledged nor refused"));
        }
        Ok(refusals)
    }

    /// The same delta without removals of what is not there.
    fn without_absent(&mut self, delta: &Delta) -> Result<Delta, DataplaneError> {
        let mut delta = delta.clone();
        let mut present = BTreeMap::new();
        for table in Table::ALL {
            if self.reader().table_flags(table)?.is_some() {
                present.extend(self.reader().sets(table)?);
            }
        }
        delta.sets_removed.retain(|name| present.contains_key(name));
        for change in delta.elements.iter_mut().filter(|change| !change.removed.is_empty()) {
            let elements = match present.get(&change.set) {
                Some(Some(decl)) => self.reader().elements(decl)?.unwrap_or_default(),
                _ => BTreeSet::new(),
            };
            // By key: what verdict a key leads to does not matter to its removal.
            let keys: BTreeSet<_> = elements.iter().map(|element| &element.key).collect();
            change.removed.retain(|element| keys.contains(&element.key));
        }
        delta.elements.retain(|change| !(change.removed.is_empty() && change.added.is_empty()));
        Ok(delta)
    }
}

/// What can be helped: chains that are of another kind, and whether something to remove is gone.
fn causes(refusals: &[Refusal<'_>]) -> (BTreeSet<ChainName>, bool) {
    let mut chains = BTreeSet::new();
    let mut absent = false;
    for (errno, subject) in refusals {
        match subject {
            Subject::Chain(name) if matches!(Errno::from_raw(*errno), Errno::EEXIST | Errno::EOPNOTSUPP) => {
                chains.insert((*name).clone());
            }
            Subject::RemovedElements(_) | Subject::RemovedSet(_) if Errno::from_raw(*errno) == Errno::ENOENT => {
                absent = true
            }
            _ => {}
        }
    }
    (chains, absent)
}

/// Whether the transaction was carried out is not known.
fn unclear(detail: &str) -> DataplaneError {
    DataplaneError::Reply { operation: "a transaction", detail: detail.into() }
}

fn refused(errno: i32, subject: &Subject<'_>) -> DataplaneError {
    kernel("write", subject)(io::Error::from_raw_os_error(errno))
}

#[cfg(test)]
mod tests {
    use calico_core::table::{Chain, Element, ElementDelta, Rule, Verdict};

    use super::*;
    use crate::testing::netns::scratch;
    use crate::testing::sample::{self, addr, chain_name, member, net, set_name};

    #[test]
    fn kernels_without_destroy_forgive_absence_too() {
        let work = || {
            let mut ruleset = Ruleset::open().unwrap();
            assert!(ruleset.destroy, "Linux 6.3 and later know DESTROY messages");
            ruleset.destroy = false;
            ruleset.apply(&sample::delta()).unwrap();
            let removed = vec![member([addr("10.0.0.1")]), member([addr("10.9.9.9")])];
            let change = ElementDelta { set: set_name("hosts4"), removed, added: vec![member([addr("10.8.8.8")])] };
            for _ in 0..2 {
                ruleset.apply(&Delta { elements: vec![change.clone()], ..Delta::default() }).unwrap();
                let elements = &ruleset.list().unwrap().sets[&set_name("hosts4")].elements;
                let expected = ["10.0.0.2", "10.8.8.8"].map(|text| member([addr(text)]));
                assert_eq!(elements, &expected.into());
            }
            for _ in 0..2 {
                ruleset.apply(&sample::removal()).unwrap();
                let listing = ruleset.list().unwrap();
                assert!(listing.present && listing.chains.is_empty() && listing.sets.is_empty());
            }
        };
        scratch().run(work).unwrap();
    }

    /// As members of the other kind of set, an address would match all that follow, and a prefix only its first.
    #[test]
    fn elements_must_suit_their_set() {
        let work = || {
            let mut first = Ruleset::open().unwrap();
            let change = |set, element: Element| {
                let change = ElementDelta { set: set_name(set), removed: vec![], added: vec![element] };
                Delta { elements: vec![change], ..Delta::default() }
            };
            first.apply(&sample::delta()).unwrap();
            let before = first.list().unwrap();
            let mut second = Ruleset::open().unwrap();
            second.list().unwrap();
            for ruleset in [&mut first, &mut second] {
                for delta in
                    [change("nets4", member([addr("10.200.0.1")])), change("hosts4", member([net("10.200.0.0/16")]))]
                {
                    let error = ruleset.apply(&delta).unwrap_err();
                    assert!(matches!(error, DataplaneError::Unwritable { .. }), "{error}");
                }
                assert_eq!(ruleset.list().unwrap().sets, before.sets);
            }
        };
        scratch().run(work).unwrap();
    }

    /// Each refused message is answered; tens of thousands of answers fit into no queue.
    #[test]
    fn a_refusal_names_the_object_even_when_answers_are_lost() {
        let work = || {
            let mut ruleset = Ruleset::open().unwrap();
            let change = |number: u32| {
                let added = vec![member([addr("10.0.0.1")])];
                ElementDelta { set: set_name(&format!("none-{number}")), removed: vec![], added }
            };
            let delta = Delta { elements: (0..100_000).map(change).collect(), ..Delta::default() };
            let error = ruleset.apply(&delta).unwrap_err();
            assert_eq!(error.to_string(), "kernel refused write (elements added to set none-0)");
            // And nothing of it meets the next request.
            ruleset.apply(&sample::delta()).unwrap();
            assert!(ruleset.list().unwrap().present);
        };
        scratch().run(work).unwrap();
    }

    #[test]
    fn a_refusal_names_the_object() {
        let work = || {
            let mut ruleset = Ruleset::open().unwrap();
            let rule = |verdict| Rule { verdict: Some(verdict), ..Rule::default() };
            let rules = vec![rule(Verdict::Accept), rule(Verdict::Jump(chain_name("nowhere")))];
            let chain = Chain { name: chain_name("broken"), base: None, rules };
            let delta = Delta { chains_set: vec![chain], ..Delta::default() };
            let error = ruleset.apply(&delta).unwrap_err();
            assert_eq!(error.to_string(), "kernel refused write (rule 1 of chain broken)");
            let change =
                ElementDelta { set: set_name("none"), removed: vec![], added: vec![member([addr("1.1.1.1")])] };
            let error = ruleset.apply(&Delta { elements: vec![change], ..Delta::default() }).unwrap_err();
            assert_eq!(error.to_string(), "kernel refused write (elements added to set none)");
            // Nothing is there to be removed, which is as wanted.
            let change =
                ElementDelta { set: set_name("none"), removed: vec![member([addr("1.1.1.1")])], added: vec![] };
            ruleset.apply(&Delta { elements: vec![change], ..Delta::default() }).unwrap();
            let change = ElementDelta { set: set_name("none"), removed: vec![member([])], added: vec![] };
            let error = ruleset.apply(&Delta { elements: vec![change], ..Delta::default() }).unwrap_err();
            assert!(matches!(error, DataplaneError::Unwritable { .. }), "{error}");
        };
        scratch().run(work).unwrap();
    }
}
