//! Keys that have an effect only beside another key, or with a plugin that is on. One that says what holds anyway is
//! passed over: files often list defaults.

use serde_json::Value;

use super::said::Said;
use crate::{
    keys::{self, Fate},
    settings::{Provider, Role, Settings},
};

/// Keys, and why they have no effect; `None`: they have one.
type Group = (&'static [&'static str], fn(&Settings) -> Option<String>);

const GROUPS: [Group; 14] = [
    (
        &[
            "apisix.proxy_protocol.enable_tcp_pp",
            "apisix.proxy_protocol.enable_tcp_pp_to_upstream",
            "apisix.client_limits.udp_sessions",
            "apisix.client_limits.udp_sessions_per_address",
            "apisix.client_limits.sessions_per_stream_route",
            "nginx_config.stream.enable_access_log",
            "nginx_config.stream.access_log",
            "nginx_config.stream.access_log_format",
            "nginx_config.stream.access_log_format_escape",
            "nginx_config.stream.real_ip_from",
            "stream_plugins",
            "xrpc.protocols",
        ],
        no_streams,
    ),
    (
        &[
            "nginx_config.stream.access_log",
            "nginx_config.stream.access_log_format",
            "nginx_config.stream.access_log_format_escape",
        ],
        no_stream_log,
    ),
    (
        &[
            "apisix.node_listen",
            "apisix.proxy_protocol.listen_http_port",
            "apisix.proxy_protocol.listen_https_port",
            "apisix.ssl.listen",
        ],
        only_streams,
    ),
    (&["apisix.proxy_protocol.listen_https_port", "apisix.ssl.listen"], no_https),
    (
        &[
            "apisix.ssl.ssl_protocols",
            "apisix.ssl.ssl_ciphers",
            "apisix.ssl.ssl_session_tickets",
            "apisix.ssl.fallback_sni",
        ],
        no_tls,
    ),
    (
        &[
            "apisix.http2.max_concurrent_streams",
            "apisix.http2.stream_window",
            "apisix.http2.connection_window",
            "apisix.http2.max_resets",
            "apisix.http2.max_control_frames",
        ],
        no_http2,
    ),
    (
        &["apisix.control.ip", "apisix.control.port", "apisix.control.hosts", "apisix.control.profiling"],
        no_control,
    ),
    (&["apisix.ssl.ssl_ciphers"], only_tls_1_3),
    (&["nginx_config.http.real_ip_header", "nginx_config.http.real_ip_recursive"], nobody_believed),
    (&["nginx_config.worker_processes"], one_worker),
    (&["apisix.client_limits.rate_window"], no_rates),
    (&["history.max_entries", "history.max_age", "history.max_bytes"], no_history),
    (&["wasm.time_limit_ms", "wasm.instance_memory", "wasm.memory"], no_modules),
    (&["deployment.admin.https_admin", "deployment.admin.allow_admin"], no_admin),
];

/// Keys of plugins: of any of them that is on.
const OF_PLUGINS: [(&str, &[&str]); 3] = [
    ("apisix.proxy_cache.zones", &["proxy-cache", "graphql-proxy-cache"]),
    ("apisix.proxy_cache.cache_ttl", &["proxy-cache", "graphql-proxy-cache"]),
    ("ext-plugin.cmd", &["ext-plugin-pre-req", "ext-plugin-post-req", "ext-plugin-post-resp"]),
];

/// Names in `plugin_attr` that are not of one plugin.
const NO_PLUGINS: [&str; 2] = ["serverless", "serverless-pre-function"];

pub(super) fn warnings(settings: &Settings) -> Vec<Said> {
    let defaults = keys::defaults();
    let is_said = |key: &str| settings.places.is_set(key) && differs(settings, &defaults, key);
    let mut said = Vec::new();
    for (keys, why) in GROUPS {
        let Some(why) = why(settings) else { continue };
        let set: Vec<&str> = keys.iter().copied().filter(|key| is_said(key)).collect();
        if let Some(first) = set.first() {
            said.push(((*first).to_owned(), format!("no effect: {}: {why}", set.join(", "))));
        }
    }
    let serves = settings.role != Role::ControlPlane && !settings.stream.only;
    for (key, plugins) in OF_PLUGINS.iter().filter(|_| serves) {
        if is_said(key) && !plugins.iter().any(|plugin| is_on(settings, plugin)) {
            said.push(((*key).to_owned(), format!("{key} has no effect: {}", off(settings, plugins[0]))));
        }
    }
    said.extend(attributes(settings, &defaults).into_iter().filter(|_| serves));
    said
}

