//! Which datastore a program uses.
//!
//! [`resolve`] is a pure function of a configuration file's text and the environment; [`open()`] carries its answer out,
//! [`PatientStore`] for as long as it takes. A file, where
//! there is one, is complete: the environment is not merged in. In the environment every setting is looked up as `CALICO_<NAME>`
//! first and as `<NAME>` second; a variable that is set but empty counts.

mod file;
mod open;
mod patient;

use std::collections::BTreeMap;
use std::path::PathBuf;

use calico_datastore::{EtcdConfig, Pem};

pub use file::FileError;
pub use open::{OpenError, open, open_existing, open_in_place};
pub use patient::PatientStore;

/// Where the embedded datastore lies unless told otherwise.
pub const DEFAULT_PATH: &str = "/var/lib/calico/calico.db";
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
    Etcd(EtcdConfig),
}

/// What decides about the datastore.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Sources<'a> {
    /// Name and text of a `CalicoAPIConfig` file.
    pub file: Option<(&'a str, &'a str)>,
    /// The environment.
    pub environment: BTreeMap<String, String>,
    /// `~/.kube/config`, if it exists.
    pub home_kubeconfig: Option<PathBuf>,
}

impl<'a> Sources<'a> {
    /// The process's environment, and the configuration file if there is one.
    pub fn of_process(file: Option<(&'a str, &'a str)>) -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let environment: BTreeMap<String, String> = std::env::vars_os().filter_map(text).collect();
        let home = environment.get("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
        Self { file, environment, home_kubeconfig: home.filter(|path| path.exists()) }
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let prefixed = self.environment.get(&format!("CALICO_{name}"));
        prefixed.or_else(|| self.environment.get(name)).map(String::as_str)
    }

    fn has_variable(&self, prefix: &str) -> bool {
        let names = self.environment.iter().filter(|(_, value)| !value.is_empty()).map(|(name, _)| name);
        names.into_iter().any(|name| name.strip_prefix("CALICO_").unwrap_or(name).starts_with(prefix))
    }
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
    #[error("the etcdv3 datastore needs endpoints: set ETCD_ENDPOINTS, for example to http://127.0.0.1:2379")]
    NoEndpoints,
    /// etcd by DNS.
    #[error("finding etcd by DNS SRV records is not supported yet: replace ETCD_DISCOVERY_SRV by ETCD_ENDPOINTS")]
    Discovery,
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
    let settings = match sources.file {
        Some((name, text)) => file::read(name, text)?,
        None => Settings::of_environment(sources),
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
        Type::Etcd => StoreConfig::Etcd(settings.etcd()?),
    };
    Ok(Resolved { config, warning })
}

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
        return Ok((Type::Etcd, None));
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
    fn of_environment(sources: &Sources<'_>) -> Self {
        let get = |name: &str| sources.variable(name).map(str::to_owned);
        let kubernetes = if get("KUBECONFIG").is_some_and(|path| !path.is_empty()) {
            Some("KUBECONFIG".into())
        } else {
            sources.has_variable("K8S_").then(|| "K8S_…".into())
        };
        Self {
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
        }
    }

    fn etcd(self) -> Result<EtcdConfig, ConfigError> {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        if given(self.discovery).is_some() {
            return Err(ConfigError::Discovery);
        }
        let endpoints = given(self.endpoints).ok_or(ConfigError::NoEndpoints)?;
        let endpoints: Vec<String> =
            endpoints.split(',').map(str::trim).filter(|url| !url.is_empty()).map(str::to_owned).collect();
        if endpoints.is_empty() {
            return Err(ConfigError::NoEndpoints);
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
        Ok(EtcdConfig { endpoints, discovery: None, credentials: given(self.username).zip(given(self.password)), ca, identity })
    }
}

#[cfg(test)]
mod tests;
