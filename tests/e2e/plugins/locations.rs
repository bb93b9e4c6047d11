//! Redirects of the gateway's own lead to this site, unless their template names a host: a table of templates, each asked
//! with everything that browsers are known to read as another host.

use http::Request;
use http::uri::{PathAndQuery, Uri};
use serde_json::{Value, json};
use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::YAML_PROVIDER;

use crate::protocols::grpc_peer::runtime;

/// What follows a template's path in requests. `H` stands for the host that must never be reached.
const PAYLOADS: &[&str] = &[
    "/a/b",
    "//H",
    "///H/x",
    "/\\H",
    "\\\\H",
    "\\H",
    "/%5cH",
    "/%5C%5CH",
    "%5c%5cH",
    "/%09/H",
    "%09//H",
    "/%09%5cH",
    "/%0d/H",
    "/%0d%0a/H",
    "/%0aLocation:%20//H",
    "/./\\H",
    "/./%5cH",
    "/.//H",
    "/%2e/%5cH",
    "/x/..//H",
    "%2f%2fH",
    "%2f%5cH",
    "/%2fH",
    "@H",
    "/@H",
    "user@H/",
    "%40H",
    ".H",
    ":80@H",
    ":@H",
    "https://H",
    "HtTpS://H",
    "https:H",
    "hTTp:%5c%5cH",
    "%68ttps://H",
    "/%20//H",
    "?@H",
    "?//H",
    "%3f@H",
    "%23@H",
    ";@H",
];

const EVIL: &str = "evil.example";

/// Prefix of the requests, the plugins, the host that answers may name.
fn templates() -> Vec<(&'static str, Value, Option<&'static str>)> {
    let redirect = |conf: Value| json!({ "redirect": conf });
    let regex = |prefix: &str, with: &str| redirect(json!({"regex_uri": [format!("^{prefix}(.*)"), with]}));
    let header = |value: &str| json!({"fault-injection": {"abort": {"http_status": 302, "headers": {"Location": value}}}});
    let rewritten = |value: &str| {
        json!({"fault-injection": {"abort": {"http_status": 200, "body": "x"}},
               "response-rewrite": {"status_code": 302, "headers": {"set": {"LOCATION": value}}}})
    };
    let mocked = |value: &str| json!({"mocking": {"response_status": 302, "response_example": "x", "response_headers": {"location": value}}});
    vec![
        ("/rx", regex("/rx/", "/$1"), None),
        ("/raw", regex("/raw", "$1"), None),
        ("/raw2", regex("/raw2/", "$1"), None),
        ("/twice", regex("/twice", "/$1/$1"), None),
        ("/nothing", regex("/nothing(x?)", "/$1$2"), None),
        ("/app", regex("/app", "next$1"), None),
        ("/uri", redirect(json!({"uri": "$uri"})), None),
        ("/uri-slash", redirect(json!({"uri": "/$uri"})), None),
        ("/request-uri", redirect(json!({"uri": "$request_uri"})), None),
        ("/real", redirect(json!({"uri": "$real_request_uri"})), None),
        ("/encoded", redirect(json!({"regex_uri": ["^/encoded/?(.*)", "/$1"], "encode_uri": true})), None),
        ("/query", redirect(json!({"uri": "$arg_next", "append_query_string": true})), None),
        ("/query-slash", redirect(json!({"uri": "/$arg_next"})), None),
        ("/scheme", redirect(json!({"uri": "https:$uri"})), None),
        ("/argument-host", redirect(json!({"uri": "https://$arg_next/"})), None),
        ("/header", header("$arg_next"), None),
        ("/header-slash", header("/${arg_next}"), None),
        ("/mocked", mocked("$arg_next"), None),
        ("/rewritten", rewritten("/$arg_next"), None),
        ("/to-https", redirect(json!({"http_to_https": true})), Some("h")),
        ("/same-host", redirect(json!({"uri": "https://$host$uri"})), Some("h")),
        ("/other", regex("/other", "https://example.org$1"), Some("example.org")),
        ("/other-slash", regex("/other-slash/?", "https://example.org/$1"), Some("example.org")),
        ("/other-port", regex("/other-port", "https://example.org:8443$1"), Some("example.org")),
        ("/relative-scheme", regex("/relative-scheme", "//example.org$1"), Some("example.org")),
        ("/tenant", redirect(json!({"uri": "https://$arg_next.example.org/"})), Some(".example.org")),
    ]
}

fn gateway() -> Gateway {
    let routes: Vec<Value> = templates()
        .into_iter()
        .enumerate()
        .map(|(id, (prefix, plugins, _))| {
            json!({"id": format!("r{id}"), "uris": [prefix, format!("{prefix}*")], "plugins": plugins,
                   "priority": prefix.len()})
        })
        .collect();
    Gateway::start(YAML_PROVIDER, Some(&json!({ "routes": routes }).to_string()))
}

/// Each target with the host that it may lead to.
fn targets() -> Vec<(String, Option<&'static str>)> {
    let mut targets = Vec::new();
    for (prefix, _, allowed) in templates() {
        for payload in PAYLOADS {
            let payload = payload.replace('H', EVIL);
            targets.push((format!("{prefix}{payload}"), allowed));
            targets.push((format!("{prefix}/{payload}"), allowed));
            targets.push((format!("{prefix}?next={}", payload.replace('?', "%3f")), allowed));
        }
    }
    targets
}

