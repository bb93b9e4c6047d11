//! Whether a socket can be a receiver of log entries at all. What cannot is refused when it is written: its entries would go nowhere.

use serde_json::Value;
use tidegate_plugin_api::SchemaKind;

use super::log_entry;

/// Of `host` and `port` of a configuration.
pub(crate) fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind == SchemaKind::Plugin {
        place(conf)?;
    }
    log_entry::check(conf, kind)
}

/// Of a `host` and a `port`, where they are set.
pub(crate) fn place(conf: &Value) -> Result<(), String> {
    if let Some(host) = conf.get("host").and_then(Value::as_str) {
        name("host", host)?;
    }
    match conf.get("port").and_then(Value::as_u64) {
        Some(port) if port == 0 || port > 65_535 => {
            Err(format!("property \"port\" is {port}: ports are 1 to 65535"))
        }
        _ => Ok(()),
    }
}

/// Of a name or address in a field.
pub(crate) fn name(field: &str, host: &str) -> Result<(), String> {
    if host.is_empty() {
        return Err(format!("property \"{field}\" is empty: entries would go nowhere"));
    }
    let is_odd = |letter: char| letter.is_whitespace() || letter.is_control() || letter == '/';
    match host.chars().any(is_odd) {
        true => Err(format!("property \"{field}\": {host:?} is not a host name or an address")),
        false => Ok(()),
    }
}

/// Of `host:port` in a field.
pub(crate) fn address(field: &str, address: &str) -> Result<(), String> {
    let parts = address.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse::<u16>().ok()?)));
    match parts {
        Some((host, port)) if port > 0 => name(field, host),
        _ => Err(format!("property \"{field}\": {address:?} is not host:port")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_no_socket_can_be() {
        for (conf, works) in [
            (json!({"host": "127.0.0.1", "port": 514}), true),
            (json!({"host": "::1", "port": 65_535}), true),
            (json!({"host": "node_1", "port": 1}), true),
            (json!({}), true),
            (json!({"host": "", "port": 514}), false),
            (json!({"host": "a b", "port": 514}), false),
            (json!({"host": "http://a", "port": 514}), false),
            (json!({"host": "a", "port": 70_000}), false),
            (json!({"host": "a", "port": 0}), false),
        ] {
            assert_eq!(check(&conf, SchemaKind::Plugin).is_ok(), works, "{conf}");
        }
        for (written, works) in [
            ("a:1", true),
            ("[::1]:9876", true),
            ("a", false),
            ("a:0", false),
            ("a:99999", false),
            (":1", false),
        ] {
            assert_eq!(address("nameserver_list", written).is_ok(), works, "{written}");
        }
    }
}
