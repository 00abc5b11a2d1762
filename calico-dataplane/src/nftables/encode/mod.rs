//! A [`Delta`] as one nf_tables transaction in wire form.
//!
//! Pure: delta in, bytes out, and for each message the object that it is about, so that an error, which the kernel reports by
//! sequence number, can name it. Order within the transaction:
//!
//! 1. every chain that is written or removed is added (which an existing one survives), then emptied, so that nothing refers to
//!    anything any more that is to go; base chains that must hang elsewhere are deleted and added anew, as the kernel moves none;
//! 2. sets, elements to remove, elements to add (new intervals may overlap old ones);
//! 3. rules;
//! 4. sets to remove, and then chains: elements of maps lead to chains, and what leads from chains to sets is gone already.
//!
//! Packets see all of it or nothing. Everything is written so that a second run changes nothing: adding what exists is no error to
//! the kernel, a chain to remove is added first, and sets and elements are removed by `DESTROY` where the kernel knows it.

mod effect;
mod element;
mod field;
mod rule;

use std::collections::BTreeSet;

use calico_core::table::{
    BaseChain, Chain, ChainName, ChainType, Delta, FieldType, Hook, SetDecl, SetKind, SetName, Table,
};

use super::key::{key_length, key_type};
use super::uapi::{self, BATCH_SUBSYSTEM, TABLE, chain, set};
use crate::DataplaneError;
use crate::netlink::wire::{ACK, APPEND, CREATE, REQUEST, Writer};

/// What a message of a transaction is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject<'a> {
    /// The transaction itself: its begin message, by which the kernel also reports a failed commit.
    Transaction,
    Table(Table),
    Chain(&'a ChainName),
    Rule {
        chain: &'a ChainName,
        index: usize,
    },
    Set(&'a SetName),
    RemovedSet(&'a SetName),
    AddedElements(&'a SetName),
    RemovedElements(&'a SetName),
}

impl std::fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Transaction => write!(f, "transaction on {}", uapi::title(Table::Inet)),
            Self::Table(table) => f.write_str(uapi::title(*table)),
            Self::Chain(name) => write!(f, "{}chain {name}", name.table().prefix()),
            Self::Rule { chain, index } => write!(f, "rule {index} of {}chain {chain}", chain.table().prefix()),
            Self::Set(name) | Self::RemovedSet(name) => write!(f, "{}set {name}", name.table().prefix()),
            Self::AddedElements(name) => write!(f, "elements added to {}set {name}", name.table().prefix()),
            Self::RemovedElements(name) => write!(f, "elements removed from {}set {name}", name.table().prefix()),
        }
    }
}

impl Subject<'_> {
    /// The table that it is in.
    pub(super) const fn table(&self) -> Table {
        match self {
            Self::Transaction => Table::Inet,
            Self::Table(table) => *table,
            Self::Chain(name) | Self::Rule { chain: name, .. } => name.table(),
            Self::Set(name) | Self::RemovedSet(name) | Self::AddedElements(name) | Self::RemovedElements(name) => {
                name.table()
            }
        }
    }
}

/// How to write, besides what.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Dialect<'a> {
    /// The kernel knows the removals that forgive absence (Linux 6.3).
    pub(crate) destroy: bool,
    /// Chains that exist as another kind of chain and must be deleted before they are added.
    pub(crate) recreated: &'a BTreeSet<ChainName>,
}

/// A transaction ready to send.
#[derive(Debug)]
pub(crate) struct Transaction<'a> {
    pub(crate) bytes: Vec<u8>,
    /// By sequence number, from the first.
    pub(crate) subjects: Vec<Subject<'a>>,
}

/// Whether a delta has anything for nf_tables.
pub(crate) const fn has_ruleset(delta: &Delta) -> bool {
    !(delta.sets_added.is_empty()
        && delta.chains_set.is_empty()
        && delta.elements.is_empty()
        && delta.chains_removed.is_empty()
        && delta.sets_removed.is_empty())
}

