//! `CNI_ARGS`: `KEY=VALUE;KEY=VALUE`.

use alloc::format;
use alloc::string::String;
use core::net::IpAddr;

use super::{CniError, ErrorCode};

/// The keys that the plugins know. Unknown ones never fail, as if `IgnoreUnknown=1` were given: upstream's plugins put that in front
/// themselves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Args {
    /// `K8S_POD_NAME`.
    pub pod_name: String,
    /// `K8S_POD_NAMESPACE`.
    pub pod_namespace: String,
    /// `K8S_POD_UID`.
    pub pod_uid: String,
    /// `IP`: the address that IPAM shall assign.
    pub ip: Option<IpAddr>,
    /// `CNI_TEST_NAMESPACE`: namespace of an endpoint that is no pod's.
    pub test_namespace: String,
}

impl Args {
    /// Parses the variable; an empty one has no pairs.
    pub fn parse(text: &str) -> Result<Self, CniError> {
        let mut args = Self::default();
        for pair in text.split(';').filter(|_| !text.is_empty()) {
            let (key, value) = split(pair)
                .ok_or_else(|| CniError::new(ErrorCode::InvalidEnvironment, format!("ARGS: invalid pair {pair:?}")))?;
            match key {
                "K8S_POD_NAME" => args.pod_name = value.into(),
                "K8S_POD_NAMESPACE" => args.pod_namespace = value.into(),
                "K8S_POD_UID" => args.pod_uid = value.into(),
                "CNI_TEST_NAMESPACE" => args.test_namespace = value.into(),
                "IP" if !value.is_empty() => args.ip = Some(address(value)?),
                _ => {}
            }
        }
        Ok(args)
    }
}

/// Exactly one `=`: a value with another one is an error in the reference library, too.
fn split(pair: &str) -> Option<(&str, &str)> {
    pair.split_once('=').filter(|(_, value)| !value.contains('='))
}

fn address(value: &str) -> Result<IpAddr, CniError> {
    let error = || CniError::new(ErrorCode::InvalidEnvironment, format!("ARGS: IP: {value:?} is not an IP address"));
    value.parse().map_err(|_| error())
}
