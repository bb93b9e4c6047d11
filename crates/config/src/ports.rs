//! No two listeners may want the same port of the same address.

use crate::settings::{
    Role, Settings,
    listener::{Listener, overlap},
};

/// A listener, and the key that asks for it.
struct Claim {
    key: &'static str,
    listener: Listener,
}

/// One message for each conflict, with the key of the later of the two.
pub(crate) fn conflicts(settings: &Settings) -> Vec<(&'static str, String)> {
    let claims = claims(settings);
    let mut messages = Vec::new();
    for (place, later) in claims.iter().enumerate() {
        if later.listener.implied {
            continue;
        }
        let earlier = claims
            .iter()
            .take(place)
            .find(|earlier| overlap(&earlier.listener, &later.listener) && !may_share(earlier, later));
        if let Some(earlier) = earlier {
            let (port, key) = (later.listener.port, later.key);
            let message = match earlier.listener == later.listener && earlier.key == key {
                true => format!("port {port} is twice in {key}, with different options; remove one of them"),
                false => format!("port {port} of {key} is taken by {}; use another", earlier.key),
            };
            messages.push((later.key, message));
        }
    }
    messages
}

/// The Admin API may share the data port: the layout of APISIX 2.x.
fn may_share(earlier: &Claim, later: &Claim) -> bool {
    earlier.key == "apisix.node_listen" && later.key == "deployment.admin.admin_listen"
}

fn claims(settings: &Settings) -> Vec<Claim> {
    let mut claims = Vec::new();
    let mut claim = |key, listener: Listener| claims.push(Claim { key, listener });
    if settings.role != Role::ControlPlane {
        let apisix = &settings.apisix;
        let http: &[Listener] = if settings.stream.only { &[] } else { &apisix.node_listen };
        http.iter().cloned().for_each(|listener| claim("apisix.node_listen", listener));
        if apisix.tls.enable && !settings.stream.only {
            apisix.tls.listen.iter().cloned().for_each(|listener| claim("apisix.ssl.listen", listener));
        }
        let tcp = settings.stream.tcp.iter().map(|tcp| tcp.listener.clone());
        tcp.for_each(|listener| claim("apisix.stream_proxy.tcp", listener));
        let everywhere = |port| Listener::new("0.0.0.0", port);
        let http = apisix.proxy_protocol.http_port.map(everywhere);
        http.into_iter().for_each(|listener| claim("apisix.proxy_protocol.listen_http_port", listener));
        let https = apisix.proxy_protocol.https_port.map(everywhere);
        https.into_iter().for_each(|listener| claim("apisix.proxy_protocol.listen_https_port", listener));
    }
    settings
        .admin
        .listen
        .iter()
        .cloned()
        .for_each(|listener| claim("deployment.admin.admin_listen", listener));
    settings.apisix.control.iter().cloned().for_each(|listener| claim("apisix.control", listener));
    settings
        .metrics_listener()
        .into_iter()
        .for_each(|listener| claim("plugin_attr.prometheus.export_addr", listener));
    settings.apisix.status.iter().cloned().for_each(|listener| claim("apisix.status", listener));
    claims
}
