//! What config.yaml says to the compiler, and to those who judge objects as it does.

use std::{net::IpAddr, sync::Arc};

use tidegate_compiler::{Options, UpstreamTrust};
use tidegate_config::{Provider, Role, Settings, settings::HttpRouter};
use tidegate_model::idle::{Listeners, Matching, Ports};
use tidegate_plugin_api::{
    Catalog,
    route::RouterOptions,
    upstream::{KeepalivePool, Timeouts},
};
use tidegate_routing::router::Mode;

/// `stream`: see [`super::catalogs::stream_catalog`].
pub(super) fn of(settings: &Settings, stream: Option<Arc<Catalog>>) -> Options {
    let nginx = &settings.nginx;
    let apisix = &settings.apisix;
    Options {
        router: match apisix.router {
            HttpRouter::HostUri => Mode::HostUri,
            HttpRouter::Uri => Mode::Uri,
            HttpRouter::UriWithParameter => Mode::UriWithParameter,
        },
        tls_protocols: apisix.tls.protocols.clone(),
        tls_ciphers: apisix.tls.ciphers.clone(),
        http2: apisix.enable_http2,
        session_tickets: apisix.tls.session_tickets,
        options: RouterOptions {
            delete_uri_tail_slash: apisix.delete_uri_tail_slash,
            normalize_uri_like_servlet: apisix.normalize_uri_like_servlet,
            match_uri_encoded_slash: apisix.match_uri_encoded_slash,
            uri_parameters: apisix.router == HttpRouter::UriWithParameter,
        },
        workers: nginx.workers,
        upstream_trust: UpstreamTrust {
            setting: apisix.tls.trusted_certificate.clone().unwrap_or_else(|| "system".to_owned()),
            prefix: settings.files.prefix.clone(),
            send_server_name: nginx.proxy_ssl_server_name,
        },
        keepalive: KeepalivePool {
            size: nginx.upstream.connections,
            idle_timeout_ms: nginx.upstream.timeout.as_millis() as u64,
            requests: u32::try_from(nginx.upstream.requests).unwrap_or(u32::MAX),
        },
        timeouts: Timeouts::default(),
        stream,
        protocols: super::catalogs::protocols(settings),
    }
}

/// How routes are matched.
pub(super) fn matching(settings: &Settings) -> Matching {
    let is_document = matches!(settings.provider, Provider::Yaml | Provider::Json | Provider::ApiDriven);
    // Other gateways serve these objects, too.
    let are_shared = settings.role == Role::ControlPlane || settings.provider == Provider::Etcd;
    let (ports, stream_ports, stream_listeners) = match are_shared {
        true => Default::default(),
        false => (ports(settings), stream_ports(settings), stream_listeners(settings)),
    };
    let stream = settings.stream.enable;
    let tcp = |ends_tls: bool| {
        let listeners = settings.stream.tcp.iter().filter(|tcp| tcp.tls || !ends_tls);
        Ports::of(listeners.map(|tcp| tcp.listener.port))
    };
    let (tcp_ports, tls_ports) = match are_shared {
        true => Default::default(),
        false => (tcp(false), tcp(true)),
    };
    Matching {
        is_document,
        stream,
        ports,
        stream_ports,
        tcp_ports,
        tls_ports,
        stream_listeners,
        ..of(settings, None).matching()
    }
}

fn ports(settings: &Settings) -> Ports {
    let apisix = &settings.apisix;
    let tls = apisix.tls.listen.iter().filter(|_| apisix.tls.enable);
    Ports::of(apisix.node_listen.iter().chain(tls).map(|listener| listener.port))
}

fn stream_listeners(settings: &Settings) -> Listeners {
    let stream = &settings.stream;
    // What is behind a PROXY header names an address of its own.
    let tcp = stream.tcp.iter().map(|tcp| (&tcp.listener, tcp.proxy_protocol));
    let all = tcp.chain(stream.udp.iter().map(|listener| (listener, false)));
    Listeners::of(all.map(|(listener, is_behind)| {
        let address = listener.ip.parse().ok().filter(|ip: &IpAddr| !ip.is_unspecified() && !is_behind);
        (address, listener.port)
    }))
}

fn stream_ports(settings: &Settings) -> Ports {
    let stream = &settings.stream;
    let tcp = stream.tcp.iter().map(|tcp| tcp.listener.port);
    Ports::of(tcp.chain(stream.udp.iter().map(|listener| listener.port)))
}
