//! What the Admin API takes from config.yaml.

use std::sync::Arc;

use ipnet::IpNet;
use model::encrypt::Keyring;

#[derive(Clone)]
pub struct AdminSettings {
    /// `deployment.etcd.prefix`; the first part of the keys in answers.
    pub key_prefix: String,
    pub keys: Vec<AdminKey>,
    /// `deployment.admin.admin_key_required`; without any key nothing is required either.
    pub key_required: bool,
    pub version: ApiVersion,
    /// `deployment.admin.enable_admin_cors`.
    pub cors: bool,
    /// `deployment.admin.allow_admin`; `None` lets everybody in.
    pub allow: Option<Vec<IpNet>>,
    /// Whether `apisix.proxy_mode` has streams.
    pub stream: bool,
    /// `apisix.enable_server_tokens`.
    pub server_tokens: bool,
    /// xRPC protocols that stream routes may name.
    pub protocols: Vec<String>,
    /// Answers to writes show secret fields encrypted with it, as they are at rest.
    pub keyring: Option<Arc<Keyring>>,
}

impl Default for AdminSettings {
    fn default() -> Self {
        AdminSettings {
            key_prefix: "/apisix".into(),
            keys: Vec::new(),
            key_required: true,
            version: ApiVersion::V3,
            cors: true,
            allow: None,
            stream: false,
            server_tokens: true,
            protocols: Vec::new(),
            keyring: None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct AdminKey {
    pub name: String,
    pub key: String,
    pub role: Role,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Admin,
    /// May only `GET`.
    Viewer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiVersion {
    V2,
    V3,
}

impl AdminSettings {
    pub(crate) fn server(&self) -> &'static str {
        if self.server_tokens { "APISIX/3.18.0" } else { "APISIX" }
    }
}
