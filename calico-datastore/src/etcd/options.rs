//! Settings as the client library takes them.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Channel, Client, ConnectOptions};
use tokio_rustls::rustls::ClientConfig;
use tonic::transport::{Endpoint, Uri};

use super::{tls, within};
use crate::{DatastoreError, EtcdConfig, Pem};

/// Longest wait for one answer; upstream's dial timeout.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);

/// Longest wait for a connection. Shorter than for an answer, so that a write which waited for one is known not to have been sent.
pub(super) const CONNECT: Duration = Duration::from_secs(5);

/// A ping after so long without traffic while something is asked or watched, and so long for its answer: what a watch takes to
/// notice a member that hangs. Upstream's 30 s and 10 s would leave policy unchanged for that long. Members hang up on who pings
/// more often than every 5 s, or without asking anything.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(6), Duration::from_secs(3));

/// How to prove to a member who we are, and it to us.
pub(super) struct Access {
    credentials: Option<(String, String)>,
    /// None if no member can want it.
    tls: Option<Arc<ClientConfig>>,
    /// What was given for TLS, by name.
    material: Option<String>,
}

impl Access {
    /// Reads the files; refuses what cannot work.
    pub(super) async fn read(config: &EtcdConfig) -> Result<Self, DatastoreError> {
        let given = config.ca.as_ref().or_else(|| config.identity.as_ref().map(|(certificate, _)| certificate));
        let access =
            Self { credentials: config.credentials.clone(), tls: None, material: given.map(|pem| format!("{pem:?}")) };
        match (&config.discovery, config.endpoints.is_empty()) {
            (None, true) => return Err(refused("no etcd endpoint is given")),
            (None, false) => access.check(&config.endpoints)?,
            (Some(_), true) => {}
            (Some(discovery), false) => {
                let domain = &discovery.domain;
                return Err(refused(&format!(
                    "etcd endpoints are given, and the domain {domain} to find them: give one"
                )));
            }
        }
        let may_want_tls = config.discovery.is_some() || config.endpoints.iter().any(|endpoint| is_tls(endpoint));
        let tls = if may_want_tls { Some(Arc::new(tls::config(config).await?)) } else { None };
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

    /// A client of one member. Connects with the first request, which is the log-in if there are credentials.
    pub(super) async fn client(&self, endpoint: &str) -> Result<Client, DatastoreError> {
        let mut options = ConnectOptions::new().with_require_leader(true).with_auto_token_refresh(true);
        if let Some((user, password)) = &self.credentials {
            options = options.with_user(user, password);
        }
        let channel = Channel::Tonic(self.channel(endpoint)?);
        within("log-in", Client::from_channel(channel, Some(options))).await
    }

    fn channel(&self, endpoint: &str) -> Result<tonic::transport::Channel, DatastoreError> {
        let text = if endpoint.contains("://") { endpoint.to_owned() } else { format!("http://{endpoint}") };
        let no_url = |reason: &str| DatastoreError::Refused {
            operation: "address".to_owned(),
            source: Some(reason.to_owned().into()),
        };
        let url: Uri = text.parse().map_err(|_| no_url("it is no URL"))?;
        let settings = |url: Uri| {
            Endpoint::from(url)
                .connect_timeout(CONNECT)
                .timeout(DEADLINE)
                .http2_keep_alive_interval(KEEP_ALIVE.0)
                .keep_alive_timeout(KEEP_ALIVE.1)
        };
        match (url.scheme_str(), url.host(), &self.tls) {
            (Some("http"), Some(_), _) => Ok(settings(url).connect_lazy()),
            (Some("https"), Some(_), Some(tls)) => Ok(tls::channel(url, settings, Arc::clone(tls))?),
            _ => Err(no_url("it must be http://HOST:PORT or https://HOST:PORT")),
        }
    }
}

fn is_tls(endpoint: &str) -> bool {
    endpoint.starts_with("https://")
}

impl Pem {
    /// Its text.
    pub(super) async fn read(&self) -> Result<Vec<u8>, DatastoreError> {
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
    use crate::Discovery;

    #[tokio::test]
    async fn what_cannot_work_is_refused_by_name() {
        let message = async |config: EtcdConfig| Access::read(&config).await.err().unwrap().to_string();
        let at = |endpoint: &str| EtcdConfig { endpoints: vec![endpoint.to_owned()], ..EtcdConfig::default() };
        let ca = Some(Pem::File("/absent/ca".into()));
        let discovery = Discovery { domain: "example.com".to_owned(), resolv_conf: "/absent/resolv.conf".into() };
        let found = || EtcdConfig { discovery: Some(discovery.clone()), ..EtcdConfig::default() };
        assert!(message(EtcdConfig::default()).await.contains("no etcd endpoint"));
        assert!(message(EtcdConfig { ca: ca.clone(), ..at("http://127.0.0.1:1") }).await.contains("/absent/ca"));
        assert!(message(EtcdConfig { ca: ca.clone(), ..at("https://127.0.0.1:1") }).await.contains("read /absent/ca"));
        assert!(message(EtcdConfig { endpoints: at("http://a:1").endpoints, ..found() }).await.contains("give one"));
        assert!(Access::read(&at("http://127.0.0.1:1")).await.is_ok());

        let access = Access { material: Some("PEM".to_owned()), tls: None, credentials: None };
        assert!(access.check(&["http://a:1".to_owned()]).is_err(), "what DNS finds is held to it, too");
        assert!(access.check(&["http://a:1".to_owned(), "https://b:1".to_owned()]).is_ok());

        let authority = |text: &str| Some(Pem::Text(text.to_owned()));
        let nothing = message(EtcdConfig { ca: authority("PEM"), ..at("https://a:1") }).await;
        assert!(nothing.contains("inline PEM has no certificate"), "{nothing}");
    }

    /// A certificate by its armour only.
    #[tokio::test]
    async fn an_authority_that_is_none_is_refused_also_where_dns_finds_the_members() {
        let text = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let discovery = Discovery { domain: "example.com".to_owned(), resolv_conf: "/absent/resolv.conf".into() };
        let found =
            EtcdConfig { discovery: Some(discovery), ca: Some(Pem::Text(text.to_owned())), ..EtcdConfig::default() };
        let error = Access::read(&found).await.err().expect("refused").to_string();
        assert!(error.contains("has no certificate that could be an authority's"), "{error}");
    }

    #[tokio::test]
    async fn an_endpoint_that_is_no_url_is_named() {
        for (endpoint, reason) in
            [("http://a b:1", "it is no URL"), ("unix:///run/etcd", "it is no URL"), ("ftp://a:1", "must be http")]
        {
            let config = EtcdConfig { endpoints: vec![endpoint.to_owned()], ..EtcdConfig::default() };
            let access = Access::read(&config).await.unwrap();
            let error = access.client(endpoint).await.err().unwrap();
            assert!(matches!(error, DatastoreError::Refused { .. }), "{error:?}");
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(source.contains(reason), "{endpoint}: {source}");
        }
        let config = EtcdConfig { endpoints: vec!["127.0.0.1:1".to_owned()], ..EtcdConfig::default() };
        assert!(Access::read(&config).await.unwrap().client("127.0.0.1:1").await.is_ok());
    }
}
