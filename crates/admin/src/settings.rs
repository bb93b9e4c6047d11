//! What the Admin API takes from config.yaml.

use std::sync::Arc;

use aws_lc_rs::{
    constant_time::verify_slices_are_equal,
    digest::{Digest, SHA256, digest},
};
use ipnet::IpNet;
use tidegate_model::encrypt::Keyring;

use crate::{
    Hosts,
    caller::{Caller, Origin},
    oidc::Oidc,
    permission::{own_ports::OwnPorts, scope::Scope},
    role::Role,
};

/// Settings of the Admin API.
#[derive(Clone)]
pub struct AdminSettings {
    /// `deployment.etcd.prefix`; the first part of the keys in answers.
    pub key_prefix: String,
    /// What a request has to show.
    pub access: Access,
    /// The format of responses.
    pub version: ApiVersion,
    /// `deployment.admin.enable_admin_cors`.
    pub cors: bool,
    /// What an API without a key answers to.
    pub hosts: Hosts,
    /// `deployment.admin.allow_admin`; `None` lets every address in, an empty list none.
    pub allow: Option<Vec<IpNet>>,
    /// Whether `apisix.proxy_mode` has streams.
    pub stream: bool,
    /// `apisix.enable_server_tokens`.
    pub server_tokens: bool,
    /// How routes are matched: some fields then have no effect.
    pub matching: tidegate_model::idle::Matching,
    /// xRPC protocols that stream routes may name.
    pub protocols: Vec<String>,
    /// Answers to writes show secret fields encrypted with it, as at rest.
    pub keyring: Option<Arc<Keyring>>,
    /// Whether every connection has TLS.
    pub tls: bool,
    /// `deployment.admin.enable_admin_ui`
    pub console: bool,
    /// The name of the cookie of sessions: gateways at one host name, on several ports, each have their own.
    pub cookie: String,
    /// The identity provider of the console.
    pub oidc: Option<Oidc>,
    /// Where the gateway serves its own APIs.
    pub own_ports: OwnPorts,
    /// What `GET /mode` says of the process.
    pub mode: Mode,
}

/// Where the configuration is from, and which gateway this is.
#[derive(Clone, Debug, Default)]
pub struct Mode {
    /// `embedded`, `etcd` or `api`.
    pub provider: &'static str,
    /// The name of the machine.
    pub node: String,
}

impl Default for AdminSettings {
    fn default() -> Self {
        AdminSettings {
            key_prefix: "/apisix".into(),
            access: Access::Keys(Vec::new()),
            version: ApiVersion::V3,
            cors: true,
            hosts: Hosts::default(),
            allow: None,
            stream: false,
            server_tokens: true,
            matching: tidegate_model::idle::Matching::default(),
            protocols: Vec::new(),
            keyring: None,
            tls: false,
            console: false,
            cookie: "tidegate_session".to_owned(),
            oidc: None,
            own_ports: OwnPorts::default(),
            mode: Mode::default(),
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

/// A key, and what its owner may do.
#[derive(Clone)]
pub struct AdminKey {
    /// Shown in the audit log and the history.
    pub name: String,
    /// Of the key: two digests are of the same length, whatever a client sends.
    digest: Digest,
    /// What its owner may do.
    pub role: Role,
    /// The objects that it is for; `None`: all.
    scope: Option<Arc<Scope>>,
}

impl AdminKey {
    /// `None` for an empty key: it would match a request with an empty one.
    pub fn new(name: &str, key: &str, role: Role) -> Option<Self> {
        (!key.is_empty()).then(|| Self { name: name.to_owned(), digest: digest_of(key), role, scope: None })
    }

    /// The same for fewer objects.
    #[must_use]
    pub fn with_scope(self, scope: Option<Scope>) -> Self {
        Self { scope: scope.map(Arc::new), ..self }
    }

    pub(crate) fn caller(&self) -> Caller {
        Caller {
            name: self.name.clone(),
            role: self.role,
            origin: Origin::Key,
            sees_consumers: self.role > Role::Viewer && self.scope.is_none(),
            scope: self.scope.clone(),
            session: None,
        }
    }
}

impl Access {
    /// The key that is this token. The time it takes reveals neither how much of the token was right nor how long
    /// it should be.
    pub(crate) fn key(&self, token: &str) -> Option<&AdminKey> {
        let Access::Keys(keys) = self else { return None };
        let shown = digest_of(token);
        let opens = |key: &AdminKey| verify_slices_are_equal(key.digest.as_ref(), shown.as_ref()).is_ok();
        keys.iter().find(|key| opens(key))
    }
}

fn digest_of(key: &str) -> Digest {
    digest(&SHA256, key.as_bytes())
}

/// `admin_api_version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApiVersion {
    /// As APISIX 2.x.
    V2,
    /// As APISIX 3.x.
    V3,
}

impl AdminSettings {
    pub(crate) fn server(&self) -> &'static str {
        if self.server_tokens { "APISIX/3.18.0" } else { "APISIX" }
    }
}
