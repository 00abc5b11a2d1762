//! TLS to a member, with no version and no cipher suite but those that the configuration allows.
//!
//! The client library takes a ready-made channel; ours opens the connection itself, so that what is offered in the handshake is ours
//! to say. The member's certificate is checked against the authorities that were given, or the machine's, and its name or address; a
//! member that does not speak HTTP/2 is none.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, SupportedProtocolVersion};
use tonic::transport::{Channel, Endpoint, Uri};
use tower::Service;

use super::options::CONNECT;
use super::stream::{Refusal, Stream};
use crate::{DatastoreError, EtcdConfig, Pem, TlsLimits, TlsSuite, TlsVersion};

/// HTTP/2, as ALPN calls it.
const HTTP2: &[u8] = b"h2";

/// What the configuration allows, in the library's form. Reads the files.
pub(super) async fn config(config: &EtcdConfig) -> Result<ClientConfig, DatastoreError> {
    let unusable = |what: &str, source: rustls::Error| DatastoreError::Refused {
        operation: format!("use {what}"),
        source: Some(source.into()),
    };
    let roots = authorities(config).await?;
    let provider = Arc::new(provider(&config.tls));
    let versions: &[&SupportedProtocolVersion] = match config.tls.minimum {
        TlsVersion::V1_2 => &[&rustls::version::TLS13, &rustls::version::TLS12],
        TlsVersion::V1_3 => &[&rustls::version::TLS13],
    };
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(versions);
    let builder = builder.map_err(|error| unusable("the TLS version and cipher suites together", error))?;
    let builder = builder.with_root_certificates(roots);
    let mut client = match &config.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let named = format!("the client certificate {certificate:?} with the key {key:?}");
            let no_key = |source| DatastoreError::Refused { operation: format!("read {key:?}"), source };
            let chain = certificates(certificate).await?;
            let secret = PrivateKeyDer::from_pem_slice(&key.read().await?);
            let secret = secret.map_err(|error| no_key(Some(error.into())))?;
            builder.with_client_auth_cert(chain, secret).map_err(|error| unusable(&named, error))?
        }
    };
    client.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(client)
}

/// A channel to one member, connected by its first request.
pub(super) fn channel(
    url: Uri,
    settings: impl Fn(Uri) -> Endpoint,
    config: Arc<ClientConfig>,
) -> Result<Channel, DatastoreError> {
    let refused = |source| DatastoreError::Refused { operation: "address".to_owned(), source: Some(source) };
    let host = url.host().unwrap_or_default();
    // The brackets of an IPv6 address are the URL's.
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned();
    let name = ServerName::try_from(host).map_err(|error| refused(error.into()))?;
    let connector = TlsConnector::from(config);
    let refusal = Refusal::default();
    let connect = move |url: Uri| {
        let (connector, name, refusal) = (connector.clone(), name.clone(), refusal.clone());
        async move {
            match refusal.take(Instant::now()) {
                Some(error) => Err(error),
                None => Ok(TokioIo::new(Stream::new(open(connector, name, url).await?, refusal))),
            }
        }
    };
    // For the library the connection that it gets is a plain one; what the member is told is the URL as it is.
    let authority = match (url.authority(), url.port()) {
        (Some(authority), None) => format!("{authority}:443"),
        (authority, _) => authority.map_or_else(String::new, ToString::to_string),
    };
    let plain: Uri = format!("http://{authority}").parse().map_err(|_| refused("it is no URL".into()))?;
    Ok(settings(plain).connect_timeout(2 * CONNECT).origin(url).connect_with_connector_lazy(tower::service_fn(connect)))
}

/// In the time that a connection may take; the library would count that as an answer that is missing.
async fn open(connector: TlsConnector, name: ServerName<'static>, url: Uri) -> io::Result<TlsStream<TcpStream>> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {} s", CONNECT.as_secs()));
    tokio::time::timeout(CONNECT, shake_hands(connector, name, url)).await.map_err(|_| late())?
}

/// Of a name's addresses those of both families are tried side by side, and each for its part of the time.
async fn shake_hands(connector: TlsConnector, name: ServerName<'static>, url: Uri) -> io::Result<TlsStream<TcpStream>> {
    let mut addresses = HttpConnector::new();
    addresses.set_nodelay(true);
    addresses.set_connect_timeout(Some(CONNECT));
    let stream = addresses.call(url).await.map_err(io::Error::other)?.into_inner();
    let stream = connector.connect(name, stream).await?;
    match stream.get_ref().1.alpn_protocol() {
        Some(HTTP2) => Ok(stream),
        _ => Err(io::Error::other("the server does not speak HTTP/2 over TLS, so it is no etcd")),
    }
}

fn provider(limits: &TlsLimits) -> CryptoProvider {
    let mut provider = ring::default_provider();
    if let Some(allowed) = &limits.suites {
        provider.cipher_suites.retain(|suite| suite_of(*suite).is_some_and(|suite| allowed.contains(&suite)));
    }
    provider
}

/// The suite as the configuration names it.
fn suite_of(suite: rustls::SupportedCipherSuite) -> Option<TlsSuite> {
    // rustls' own names of the suites of TLS 1.3 begin otherwise than IANA's.
    TlsSuite::named(&suite.suite().as_str()?.replace("TLS13_", "TLS_"))
}

/// Those that were given; without, the machine's, as upstream.
async fn authorities(config: &EtcdConfig) -> Result<RootCertStore, DatastoreError> {
    let mut roots = RootCertStore::empty();
    if let Some(ca) = &config.ca {
        roots.add_parsable_certificates(certificates(ca).await?);
    } else {
        // The blocking pool: there are hundreds of files.
        let found = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await;
        roots.add_parsable_certificates(found.map(|found| found.certs).unwrap_or_default());
    }
    // What DNS finds may not want TLS; who names an authority does.
    if roots.is_empty() && (config.ca.is_some() || config.discovery.is_none()) {
        let operation = match &config.ca {
            Some(ca) => format!("{ca:?} has no certificate that could be an authority's"),
            None => "this machine has no certificate authorities: name etcd's (ETCD_CA_CERT_FILE)".to_owned(),
        };
        return Err(DatastoreError::Refused { operation, source: None });
    }
    Ok(roots)
}

/// All certificates of a PEM text.
async fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>, DatastoreError> {
    let text = pem.read().await?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(DatastoreError::Refused { operation: format!("{pem:?} has no certificate"), source: None }),
        Err(error) => Err(DatastoreError::Refused { operation: format!("read {pem:?}"), source: Some(error.into()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A suite that the configuration cannot name could not be allowed.
    #[test]
    fn every_suite_of_the_library_has_a_name_and_every_name_a_suite() {
        let suites = ring::default_provider().cipher_suites;
        let named: Vec<_> = suites.iter().map(|suite| suite_of(*suite).expect("a name").name()).collect();
        assert_eq!(named.len(), TlsSuite::ALL.len());
        for suite in TlsSuite::ALL {
            assert!(named.contains(&suite.name()), "{suite:?}");
            let library = suites.iter().find(|other| suite_of(**other) == Some(suite)).unwrap();
            let is_new = library.version().version == rustls::ProtocolVersion::TLSv1_3;
            assert_eq!(suite.version() == TlsVersion::V1_3, is_new, "{suite:?}");
        }
    }
}
