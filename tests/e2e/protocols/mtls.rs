//! Client certificates guard the hosts of their `ssl` object on every connection: without TLS, with the handshake of another
//! name, several labels below a wildcard, beside other objects with the same name, and when the object cannot be read.

use std::net::SocketAddr;
use std::process::Command;

use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway, YAML_PROVIDER};
use tidegate_testkit::{Client, eventually, free_port};

use crate::protocols::certs::{Authority, Pair, quoted, self_signed};
use crate::protocols::secure::{Offer, Secure};

const ROUTES: &str = "routes:\n- {id: m, uri: \"/*\", hosts: [mtls.test, \"*.m.test\"], plugins: {mocking: {response_example: secret}}}\n\
    - {id: o, uri: \"/*\", plugins: {mocking: {response_example: open}}}\nssls:\n";

struct Fixture {
    gateway: Gateway,
    tls: SocketAddr,
    pair: Pair,
    authority: Authority,
}

/// `ssls` gets what stands for a certificate and its key, and for `client`.
fn fixture(config: &str, ssls: impl Fn(&str, &str) -> String) -> Fixture {
    let tls = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let listen = format!("ssl: {{listen: [{{ip: 127.0.0.1, port: {}}}]}}", tls.port());
    let (pair, authority) = (self_signed("mtls.test"), Authority::new());
    let (certificate, client) = parts(&pair, &authority);
    let routes = format!("{ROUTES}{}", ssls(&certificate, &client));
    let file = config.contains("config_provider: yaml").then_some(&*routes);
    let gateway = Gateway::start(&config.replace("ssl: {enable: false}", &listen), file);
    Fixture { gateway, tls, pair, authority }
}

fn parts(pair: &Pair, authority: &Authority) -> (String, String) {
    let certificate = format!("cert: {}, key: {}", quoted(&pair.cert), quoted(&pair.key));
    (certificate, format!("client: {{ca: {}", quoted(&authority.cert)))
}

impl Fixture {
    fn plain(&self, request: &str) -> u16 {
        let answer = self.gateway.client().request(request);
        answer.unwrap_or_else(|error| panic!("{request}: {error}")).status()
    }

    /// The status over TLS, 0 when there is no handshake.
    fn secure(&self, name: &str, host: &str, shown: Option<&Pair>) -> u16 {
        let config = Offer::default().config(shown);
        let answer = Secure::connect(self.tls, name, &config).and_then(|mut it| it.get(host, "/x"));
        answer.map_or(0, |answer| answer[9..12].parse().expect("a status"))
    }

