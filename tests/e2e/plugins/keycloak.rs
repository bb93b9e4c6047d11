//! authz-keycloak with a server that speaks Keycloak's protocol: tokens, discovery, resources and decisions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Gateway, Message, Upstream};

/// The teacher may view and delete, the student may view; other tokens make it answer in other ways.
fn keycloak() -> Upstream {
    let made = Arc::new(AtomicUsize::new(0));
    Upstream::service(move |request| {
        let base = format!("http://{}", request.header("Host").unwrap_or_default());
        let form = request.body_text();
        let field = |name: &str| {
            let pairs = form.split('&').filter_map(|pair| pair.split_once('='));
            pairs.filter(|(key, _)| *key == name).map(|(_, value)| value.to_owned()).collect::<Vec<_>>()
        };
        let (path, query) = request.target().split_once('?').unwrap_or((request.target(), ""));
        let refused = |status: u16, error: &str| (status, json!({ "error": error }).to_string());
        match path {
            "/.well-known" => {
                let document = json!({"token_endpoint": format!("{base}/token"),
                                      "resource_registration_endpoint": format!("{base}/resources")});
                (200, document.to_string())
            }
            "/poor" => (200, json!({"token_endpoint": format!("{base}/token")}).to_string()),
            "/broken" => (200, "<html>".to_owned()),
            "/resources" => {
                match request.header("Authorization").unwrap_or_default().strip_prefix("Bearer own-") {
                    None => refused(401, "invalid_token"),
                    Some(_) if query.contains("course") => (200, json!(["course"]).to_string()),
                    Some(_) if query.contains("odd") => (200, json!({"id": "course"}).to_string()),
                    Some(_) => (200, "[]".to_owned()),
                }
            }
            _ => match field("grant_type").first().map(String::as_str) {
                Some("client_credentials") => {
                    let number = made.fetch_add(1, Ordering::SeqCst);
                    // One that runs out at once, with a refresh token that is good.
                    let expires = if number == 0 { 0 } else { 300 };
                    let token = json!({"access_token": format!("own-{number}"), "expires_in": expires,
                                       "refresh_token": "refresh", "refresh_expires_in": 1800});
                    (200, token.to_string())
                }
                Some("refresh_token") if field("refresh_token") == ["refresh"] => {
                    (200, json!({"access_token": "own-again", "expires_in": 300}).to_string())
                }
                Some("password") => match (field("username").first(), field("password").first()) {
                    (Some(user), Some(_)) if user == "teacher%40a" => {
                        (200, json!({"access_token": "teacher"}).to_string())
                    }
                    (Some(user), _) if user == "odd" => (200, "<html>".to_owned()),
                    _ => refused(401, "invalid_grant"),
                },
                _ => match request.header("Authorization").unwrap_or_default() {
                    "Bearer teacher" => (200, json!({"result": true}).to_string()),
                    "Bearer student" if form.contains("DELETE") => refused(403, "access_denied"),
                    "bearer student" | "Bearer student" => (200, json!({"result": true}).to_string()),
                    "Bearer no" => (200, json!({"result": false}).to_string()),
                    "Bearer odd" => (200, json!({"result": "true"}).to_string()),
                    "Bearer html" => (200, "<html>".to_owned()),
                    "Bearer empty" => (204, String::new()),
                    "Bearer moved" => (302, String::new()),
                    "Bearer failed" => refused(500, "server_error"),
                    "Bearer unknown-resource" => refused(400, "invalid_resource"),
                    _ => refused(401, "invalid_token"),
                },
            },
        }
    })
}

struct Scene {
    gateway: Gateway,
    keycloak: Upstream,
    upstream: Upstream,
}

