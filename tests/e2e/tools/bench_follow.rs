//! `tidegate bench --follow` and `--cookies`: what is asked for next, with which cookies, and what is counted.

use serde_json::json;
use tidegate_testkit::{Behaviour, Gateway, Seen, Step, Upstream, gateway::YAML_PROVIDER};

use super::bench::{bench, outcome, url};

/// `/from` leads over `/a/b` to `/a/end`; `/loop` to itself; `/away` elsewhere; `/braces` to what would be a template;
/// `/login` sets cookies and leads to `/home`; `/closing` leads to `/a/end` and closes.
fn server() -> Upstream {
    Upstream::with(|request| {
        let redirect = |status: u16, location: &str, more: &str| {
            format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\n{more}Content-Length: 2\r\n\r\nno")
        };
        let host = request.header("host").unwrap_or_default().to_owned();
        let text = match request.target() {
            "/from" => redirect(302, &format!("http://{host}/a/b?c=d#top"), ""),
            "/a/b?c=d" => redirect(307, "./end", ""),
            "/loop" => redirect(301, "/loop", ""),
            "/away" => redirect(302, "http://other.test/", ""),
            "/braces" => redirect(302, "/{{seq}}", ""),
            "/bad" => redirect(302, "/a b", ""),
            "/closing" => redirect(302, "/a/end", "Connection: close\r\n"),
            "/login" => {
                redirect(303, "/home", "Set-Cookie: id=7; Path=/\r\nSet-Cookie: no=1; Path=/other\r\n")
            }
            _ => "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood".to_owned(),
        };
        let closes = text.contains("Connection: close");
        let mut steps = vec![Step::Send(text.into_bytes())];
        steps.extend(closes.then_some(Step::Close));
        Behaviour { read_body: true, steps }
    })
}

fn asked(seen: &[Seen]) -> Vec<String> {
    seen.iter().map(|seen| format!("{} {}", seen.message.method(), seen.message.target())).collect()
}

#[test]
fn a_visit_goes_where_redirects_lead() {
    let server = server();
    let words = ["--follow", "-c", "1", "--body", "x={{seq}}"];
    let found = outcome(&[&[url(&server, "/from").as_str(), "-n", "2"], &words[..]].concat());
    assert_eq!((&found["requests"], &found["failures"]), (&json!(2), &json!([])), "{}", found["messages"]);
    assert_eq!(found["statuses"], json!([[200, 2]]));
    assert_eq!(found["visits"], json!({"redirects": 4, "elsewhere": 0, "cookies": 0}));
    // 302 makes a GET of a POST; what varies goes on from visit to visit.
    let seen = server.take();
    let visit = ["POST /from", "GET /a/b?c=d", "GET /a/end"];
    assert_eq!(asked(&seen), [visit, visit].concat());
    assert!(seen[0].text().ends_with("x=0") && seen[3].text().ends_with("x=1"), "{}", seen[3].text());
    assert!(!seen[1].text().to_lowercase().contains("content-length"), "{}", seen[1].text());
    // What a server sends is never a template.
    let run = bench(&[&url(&server, "/braces"), "--follow", "-n", "1", "-c", "1"]);
    assert_eq!(
        (run.code, asked(&server.take())),
        (Some(0), vec!["GET /braces".into(), "GET /{{seq}}".into()])
    );
    assert!(run.out.contains("  redirects   1 followed, 0 to other servers were not\n"), "{}", run.out);
    // A server that closes is connected to again.
    let found = outcome(&[&url(&server, "/closing"), "--follow", "-n", "6", "-c", "2"]);
    assert_eq!((&found["requests"], &found["failures"]), (&json!(6), &json!([])), "{}", found["messages"]);
    let found = outcome(&[&url(&server, "/from"), "--follow", "-R", "100", "-n", "20", "-c", "2"]);
    assert_eq!((&found["corrected"]["count"], &found["visits"]["redirects"]), (&json!(20), &json!(40)));
}

