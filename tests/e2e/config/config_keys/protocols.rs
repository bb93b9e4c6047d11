//! What HTTP/2 clients are allowed, and what TLS offers.

use std::net::SocketAddr;
use std::time::Instant;

use serde_json::json;
use tidegate_testkit::gateway::Gateway;
use tidegate_testkit::http2::{
    CANCEL, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, GOAWAY, HEADERS, PING, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, frame, request,
};
use tidegate_testkit::{Http2Client, PATIENCE, Upstream, free_port};

use super::standalone;
use crate::protocols::certs::{quoted, self_signed};
use crate::protocols::secure::{Offer, Secure};

const MAX_CONCURRENT_STREAMS: u16 = 3;
const INITIAL_WINDOW_SIZE: u16 = 4;
/// RFC 9113 section 6.9.2
const FIRST_WINDOW: u32 = 65_535;

const ROUTES: &str = "routes:\n- {id: 1, uri: /*, plugins: {mocking: {response_example: fine}}}\n";

#[test]
fn http2_clients_are_told_their_limits() {
    let gateway = Gateway::start(
        &standalone(&[
            ("apisix.http2.max_concurrent_streams", json!(7)),
            ("apisix.http2.stream_window", json!("100k")),
            ("apisix.http2.connection_window", json!("300k")),
        ]),
        Some(ROUTES),
    );
    let mut client = Http2Client::connect(gateway.http, &[]).expect("connects");
    let settings = client.wait_for(SETTINGS).expect("settings");
    let value = |wanted: u16| {
        settings.payload.chunks(6).find_map(|entry| {
            let (name, value) = entry.split_at_checked(2)?;
            let name = u16::from_be_bytes(name.try_into().ok()?);
            (name == wanted).then(|| u32::from_be_bytes(value.try_into().unwrap_or_default()))
        })
    };
    assert_eq!(value(MAX_CONCURRENT_STREAMS), Some(7));
    assert_eq!(value(INITIAL_WINDOW_SIZE), Some(100 << 10));
    let update = client.wait_for(WINDOW_UPDATE).expect("a window for the connection");
    let grown = update.payload.try_into().map(u32::from_be_bytes).expect("four bytes");
    assert_eq!(FIRST_WINDOW + grown, 300 << 10);
}

/// The code of the GOAWAY to a client that sends this so often; `None`: it is served on.
fn goaway_code(
    keys: &[(&str, serde_json::Value)],
    count: usize,
    next: impl Fn(u32) -> Vec<u8>,
) -> Option<u32> {
    let upstream = Upstream::start();
    let routes =
        format!("routes:\n- {{id: 1, uri: /*, upstream: {{nodes: {{\"{}\": 1}}}}}}\n", upstream.address);
    let gateway = Gateway::start(&standalone(keys), Some(&routes));
    let mut client = Http2Client::connect(gateway.http, &[]).expect("connects");
    for round in 0..count {
        // It may be gone already.
        let _ = client.send_raw(&next(2 * round as u32 + 1));
    }
    let last = 2 * count as u32 + 1;
    let _ = client.get(last, "/echo");
    loop {
        let frame = client.read().ok()?;
        match frame.kind {
            GOAWAY => return frame.code(),
            HEADERS if frame.stream == last => return None,
            _ => {}
        }
    }
}

#[test]
fn http2_floods_are_what_the_file_says() {
    let ping = |_| frame(PING, 0, 0, &[0; 8]);
    let reset = |stream| {
        let mut bytes = frame(HEADERS, END_HEADERS | END_STREAM, stream, &request("GET", "/silent", &[]));
        bytes.extend(frame(RST_STREAM, 0, stream, &CANCEL.to_be_bytes()));
        bytes
    };
    let few_frames = [("apisix.http2.max_control_frames", json!(10))];
    assert_eq!(goaway_code(&few_frames, 40, ping), Some(ENHANCE_YOUR_CALM));
    assert_eq!(goaway_code(&[], 40, ping), None);
    let few_resets = [("apisix.http2.max_resets", json!(5))];
    assert_eq!(goaway_code(&few_resets, 20, reset), Some(ENHANCE_YOUR_CALM));
    assert_eq!(goaway_code(&[], 20, reset), None);
}