fn scene() -> Scene {
    let (keycloak, upstream) = (keycloak(), Upstream::start());
    let at = |path: &str| format!("http://{}{path}", keycloak.address);
    let token = at("/token");
    let confs = [
        ("static", json!({"token_endpoint": token, "permissions": ["course#view", "other"]})),
        (
            "scopes",
            json!({"token_endpoint": token, "permissions": ["course#view", "other"], "http_method_as_scope": true}),
        ),
        ("none", json!({"token_endpoint": token})),
        ("permissive", json!({"token_endpoint": token, "policy_enforcement_mode": "PERMISSIVE"})),
        (
            "sent",
            json!({"token_endpoint": token, "permissions": ["a"], "access_denied_redirect_uri": "https://a.test/no"}),
        ),
        ("sent-none", json!({"token_endpoint": token, "access_denied_redirect_uri": "https://a.test/no"})),
        (
            "lazy",
            json!({"discovery": at("/.well-known"), "lazy_load_paths": true, "http_method_as_scope": true, "client_secret": "s&"}),
        ),
        ("poor", json!({"discovery": at("/poor"), "lazy_load_paths": true})),
        ("broken", json!({"discovery": at("/broken"), "permissions": ["a"]})),
        ("away", json!({"token_endpoint": "http://127.0.0.1:1/", "permissions": ["a"]})),
        ("discovery-away", json!({"discovery": "http://127.0.0.1:1/", "permissions": ["a"]})),
        (
            "login",
            json!({"token_endpoint": token, "permissions": ["a"], "client_secret": "s", "max_req_body_size": 100,
                   "password_grant_token_generation_incoming_uri": "/login/token"}),
        ),
        (
            "login-away",
            json!({"token_endpoint": "http://127.0.0.1:1/", "permissions": ["a"],
                   "password_grant_token_generation_incoming_uri": "/login-away/token"}),
        ),
    ];
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let routes: Vec<Value> = confs
        .into_iter()
        .map(|(name, mut conf)| {
            conf["client_id"] = json!("course_management");
            json!({"id": name, "uri": format!("/{name}/*"), "plugins": {"authz-keycloak": conf}, "upstream": target})
        })
        .collect();
    let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({ "routes": routes }).to_string()));
    Scene { gateway, keycloak, upstream }
}

impl Scene {
    fn send(&self, method: &str, target: &str, fields: &str, body: &str) -> Message {
        let length = body.len();
        let text = format!(
            "{method} {target} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
        );
        self.gateway.client().request(&text).unwrap_or_else(|error| panic!("{target}: {error}"))
    }

    fn ask(&self, method: &str, target: &str, token: &str) -> Message {
        self.send(method, target, &format!("Authorization: Bearer {token}\r\n"), "")
    }

    /// The bodies of questions for a decision.
    fn decisions(&self) -> Vec<String> {
        let asked = self.keycloak.take().into_iter().map(|seen| seen.message.body_text());
        asked.filter(|body| body.contains("response_mode")).collect()
    }
}

const DENIED: &str = r#"{"error":"access_denied","error_description":"not_authorized"}"#;

