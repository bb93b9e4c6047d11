//! The resources as typed values, for compiling them into a snapshot.
//!
//! They are read from values that passed [`crate::check`], so defaults are filled in; the defaults here only repeat
//! those of the schemas. Plugins stay JSON: they are each plugin's own business.

mod read;
mod upstream;

use serde::Deserialize;
use serde_json::{Map, Value};

pub use self::upstream::{Checks, DiscoveredService, KeepalivePool, MOST_RETRIES, Node, Timeout, Upstream};

/// Plugin name to configuration.
pub type Plugins = Map<String, Value>;

macro_rules! readable {
    ($($resource:ident)+) => {
        $(impl $resource {
            /// Reads a checked value; the error names the field.
            pub fn from_value(value: &Value) -> Result<Self, String> {
                crate::typed(value)
            }
        })+
    };
}

readable! {
    Route Service Upstream Consumer Credential GlobalRule PluginConfig ConsumerGroup Ssl PluginMetadata
    StreamRoute Proto Secret GraphqlCostDecoration
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Route {
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    pub name: Option<String>,
    pub desc: Option<String>,
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
    pub uri: Option<String>,
    #[serde(default, deserialize_with = "read::list")]
    pub uris: Vec<String>,
    pub host: Option<String>,
    #[serde(default, deserialize_with = "read::list")]
    pub hosts: Vec<String>,
    pub remote_addr: Option<String>,
    #[serde(default, deserialize_with = "read::list")]
    pub remote_addrs: Vec<String>,
    #[serde(default, deserialize_with = "read::list")]
    pub methods: Vec<String>,
    #[serde(default)]
    pub priority: i64,
    #[serde(default = "read::enabled")]
    pub status: u8,
    pub vars: Option<Value>,
    pub filter_func: Option<String>,
    pub script: Option<String>,
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
    #[serde(default, deserialize_with = "read::id")]
    pub plugin_config_id: Option<String>,
    #[serde(default, deserialize_with = "read::id")]
    pub service_id: Option<String>,
    #[serde(default, deserialize_with = "read::id")]
    pub upstream_id: Option<String>,
    pub upstream: Option<Upstream>,
    pub timeout: Option<Timeout>,
    pub enable_websocket: Option<bool>,
}

impl Route {
    /// The fields that determine which requests a route is for.
    pub const CONDITIONS: [&'static str; 9] =
        ["uri", "uris", "host", "hosts", "remote_addr", "remote_addrs", "methods", "vars", "filter_func"];

    /// Only 0 disables a route: another invalid status does not.
    pub fn is_enabled(&self) -> bool {
        self.status != 0
    }

    /// `uri` or `uris`, whichever is used.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.uri.iter().chain(&self.uris).map(String::as_str)
    }

    /// `host` or `hosts`, whichever is used.
    pub fn host_names(&self) -> impl Iterator<Item = &str> {
        self.host.iter().chain(&self.hosts).map(String::as_str)
    }

    /// `remote_addr` or `remote_addrs`, whichever is used.
    pub fn client_addresses(&self) -> impl Iterator<Item = &str> {
        self.remote_addr.iter().chain(&self.remote_addrs).map(String::as_str)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Service {
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    pub name: Option<String>,
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
    #[serde(default, deserialize_with = "read::list")]
    pub hosts: Vec<String>,
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
    #[serde(default, deserialize_with = "read::id")]
    pub upstream_id: Option<String>,
    pub upstream: Option<Upstream>,
    pub script: Option<String>,
    pub enable_websocket: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Consumer {
    pub username: String,
    #[serde(default, deserialize_with = "read::id")]
    pub group_id: Option<String>,
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Credential {
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    pub name: Option<String>,
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
}

#[derive(Clone, Debug, Deserialize)]
pub struct GlobalRule {
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
}

#[derive(Clone, Debug, Deserialize)]
pub struct PluginConfig {
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    pub name: Option<String>,
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ConsumerGroup {
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    pub name: Option<String>,
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Ssl {
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// `server` or `client`.
    #[serde(rename = "type", default = "read::server")]
    pub kind: String,
    #[serde(default = "read::enabled")]
    pub status: u8,
    pub sni: Option<String>,
    #[serde(default, deserialize_with = "read::list")]
    pub snis: Vec<String>,
    pub cert: String,
    pub key: String,
    #[serde(default, deserialize_with = "read::list")]
    pub certs: Vec<String>,
    #[serde(default, deserialize_with = "read::list")]
    pub keys: Vec<String>,
    pub client: Option<SslClient>,
    #[serde(default, deserialize_with = "read::list")]
    pub ssl_protocols: Vec<String>,
    pub ocsp_stapling: Option<OcspStapling>,
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
}

/// The field that plugin `ocsp-stapling` adds.
#[derive(Clone, Debug, Deserialize)]
pub struct OcspStapling {
    #[serde(default)]
    pub enabled: bool,
    #[serde(default)]
    pub skip_verify: bool,
    /// Seconds.
    #[serde(default = "read::hour")]
    pub cache_ttl: u64,
}

/// The certificate that a client has to present.
#[derive(Clone, Debug, Deserialize)]
pub struct SslClient {
    pub ca: String,
    #[serde(default = "read::one")]
    pub depth: u32,
    #[serde(default, deserialize_with = "read::list")]
    pub skip_mtls_uri_regex: Vec<String>,
}

/// Free-form: the plugin's metadata schema has been checked; `id` is the plugin's name.
#[derive(Clone, Debug, Deserialize)]
pub struct PluginMetadata {
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct StreamRoute {
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    pub name: Option<String>,
    pub remote_addr: Option<String>,
    pub server_addr: Option<String>,
    pub server_port: Option<u16>,
    pub sni: Option<String>,
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
    #[serde(default, deserialize_with = "read::id")]
    pub service_id: Option<String>,
    #[serde(default, deserialize_with = "read::id")]
    pub upstream_id: Option<String>,
    pub upstream: Option<Upstream>,
    pub protocol: Option<StreamProtocol>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct StreamProtocol {
    pub name: String,
    #[serde(default, deserialize_with = "read::id")]
    pub superior_id: Option<String>,
    pub conf: Option<Value>,
    #[serde(default, deserialize_with = "read::list")]
    pub logger: Vec<Value>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Proto {
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    pub content: String,
}

/// The configuration of a secret manager; the id names the manager (`vault/1`).
#[derive(Clone, Debug, Deserialize)]
pub struct Secret {
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct GraphqlCostDecoration {
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    #[serde(default, deserialize_with = "read::id")]
    pub service_id: Option<String>,
    pub field_path: String,
    #[serde(default = "read::one_number")]
    pub add_value: f64,
    #[serde(default, deserialize_with = "read::list")]
    pub add_arguments: Vec<String>,
    #[serde(default = "read::one_number")]
    pub mul_value: f64,
    #[serde(default, deserialize_with = "read::list")]
    pub mul_arguments: Vec<String>,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn nodes_have_two_shapes() {
        let map = json!({"nodes": {"a.com:8080": 1, "[::1]": 0, "b": 2}});
        let list = json!({"nodes": [{"host": "a.com", "port": 8080, "weight": 1, "priority": -1}]});
        let nodes = |value: &Value| Upstream::from_value(value).expect("readable").nodes.expect("nodes");
        let read: Vec<_> = nodes(&map).into_iter().map(|node| (node.host, node.port, node.weight)).collect();
        let expected = [("a.com", Some(8080), 1), ("[::1]", None, 0), ("b", None, 2)];
        assert_eq!(read, expected.map(|(host, port, weight)| (host.to_owned(), port, weight)));
        assert_eq!(nodes(&list)[0].priority, -1);
        assert_eq!(nodes(&json!({"nodes": []})).len(), 0);
    }

    #[test]
    fn defaults_of_the_schema_are_the_defaults_of_the_structs() {
        let mut checked = json!({"uri": "/a", "upstream": {"nodes": {"a": 1}, "checks": {"active": {}}}});
        crate::schemas::of_kind(crate::Kind::Route).expect("schema").check(&mut checked).expect("valid");
        let plain = json!({"uri": "/a", "upstream": {"nodes": {"a": 1}, "checks": {"active": {}}}});
        let read = |value| format!("{:?}", Route::from_value(value).expect("readable"));
        assert_eq!(read(&plain), read(&checked));
    }

    #[test]
    fn errors_name_the_field() {
        let broken = json!({"uri": "/a", "upstream": {"timeout": {"connect": "x", "read": 1, "send": 1}}});
        let error = Route::from_value(&broken).expect_err("wrong type");
        assert!(error.starts_with("field upstream.timeout.connect: invalid type: string"), "{error}");
        let lists = json!({"id": 1, "uri": "/a", "methods": {}, "plugins": [], "priority": 2});
        let route = Route::from_value(&lists).expect("readable");
        assert_eq!((route.id.as_deref(), route.priority, route.is_enabled()), (Some("1"), 2, true));
    }
}
