//! Leftovers in the tables of `iptables-nft`: one transaction for each table, so that no packet meets a part of them.

use std::collections::BTreeSet;

use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::errno::Errno;
use nix::libc;

use super::{COMMENT, Removed, TABLES, is_chain, kernel};
use crate::DataplaneError;
use crate::netlink::socket::RequestSocket;
use crate::netlink::wire::{ACK, ERROR, Message, REQUEST, Writer, attributes, find, read_text};
use crate::nftables::uapi::{self, chain, data, rule};

/// `NFTA_RULE_HANDLE`.
const HANDLE: u16 = 3;
/// `NFTA_EXPR_NAME` and `NFTA_EXPR_DATA`.
const EXPRESSION: (u16, u16) = (1, 2);
/// `NFTA_IMMEDIATE_DATA`.
const IMMEDIATE_DATA: u16 = 2;
/// `NFTA_MATCH_NAME` and `NFTA_MATCH_INFO`.
const MATCH: (u16, u16) = (1, 3);

/// What to remove of one table.
#[derive(Debug, Default)]
struct Leftovers {
    chains: BTreeSet<String>,
    /// Rules in other chains: chain and handle.
    rules: Vec<(String, Vec<u8>)>,
}

pub(super) fn remove() -> Result<Removed, DataplaneError> {
    let mut socket = RequestSocket::open(NETLINK_NETFILTER).map_err(kernel("open a socket", "netfilter netlink"))?;
    let mut removed = Removed::default();
    for family in [libc::AF_INET, libc::AF_INET6].map(|family| u8::try_from(family).unwrap_or_default()) {
        for table in TABLES {
            let found = find_all(&mut socket, family, table)?;
            if found.chains.is_empty() && found.rules.is_empty() {
                continue;
            }
            remove_all(&mut socket, family, table, &found)?;
            removed += Removed { rules: found.rules.len(), chains: found.chains.len(), sets: 0 };
        }
    }
    Ok(removed)
}

fn find_all(socket: &mut RequestSocket, family: u8, table: &str) -> Result<Leftovers, DataplaneError> {
    let of_table = |body: &[u8]| find(body, chain::TABLE).and_then(read_text) == Some(table);
    let chains = socket.dump(
        uapi::GET_CHAIN,
        |w| header(w, family),
        |found: &mut BTreeSet<String>, message: Message<'_>| {
            let parts = message.body.get(4..).unwrap_or_default();
            let name = find(parts, chain::NAME).and_then(read_text).filter(|name| is_chain(name));
            found.extend(name.filter(|_| of_table(parts)).map(str::to_owned));
        },
    );
    let chains = chains.map_err(kernel("list the chains", table))?;
    let request = |w: &mut Writer| {
        header(w, family);
        w.text(rule::TABLE, table);
    };
    let rules = socket.dump(uapi::GET_RULE, request, |found: &mut Vec<(String, Vec<u8>)>, message: Message<'_>| {
        found.extend(message.body.get(4..).and_then(leftover));
    });
    match rules {
        Ok(rules) => Ok(Leftovers { chains, rules }),
        Err(error) if error.raw_os_error() == Some(Errno::ENOENT as i32) => Ok(Leftovers::default()),
        Err(error) => Err(kernel("list the rules", table)(error)),
    }
}

/// Chain and handle of a rule of upstream's in a chain of others: by its comment, or because it leads to a chain of upstream's.
fn leftover(parts: &[u8]) -> Option<(String, Vec<u8>)> {
    let chain = find(parts, rule::CHAIN).and_then(read_text).filter(|name| !is_chain(name))?;
    let expressions = find(parts, rule::EXPRESSIONS).unwrap_or_default();
    let commented = find(parts, rule::USERDATA).is_some_and(has_comment);
    let is_ours = commented || attributes(expressions).any(|(_, expression)| leads_there(expression));
    is_ours.then_some(())?;
    Some((chain.to_owned(), find(parts, HANDLE)?.to_vec()))
}

