//! Where a Redis is and how to speak to it, from a plugin's configuration.

use std::{fmt, hash::Hash, sync::Arc, time::Duration};

use redis::{
    ConnectionAddr, ConnectionInfo, IntoConnectionInfo, RedisConnectionInfo, TlsMode, cluster::ClusterClient,
};
use rustls_pki_types::ServerName;
use serde_json::Value;
use tidegate_plugin_api::typed;

use super::sentinel::Sentinel;

pub(super) struct Settings {
    /// Same name, same connection: a digest, for it covers credentials.
    pub name: Arc<str>,
    pub target: Target,
    /// The name in the certificate, where it is not the host.
    pub server_name: Option<ServerName<'static>>,
    pub connect_timeout: Duration,
    pub(crate) response_timeout: Duration,
    pub keepalive: Duration,
}

pub(super) enum Target {
    Single(ConnectionInfo),
    /// With its nodes as configured.
    Cluster(Box<ClusterClient>, String),
    Sentinel(Sentinel),
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Single(info) => write!(out, "Redis at {}", info.addr()),
            Target::Cluster(_, nodes) => write!(out, "Redis cluster {nodes}"),
            Target::Sentinel(sentinel) => write!(out, "Redis master {}", sentinel.master_name),
        }
    }
}

fn text(conf: &Value, name: &str) -> Option<String> {
    conf.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn flag(conf: &Value, name: &str) -> bool {
    conf.get(name).and_then(Value::as_bool).unwrap_or(false)
}

fn database(conf: &Value) -> Result<i64, String> {
    conf.get("redis_database")
        .map_or(Ok(0), |number| typed(number).map_err(|why| format!("{why} (redis_database)")))
}

fn address(host: &str, port: u16, tls: bool, verify: bool) -> ConnectionAddr {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    if tls {
        ConnectionAddr::TcpTls { host, port, insecure: !verify, tls_params: None }
    } else {
        ConnectionAddr::Tcp(host, port)
    }
}

/// A URL or a port in place of a host would fail with each request.
fn check_host(field: &str, host: &str) -> Result<(), String> {
    let is_address = host.trim_start_matches('[').trim_end_matches(']').parse::<std::net::Ipv6Addr>().is_ok();
    let wrong = |character: char| matches!(character, ':' | '/' | '@') || character.is_whitespace();
    if is_address || !host.contains(wrong) {
        return Ok(());
    }
    let host = tidegate_model::url::without_user(host);
    Err(format!(
        "{field}: {host} is not a host; write a name or an address there, and the port in its own field"
    ))
}

/// No `CLIENT SETINFO`: old servers refuse it, and proxies in front of some do not know it.
fn quiet() -> RedisConnectionInfo {
    RedisConnectionInfo::default().set_skip_set_lib_name()
}

/// A user without a password is ignored.
fn login(conf: &Value, user: &str, password: &str) -> RedisConnectionInfo {
    let Some(password) = text(conf, password) else { return quiet() };
    let login = quiet().set_password(password);
    match text(conf, user) {
        Some(user) => login.set_username(user),
        None => login,
    }
}

impl Settings {
    fn new(kind: &str, conf: &Value, target: Target, connect: &str, response: &str) -> Settings {
        let mut fields: Vec<(&String, &Value)> = conf
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(name, _)| name.starts_with("redis_") || name.starts_with("sentinel_"))
            .collect();
        fields.sort_by_key(|(name, _)| name.as_str());
        let digest = |seed: u64| {
            let hasher = ahash::RandomState::with_seeds(seed, 11, 12, 13);
            let mut text = String::new();
            for (name, value) in &fields {
                text.push_str(name);
                text.push('=');
                text.push_str(&value.to_string());
                text.push('\n');
            }
            hash(&hasher, &text)
        };
        Settings {
            name: format!("{kind}#{:016x}{:016x}", digest(1), digest(2)).into(),
            target,
            server_name: None,
            connect_timeout: milliseconds(conf, connect, 1000),
            response_timeout: milliseconds(conf, response, 1000),
            keepalive: milliseconds(conf, "redis_keepalive_timeout", 10_000),
        }
    }

    /// With what fields of other plugins do not say.
    pub(super) fn with(
        self,
        server_name: Option<&str>,
        response_timeout: Duration,
    ) -> Result<Settings, String> {
        let checked = server_name.map(|name| ServerName::try_from(name.to_owned())).transpose();
        let checked = checked.map_err(|_| "server_name is neither a host name nor an address".to_owned())?;
        let name =
            format!("{}#{}#{}", self.name, response_timeout.as_millis(), server_name.unwrap_or_default());
        Ok(Settings { name: name.into(), server_name: checked, response_timeout, ..self })
    }

    pub(super) fn single(conf: &Value) -> Result<Settings, String> {
        let host = text(conf, "redis_host").ok_or("redis_host is missing")?;
        check_host("redis_host", &host)?;
        let port = conf.get("redis_port").and_then(Value::as_u64).unwrap_or(6379);
        let port = u16::try_from(port).map_err(|_| format!("redis_port {port} is out of range"))?;
        let login = login(conf, "redis_username", "redis_password").set_db(database(conf)?);
        let address = address(&host, port, flag(conf, "redis_ssl"), flag(conf, "redis_ssl_verify"));
        let info = address.into_connection_info().map_err(|error| error.to_string())?;
        let target = Target::Single(info.set_redis_settings(login));
        Ok(Settings::new("redis", conf, target, "redis_timeout", "redis_timeout"))
    }

    pub(super) fn cluster(conf: &Value) -> Result<Settings, String> {
        let tls = flag(conf, "redis_cluster_ssl");
        let verify = flag(conf, "redis_cluster_ssl_verify");
        let mut nodes = Vec::new();
        for node in conf.get("redis_cluster_nodes").and_then(Value::as_array).into_iter().flatten() {
            let node = node.as_str().unwrap_or_default();
            let (host, port) = node.rsplit_once(':').unwrap_or((node, "6379"));
            check_host("redis_cluster_nodes", host)?;
            let port = port.parse().map_err(|_| format!("failed to parse address: {node}"))?;
            let info = address(host, port, tls, verify).into_connection_info();
            nodes.push(info.map_err(|error| error.to_string())?.set_redis_settings(quiet()));
        }
        let configured = conf.get("redis_cluster_nodes").and_then(Value::as_array).into_iter().flatten();
        let timeout = milliseconds(conf, "redis_timeout", 1000);
        let mut builder =
            ClusterClient::builder(nodes).retries(2).connection_timeout(timeout).response_timeout(timeout);
        if tls {
            builder = builder.tls(if verify { TlsMode::Secure } else { TlsMode::Insecure });
        }
        if let Some(password) = text(conf, "redis_password") {
            builder = builder.password(password);
        }
        let client = builder.build().map_err(|error| format!("failed to new redis cluster: {error}"))?;
        let names: Vec<&str> = configured.filter_map(Value::as_str).collect();
        let target = Target::Cluster(Box::new(client), names.join(", "));
        Ok(Settings::new("redis-cluster", conf, target, "redis_timeout", "redis_timeout"))
    }

    pub(super) fn sentinel(conf: &Value) -> Result<Settings, String> {
        let mut addresses = Vec::new();
        for entry in conf.get("redis_sentinels").and_then(Value::as_array).into_iter().flatten() {
            let host = text(entry, "host").ok_or("redis_sentinels: host is missing")?;
            check_host("redis_sentinels", &host)?;
            let port = entry.get("port").and_then(Value::as_u64).and_then(|port| u16::try_from(port).ok());
            addresses.push((host, port.ok_or("redis_sentinels: port is missing")?));
        }
        let sentinel = Sentinel {
            addresses,
            master_name: text(conf, "redis_master_name").ok_or("redis_master_name is missing")?,
            replica: conf.get("redis_role").and_then(Value::as_str) == Some("slave"),
            login: login(conf, "redis_username", "redis_password").set_db(database(conf)?),
            sentinel_login: login(conf, "sentinel_username", "sentinel_password"),
        };
        let target = Target::Sentinel(sentinel);
        Ok(Settings::new("redis-sentinel", conf, target, "redis_connect_timeout", "redis_read_timeout"))
    }
}

