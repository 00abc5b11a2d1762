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
    kubeconfig: Option<String>,
    kubeconfig_inline: Option<String>,
    #[serde(rename = "k8sAPIEndpoint")]
    k8s_api_endpoint: Option<String>,
    k8s_key_file: Option<String>,
    k8s_cert_file: Option<String>,
    #[serde(rename = "k8sCAFile")]
    k8s_ca_file: Option<String>,
    #[serde(rename = "k8sAPIToken")]
    k8s_api_token: Option<String>,
    #[serde(rename = "k8sInsecureSkipTLSVerify")]
    k8s_insecure_skip_tls_verify: Option<bool>,
    k8s_disable_node_poll: Option<bool>,
    #[serde(rename = "usePodCIDR")]
    use_pod_cidr: Option<bool>,
    #[serde(rename = "k8sClientQPS")]
    k8s_client_qps: Option<f32>,
    k8s_client_burst: Option<i64>,
    k8s_current_context: Option<String>,
    #[serde(rename = "calicoAPIGroup")]
    calico_api_group: Option<String>,
}

impl ApiConfigSpec {
    /// The first setting that only the Kubernetes datastore has.
    fn kubernetes(&self) -> Option<String> {
        let settings = [
            ("kubeconfig", self.kubeconfig.is_some()),
            ("kubeconfigInline", self.kubeconfig_inline.is_some()),
            ("k8sAPIEndpoint", self.k8s_api_endpoint.is_some()),
            ("k8sKeyFile", self.k8s_key_file.is_some()),
            ("k8sCertFile", self.k8s_cert_file.is_some()),
            ("k8sCAFile", self.k8s_ca_file.is_some()),
            ("k8sAPIToken", self.k8s_api_token.is_some()),
            ("k8sInsecureSkipTLSVerify", self.k8s_insecure_skip_tls_verify.is_some()),
            ("k8sDisableNodePoll", self.k8s_disable_node_poll.is_some()),
            ("usePodCIDR", self.use_pod_cidr.is_some()),
            ("k8sClientQPS", self.k8s_client_qps.is_some()),
            ("k8sClientBurst", self.k8s_client_burst.is_some()),
            ("k8sCurrentContext", self.k8s_current_context.is_some()),
            ("calicoAPIGroup", self.calico_api_group.is_some()),
        ];
        settings.iter().find(|(_, is_set)| *is_set).map(|(name, _)| (*name).to_owned())
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
