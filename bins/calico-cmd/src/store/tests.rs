use calico_datastore::TlsLimits;

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

const HEADER: &str = "apiVersion: projectcalico.org/v3\nkind: CalicoAPIConfig\nmetadata: {}\nspec:\n";

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
    let config = of_environment(&[("ETCD_DISCOVERY_SRV", "example.com")]).unwrap();
    let StoreConfig::Etcd(etcd) = config else { panic!("{config:?}") };
    assert_eq!(
        (etcd.discovery.as_ref().map(|found| found.domain.as_str()), etcd.endpoints.len()),
        (Some("example.com"), 0)
    );
    assert_eq!(
        of_environment(&[("ETCD_ENDPOINTS", "http://a:1"), ("ETCD_DISCOVERY_SRV", "example.com")]),
        Err(ConfigError::EndpointsAndDiscovery)
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

/// Row by row, the settings of etcd: the file's field, the variable, and where the value arrives.
#[test]
fn each_setting_of_etcd_has_its_field_and_its_variable() {
    type Read = fn(&EtcdConfig) -> String;
    let rows: [(&str, &str, &str, &str, Read); 7] = [
        ("etcdEndpoints", "ETCD_ENDPOINTS", "http://x:1", "", |etcd| etcd.endpoints.concat()),
        ("etcdDiscoverySrv", "ETCD_DISCOVERY_SRV", "x.example", "", |etcd| etcd.discovery.clone().unwrap().domain),
        ("etcdUsername", "ETCD_USERNAME", "u", "pe", |etcd| etcd.credentials.clone().unwrap().0),
        ("etcdPassword", "ETCD_PASSWORD", "p", "ue", |etcd| etcd.credentials.clone().unwrap().1),
        ("etcdKeyFile", "ETCD_KEY_FILE", "/k", "ce", |etcd| format!("{:?}", etcd.identity.as_ref().unwrap().1)),
        ("etcdCertFile", "ETCD_CERT_FILE", "/c", "ke", |etcd| format!("{:?}", etcd.identity.as_ref().unwrap().0)),
        ("etcdCACertFile", "ETCD_CA_CERT_FILE", "/ca", "e", |etcd| format!("{:?}", etcd.ca.as_ref().unwrap())),
    ];
    // What a setting has no effect without.
    let companion = |letter: char| match letter {
        'e' => ("etcdEndpoints", "ETCD_ENDPOINTS", "http://e:1"),
        'u' => ("etcdUsername", "ETCD_USERNAME", "user"),
        'p' => ("etcdPassword", "ETCD_PASSWORD", "word"),
        'k' => ("etcdKeyFile", "ETCD_KEY_FILE", "/key"),
        _ => ("etcdCertFile", "ETCD_CERT_FILE", "/cert"),
    };
    for (field, variable, value, companions, read) in rows {
        let arrived = |config: Result<StoreConfig, ConfigError>| match config {
            Ok(StoreConfig::Etcd(etcd)) => read(&etcd).trim_matches('"').to_owned(),
            other => panic!("{field}: {other:?}"),
        };
        let prefixed = format!("CALICO_{variable}");
        for (name, loser) in [(variable, None), (&prefixed, Some((variable, "loses")))] {
            let environment = [(name, value)].into_iter().chain(loser);
            let others = companions.chars().map(companion).map(|(_, variable, value)| (variable, value));
            let environment: Vec<_> = environment.chain(others).collect();
            assert_eq!(arrived(of_environment(&environment)), value, "{name}");
            let text: String = environment.iter().map(|(name, value)| format!("{name}=\"{value}\"\n")).collect();
            assert_eq!(arrived(of_file(&text)), value, "{name} as a line");
        }
        let others = companions.chars().map(companion).map(|(field, _, value)| (field, value));
        let spec: String =
            others.chain([(field, value)]).map(|(field, value)| format!("  {field}: {value}\n")).collect();
        assert_eq!(arrived(of_file(&format!("{HEADER}{spec}"))), value, "{field}");
    }
}

/// They are read wherever the rest comes from, and mean nothing to a datastore that is a file.
#[test]
fn rules_for_tls_are_never_passed_over() {
    let etcd = ("ETCD_ENDPOINTS", "https://a:1");
    for strict in [("TLS_MIN_VERSION", "1.3"), ("TLS_CIPHER_SUITES", "TLS_AES_128_GCM_SHA256")] {
        let is_strict = |config| match config {
            Ok(StoreConfig::Etcd(etcd)) => etcd.tls != TlsLimits::default(),
            other => panic!("{other:?}"),
        };
        assert!(is_strict(of_environment(&[etcd, strict])), "{strict:?}");
        assert_eq!(of_environment(&[("DATASTORE_TYPE", "sqlite"), strict]), Ok(sqlite(DEFAULT_PATH)));
        let environment = [strict];
        let line = format!("{}=\n", strict.0);
        for (text, expected) in [
            (format!("{HEADER}  etcdEndpoints: https://a:1\n"), true),
            ("ETCD_ENDPOINTS=https://a:1\n".to_owned(), true),
            (format!("ETCD_ENDPOINTS=https://a:1\n{line}"), false),
        ] {
            let sources = Sources { file: Some(("calicoctl.cfg", &text)), ..sources(&environment) };
            assert_eq!(is_strict(resolve(&sources).map(|resolved| resolved.config)), expected, "{text}");
        }
    }
    assert!(matches!(of_environment(&[etcd, ("TLS_MIN_VERSION", "1.1")]), Err(ConfigError::Tls(_))));
}

/// What only the Kubernetes datastore has: each field and variable asks for it, unless another is named; nonsense is nonsense.
#[test]
fn each_setting_of_kubernetes_is_known() {
    let rows = [
        ("kubeconfig", "KUBECONFIG", "/k", false),
        ("k8sAPIEndpoint", "K8S_API_ENDPOINT", "https://k", false),
        ("k8sKeyFile", "K8S_KEY_FILE", "/k", false),
        ("k8sCertFile", "K8S_CERT_FILE", "/c", false),
        ("k8sCAFile", "K8S_CA_FILE", "/ca", false),
        ("k8sAPIToken", "K8SAPITOKEN", "token", false),
        ("k8sInsecureSkipTLSVerify", "K8S_INSECURE_SKIP_TLS_VERIFY", "true", true),
        ("k8sDisableNodePoll", "K8S_DISABLE_NODE_POLL", "true", true),
        ("k8sClientQPS", "K8S_CLIENT_QPS", "1.5", true),
        ("k8sClientBurst", "K8S_CLIENT_BURST", "100", true),
        ("k8sCurrentContext", "K8S_CURRENT_CONTEXT", "c", false),
        ("kubeconfigInline", "", "{}", false),
        ("usePodCIDR", "", "true", false),
        ("calicoAPIGroup", "", "g", false),
    ];
    let is_kubernetes = |config| matches!(config, Err(ConfigError::Kubernetes { .. }));
    for (field, variable, value, is_typed) in rows {
        let value_in_file = if field == "kubeconfigInline" { "'{}'" } else { value };
        assert!(is_kubernetes(of_file(&format!("{HEADER}  {field}: {value_in_file}\n"))), "{field}");
        let named = format!("{HEADER}  {field}: {value_in_file}\n  datastoreType: sqlite\n");
        assert_eq!(of_file(&named), Ok(sqlite(DEFAULT_PATH)), "{field}");
        if variable.is_empty() {
            continue;
        }
        for name in [variable.to_owned(), format!("CALICO_{variable}")] {
            assert!(is_kubernetes(of_environment(&[(&name, value)])), "{name}");
            assert_eq!(of_environment(&[(&name, value), ("DATASTORE_TYPE", "sqlite")]), Ok(sqlite(DEFAULT_PATH)));
            let is_bad = |value| matches!(of_environment(&[(&name, value)]), Err(ConfigError::BadValue { .. }));
            assert_eq!((is_bad(""), is_bad("perhaps")), (is_typed, is_typed), "{name}");
        }
    }
    assert!(matches!(of_environment(&[("USE_POD_CIDR", "")]), Err(ConfigError::BadValue { .. })));
    assert_eq!(
        of_environment(&[("USE_POD_CIDR", "true")]),
        Ok(sqlite(DEFAULT_PATH)),
        "says nothing about the datastore"
    );
    assert!(matches!(of_file(&format!("{HEADER}  usePodCIDR: perhaps\n")), Err(ConfigError::File(_))));
}

#[test]
fn an_old_file_is_read_and_the_environment_is_not() {
    let text = "# calico.cfg\nETCD_ENDPOINTS=\"https://a:1,https://b:1\"\nETCD_CA_CERT_FILE=\"/ca\"\nETCD_CERT_FILE=\"/c\"\n\
        ETCD_KEY_FILE=\"/k\"\nCALICO_IP=\"\"\nCALICO_NO_DEFAULT_POOLS=\"true\"\nCALICO_LIBNETWORK_ENABLED=true\nCALICO_HOSTNAME=\"h\"\n";
    let StoreConfig::Etcd(etcd) = of_file(text).unwrap() else { panic!() };
    assert_eq!(etcd.endpoints, ["https://a:1", "https://b:1"]);
    assert_eq!(etcd.identity, Some((Pem::File("/c".into()), Pem::File("/k".into()))));
    assert_eq!(of_file("DATASTORE_TYPE=sqlite\n"), Ok(sqlite(DEFAULT_PATH)));
    assert_eq!(of_file("CALICO_IP=\"\"\n"), Ok(sqlite(DEFAULT_PATH)), "the environment's endpoints do not count");
    assert!(matches!(of_file("ETCD_ENDPOINTS=\"x\n"), Err(ConfigError::File(_))));
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
    let config = of_file(&format!("{HEADER}  datastoreType: sqlite\n  datastorePath: /d.db\n"));
    assert_eq!(config, Ok(sqlite("/d.db")));
    let text =
        format!("{HEADER}  etcdEndpoints: https://a:1\n  etcdUsername: u\n  etcdPassword: secret\n  etcdCACert: PEM\n");
    let StoreConfig::Etcd(etcd) = of_file(&text).unwrap() else { panic!() };
    assert_eq!(etcd.endpoints, ["https://a:1"]);
    assert!(!format!("{etcd:?}").contains("secret") && !format!("{etcd:?}").contains("\"PEM\""));
    for bad in ["  etcdEndpont: x\n", "  etcdEndpoints: 5\n", "  etcdEndpoints: a\n  etcdEndpoints: b\n"] {
        assert!(matches!(of_file(&format!("{HEADER}{bad}")), Err(ConfigError::File(_))), "{bad}");
    }
    assert!(matches!(of_file("kind: Node\napiVersion: projectcalico.org/v3\n"), Err(ConfigError::File(_))));
    assert!(matches!(of_file(""), Err(ConfigError::File(_))));
    let mixed = format!("{HEADER}  etcdEndpoints: a\n  etcdCACert: PEM\n  etcdKeyFile: /k\n  etcdCertFile: /c\n");
    assert_eq!(of_file(&mixed), Err(ConfigError::MixedPem));
    assert!(matches!(of_file(&format!("{HEADER}  kubeconfig: /k\n")), Err(ConfigError::Kubernetes { .. })));
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

#[test]
fn a_variable_that_is_no_text_is_not_passed_over() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    let given = [("DATASTORE_TYPE", &b"etcd\xff"[..]), ("ETCD_ENDPOINTS", b"http://a:1")];
    let variables = given.map(|(name, value)| (OsString::from(name), OsString::from_vec(value.to_vec())));
    let sources = Sources { environment: environment(variables), ..Sources::default() };
    let error = resolve(&sources).unwrap_err();
    assert_eq!(error, ConfigError::UnknownType { given: "etcd\u{fffd}".into() });
}
