//! Which datastore a program uses.
//!
//! [`resolve`] is a pure function of a configuration file's text and the environment; [`open()`] carries its answer out,
//! [`PatientStore`] for as long as it takes. A file, where
//! there is one, is complete: the environment is not merged in. In the environment every setting is looked up as `CALICO_<NAME>`
//! first and as `<NAME>` second; a variable that is set but empty counts. A file of `KEY="value"` lines, as older tools had, is read as
//! an environment of its own.

mod file;
mod lines;
mod open;
mod patient;
mod tls;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use calico_datastore::{Discovery, EtcdConfig, Pem};

pub use file::FileError;
pub use open::{OpenError, open, open_existing, open_in_place};
pub use patient::PatientStore;
pub use tls::TlsError;

/// Where the embedded datastore lies unless told otherwise.
pub const DEFAULT_PATH: &str = "/var/lib/calico/calico.db";
/// The file that names the DNS servers of this machine.
const RESOLV_CONF: &str = "/etc/resolv.conf";
/// Environment variable with the path of the embedded datastore.
pub const PATH_ENV: &str = "CALICO_DATASTORE_PATH";

/// A datastore and how to reach it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreConfig {
    /// The embedded datastore: one file.
    Sqlite {
        /// The file.
        path: PathBuf,
    },
    /// etcd version 3, in upstream's layout.
    Etcd(Box<EtcdConfig>),
}

/// What decides about the datastore.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Sources<'a> {
    /// Name and text of a configuration file: a `CalicoAPIConfig` document, or lines of `KEY="value"` as the environment has them.
    pub file: Option<(&'a str, &'a str)>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// `~/.kube/config`, if it exists.
    pub home_kubeconfig: Option<PathBuf>,
}

impl<'a> Sources<'a> {
    /// The process's environment, and the configuration file if there is one.
    pub fn of_process(file: Option<(&'a str, &'a str)>) -> Self {
        let environment = environment(std::env::vars_os());
        let home = environment.get("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
        Self { file, environment, home_kubeconfig: home.filter(|path| path.exists()) }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let prefixed = self.environment.get(&format!("CALICO_{name}"));
        prefixed.or_else(|| self.environment.get(name)).map(String::as_str)
    }

    /// The variables of the Kubernetes datastore that upstream parses wherever they are set, whichever datastore is in use.
    fn check(&self) -> Result<(), ConfigError> {
        // Go's truth values.
        let is_truth = |text: &str| {
            let words = ["1", "t", "T", "TRUE", "true", "True", "0", "f", "F", "FALSE", "false", "False"];
            words.contains(&text)
        };
        let rules: [Rule<'_>; 3] = [
            (&["K8S_INSECURE_SKIP_TLS_VERIFY", "K8S_DISABLE_NODE_POLL", "USE_POD_CIDR"], "true or false", &is_truth),
            (&["K8S_CLIENT_QPS"], "a number", &|text| text.parse::<f32>().is_ok()),
            (&["K8S_CLIENT_BURST"], "a whole number", &|text| text.parse::<i64>().is_ok()),
        ];
        for (names, expected, is_right) in rules {
            for name in names {
                if let Some(given) = self.variable(name).filter(|given| !is_right(given)) {
                    return Err(ConfigError::BadValue { name: (*name).into(), given: given.into(), expected });
                }
            }
        }
        Ok(())
    }

    fn has_variable(&self, prefix: &str) -> bool {
        let names = self.environment.iter().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name);
        names.into_iter().any(|name| name.strip_prefix("CALICO_").unwrap_or(name).starts_with(prefix))
    }
}

/// Variables by name. What is no UTF-8 in a value is U+FFFD: without the variable another datastore would be chosen.
pub fn environment(variables: impl IntoIterator<Item = (OsString, OsString)>) -> BTreeMap<String, String> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, lossy(value)));
    variables.into_iter().filter_map(text).collect()
}

fn lossy(value: OsString) -> String {
    value.into_string().unwrap_or_else(|value| value.to_string_lossy().into_owned())
}

/// The answer: the datastore, and perhaps something that the operator should know.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolved {
    /// The datastore.
    pub config: StoreConfig,
    /// For standard error.
    pub warning: Option<String>,
}

