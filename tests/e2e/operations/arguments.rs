//! Query arguments that nobody knows: a write with one is not carried out, a read says what it did not go by.

use serde_json::json;
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED};
use tidegate_testkit::{Client, Gateway, Message};

fn ask(gateway: &Gateway, method: &str, target: &str, body: &str) -> Message {
    let request = format!(
        "{method} /apisix/admin{target} HTTP/1.1\r\nHost: h\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    Client::connect(gateway.admin).expect("a connection").request(&request).expect("an answer")
}

#[test]
fn a_write_with_an_unknown_argument_writes_nothing() {
    let gateway = Gateway::start(EMBEDDED, None);
    let route = json!({"uri": "/a", "upstream": {"nodes": {"127.0.0.1:1": 1}}}).to_string();
    assert_eq!(ask(&gateway, "PUT", "/routes/1", &route).status(), 201);
    for (method, target, said) in [
        ("PUT", "/routes/2?wiat=applied", "unknown argument wiat; nothing was written; did you mean wait?"),
        ("POST", "/routes?tll=10", "did you mean ttl?"),
        ("DELETE", "/routes/1?forec=true", "did you mean force?"),
        ("DELETE", "/routes/1?force=yes", "invalid argument force: should be true or false"),
        ("PATCH", "/routes/1/uri?x=1", "unknown argument x; nothing was written; there are"),
        ("PUT", "/routes/2?ttl=1&ttl=100", "argument ttl is given twice"),
        ("PUT", "/users/jo?dryrun=1", "unknown argument dryrun"),
        ("PUT", "/import?mod=replace", "did you mean mode?"),
    ] {
        let answer = ask(&gateway, method, target, &route);
        let text = answer.body_text();
        assert!(answer.status() == 400 && text.contains(said), "{method} {target}: {text}");
    }
    assert_eq!(ask(&gateway, "GET", "/routes/1", "").status(), 200);
    assert_eq!(ask(&gateway, "GET", "/routes/2", "").status(), 404);
}

#[test]
fn a_read_says_what_it_does_not_go_by() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (target, said) in [
        ("/routes?nmae=x", "unknown argument nmae; did you mean name?"),
        ("/routes?page=abc&page_size=20", "invalid argument page: should be a number"),
        ("/history?sicne=3", "did you mean since?"),
    ] {
        let answer = ask(&gateway, "GET", target, "");
        let text = answer.body_text();
        assert!(answer.status() == 400 && text.contains(said), "{target}: {text}");
    }
    for (target, said) in [
        (
            "/routes?sort=name",
            "argument sort has no effect; there are page, page_size, search, name, label, uri and filter",
        ),
        ("/routes?page=2", "argument page has no effect without page_size"),
        ("/routes?page=&page_size=20", "argument page is empty and has no effect"),
        ("/routes?filter=nmae%3Dx", "argument filter: it knows service_id=ID and upstream_id=ID"),
        ("/routes?name=%5B", "argument name matches nothing: it is not a regular expression"),
        ("/services?filter=service_id%3D1", "argument filter has no effect"),
        ("/revision?verbose=1", "argument verbose has no effect; there are none"),
        ("/routes?page=1&page_size=10&name=a&label=b&uri=c&filter=service_id%3D1", ""),
        ("/plugins?all=true&subsystem=http", ""),
        ("/revision?api_key=test-admin-key", ""),
    ] {
        let answer = ask(&gateway, "GET", target, "");
        let told = answer.header("X-Tidegate-Warning").unwrap_or_default();
        assert_eq!(answer.status(), 200, "{target}: {}", answer.body_text());
        assert!(if said.is_empty() { told.is_empty() } else { told.contains(said) }, "{target}: {told}");
    }
}
