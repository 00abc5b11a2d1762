//! Upstream's `TLS_MIN_VERSION` and `TLS_CIPHER_SUITES`: which TLS is good enough.
//!
//! What is allowed is offered, and nothing else. Two things are stricter than upstream's: it takes a minimum that it does not understand
//! for 1.2, which is refused here, and its suites are those of TLS 1.2 only (Go cannot be told which of TLS 1.3 to offer), while here a
//! suite of TLS 1.3 that is not named is not offered either.

use calico_datastore::{TlsLimits, TlsSuite, TlsVersion};

/// What upstream knows besides. It may be allowed; nobody here offers it.
const NEVER_OFFERED: [&str; 5] = [
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
];

/// A setting that cannot be kept to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// No version.
    #[error("TLS_MIN_VERSION is {given:?}: set it to 1.2 or 1.3, or not at all")]
    UnknownVersion {
        /// As given.
        given: String,
    },
    /// No suite that upstream knows.
    #[error("TLS_CIPHER_SUITES: unsupported cipher: {given:?}; known are: {}", known())]
    UnknownSuite {
        /// As given.
        given: String,
    },
    /// Nothing is left to offer.
    #[error("TLS_CIPHER_SUITES names none of the suites that this program has for TLS {}: add one of {}", .minimum, .possible.join(","))]
    NoSuite {
        /// From which version on.
        minimum: &'static str,
        /// What could be named.
        possible: Vec<&'static str>,
    },
}

/// What is allowed; what is absent or empty allows everything from TLS 1.2 on.
pub(super) fn limits(minimum: Option<&str>, suites: Option<&str>) -> Result<TlsLimits, TlsError> {
    let minimum = match minimum.unwrap_or_default() {
        "" | "1.2" => TlsVersion::V1_2,
        "1.3" => TlsVersion::V1_3,
        given => return Err(TlsError::UnknownVersion { given: given.to_owned() }),
    };
    let Some(text) = suites.filter(|suites| !suites.is_empty()) else { return Ok(TlsLimits { minimum, suites: None }) };
    let mut suites = Vec::new();
    for name in text.split(',').map(str::trim) {
        match TlsSuite::named(name) {
            Some(suite) => suites.push(suite),
            None if NEVER_OFFERED.contains(&name) => {}
            None => return Err(TlsError::UnknownSuite { given: name.to_owned() }),
        }
    }
    let is_possible = |suite: &TlsSuite| suite.version() >= minimum;
    if suites.iter().any(is_possible) {
        return Ok(TlsLimits { minimum, suites: Some(suites) });
    }
    let possible = TlsSuite::ALL.into_iter().filter(is_possible).map(TlsSuite::name).collect();
    Err(TlsError::NoSuite { minimum: if minimum == TlsVersion::V1_3 { "1.3" } else { "1.2 or 1.3" }, possible })
}

fn known() -> String {
    TlsSuite::ALL.into_iter().map(TlsSuite::name).chain(NEVER_OFFERED).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_what_was_named() {
        for (minimum, suites) in [(None, None), (Some(""), Some("")), (Some("1.2"), None)] {
            assert_eq!(limits(minimum, suites), Ok(TlsLimits::default()), "{minimum:?} {suites:?}");
        }
        assert_eq!(limits(Some("1.3"), None), Ok(TlsLimits { minimum: TlsVersion::V1_3, suites: None }));
        let all = limits(None, Some(&known())).unwrap();
        assert_eq!(all.suites.as_deref(), Some(TlsSuite::ALL.as_slice()));
        let two = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256,TLS_RSA_WITH_AES_128_GCM_SHA256";
        for (minimum, version) in [(None, TlsVersion::V1_2), (Some("1.3"), TlsVersion::V1_3)] {
            let some = limits(minimum, Some(two)).unwrap();
            assert_eq!(some.minimum, version);
            let names: Vec<_> = some.suites.unwrap().into_iter().map(TlsSuite::name).collect();
            assert_eq!(names, ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"]);
        }
    }

    #[test]
    fn what_is_nonsense_or_leaves_nothing_is_refused() {
        for version in ["1.1", "TLSv1.3", "1.4", "VersionTLS13", " 1.2"] {
            assert!(matches!(limits(Some(version), None), Err(TlsError::UnknownVersion { .. })), "{version}");
        }
        for suites in ["TLS_RSA_WITH_RC4_128_SHA", "TLS_AES_128_GCM_SHA256,", "tls_aes_128_gcm_sha256"] {
            assert!(matches!(limits(None, Some(suites)), Err(TlsError::UnknownSuite { .. })), "{suites}");
        }
        let old = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256";
        assert!(limits(None, Some(old)).is_ok());
        for (minimum, suites) in [(Some("1.3"), old), (None, NEVER_OFFERED[0])] {
            assert!(matches!(limits(minimum, Some(suites)), Err(TlsError::NoSuite { .. })), "{suites}");
        }
    }
}
