//! Where etcd is and how to prove who we are: what a program reads from its settings, with or without the client built in.

use std::path::PathBuf;

/// Settings of a connection to etcd.
#[derive(Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and ..Default::default()")]
pub struct EtcdConfig {
    /// Addresses of the members, such as `https://10.0.0.1:2379`. Empty if they are to be found by `discovery`.
    pub endpoints: Vec<String>,
    /// Where to find the members by DNS.
    pub discovery: Option<Discovery>,
    /// Authorities that may have signed the servers' certificates.
    pub ca: Option<Pem>,
    /// Our certificate and its key.
    pub identity: Option<(Pem, Pem)>,
    /// Our user name and password.
    pub credentials: Option<(String, String)>,
    /// Which TLS is good enough.
    pub tls: TlsLimits,
}

/// A DNS domain whose SRV records name the members.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals")]
pub struct Discovery {
    /// The domain.
    pub domain: String,
    /// The file that names the DNS servers to ask, in the form of `resolv.conf`. It is read for each look-up, since they change while
    /// a program runs.
    pub resolv_conf: PathBuf,
}

/// What of TLS is offered to a member. Nothing else is, so a member that wants something else is not talked to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and ..Default::default()")]
pub struct TlsLimits {
    /// The oldest version.
    pub minimum: TlsVersion,
    /// The cipher suites; none given means all of [`TlsSuite::ALL`].
    pub suites: Option<Vec<TlsSuite>>,
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
#[expect(clippy::exhaustive_enums, reason = "older ones are never offered, and newer ones do not exist")]
pub enum TlsVersion {
    /// TLS 1.2.
    #[default]
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// A cipher suite that can be offered, by its IANA name, which is Go's, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsSuite(&'static str);

impl TlsSuite {
    /// All of them, the best first.
    pub const ALL: [Self; 9] = [
        Self("TLS_AES_256_GCM_SHA384"),
        Self("TLS_AES_128_GCM_SHA256"),
        Self("TLS_CHACHA20_POLY1305_SHA256"),
        Self("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
        Self("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
        Self("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
        Self("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
        Self("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
        Self("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ];

    /// The suite of that name, if it can be offered.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.0 == name)
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.0
    }

    /// The version of TLS that it belongs to.
    pub fn version(self) -> TlsVersion {
        if self.0.contains("_WITH_") { TlsVersion::V1_2 } else { TlsVersion::V1_3 }
    }
}

/// PEM text, or the file that has it.
#[derive(Clone, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "upstream's configuration has these two forms")]
pub enum Pem {
    /// In a file, which is read when the store is opened.
    File(PathBuf),
    /// As text.
    Text(String),
}

/// Without the password and inline keys, which must not reach a log.
impl std::fmt::Debug for EtcdConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EtcdConfig")
            .field("endpoints", &self.endpoints)
            .field("discovery", &self.discovery)
            .field("ca", &self.ca)
            .field("identity", &self.identity)
            .field("user", &self.credentials.as_ref().map(|(user, _)| user))
            .field("tls", &self.tls)
            .finish()
    }
}

impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => path.fmt(f),
            Self::Text(_) => f.write_str("inline PEM"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let secret = || "hunter2".to_owned();
        let identity = Some((Pem::File("/cert".into()), Pem::Text(secret())));
        let config = EtcdConfig { credentials: Some(("u".to_owned(), secret())), identity, ..EtcdConfig::default() };
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
