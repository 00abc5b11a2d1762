//! Settings as the client library takes them.

use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};

use crate::{DatastoreError, EtcdConfig, Pem};

impl EtcdConfig {
    /// The client's options, with the files read.
    pub(super) async fn options(&self) -> Result<ConnectOptions, DatastoreError> {
        if self.endpoints.is_empty() {
            return Err(refused("no etcd endpoint is given"));
        }
        let mut options = ConnectOptions::new();
        if let Some(tls) = self.tls().await? {
            options = options.with_tls(tls);
        }
        if let Some((user, password)) = &self.credentials {
            options = options.with_user(user, password);
        }
        Ok(options)
    }

    async fn tls(&self) -> Result<Option<TlsOptions>, DatastoreError> {
        if !self.endpoints.iter().any(|endpoint| endpoint.starts_with("https://")) {
            let unused = self.identity.as_ref().map(|(certificate, _)| certificate);
            return match self.ca.as_ref().or(unused) {
                None => Ok(None),
                Some(pem) => Err(refused(&format!("{pem:?} is given for TLS, but no etcd endpoint is https"))),
            };
        }
        let mut tls = TlsOptions::new();
        if let Some(ca) = &self.ca {
            tls = tls.ca_certificate(Certificate::from_pem(ca.read().await?));
        }
        if let Some((certificate, key)) = &self.identity {
            tls = tls.identity(Identity::from_pem(certificate.read().await?, key.read().await?));
        }
        Ok(Some(tls))
    }
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
        let message = async |config: EtcdConfig| config.options().await.unwrap_err().to_string();
        let at = |endpoint: &str| EtcdConfig { endpoints: vec![endpoint.to_owned()], ..EtcdConfig::default() };
        let ca = Some(Pem::File("/absent/ca".into()));
        assert!(message(EtcdConfig::default()).await.contains("no etcd endpoint"));
        assert!(message(EtcdConfig { ca: ca.clone(), ..at("http://127.0.0.1:1") }).await.contains("/absent/ca"));
        assert!(message(EtcdConfig { ca, ..at("https://127.0.0.1:1") }).await.contains("read /absent/ca"));
        assert!(at("http://127.0.0.1:1").options().await.is_ok());
    }
}
