//! What the Admin API takes from config.yaml.

use std::sync::Arc;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use ipnet::IpNet;
use model::encrypt::Keyring;

#[derive(Clone)]
pub struct AdminSettings {
    /// `deployment.etcd.prefix`; the first part of the keys in answers.
    pub key_prefix: String,
    pub access: Access,
    pub version: ApiVersion,
    /// `deployment.admin.enable_admin_cors`.
    pub cors: bool,
    /// `deployment.admin.allow_admin`; `None` lets every address in, an empty list none.
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
            access: Access::Keys(Vec::new()),
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

/// What a request has to show.
#[derive(Clone)]
pub enum Access {
    /// Nothing.
    Open,
    /// One of these keys. Without any, no request is let in.
    Keys(Vec<AdminKey>),
}

#[derive(Clone)]
pub struct AdminKey {
    pub name: String,
    key: String,
    pub role: Role,
}

impl AdminKey {
    /// `None` for an empty key: it would match a request with an empty one.
    pub fn new(name: &str, key: &str, role: Role) -> Option<Self> {
        (!key.is_empty()).then(|| Self { name: name.to_owned(), key: key.to_owned(), role })
    }

    /// Compares in a time that does not tell how much of the token was right.
    pub(crate) fn opens(&self, token: &str) -> bool {
        verify_slices_are_equal(self.key.as_bytes(), token.as_bytes()).is_ok()
    }
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
