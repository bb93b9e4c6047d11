//! What a client says of itself although only the gateway may: each asserted header in each spelling, over each protocol
//! on both sides, and none of it reaches the upstream.

mod recorder;
mod trailers;

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, field, request};
use tidegate_testkit::{Client, Gateway, Http2Client, Upstream};

use recorder::Recorder;

/// What a client writes as a value, and no gateway does.
const SPOOFED: &str = "spoofed";

/// Asserted by the gateway itself, on every route.
const OWN: [&str; 17] = [
    "X-Consumer-Username",
    "X-Consumer-Custom-Id",
    "X-Consumer-Group-Id",
    "X-Consumer-Anything",
    "X-Credential-Identifier",
    "X-Real-IP",
    "X-Forwarded-For",
    "X-Forwarded-Proto",
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Forwarded-Prefix",
    "Forwarded",
    "X-Userinfo",
    "X-ID-Token",
    "X-Raw-ID-Token",
    "X-Refresh-Token",
    "X-Access-Token",
];

/// Asserted by plugins of the guarded routes: forward-auth, opa, attach-consumer-label, sla, proxy-rewrite, a script.
const OF_PLUGINS: [&str; 6] = ["X-User", "X-Scope", "X-Role", "X-Level", "X-Tenant", "X-By-Lua"];

fn underscored(name: &str) -> String {
    name.replace('-', "_")
}

/// Spelled with each of the other signs that a name may have: PHP, lighttpd and others fold them as they do `_`.
fn signed(name: &str) -> Vec<String> {
    "!#$%&'*+.^`|~".chars().map(|sign| name.replace('-', &sign.to_string())).collect()
}

/// One dash only, and in capitals.
fn mixed(name: &str) -> String {
    name.replacen('-', "_", 1).to_ascii_uppercase()
}

/// The spellings of a name as a list of fields; `in_trailer` ones go behind the body.
struct Attack {
    fields: Vec<String>,
    trailers: Vec<String>,
}

fn attacks(name: &str) -> Vec<Attack> {
    let head = |fields: &[String]| Attack { fields: fields.to_vec(), trailers: Vec::new() };
    let trailer = |name: String| Attack { fields: Vec::new(), trailers: vec![name] };
    vec![
        head(&[name.to_owned()]),
        head(&[name.to_ascii_uppercase()]),
        head(&[name.to_ascii_lowercase()]),
        head(&[underscored(name)]),
        head(&[mixed(name)]),
        head(&[name.to_owned(), name.to_ascii_lowercase(), underscored(name)]),
        head(&[underscored(name), underscored(name)]),
        head(&signed(name)),
        head(&[name.replacen('-', ".", 1), mixed(&name.replacen('-', "+", 1))]),
        trailer(name.to_owned()),
        trailer(underscored(name)),
        Attack { fields: Vec::new(), trailers: signed(name) },
    ]
}

/// Framing is not a claim in its right spelling: that is the parser's matter.
fn framing_attacks() -> Vec<Attack> {
    let mut all = Vec::new();
    let names = [
        "Content_Length",
        "content_length",
        "Transfer_Encoding",
        "Keep_Alive",
        "Proxy_Connection",
        "Content.Length",
        "Transfer+Encoding",
    ];
    for name in names {
        all.push(Attack { fields: vec![name.to_owned()], trailers: Vec::new() });
        all.push(Attack { fields: Vec::new(), trailers: vec![name.to_owned()] });
    }
    all.push(Attack { fields: Vec::new(), trailers: vec!["Content-Length".to_owned()] });
    all
}

/// A value that is well-formed for the name.
fn value(name: &str) -> String {
    match name.to_ascii_lowercase().as_str() {
        "forwarded" => format!("for={SPOOFED}"),
        "x-forwarded-port" => "16661".to_owned(),
        _ => SPOOFED.to_owned(),
    }
}

fn is_spoofed(value: &str) -> bool {
    value.contains(SPOOFED) || value.contains("16661")
}

const CONFIG_MORE: &str = "  trusted_addresses: [10.9.9.0/24]\n";

fn config() -> String {
    YAML_PROVIDER.replace("  enable_admin: false\n", &format!("  enable_admin: false\n{CONFIG_MORE}"))
}

