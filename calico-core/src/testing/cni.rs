//! Fuzz body of the CNI input.

use alloc::string::ToString;

use crate::cni::{CniResult, Identity, Invocation, Version, workload_endpoint};
use crate::net::Mac;

/// Parses arbitrary bytes as an invocation: lines `NAME=VALUE` of the environment up to an empty line, then standard input. Of what
/// parses, derives all names and objects; of what does not, writes the error document. Reads standard input as a result, too, and
/// checks that a result survives being written and read in every version.
///
/// # Panics
///
/// When one of these does not hold: that is the finding.
pub fn fuzz_cni(data: &[u8]) {
    let (head, stdin) = match data.windows(2).position(|pair| pair == b"\n\n") {
        Some(end) => data.split_at(end),
        None => (data, &[][..]),
    };
    let head = core::str::from_utf8(head).unwrap_or_default();
    let variable = |name: &str| {
        let mut pairs = head.lines().filter_map(|line| line.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
    };
    match Invocation::parse(&variable, stdin) {
        Ok(Invocation::Run(request)) => {
            if let Ok(identity) = Identity::of(&request, "node-1", "cali") {
                assert!(identity.host_interface.as_str().starts_with("cali"));
                let endpoint = workload_endpoint(&identity, &request, [].into(), Mac::ALL_EE);
                assert_eq!(endpoint.metadata.name.parse(), Ok(identity.endpoint_name));
            }
        }
        Ok(_) => {}
        Err(error) => assert!(error.to_json(Version::LATEST).get("code").is_some()),
    }
    let Ok(document) = serde_json::from_slice(stdin) else { return };
    for version in Version::ALL {
        let Ok(result) = CniResult::from_json(&document, version) else { continue };
        let Ok(written) = result.to_json(version) else { continue };
        let again = CniResult::from_json(&written, version).and_then(|result| result.to_json(version));
        assert_eq!(again.as_ref(), Ok(&written), "in {version}");
    }
}