#[test]
fn decisions() {
    let scene = scene();
    let invalid = r#"{"error":"invalid_token"}"#;
    for (target, token, status, body) in [
        ("/static/x", "teacher", 200, None),
        ("/static/x", "student", 200, None),
        ("/static/x", "stranger", 401, Some(invalid)),
        ("/static/x", "no", 403, Some(r#"{"result":false}"#)),
        ("/static/x", "unknown-resource", 400, Some(r#"{"error":"invalid_resource"}"#)),
        ("/static/x", "failed", 500, Some(r#"{"error":"server_error"}"#)),
        ("/static/x", "odd", 503, None),
        ("/static/x", "html", 503, None),
        ("/static/x", "empty", 503, None),
        ("/static/x", "moved", 503, None),
        ("/none/x", "teacher", 403, Some(DENIED)),
        ("/permissive/x", "teacher", 200, None),
        ("/permissive/x", "stranger", 401, Some(invalid)),
        ("/sent/x", "no", 307, None),
        ("/sent/x", "stranger", 401, Some(invalid)),
        ("/sent-none/x", "teacher", 307, None),
        ("/away/x", "teacher", 503, None),
        ("/discovery-away/x", "teacher", 503, None),
        ("/broken/x", "teacher", 503, None),
        ("/poor/x", "teacher", 503, Some("Unable to determine registration endpoint.")),
    ] {
        scene.upstream.take();
        let answer = scene.ask("GET", target, token);
        assert_eq!(answer.status(), status, "{target} {token}: {answer:?}");
        if let Some(body) = body {
            assert_eq!(answer.body_text(), body, "{target} {token}");
        }
        let location = (status == 307).then_some("https://a.test/no");
        assert_eq!(answer.header("Location"), location, "{target} {token}");
        assert_eq!(scene.upstream.take().len(), usize::from(status == 200), "{target} {token}");
    }
}

#[test]
fn tokens_of_clients() {
    let scene = scene();
    let missing = "{\"message\":\"Missing JWT token in request\"}\n";
    for (fields, status) in
        [("", 401), ("Authorization: teacher\r\n", 200), ("Authorization: bearer student\r\n", 200)]
    {
        let answer = scene.send("GET", "/static/x", fields, "");
        assert_eq!(answer.status(), status, "{fields}");
        assert!(status == 200 || answer.body_text() == missing, "{answer:?}");
    }
}

#[test]
fn permissions() {
    let scene = scene();
    let form = |permissions: &str| {
        format!(
            "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Auma-ticket&audience=course_management&response_mode=decision{permissions}"
        )
    };
    scene.ask("GET", "/static/x", "teacher");
    assert_eq!(scene.decisions(), [form("&permission=course%23view&permission=other")]);
    for method in ["GET", "GET", "DELETE"] {
        scene.ask(method, "/scopes/x", "teacher");
        let expected = form(&format!("&permission=course%23view%2C%20{method}&permission=other%23{method}"));
        assert_eq!(scene.decisions(), [expected], "methods do not pile up");
    }
    scene.ask("GET", "/permissive/x", "teacher");
    assert_eq!(scene.decisions(), [form("")]);
}

#[test]
fn resources_of_paths() {
    let scene = scene();
    for (method, target, token, status) in [
        ("GET", "/lazy/course?x=1", "teacher", 200),
        ("GET", "/lazy/course", "student", 200),
        ("DELETE", "/lazy/course", "student", 403),
        ("DELETE", "/lazy/course", "teacher", 200),
        ("GET", "/lazy/other", "teacher", 403),
        ("GET", "/lazy/odd", "teacher", 503),
    ] {
        assert_eq!(scene.ask(method, target, token).status(), status, "{method} {target} {token}");
    }
    let asked = scene.keycloak.take();
    let count = |what: &str| asked.iter().filter(|seen| seen.text().contains(what)).count();
    assert_eq!(count("GET /.well-known"), 1, "read once");
    assert_eq!(count("grant_type=client_credentials&client_id=course_management&client_secret=s%26"), 1);
    assert_eq!(count("grant_type=refresh_token"), 1, "the first one ran out at once");
    assert_eq!(count("Bearer own-again"), 5, "then it is kept");
    let first =
        asked.iter().find(|seen| seen.message.target().starts_with("/resources")).expect("a question");
    assert_eq!(first.message.target(), "/resources?matchingUri=true&uri=%2Flazy%2Fcourse");
    assert_eq!(count("permission=course%23DELETE"), 2);
}

#[test]
fn users_who_ask_for_tokens() {
    let scene = scene();
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let message = |text: &str| format!("{{\"message\":\"{text}\"}}\n");
    let undecoded = message("Could not decode JSON from response.");
    for (target, fields, body, status, said) in [
        (
            "/login/token",
            form,
            "username=teacher%40a&password=p",
            200,
            r#"{"access_token":"teacher"}"#.to_owned(),
        ),
        ("/login/token", form, "username=stranger&password=p", 401, undecoded.clone()),
        ("/login/token", form, "username=odd&password=p", 401, undecoded),
        ("/login/token", form, "password=p", 422, message("username is missing.")),
        ("/login/token", form, "username=a", 422, message("password is missing.")),
        (
            "/login-away/token",
            form,
            "username=a&password=p",
            401,
            message("Accessing token endpoint URL failed."),
        ),
        ("/login/token", "", "username=a&password=p", 401, message("Missing JWT token in request")),
        ("/login/token?x=1", form, "username=a&password=p", 401, message("Missing JWT token in request")),
    ] {
        let answer = scene.send("POST", target, fields, body);
        assert_eq!((answer.status(), answer.body_text()), (status, said), "{target} {body}");
    }
    for body in ["", &"x".repeat(101)] {
        assert_eq!(scene.send("POST", "/login/token", form, body).status(), 503);
    }
    assert!(scene.upstream.seen().is_empty());
    let asked = scene.keycloak.take();
    assert_eq!(
        asked[0].message.body_text(),
        "grant_type=password&client_id=course_management&client_secret=s&username=teacher%40a&password=p"
    );
}

#[test]
fn what_cannot_be_asked_is_refused_when_it_is_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    for more in [
        json!({"token_endpoint": "keycloak"}),
        json!({"discovery": "ftp://keycloak"}),
        json!({}),
        json!({"token_endpoint": "http://k/", "lazy_load_paths": true}),
        json!({"token_endpoint": "http://k/", "access_denied_redirect_uri": "a\r\nX: b"}),
    ] {
        let mut conf = json!({"client_id": "c"});
        for (name, value) in more.as_object().expect("fields") {
            conf[name] = value.clone();
        }
        let route = json!({"uri": "/x", "plugins": {"authz-keycloak": conf}}).to_string();
        let (status, answer) = gateway.admin("PUT", "/apisix/admin/routes/1", &route);
        assert_eq!(status, 400, "{more}: {answer}");
    }
}
