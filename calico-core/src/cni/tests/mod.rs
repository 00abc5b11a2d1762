//! Tests of the CNI types.

mod corpus;
mod identity;
mod request;
mod result;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

use super::{CniError, Invocation, Request};

pub(super) type Variables = BTreeMap<&'static str, String>;

/// The environment of an ADD.
pub(super) fn variables() -> Variables {
    let pairs = [
        ("CNI_COMMAND", "ADD"),
        ("CNI_CONTAINERID", "0123456789abcdef"),
        ("CNI_NETNS", "/run/netns/pod"),
        ("CNI_IFNAME", "eth0"),
        ("CNI_PATH", "/opt/cni/bin:/usr/lib/cni"),
    ];
    pairs.map(|(name, value)| (name, value.to_string())).into()
}

pub(super) fn parse(variables: &Variables, stdin: &str) -> Result<Invocation, CniError> {
    Invocation::parse(&|name: &str| variables.get(name).cloned(), stdin.as_bytes())
}

pub(super) fn request(variables: &Variables, stdin: &str) -> Request {
    match parse(variables, stdin) {
        Ok(Invocation::Run(request)) => *request,
        other => panic!("{other:?}"),
    }
}

pub(super) fn code(variables: &Variables, stdin: &str) -> u32 {
    parse(variables, stdin).unwrap_err().code.number()
}
