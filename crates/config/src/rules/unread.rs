//! Keys whose values cannot have the effect that they were written for.

use super::said::Said;
use crate::settings::{Provider, Role, Settings, is_server_name};

pub(super) fn warnings(settings: &Settings) -> Vec<Said> {
    let mut said: Vec<Said> = Vec::new();
    said.extend(address_field(settings));
    said.extend(admin_off(settings));
    said.extend(streams(settings));
    said.extend(unbelieved_headers(settings));
    said.extend(unused_headers(settings));
    said.extend(fallback_name(settings));
    if settings.provider == Provider::Etcd {
        said.extend(etcd(settings));
    }
    said
}

fn warn(key: &str, message: &str) -> Said {
    (key.to_owned(), message.to_owned())
}

/// The address is not where it is looked for: the proxy's would count for all clients behind it.
fn address_field(settings: &Settings) -> Option<Said> {
    const KEY: &str = "nginx_config.http.real_ip_header";
    let (name, nginx) = (&settings.nginx.real_ip_header, &settings.nginx);
    if name == "proxy_protocol" {
        let ports = &settings.apisix.proxy_protocol;
        let message = "no port speaks the PROXY protocol, and a proxy's address counts as that of all its clients; set \
                       apisix.proxy_protocol.listen_http_port or listen_https_port";
        return (ports.http_port.is_none() && ports.https_port.is_none()).then(|| warn(KEY, message));
    }
    let is_dropped = name.contains('_') && !nginx.underscores_in_headers && !nginx.real_ip_from.is_empty();
    is_dropped.then(|| {
        let message = format!(
            "{name} is never read: fields with _ in their names are dropped, and the proxy's address counts as that of all its \
             clients; set nginx_config.http.underscores_in_headers: \"on\", or have the proxy send {}",
            name.replace('_', "-")
        );
        (KEY.to_owned(), message)
    })
}

fn admin_off(settings: &Settings) -> Option<Said> {
    let why = match settings.role {
        Role::DataPlane => "deployment.role is data_plane",
        Role::Traditional if !settings.apisix.enable_admin => "apisix.enable_admin is false",
        _ => return None,
    };
    let keys = ["deployment.admin.admin_listen", "deployment.admin.admin_key"];
    let set: Vec<&str> = keys.into_iter().filter(|key| settings.places.is_set(key)).collect();
    let first = set.first().filter(|_| settings.admin.listen.is_none())?;
    Some(warn(first, &format!("no effect: {}: the Admin API is not served, because {why}", set.join(", "))))
}

fn streams(settings: &Settings) -> Option<Said> {
    let stream = &settings.stream;
    let is_idle = stream.enable
        && settings.role != Role::ControlPlane
        && stream.tcp.is_empty()
        && stream.udp.is_empty();
    let message =
        "nothing listens for TCP or UDP: add ports to apisix.stream_proxy.tcp or udp, or write http";
    is_idle.then(|| warn("apisix.proxy_mode", message))
}

/// What a PROXY header says counts only from peers that are named: a list of client addresses would be held against the balancer's.
fn unbelieved_headers(settings: &Settings) -> Option<Said> {
    let stream = &settings.stream;
    let speaks = stream.tcp.iter().any(|tcp| tcp.proxy_protocol) && settings.role != Role::ControlPlane;
    let message = "no peer's PROXY header is believed, so plugins, routes and logs see the balancer's address as the client's; name \
                   the balancer in nginx_config.stream.real_ip_from";
    (speaks && stream.real_ip_from.is_empty()).then(|| warn("apisix.stream_proxy.tcp", message))
}

/// The same of ports for HTTP, where nothing says how the client's address is found.
fn unused_headers(settings: &Settings) -> Option<Said> {
    const KEY: &str = "nginx_config.http.real_ip_header";
    let ports = &settings.apisix.proxy_protocol;
    let speaks = ports.http_port.is_some() || ports.https_port.is_some();
    let is_left_open = speaks && !settings.places.is_set(KEY) && settings.role != Role::ControlPlane;
    let message = "the address in PROXY headers is not used, so plugins, routes and logs see the balancer's address as the client's; set \
                   nginx_config.http.real_ip_header to proxy_protocol and real_ip_from to the balancer's address";
    is_left_open.then(|| warn("apisix.proxy_protocol", message))
}

fn fallback_name(settings: &Settings) -> Option<Said> {
    let name = settings.raw.pointer("/apisix/ssl/fallback_sni")?.as_str()?;
    let message = format!(
        "apisix.ssl.fallback_sni: {name:?} is not a host name, and no certificate is for it; name one of an ssls object"
    );
    (!is_server_name(name)).then(|| warn("apisix.ssl.fallback_sni", &message))
}

fn etcd(settings: &Settings) -> Vec<Said> {
    let mut said = Vec::new();
    let etcd = &settings.etcd;
    if !etcd.prefix.starts_with('/') {
        let message = format!(
            "deployment.etcd.prefix: {:?} does not begin with /: APISIX and other gateways write below /{}, which this one \
             does not see",
            etcd.prefix, etcd.prefix
        );
        said.push(warn("deployment.etcd.prefix", &message));
    }
    if !etcd.hosts.iter().any(|host| host.starts_with("https://")) {
        let names = ["tls.cert", "tls.key", "tls.sni", "tls.verify"];
        let names = names.map(|name| format!("deployment.etcd.{name}")).into_iter();
        // The default files of APISIX say that certificates are verified.
        let is_said =
            |key: &String| settings.places.is_set(key) && !(key.ends_with("verify") && etcd.tls.verify);
        let set: Vec<String> = names.filter(is_said).collect();
        if let Some(first) = set.first() {
            let message =
                format!("no effect: {}: deployment.etcd.host has no address with https://", set.join(", "));
            said.push(warn(first, &message));
        }
    }
    for (key, other, is_alone) in [
        ("user", "password", etcd.user.is_some() && etcd.password.is_none()),
        ("password", "user", etcd.password.is_some() && etcd.user.is_none()),
    ] {
        if is_alone {
            let message = format!("deployment.etcd.{key} has no effect without deployment.etcd.{other}");
            said.push(warn(&format!("deployment.etcd.{key}"), &message));
        }
    }
    said
}
