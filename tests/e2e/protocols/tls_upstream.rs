//! TLS toward upstreams, with nginx as the upstream: names, trust, our certificate, and whose connection is whose.

use std::fs;

use tidegate_testkit::free_port;
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER};
use tidegate_testkit::servers::{self, Server};

use crate::protocols::certs::{Authority, Pair, quoted};

/// What the upstream saw of a handshake.
const SEEN: &str = "return 200 \"name=$ssl_server_name client=$ssl_client_s_dn connection=$connection \
                    reused=$ssl_session_reused host=$http_host\\n\";";

struct Upstream {
    _nginx: Server,
    port: u16,
}

/// nginx that asks for certificates of `authority`, without insisting.
fn upstream(pair: &Pair, authority: &Authority, folder: &std::path::Path, more: &str) -> Upstream {
    let port = free_port();
    let file = |name: &str, text: &str| {
        let path = folder.join(format!("{port}-{name}"));
        fs::write(&path, text).expect("a file for nginx");
        path.display().to_string()
    };
    let (cert, key, ca) =
        (file("cert.pem", &pair.cert), file("key.pem", &pair.key), file("ca.pem", &authority.cert));
    let text = format!(
        "listen 127.0.0.1:{port} ssl; ssl_certificate {cert}; ssl_certificate_key {key};\n\
         ssl_client_certificate {ca}; ssl_verify_client optional; {more}\n\
         location / {{ {SEEN} }}"
    );
    Upstream { _nginx: servers::nginx(&text), port }
}

fn field<'a>(answer: &'a str, name: &str) -> &'a str {
    let rest = answer.split_once(&format!("{name}=")).map(|(_, rest)| rest).unwrap_or_default();
    rest.split([' ', '\n']).next().unwrap_or_default()
}

#[test]
fn upstreams_are_verified_when_asked_to() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let authority = Authority::new();
    let pair = authority.issue("backend.test");
    let nginx = upstream(&pair, &authority, folder.path(), "");
    let ca = folder.path().join("trusted.pem");
    fs::write(&ca, &authority.cert).expect("trusted.pem");
    let node = |more: &str| {
        format!(
            "upstream: {{type: roundrobin, scheme: https, nodes: {{\"127.0.0.1:{}\": 1}}, {more}}}",
            nginx.port
        )
    };
    let routes = [
        ("/any", node("pass_host: pass")),
        ("/checked", node("pass_host: pass, tls: {verify: true}")),
        ("/rewritten", node("pass_host: rewrite, upstream_host: backend.test, tls: {verify: true}")),
        ("/node", node("pass_host: node, tls: {verify: true}")),
    ];
    let routes: String = routes
        .iter()
        .map(|(uri, upstream)| format!("- {{id: \"{}\", uri: {uri}, {upstream}}}\n", &uri[1..]))
        .collect();
    let trusted = format!("ssl: {{enable: false, ssl_trusted_certificate: \"system,{}\"}}", ca.display());
    let config = YAML_PROVIDER.replace("ssl: {enable: false}", &trusted);
    let gateway = Gateway::start(&config, Some(&format!("routes:\n{routes}")));
    let get = |host: &str, path: &str| gateway.client().get(host, path).expect("answers");

    let answer = get("backend.test", "/any");
    assert_eq!(answer.status(), 200, "{}", gateway.error_log());
    assert_eq!(field(&answer.body_text(), "name"), "backend.test");
    assert_eq!(get("other.test", "/any").status(), 200, "nobody asked for verification");
    assert_eq!(get("backend.test", "/checked").status(), 200, "{}", gateway.error_log());
    // The connection of before was good for its own name only.
    assert_eq!(get("other.test", "/checked").status(), 502);
    assert_eq!(get("backend.test:9080", "/checked").status(), 200);
    let answer = get("other.test", "/rewritten");
    assert_eq!(answer.status(), 200);
    assert_eq!(field(&answer.body_text(), "host"), "backend.test");
    assert_eq!(get("backend.test", "/node").status(), 502, "the certificate is for no address");
    assert!(gateway.error_log().contains("certificate not valid for name"), "{}", gateway.error_log());
}

#[test]
fn connections_belong_to_their_certificate_and_name() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let authority = Authority::new();
    let nginx =
        upstream(&authority.issue("backend.test"), &authority, folder.path(), "keepalive_requests 2;");
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let put = |path: &str, body: &str| {
        let (status, answer) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), body);
        assert!(matches!(status, 200 | 201), "{path}: {answer}");
    };
    let shown = |pair: &Pair| {
        format!("\"client_cert\": {}, \"client_key\": {}", quoted(&pair.cert), quoted(&pair.key))
    };
    let route = |name: &str, tls: &str| {
        format!(
            "{{\"uri\": \"/{name}\", \"upstream\": {{\"type\": \"roundrobin\", \"scheme\": \"https\", \
             \"nodes\": {{\"127.0.0.1:{}\": 1}}, \"tls\": {{{tls}}}}}}}",
            nginx.port
        )
    };
    let stored = authority.issue("stored");
    let client = format!(
        "{{\"type\": \"client\", \"cert\": {}, \"key\": {}}}",
        quoted(&stored.cert),
        quoted(&stored.key)
    );
    put("ssls/stored", &client);
    put("routes/one", &route("one", &shown(&authority.issue("one"))));
    put("routes/two", &route("two", &shown(&authority.issue("two"))));
    put("routes/stored", &route("stored", "\"client_cert_id\": \"stored\""));
    put("routes/none", &route("none", "\"verify\": false"));
    let get = |host: &str, path: &str| {
        let answer = gateway.client().get(host, path).expect("answers");
        assert_eq!(answer.status(), 200, "{}", gateway.error_log());
        answer.body_text()
    };
    for _ in 0..3 {
        for (path, client) in
            [("/one", "CN=one"), ("/two", "CN=two"), ("/stored", "CN=stored"), ("/none", "")]
        {
            for host in ["a.test", "b.test"] {
                let answer = get(host, path);
                assert_eq!(field(&answer, "client"), client, "{path}");
                assert_eq!(field(&answer, "name"), host, "{path}");
            }
        }
    }
    // Two requests to a connection: the next begins with the session of the last.
    let answers: Vec<String> = (0..4).map(|_| get("fresh.test", "/one")).collect();
    let connections: Vec<&str> = answers.iter().map(|answer| field(answer, "connection")).collect();
    assert_eq!(connections[0], connections[1], "kept and used again");
    assert_ne!(connections[1], connections[2]);
    assert_eq!(field(&answers[0], "reused"), ".");
    assert_eq!(field(&answers[2], "reused"), "r", "{answers:?}");

    // A certificate that changes is shown at once, and a server's resource is none for clients.
    let replaced = authority.issue("replaced");
    put(
        "ssls/stored",
        &client
            .replace(&quoted(&stored.cert), &quoted(&replaced.cert))
            .replace(&quoted(&stored.key), &quoted(&replaced.key)),
    );
    assert_eq!(field(&get("a.test", "/stored"), "client"), "CN=replaced");
}
