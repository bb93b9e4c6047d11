//! Probes and lookups against real listeners on loopback.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tidegate_balancing::{
    Checks, HealthSignal, NodeSpec, Upstream, UpstreamSpec,
    health::{Active, ProbeKind, State, Thresholds},
};
use tidegate_probes::{Domains, Monitor, Monitored, ProbeTls, SystemLookup, SystemLookupOptions, probe};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
    runtime::Handle,
    sync::mpsc,
    time::timeout,
};

const LIMIT: Duration = Duration::from_secs(20);

fn upstream(addresses: &[SocketAddr], active: Active) -> Arc<Upstream> {
    let nodes = addresses.iter().map(|address| NodeSpec {
        host: address.ip().to_string().into(),
        port: address.port(),
        weight: 1,
        address: Some(address.ip()),
        ..NodeSpec::default()
    });
    let checks = Some(Checks { active, passive: None });
    Arc::new(Upstream::new(
        UpstreamSpec {
            nodes: nodes.map(Into::into).collect(),
            checks: checks.map(Box::new),
            ..UpstreamSpec::default()
        },
        1,
        None,
    ))
}

/// Answers every connection with `response` and hands over what was asked.
async fn server(response: &'static str) -> (SocketAddr, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 4096];
            let length = stream.read(&mut request).await.unwrap_or(0);
            let _ = sender.send(String::from_utf8_lossy(&request[..length]).into_owned());
            let _ = stream.write_all(response.as_bytes()).await;
        }
    });
    (address, requests)
}

/// A port on which nothing listens.
async fn closed() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

fn tls() -> ProbeTls {
    ProbeTls::new(tidegate_tls::Anchors::default()).unwrap()
}

async fn outcome(address: SocketAddr, active: Active) -> HealthSignal {
    let probe = async { probe(&upstream(&[address], active), 0, &tls()).await };
    timeout(LIMIT, probe).await.unwrap().unwrap()
}

#[tokio::test]
async fn http_outcomes() {
    for (response, expected) in [
        ("HTTP/1.1 200 OK\r\n\r\n", HealthSignal::Status(200)),
        ("HTTP/1.1 503 Busy\r\n\r\n", HealthSignal::Status(503)),
        ("220 mail.test ESMTP\r\n", HealthSignal::BadStatusLine),
        ("", HealthSignal::TcpFailure),
    ] {
        let (address, _requests) = server(response).await;
        assert_eq!(outcome(address, Active::default()).await, expected, "{response:?}");
    }
    assert_eq!(outcome(closed().await, Active::default()).await, HealthSignal::TcpFailure);
}

#[tokio::test]
async fn the_request_says_what_was_configured() {
    let (address, mut requests) = server("HTTP/1.1 200 OK\r\n\r\n").await;
    let active = Active {
        http_path: "/status".into(),
        host: Some("foo.com".into()),
        req_headers: vec!["User-Agent: curl/7.29.0".into()],
        ..Active::default()
    };
    outcome(address, active).await;
    let request = requests.recv().await.unwrap();
    assert!(request.starts_with("GET /status HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("\r\nHost: foo.com\r\n") && request.contains("\r\nUser-Agent: curl/7.29.0\r\n"));
}

#[tokio::test]
async fn silence_is_a_timeout_and_tcp_needs_no_answer() {
    // The backlog completes the handshake; no answer ever comes.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let silent = Active { timeout_ms: 50, ..Active::default() };
    assert_eq!(outcome(address, silent).await, HealthSignal::Timeout);
    let tcp = Active { kind: ProbeKind::Tcp, ..Active::default() };
    assert_eq!(outcome(address, tcp).await, HealthSignal::Success);
}

#[tokio::test]
async fn https_with_and_without_verification() {
    let certified = rcgen::generate_simple_self_signed(vec!["foo.com".to_owned()]).unwrap();
    let certificate = certified.cert.der().clone();
    let key = certified.signing_key.serialize_der().try_into().unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await;
                let _ = stream.shutdown().await;
            }
        }
    });
    let active = |host: &str, verify| Active {
        kind: ProbeKind::Https,
        host: Some(host.into()),
        https_verify_certificate: verify,
        ..Active::default()
    };
    assert_eq!(outcome(address, active("foo.com", true)).await, HealthSignal::TcpFailure);
    assert_eq!(outcome(address, active("foo.com", false)).await, HealthSignal::Status(200));
    let mut anchors = tidegate_tls::Anchors::default();
    anchors.add(certificate).unwrap();
    let trusted = ProbeTls::new(anchors).unwrap();
    for (host, expected) in [("foo.com", HealthSignal::Status(200)), ("bar.com", HealthSignal::TcpFailure)] {
        let probed = probe(&upstream(&[address], active(host, true)), 0, &trusted).await;
        assert_eq!(probed, Some(expected), "{host}");
    }
}