/// A gateway with TLS for `a.test` that logs what was negotiated.
fn with_tls(ssl: &str, value: &str) -> (Gateway, SocketAddr) {
    let pair = self_signed("a.test");
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let routes = format!(
        "{ROUTES}ssls:\n- {{id: a, sni: a.test, cert: {}, key: {}}}\n",
        quoted(&pair.cert),
        quoted(&pair.key)
    );
    let gateway = Gateway::start(
        &standalone(&[
            ("apisix.ssl", json!({"listen": [{"ip": "127.0.0.1", "port": address.port()}], ssl: value})),
            ("nginx_config.http.enable_access_log", json!(true)),
            ("nginx_config.http.access_log_format", json!("<$ssl_protocol $ssl_cipher>")),
        ]),
        Some(&routes),
    );
    // Whoever answers has opened all its ports.
    gateway.client().get("h", "/").expect("an answer");
    (gateway, address)
}

#[test]
fn clients_get_the_cipher_suites_of_the_file() {
    static OLD: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
    let offer = Offer { versions: &OLD, ..Offer::default() }.config(None);
    for suite in ["ECDHE-ECDSA-CHACHA20-POLY1305", "ECDHE-ECDSA-AES128-GCM-SHA256"] {
        let list = format!("DHE-RSA-AES128-GCM-SHA256:{suite}");
        let (gateway, address) = with_tls("ssl_ciphers", &list);
        let mut client = Secure::connect(address, "a.test", &offer).expect("connects");
        assert!(client.get("a.test", "/").expect("an answer").contains("fine"));
        let wanted = format!("<TLSv1.2 {suite}>");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log = std::fs::read_to_string(gateway.prefix().join("logs/access.log")).unwrap_or_default();
            if log.contains(&wanted) {
                break;
            }
            assert!(Instant::now() < deadline, "{wanted} is not in the log: {log}");
            let _ = client.get("a.test", "/");
        }
    }
    // Suites for RSA keys alone leave nothing for this certificate.
    let (_gateway, address) = with_tls("ssl_ciphers", "ECDHE-RSA-AES256-GCM-SHA384");
    assert!(Secure::connect(address, "a.test", &offer).is_err());
    assert!(
        Secure::connect(address, "a.test", &Offer::default().config(None)).is_ok(),
        "TLS 1.3 has its own"
    );
}

#[test]
fn clients_get_the_protocols_of_the_file() {
    static OLD: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
    static NEW: [&rustls::SupportedProtocolVersion; 1] = [&rustls::version::TLS13];
    for (list, works) in
        [("TLSv1.2", [true, false]), ("TLSv1.3", [false, true]), ("TLSv1.2 TLSv1.3", [true, true])]
    {
        let (_gateway, address) = with_tls("ssl_protocols", list);
        let connects = [&OLD, &NEW].map(|versions| {
            let offer = Offer { versions, ..Offer::default() }.config(None);
            Secure::connect(address, "a.test", &offer).is_ok()
        });
        assert_eq!(connects, works, "{list}");
    }
}

#[test]
fn upstreams_are_told_the_name_that_is_meant_unless_the_file_says_no() {
    if !tidegate_testkit::servers::installed("nginx") {
        eprintln!("skipped: nginx is not installed");
        return;
    }
    let pair = self_signed("up.test");
    let folder = tempfile::tempdir().expect("a folder");
    let [cert, key] = [("cert.pem", &pair.cert), ("key.pem", &pair.key)].map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    });
    let port = free_port();
    let _nginx = tidegate_testkit::servers::nginx(&format!(
        "listen 127.0.0.1:{port} ssl; ssl_certificate {cert}; ssl_certificate_key {key}; \
         location / {{ return 200 \"<$ssl_server_name>\"; }}"
    ));
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, upstream: {{scheme: https, type: roundrobin, pass_host: pass, nodes: {{\"127.0.0.1:{port}\": 1}}}}}}\n"
    );
    for (send, name) in [(true, "<up.test>"), (false, "<>")] {
        let config = standalone(&[("nginx_config.http.proxy_ssl_server_name", json!(send))]);
        let gateway = Gateway::start(&config, Some(&routes));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = gateway.client().get("up.test", "/").expect("an answer");
            if answer.status() == 200 {
                assert_eq!(answer.body_text(), name, "proxy_ssl_server_name: {send}");
                break;
            }
            assert!(Instant::now() < deadline, "{}", answer.status());
        }
    }
}