/// A configuration that names no usable datastore.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file is wrong.
    #[error(transparent)]
    File(#[from] FileError),
    /// A type that does not exist.
    #[error("datastore type {given:?} is not known: DATASTORE_TYPE is sqlite, etcdv3 or kubernetes")]
    UnknownType {
        /// As given.
        given: String,
    },
    /// Upstream's other datastore.
    #[error("the kubernetes datastore is not supported yet ({reason}): set DATASTORE_TYPE to sqlite or etcdv3")]
    Kubernetes {
        /// What asked for it.
        reason: String,
    },
    /// etcd without endpoints.
    #[error(
        "the etcdv3 datastore needs endpoints: set ETCD_ENDPOINTS, for example to http://127.0.0.1:2379, or ETCD_DISCOVERY_SRV"
    )]
    NoEndpoints,
    /// etcd's members are given, and a domain to find them.
    #[error(
        "etcd endpoints and a domain to find them by DNS are both given: set one of ETCD_ENDPOINTS and ETCD_DISCOVERY_SRV"
    )]
    EndpointsAndDiscovery,
    /// A variable that must be a number or a truth value.
    #[error("{name} is {given:?}: set it to {expected}, or not at all")]
    BadValue {
        /// The variable.
        name: String,
        /// Its value.
        given: String,
        /// What it may be.
        expected: &'static str,
    },
    /// Which TLS is good enough cannot be understood, or is none.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Half a client identity.
    #[error("etcd client certificates need both a certificate and a key: set ETCD_CERT_FILE and ETCD_KEY_FILE")]
    HalfIdentity,
    /// Files and inline text.
    #[error("etcd key, certificate and CA are given partly inline and partly as files: give all in one form")]
    MixedPem,
}

/// Decides which datastore to use.
///
/// # Errors
/// When the configuration names none that can be used.
pub fn resolve(sources: &Sources<'_>) -> Result<Resolved, ConfigError> {
    let mut lines = None;
    let settings = match sources.file {
        Some((name, text)) => match lines::read(name, text)? {
            Some(environment) => {
                let environment = Sources { environment, ..Sources::default() };
                let settings = Settings::of_environment(&environment)?;
                lines = Some(environment.environment);
                settings
            }
            None => file::read(name, text)?,
        },
        None => Settings::of_environment(sources)?,
    };
    let (chosen, warning) = match settings.datastore_type.as_deref().filter(|chosen| !chosen.is_empty()) {
        Some("sqlite") => (Type::Sqlite, None),
        Some("etcdv3") => (Type::Etcd, None),
        Some("kubernetes") => return Err(ConfigError::Kubernetes { reason: "it is asked for by name".into() }),
        Some(other) => return Err(ConfigError::UnknownType { given: other.into() }),
        None => implied_type(&settings, sources)?,
    };
    let config = match chosen {
        Type::Sqlite => {
            let path = settings.path.filter(|path| !path.is_empty()).unwrap_or_else(|| DEFAULT_PATH.into());
            StoreConfig::Sqlite { path: path.into() }
        }
        Type::Etcd => {
            // Settings of every connection that is made, not of the datastore: upstream reads them from the environment alone,
            // whatever the file says.
            let places = || lines.iter().chain([&sources.environment]);
            let setting = |name| places().find_map(|place| place.get(name)).map(String::as_str);
            let tls = tls::limits(setting("TLS_MIN_VERSION"), setting("TLS_CIPHER_SUITES"))?;
            StoreConfig::Etcd(Box::new(EtcdConfig { tls, ..settings.etcd()? }))
        }
    };
    Ok(Resolved { config, warning })
}

