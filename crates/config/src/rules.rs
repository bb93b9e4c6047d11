//! What concerns several keys of config.yaml at once: what cannot be, and what one key makes of another.

mod admin_keys;
mod believed;
mod dependent;
mod idle;
mod metrics;
mod oidc;
mod said;
mod unread;

pub use self::believed::believes_all;
pub(crate) use self::said::Said;
use std::collections::HashSet;

use serde_json::Value;

use crate::{
    keys::forms,
    ports,
    settings::{Provider, Role, Settings, listener::is_everywhere},
};

/// The default keyring, APISIX's and ours.
pub const PUBLISHED_KEYS: [&str; 2] = ["qeddd145sfvddff3", "edd1c9f0985e76a2"];

/// What keeps the gateway from starting.
pub(crate) fn refusals(settings: &Settings) -> Vec<Said> {
    let mut said: Vec<Said> = Vec::new();
    for (key, message) in ports::conflicts(settings) {
        said.push((key.to_owned(), message));
    }
    let mut refuse = |key: &str, message: &str| said.push((key.to_owned(), message.to_owned()));
    if settings.role == Role::DataPlane && settings.provider == Provider::Embedded {
        let key = "deployment.role_data_plane.config_provider";
        if settings.raw.pointer("/deployment/role_data_plane/config_provider").is_none() {
            refuse("deployment.role", &format!("role data_plane needs {key}; name etcd, yaml or json"));
        }
    }
    let admin = &settings.admin;
    if admin.listen.is_some()
        && admin.https
        && (admin.certificate.is_none() || admin.certificate_key.is_none())
    {
        let message = "https_admin needs admin_api_mtls.admin_ssl_cert and admin_api_mtls.admin_ssl_cert_key";
        refuse("deployment.admin.https_admin", message);
    }
    if settings.apisix.data_encryption.keyring.iter().any(|key| !matches!(key.len(), 16 | 32)) {
        refuse("apisix.data_encryption.keyring", "each key should have 16 or 32 characters");
    }
    said.extend(admin_keys::refusals(settings));
    said.extend(shared_port(settings));
    said.extend(placeless(settings));
    said.extend(members(settings));
    said.extend(windows(settings));
    said.extend(zones(settings));
    said.extend(metrics::refusals(settings));
    said.extend(oidc::refusals(settings));
    said
}

/// What starts nevertheless.
pub(crate) fn warnings(settings: &Settings) -> Vec<Said> {
    let mut said = idle::warnings(settings);
    said.extend(oidc::warnings(settings));
    said.extend(believed::warnings(settings));
    said.extend(unread::warnings(settings));
    said.extend(dependent::warnings(settings));
    let old: Vec<&str> = settings
        .apisix
        .tls
        .protocols
        .iter()
        .map(String::as_str)
        .filter(|word| forms::OLD_TLS.contains(word))
        .collect();
    if settings.apisix.tls.enable && !old.is_empty() {
        let message = format!(
            "{} is not supported: clients need TLSv1.2 or TLSv1.3; remove it from apisix.ssl.ssl_protocols",
            old.join(", ")
        );
        said.push(("apisix.ssl.ssl_protocols".to_owned(), message));
    }
    let stores = matches!(settings.provider, Provider::Embedded | Provider::Etcd);
    if stores && settings.apisix.data_encryption.keyring.is_empty() {
        let message = "nothing is encrypted: private keys and secrets are stored in plain text; give \
        apisix.data_encryption.keyring a key of 16 or 32 characters";
        said.push(("apisix.data_encryption.keyring".to_owned(), message.to_owned()));
    }
    let off =
        settings.raw.pointer("/apisix/data_encryption/enable_encrypt_fields") == Some(&Value::Bool(false));
    if stores && off {
        let message = "secrets of plugins, such as keys and passwords of consumers, are stored in plain text, and so they are in \
                       backups; remove apisix.data_encryption.enable_encrypt_fields: false";
        said.push(("apisix.data_encryption.enable_encrypt_fields".to_owned(), message.to_owned()));
    }
    let published = |key: &String| PUBLISHED_KEYS.contains(&key.as_str());
    if stores && settings.apisix.data_encryption.keyring.first().is_some_and(published) {
        let message = "apisix.data_encryption.keyring encrypts with a key that is published in documentation: anyone who has a \
                       copy of the store reads its secrets; put a key of your own, 16 or 32 characters, before the others, and write the objects \
                       with secrets again";
        said.push(("apisix.data_encryption.keyring".to_owned(), message.to_owned()));
    }
    let audited = settings.admin.listen.is_some() || settings.apisix.control.is_some();
    if audited && settings.places.is_null("deployment.admin.audit_log") {
        let message = "there is no audit log of the Admin and Control API; remove deployment.admin.audit_log to have \
                       one, or write off";
        said.push(("deployment.admin.audit_log".to_owned(), message.to_owned()));
    }
    said
}

