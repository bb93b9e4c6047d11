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

/// Conditions on requests, and what becomes of those that meet them.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Route {
    /// Key in the store.
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// For people.
    pub name: Option<String>,
    /// For people.
    pub desc: Option<String>,
    /// For people and selectors of the Admin API.
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
    /// A path; `*` at its end matches any rest. Either this or `uris`.
    pub uri: Option<String>,
    /// Paths, as `uri`.
    #[serde(default, deserialize_with = "read::list")]
    pub uris: Vec<String>,
    /// A host; `*.` at its start matches any labels. Either this or `hosts`.
    pub host: Option<String>,
    /// Hosts, as `host`. Empty: any host, or those of the service.
    #[serde(default, deserialize_with = "read::list")]
    pub hosts: Vec<String>,
    /// An address or network of clients. Either this or `remote_addrs`.
    pub remote_addr: Option<String>,
    /// Addresses or networks, as `remote_addr`. Empty: any client.
    #[serde(default, deserialize_with = "read::list")]
    pub remote_addrs: Vec<String>,
    /// Empty: any method.
    #[serde(default, deserialize_with = "read::list")]
    pub methods: Vec<String>,
    /// Among routes of the same path, the higher one is tried first.
    #[serde(default)]
    pub priority: i64,
    /// 0 disables the route.
    #[serde(default = "read::enabled")]
    pub status: u8,
    /// Conditions on variables; see crate `routing`.
    pub vars: Option<Value>,
    /// A condition in Lua.
    pub filter_func: Option<String>,
    /// Lua that runs instead of plugins.
    pub script: Option<String>,
    /// Its plugins; they take precedence over those of the plugin config and the service.
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
    /// A plugin config whose plugins it has too.
    #[serde(default, deserialize_with = "read::id")]
    pub plugin_config_id: Option<String>,
    /// The service that completes it.
    #[serde(default, deserialize_with = "read::id")]
    pub service_id: Option<String>,
    /// An upstream; takes precedence over the service's.
    #[serde(default, deserialize_with = "read::id")]
    pub upstream_id: Option<String>,
    /// An upstream of its own. Either this or `upstream_id`.
    pub upstream: Option<Upstream>,
    /// Takes precedence over the upstream's.
    pub timeout: Option<Timeout>,
    /// Whether upgrades to WebSocket are allowed; unset: as the service says.
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

/// What several routes have in common.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Service {
    /// Key in the store.
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// For people.
    pub name: Option<String>,
    /// For people and selectors of the Admin API.
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
    /// For routes without hosts.
    #[serde(default, deserialize_with = "read::list")]
    pub hosts: Vec<String>,
    /// For its routes, which may override each.
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
    /// For routes without an upstream.
    #[serde(default, deserialize_with = "read::id")]
    pub upstream_id: Option<String>,
    /// For routes without an upstream. Either this or `upstream_id`.
    pub upstream: Option<Upstream>,
    /// For routes without a script and plugins.
    pub script: Option<String>,
    /// For routes that do not say.
    pub enable_websocket: Option<bool>,
}

/// A client that authenticates.
#[derive(Clone, Debug, Deserialize)]
pub struct Consumer {
    /// Key in the store.
    pub username: String,
    /// A consumer group whose plugins it has too.
    #[serde(default, deserialize_with = "read::id")]
    pub group_id: Option<String>,
    /// For people, and for plugins such as acl.
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
    /// Its credentials, and plugins that run for its requests.
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
}

/// A credential of a consumer, with an id of its own.
#[derive(Clone, Debug, Deserialize)]
pub struct Credential {
    /// `CONSUMER/credentials/ID`.
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// For people.
    pub name: Option<String>,
    /// For people.
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
    /// Plugins that authenticate, one as a rule.
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
}

/// Plugins that run for every request, before those of routes.
#[derive(Clone, Debug, Deserialize)]
pub struct GlobalRule {
    /// Key in the store.
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// Each plugin is in one global rule at most.
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
}

/// Plugins that several routes have in common.
#[derive(Clone, Debug, Deserialize)]
pub struct PluginConfig {
    /// Key in the store.
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// For people.
    pub name: Option<String>,
    /// For people.
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
    /// Routes that name it may override each.
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
}

/// Plugins that several consumers have in common.
#[derive(Clone, Debug, Deserialize)]
pub struct ConsumerGroup {
    /// Key in the store.
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// For people.
    pub name: Option<String>,
    /// For people.
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
    /// Consumers that name it may override each.
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
}

