//! Names of version 1, which took nearly any text, as names of version 3.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::net::IpAddr;

use sha1::{Digest, Sha1};

use crate::net::Cidr;

/// The name in lower case with `/` as a dot, other characters as dashes, runs of dots and dashes that hold a dot as one dot, and without
/// dots and dashes at its ends. Node names are only that, since other objects refer to them.
pub(super) fn normalised(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    let mut in_gap = false;
    for c in name.chars().flat_map(char::to_lowercase) {
        let is_kept = matches!(c, '-' | '.' | '/' | 'a'..='z' | '0'..='9');
        match c {
            '/' => plain.push('.'),
            c if is_kept => plain.push(c),
            _ if in_gap => {}
            _ => plain.push('-'),
        }
        in_gap = !is_kept;
    }
    let is_mark = |c: char| matches!(c, '-' | '.');
    let mut name = String::with_capacity(plain.len());
    let mut rest = plain.trim_matches(is_mark);
    while let Some(start) = rest.find(is_mark) {
        let (word, marks) = rest.split_at(start);
        let (marks, next) = marks.split_at(marks.find(|c| !is_mark(c)).unwrap_or(marks.len()));
        name += word;
        name += if marks.contains('.') { "." } else { marks };
        rest = next;
    }
    name + rest
}

/// The normalised name, told apart from others that it may now be equal to.
pub(super) fn converted(name: &str) -> String {
    qualified(name, normalised(name))
}

/// As [`converted`], with dashes for dots: a dot separates tier and name.
pub(super) fn converted_without_dots(name: &str) -> String {
    qualified(name, normalised(name).replace('.', "-"))
}

/// Profiles that stand for Kubernetes' namespaces have another prefix now.
pub(super) fn profile(name: &str) -> String {
    match name.strip_prefix("k8s_ns.") {
        Some(namespace) => converted(&format!("kns.{namespace}")),
        None => converted(name),
    }
}

/// Eight digits of a hash of what it was called, where it is called otherwise now.
fn qualified(original: &str, name: String) -> String {
    if original == name {
        return name;
    }
    let digits: String = Sha1::digest(original).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!("{name}-{digits}")
}

/// `10-0-0-0-8`.
pub(super) fn of_cidr(cidr: &Cidr) -> String {
    cidr.to_string().replace(['.', ':', '/'], "-")
}

/// `10-0-0-1`; of IPv6 all eight groups in full.
pub(super) fn of_address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string().replace('.', "-"),
        IpAddr::V6(address) => {
            address.segments().map(|group| format!("{group:04x}")).into_iter().collect::<Vec<_>>().join("-")
        }
    }
}