#[test]
fn redirects_end() {
    let server = server();
    let found = outcome(&[&url(&server, "/loop"), "--follow", "-n", "2", "-c", "1"]);
    assert_eq!((&found["failures"], &found["visits"]["redirects"]), (&json!([["redirects", 2]]), &json!(20)));
    assert_eq!(server.take().len(), 22);
    let run = bench(&[&url(&server, "/loop"), "--follow", "-n", "1", "-c", "1"]);
    assert!(run.err.contains("redirects: more than 10 in a row"), "{}", run.err);
    server.take();
    // Another server is not asked: the redirect is the answer.
    let found = outcome(&[&url(&server, "/away"), "--follow", "-n", "3", "-c", "1"]);
    assert_eq!((&found["statuses"], &found["visits"]["elsewhere"]), (&json!([[302, 3]]), &json!(3)));
    let found = outcome(&[&url(&server, "/bad"), "--follow", "-n", "1", "-c", "1"]);
    assert_eq!(found["messages"], json!([["malformed: a Location that is not a URL", 1]]));
    // Without the flag nothing is followed.
    server.take();
    let found = outcome(&[&url(&server, "/from"), "--cookies", "-n", "1", "-c", "1"]);
    assert_eq!((&found["statuses"], asked(&server.take())), (&json!([[302, 1]]), vec!["GET /from".into()]));
}

#[test]
fn each_connection_has_a_jar() {
    let server = server();
    let found = outcome(&[&url(&server, "/login"), "--cookies", "--follow", "-n", "4", "-c", "2", "-t", "1"]);
    assert_eq!(
        (&found["requests"], &found["visits"]["cookies"]),
        (&json!(4), &json!(8)),
        "{}",
        found["messages"]
    );
    let seen = server.take();
    let cookie = |seen: &Seen| seen.message.header("cookie").map(str::to_owned);
    let connections: std::collections::BTreeSet<usize> = seen.iter().map(|seen| seen.connection).collect();
    assert_eq!(connections.len(), 2);
    for connection in connections {
        let cookies: Vec<_> = seen.iter().filter(|seen| seen.connection == connection).map(cookie).collect();
        assert_eq!(cookies.first(), Some(&None), "nothing was set yet");
        assert!(cookies.iter().skip(1).all(|one| one.as_deref() == Some("id=7")), "{cookies:?}");
    }
    let check = |words: &[&str], reason: &str| {
        let run = bench(&[&[url(&server, "/login").as_str(), "-n", "1"], words].concat());
        assert_eq!((run.code, run.err.contains(reason)), (Some(2), true), "{words:?}: {}", run.err);
    };
    check(&["--cookies", "-H", "Cookie: a=b"], "both write that field");
    for flag in ["--no-keepalive", "--sse", "--grpc"] {
        check(&["--follow", flag], "cannot be used with");
    }
    assert_eq!(server.take().len(), 0);
}

#[test]
fn visits_go_over_http2_as_well() {
    let server = server();
    let upstream = format!("upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}}}", server.address);
    let routes = format!("routes:\n- {{id: all, uri: /*, {upstream}}}\n");
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    let at = |path: &str| format!("http://{}{path}", gateway.http);
    let found = outcome(&[&at("/from"), "--http2", "--follow", "-n", "2", "-c", "1", "--body", "x={{seq}}"]);
    assert_eq!((&found["requests"], &found["failures"]), (&json!(2), &json!([])), "{}", found["messages"]);
    assert_eq!((&found["protocol"], &found["visits"]["redirects"]), (&json!("HTTP/2"), &json!(4)));
    let seen = server.take();
    let visit = ["POST /from", "GET /a/b?c=d", "GET /a/end"];
    assert_eq!(asked(&seen), [visit, visit].concat());
    assert!(seen[3].text().ends_with("x=1"), "{}", seen[3].text());
    let found =
        outcome(&[&at("/login"), "--http2", "--cookies", "--follow", "-n", "4", "-c", "2", "-t", "1"]);
    assert_eq!(
        (&found["requests"], &found["visits"]["cookies"]),
        (&json!(4), &json!(8)),
        "{}",
        found["messages"]
    );
    // A server that ends its connections after some streams is connected to again.
    let port = tidegate_testkit::free_port();
    let _nginx = tidegate_testkit::servers::nginx(&format!(
        "listen 127.0.0.1:{port} http2; keepalive_requests 3; location / {{ return 200 good; }}"
    ));
    let url = format!("http://127.0.0.1:{port}/");
    let found = outcome(&[&url, "--http2", "--cookies", "-n", "20", "-c", "2"]);
    assert_eq!((&found["requests"], &found["failures"]), (&json!(20), &json!([])), "{}", found["messages"]);
}
