//! Keys that another key leaves without effect.

use super::said::Said;
use crate::settings::{Listener, Provider, Role, Settings};

pub(super) fn warnings(settings: &Settings) -> Vec<Said> {
    let mut said = provider_of_another_role(settings);
    said.extend(etcd_without_etcd(settings));
    said.extend(listening(settings));
    said.extend(unknown_protocols(settings));
    let admin = &settings.admin;
    if admin.listen.is_some() && !admin.https {
        let key = "deployment.admin.admin_api_mtls";
        for name in ["admin_ssl_cert", "admin_ssl_cert_key"] {
            let key = format!("{key}.{name}");
            if settings.raw_text(&key).is_some_and(|file| !file.is_empty()) {
                let message =
                    format!("{name} has no effect without https_admin: true: the Admin API speaks HTTP");
                said.push((key, message));
            }
        }
    }
    said
}

/// The protocols on top of TCP that there are.
const PROTOCOLS: [&str; 2] = ["redis", "dubbo"];

fn unknown_protocols(settings: &Settings) -> Vec<Said> {
    let protocols = settings.stream.protocols.iter().enumerate();
    let unknown = protocols.filter(|(_, name)| !PROTOCOLS.contains(&name.as_str()));
    unknown
        .map(|(at, name)| {
            let message =
                format!("the protocol {name} is not available: a stream route that names it is refused");
            (format!("xrpc.protocols[{at}].name"), message)
        })
        .collect()
}

fn provider_of_another_role(settings: &Settings) -> Vec<Said> {
    let own = match settings.role {
        Role::Traditional => "role_traditional",
        Role::ControlPlane => "role_control_plane",
        Role::DataPlane => "role_data_plane",
    };
    let others =
        ["role_traditional", "role_data_plane", "role_control_plane"].into_iter().filter(|role| *role != own);
    let keys = others.map(|role| format!("deployment.{role}.config_provider"));
    keys.filter(|key| settings.places.is_set(key))
        .map(|key| {
            let message = format!(
                "{key} has no effect: deployment.role says that deployment.{own}.config_provider counts"
            );
            (key, message)
        })
        .collect()
}

/// One line for all of them, at the first.
fn etcd_without_etcd(settings: &Settings) -> Option<Said> {
    if settings.provider == Provider::Etcd {
        return None;
    }
    let names = [
        "host",
        "prefix",
        "timeout",
        "resync_delay",
        "startup_retry",
        "user",
        "password",
        "tls.cert",
        "tls.key",
        "tls.sni",
    ];
    let keys = names.iter().map(|name| format!("deployment.etcd.{name}"));
    let set: Vec<String> = keys.filter(|key| settings.places.is_set(key)).collect();
    let first = set.first()?.clone();
    let from = match settings.provider {
        Provider::Yaml => "conf/apisix.yaml",
        Provider::Json => "conf/apisix.json",
        Provider::ApiDriven => "PUT /apisix/admin/configs",
        Provider::Embedded | Provider::Etcd => "the database in data/",
    };
    let prefix = match set.iter().any(|key| key.ends_with(".prefix")) {
        true => " (but for the prefix, which the Admin API shows)",
        false => "",
    };
    let message = format!(
        "no effect: {}: routes come from {from}, not from etcd{prefix}; set config_provider: etcd for the \
         role, or remove the keys",
        set.join(", ")
    );
    Some((first, message))
}

/// Less than this was probably meant in megabytes.
const LEAST_BODIES: u64 = 64 << 10;

/// Sizes that are too small for what they are for.
fn sizes(settings: &Settings) -> Vec<(String, u64, &'static str)> {
    let apisix = &settings.apisix;
    let bodies = apisix.body_memory.total_bytes;
    let mut all: Vec<_> =
        bodies.map(|bytes| ("apisix.body_memory.total".to_owned(), bytes, "body")).into_iter().collect();
    for (at, zone) in apisix.cache_zones.iter().enumerate().filter(|(_, zone)| zone.disk_path.is_none()) {
        all.push((format!("apisix.proxy_cache.zones[{at}].memory_size"), zone.memory_bytes, "response"));
    }
    all.retain(|(_, bytes, _)| *bytes < LEAST_BODIES);
    all
}

fn listening(settings: &Settings) -> Vec<Said> {
    let mut said = Vec::new();
    let mut warn = |key: &str, message: String| said.push((key.to_owned(), message));
    let apisix = &settings.apisix;
    let serves = settings.role != Role::ControlPlane && !settings.stream.only;
    if !settings.stream.enable {
        for name in ["tcp", "udp"] {
            let key = format!("apisix.stream_proxy.{name}");
            if settings.places.is_set(&key) {
                let message = format!(
                    "{key} has no effect: apisix.proxy_mode is http, and nothing listens on its ports; write http&stream"
                );
                warn(&key, message);
            }
        }
    }
    let mut nodes = apisix.node_listen.iter().enumerate();
    let is_again = |(at, listener): &(usize, &Listener)| {
        let same = |other: &Listener| (&other.ip, other.port) == (&listener.ip, listener.port);
        apisix.node_listen.iter().take(*at).any(same)
    };
    if let Some((at, listener)) = nodes.find(is_again) {
        let key = format!("apisix.node_listen[{at}]");
        warn(&key, format!("port {} is listed twice; remove one of them", listener.port));
    }
    for (key, bytes, what) in sizes(settings) {
        warn(&key, format!("{bytes} bytes hold no {what} of usual size; for megabytes write {bytes}m"));
    }
    if serves && apisix.node_listen.is_empty() {
        warn("apisix.node_listen", "no port for HTTP: nothing listens for it; add a port".to_owned());
    }
    if serves && apisix.tls.enable && apisix.tls.listen.is_empty() {
        let message =
            "no port for HTTPS: nothing listens for it; add a port, or set apisix.ssl.enable: false";
        warn("apisix.ssl.listen", message.to_owned());
    }
    if !apisix.enable_ipv6 {
        let lists = [("apisix.node_listen", &apisix.node_listen), ("apisix.ssl.listen", &apisix.tls.listen)];
        for (key, listeners) in lists.into_iter().filter(|_| serves) {
            for listener in listeners.iter().filter(|listener| listener.ip.contains(':')) {
                let message = format!(
                    "apisix.enable_ipv6: false does not keep {key} from listening on {}; remove the address, \
                     or set \
                     enable_ipv6: true",
                    listener.ip
                );
                warn(key, message);
            }
        }
    }
    said
}
