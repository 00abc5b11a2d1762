use super::*;

fn sources<'a>(environment: &[(&str, &str)]) -> Sources<'a> {
    let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    Sources { environment, ..Sources::default() }
}

fn of_environment(environment: &[(&str, &str)]) -> Result<StoreConfig, ConfigError> {
    resolve(&sources(environment)).map(|resolved| resolved.config)
}

fn of_file(text: &str) -> Result<StoreConfig, ConfigError> {
    let environment = [("ETCD_ENDPOINTS", "http://ignored:2379")];
    let sources = Sources { file: Some(("calicoctl.cfg", text)), ..sources(&environment) };
    resolve(&sources).map(|resolved| resolved.config)
}

fn sqlite(path: &str) -> StoreConfig {
    StoreConfig::Sqlite { path: path.into() }
}

#[test]
fn nothing_configured_means_the_embedded_datastore() {
    assert_eq!(of_environment(&[]), Ok(sqlite(DEFAULT_PATH)));
    assert_eq!(of_environment(&[("CALICO_DATASTORE_PATH", "/tmp/x.db")]), Ok(sqlite("/tmp/x.db")));
    assert_eq!(
        of_environment(&[("DATASTORE_TYPE", "sqlite"), ("ETCD_ENDPOINTS", "http://a:1")]),
        Ok(sqlite(DEFAULT_PATH))
    );
}

#[test]
fn a_lone_kubeconfig_is_warned_about() {
    let sources = Sources { home_kubeconfig: Some("/root/.kube/config".into()), ..sources(&[]) };
    let resolved = resolve(&sources).unwrap();
    let warning = resolved.warning.unwrap();
    assert!(warning.contains("/root/.kube/config") && warning.contains(DEFAULT_PATH), "{warning}");
}

#[test]
fn any_etcd_variable_means_etcd() {
    let config = of_environment(&[("ETCD_ENDPOINTS", "http://a:2379, http://b:2379,")]).unwrap();
    let StoreConfig::Etcd(etcd) = config else { panic!("{config:?}") };
    assert_eq!(etcd.endpoints, ["http://a:2379", "http://b:2379"]);
    assert_eq!(of_environment(&[("ETCD_KEY_FILE", "/k")]), Err(ConfigError::NoEndpoints));
    assert_eq!(
        of_environment(&[("DATASTORE_TYPE", "etcdv3"), ("ETCD_DISCOVERY_SRV", "example.com")]),
        Err(ConfigError::Discovery)
    );
    assert_eq!(
        of_environment(&[("ETCD_ENDPOINTS", "http://a:1"), ("ETCD_CERT_FILE", "/c")]),
        Err(ConfigError::HalfIdentity)
    );
}

#[test]
fn the_prefixed_name_wins_even_when_empty() {
    let config = of_environment(&[("CALICO_DATASTORE_TYPE", "sqlite"), ("DATASTORE_TYPE", "etcdv3")]);
    assert_eq!(config, Ok(sqlite(DEFAULT_PATH)));
    let config = of_environment(&[
        ("DATASTORE_TYPE", "etcdv3"),
        ("CALICO_ETCD_ENDPOINTS", ""),
        ("ETCD_ENDPOINTS", "http://a:1"),
    ]);
    assert_eq!(config, Err(ConfigError::NoEndpoints));
}

#[test]
fn kubernetes_is_refused_with_a_reason() {
    for (name, value) in [("KUBECONFIG", "/k"), ("K8S_API_ENDPOINT", "https://k"), ("DATASTORE_TYPE", "kubernetes")] {
        assert!(matches!(of_environment(&[(name, value)]), Err(ConfigError::Kubernetes { .. })), "{name}");
    }
    assert!(matches!(of_environment(&[("DATASTORE_TYPE", "etcd")]), Err(ConfigError::UnknownType { .. })));
}

#[test]
fn a_file_is_complete_and_strict() {
    let header = "apiVersion: projectcalico.org/v3\nkind: CalicoAPIConfig\nmetadata: {}\nspec:\n";
    let config = of_file(&format!("{header}  datastoreType: sqlite\n  datastorePath: /d.db\n"));
    assert_eq!(config, Ok(sqlite("/d.db")));
    let text =
        format!("{header}  etcdEndpoints: https://a:1\n  etcdUsername: u\n  etcdPassword: secret\n  etcdCACert: PEM\n");
    let StoreConfig::Etcd(etcd) = of_file(&text).unwrap() else { panic!() };
    assert_eq!(etcd.endpoints, ["https://a:1"]);
    assert!(!format!("{etcd:?}").contains("secret") && !format!("{etcd:?}").contains("\"PEM\""));
    for bad in ["  etcdEndpont: x\n", "  etcdEndpoints: 5\n", "  etcdEndpoints: a\n  etcdEndpoints: b\n"] {
        assert!(matches!(of_file(&format!("{header}{bad}")), Err(ConfigError::File(_))), "{bad}");
    }
    assert!(matches!(of_file("kind: Node\napiVersion: projectcalico.org/v3\n"), Err(ConfigError::File(_))));
    assert!(matches!(of_file(""), Err(ConfigError::File(_))));
    let mixed = format!("{header}  etcdEndpoints: a\n  etcdCACert: PEM\n  etcdKeyFile: /k\n  etcdCertFile: /c\n");
    assert_eq!(of_file(&mixed), Err(ConfigError::MixedPem));
    assert!(matches!(of_file(&format!("{header}  kubeconfig: /k\n")), Err(ConfigError::Kubernetes { .. })));
}

#[test]
fn a_datastore_that_cannot_be_opened_yet_is_opened_later() {
    use calico_datastore::{Datastore, Scope};

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk/calico.db");
    std::fs::write(folder.path().join("disk"), "a file where a directory is to be").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = StoreConfig::Sqlite { path: path.clone() };
        let error = open(&config).await.err().unwrap();
        assert!(error.is_retryable(), "{error}");
        let store = PatientStore::new(config);
        let error = store.list(&Scope::All).await.unwrap_err();
        assert!(error.is_retryable(), "{error}");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert_eq!(source, format!("the embedded datastore {} cannot be opened", path.display()));

        std::fs::remove_file(folder.path().join("disk")).unwrap();
        assert!(store.list(&Scope::All).await.unwrap_err().is_retryable(), "the directory is missing still");
        std::fs::create_dir(folder.path().join("disk")).unwrap();
        assert_eq!(store.list(&Scope::All).await.unwrap().entries, Vec::new());
        assert!(path.exists());
    });
}
