//! Unique ids: `prefix:` and the unpadded URL-safe base64 of a SHA-224 over `prefix:content` (upstream `lib/hash`).

use alloc::format;
use alloc::string::String;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha224};

/// SHA-224 over `prefix:content`.
pub fn unique_digest(prefix: &str, content: &str) -> [u8; 28] {
    Sha224::new().chain_update(prefix).chain_update(":").chain_update(content).finalize().into()
}

/// The id of some content under a prefix: `s` for selectors, `n` for named ports, `svc` and `svcnoport` for services.
pub fn unique_id(prefix: &str, content: &str) -> String {
    format!("{prefix}:{}", URL_SAFE_NO_PAD.encode(unique_digest(prefix, content)))
}
