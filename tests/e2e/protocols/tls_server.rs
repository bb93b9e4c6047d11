//! TLS toward clients: which certificate, which version, whose session, and all of it changed while connections live.

use std::net::SocketAddr;
use std::time::Instant;

use rustls::{SignatureScheme, SupportedProtocolVersion};
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER};
use tidegate_testkit::{PATIENCE, free_port};

use crate::protocols::certs::{Authority, Pair, quoted, self_signed, self_signed_rsa};
use crate::protocols::secure::{Offer, Secure};

static TLS12: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS12];
static TLS13: [&SupportedProtocolVersion; 1] = [&rustls::version::TLS13];

const ROUTES: &str = "routes:\n- {id: 1, uri: \"/*\", plugins: {mocking: {response_example: fine}}}\nssls:\n";

/// A gateway with these `ssl` resources, and where it listens for TLS. `more` goes below `apisix.ssl`.
fn gateway(ssls: &str, more: &str, workers: usize) -> (Gateway, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let ssl = format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {}}}]{more}}}", address.port());
    let config = YAML_PROVIDER
        .replace("ssl: {enable: false}", &ssl)
        .replace("worker_processes: 1", &format!("worker_processes: {workers}"));
    (Gateway::start(&config, Some(&format!("{ROUTES}{ssls}"))), address)
}

fn ssl(id: &str, name: &str, pair: &Pair, more: &str) -> String {
    let (cert, key) = (quoted(&pair.cert), quoted(&pair.key));
    format!("- {{id: {id}, sni: \"{name}\", cert: {cert}, key: {key}{more}}}\n")
}

#[test]
fn the_certificate_suits_the_client() {
    let (rsa, ecdsa, other) = (self_signed_rsa("a.test"), self_signed("a.test"), self_signed("b.test"));
    let second = format!(", certs: [{}], keys: [{}]", quoted(&ecdsa.cert), quoted(&ecdsa.key));
    let ssls =
        ssl("a", "a.test", &rsa, &second) + &ssl("b", "*.b.test", &other, ", ssl_protocols: [TLSv1.2]");
    let (_gateway, address) = gateway(&ssls, ", fallback_sni: a.test", 1);

    let connect = |name: &str, offer: Offer| Secure::connect(address, name, &offer.config(None));
    let only_rsa = Offer { schemes: Some(&[SignatureScheme::RSA_PSS_SHA256]), ..Offer::default() };
    assert!(connect("a.test", only_rsa).expect("connects").shows(&rsa));
    let only_ecdsa = Offer { schemes: Some(&[SignatureScheme::ECDSA_NISTP256_SHA256]), ..Offer::default() };
    assert!(connect("a.test", only_ecdsa).expect("connects").shows(&ecdsa));
    assert!(connect("a.test", Offer::default()).expect("connects").shows(&ecdsa), "the cheaper one");
    let old = |schemes| Offer { versions: &TLS12, schemes, ..Offer::default() };
    let schemes = &[SignatureScheme::RSA_PKCS1_SHA256, SignatureScheme::RSA_PSS_SHA256];
    assert!(connect("a.test", old(Some(schemes))).expect("connects").shows(&rsa));
    assert!(connect("a.test", old(None)).expect("connects").shows(&ecdsa));
    // A wildcard stands for one label.
    assert!(connect("x.b.test", Offer::default()).expect("connects").shows(&other));
    assert!(connect("x.y.b.test", Offer::default()).is_err());
    // Versions are a resource's own.
    assert!(connect("x.b.test", Offer { versions: &TLS13, ..Offer::default() }).is_err());
    assert!(connect("a.test", Offer { versions: &TLS13, ..Offer::default() }).is_ok());
    // Without a name: fallback_sni.
    assert!(
        connect("a.test", Offer { send_name: false, ..Offer::default() }).expect("connects").shows(&ecdsa)
    );
}

#[test]
fn sessions_are_resumed_by_every_worker() {
    let pair = self_signed("a.test");
    for tickets in [", ssl_session_tickets: true", ""] {
        let ssls = ssl("a", "a.test", &pair, "") + &ssl("b", "b.test", &pair, "");
        let (_gateway, address) = gateway(&ssls, tickets, 3);
        for version in [&TLS12, &TLS13] {
            let config = Offer { versions: version, ..Offer::default() }.config(None);
            let connect = |name: &str| {
                let mut secure = Secure::connect(address, name, &config).expect("connects");
                // Tickets of TLS 1.3 come after the handshake: with the answer at the latest.
                assert!(secure.get(name, "/").expect("answers").contains("fine"));
                secure.resumed()
            };
            assert!(!connect("a.test"));
            let resumed = (0..16).filter(|_| connect("a.test")).count();
            assert_eq!(resumed, 16, "{version:?}{tickets}: the system spreads connections over workers");
            assert!(!connect("b.test"), "a session belongs to one name");
        }
    }
}

#[test]
fn a_session_is_no_way_around_a_client_certificate() {
    let (pair, authority) = (self_signed("a.test"), Authority::new());
    let client = authority.issue("client");
    let (gateway, address) = gateway(&ssl("a", "a.test", &pair, ""), ", ssl_session_tickets: true", 1);
    let config = Offer::default().config(None);
    let mut open = Secure::connect(address, "a.test", &config).expect("connects");
    assert!(open.get("a.test", "/").is_ok());
    let asks = format!(", client: {{ca: {}}}", quoted(&authority.cert));
    gateway.write_routes(&format!("{ROUTES}{}", ssl("a", "a.test", &pair, &asks)));
    let without = || Secure::connect(address, "a.test", &config).and_then(|mut it| it.get("a.test", "/"));
    let deadline = Instant::now() + PATIENCE;
    let served = |answer: &str| answer.starts_with("HTTP/1.1 200");
    while without().is_ok_and(|answer| served(&answer)) {
        assert!(Instant::now() < deadline, "still let in with the session of before");
    }
    let config = Offer::default().config(Some(&client));
    for resumed in [false, true] {
        let mut with = Secure::connect(address, "a.test", &config).expect("connects");
        assert_eq!(with.resumed(), resumed);
        assert!(with.get("a.test", "/").expect("answers").starts_with("HTTP/1.1 200"));
    }
    // APISIX judges each request: the connection from before has no certificate either.
    assert!(open.get("a.test", "/").expect("answers").starts_with("HTTP/1.1 400"));
}