fn hash(hasher: &ahash::RandomState, value: impl Hash) -> u64 {
    hasher.hash_one(value)
}

/// Whole milliseconds of a field; an absurd value that the schema accepts becomes an hour.
pub(super) fn milliseconds(conf: &Value, name: &str, default: u64) -> Duration {
    let value = conf.get(name).and_then(Value::as_u64).unwrap_or(default);
    Duration::from_millis(value.clamp(1, 3_600_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn settings_share_connections_only_when_they_agree() {
        let name = |conf: Value| Settings::single(&conf).map(|settings| settings.name);
        let with = |server_name, seconds| {
            let settings = Settings::single(&json!({ "redis_host": "127.0.0.1" }))?;
            settings.with(server_name, Duration::from_secs(seconds)).map(|settings| settings.name)
        };
        assert_eq!(with(None, 1), with(None, 1));
        assert_ne!(with(None, 1), with(None, 2));
        assert_ne!(with(None, 1), with(Some("a.test"), 1));
        assert!(with(Some("a b"), 1).is_err());
        let base = json!({ "redis_host": "127.0.0.1", "count": 1 });
        let same = json!({ "redis_host": "127.0.0.1", "count": 2 });
        let database = json!({ "redis_host": "127.0.0.1", "redis_database": 1 });
        let password = json!({ "redis_host": "127.0.0.1", "redis_password": "x" });
        assert_eq!(name(base.clone()), name(same));
        assert_ne!(name(base.clone()), name(database));
        assert_ne!(name(base), name(password));
    }

    #[test]
    fn what_cannot_be_an_address_is_refused() {
        let cases = [
            (Settings::single(&json!({})).err(), "redis_host is missing"),
            (
                Settings::single(&json!({ "redis_host": "localhost", "redis_port": 70000 })).err(),
                "redis_port 70000 is out of range",
            ),
            (
                Settings::single(&json!({ "redis_host": "redis://localhost" })).err(),
                "redis_host: redis://localhost is not a host; write a name or an address there, and the port in its own field",
            ),
            (
                Settings::single(&json!({ "redis_host": "10.0.0.1:6379" })).err(),
                "redis_host: 10.0.0.1:6379 is not a host; write a name or an address there, and the port in its own field",
            ),
            (Settings::single(&json!({ "redis_host": "[::1]" })).err(), ""),
            (
                Settings::cluster(&json!({ "redis_cluster_nodes": ["a:b"] })).err(),
                "failed to parse address: a:b",
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(error.as_deref().unwrap_or_default(), expected);
        }
    }
}
