//! Whom the gateway trusts, beside whom OpenSSL trusts: chains of servers against `openssl s_client`, chains of clients
//! and `$ssl_client_*` against nginx.

mod chains;
mod clients;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER};
use tidegate_testkit::servers::{self, Server};
use tidegate_testkit::{PATIENCE, free_port};

use crate::protocols::certs::{quoted, self_signed};
use chains::{Chain, HOST};

/// Files of a test.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, text).expect("a file");
        path
    }
}

/// nginx that shows each chain on a port of its own. It may show what it would not trust.
fn show(folder: &Folder, chains: &[Chain]) -> (Server, Vec<u16>) {
    let ports: Vec<u16> = chains.iter().map(|_| free_port()).collect();
    let mut text = "return 204; }\n".to_owned();
    for (at, (chain, port)) in chains.iter().zip(&ports).enumerate() {
        let (cert, key) =
            (folder.file(&format!("{at}.pem"), &chain.shown), folder.file(&format!("{at}.key"), &chain.key));
        text += &format!(
            "server {{ listen 127.0.0.1:{port} ssl; ssl_protocols TLSv1.2 TLSv1.3; \
             ssl_ciphers DEFAULT@SECLEVEL=0; ssl_certificate {}; \
             ssl_certificate_key {}; return 204; }}\n",
            cert.display(),
            key.display()
        );
    }
    // The last brace is the template's.
    let text = text.trim_end().trim_end_matches('}').to_owned();
    (servers::nginx(&text), ports)
}

fn openssl_accepts(trusted: &Path, chain: &Chain, port: u16) -> (bool, String) {
    let check = if chain.host.starts_with("127.") { "-verify_ip" } else { "-verify_hostname" };
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-servername", HOST])
        .args(["-no-CApath", "-no-CAstore", "-verify_return_error", check, chain.host, "-CAfile"])
        .arg(trusted)
        .stdin(Stdio::null())
        .output()
        .expect("openssl runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let verdict = text.lines().rfind(|line| line.trim_start().starts_with("Verif")).unwrap_or_default();
    (output.status.success(), verdict.trim().to_owned())
}

#[test]
fn servers_are_trusted_as_by_openssl() {
    let folder = Folder::new();
    let chains = chains::of_servers(folder.path());
    assert!(chains.len() >= 20);
    let trusted: String = chains.iter().map(|chain| chain.trusted.as_str()).collect();
    let trusted = folder.file("trusted.pem", &trusted);
    let (_nginx, ports) = show(&folder, &chains);
    let mut routes = "routes:\n".to_owned();
    for (at, port) in ports.iter().enumerate() {
        routes += &format!(
            "- {{id: {at}, uri: /{at}, upstream: {{type: roundrobin, scheme: https, tls: {{verify: true}}, \
             nodes: {{\"127.0.0.1:{port}\": 1}}}}}}\n"
        );
    }
    let ssl = format!("ssl: {{enable: false, ssl_trusted_certificate: \"{}\"}}", trusted.display());
    let gateway = Gateway::start(&YAML_PROVIDER.replace("ssl: {enable: false}", &ssl), Some(&routes));
    let mut wrong = Vec::new();
    for (at, (chain, port)) in chains.iter().zip(&ports).enumerate() {
        let (theirs, words) = openssl_accepts(&trusted, chain, *port);
        let status = gateway.client().get(chain.host, &format!("/{at}")).expect("answers").status();
        assert!(matches!(status, 204 | 502), "{}: {status}\n{}", chain.name, gateway.error_log());
        let ours = status == 204;
        println!("{:60} OpenSSL {theirs:5} gateway {ours:5} {words}", chain.name);
        if (ours == theirs) != chain.differs.is_none() {
            wrong.push(format!("{}: OpenSSL {theirs} ({words}), gateway {ours}", chain.name));
        }
    }
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), gateway.error_log());
    // Each refusal is in the log, with its reason.
    let log = gateway.error_log();
    for reason in [
        "no trusted authority issued it",
        "is not a certificate authority",
        "expired",
        "not valid for name",
        "has 1024 bits",
        "signed with SHA-1",
        "pathlen",
        "does not include keyCertSign",
        "does not include serverAuth",
        "critical extension",
        "name constraints",
    ] {
        assert!(log.contains(reason), "{reason}\n{log}");
    }
}

/// A server's side that asks for certificates: nginx, and the gateway with the same authorities.
struct Sides {
    _nginx: Server,
    nginx: u16,
    gateway: Gateway,
    tls: u16,
}

/// What both answer with; the variables are nginx's and ours.
const VARIABLES: &[&str] = &[
    "ssl_client_verify",
    "ssl_client_s_dn",
    "ssl_client_i_dn",
    "ssl_client_s_dn_legacy",
    "ssl_client_i_dn_legacy",
    "ssl_client_serial",
    "ssl_client_fingerprint",
    "ssl_client_v_start",
    "ssl_client_v_end",
    "ssl_client_v_remain",
    "ssl_client_cert",
    "ssl_client_raw_cert",
    "ssl_client_escaped_cert",
];