/// Every route twice: to an upstream of HTTP/1, and below `/grpc` to one of gRPC.
fn start(http1: &Upstream, grpc: &Recorder, service: &Upstream) -> Gateway {
    let service = service.address;
    let plugins = format!(
        r#"{{key-auth: {{}}, attach-consumer-label: {{headers: {{X-Role: $role}}}},
        forward-auth: {{uri: "http://{service}/auth", upstream_headers: [X-User]}},
        opa: {{host: "http://{service}", policy: p, send_headers_upstream: [X-Scope]}},
        sla: {{levels: {{gold: {{limits: [{{limit: 100000, interval: 1}}], request_headers: {{set: {{X-Level: gold}}}}}}}}, consumers: {{jack: gold}}}},
        proxy-rewrite: {{headers: {{set: {{X-Tenant: acme}}}}}},
        serverless-pre-function: {{phase: rewrite, functions: ["return function(conf, ctx) ngx.req.set_header('X-By-Lua', 'yes') end"]}}}}"#
    );
    let mut routes = "routes:\n".to_owned();
    for (prefix, scheme, address) in [("", "http", http1.address), ("/grpc", "grpc", grpc.address)] {
        let upstream =
            format!("upstream: {{scheme: {scheme}, type: roundrobin, nodes: {{\"{address}\": 1}}}}");
        routes += &format!("- {{uri: \"{prefix}/open/*\", id: open{scheme}, {upstream}}}\n");
        routes += &format!(
            "- {{uri: \"{prefix}/guarded/*\", id: guarded{scheme}, plugins: {plugins}, {upstream}}}\n"
        );
    }
    routes += "consumers:\n- {username: jack, labels: {role: admin}, plugins: {key-auth: {key: k}}}\n";
    Gateway::start(&config(), Some(&routes))
}

/// Answers forward-auth and opa.
fn service() -> Upstream {
    Upstream::with(|message| {
        let text = if message.target().contains("/v1/data/") {
            let body = r#"{"result": {"allow": true, "headers": {"X-Scope": "all"}}}"#;
            format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        } else {
            "HTTP/1.1 200 OK\r\nX-User: real\r\nContent-Length: 0\r\n\r\n".to_owned()
        };
        tidegate_testkit::upstream::Behaviour {
            read_body: true,
            steps: vec![tidegate_testkit::upstream::Step::Send(text.into_bytes())],
        }
    })
}

/// Over HTTP/1, chunked where there are trailers.
fn send_http1(client: &mut Client, path: &str, attack: &Attack) {
    let mut text = format!("POST {path} HTTP/1.1\r\nHost: h\r\napikey: k\r\n");
    for name in &attack.fields {
        text += &format!("{name}: {}\r\n", value(name));
    }
    if attack.trailers.is_empty() {
        text += "Content-Length: 2\r\n\r\nok";
    } else {
        text += "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n";
        for name in &attack.trailers {
            text += &format!("{name}: {}\r\n", value(name));
        }
        text += "\r\n";
    }
    let answer = client.request(&text).unwrap_or_else(|error| panic!("{path} {text}: {error}"));
    assert_eq!(answer.status(), 200, "{path}: {text}");
}

