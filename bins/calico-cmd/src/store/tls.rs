//! Upstream's `TLS_MIN_VERSION` and `TLS_CIPHER_SUITES`: which TLS is good enough.
//!
//! The client library offers TLS 1.2 and 1.3 with the nine [suites](OFFERED) that it has, and cannot be told to offer less. So a
//! setting that allows all of them is kept to, and one that wants less is refused: it must not be passed over. (Upstream takes a
//! minimum that it does not understand for 1.2.)

/// What is always offered, by the names that Go gives it.
const OFFERED: [&str; 9] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
];

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
    #[error("TLS_MIN_VERSION is {given:?}: set it to 1.2, or not at all")]
    UnknownVersion {
        /// As given.
        given: String,
    },
    /// TLS 1.2 cannot be kept out.
    #[error(
        "TLS_MIN_VERSION is 1.3, which this program cannot keep to yet: it takes a server's TLS 1.2, too. Set it to 1.2 or not at all, \
         and have etcd take 1.3 only (--tls-min-version)"
    )]
    Newest,
    /// No suite that upstream knows.
    #[error("TLS_CIPHER_SUITES: unsupported cipher: {given:?}; known are: {}", known())]
    UnknownSuite {
        /// As given.
        given: String,
    },
    /// Suites cannot be kept out.
    #[error(
        "TLS_CIPHER_SUITES does not name {}, which this program cannot keep out yet: add what is missing, or leave it unset, and have \
         etcd take what it should (--cipher-suites)", .missing.join(",")
    )]
    Narrow {
        /// What is offered and was not named.
        missing: Vec<&'static str>,
    },
}

/// Refuses what cannot be kept to; what is absent or empty allows everything from TLS 1.2 on.
pub(super) fn check(minimum: Option<&str>, suites: Option<&str>) -> Result<(), TlsError> {
    match minimum.unwrap_or_default() {
        "" | "1.2" => {}
        "1.3" => return Err(TlsError::Newest),
        given => return Err(TlsError::UnknownVersion { given: given.to_owned() }),
    }
    let Some(suites) = suites.filter(|suites| !suites.is_empty()) else { return Ok(()) };
    let named: Vec<&str> = suites.split(',').map(str::trim).collect();
    if let Some(given) = named.iter().find(|name| !OFFERED.contains(name) && !NEVER_OFFERED.contains(name)) {
        return Err(TlsError::UnknownSuite { given: (*given).to_owned() });
    }
    let missing: Vec<_> = OFFERED.into_iter().filter(|offered| !named.contains(offered)).collect();
    if missing.is_empty() { Ok(()) } else { Err(TlsError::Narrow { missing }) }
}

fn known() -> String {
    OFFERED.into_iter().chain(NEVER_OFFERED).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_always_kept_to_is_taken() {
        let all = known();
        for (minimum, suites) in [(None, None), (Some(""), Some("")), (Some("1.2"), None), (None, Some(all.as_str()))] {
            assert_eq!(check(minimum, suites), Ok(()), "{minimum:?} {suites:?}");
        }
        assert_eq!(check(None, Some(&OFFERED.join(", "))), Ok(()));
    }

    #[test]
    fn what_is_stricter_or_nonsense_is_refused() {
        assert_eq!(check(Some("1.3"), None), Err(TlsError::Newest));
        for version in ["1.1", "TLSv1.3", "1.4", "VersionTLS13", " 1.2"] {
            assert!(matches!(check(Some(version), None), Err(TlsError::UnknownVersion { .. })), "{version}");
        }
        for suites in ["TLS_RSA_WITH_RC4_128_SHA", "TLS_AES_128_GCM_SHA256,", "tls_aes_128_gcm_sha256"] {
            assert!(matches!(check(None, Some(suites)), Err(TlsError::UnknownSuite { .. })), "{suites}");
        }
        let narrow = OFFERED[1..].join(",");
        assert_eq!(check(None, Some(&narrow)), Err(TlsError::Narrow { missing: vec![OFFERED[0]] }));
    }
}