    fn host(&self, host: &str) -> u16 {
        self.plain(&format!("GET /x HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
    }
}

#[test]
fn hosts_with_client_certificates_are_shut_without_tls() {
    let fixture = fixture(YAML_PROVIDER, |certificate, client| {
        format!(
            "- {{id: m, snis: [mtls.test, \"*.m.test\"], {certificate}, {client}}}}}\n\
             - {{id: s, snis: [skips.test], {certificate}, {client}, skip_mtls_uri_regex: [\"/free.*\"]}}}}\n\
             - {{id: o, snis: [open.test], {certificate}}}\n"
        )
    });
    let hosts =
        ["mtls.test", "MTLS.Test", "mtls.test.", "mtls.test:443", "a.m.test", "a.b.m.test", "skips.test"];
    for host in hosts {
        assert_eq!(fixture.host(host), 400, "{host}\n{}", fixture.gateway.error_log());
    }
    for scheme in ["http", "https"] {
        let absolute =
            format!("GET {scheme}://mtls.test/x HTTP/1.1\r\nHost: mtls.test\r\nConnection: close\r\n\r\n");
        assert_eq!(fixture.plain(&absolute), 400, "{scheme}");
    }
    for host in ["open.test", "other.test", "127.0.0.1", "m.test"] {
        assert_eq!(fixture.host(host), 200, "{host}");
    }
    let free = "GET /free/x HTTP/1.1\r\nHost: skips.test\r\nConnection: close\r\n\r\n";
    assert_eq!(fixture.plain(free), 200);
    assert_eq!(fixture.plain(&free.replace("/free/x", "/free/../x")), 400);
    let h2c = |host: &str| {
        let output = Command::new("curl")
            .args(["-s", "-m", "5", "-o", "/dev/null", "-w", "%{http_version} %{http_code}"])
            .args(["--http2-prior-knowledge", "-H", &format!("Host: {host}")])
            .arg(format!("http://{}/x", fixture.gateway.http))
            .output()
            .expect("curl runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!((h2c("mtls.test").as_str(), h2c("open.test").as_str()), ("2 400", "2 200"));
    let client = fixture.authority.issue("client");
    assert_eq!(fixture.secure("mtls.test", "mtls.test", Some(&client)), 200);
    assert!(fixture.gateway.error_log().contains("requires a client certificate"));
}

#[test]
fn hosts_far_below_a_wildcard_are_guarded() {
    let fixture = fixture(YAML_PROVIDER, |certificate, client| {
        format!(
            "- {{id: m, snis: [\"*.m.test\"], {certificate}, {client}}}}}\n- {{id: o, snis: [\"*\"], {certificate}}}\n\
             - {{id: x, snis: [x.m.test], {certificate}}}\n"
        )
    });
    let client = fixture.authority.issue("client");
    for shown in [None, Some(&client)] {
        assert_eq!(fixture.secure("open.test", "a.b.m.test", shown), 400);
        assert_eq!(
            fixture.secure("a.b.m.test", "a.b.m.test", shown),
            400,
            "the certificate of * does not ask"
        );
        assert_eq!(fixture.secure("open.test", "open.test", shown), 200);
        // A name of its own is an exception from the wildcard.
        assert_eq!(fixture.secure("x.m.test", "x.m.test", shown), 200);
    }
    assert_eq!(fixture.secure("a.m.test", "a.m.test", None), 400);
    assert_eq!(fixture.secure("a.m.test", "a.m.test", Some(&client)), 200);
    assert_eq!(fixture.secure("a.m.test", "a.b.m.test", Some(&client)), 400);
}

#[test]
fn of_two_objects_the_one_that_asks_answers() {
    let fixture = fixture(EMBEDDED, |_, _| String::new());
    let (gateway, pair) = (&fixture.gateway, &fixture.pair);
    let route = r#"{"uri":"/*","plugins":{"mocking":{"response_example":"x"}}}"#;
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", route).0, 201);
    let mut object = serde_json::json!({"snis": ["mtls.test"], "cert": pair.cert, "key": pair.key});
    let open = object.to_string();
    object["client"] = serde_json::json!({"ca": fixture.authority.cert});
    let asks = object.to_string();
    let client = fixture.authority.issue("client");
    let shut = |when: &str| {
        assert_eq!(fixture.secure("mtls.test", "mtls.test", None), 400, "{when}");
        assert_eq!(fixture.secure("mtls.test", "mtls.test", Some(&client)), 200, "{when}");
        assert_eq!(fixture.host("mtls.test"), 400, "{when}");
    };
    assert_eq!(warning(gateway, "m", &asks), None);
    shut("alone");
    for id in ["a", "z"] {
        let warned = warning(gateway, id, &open).expect("a warning");
        assert!(warned.contains("only ssls/m requests client certificates"), "{warned}");
        shut(id);
    }
    assert!(gateway.error_log().contains("ssls/m and ssls/a both have the server name mtls.test"));
    let (status, answer) = gateway.admin("DELETE", "/apisix/admin/ssls/m", "");
    assert_eq!(status, 200, "{answer}");
    assert_eq!(fixture.secure("mtls.test", "mtls.test", None), 200);
    for client in ["{}", "[]", "5", "{\"depth\":2}"] {
        let object = open.replacen('{', &format!("{{\"client\":{client},"), 1);
        assert_eq!(gateway.admin("PUT", "/apisix/admin/ssls/m", &object).0, 400, "{client}");
    }
}

/// Writes an ssl object; what the answer warns of.
fn warning(gateway: &Gateway, id: &str, object: &str) -> Option<String> {
    let mut client = Client::connect(gateway.admin).expect("the admin port accepts connections");
    let answer = client.request(&format!(
        "PUT /apisix/admin/ssls/{id} HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\n\r\n{object}",
        object.len()
    ));
    let answer = answer.expect("an answer");
    assert_eq!(answer.status(), 201, "{}", answer.body_text());
    answer.header("X-Tidegate-Warning").map(str::to_owned)
}

#[test]
fn an_ssl_object_that_cannot_be_read_shuts_its_names() {
    let wide = |certificate: &str| format!("- {{id: star, snis: [\"*.test\"], {certificate}}}\n");
    let fixture = fixture(YAML_PROVIDER, |certificate, _| wide(certificate));
    let (certificate, client) = parts(&fixture.pair, &fixture.authority);
    let write = |object: &str| {
        let routes = format!("{ROUTES}{}{object}", wide(&certificate));
        fixture.gateway.write_routes(&routes);
    };
    assert_eq!((fixture.secure("mtls.test", "mtls.test", None), fixture.host("mtls.test")), (200, 200));
    for names in [
        "snis: mtls.test",
        "snis: [\" mtls.test\"]",
        "snis: [[mtls.test]]",
        "sni: [mtls.test]",
        "sni: \"mtls.test, x\"",
    ] {
        write(&format!("- {{id: m, {names}, {certificate}, {client}}}}}\n"));
        eventually(names, || fixture.secure("mtls.test", "mtls.test", None) == 0);
        assert_eq!(fixture.secure("other.test", "mtls.test", None), 400, "{names}");
        assert_eq!(fixture.host("mtls.test"), 400, "{names}");
        assert_eq!(
            (fixture.secure("other.test", "other.test", None), fixture.host("other.test")),
            (200, 200),
            "{names}"
        );
        write("");
        eventually("it is gone", || fixture.secure("mtls.test", "mtls.test", None) == 200);
    }
    // Whatever its names were: what only a wildcard serves could be meant.
    write(&format!(
        "- {{id: m, snis: 7, {certificate}, {client}}}}}\n- {{id: x, sni: own.test, {certificate}}}\n"
    ));
    eventually("names of wildcards are shut", || fixture.secure("any.test", "any.test", None) == 0);
    assert_eq!((fixture.host("any.test"), fixture.host("other.org")), (400, 400));
    assert_eq!((fixture.secure("own.test", "own.test", None), fixture.host("own.test")), (200, 200));
    let named = "ssls/m cannot be used: some of its server names cannot be read";
    assert!(fixture.gateway.error_log().contains(named));
    // One that was known before is shut, and the others are not: also those of before that are no longer named.
    write("");
    eventually("it is gone", || fixture.secure("any.test", "any.test", None) == 200);
    write(&format!("- {{id: m, snis: [mtls.test, own.test], {certificate}, {client}}}}}\n"));
    eventually("it asks", || fixture.secure("own.test", "own.test", None) == 400);
    write(&format!("- {{id: m, snis: [mtls.test, 7], {certificate}, {client}}}}}\n"));
    eventually("it is shut", || fixture.secure("mtls.test", "mtls.test", None) == 0);
    for names in [
        "[\"own.test\\n\"]",
        "[\"mtls.*\"]",
        "[\"*.own.test*\"]",
        "[\"**\"]",
        "[mtls..test]",
        "[mtls test]",
        "[b.test], Snis: [mtls.test]",
        "[b.test], x: 1",
    ] {
        write(&format!("- {{id: m, snis: {names}, {certificate}, {client}}}}}\n"));
        eventually("it is read", || fixture.secure("own.test", "mtls.test", None) == 0);
        assert_eq!(fixture.host("mtls.test"), 400, "{names}");
    }
    assert_eq!(fixture.secure("own.test", "own.test", None), 0);
    assert_eq!((fixture.secure("other.test", "other.test", None), fixture.host("other.test")), (200, 200));
}

/// Beside names that can be read: without those of before, each name that has no certificate of its own could be meant.
#[test]
fn an_unreadable_name_beside_others_shuts_what_a_wildcard_serves() {
    let fixture = fixture(YAML_PROVIDER, |certificate, client| {
        format!(
            "- {{id: star, snis: [\"*.test\"], {certificate}}}\n- {{id: m, snis: [mtls.test, 7], {certificate}, {client}}}}}\n"
        )
    });
    assert_eq!(fixture.secure("mtls.test", "mtls.test", None), 0);
    assert_eq!((fixture.secure("any.test", "any.test", None), fixture.host("any.test")), (0, 400));
}

/// Without a wildcard, too, and on the port without TLS.
#[test]
fn a_client_that_is_misspelled_opens_no_plain_http() {
    let object = |names: &str, certificate: &str, client: &str| {
        format!("- {{id: m, {names}, {certificate}, {client}}}}}\n")
    };
    let fixture =
        fixture(YAML_PROVIDER, |certificate, client| object("snis: [mtls.test]", certificate, client));
    let (certificate, client) = parts(&fixture.pair, &fixture.authority);
    let write = |object: &str| fixture.gateway.write_routes(&format!("{ROUTES}{object}"));
    assert_eq!((fixture.host("mtls.test"), fixture.host("other.test")), (400, 200));
    for (names, client) in [
        ("snis: [mtls.test]", client.replacen("client", "Client", 1)),
        ("snis: [mtls.test]", client.replacen("client", "clients", 1)),
        ("snis: ['']", client.clone()),
        ("snis: 5", client.clone()),
    ] {
        write(&object(names, &certificate, &client));
        eventually("handshakes are refused", || fixture.secure("mtls.test", "mtls.test", None) == 0);
        assert_eq!(fixture.host("mtls.test"), 400, "{names} {client}");
        write(&object("snis: [mtls.test]", &certificate, &parts(&fixture.pair, &fixture.authority).1));
        eventually("it is whole", || fixture.secure("mtls.test", "mtls.test", None) == 400);
    }
    write("- text\n");
    eventually("nobody knows which", || fixture.host("other.test") == 400);
}
