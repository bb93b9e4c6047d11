//! The settings of the process, typed.
//!
//! Reading them cannot fail: the checks have run, defaults fill what is missing, and a key that was removed
//! with null reads as unset.

mod access;
mod apisix;
mod deployment;
mod history;
mod http2;
pub(crate) mod listener;
mod nginx;
mod oidc;
mod reader;
mod stream;

use std::path::PathBuf;

use serde_json::Value;

use crate::places::Places;

pub use self::{
    access::{Access, AdminKey, AdminRole, Key},
    apisix::{Apisix, HttpRouter, ProxyProtocol, Tls, is_server_name},
    deployment::{Admin, Etcd, Provider, Role},
    history::History,
    listener::Listener,
    nginx::{AccessLog, Level, Nginx, Timeouts},
    oidc::{AdminOidc, OidcRole, REDIRECT_PATH},
    reader::Reader,
    stream::{Stream, TcpListener},
};

/// The settings of the process: config.yaml, the defaults below it, and a few of the command line.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the files of this gateway are.
    pub files: Files,
    /// Section `apisix`.
    pub apisix: Apisix,
    /// What is proxied below HTTP.
    pub stream: Stream,
    /// Section `nginx_config`.
    pub nginx: Nginx,
    /// `deployment.role`.
    pub role: Role,
    /// `config_provider` of the role.
    pub provider: Provider,
    /// Section `deployment.admin`.
    pub admin: Admin,
    /// Section `deployment.etcd`.
    pub etcd: Etcd,
    /// Section `history`.
    pub history: History,
    /// Names of the HTTP plugins that are on.
    pub plugins: Vec<String>,
    /// Section `plugin_attr`, by plugin; null without any.
    pub plugin_attr: Value,
    /// Section `discovery`, by registry; null without any.
    pub discovery: Value,
    /// `graphql.max_size`.
    pub graphql_max_bytes: u64,
    /// Of the command line: where the store is damaged, its copy is served even if it is behind.
    pub serve_last_good: bool,
    /// Answers are signed as Tidegate's: no client of APISIX is there.
    pub own_name: bool,
    /// config.yaml over the defaults, for code that needs a key without a field.
    pub raw: Value,
    /// Where the file has what, for messages about faults that are found later.
    pub places: Places,
}

/// Where things are. All paths are absolute if the prefix is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The folder of the gateway, of `--prefix`.
    pub prefix: PathBuf,
    /// config.yaml, or config-PROFILE.yaml.
    pub config: PathBuf,
    /// apisix.yaml and apisix.json, with the profile in their names if there is one.
    pub resources_yaml: PathBuf,
    /// As `resources_yaml`, for provider json.
    pub resources_json: PathBuf,
    /// The embedded database.
    pub database: PathBuf,
    /// The folder of log files.
    pub logs: PathBuf,
    /// The pid file, which only the running gateway has locked.
    pub pid: PathBuf,
}

impl Settings {
    pub(crate) fn new(raw: Value, files: Files, cores: usize) -> Self {
        let reader = Reader::new(&raw);
        Self {
            files,
            apisix: Apisix::read(&reader),
            stream: Stream::read(&reader),
            nginx: Nginx::read(&reader, cores),
            role: Role::read(&reader),
            provider: Provider::read(&reader),
            admin: Admin::read(&reader),
            etcd: Etcd::read(&reader),
            history: History::read(&reader),
            plugins: reader.texts("plugins"),
            plugin_attr: reader.value("plugin_attr").cloned().unwrap_or_default(),
            discovery: reader.value("discovery").cloned().unwrap_or_default(),
            serve_last_good: false,
            own_name: false,
            graphql_max_bytes: reader.unsigned("graphql.max_size").unwrap_or(1 << 20),
            raw,
            places: Places::default(),
        }
    }

    /// The settings of one plugin for the whole process; null without any.
    pub fn plugin_attribute(&self, plugin: &str) -> &Value {
        self.plugin_attr.get(plugin).unwrap_or(&Value::Null)
    }

    /// Whether some port speaks TLS with clients.
    pub fn ends_tls(&self) -> bool {
        self.apisix.tls.enable || self.stream.tcp.iter().any(|port| port.tls)
    }

    /// Where metrics are served, if on a separate port.
    pub fn metrics_listener(&self) -> Option<Listener> {
        let attribute = self.plugin_attribute("prometheus");
        let on = self.plugins.iter().any(|name| name == "prometheus")
            && attribute.get("enable_export_server").and_then(Value::as_bool).unwrap_or(true);
        let address = attribute.get("export_addr")?;
        let port = address.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
        let ip = address.get("ip").and_then(Value::as_str).unwrap_or("127.0.0.1");
        on.then_some(Listener::new(ip, port?))
    }

    /// The data ports whose connections the Admin API would take, too: it is served there.
    pub fn shared_with_admin(&self) -> impl Iterator<Item = &Listener> {
        let nodes = if self.role == Role::ControlPlane || self.stream.only {
            &[]
        } else {
            self.apisix.node_listen.as_slice()
        };
        let admin = self.admin.listen.as_ref();
        nodes.iter().filter(move |node| admin.is_some_and(|admin| listener::overlap(node, admin)))
    }

    /// The text of a key that has no field.
    pub(crate) fn raw_text(&self, path: &str) -> Option<String> {
        Reader::new(&self.raw).text(path)
    }

    /// A path of config.yaml, which is relative to the prefix.
    pub fn below_prefix(&self, path: &str) -> PathBuf {
        self.files.prefix.join(path)
    }
}