/// Variables, what they may be, and whether a value is that.
type Rule<'a> = (&'a [&'a str], &'static str, &'a dyn Fn(&str) -> bool);

enum Type {
    Sqlite,
    Etcd,
}

/// Nobody named a type: what is configured tells.
fn implied_type(settings: &Settings, sources: &Sources<'_>) -> Result<(Type, Option<String>), ConfigError> {
    if let Some(reason) = &settings.kubernetes {
        return Err(ConfigError::Kubernetes { reason: format!("{reason} is set") });
    }
    if settings.has_etcd {
        let ignored = settings.path.as_deref().filter(|path| !path.is_empty());
        let warning = ignored.map(|path| {
            format!("using the etcd datastore, not the embedded one at {path}, which is configured too: set DATASTORE_TYPE to choose")
        });
        return Ok((Type::Etcd, warning));
    }
    let warning = sources.home_kubeconfig.as_ref().map(|kubeconfig| {
        let path = settings.path.as_deref().unwrap_or(DEFAULT_PATH);
        format!(
            "using the embedded datastore {path}, not the cluster of {}: set DATASTORE_TYPE to choose",
            kubeconfig.display()
        )
    });
    Ok((Type::Sqlite, warning))
}

/// Settings of either source, under upstream's names.
#[derive(Debug, Default)]
struct Settings {
    datastore_type: Option<String>,
    path: Option<String>,
    endpoints: Option<String>,
    discovery: Option<String>,
    username: Option<String>,
    password: Option<String>,
    key_file: Option<String>,
    cert_file: Option<String>,
    ca_file: Option<String>,
    key: Option<String>,
    cert: Option<String>,
    ca: Option<String>,
    has_etcd: bool,
    /// The setting that speaks of Kubernetes.
    kubernetes: Option<String>,
}

impl Settings {
    fn of_environment(sources: &Sources<'_>) -> Result<Self, ConfigError> {
        sources.check()?;
        let get = |name: &str| sources.variable(name).map(str::to_owned);
        let kubernetes = if get("KUBECONFIG").is_some_and(|path| !path.is_empty()) {
            Some("KUBECONFIG".into())
        } else {
            // The token's name is upstream's slip.
            let names = ["K8S_", "K8SAPITOKEN"];
            names.iter().find(|name| sources.has_variable(name)).map(|name| format!("{name}…"))
        };
        Ok(Self {
            datastore_type: get("DATASTORE_TYPE"),
            path: get("DATASTORE_PATH"),
            endpoints: get("ETCD_ENDPOINTS"),
            discovery: get("ETCD_DISCOVERY_SRV"),
            username: get("ETCD_USERNAME"),
            password: get("ETCD_PASSWORD"),
            key_file: get("ETCD_KEY_FILE"),
            cert_file: get("ETCD_CERT_FILE"),
            ca_file: get("ETCD_CA_CERT_FILE"),
            has_etcd: sources.has_variable("ETCD_"),
            kubernetes,
            ..Self::default()
        })
    }

    fn etcd(self) -> Result<EtcdConfig, ConfigError> {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let endpoints = given(self.endpoints).unwrap_or_default();
        let endpoints: Vec<String> =
            endpoints.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect();
        let at = |domain| Discovery { domain, resolv_conf: RESOLV_CONF.into() };
        let discovery = given(self.discovery).map(at);
        match (endpoints.is_empty(), discovery.is_some()) {
            (true, false) => return Err(ConfigError::NoEndpoints),
            (false, true) => return Err(ConfigError::EndpointsAndDiscovery),
            _ => {}
        }
        let files = [given(self.key_file), given(self.cert_file), given(self.ca_file)];
        let inline = [given(self.key), given(self.cert), given(self.ca)];
        let is_any = |parts: &[Option<String>; 3]| parts.iter().any(Option::is_some);
        if is_any(&files) && is_any(&inline) {
            return Err(ConfigError::MixedPem);
        }
        let [key, cert, ca] = if is_any(&inline) {
            inline.map(|part| part.map(Pem::Text))
        } else {
            files.map(|part| part.map(|path| Pem::File(path.into())))
        };
        let identity = match (cert, key) {
            (Some(cert), Some(key)) => Some((cert, key)),
            (None, None) => None,
            _ => return Err(ConfigError::HalfIdentity),
        };
        let credentials = given(self.username).zip(given(self.password));
        Ok(EtcdConfig { endpoints, discovery, credentials, ca, identity, ..EtcdConfig::default() })
    }
}

#[cfg(test)]
mod tests;
