//! TLS against a real server: certificates both ways, versions and cipher suites.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::options::Access;
use super::server::Server;
use super::*;
use crate::testing::free_address;
use crate::{Pem, TlsLimits, TlsSuite, TlsVersion};

/// Makes an authority, a server certificate for an address and a client certificate.
fn certificates(directory: &Path, address: std::net::IpAddr) {
    let openssl = |arguments: &str| {
        let run = Command::new("openssl").args(arguments.split(' ')).current_dir(directory).output();
        let run = run.expect("this test makes certificates with the program `openssl`: install the package openssl");
        assert!(run.status.success(), "openssl {arguments}: {}", String::from_utf8_lossy(&run.stderr));
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=ca"));
    for (name, extension) in
        [("server", format!("subjectAltName=IP:{address}")), ("client", "extendedKeyUsage=clientAuth".into())]
    {
        openssl(&format!(
            "req -x509 {key} -keyout {name}.key -out {name}.pem -subj /CN={name} -CA ca.pem -CAkey ca.key \
             -addext {extension} -addext basicConstraints=critical,CA:FALSE"
        ));
    }
}

/// Starts a server with certificates and further arguments; answers also where they lie, and a configuration that fits.
async fn start(extra: &[String]) -> (Server, TempDir, EtcdConfig) {
    let directory = tempfile::tempdir().unwrap();
    certificates(directory.path(), free_address().ip());
    let file = |name: &str| directory.path().join(name);
    let argument = |option: &str, name: &str| format!("--{option}={}", file(name).display());
    let own = [
        argument("cert-file", "server.pem"),
        argument("key-file", "server.key"),
        argument("trusted-ca-file", "ca.pem"),
    ];
    let mut server = Server::spawn("https", own.iter().chain(extra).cloned().collect(), tempfile::tempdir().unwrap());
    let pem = |name: &str| Pem::File(file(name));
    let identity = Some((pem("client.pem"), pem("client.key")));
    let config = EtcdConfig { ca: Some(pem("ca.pem")), identity, ..server.config() };
    server.ready(config.clone()).await;
    (server, directory, config)
}

#[tokio::test]
async fn certificates_are_checked_both_ways() {
    let (_server, directory, right) = start(&["--client-cert-auth".to_owned()]).await;
    let file = |name: &str| directory.path().join(name);
    let pem = |name: &str| Pem::File(file(name));
    let text = std::fs::read_to_string(file("ca.pem")).unwrap();
    let inline = EtcdStore::connect(EtcdConfig { ca: Some(Pem::Text(text)), ..right.clone() }).await.unwrap();
    inline.list(&Scope::All).await.unwrap();
    for wrong in [
        EtcdConfig { identity: None, ..right.clone() },
        EtcdConfig { ca: Some(pem("client.pem")), ..right.clone() },
        // The machine's authorities, none of which has signed this.
        EtcdConfig { ca: None, ..right.clone() },
    ] {
        let error = EtcdStore::connect(wrong).await.unwrap().list(&Scope::All).await.unwrap_err();
        assert!(matches!(error, DatastoreError::Unavailable { .. }), "{error:?}");
        // Who is refused is told, and does not ask again for as long as he may.
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(!cause.contains("no answer"), "{cause}");
    }

    // A user and a password over the same connection.
    let access = Access::read(&right).await.unwrap();
    let endpoint = right.endpoints.first().unwrap();
    let mut raw = access.client(endpoint).await.unwrap();
    raw.user_add("root", "secret", None).await.unwrap();
    raw.user_grant_role("root", "root").await.unwrap();
    raw.auth_enable().await.unwrap();
    let with = |password: &str| {
        let credentials = Some(("root".to_owned(), password.to_owned()));
        EtcdConfig { credentials, ..right.clone() }
    };
    EtcdStore::connect(with("secret")).await.unwrap().list(&Scope::All).await.unwrap();
    let wrong = EtcdStore::connect(with("guess")).await.unwrap().list(&Scope::All).await.unwrap_err();
    assert!(matches!(wrong, DatastoreError::Refused { .. }), "{wrong:?}");
}

fn named(names: &[&str]) -> Option<Vec<TlsSuite>> {
    Some(names.iter().map(|name| TlsSuite::named(name).unwrap()).collect())
}

/// The one of TLS 1.2 that HTTP/2 cannot be without.
const OLD: &str = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
const OTHER_OLD: &str = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384";
/// For another sort of key than the server has.
const FOREIGN: &str = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384";
const NEW: &str = "TLS_CHACHA20_POLY1305_SHA256";

/// What a server answers to each limit; the reason where it is refused.
async fn outcome(config: &EtcdConfig, minimum: TlsVersion, suites: Option<Vec<TlsSuite>>) -> Result<(), String> {
    let config = EtcdConfig { tls: TlsLimits { minimum, suites }, ..config.clone() };
    let listed = EtcdStore::connect(config).await.unwrap().list(&Scope::All).await;
    listed.map(drop).map_err(|error| std::error::Error::source(&error).unwrap().to_string())
}

/// The server speaks TLS 1.2 with one suite, and 1.3.
#[tokio::test]
async fn only_what_is_allowed_is_spoken() {
    let (_server, _directory, config) = start(&[format!("--cipher-suites={OLD}")]).await;
    for (minimum, suites) in [
        (TlsVersion::V1_2, None),
        (TlsVersion::V1_3, None),
        (TlsVersion::V1_2, named(&[OLD])),
        (TlsVersion::V1_3, named(&[OLD, NEW])),
        (TlsVersion::V1_2, named(&[NEW])),
    ] {
        let told = format!("{minimum:?} {suites:?}");
        assert_eq!(outcome(&config, minimum, suites).await, Ok(()), "{told}");
    }
    for suites in [named(&[OTHER_OLD]), named(&[FOREIGN])] {
        let refused = outcome(&config, TlsVersion::V1_2, suites.clone()).await.unwrap_err();
        assert!(refused.contains("HandshakeFailure"), "{suites:?}: {refused}");
    }
    // What cannot be together is refused before anybody is asked.
    let tls = TlsLimits { minimum: TlsVersion::V1_3, suites: named(&[OLD]) };
    let error = EtcdStore::connect(EtcdConfig { tls, ..config }).await.err().unwrap();
    assert!(matches!(error, DatastoreError::Refused { .. }), "{error:?}");
}

/// A server of one version of TLS. etcd 3.4 cannot be told to be one, so this one only shakes hands, and speaks no HTTP/2 after that.
///
/// It ends with what it reads from its standard input, which its handle keeps open.
struct Peer(Child);

impl Peer {
    fn start(version: &str, certificates: &Path) -> (SocketAddr, Self) {
        let address = free_address();
        let mut process = Command::new("openssl")
            .args(["s_server", "-accept", &address.to_string(), version, "-cert", "server.pem", "-key", "server.key"])
            .current_dir(certificates)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("this test starts the program `openssl`: install the package openssl");
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap() == "ACCEPT"), "it does not listen");
        std::thread::spawn(move || lines.count());
        (address, Self(process))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[tokio::test]
async fn a_server_of_one_version_is_spoken_to_if_it_is_allowed() {
    let (_server, directory, config) = start(&[]).await;
    for (version, minimum, suites, is_taken) in [
        ("-tls1_2", TlsVersion::V1_2, None, true),
        ("-tls1_2", TlsVersion::V1_3, None, false),
        ("-tls1_3", TlsVersion::V1_3, None, true),
        ("-tls1_3", TlsVersion::V1_2, named(&[OLD]), false),
    ] {
        let (address, _peer) = Peer::start(version, directory.path());
        let config = EtcdConfig { endpoints: vec![format!("https://{address}")], ..config.clone() };
        let reason = outcome(&config, minimum, suites.clone()).await.unwrap_err();
        assert_eq!(reason.contains("HTTP/2"), is_taken, "{version} {minimum:?} {suites:?}: {reason}");
    }
}
