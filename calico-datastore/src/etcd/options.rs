//! Settings as the client library takes them.

use std::time::Duration;

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};

use crate::{DatastoreError, EtcdConfig, Pem};

/// Longest wait for one answer; upstream's dial timeout.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);

/// A ping after so long without traffic while something is asked or watched, and so long for its answer: what a watch takes to
/// notice a member that hangs. Upstream's 30 s and 10 s would leave policy unchanged for that long. Members hang up on who pings
/// more often than every 5 s, or without asking anything.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(6), Duration::from_secs(4));

/// How to prove to a member who we are, and it to us.
pub(super) struct Access {
    credentials: Option<(String, String)>,
    tls: TlsOptions,
    /// What was given for TLS, by name.
    material: Option<String>,
}

impl Access {
    /// Reads the files; refuses what cannot work.
    pub(super) async fn read(config: &EtcdConfig) -> Result<Self, DatastoreError> {
        // Without an authority of our own, those of the machine, as upstream.
        let mut tls = match &config.ca {
            Some(_) => TlsOptions::new(),
            None => TlsOptions::new().with_native_roots(),
        };
        let given = config.ca.as_ref().or_else(|| config.identity.as_ref().map(|(certificate, _)| certificate));
        let access = Self {
            credentials: config.credentials.clone(),
            tls: tls.clone(),
            material: given.map(|pem| format!("{pem:?}")),
        };
        match (&config.discovery, config.endpoints.is_empty()) {
            (None, true) => return Err(refused("no etcd endpoint is given")),
            (None, false) => access.check(&config.endpoints)?,
            (Some(_), true) => {}
            (Some(domain), false) => {
                return Err(refused(&format!(
                    "etcd endpoints are given, and the domain {domain} to find them: give one"
                )));
            }
        }
        if let Some(ca) = &config.ca {
            tls = tls.ca_certificate(Certificate::from_pem(ca.read().await?));
        }
        if let Some((certificate, key)) = &config.identity {
            tls = tls.identity(Identity::from_pem(certificate.read().await?, key.read().await?));
        }
        Ok(Self { tls, ..access })
    }

    /// What is meant for TLS must not be without effect.
    pub(super) fn check(&self, endpoints: &[String]) -> Result<(), DatastoreError> {
        match &self.material {
            Some(given) if !endpoints.iter().any(|endpoint| is_tls(endpoint)) => {
                Err(refused(&format!("{given} is given for TLS, but no etcd endpoint is https")))
            }
            _ => Ok(()),
        }
    }

    /// The client's options for one member.
    pub(super) fn options(&self, endpoint: &str) -> ConnectOptions {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(DEADLINE)
            .with_timeout(DEADLINE)
            .with_keep_alive(KEEP_ALIVE.0, KEEP_ALIVE.1)
            .with_require_leader(true)
            .with_auto_token_refresh(true);
        if is_tls(endpoint) {
            options = options.with_tls(self.tls.clone());
        }
        if let Some((user, password)) = &self.credentials {
            options = options.with_user(user, password);
        }
        options
    }
}

fn is_tls(endpoint: &str) -> bool {
    endpoint.starts_with("https://")
}

impl Pem {
    async fn read(&self) -> Result<Vec<u8>, DatastoreError> {
        let path = match self {
            Self::File(path) => path.clone(),
            Self::Text(text) => return Ok(text.clone().into_bytes()),
        };
        let operation = format!("read {}", path.display());
        // The blocking pool: a certificate may lie on a slow mount.
        let content = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
        content
            .unwrap_or_else(|gone| Err(std::io::Error::other(gone)))
            .map_err(|source| DatastoreError::Refused { operation, source: Some(Box::new(source)) })
    }
}

fn refused(operation: &str) -> DatastoreError {
    DatastoreError::Refused { operation: operation.to_owned(), source: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_cannot_work_is_refused_by_name() {
        let message = async |config: EtcdConfig| Access::read(&config).await.err().unwrap().to_string();
        let at = |endpoint: &str| EtcdConfig { endpoints: vec![endpoint.to_owned()], ..EtcdConfig::default() };
        let ca = Some(Pem::File("/absent/ca".into()));
        let found = || EtcdConfig { discovery: Some("example.com".to_owned()), ..EtcdConfig::default() };
        assert!(message(EtcdConfig::default()).await.contains("no etcd endpoint"));
        assert!(message(EtcdConfig { ca: ca.clone(), ..at("http://127.0.0.1:1") }).await.contains("/absent/ca"));
        assert!(message(EtcdConfig { ca: ca.clone(), ..at("https://127.0.0.1:1") }).await.contains("read /absent/ca"));
        assert!(message(EtcdConfig { endpoints: at("http://a:1").endpoints, ..found() }).await.contains("give one"));
        assert!(Access::read(&at("http://127.0.0.1:1")).await.is_ok());

        let authority = Some(Pem::Text("PEM".to_owned()));
        let access = Access::read(&EtcdConfig { ca: authority, ..found() }).await.unwrap();
        assert!(access.check(&["http://a:1".to_owned()]).is_err(), "what DNS finds is held to it, too");
        assert!(access.check(&["http://a:1".to_owned(), "https://b:1".to_owned()]).is_ok());
    }
}