/// Writes a delta's nf_tables part into a buffer; messages are numbered from `first`.
pub(crate) fn encode<'a>(
    delta: &'a Delta,
    dialect: Dialect<'_>,
    first: u32,
    buffer: Vec<u8>,
) -> Result<Transaction<'a>, DataplaneError> {
    let mut batch = Batch::begin(first, buffer);
    let written: BTreeSet<&ChainName> = delta.chains_set.iter().map(|chain| &chain.name).collect();
    let removed = || delta.chains_removed.iter().filter(|name| !written.contains(name));
    let of_sets = delta.sets_added.iter().map(|decl| decl.name.table());
    let of_chains = delta.chains_set.iter().map(|chain| chain.name.table());
    let tables = of_sets.chain(of_chains).chain(delta.chains_removed.iter().map(ChainName::table));
    for table in tables.collect::<BTreeSet<_>>() {
        batch.table(table);
    }
    chains(&mut batch, delta, removed(), dialect);
    sets(&mut batch, delta, dialect)?;
    for change in &delta.elements {
        element::change(&mut batch, change, dialect.destroy)?;
    }
    for chain in &delta.chains_set {
        rule::rules(&mut batch, chain)?;
    }
    let added: BTreeSet<&SetName> = delta.sets_added.iter().map(|decl| &decl.name).collect();
    for name in delta.sets_removed.iter().filter(|name| !added.contains(name)) {
        remove_set(&mut batch, name, dialect);
    }
    for name in removed() {
        batch.message(uapi::DEL_CHAIN, 0, Subject::Chain(name), |w| {
            w.text(chain::TABLE, TABLE);
            w.text(chain::NAME, name.as_str());
        });
    }
    batch.end()
}

/// A transaction that does nothing but ask whether `DESTROY` messages are known.
pub(crate) fn probe_destroy(first: u32) -> Result<Transaction<'static>, DataplaneError> {
    let mut batch = Batch::begin(first, Vec::new());
    batch.message(uapi::DESTROY_TABLE, 0, Subject::Table(Table::Inet), |w| {
        w.text(uapi::table::NAME, "calico-dataplane-probe")
    });
    batch.end()
}

fn chains<'a>(
    batch: &mut Batch<'a>,
    delta: &'a Delta,
    removed: impl Iterator<Item = &'a ChainName>,
    dialect: Dialect<'_>,
) {
    let recreated = |name: &ChainName| dialect.recreated.contains(name);
    for chain in &delta.chains_set {
        batch.chain(&chain.name, chain.base.filter(|_| !recreated(&chain.name)));
        batch.empty_chain(&chain.name);
    }
    for name in removed {
        batch.chain(name, None);
        batch.empty_chain(name);
    }
    for chain in delta.chains_set.iter().filter(|chain| recreated(&chain.name)) {
        batch.message(uapi::DEL_CHAIN, 0, Subject::Chain(&chain.name), |w| {
            w.text(chain::TABLE, TABLE);
            w.text(chain::NAME, chain.name.as_str());
        });
        batch.chain(&chain.name, chain.base);
    }
}

fn sets<'a>(batch: &mut Batch<'a>, delta: &'a Delta, dialect: Dialect<'_>) -> Result<(), DataplaneError> {
    let removed: BTreeSet<&SetName> = delta.sets_removed.iter().collect();
    for decl in &delta.sets_added {
        // Both removed and added: replaced by one of another type.
        if removed.contains(&decl.name) {
            remove_set(batch, &decl.name, dialect);
        }
        add_set(batch, decl)?;
    }
    Ok(())
}

fn remove_set<'a>(batch: &mut Batch<'a>, name: &'a SetName, dialect: Dialect<'_>) {
    let kind = if dialect.destroy { uapi::DESTROY_SET } else { uapi::DEL_SET };
    batch.message(kind, 0, Subject::RemovedSet(name), |w| {
        w.text(set::TABLE, TABLE);
        w.text(set::NAME, name.as_str());
    });
}