#[test]
fn chains_of_clients_have_a_depth() {
    let (pair, root) = (self_signed("a.test"), Authority::new());
    let between = root.intermediate();
    let mut far = between.issue("far");
    far.cert += &between.cert;
    let near = root.issue("near");
    let stranger = Authority::new().issue("stranger");
    let client = |depth| format!(", client: {{ca: {}, depth: {depth}}}", quoted(&root.cert));
    let ssls = ssl("0", "zero.test", &pair, &client(0)) + &ssl("1", "one.test", &pair, &client(1));
    let (gateway, address) = gateway(&ssls, "", 1);
    for (name, shown, expected) in [
        ("zero.test", Some(&near), true),
        ("zero.test", Some(&far), false),
        ("one.test", Some(&near), true),
        ("one.test", Some(&far), true),
        ("one.test", Some(&stranger), false),
        ("one.test", None, false),
    ] {
        let config = Offer::default().config(shown);
        let answer = Secure::connect(address, name, &config).and_then(|mut it| it.get(name, "/"));
        let served = answer.as_ref().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"));
        assert_eq!(served, expected, "{name}: {answer:?}\n{}", gateway.error_log());
    }
}

#[test]
fn certificates_change_and_connections_stay() {
    let (first, second) = (self_signed("a.test"), self_signed("a.test"));
    let (gateway, address) = gateway(&ssl("a", "a.test", &first, ""), "", 2);
    // Without sessions each connection shows which certificate is active.
    let connect = || Secure::connect(address, "a.test", &Offer::default().config(None)).expect("connects");
    let mut open: Vec<Secure> = (0..8).map(|_| connect()).collect();
    gateway.write_routes(&format!("{ROUTES}{}", ssl("a", "a.test", &second, "")));
    let deadline = Instant::now() + PATIENCE;
    loop {
        // Requests go on while the change comes, on old connections and on new ones.
        for secure in &mut open {
            assert!(secure.get("a.test", "/").expect("stays open").contains("fine"));
        }
        let fresh = connect();
        if fresh.shows(&second) {
            break;
        }
        assert!(fresh.shows(&first));
        assert!(Instant::now() < deadline, "the new certificate is not served");
    }
    for secure in &mut open {
        assert!(secure.shows(&first));
        assert!(secure.get("a.test", "/").expect("stays open").contains("fine"));
    }
}

#[test]
fn keys_stay_and_ends_are_told() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let pair = Authority::new().issue_with("soon.test", |params| {
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let (cert, key) = (quoted(&pair.cert), quoted(&pair.key));
    let ssl = format!("{{\"sni\": \"soon.test\", \"cert\": {cert}, \"key\": {key}}}");
    let (status, answer) = gateway.admin("PUT", "/apisix/admin/ssls/old", &ssl);
    assert_eq!(status, 201, "{answer}");
    let upstream = format!(
        "{{\"type\": \"roundrobin\", \"scheme\": \"https\", \"nodes\": {{\"127.0.0.1:1\": 1}}, \
         \"tls\": {{\"client_cert\": {cert}, \"client_key\": {key}}}}}"
    );
    let (status, answer) = gateway.admin("PUT", "/apisix/admin/upstreams/1", &upstream);
    assert_eq!(status, 201, "{answer}");
    let secret = pair.key.lines().nth(1).expect("a line of the key");
    for path in ["ssls", "ssls/old", "upstreams", "upstreams/1"] {
        let (status, answer) = gateway.admin("GET", &format!("/apisix/admin/{path}"), "");
        assert_eq!(status, 200, "{answer}");
        assert!(!answer.contains(secret), "{path} shows the key: {answer}");
    }
    let mut control = tidegate_testkit::Client::connect(gateway.control).expect("connects");
    let shown = control.get("localhost", "/v1/upstream/1").expect("answers").body_text();
    assert!(shown.contains("client_cert") && !shown.contains("client_key"), "{shown}");
    // What was read may be written back: the key in it is the same one.
    let (_, read) = gateway.admin("GET", "/apisix/admin/upstreams/1", "");
    let shown = read.split_once("\"client_key\":\"").map(|(_, rest)| rest).expect("a key, encrypted");
    let encrypted = format!("\"{}\"", shown.split('"').next().unwrap_or_default());
    let (status, answer) =
        gateway.admin("PUT", "/apisix/admin/upstreams/1", &upstream.replace(&key, &encrypted));
    assert_eq!(status, 200, "{answer}");
    let (_, again) = gateway.admin("GET", "/apisix/admin/upstreams/1", "");
    assert!(again.contains(&encrypted), "{again}");

    let mut metrics = tidegate_testkit::Client::connect(gateway.metrics).expect("connects");
    let page = metrics.get("h", "/apisix/prometheus/metrics").expect("answers").body_text();
    let line = "apisix_ssl_certificate_expiry_timestamp_seconds{ssl=\"old\",sni=\"soon.test\",pair=\"0\"} 1577836800";
    assert!(page.contains(line), "{page}");
    gateway.wait_for_log("ssls/old (soon.test): cert has expired");
}