/// An item of `stream_proxy.tcp` would listen nowhere.
fn placeless(settings: &Settings) -> Vec<Said> {
    let items = settings.raw.pointer("/apisix/stream_proxy/tcp").and_then(Value::as_array);
    let items = items.filter(|_| settings.stream.enable).into_iter().flatten().enumerate();
    let placeless = items.filter(|(_, item)| item.is_object() && item.get("addr").is_none_or(Value::is_null));
    placeless
        .map(|(at, _)| (format!("apisix.stream_proxy.tcp[{at}]"), "addr is missing".to_owned()))
        .collect()
}

/// On a port of the data plane the Admin API is wherever that port is.
fn shared_port(settings: &Settings) -> Option<Said> {
    let admin = settings.admin.listen.as_ref()?;
    let node = settings.shared_with_admin().find(|node| node.ip != admin.ip && is_everywhere(&node.ip))?;
    let message = format!(
        "the Admin API would listen on every address of port {}, not only on {}: apisix.node_listen has that \
         port, too; use \
         another port, give node_listen the ip {}, or set deployment.admin.admin_listen.ip to {}",
        admin.port, admin.ip, admin.ip, node.ip
    );
    Some(("deployment.admin.admin_listen".to_owned(), message))
}

/// Never quotes: an address may carry a password.
fn members(settings: &Settings) -> Vec<Said> {
    if settings.provider != Provider::Etcd {
        return Vec::new();
    }
    let key = "deployment.etcd.host";
    let hosts = &settings.etcd.hosts;
    let whole = "each address should begin with http:// or https://, and one at least is needed";
    if hosts.is_empty() {
        return vec![(key.to_owned(), whole.to_owned())];
    }
    let list = settings.raw.pointer("/deployment/etcd/host").is_some_and(Value::is_array);
    let mut said = Vec::new();
    for (index, host) in hosts.iter().enumerate().filter(|(_, host)| forms::etcd_member(host).is_none()) {
        let message = if host.starts_with("http://") || host.starts_with("https://") {
            "each address should be http://HOST:PORT or https://HOST:PORT; user name and password belong at \
             deployment.etcd.user and deployment.etcd.password"
        } else {
            whole
        };
        let key = if list { format!("{key}[{index}]") } else { key.to_owned() };
        said.push((key, message.to_owned()));
    }
    said
}

fn windows(settings: &Settings) -> Option<Said> {
    let key = "apisix.http2.connection_window";
    let read = |name: &str| settings.raw.pointer(&format!("/apisix/http2/{name}")).and_then(Value::as_str);
    let bytes = |name: &str| read(name).and_then(crate::units::size);
    let (stream, connection) = (bytes("stream_window")?, bytes("connection_window")?);
    // Unless it is set, it follows.
    (settings.places.has(key) && connection < stream).then(|| {
        let message = format!(
            "{key} should be at least as much as apisix.http2.stream_window, {}: a connection carries streams",
            read("stream_window").unwrap_or_default()
        );
        (key.to_owned(), message)
    })
}

fn zones(settings: &Settings) -> Vec<Said> {
    let mut said = Vec::new();
    let mut names = HashSet::new();
    let mut folders = HashSet::new();
    let zones = settings.raw.pointer("/apisix/proxy_cache/zones").and_then(Value::as_array);
    for (index, zone) in zones.into_iter().flatten().enumerate() {
        let at = format!("apisix.proxy_cache.zones[{index}]");
        let text = |name: &str| zone.get(name).and_then(Value::as_str);
        let Some(name) = text("name") else {
            said.push((at, "this zone has no name, so that no route can use it; add a name".to_owned()));
            continue;
        };
        if !names.insert(name) {
            said.push((
                format!("{at}.name"),
                format!("another zone is also named {name:?}; give each a name of its own"),
            ));
        }
        if let Some(folder) = text("disk_path").filter(|folder| !folders.insert(*folder)) {
            let message = format!("another zone also uses {folder}; give each its own folder");
            said.push((format!("{at}.disk_path"), message));
        }
    }
    said
}