fn add_set<'a>(batch: &mut Batch<'a>, decl: &'a SetDecl) -> Result<(), DataplaneError> {
    let unwritable = || DataplaneError::Unwritable {
        object: format!("set {}", decl.name),
        detail: format!("no kernel set has a key of {:?} as {:?}", decl.key, decl.kind),
    };
    let key_type = key_type(&decl.key).filter(|_| !decl.key.is_empty()).ok_or_else(unwritable)?;
    let flags = match decl.kind {
        SetKind::Hash => 0,
        SetKind::Interval if decl.key.len() == 1 => set::INTERVAL,
        SetKind::VerdictMap | SetKind::AddressMap(_) => set::MAP,
        _ => return Err(unwritable()),
    };
    let length = u32::try_from(key_length(&decl.key)).ok().filter(|length| *length <= 64).ok_or_else(unwritable)?;
    let id = batch.next_set();
    batch.message(uapi::NEW_SET, CREATE, Subject::Set(&decl.name), |w| {
        w.text(set::TABLE, TABLE);
        w.text(set::NAME, decl.name.as_str());
        w.be32(set::FLAGS, flags);
        w.be32(set::KEY_TYPE, key_type);
        w.be32(set::KEY_LENGTH, length);
        if let Some((kind, length)) = data_type(decl.kind) {
            w.be32(set::DATA_TYPE, kind);
            w.be32(set::DATA_LENGTH, length);
        }
        w.be32(set::ID, id);
        w.attribute(set::USERDATA, &set_userdata(decl));
    });
    Ok(())
}

/// Type and length of what a map holds.
fn data_type(kind: SetKind) -> Option<(u32, u32)> {
    match kind {
        SetKind::VerdictMap => Some((set::VERDICTS, 0)),
        SetKind::AddressMap(family) => {
            let address = [FieldType::Addr(family)];
            Some((key_type(&address)?, u32::try_from(key_length(&address)).ok()?))
        }
        _ => None,
    }
}

/// Tells `nft` the byte order of the key and of the data (types 0 and 1 of its own list), without which it lists some elements reversed.
fn set_userdata(decl: &SetDecl) -> Vec<u8> {
    const HOST: u32 = 1;
    const NETWORK: u32 = 2;
    let of_key = if matches!(decl.key.as_slice(), [FieldType::Interface]) { HOST } else { NETWORK };
    let mut bytes = [&[0, 4][..], &of_key.to_ne_bytes()].concat();
    if matches!(decl.kind, SetKind::AddressMap(_)) {
        bytes.extend_from_slice(&[&[1, 4][..], &NETWORK.to_ne_bytes()].concat());
    }
    bytes
}

/// Messages of a transaction that changes a few elements.
const SMALL: usize = 16;

/// A transaction being written.
pub(super) struct Batch<'a> {
    writer: Writer,
    subjects: Vec<Subject<'a>>,
    first: u32,
    last_start: usize,
    sets: u32,
}

impl<'a> Batch<'a> {
    fn begin(first: u32, buffer: Vec<u8>) -> Self {
        let subjects = Vec::with_capacity(SMALL);
        let mut batch = Self { writer: Writer::over(buffer), subjects, first, last_start: 0, sets: 0 };
        batch.bracket(uapi::BATCH_BEGIN);
        batch
    }

