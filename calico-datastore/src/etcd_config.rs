//! Where etcd is and how to prove who we are: what a program reads from its settings, with or without the client built in.

use std::path::PathBuf;

/// Settings of a connection to etcd.
#[derive(Clone, PartialEq, Eq, Default)]
#[expect(clippy::exhaustive_structs, reason = "callers build it with literals and ..Default::default()")]
pub struct EtcdConfig {
    /// Addresses of the members, such as `https://10.0.0.1:2379`. Empty if they are to be found by `discovery`.
    pub endpoints: Vec<String>,
    /// The DNS domain whose SRV records name the members.
    pub discovery: Option<String>,
    /// Authorities that may have signed the servers' certificates.
    pub ca: Option<Pem>,
    /// Our certificate and its key.
    pub identity: Option<(Pem, Pem)>,
    /// Our user name and password.
    pub credentials: Option<(String, String)>,
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