fn sides(folder: &Folder, authorities: &str, depth: u32, optional: bool) -> Sides {
    let server = self_signed("a.test");
    let file = |name: &str, text: &str| folder.file(name, text).display().to_string();
    let (cert, key, ca) = (
        file("server.pem", &server.cert),
        file("server.key", &server.key),
        file("authorities.pem", authorities),
    );
    let nginx_port = free_port();
    let shown: String = VARIABLES.iter().map(|name| format!("{name}=[${name}]\n")).collect();
    let verify = if optional { "optional_no_ca" } else { "on" };
    let nginx = servers::nginx(&format!(
        "return 204; }} server {{ listen 127.0.0.1:{nginx_port} ssl; ssl_certificate {cert};\n\
         ssl_protocols TLSv1.2 TLSv1.3; ssl_certificate_key {key};\n\
         ssl_client_certificate {ca}; ssl_verify_client {verify};\n\
         ssl_verify_depth {depth}; location / {{ return 200 \"{}\"; }}",
        shown.replace('\n', "\\n")
    ));
    let tls = free_port();
    let config = YAML_PROVIDER
        .replace("ssl: {enable: false}", &format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {tls}}}]}}"));
    let skip = if optional { ", skip_mtls_uri_regex: [\"/.*\"]" } else { "" };
    let routes = format!(
        "routes:\n- {{id: 1, uri: \"/*\", plugins: {{mocking: {{content_type: text/plain, \
         with_mock_header: false, response_example: {}}}}}}}\nssls:\n\
         - {{id: asks, sni: a.test, cert: {}, key: {}, client: {{ca: {}, depth: {depth}{skip}}}}}\n",
        quoted(&shown),
        quoted(&server.cert),
        quoted(&server.key),
        quoted(authorities)
    );
    let gateway = Gateway::start(&config, Some(&routes));
    Sides { _nginx: nginx, nginx: nginx_port, gateway, tls }
}

