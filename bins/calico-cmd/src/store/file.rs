//! The `CalicoAPIConfig` file.

use serde::Deserialize;
use serde_json::Value;

use super::Settings;
use crate::manifest;

/// A configuration file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// Not YAML or JSON.
    #[error(transparent)]
    Syntax(#[from] manifest::SyntaxError),
    /// Not one `CalicoAPIConfig` of version v3 with known fields.
    #[error("{file}: {reason}")]
    Content {
        /// The file.
        file: String,
        /// What is wrong.
        reason: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ApiConfig {
    kind: String,
    api_version: String,
    #[serde(default)]
    #[expect(dead_code, reason = "accepted and without meaning")]
    metadata: Value,
    #[serde(default)]
    spec: ApiConfigSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct ApiConfigSpec {
    datastore_type: Option<String>,
    datastore_path: Option<String>,
    etcd_endpoints: Option<String>,
    etcd_discovery_srv: Option<String>,
    etcd_username: Option<String>,
    etcd_password: Option<String>,
    etcd_key_file: Option<String>,
    etcd_cert_file: Option<String>,
    #[serde(rename = "etcdCACertFile")]
    etcd_ca_cert_file: Option<String>,
    etcd_key: Option<String>,
    etcd_cert: Option<String>,
    #[serde(rename = "etcdCACert")]
    etcd_ca_cert: Option<String>,
    kubeconfig: Option<Value>,
    kubeconfig_inline: Option<Value>,
    #[serde(rename = "k8sAPIEndpoint")]
    k8s_api_endpoint: Option<Value>,
    k8s_key_file: Option<Value>,
    k8s_cert_file: Option<Value>,
    #[serde(rename = "k8sCAFile")]
    k8s_ca_file: Option<Value>,
    #[serde(rename = "k8sAPIToken")]
    k8s_api_token: Option<Value>,
    #[serde(rename = "k8sInsecureSkipTLSVerify")]
    k8s_insecure_skip_tls_verify: Option<Value>,
    k8s_disable_node_poll: Option<Value>,
    #[serde(rename = "usePodCIDR")]
    use_pod_cidr: Option<Value>,
    #[serde(rename = "k8sClientQPS")]
    k8s_client_qps: Option<Value>,
    k8s_client_burst: Option<Value>,
    k8s_current_context: Option<Value>,
    #[serde(rename = "calicoAPIGroup")]
    calico_api_group: Option<Value>,
}

impl ApiConfigSpec {
    /// The first setting that only the Kubernetes datastore has.
    fn kubernetes(&self) -> Option<String> {
        let settings = [
            ("kubeconfig", &self.kubeconfig),
            ("kubeconfigInline", &self.kubeconfig_inline),
            ("k8sAPIEndpoint", &self.k8s_api_endpoint),
            ("k8sKeyFile", &self.k8s_key_file),
            ("k8sCertFile", &self.k8s_cert_file),
            ("k8sCAFile", &self.k8s_ca_file),
            ("k8sAPIToken", &self.k8s_api_token),
            ("k8sInsecureSkipTLSVerify", &self.k8s_insecure_skip_tls_verify),
            ("k8sDisableNodePoll", &self.k8s_disable_node_poll),
            ("usePodCIDR", &self.use_pod_cidr),
            ("k8sClientQPS", &self.k8s_client_qps),
            ("k8sClientBurst", &self.k8s_client_burst),
            ("k8sCurrentContext", &self.k8s_current_context),
            ("calicoAPIGroup", &self.calico_api_group),
        ];
        settings.iter().find(|(_, value)| value.is_some()).map(|(name, _)| (*name).to_owned())
    }
}

/// Reads the text of the file called `name`.
pub(super) fn read(name: &str, text: &str) -> Result<Settings, FileError> {
    let content = |reason: String| FileError::Content { file: name.into(), reason };
    let documents = manifest::read(name, text)?;
    let [document] = documents.as_slice() else {
        return Err(content(format!("expected one CalicoAPIConfig, found {} documents", documents.len())));
    };
    let config = ApiConfig::deserialize(&document.value).map_err(|error| content(error.to_string()))?;
    if config.kind != "CalicoAPIConfig" || config.api_version != calico_core::resource::API_VERSION {
        let reason = "expected kind: CalicoAPIConfig and apiVersion: projectcalico.org/v3";
        return Err(content(format!("{reason}, found {} and {}", config.kind, config.api_version)));
    }
    let kubernetes = config.spec.kubernetes();
    let spec = config.spec;
    Ok(Settings {
        has_etcd: spec.etcd_endpoints.is_some() || spec.etcd_discovery_srv.is_some(),
        datastore_type: spec.datastore_type,
        path: spec.datastore_path,
        endpoints: spec.etcd_endpoints,
        discovery: spec.etcd_discovery_srv,
        username: spec.etcd_username,
        password: spec.etcd_password,
        key_file: spec.etcd_key_file,
        cert_file: spec.etcd_cert_file,
        ca_file: spec.etcd_ca_cert_file,
        key: spec.etcd_key,
        cert: spec.etcd_cert,
        ca: spec.etcd_ca_cert,
        kubernetes,
    })
}
