//! IP sets that upstream left. One that a rule still refers to cannot go, and is an error: something of upstream's runs on.

use std::io;
use std::path::Path;

use netlink_sys::protocols::NETLINK_NETFILTER;
use nix::errno::Errno;
use nix::libc;

use super::{SETS, kernel};
use crate::DataplaneError;
use crate::netlink::batch::Batch;
use crate::netlink::socket::RequestSocket;
use crate::netlink::wire::{Message, Writer, find, read_text};

/// `NFNL_SUBSYS_IPSET`.
const SUBSYSTEM: u16 = 6 << 8;
const DESTROY: u16 = SUBSYSTEM | 3;
const LIST: u16 = SUBSYSTEM | 7;
/// The protocol's version, which each request names.
const PROTOCOL: (u16, u8) = (1, 6);
const NAME: u16 = 2;
/// Lists are of names only.
const FLAGS: (u16, u32) = (6, 2);
/// There if the kernel knows IP sets; to ask otherwise would load the module.
const MODULE: &str = "/sys/module/ip_set";

pub(super) fn remove() -> Result<usize, DataplaneError> {
    if !Path::new(MODULE).exists() {
        return Ok(0);
    }
    let mut socket = RequestSocket::open(NETLINK_NETFILTER).map_err(kernel("open a socket", "netfilter netlink"))?;
    let names = list(&mut socket).map_err(kernel("list", "IP sets"))?;
    let mut batch = Batch::new(&mut socket);
    for (tag, name) in names.iter().enumerate() {
        batch.push(tag, DESTROY, 0, |w| {
            header(w);
            w.text(NAME, name);
        });
    }
    let gone = |error: &io::Error| error.raw_os_error() == Some(Errno::ENOENT as i32);
    let mut failures = batch.finish().into_iter().filter(|(_, error)| !gone(error));
    match failures.next() {
        Some((tag, error)) => {
            let name = names.get(tag).map_or("", String::as_str);
            Err(kernel("remove a leftover of upstream", &format!("IP set {name}"))(error))
        }
        None => Ok(names.len()),
    }
}

fn list(socket: &mut RequestSocket) -> io::Result<Vec<String>> {
    let request = |w: &mut Writer| {
        header(w);
        w.be32(FLAGS.0, FLAGS.1);
    };
    let listed = socket.dump(LIST, request, |names: &mut Vec<String>, message: Message<'_>| {
        let name = message.body.get(4..).and_then(|parts| find(parts, NAME)).and_then(read_text);
        names.extend(name.filter(|name| SETS.iter().any(|prefix| name.starts_with(prefix))).map(str::to_owned));
    });
    match listed {
        // None at all.
        Err(error) if [Errno::ENOENT, Errno::EINVAL].iter().any(|no| error.raw_os_error() == Some(*no as i32)) => {
            Ok(Vec::new())
        }
        listed => listed,
    }
}

fn header(w: &mut Writer) {
    w.raw(&[u8::try_from(libc::AF_INET).unwrap_or_default(), 0, 0, 0]);
    w.attribute(PROTOCOL.0, &[PROTOCOL.1]);
}