/// A comment of `iptables-nft` is in the rule's user data, or in a match of the name, depending on its release.
fn leads_there(expression: &[u8]) -> bool {
    let name = find(expression, EXPRESSION.0).and_then(read_text);
    let Some(content) = find(expression, EXPRESSION.1) else { return false };
    match name {
        Some("immediate") => {
            let verdict = find(content, IMMEDIATE_DATA).and_then(|content| find(content, data::VERDICT));
            verdict.and_then(|verdict| find(verdict, data::VERDICT_CHAIN)).and_then(read_text).is_some_and(is_chain)
        }
        Some("match") if find(content, MATCH.0).and_then(read_text) == Some("comment") => {
            find(content, MATCH.1).is_some_and(|text| text.starts_with(COMMENT.as_bytes()))
        }
        _ => false,
    }
}

/// User data is a list of type, length and value; a comment is of type zero.
fn has_comment(mut octets: &[u8]) -> bool {
    while let [kind, length, rest @ ..] = octets {
        let length = usize::from(*length).min(rest.len());
        let (value, next) = rest.split_at(length);
        if *kind == 0 && value.starts_with(COMMENT.as_bytes()) {
            return true;
        }
        octets = next;
    }
    false
}

fn remove_all(socket: &mut RequestSocket, family: u8, table: &str, found: &Leftovers) -> Result<(), DataplaneError> {
    let mut transaction = Transaction { writer: Writer::default(), family, first: socket.reserve(0), count: 0 };
    transaction.bracket(uapi::BATCH_BEGIN);
    for (chain, handle) in &found.rules {
        transaction.message(uapi::DEL_RULE, |w| {
            w.text(rule::TABLE, table);
            w.text(rule::CHAIN, chain);
            w.attribute(HANDLE, handle);
        });
    }
    // They lead to one another: all are emptied before the first goes.
    for chain in &found.chains {
        transaction.message(uapi::DEL_RULE, |w| {
            w.text(rule::TABLE, table);
            w.text(rule::CHAIN, chain);
        });
    }
    for name in &found.chains {
        transaction.message(uapi::DEL_CHAIN, |w| {
            w.text(chain::TABLE, table);
            w.text(chain::NAME, name);
        });
    }
    transaction.bracket(uapi::BATCH_END);
    transaction.send(socket).map_err(kernel("remove leftovers of upstream", &format!("table {table}")))
}

struct Transaction {
    writer: Writer,
    family: u8,
    first: u32,
    count: u32,
}

impl Transaction {
    fn bracket(&mut self, kind: u16) {
        let sequence = self.sequence();
        self.writer.message(kind, REQUEST, sequence, |w| {
            w.raw(&[0, 0]);
            w.raw(&uapi::BATCH_SUBSYSTEM.to_be_bytes());
        });
    }

    fn message(&mut self, kind: u16, body: impl FnOnce(&mut Writer)) {
        let (sequence, family) = (self.sequence(), self.family);
        self.writer.message(kind, REQUEST | ACK, sequence, |w| {
            header(w, family);
            body(w);
        });
    }

    fn sequence(&mut self) -> u32 {
        self.count += 1;
        self.first.wrapping_add(self.count - 1)
    }

    /// Every message is acknowledged; the first refusal is the error.
    fn send(self, socket: &mut RequestSocket) -> std::io::Result<()> {
        let first = socket.reserve(self.count);
        let bytes = self.writer.finish().ok_or(Errno::EMSGSIZE)?;
        let (mut answers, mut refusal) = (0, None);
        socket.exchange(&bytes, |message| {
            if message.kind == ERROR && message.sequence.wrapping_sub(first) < self.count {
                answers += 1;
                refusal = refusal.or_else(|| Some(message.errno()).filter(|errno| *errno != 0));
            }
        })?;
        match refusal {
            Some(errno) => Err(std::io::Error::from_raw_os_error(errno)),
            None if answers == 0 => Err(Errno::EPROTO.into()),
            None => Ok(()),
        }
    }
}

fn header(w: &mut Writer, family: u8) {
    w.raw(&[family, 0, 0, 0]);
}