#[tokio::test]
async fn the_monitor_starts_with_use_and_ends_with_the_upstream() {
    let (good, mut requests) = server("HTTP/1.1 200 OK\r\n\r\n").await;
    let bad = closed().await;
    let thresholds = Thresholds { tcp_failures: 1, ..Thresholds::active() };
    let watched = upstream(&[good, bad], Active { thresholds, ..Active::default() });
    let (sender, mut transitions) = mpsc::unbounded_channel();
    let on_transition =
        Arc::new(move |monitored: &Monitored, node, transition: tidegate_balancing::health::Transition| {
            let _ = sender.send((Arc::clone(&monitored.name), node, transition.to));
        });
    let monitor = Monitor::spawn(&Handle::current(), tls(), on_transition);
    monitor.set(vec![Monitored { name: "upstreams/1".into(), upstream: watched.clone() }]);
    assert!(requests.try_recv().is_err(), "nothing is probed before it is used");

    watched.pick(0, None, &[], 0);
    let transition = timeout(LIMIT, transitions.recv()).await.unwrap().unwrap();
    assert_eq!(transition, ("upstreams/1".into(), 1, State::Unhealthy));
    assert!((0..10).all(|_| watched.pick(0, None, &[], 0) == Some(0)));
    timeout(LIMIT, requests.recv()).await.unwrap().unwrap();

    monitor.set(Vec::new());
    let others = Arc::downgrade(&watched);
    drop(watched);
    timeout(LIMIT, async {
        while others.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the monitor must let go of an upstream that is gone");
}

/// Answers every A query with `address` and a TTL of 60 seconds, every other with nothing.
async fn name_server(address: Ipv4Addr) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let local = socket.local_addr().unwrap();
    tokio::spawn(async move {
        let mut query = [0; 512];
        while let Ok((length, client)) = socket.recv_from(&mut query).await {
            // The question ends after the name's closing zero, the type and the class.
            let Some(name) = query[12..length].iter().position(|byte| *byte == 0) else { continue };
            let end = 12 + name + 5;
            let is_a = query[end - 3] == 1;
            let mut reply = query[..end].to_vec();
            reply[2..4].copy_from_slice(&[0x81, 0x80]);
            reply[6..12].copy_from_slice(&[0, u8::from(is_a), 0, 0, 0, 0]);
            if is_a {
                reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4]);
                reply.extend(address.octets());
            }
            let _ = socket.send_to(&reply, client).await;
        }
    });
    local
}

#[tokio::test]
async fn names_are_resolved_by_the_configured_server_and_the_hosts_file() {
    let server = name_server(Ipv4Addr::new(10, 9, 8, 7)).await;
    let options =
        SystemLookupOptions { servers: vec![server], search: false, ..SystemLookupOptions::default() };
    let lookup = SystemLookup::new(options).unwrap();
    let domains = Domains::new(Handle::current(), Arc::new(lookup));
    domains.want(["backend.example.org", "localhost"]);
    timeout(LIMIT, domains.wait_until_resolved()).await.unwrap();
    let resolved = domains.addresses("backend.example.org");
    assert_eq!(
        *resolved,
        [IpAddr::V4(Ipv4Addr::new(10, 9, 8, 7))],
        "{:?}",
        domains.error("backend.example.org")
    );
    assert!(domains.addresses("localhost").iter().all(IpAddr::is_loopback));
}