/// Over HTTP/2, whose names are lowercase.
fn send_http2(front: std::net::SocketAddr, path: &str, attack: &Attack) {
    let mut client = Http2Client::connect(front, &[]).expect("connects");
    let lower = |names: &[String]| -> Vec<(String, String)> {
        names.iter().map(|name| (name.to_ascii_lowercase(), value(name))).collect()
    };
    let (fields, trailers) = (lower(&attack.fields), lower(&attack.trailers));
    let mut list = vec![("apikey", "k")];
    list.extend(fields.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    client.send(HEADERS, END_HEADERS, 1, &request("POST", path, &list)).expect("sends");
    let last = if trailers.is_empty() { END_STREAM } else { 0 };
    client.send(DATA, last, 1, b"ok").expect("sends");
    if !trailers.is_empty() {
        let block: Vec<u8> = trailers.iter().flat_map(|(name, value)| field(name, value)).collect();
        client.send(HEADERS, END_HEADERS | END_STREAM, 1, &block).expect("sends");
    }
    let head = client.wait_for(HEADERS).unwrap_or_else(|error| panic!("{path} {fields:?}: {error}"));
    assert_eq!(tidegate_testkit::http2::status(&head), Some(200), "{path}: {fields:?} {trailers:?}");
}

fn count(gateway: &Gateway, reason: &str) -> f64 {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text();
    let start = format!("apisix_request_headers_dropped_total{{reason=\"{reason}\"}} ");
    page.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or(0.0)
}

#[test]
fn no_claim_reaches_an_upstream() {
    let (http1, grpc, service) = (Upstream::start(), Recorder::start(), service());
    let gateway = start(&http1, &grpc, &service);
    let mut client = gateway.client();
    let mut sent = 0;
    for guarded in [false, true] {
        let names = OWN.iter().chain(if guarded { &OF_PLUGINS[..] } else { &[] });
        let mut all: Vec<Attack> = names.flat_map(|name| attacks(name)).collect();
        all.extend(framing_attacks());
        let part = if guarded { "guarded" } else { "open" };
        for (number, attack) in all.iter().enumerate() {
            for prefix in ["", "/grpc"] {
                let path = format!("{prefix}/{part}/{number}");
                send_http1(&mut client, &path, attack);
                send_http2(gateway.http, &path, attack);
                sent += 2;
            }
        }
    }
    let mut seen: Vec<(String, Vec<(String, String)>)> = grpc.take();
    for one in http1.take() {
        let mut fields = one.message.headers.clone();
        fields.extend(one.message.trailers.clone());
        seen.push((one.message.target().to_owned(), fields));
    }
    assert_eq!(seen.len(), sent, "every request has arrived");
    let leaks: Vec<_> = seen
        .iter()
        .flat_map(|(path, fields)| fields.iter().map(move |field| (path, field)))
        .filter(|(_, (_, value))| is_spoofed(value))
        .collect();
    assert!(leaks.is_empty(), "{} of {sent} requests: {leaks:?}", leaks.len());
    // What the gateway and its plugins say is there, once.
    for (path, fields) in seen.iter().filter(|(path, _)| path.contains("/guarded/")) {
        for (name, expected) in [
            ("x-consumer-username", "jack"),
            ("x-forwarded-proto", "http"),
            ("x-user", "real"),
            ("x-scope", "all"),
            ("x-role", "admin"),
            ("x-level", "gold"),
            ("x-tenant", "acme"),
            ("x-by-lua", "yes"),
        ] {
            let sign = |c: char| !c.is_ascii_alphanumeric();
            let folded = |found: &str| found.to_ascii_lowercase().replace(sign, "-");
            let values: Vec<&str> = fields
                .iter()
                .filter(|(found, _)| folded(found) == name)
                .map(|(_, value)| value.as_str())
                .collect();
            assert_eq!(values, [expected], "{name} of {path}: {fields:?}");
        }
    }
    for reason in ["identity", "forwarding", "underscored_claim", "plugin", "trailer"] {
        let started = std::time::Instant::now();
        while count(&gateway, reason) == 0.0 {
            assert!(started.elapsed() < tidegate_testkit::PATIENCE, "drops are counted as {reason}");
        }
    }
}

#[test]
fn names_with_signs_that_claim_nothing_pass() {
    let (gateway, _upstream) = echo_gateway(YAML_PROVIDER);
    let text = echoed(
        &gateway,
        "X_Trace: 1\r\nX_Consumers_Only: 2\r\nX~Consumer.Username: 3\r\na_b: 4\r\nX.Trace: 5\r\n",
    );
    for kept in ["X_Trace: 1", "X_Consumers_Only: 2", "a_b: 4"] {
        assert!(text.contains(kept), "{kept} of {text}");
    }
    assert!(!text.contains("X~Consumer") && !text.contains("X.Trace"), "{text}");
    assert_eq!(count(&gateway, "invalid_name"), 1.0);
    assert_eq!(count(&gateway, "underscore"), 0.0, "only names with underscores are counted as such");
}

fn echoed(gateway: &Gateway, fields: &str) -> String {
    let answer = gateway.client().request(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n"));
    answer.expect("an answer").body_text()
}

fn echo_gateway(config: &str) -> (Gateway, Upstream) {
    let upstream = Upstream::start();
    let routes = format!(
        "routes:\n- {{id: 1, uri: /, upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}}}\n",
        upstream.address
    );
    (Gateway::start(config, Some(&routes)), upstream)
}

#[test]
fn names_with_underscores_can_be_refused() {
    let off = YAML_PROVIDER
        .replace("enable_access_log: false", "enable_access_log: false, underscores_in_headers: \"off\"");
    let (gateway, _upstream) = echo_gateway(&off);
    let text = echoed(&gateway, "user_id: 1\r\nuser-id: 2\r\n_: 3\r\nX-Mine: a_b\r\n");
    assert!(text.contains("user-id: 2") && text.contains("X-Mine: a_b"), "{text}");
    assert!(!text.contains("user_id") && !text.contains("_: 3"), "{text}");
    let mut client = Http2Client::connect(gateway.http, &[]).expect("connects");
    client
        .send(HEADERS, END_HEADERS | END_STREAM, 1, &request("GET", "/", &[("user_id", "1"), ("a", "b")]))
        .expect("sends");
    let body = String::from_utf8_lossy(&client.wait_for(DATA).expect("a body").payload).into_owned();
    assert!(body.contains("a: b") && !body.contains("user_id"), "{body}");

    let (gateway, _upstream) = echo_gateway(YAML_PROVIDER);
    assert!(echoed(&gateway, "user_id: 1\r\n").contains("user_id: 1"), "on is the default");
}

#[test]
fn gateways_in_front_say_who_the_client_is() {
    let trusting = YAML_PROVIDER
        .replace("  enable_admin: false\n", "  enable_admin: false\n  trusted_gateways: [127.0.0.1]\n");
    let (gateway, _upstream) = echo_gateway(&trusting);
    let text =
        echoed(&gateway, "X-Consumer-Username: jack\r\nX-Access-Token: t\r\nX_Consumer_Username: x\r\n");
    assert!(text.contains("X-Consumer-Username: jack") && text.contains("X-Access-Token: t"), "{text}");
    assert!(!text.contains("X_Consumer_Username"), "{text}");
}

#[test]
fn what_a_trusted_proxy_leaves_empty_is_filled_in() {
    let trusting = YAML_PROVIDER
        .replace("  enable_admin: false\n", "  enable_admin: false\n  trusted_addresses: [127.0.0.1]\n");
    let (gateway, _upstream) = echo_gateway(&trusting);
    let port = gateway.http.port();
    let cases: &[(&str, &str, Option<&str>)] = &[
        ("X-Forwarded-Proto: \r\n", "X-Forwarded-Proto", Some("http")),
        ("X-Forwarded-Proto: ,\r\n", "X-Forwarded-Proto", Some("http")),
        ("X-Forwarded-Proto: https://\r\n", "X-Forwarded-Proto", Some("http")),
        ("X-Forwarded-Proto: https\r\n", "X-Forwarded-Proto", Some("https")),
        ("X-Forwarded-Proto: https, http\r\n", "X-Forwarded-Proto", Some("https, http")),
        ("X-Forwarded-Host:\r\n", "X-Forwarded-Host", Some("h")),
        ("X-Forwarded-Host: a/b\r\n", "X-Forwarded-Host", Some("h")),
        ("X-Forwarded-Host: shop.example:8443\r\n", "X-Forwarded-Host", Some("shop.example:8443")),
        ("X-Forwarded-Port: \r\n", "X-Forwarded-Port", None),
        ("X-Forwarded-Port: 99999\r\n", "X-Forwarded-Port", None),
        ("X-Forwarded-Port: 8443\r\n", "X-Forwarded-Port", Some("8443")),
        ("X-Forwarded-For: \r\n", "X-Forwarded-For", Some("127.0.0.1")),
        ("X-Forwarded-For: <b>\r\n", "X-Forwarded-For", Some("127.0.0.1")),
        ("X-Forwarded-For: 1.2.3.4\r\n", "X-Forwarded-For", Some("1.2.3.4, 127.0.0.1")),
        ("Forwarded: \r\n", "Forwarded", Some("")),
        ("Forwarded: 1.2.3.4\r\n", "Forwarded", Some("")),
        ("Forwarded: for=1.2.3.4;proto=https\r\n", "Forwarded", Some("for=1.2.3.4;proto=https")),
        ("X-Forwarded-Prefix: \r\n", "X-Forwarded-Prefix", Some("")),
        ("X-Forwarded-Prefix: /a\r\n", "X-Forwarded-Prefix", Some("/a")),
    ];
    for (fields, name, expected) in cases {
        let text = echoed(&gateway, fields);
        let start = format!("{name}:");
        let found: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix(&start)).map(str::trim).collect();
        let own_port = port.to_string();
        // An empty text: the field is not there at all.
        let expected: Vec<&str> = match expected {
            Some("") => Vec::new(),
            Some(value) => vec![value],
            None => vec![&own_port],
        };
        assert_eq!(found, expected, "{fields:?}: {text}");
    }
}
