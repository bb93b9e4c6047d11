//! Where TCP and UDP are proxied: `apisix.proxy_mode` and `apisix.stream_proxy`.

use serde_json::Value;

use super::{Reader, listener::Listener};
use crate::keys::forms;

/// What is proxied, and where sessions of stream routes come in.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// `apisix.proxy_mode` has stream.
    pub enable: bool,
    /// `apisix.proxy_mode` is stream: HTTP is not proxied.
    pub only: bool,
    /// `stream_proxy.tcp`; empty where streams are off.
    pub tcp: Vec<TcpListener>,
    /// `stream_proxy.udp`; empty where streams are off.
    pub udp: Vec<Listener>,
    /// `nginx_config.stream.real_ip_from`
    pub real_ip_from: Vec<String>,
    /// `stream_plugins`
    pub plugins: Vec<String>,
    /// The names in `xrpc.protocols`.
    pub protocols: Vec<String>,
}

/// An item of `stream_proxy.tcp`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpListener {
    /// Where.
    pub listener: Listener,
    /// TLS ends there.
    pub tls: bool,
    /// Connections begin with a PROXY header.
    pub proxy_protocol: bool,
    /// Those to nodes do.
    pub announce: bool,
}

impl Stream {
    pub(crate) fn read(reader: &Reader) -> Self {
        let mode = reader.text("apisix.proxy_mode");
        let enable = matches!(mode.as_deref(), Some("stream" | "http&stream"));
        let plugins = reader.texts("stream_plugins");
        let protocols = reader.list("xrpc.protocols").iter();
        let protocols = protocols.filter_map(|protocol| Reader::new(protocol).text("name")).collect();
        if !enable {
            return Self { plugins, protocols, ..Self::default() };
        }
        let mut listeners: Vec<TcpListener> = Vec::new();
        // The same address twice is once; with other settings it is a conflict.
        for found in reader.list("apisix.stream_proxy.tcp").iter().flat_map(|item| tcp(reader, item)) {
            if !listeners.contains(&found) {
                listeners.push(found);
            }
        }
        let mut udp: Vec<Listener> = Vec::new();
        for found in reader.list("apisix.stream_proxy.udp").iter().flat_map(addresses) {
            if !udp.contains(&found) {
                udp.push(found);
            }
        }
        Self {
            enable,
            only: mode.as_deref() == Some("stream"),
            tcp: listeners,
            udp,
            real_ip_from: reader.texts("nginx_config.stream.real_ip_from"),
            plugins,
            protocols,
        }
    }
}

/// Of one item: a range is several.
fn tcp(reader: &Reader, item: &Value) -> Vec<TcpListener> {
    let own = Reader::new(item);
    let said = |name: &str, everywhere: &str| {
        let everywhere = || reader.bool(&format!("apisix.proxy_protocol.{everywhere}"));
        own.value(name).and_then(Value::as_bool).unwrap_or_else(everywhere)
    };
    let proxy_protocol = said("proxy_protocol", "enable_tcp_pp");
    let announce = said("proxy_protocol_to_upstream", "enable_tcp_pp_to_upstream");
    let address = if item.is_object() { item.get("addr").unwrap_or(&Value::Null) } else { item };
    let tls = own.bool("tls");
    let listeners = addresses(address).into_iter();
    listeners.map(|listener| TcpListener { listener, tls, proxy_protocol, announce }).collect()
}

/// A bare port is one of all IPv4 addresses, as in nginx.
fn addresses(item: &Value) -> Vec<Listener> {
    let text = match item {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let Some((ip, ports)) = forms::stream_address(&text) else { return Vec::new() };
    let ip = ip.map_or_else(|| "0.0.0.0".to_owned(), |ip| ip.to_string());
    ports.map(|port| Listener::new(&ip, port)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forms_of_addresses() {
        for (item, expected) in [
            (json!(9100), "0.0.0.0 9100"),
            (json!("9100"), "0.0.0.0 9100"),
            (json!("127.0.0.1:9101"), "127.0.0.1 9101"),
            (json!("[::1]:9101"), "::1 9101"),
            (json!("2000-2002"), "0.0.0.0 2000,0.0.0.0 2001,0.0.0.0 2002"),
            (json!("127.0.0.1:10-11"), "127.0.0.1 10,127.0.0.1 11"),
            (json!("banana"), ""),
        ] {
            let found: Vec<String> =
                addresses(&item).iter().map(|one| format!("{} {}", one.ip, one.port)).collect();
            assert_eq!(found.join(","), expected, "{item}");
        }
    }

    #[test]
    fn what_a_port_does() {
        let raw = json!({"apisix": {
            "proxy_mode": "http&stream",
            "proxy_protocol": {"enable_tcp_pp": true},
            "stream_proxy": {"tcp": [1, {"addr": 2, "tls": true, "proxy_protocol": false}], "udp": [3]}
        }});
        let stream = Stream::read(&Reader::new(&raw));
        let how = |at: usize| stream.tcp.get(at).map(|one| (one.tls, one.proxy_protocol, one.announce));
        assert_eq!((how(0), how(1)), (Some((false, true, false)), Some((true, false, false))));
        assert_eq!((stream.enable, stream.only, stream.udp.len()), (true, false, 1));
        let off = json!({"apisix": {"stream_proxy": {"tcp": [1]}}});
        assert!(Stream::read(&Reader::new(&off)).tcp.is_empty());
    }
}