/// A certificate and the names it is for, or a client's certificate for upstreams.
#[derive(Clone, Debug, Deserialize)]
pub struct Ssl {
    /// Key in the store.
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// `server` or `client`.
    #[serde(rename = "type", default = "read::server")]
    pub kind: String,
    /// 0 disables it.
    #[serde(default = "read::enabled")]
    pub status: u8,
    /// The server name. Either this or `snis`.
    pub sni: Option<String>,
    /// Server names; `*.` at the start of one matches one label.
    #[serde(default, deserialize_with = "read::list")]
    pub snis: Vec<String>,
    /// PEM, the leaf first.
    pub cert: String,
    /// PEM, or the encrypted text of one.
    pub key: String,
    /// Further certificates for the same names, of other key types.
    #[serde(default, deserialize_with = "read::list")]
    pub certs: Vec<String>,
    /// Their keys, in the same order.
    #[serde(default, deserialize_with = "read::list")]
    pub keys: Vec<String>,
    /// Requests a certificate of clients.
    pub client: Option<SslClient>,
    /// `TLSv1.2`, `TLSv1.3`; empty: those of config.yaml.
    #[serde(default, deserialize_with = "read::list")]
    pub ssl_protocols: Vec<String>,
    /// Whether handshakes carry the OCSP response.
    pub ocsp_stapling: Option<OcspStapling>,
    /// For people.
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
}

/// The field that plugin `ocsp-stapling` adds.
#[derive(Clone, Debug, Deserialize)]
pub struct OcspStapling {
    /// Whether a response is fetched and sent.
    #[serde(default)]
    pub enabled: bool,
    /// Whether its signature is not checked.
    #[serde(default)]
    pub skip_verify: bool,
    /// Seconds.
    #[serde(default = "read::hour")]
    pub cache_ttl: u64,
}

/// The certificate that a client has to present.
#[derive(Clone, Debug, Deserialize)]
pub struct SslClient {
    /// PEM of the authorities that may issue the client's certificate.
    pub ca: String,
    /// The most intermediate certificates.
    #[serde(default = "read::one")]
    pub depth: u32,
    /// Paths that need no client certificate.
    #[serde(default, deserialize_with = "read::list")]
    pub skip_mtls_uri_regex: Vec<String>,
}

/// Free-form: the plugin's metadata schema has been checked; `id` is the plugin's name.
#[derive(Clone, Debug, Deserialize)]
pub struct PluginMetadata {
    /// Name of the plugin.
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// What the plugin's metadata schema has.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// A route for TCP and UDP.
#[derive(Clone, Debug, Deserialize)]
pub struct StreamRoute {
    /// Key in the store.
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// For people.
    pub name: Option<String>,
    /// An address or network of clients.
    pub remote_addr: Option<String>,
    /// The address that the client connected to.
    pub server_addr: Option<String>,
    /// The port that the client connected to.
    pub server_port: Option<u16>,
    /// The server name of the client's handshake.
    pub sni: Option<String>,
    /// Its plugins.
    #[serde(default, deserialize_with = "read::table")]
    pub plugins: Plugins,
    /// The service that completes it.
    #[serde(default, deserialize_with = "read::id")]
    pub service_id: Option<String>,
    /// An upstream. Either this or `upstream`.
    #[serde(default, deserialize_with = "read::id")]
    pub upstream_id: Option<String>,
    /// An upstream of its own.
    pub upstream: Option<Upstream>,
    /// A protocol on top of TCP.
    pub protocol: Option<StreamProtocol>,
}

/// A protocol on top of TCP, of APISIX's xRPC.
#[derive(Clone, Debug, Deserialize)]
pub struct StreamProtocol {
    /// Of the protocol.
    pub name: String,
    /// The stream route that this one refines.
    #[serde(default, deserialize_with = "read::id")]
    pub superior_id: Option<String>,
    /// Settings of the protocol.
    pub conf: Option<Value>,
    /// Loggers of its calls.
    #[serde(default, deserialize_with = "read::list")]
    pub logger: Vec<ProtocolLogger>,
    /// Whether its calls are counted.
    pub metric: Option<ProtocolMetric>,
}

/// A logger of calls.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ProtocolLogger {
    /// Of a plugin of stream routes.
    pub name: Option<String>,
    /// Only calls for which this holds are logged.
    #[serde(default, deserialize_with = "read::list")]
    pub filter: Vec<Value>,
    /// Of the plugin.
    pub conf: Option<Value>,
}

/// Metrics of calls.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ProtocolMetric {
    /// Whether there are any.
    #[serde(default)]
    pub enable: bool,
}

/// A protobuf definition, for plugin grpc-transcode.
#[derive(Clone, Debug, Deserialize)]
pub struct Proto {
    /// Key in the store.
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// A .proto file as text, or a descriptor set in base64.
    pub content: String,
}

/// The configuration of a secret manager; the id names the manager (`vault/1`).
#[derive(Clone, Debug, Deserialize)]
pub struct Secret {
    /// `MANAGER/ID`.
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// As the manager's schema has them.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// The cost of a field of GraphQL. Stored and checked; nothing counts it.
#[derive(Clone, Debug, Deserialize)]
pub struct GraphqlCostDecoration {
    /// `SERVICE/graphql_cost_decorations/ID`.
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// The service whose requests it is for.
    #[serde(default, deserialize_with = "read::id")]
    pub service_id: Option<String>,
    /// `Type.field`.
    pub field_path: String,
    /// Added to the cost.
    #[serde(default = "read::one_number")]
    pub add_value: f64,
    /// Arguments whose values are added.
    #[serde(default, deserialize_with = "read::list")]
    pub add_arguments: Vec<String>,
    /// The cost is multiplied by it.
    #[serde(default = "read::one_number")]
    pub mul_value: f64,
    /// Arguments by whose values the cost is multiplied.
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
