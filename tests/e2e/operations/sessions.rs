//! Signing in to the console: sessions, users, roles, and what attackers try.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED};
use tidegate_testkit::{Client, Etcd, Gateway, Message, eventually};

const ROUTE: &str = r#"{"uri":"/a","plugins":{"mocking":{"response_status":200,"response_example":"x"}}}"#;
const PASSWORD: &str = "correct horse battery";

pub(super) fn start() -> Gateway {
    start_with("{name: guest, key: test-viewer-key, role: viewer}")
}

/// With this entry of `admin_key` beside the admin's.
pub(super) fn start_with(key: &str) -> Gateway {
    let keys = format!("role: admin}}, {key}]");
    let mut gateway = Gateway::start(&EMBEDDED.replace("role: admin}]", &keys), None);
    gateway.process.wait_for_port(gateway.admin);
    gateway
}

pub(super) fn send(at: SocketAddr, method: &str, path: &str, fields: &str, body: &str) -> Message {
    let mut client = Client::connect(at).expect("connected");
    let length = body.len();
    let request = format!(
        "{method} /apisix/admin{path} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    );
    client.request(&request).expect("a response")
}

fn json_of(message: &Message) -> Value {
    serde_json::from_slice(&message.body).expect("JSON")
}

/// What a page has after signing in.
pub(super) struct Session {
    admin: SocketAddr,
    /// Name and value.
    cookie: String,
    csrf: String,
}

impl Session {
    pub(super) fn begin(gateway: &Gateway, shown: &Value) -> Session {
        let response = send(gateway.admin, "POST", "/sessions", "", &shown.to_string());
        assert_eq!(response.status(), 201, "{}", response.body_text());
        let cookie = response.header("set-cookie").expect("a cookie");
        assert!(cookie.contains("; HttpOnly; SameSite=Strict; Path=/apisix/admin"), "{cookie}");
        let cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        let csrf = json_of(&response)["csrf"].as_str().expect("a token").to_owned();
        Session { admin: gateway.admin, cookie, csrf }
    }

    pub(super) fn of_user(gateway: &Gateway, name: &str) -> Session {
        Session::begin(gateway, &json!({"user": name, "password": PASSWORD}))
    }

    pub(super) fn send(&self, method: &str, path: &str, body: &str) -> Message {
        let fields = format!("Cookie: {}\r\nX-CSRF-Token: {}\r\n", self.cookie, self.csrf);
        send(self.admin, method, path, &fields, body)
    }
}

pub(super) fn as_admin(gateway: &Gateway, method: &str, path: &str, body: &str) -> Message {
    send(gateway.admin, method, path, &format!("X-API-KEY: {ADMIN_KEY}\r\n"), body)
}

pub(super) fn add_user(gateway: &Gateway, name: &str, role: &str) {
    let user = json!({"role": role, "password": PASSWORD});
    let response = as_admin(gateway, "PUT", &format!("/users/{name}"), &user.to_string());
    assert_eq!(response.status(), 201, "{}", response.body_text());
}

#[test]
fn a_session_is_what_its_key_is() {
    let gateway = start();
    let session = Session::begin(&gateway, &json!({"key": ADMIN_KEY}));
    let current = json_of(&session.send("GET", "/sessions/current", ""));
    assert_eq!((&current["name"], &current["role"]), (&json!("admin"), &json!("admin")));
    assert_eq!(current["csrf"], json!(session.csrf), "a page that is loaded again goes on");
    assert_eq!(session.send("PUT", "/routes/1", ROUTE).status(), 201);
    assert_eq!(session.send("GET", "/routes/1", "").status(), 200);
    let viewer = Session::begin(&gateway, &json!({"key": "test-viewer-key"}));
    assert_eq!(viewer.send("GET", "/routes/1", "").status(), 200);
    let refused = viewer.send("PUT", "/routes/1", ROUTE);
    assert_eq!(
        (refused.status(), &json_of(&refused)["remedy"]),
        (401, &json!("a change needs role editor or admin"))
    );
    let by_key = send(gateway.admin, "GET", "/sessions/current", "X-API-KEY: test-viewer-key\r\n", "");
    assert_eq!((&json_of(&by_key)["role"], &json_of(&by_key)["csrf"]), (&json!("viewer"), &Value::Null));
    let gone = session.send("DELETE", "/sessions/current", "");
    assert!(
        gone.status() == 204 && gone.header("set-cookie").is_some_and(|cookie| cookie.contains("Max-Age=0"))
    );
    assert_eq!(session.send("GET", "/routes/1", "").status(), 401);
    assert_eq!(viewer.send("GET", "/routes/1", "").status(), 200, "others stay");
}

#[test]
fn what_another_page_sends_changes_nothing() {
    let gateway = start();
    let session = Session::begin(&gateway, &json!({"key": ADMIN_KEY}));
    let cookie = format!("Cookie: {}\r\n", session.cookie);
    for (method, path, body) in [
        ("PUT", "/routes/1", ROUTE),
        ("POST", "/routes", ROUTE),
        ("DELETE", "/sessions", ""),
        ("PATCH", "/routes/1", "{}"),
        // Other ports of the host get the cookie too: alone it reads nothing.
        ("GET", "/routes", ""),
        ("GET", "/sessions/current", ""),
    ] {
        for token in ["", "X-CSRF-Token: \r\n", "X-CSRF-Token: x\r\n"] {
            let response = send(gateway.admin, method, path, &format!("{cookie}{token}"), body);
            assert_eq!(response.status(), 403, "{method} {path} {token}");
            assert_eq!(json_of(&response)["error_msg"], "missing or wrong CSRF token");
        }
    }
    let other = Session::begin(&gateway, &json!({"key": ADMIN_KEY}));
    let mixed = format!("{cookie}X-CSRF-Token: {}\r\n", other.csrf);
    assert_eq!(send(gateway.admin, "PUT", "/routes/1", &mixed, ROUTE).status(), 403, "of another session");
    for site in ["cross-site", "same-site"] {
        let fields = format!("{cookie}X-CSRF-Token: {}\r\nSec-Fetch-Site: {site}\r\n", session.csrf);
        assert_eq!(send(gateway.admin, "GET", "/routes", &fields, "").status(), 403, "{site}");
    }
    let fields = format!("{cookie}X-CSRF-Token: {}\r\nSec-Fetch-Site: same-origin\r\n", session.csrf);
    assert_eq!(send(gateway.admin, "GET", "/routes", &fields, "").status(), 200);
    assert_eq!(as_admin(&gateway, "GET", "/routes/1", "").status(), 404);
}

#[test]
fn nobody_signs_in_to_a_session_that_was_there() {
    let gateway = start();
    let of_gateway = Session::begin(&gateway, &json!({"key": "test-viewer-key"})).cookie;
    let (name, _) = of_gateway.split_once('=').expect("a name");
    let planted = &format!("Cookie: {name}=chosen-by-an-attacker\r\n");
    let shown = json!({"key": ADMIN_KEY}).to_string();
    let response = send(gateway.admin, "POST", "/sessions", planted, &shown);
    assert_eq!(response.status(), 201);
    assert!(!response.header("set-cookie").unwrap_or_default().contains("chosen"));
    assert_eq!(send(gateway.admin, "GET", "/routes", planted, "").status(), 401);
    let attacker = Session::begin(&gateway, &json!({"key": "test-viewer-key"}));
    let planted = format!("Cookie: {}\r\n", attacker.cookie);
    let response = send(gateway.admin, "POST", "/sessions", &planted, &shown);
    let fresh = response.header("set-cookie").and_then(|cookie| cookie.split(';').next()).unwrap_or_default();
    assert!(fresh != attacker.cookie && response.status() == 201);
    let foreign = send(gateway.admin, "POST", "/sessions", "Sec-Fetch-Site: same-site\r\n", &shown);
    assert_eq!(foreign.status(), 403, "another page signs nobody in");
    assert_eq!(attacker.send("GET", "/routes", "").status(), 401, "the planted one has ended");
    let others = ["", "="].map(|value| format!("{}{value}", if value.is_empty() { "" } else { name }));
    for cookie in others.into_iter().chain([name.replace('_', "-") + "=x", name.to_uppercase() + "=x"]) {
        assert_eq!(send(gateway.admin, "GET", "/routes", &format!("Cookie: {cookie}\r\n"), "").status(), 401);
    }
}

/// Cookies are sent to all ports of a host.
#[test]
fn gateways_of_one_host_have_cookies_of_their_own() {
    let (one, other) = (start(), start());
    let (first, second) = (
        Session::begin(&one, &json!({"key": ADMIN_KEY})),
        Session::begin(&other, &json!({"key": ADMIN_KEY})),
    );
    let both = format!("Cookie: {}; {}\r\n", first.cookie, second.cookie);
    for (gateway, session) in [(&one, &first), (&other, &second)] {
        let both = format!("{both}X-CSRF-Token: {}\r\n", session.csrf);
        assert_eq!(send(gateway.admin, "GET", "/routes", &both, "").status(), 200);
    }
    let wrong = format!("Cookie: {}\r\n", second.cookie);
    assert_eq!(send(one.admin, "GET", "/routes", &wrong, "").status(), 401);
}

#[test]
fn users_change_their_own_password() {
    const NEW: &str = "another battery of horses";
    let gateway = start();
    add_user(&gateway, "jo", "viewer");
    let (session, elsewhere) = (Session::of_user(&gateway, "jo"), Session::of_user(&gateway, "jo"));
    let path = "/sessions/current/password";
    let change = |session: &Session, current: &str, new: &str| {
        session.send("PUT", path, &json!({"current": current, "new": new}).to_string())
    };
    for (current, new, expected) in
        [("a wrong password", NEW, 403), (PASSWORD, "short", 400), (PASSWORD, PASSWORD, 400)]
    {
        assert_eq!(change(&session, current, new).status(), expected, "{current} {new}");
    }
    let without_token = format!("Cookie: {}\r\n", session.cookie);
    let body = json!({"current": PASSWORD, "new": NEW}).to_string();
    assert_eq!(send(gateway.admin, "PUT", path, &without_token, &body).status(), 403);
    let changed = change(&session, PASSWORD, NEW);
    assert_eq!(changed.status(), 200, "{}", changed.body_text());
    let cookie = changed.header("set-cookie").and_then(|set| set.split(';').next()).expect("a cookie");
    let csrf = json_of(&changed)["csrf"].as_str().expect("a token").to_owned();
    let fresh = Session { admin: gateway.admin, cookie: cookie.to_owned(), csrf };
    assert_eq!(fresh.send("GET", "/routes", "").status(), 200);
    for before in [&session, &elsewhere] {
        assert_eq!(before.send("GET", "/routes", "").status(), 401, "all others have ended");
    }
    let old = json!({"user": "jo", "password": PASSWORD}).to_string();
    assert_eq!(send(gateway.admin, "POST", "/sessions", "", &old).status(), 401);
    Session::begin(&gateway, &json!({"user": "jo", "password": NEW}));
    let of_key = Session::begin(&gateway, &json!({"key": ADMIN_KEY}));
    assert_eq!(change(&of_key, ADMIN_KEY, NEW).status(), 403, "a key is in config.yaml");
    assert_eq!(json_of(&as_admin(&gateway, "GET", "/users/jo", ""))["role"], "viewer");
    for number in 0..20 {
        let status = change(&fresh, &format!("wrong password {number}"), NEW).status();
        assert!(status == 403 || status == 429 && number > 0, "{number}: {status}");
    }
    assert_eq!(change(&fresh, NEW, PASSWORD).status(), 429, "guessing ends soon");
}

#[test]
fn guessing_ends_soon() {
    let gateway = start();
    add_user(&gateway, "jo", "viewer");
    let from = |host: u8| SocketAddr::from(([127, 0, 0, host], 0));
    let attempt = |host: u8, shown: &Value| {
        let mut client = Client::connect_from(from(host), gateway.admin).expect("connected");
        let body = shown.to_string();
        let request = format!(
            "POST /apisix/admin/sessions HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        client.request(&request).expect("a response")
    };
    for number in 0..10 {
        let wrong = attempt(2, &json!({"user": "jo", "password": format!("wrong password {number}")}));
        assert_eq!(wrong.status(), 401, "{number}");
    }
    let held = attempt(2, &json!({"user": "jo", "password": PASSWORD}));
    assert_eq!(held.status(), 429, "the right one, too");
    assert!(
        held.header("retry-after")
            .and_then(|seconds| seconds.parse().ok())
            .is_some_and(|seconds: u64| seconds > 200)
    );
    assert_eq!(attempt(2, &json!({"key": ADMIN_KEY})).status(), 201, "a right key is no guess");
    assert_eq!(
        attempt(2, &json!({"key": "wrong"})).status(),
        401,
        "of the machine itself, each name has its count"
    );
    add_user(&gateway, "al", "viewer");
    assert_eq!(
        attempt(2, &json!({"user": "al", "password": PASSWORD})).status(),
        201,
        "others of the same tunnel"
    );
    for number in 0..9 {
        assert_eq!(attempt(2, &json!({"key": format!("wrong {number}")})).status(), 401, "{number}");
    }
    assert_eq!(attempt(2, &json!({"key": "wrong"})).status(), 429, "keys are guessed ten times");
    assert_eq!(attempt(2, &json!({"key": ADMIN_KEY})).status(), 201, "and the right one still is none");
    assert_eq!(attempt(3, &json!({"user": "jo", "password": PASSWORD})).status(), 201, "others may");
    for number in 0..10 {
        let wrong = attempt(4, &json!({"user": "jo", "password": format!("wrong password {number}")}));
        assert_eq!(wrong.status(), 401, "{number}");
    }
    assert_eq!(
        attempt(5, &json!({"user": "jo", "password": PASSWORD})).status(),
        429,
        "a name has one count, too"
    );
    assert_eq!(attempt(5, &json!({"user": "nobody", "password": PASSWORD})).status(), 401);
    assert_eq!(as_admin(&gateway, "GET", "/users/jo", "").status(), 200, "keys go on");
}

#[test]
fn users_are_written_and_their_passwords_never_shown() {
    let mut gateway = start();
    add_user(&gateway, "jo", "editor");
    for (name, body, said) in [
        ("admin", json!({"role": "viewer", "password": PASSWORD}), "an admin key"),
        ("a%20b", json!({"role": "viewer", "password": PASSWORD}), "invalid name"),
        ("new", json!({"role": "viewer"}), "needs a password"),
        ("new", json!({"role": "viewer", "password": "short"}), "12 to 1024"),
        ("new", json!({"role": "viewer", "password": " ".repeat(12)}), "not be of spaces only"),
        ("new", json!({"role": "root", "password": PASSWORD}), "role should be"),
        ("new", json!({"role": "viewer", "password": PASSWORD, "hash": "x"}), "unknown field hash"),
    ] {
        let response = as_admin(&gateway, "PUT", &format!("/users/{name}"), &body.to_string());
        assert!(response.status() == 400 && response.body_text().contains(said), "{}", response.body_text());
    }
    let listed = as_admin(&gateway, "GET", "/users", "");
    let user = &json_of(&listed)["list"][0];
    assert_eq!((&user["name"], &user["role"]), (&json!("jo"), &json!("editor")));
    for path in ["/users", "/users/jo", "/export", "/history"] {
        let text = as_admin(&gateway, "GET", path, "").body_text();
        assert!(
            !text.contains("password") && !text.contains("argon2") && !text.contains(PASSWORD),
            "{path}: {text}"
        );
    }
    let session = Session::of_user(&gateway, "jo");
    assert_eq!(session.send("PUT", "/routes/1", ROUTE).status(), 201);
    let history = json_of(&as_admin(&gateway, "GET", "/history", ""));
    assert_eq!(
        (&history["list"][0]["who"]["name"], &history["list"][0]["who"]["role"]),
        (&json!("jo"), &json!("editor"))
    );
    let changed = as_admin(&gateway, "PUT", "/users/jo", &json!({"role": "viewer"}).to_string());
    assert_eq!(changed.status(), 200, "the password stays");
    assert_eq!(session.send("GET", "/routes/1", "").status(), 401, "who is changed signs in again");
    let session = Session::of_user(&gateway, "jo");
    gateway.process.stop();
    gateway.restart();
    gateway.process.wait_for_port(gateway.admin);
    assert_eq!(session.send("GET", "/routes/1", "").status(), 401, "sessions end with the process");
    let session = Session::of_user(&gateway, "jo");
    assert_eq!(as_admin(&gateway, "DELETE", "/users/jo", "").status(), 200);
    assert_eq!(session.send("GET", "/routes/1", "").status(), 401);
    assert_eq!(as_admin(&gateway, "DELETE", "/users/jo", "").status(), 404);
    let shown = json!({"user": "jo", "password": PASSWORD}).to_string();
    assert_eq!(send(gateway.admin, "POST", "/sessions", "", &shown).status(), 401);
}

/// Whoever leaves the page aside and asks the API meets the same rules.
#[test]
fn no_role_does_more_by_asking_directly() {
    let gateway = start();
    let consumer = r#"{"username":"jack","plugins":{"key-auth":{"key":"open-sesame"}}}"#;
    assert_eq!(as_admin(&gateway, "PUT", "/consumers", consumer).status(), 201);
    add_user(&gateway, "ed", "editor");
    add_user(&gateway, "vi", "viewer");
    let (editor, viewer) = (Session::of_user(&gateway, "ed"), Session::of_user(&gateway, "vi"));
    let admin = json!({"role": "admin", "password": PASSWORD}).to_string();
    for (method, path, body) in [
        ("GET", "/users", ""),
        ("GET", "/users/ed", ""),
        ("PUT", "/users/ed", admin.as_str()),
        ("PUT", "//users/ed", admin.as_str()),
        ("PUT", "/users/ed/", admin.as_str()),
        ("PUT", "/%75sers/ed", admin.as_str()),
        ("PUT", "/users/new", admin.as_str()),
        ("DELETE", "/users/vi", ""),
        ("GET", "/export", ""),
        ("GET", "/export/", ""),
        ("GET", "/%65xport", ""),
    ] {
        for session in [&editor, &viewer] {
            let response = session.send(method, path, body);
            assert!((400..500).contains(&response.status()), "{method} {path}: {}", response.status());
            assert!(!response.body_text().contains("open-sesame"), "{method} {path}");
        }
    }
    let shown = json_of(&as_admin(&gateway, "GET", "/users/ed", ""));
    assert_eq!(shown["role"], "editor", "nothing was changed");
    for (method, path, body) in
        [("PUT", "/routes/9", ROUTE), ("POST", "/transactions", "{}"), ("DELETE", "/consumers/jack", "")]
    {
        assert_eq!(viewer.send(method, path, body).status(), 401, "{method} {path}");
    }
    assert_eq!(editor.send("PUT", "/routes/9", ROUTE).status(), 201);
    for path in ["/consumers/jack", "/consumers"] {
        let text = editor.send("GET", path, "").body_text();
        assert!(text.contains("***") && !text.contains("open-sesame"), "{path}: {text}");
    }
    let guarded =
        r#"{"uri":"/s","plugins":{"csrf":{"key":"open-sesame"}},"upstream":{"nodes":{"127.0.0.1:1":1}}}"#;
    assert_eq!(as_admin(&gateway, "PUT", "/routes/s", guarded).status(), 201);
    let patched = editor.send("PATCH", "/routes/s", r#"{"desc":"x"}"#);
    assert!(
        patched.status() == 200 && !patched.body_text().contains("open-sesame"),
        "{}",
        patched.body_text()
    );
    let kept = as_admin(&gateway, "GET", "/routes/s", "").body_text();
    assert!(kept.contains("open-sesame"), "a part that is changed leaves secrets: {kept}");
    let sent_back = r#"{"username":"jack","plugins":{"key-auth":{"key":"***"}}}"#;
    assert_eq!(editor.send("PUT", "/consumers", sent_back).status(), 400, "a mask replaces no secret");
}

#[test]
fn signing_out_everywhere_ends_all_of_one() {
    let gateway = start();
    add_user(&gateway, "jo", "viewer");
    let sessions = [Session::of_user(&gateway, "jo"), Session::of_user(&gateway, "jo")];
    let other = Session::begin(&gateway, &json!({"key": ADMIN_KEY}));
    assert_eq!(sessions[0].send("DELETE", "/sessions", "").status(), 204);
    for session in &sessions {
        assert_eq!(session.send("GET", "/routes", "").status(), 401);
    }
    assert_eq!(other.send("GET", "/routes", "").status(), 200);
    for body in
        ["", "{}", "[]", r#"{"key":1}"#, r#"{"user":"jo"}"#, r#"{"key":"a","user":"b","password":"c"}"#]
    {
        assert_eq!(send(gateway.admin, "POST", "/sessions", "", body).status(), 400, "{body}");
    }
    let long = format!(r#"{{"key":"{}"}}"#, "x".repeat(20_000));
    assert_eq!(send(gateway.admin, "POST", "/sessions", "", &long).status(), 400);
    assert_eq!(send(gateway.admin, "POST", "/sessions", "", r#"{"key":"wrong"}"#).status(), 401);
}

/// Deleted through one gateway, a user is signed out of the other, which watches no users.
#[test]
fn gateways_that_share_an_etcd_share_their_users() {
    let etcd = Etcd::start();
    let config = crate::config::etcd::config(&etcd.url());
    let mut gateways = [Gateway::start(&config, None), Gateway::start(&config, None)];
    for gateway in &mut gateways {
        gateway.process.wait_for_port(gateway.admin);
    }
    let [one, other] = &gateways;
    add_user(one, "jo", "viewer");
    let record = etcd.get("/tidegate/apisix/users/jo");
    assert!(record.contains("argon2id") && !record.contains(PASSWORD), "{record}");
    let session = Session::of_user(other, "jo");
    assert_eq!(session.send("GET", "/routes", "").status(), 200);
    assert_eq!(json_of(&as_admin(other, "GET", "/users", ""))["total"], 1);
    assert_eq!(as_admin(one, "DELETE", "/users/jo", "").status(), 200);
    eventually("the other gateway ends the session", || session.send("GET", "/routes", "").status() == 401);
    assert_eq!(etcd.get("/tidegate/apisix/users/jo"), "");
}

/// A body may come long after its head.
#[test]
fn a_request_does_not_outlive_its_session() {
    let gateway = start();
    add_user(&gateway, "ann", "admin");
    let ann = Session::of_user(&gateway, "ann");
    let user = json!({"role": "admin", "password": PASSWORD}).to_string();
    let head = format!(
        "PUT /apisix/admin/users/backdoor HTTP/1.1\r\nHost: localhost\r\nCookie: {}\r\nX-CSRF-Token: {}\r\nContent-Length: {}\r\n\r\n",
        ann.cookie,
        ann.csrf,
        user.len()
    );
    let (first, rest) = user.split_at(5);
    let mut held = Client::connect(gateway.admin).expect("connected");
    held.send(format!("{head}{first}").as_bytes()).expect("it reads");
    // Whoever is let in by now has been seen.
    assert_eq!(ann.send("GET", "/routes", "").status(), 200);
    assert_eq!(as_admin(&gateway, "DELETE", "/users/ann", "").status(), 200);
    held.send(rest.as_bytes()).expect("it reads");
    let response = held.response_to("PUT").expect("a response");
    assert_eq!(response.status(), 401, "{}", response.body_text());
    assert_eq!(as_admin(&gateway, "GET", "/users/backdoor", "").status(), 404);
}