    fn end(mut self) -> Result<Transaction<'a>, DataplaneError> {
        // One acknowledgement for all: the last message's. Errors come for each message that has one, asked for or not.
        self.writer.add_flags(self.last_start, ACK);
        self.bracket(uapi::BATCH_END);
        let bytes = self.writer.finish().ok_or_else(|| DataplaneError::Unwritable {
            object: Subject::Transaction.to_string(),
            detail: "a rule needs more than 64 KiB".into(),
        })?;
        Ok(Transaction { bytes, subjects: self.subjects })
    }

    fn bracket(&mut self, kind: u16) {
        let sequence = self.sequence();
        self.subjects.push(Subject::Transaction);
        self.writer.message(kind, REQUEST, sequence, |w| {
            w.raw(&[0, 0]);
            w.raw(&BATCH_SUBSYSTEM.to_be_bytes());
        });
    }

    fn sequence(&self) -> u32 {
        self.first.wrapping_add(u32::try_from(self.subjects.len()).unwrap_or(u32::MAX))
    }

    /// Appends a message on the subject's table.
    pub(super) fn message(&mut self, kind: u16, flags: u16, subject: Subject<'a>, body: impl FnOnce(&mut Writer)) {
        let sequence = self.sequence();
        self.subjects.push(subject);
        self.last_start = self.writer.len();
        self.writer.message(kind, REQUEST | flags, sequence, |w| {
            w.raw(&[uapi::family(subject.table()), 0, 0, 0]);
            body(w);
        });
    }

    /// A number that names a set within the transaction.
    pub(super) const fn next_set(&mut self) -> u32 {
        self.sets += 1;
        self.sets
    }

    fn table(&mut self, table: Table) {
        // The flags are said although they are none: that wakes a table which somebody made dormant.
        self.message(uapi::NEW_TABLE, CREATE, Subject::Table(table), |w| {
            w.text(uapi::table::NAME, TABLE);
            w.be32(uapi::table::FLAGS, 0);
        });
    }

    fn chain(&mut self, name: &'a ChainName, base: Option<BaseChain>) {
        self.message(uapi::NEW_CHAIN, CREATE, Subject::Chain(name), |w| {
            w.text(chain::TABLE, TABLE);
            w.text(chain::NAME, name.as_str());
            if let Some(base) = base {
                hang(w, name.table(), base);
            }
        });
    }

    fn empty_chain(&mut self, name: &'a ChainName) {
        self.message(uapi::DEL_RULE, 0, Subject::Chain(name), |w| {
            w.text(uapi::rule::TABLE, TABLE);
            w.text(uapi::rule::CHAIN, name.as_str());
        });
    }

    pub(super) fn rule(&mut self, chain: &'a Chain, index: usize, expressions: &[u8], userdata: &[u8]) {
        let subject = Subject::Rule { chain: &chain.name, index };
        self.message(uapi::NEW_RULE, CREATE | APPEND, subject, |w| {
            w.text(uapi::rule::TABLE, TABLE);
            w.text(uapi::rule::CHAIN, chain.name.as_str());
            w.nest(uapi::rule::EXPRESSIONS, |w| w.raw(expressions));
            w.attribute(uapi::rule::USERDATA, userdata);
        });
    }
}

fn hang(w: &mut Writer, table: Table, base: BaseChain) {
    w.nest(chain::HOOK, |w| {
        w.be32(chain::HOOK_NUMBER, hook_number(table, base.hook));
        w.attribute(chain::HOOK_PRIORITY, &base.priority.to_be_bytes());
    });
    w.be32(chain::POLICY, chain::ACCEPT);
    w.text(chain::TYPE, type_name(base.chain_type));
}

/// `NF_INET_*`, `NF_ARP_*`. A hook that the family has not is refused by name in the error of its chain.
pub(super) const fn hook_number(table: Table, hook: Hook) -> u32 {
    match (table, hook) {
        (Table::Arp, Hook::Input) => 0,
        (Table::Arp, Hook::Output) => 1,
        (Table::Arp, _) => u32::MAX,
        (_, Hook::Prerouting) => 0,
        (_, Hook::Input) => 1,
        (_, Hook::Forward) => 2,
        (_, Hook::Output) => 3,
        (_, Hook::Postrouting) => 4,
        _ => u32::MAX,
    }
}

/// The kernel's name of a chain type.
pub(super) const fn type_name(chain_type: ChainType) -> &'static str {
    match chain_type {
        ChainType::Nat => "nat",
        ChainType::Route => "route",
        _ => "filter",
    }
}