/// The body that a client with this certificate gets; `None` when it gets none.
fn asked(folder: &Folder, port: u16, cert: &str, key: &str, more: &[&str]) -> Option<String> {
    let (cert, key) = (folder.file("client.pem", cert), folder.file("client.key", key));
    let output = Command::new("curl")
        .args(["-sk", "--fail", "--max-time", "10", "--ciphers", "DEFAULT@SECLEVEL=0"])
        .args(["--resolve", &format!("a.test:{port}:127.0.0.1")])
        .arg("--cert")
        .arg(cert)
        .arg("--key")
        .arg(key)
        .args(more)
        .arg(format!("https://a.test:{port}/"))
        .output()
        .expect("curl runs");
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn clients_are_trusted_as_by_nginx() {
    let folder = Folder::new();
    let chains = clients::of_clients(folder.path());
    let authorities: String = chains.iter().map(|chain| chain.trusted.as_str()).collect();
    let sides = sides(&folder, &authorities, 3, false);
    let mut wrong = Vec::new();
    for chain in &chains {
        for version in [&["--tlsv1.3"][..], &["--tls-max", "1.2"]] {
            let get = |port| asked(&folder, port, &chain.shown, &chain.key, version).is_some();
            let (theirs, ours) = (get(sides.nginx), get(sides.tls));
            println!("{:60} nginx {theirs:5} gateway {ours:5} {version:?}", chain.name);
            if (ours == theirs) != chain.differs.is_none() {
                wrong.push(format!("{} {version:?}: nginx {theirs}, gateway {ours}", chain.name));
            }
        }
    }
    let log = sides.gateway.error_log();
    assert!(wrong.is_empty(), "{}\n{log}", wrong.join("\n"));
    let line = log.lines().find(|line| line.contains("TLS handshake failed")).expect("a refusal is logged");
    for part in ["[warn]", "client: 127.0.0.1:", "server name: a.test", "ssl: asks", "peer certificate"] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let refused = log.matches("TLS handshake failed").count();
    assert!(refused <= 40, "{refused} lines: the rate is limited");
}

fn days(answer: &str) -> Option<&str> {
    answer.lines().find(|line| line.starts_with("ssl_client_v_remain="))
}

#[test]
fn variables_of_client_certificates_are_those_of_nginx() {
    let folder = Folder::new();
    let authority = clients::authority_of_variables();
    let sides = sides(&folder, &authority.cert, 2, true);
    let get = |port, made: &chains::Made| {
        asked(&folder, port, &made.cert, &made.key, &[]).expect("everybody gets an answer")
    };
    for made in clients::of_variables(folder.path(), &authority) {
        // A certificate made this second has 30 days left, and 29 in the next one.
        let deadline = Instant::now() + PATIENCE;
        let (mut theirs, mut ours) = (get(sides.nginx, &made), get(sides.tls, &made));
        while days(&ours) != days(&theirs) && Instant::now() < deadline {
            (theirs, ours) = (get(sides.nginx, &made), get(sides.tls, &made));
        }
        assert_eq!(ours, theirs, "{}\n{}", made.cert, sides.gateway.error_log());
        assert!(ours.contains("ssl_client_fingerprint=[") && ours.contains("BEGIN CERTIFICATE"), "{ours}");
    }
    let ours = get(sides.tls, &clients::expired_client(&authority));
    for part in
        ["ssl_client_verify=[FAILED:certificate has expired]", "v_remain=[0]", "Jan  1 00:00:00 2020 GMT"]
    {
        assert!(ours.contains(part), "{part}\n{ours}");
    }
    // Without a certificate all are empty.
    let url = |port: u16| format!("https://a.test:{port}/");
    let bare = |port: u16| {
        let resolve = format!("a.test:{port}:127.0.0.1");
        let output = Command::new("curl").args(["-sk", "--resolve", &resolve, &url(port)]).output();
        String::from_utf8_lossy(&output.expect("curl runs").stdout).into_owned()
    };
    assert_eq!(bare(sides.tls), bare(sides.nginx));
}

/// The certificates of APISIX's tutorial about mutual TLS: all of them X.509 v1 with this openssl.
#[test]
fn certificates_of_the_tutorial_do() {
    let folder = Folder::new();
    let (root, server, client) = clients::of_tutorial(folder.path());
    let tls = free_port();
    let mut config = EMBEDDED
        .replace("ssl: {enable: false}", &format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {tls}}}]}}"));
    let file = |name: &str, text: &str| folder.file(name, text).display().to_string();
    config = config.replace(
        "    admin_key:",
        &format!(
            "    https_admin: true\n    admin_api_mtls: {{admin_ssl_cert: {}, admin_ssl_cert_key: {}, \
             admin_ssl_ca_cert: {}}}\n    admin_key:",
            file("server.pem", &server.cert),
            file("server.key", &server.key),
            file("root.pem", &root.cert)
        ),
    );
    let mut gateway = Gateway::start(&config, None);
    gateway.process.wait_for_port(gateway.admin);
    let (certificate, key) = (file("client.pem", &client.cert), file("client.key", &client.key));
    let curl = |port: u16, path: &str, more: &[&str]| {
        let output = Command::new("curl")
            .args(["-s", "-w", "%{http_code}", "--max-time", "10", "--cacert", &file("root.pem", &root.cert)])
            .args(["--resolve", &format!("test.com:{port}:127.0.0.1"), "-H", "X-API-KEY: test-admin-key"])
            .args(more)
            .arg(format!("https://test.com:{port}{path}"))
            .output()
            .expect("curl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let shown = ["--cert", &certificate, "--key", &key];
    let put = |path: &str, body: &str| {
        let more = [&shown[..], &["-X", "PUT", "-d", body]].concat();
        let answer = curl(gateway.admin.port(), path, &more);
        assert!(answer.ends_with("201"), "{path}: {answer}\n{}", gateway.error_log());
    };
    let ssl = format!(
        "{{\"sni\": \"test.com\", \"cert\": {}, \"key\": {}, \"client\": {{\"ca\": {}}}}}",
        quoted(&server.cert),
        quoted(&server.key),
        quoted(&root.cert)
    );
    put("/apisix/admin/ssls/1", &ssl);
    put(
        "/apisix/admin/routes/1",
        "{\"uri\": \"/get\", \"plugins\": {\"mocking\": {\"response_example\": \"$ssl_client_s_dn\"}}}",
    );
    assert_eq!(curl(tls, "/get", &shown), "CN=CLIENT200", "{}", gateway.error_log());
    let missing = curl(tls, "/get", &[]);
    assert!(
        missing.contains("No required SSL certificate was sent") && missing.ends_with("400"),
        "{missing}"
    );
    let without = curl(gateway.admin.port(), "/apisix/admin/routes", &[]);
    assert_eq!(without, "000");
    // A client has its alert before the line is written.
    let deadline = Instant::now() + PATIENCE;
    for part in ["the peer presented no certificate", "port: Admin API", "client certificate was not present"]
    {
        while !gateway.error_log().contains(part) {
            assert!(Instant::now() < deadline, "{part}\n{}", gateway.error_log());
            std::thread::yield_now();
        }
    }
}

/// Redis is verified against the same authorities as upstreams.
#[test]
fn redis_is_trusted_as_upstreams_are() {
    let folder = Folder::new();
    let (good, other) =
        (clients::self_signed_authority("127.0.0.1"), clients::self_signed_authority("192.0.2.1"));
    let trusted = folder.file("trusted.pem", &format!("{}{}", good.cert, other.cert));
    let redis = |name: &str, made: &chains::Made| {
        let file =
            |kind: &str, text: &str| folder.file(&format!("{name}.{kind}"), text).display().to_string();
        let (cert, key, port) = (file("pem", &made.cert), file("key", &made.key), free_port().to_string());
        let server = servers::redis(&[
            "--tls-port",
            &port,
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-auth-clients",
            "no",
        ]);
        (server, port)
    };
    let ((_one, good_port), (_two, other_port)) = (redis("good", &good), redis("other", &other));
    let upstream = servers::nginx("location / { return 200; }");
    let route = |at: u32, port: &str, verify: bool| {
        format!(
            "- {{id: {at}, uri: /{at}, plugins: {{limit-count: {{count: 5, time_window: 60, policy: redis, \
             redis_host: 127.0.0.1, redis_port: {port}, redis_ssl: true, redis_ssl_verify: {verify}, \
             redis_timeout: 5000}}}}, upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}}}\n",
            upstream.address
        )
    };
    let routes = format!(
        "routes:\n{}{}{}",
        route(1, &good_port, true),
        route(2, &other_port, true),
        route(3, &other_port, false)
    );
    let ssl = format!("ssl: {{enable: false, ssl_trusted_certificate: \"{}\"}}", trusted.display());
    let gateway = Gateway::start(&YAML_PROVIDER.replace("ssl: {enable: false}", &ssl), Some(&routes));
    for (path, expected) in [("/1", 200), ("/2", 500), ("/3", 200)] {
        let status = gateway.client().get("h", path).expect("answers").status();
        assert_eq!(status, expected, "{path}\n{}", gateway.error_log());
    }
    assert!(gateway.error_log().contains("certificate not valid for name"), "{}", gateway.error_log());
}

/// What is wrong with a scheme is said, in both directions.
#[test]
fn the_wrong_scheme_is_named() {
    let folder = Folder::new();
    let pair = self_signed("a.test");
    let tls = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let (cert, key) = (folder.file("cert.pem", &pair.cert), folder.file("key.pem", &pair.key));
    let plain = servers::nginx(&format!(
        "location / {{ return 204; }} }} server {{ listen {tls} ssl; ssl_certificate {}; ssl_certificate_key {};",
        cert.display(),
        key.display()
    ));
    let routes = format!(
        "routes:\n\
         - {{id: 1, uri: /1, upstream: {{type: roundrobin, scheme: https, nodes: {{\"{}\": 1}}}}}}\n\
         - {{id: 2, uri: /2, upstream: {{type: roundrobin, nodes: {{\"{tls}\": 1}}}}}}\n",
        plain.address
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    // nginx answers to plain HTTP, with 400; what it says there is its own.
    for (path, status) in [("/1", 502), ("/2", 400)] {
        assert_eq!(gateway.client().get("h", path).expect("answers").status(), status);
    }
    for line in [
        format!("the server at {} speaks plain HTTP, not TLS", plain.address),
        format!("the server at {tls} speaks TLS, not plain HTTP"),
    ] {
        gateway.wait_for_log(&line);
    }
}

/// A name that does not resolve is logged once, with its record types, the server that was asked and the object that uses it.
#[test]
fn names_that_do_not_resolve_are_logged_once() {
    let dns = servers::dnsmasq(None, &["--host-record=there.service,127.0.0.1"]);
    let routes = |uri: &str| {
        format!(
            "routes:\n- {{id: 7, uri: {uri}, upstream: {{type: roundrobin, nodes: {{\"absent.service:80\": 1}}}}}}\n\
             - {{id: 8, uri: /mock{uri}, plugins: {{mocking: {{response_example: fine}}}}}}\n"
        )
    };
    let resolver =
        format!("apisix:\n  dns_resolver: [\"{}\"]\n  enable_resolv_search_opt: false\n", dns.address);
    let gateway = Gateway::start(&YAML_PROVIDER.replacen("apisix:\n", &resolver, 1), Some(&routes("/a")));
    for uri in ["/b", "/c", "/d"] {
        gateway.write_routes(&routes(uri));
        let deadline = Instant::now() + PATIENCE;
        while gateway.client().get("h", &format!("/mock{uri}")).expect("answers").status() != 200 {
            assert!(Instant::now() < deadline, "{uri} is not there\n{}", gateway.error_log());
        }
    }
    let log = gateway.error_log();
    let line = format!(
        "failed to resolve absent.service, used by routes/7: A and AAAA records asked of {}: no such name (NXDOMAIN)",
        dns.address
    );
    assert_eq!(log.matches("failed to resolve").count(), 1, "{log}");
    assert!(log.contains(&line), "{line}\n{log}");
}