/// The host that a browser goes to, coming from this site (WHATWG URL: what it skips, and what it takes for a slash).
fn host(location: &str) -> Option<String> {
    let seen: String = location
        .trim_matches(|c: char| c <= ' ')
        .chars()
        .filter(|c| !matches!(c, '\t' | '\r' | '\n'))
        .map(|c| if c == '\\' { '/' } else { c })
        .collect();
    let lower = seen.to_ascii_lowercase();
    let rest = match ["http:", "https:"].iter().find_map(|scheme| lower.strip_prefix(scheme)) {
        Some(rest) => rest.trim_start_matches('/'),
        None => match lower.strip_prefix("//") {
            Some(rest) => rest.trim_start_matches('/'),
            // Another scheme leaves, too.
            None => {
                let first = lower.split(['/', '?', '#']).next().unwrap_or_default();
                return first.contains(':').then(|| lower.clone());
            }
        },
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    Some(host.split(':').next().unwrap_or_default().to_owned())
}

fn stays(location: &str, allowed: Option<&str>) -> bool {
    match (host(location), allowed) {
        (None, _) => true,
        (Some(host), Some(allowed)) => match allowed.starts_with('.') {
            true => host.ends_with(allowed) && !host.contains('%'),
            false => host == allowed,
        },
        (Some(_), None) => false,
    }
}

#[test]
fn the_judge_of_this_table_is_awake() {
    for location in
        ["//e", "/\\e", "\\\\e", "/\t/e", "\n//e", "https:e", "HTTPS:///e", "javascript:e", " //e", "//h@e"]
    {
        assert!(!stays(location, None) && !stays(location, Some("h")), "{location:?}");
    }
    for location in ["/e", "/%5Ce", "e/f:g", "?//e", "https://h/@e", "//h", "/x//e", "./a:b"] {
        assert!(stays(location, Some("h")), "{location:?}");
    }
    assert!(stays("https://a.example.org/", Some(".example.org")));
    assert!(!stays("https://e/.example.org/", Some(".example.org")));
}

#[test]
fn over_http1() {
    let gateway = gateway();
    let mut redirects = 0;
    let mut wrong = Vec::new();
    for (target, allowed) in targets() {
        // Bytes of the target are as they stand: the head is not looked at by a library.
        let answer = gateway.client().get("h", &target).unwrap_or_else(|error| panic!("{target}: {error}"));
        match answer.header("Location") {
            Some(location) if answer.count("Location") != 1 || !stays(location, allowed) => {
                wrong.push(format!("{target}: {location:?}"));
            }
            location => redirects += usize::from(location.is_some()),
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(redirects > 1500, "only {redirects} redirects");
}

#[test]
fn over_http2() {
    let gateway = gateway();
    let mut redirects = 0;
    let mut wrong = Vec::new();
    runtime().block_on(async {
        let stream = tokio::net::TcpStream::connect(gateway.http).await.expect("connects");
        let (mut send, connection) = h2::client::handshake(stream).await.expect("shakes hands");
        tokio::spawn(connection);
        for (target, allowed) in targets() {
            let path = PathAndQuery::try_from(target.as_str()).expect("a path");
            let uri =
                Uri::builder().scheme("http").authority("h").path_and_query(path).build().expect("a URI");
            // A fragment is never sent.
            assert_eq!(uri.path_and_query().map(PathAndQuery::as_str), Some(target.as_str()));
            send = send.ready().await.expect("ready");
            let request = Request::get(uri).body(()).expect("a request");
            let (answer, _) = send.send_request(request, true).expect("sent");
            let answer = answer.await.unwrap_or_else(|error| panic!("{target}: {error}"));
            let locations: Vec<_> = answer.headers().get_all("location").iter().collect();
            redirects += locations.len();
            for location in locations {
                let location = String::from_utf8_lossy(location.as_bytes());
                if !stays(&location, allowed) {
                    wrong.push(format!("{target}: {location:?}"));
                }
            }
        }
    });
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(redirects > 1500, "only {redirects} redirects");
}

/// What redirects are for still works.
#[test]
fn the_usual_redirects_are_as_before() {
    let gateway = gateway();
    for (target, expected) in [
        ("/rx/a/b", "/a/b"),
        ("/raw/a/b", "/a/b"),
        ("/to-https/a?b=c", "https://h/to-https/a?b=c"),
        ("/same-host/a", "https://h/same-host/a"),
        ("/other/a", "https://example.org/a"),
        ("/other-port/a", "https://example.org:8443/a"),
        ("/tenant?next=shop", "https://shop.example.org/"),
        ("/header?next=/a%3fb=c", "/a?b=c"),
        ("/app/a", "next/a"),
    ] {
        let answer = gateway.client().get("h", target).expect("an answer");
        assert_eq!(answer.header("Location"), Some(expected), "{target}: {}", answer.status());
    }
    // The client would name the host.
    assert_eq!(gateway.client().get("h", "/argument-host?next=a.example").expect("an answer").status(), 400);
}