/// `plugin_attr` of plugins that are off: one line for each, at its first key.
fn attributes(settings: &Settings, defaults: &Value) -> Vec<Said> {
    let all = settings.raw.get("plugin_attr").and_then(Value::as_object);
    let mut said = Vec::new();
    for (plugin, attributes) in all.into_iter().flatten() {
        let place = format!("plugin_attr.{plugin}");
        // Other warnings are about what is not a key, or never has an effect.
        let is_served = keys::find(&place).is_some_and(|key| key.fate == Fate::Served);
        if is_on(settings, plugin) || NO_PLUGINS.contains(&plugin.as_str()) || !is_served {
            continue;
        }
        let default = defaults.pointer(&format!("/plugin_attr/{plugin}")).unwrap_or(&Value::Null);
        if settings.places.is_set(&place) && asks(attributes, default) {
            said.push((place.clone(), format!("{place} has no effect: {}", off(settings, plugin))));
        }
    }
    said
}

/// Whether attributes say more than what holds without the plugin.
fn asks(written: &Value, default: &Value) -> bool {
    match written {
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| asks(value, default.get(name).unwrap_or(&Value::Null)))
        }
        Value::Null | Value::Bool(false) => false,
        value => value != default,
    }
}

fn differs(settings: &Settings, defaults: &Value, key: &str) -> bool {
    let pointer = format!("/{}", key.replace('.', "/"));
    let (value, default) = (settings.raw.pointer(&pointer), defaults.pointer(&pointer));
    // Off, none and nothing are what holds without the key.
    let is_nothing = match value {
        None | Some(Value::Null | Value::Bool(false)) => true,
        Some(Value::Array(items)) => items.is_empty(),
        _ => false,
    };
    value != default && !(default.is_none() && is_nothing)
}

fn is_on(settings: &Settings, plugin: &str) -> bool {
    settings.plugins.iter().chain(&settings.stream.plugins).any(|name| name == plugin)
}

fn off(settings: &Settings, plugin: &str) -> String {
    match settings.places.is_set("plugins") {
        true => format!("plugin {plugin} is off; add it to the list plugins"),
        false => format!(
            "plugin {plugin} is off by default; write the list plugins with it and with all others that are used: it takes \
             the place of the default list"
        ),
    }
}

fn when(idle: bool, why: &str) -> Option<String> {
    idle.then(|| why.to_owned())
}

fn no_streams(settings: &Settings) -> Option<String> {
    when(
        !settings.stream.enable && settings.role != Role::ControlPlane,
        "TCP and UDP are not proxied: apisix.proxy_mode is http; write http&stream",
    )
}

fn no_stream_log(settings: &Settings) -> Option<String> {
    let key = "nginx_config.stream.enable_access_log";
    let idle = settings.stream.enable && !settings.nginx.stream_log.enable && !settings.places.is_set(key);
    when(idle, &format!("sessions are not logged; set {key}: true"))
}

fn only_streams(settings: &Settings) -> Option<String> {
    when(
        settings.stream.only && settings.role != Role::ControlPlane,
        "HTTP is not proxied: apisix.proxy_mode is stream; write http&stream",
    )
}

fn no_https(settings: &Settings) -> Option<String> {
    when(!settings.apisix.tls.enable && !settings.stream.only, "apisix.ssl.enable is false")
}

fn no_tls(settings: &Settings) -> Option<String> {
    when(!settings.ends_tls(), "no port speaks TLS with clients: apisix.ssl.enable is false")
}

fn no_http2(settings: &Settings) -> Option<String> {
    when(!settings.apisix.enable_http2, "apisix.enable_http2 is false")
}

fn no_control(settings: &Settings) -> Option<String> {
    when(settings.apisix.control.is_none(), "the Control API is not served: apisix.enable_control is false")
}

fn only_tls_1_3(settings: &Settings) -> Option<String> {
    let protocols = &settings.apisix.tls.protocols;
    let idle = settings.apisix.tls.enable && !protocols.iter().any(|version| version == "TLSv1.2");
    when(idle, "it names cipher suites of TLS 1.2, which apisix.ssl.ssl_protocols does not have")
}

fn nobody_believed(settings: &Settings) -> Option<String> {
    when(
        settings.nginx.real_ip_from.is_empty(),
        "no peer is believed: nginx_config.http.real_ip_from is empty; name the proxies there",
    )
}

fn one_worker(settings: &Settings) -> Option<String> {
    let dev = settings.raw.pointer("/apisix/enable_dev_mode") == Some(&Value::Bool(true));
    when(dev, "apisix.enable_dev_mode runs one worker")
}

fn no_rates(settings: &Settings) -> Option<String> {
    let limits = &settings.apisix.client_limits;
    when(
        limits.min_body_rate == 0 && limits.min_answer_rate == 0,
        "no minimum rate is set; set min_body_rate or min_answer_rate",
    )
}

fn no_history(settings: &Settings) -> Option<String> {
    when(settings.provider != Provider::Embedded, "only config_provider embedded keeps a history")
}

fn no_modules(settings: &Settings) -> Option<String> {
    let modules = settings.raw.pointer("/wasm/plugins").and_then(Value::as_array);
    when(modules.is_none_or(Vec::is_empty), "wasm.plugins names no module")
}

fn no_admin(settings: &Settings) -> Option<String> {
    when(settings.admin.listen.is_none(), "the Admin API is not served")
}
