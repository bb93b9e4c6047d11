//! `deployment`.

use std::time::Duration;

use super::{Access, AdminOidc, Reader, listener::Listener};

/// What the process serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Traffic and Admin API.
    Traditional,
    /// Admin API only.
    ControlPlane,
    /// Traffic only.
    DataPlane,
}

/// Where resources come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    /// The database below data/.
    Embedded,
    /// An etcd cluster.
    Etcd,
    /// conf/apisix.yaml
    Yaml,
    /// conf/apisix.json
    Json,
    /// `PUT /apisix/admin/configs`: role traditional with provider yaml and the Admin API on.
    ApiDriven,
}

/// Section `deployment.admin`.
#[derive(Clone, Debug)]
pub struct Admin {
    /// `None`: not served.
    pub listen: Option<Listener>,
    /// What a request has to show.
    pub access: Access,
    /// Networks; `None`: all, an empty list: none.
    pub allow: Option<Vec<String>>,
    /// Serves HTTPS, with the certificate below.
    pub https: bool,
    /// Files (PEM).
    pub certificate: Option<String>,
    /// The key of `certificate`: a PEM file.
    pub certificate_key: Option<String>,
    /// The CA of client certificates: a PEM file; `None`: no client certificate is requested.
    pub client_ca: Option<String>,
    /// Answers in the shape of version 2.
    pub version_2: bool,
    /// Whether pages of other origins may use the API.
    pub cors: bool,
    /// Whether the console is served; `None`: where other machines cannot reach the API.
    pub console: Option<bool>,
    /// Signing in with an identity provider; `None`: keys and passwords only.
    pub oidc: Option<AdminOidc>,
    /// Relative to the prefix; `None`: no line is kept of who tried to change what.
    pub audit_log: Option<String>,
    /// Limits of this and of the other listeners that are not the data plane's.
    pub limits: AdminLimits,
}

/// Of each listener that is not the data plane's.
#[derive(Clone, Copy, Debug)]
pub struct AdminLimits {
    pub connections: usize,
    /// Of an address that is not on `allow`; 0: no limit.
    pub connections_per_address: u32,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    pub keepalive_timeout: Duration,
    pub large_bodies: usize,
    /// How long the answer to a write waits until the write is compiled.
    pub compile_timeout: Duration,
    pub reserved_descriptors: u64,
}

/// Section `deployment.etcd`.
#[derive(Clone, Debug)]
pub struct Etcd {
    /// URLs of the members.
    pub hosts: Vec<String>,
    /// What all keys begin with, without a slash at its end.
    pub prefix: String,
    /// Of one read or write.
    pub timeout: Duration,
    /// The longest pause between attempts to connect.
    pub resync_delay: Duration,
    /// Rounds over all members before a start fails.
    pub startup_retry: u64,
    /// User name; `None`: no authentication.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<String>,
    /// TLS with the members.
    pub tls: EtcdTls,
}

#[derive(Clone, Debug)]
pub struct EtcdTls {
    pub cert: Option<String>,
    pub key: Option<String>,
    pub verify: bool,
    pub sni: Option<String>,
}

impl Role {
    /// `deployment.role`.
    pub fn read(reader: &Reader) -> Self {
        match reader.text("deployment.role").as_deref() {
            Some("control_plane") => Self::ControlPlane,
            Some("data_plane") => Self::DataPlane,
            _ => Self::Traditional,
        }
    }
}

impl Provider {
    /// `config_provider` of the role.
    pub fn read(reader: &Reader) -> Self {
        let role = reader.text("deployment.role").unwrap_or_default();
        let section = match role.as_str() {
            "control_plane" | "data_plane" => role.as_str(),
            _ => "traditional",
        };
        let named = reader.text(&format!("deployment.role_{section}.config_provider"));
        let by_api = section == "traditional" && reader.bool("apisix.enable_admin");
        match named.as_deref() {
            Some("etcd") => Self::Etcd,
            Some("yaml") if by_api => Self::ApiDriven,
            Some("yaml") => Self::Yaml,
            Some("json") => Self::Json,
            _ if role == "standalone" => Self::Yaml,
            _ => Self::Embedded,
        }
    }
}

impl Admin {
    /// Section `deployment.admin`.
    pub fn read(reader: &Reader) -> Self {
        let at = |name: &str| format!("deployment.admin.{name}");
        let wanted = match Role::read(reader) {
            Role::Traditional => reader.bool("apisix.enable_admin"),
            Role::ControlPlane => true,
            Role::DataPlane => false,
        };
        // Resource files are written by their owner, not through an API.
        let from_files = matches!(Provider::read(reader), Provider::Yaml | Provider::Json);
        let served = wanted && !from_files;
        Self {
            listen: reader.listener(&at("admin_listen"), "0.0.0.0", Some(9180)).filter(|_| served),
            access: Access::read(reader),
            allow: reader.value(&at("allow_admin")).map(|_| reader.texts(&at("allow_admin"))),
            https: reader.bool(&at("https_admin")),
            certificate: reader.text(&at("admin_api_mtls.admin_ssl_cert")),
            certificate_key: reader.text(&at("admin_api_mtls.admin_ssl_cert_key")),
            client_ca: reader.text(&at("admin_api_mtls.admin_ssl_ca_cert")),
            version_2: reader.text(&at("admin_api_version")).is_some_and(|version| version != "v3"),
            cors: reader.bool(&at("enable_admin_cors")),
            console: reader.value(&at("enable_admin_ui")).and_then(serde_json::Value::as_bool),
            oidc: AdminOidc::read(reader),
            audit_log: reader.text(&at("audit_log")).filter(|path| path != "off"),
            limits: AdminLimits::read(reader),
        }
    }
}

impl AdminLimits {
    fn read(reader: &Reader) -> Self {
        let at = |name: &str| format!("deployment.admin.limits.{name}");
        let number = |name: &str, fallback: u32| {
            reader.unsigned(&at(name)).and_then(|number| u32::try_from(number).ok()).unwrap_or(fallback)
        };
        let seconds =
            |name: &str, fallback| reader.seconds(&at(name)).unwrap_or(Duration::from_secs(fallback));
        Self {
            connections: number("connections", 256) as usize,
            connections_per_address: number("connections_per_address", 8),
            header_timeout: seconds("header_timeout", 5),
            body_timeout: seconds("body_timeout", 30),
            keepalive_timeout: seconds("keepalive_timeout", 75),
            large_bodies: number("large_bodies", 8) as usize,
            compile_timeout: seconds("compile_timeout", 30),
            reserved_descriptors: number("reserved_descriptors", 32).into(),
        }
    }
}

impl Etcd {
    /// Section `deployment.etcd`.
    pub fn read(reader: &Reader) -> Self {
        let at = |name: &str| format!("deployment.etcd.{name}");
        let seconds =
            |name: &str, fallback| reader.seconds(&at(name)).unwrap_or(Duration::from_secs(fallback));
        Self {
            hosts: reader.texts(&at("host")),
            prefix: reader
                .text(&at("prefix"))
                .map_or_else(|| "/apisix".to_owned(), |prefix| prefix.trim_end_matches('/').to_owned()),
            timeout: seconds("timeout", 30),
            resync_delay: seconds("resync_delay", 5),
            startup_retry: reader.unsigned(&at("startup_retry")).unwrap_or(2),
            user: reader.text(&at("user")),
            password: reader.text(&at("password")),
            tls: EtcdTls {
                cert: reader.text(&at("tls.cert")),
                key: reader.text(&at("tls.key")),
                verify: reader.bool(&at("tls.verify")),
                sni: reader.text(&at("tls.sni")),
            },
        }
    }
}
