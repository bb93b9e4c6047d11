//! Each role, each method, each path of the API document, by direct calls: nobody gets more than the role has, whatever the console shows.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED};
use tidegate_testkit::{Client, Gateway, Message};

const PASSWORD: &str = "correct horse battery";
const METHODS: [&str; 7] = ["GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS"];

/// What a caller sends with each request.
struct Caller {
    name: &'static str,
    fields: String,
}

fn start() -> Gateway {
    let keys = "role: admin}, {name: guest, key: test-viewer-key, role: viewer}]";
    let config = EMBEDDED.replace("role: admin}]", keys);
    let mut gateway =
        Gateway::start(&config.replace("  admin:\n", "  admin:\n    enable_admin_cors: false\n"), None);
    gateway.process.wait_for_port(gateway.admin);
    gateway
}

fn send(client: &mut Client, method: &str, path: &str, fields: &str, body: &str) -> Message {
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
    );
    client.send(request.as_bytes()).expect("sent");
    client.response_to(method).unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

fn connected(admin: SocketAddr) -> Client {
    Client::connect(admin).expect("connected")
}

/// A session of a user, with the token that its writes need.
fn session(gateway: &Gateway, role: &'static str) -> Caller {
    let user = json!({"role": role, "password": PASSWORD}).to_string();
    assert_eq!(gateway.admin("PUT", &format!("/apisix/admin/users/a-{role}"), &user).0, 201);
    let shown = json!({"user": format!("a-{role}"), "password": PASSWORD}).to_string();
    let response = send(&mut connected(gateway.admin), "POST", "/apisix/admin/sessions", "", &shown);
    let cookie = response.header("set-cookie").and_then(|set| set.split(';').next()).expect("a cookie");
    let begun: Value = serde_json::from_slice(&response.body).expect("JSON");
    let csrf = begun["csrf"].as_str().expect("a token");
    Caller { name: role, fields: format!("Cookie: {cookie}\r\nX-CSRF-Token: {csrf}\r\n") }
}

/// All paths of the Admin API, each name in them as that of something that is there or could be.
fn paths(gateway: &Gateway) -> Vec<String> {
    let (status, document) = gateway.admin("GET", "/apisix/admin/openapi.json", "");
    assert_eq!(status, 200);
    let document: Value = serde_json::from_str(&document).expect("JSON");
    let paths = document["paths"].as_object().expect("paths").keys();
    let paths = paths.filter(|path| path.starts_with("/apisix/admin"));
    let filled = paths.map(|path| {
        let parts = path.split('/').map(|part| match part {
            "{revision}" => "1",
            "{manager}" => "vault",
            "{collection}" | "{resource}" => "routes",
            "{plugin}" => "cors",
            "{part}" => "uri",
            part if part.starts_with('{') => "mine",
            part => part,
        });
        parts.collect::<Vec<_>>().join("/")
    });
    filled.collect()
}

/// What a role may beyond reading, or may not although it is reading.
fn is_permitted(role: &str, method: &str, path: &str) -> bool {
    let rest = path.trim_start_matches("/apisix/admin/");
    let first = rest.split('/').next().unwrap_or_default();
    let reads = method == "GET";
    match (role, first) {
        (_, "sessions") => true,
        ("viewer" | "editor", "users") => false,
        ("viewer" | "editor", "export" | "configs") if reads => false,
        ("viewer", _) => reads,
        _ => true,
    }
}

fn is_refused(status: u16) -> bool {
    // 404 and 405 are the same for every role.
    matches!(status, 401 | 403 | 404 | 405)
}

#[test]
fn nobody_gets_more_than_the_role_has() {
    let gateway = start();
    let route = json!({"uri": "/mine", "plugins": {"mocking": {"response_example": "x"}}}).to_string();
    assert!(gateway.admin("PUT", "/apisix/admin/routes/mine", &route).0 < 300);
    let (viewer, editor) = (session(&gateway, "viewer"), session(&gateway, "editor"));
    let key = Caller { name: "viewer", fields: "X-API-KEY: test-viewer-key\r\n".to_owned() };
    let nobody = Caller { name: "nobody", fields: String::new() };
    let paths = paths(&gateway);
    assert!(paths.len() > 50 && paths.iter().any(|path| path.ends_with("/stats")), "{paths:?}");
    let revision = gateway.admin("GET", "/apisix/admin/revision", "").1;
    let mut client = connected(gateway.admin);
    for caller in [&nobody, &key, &viewer] {
        for path in paths.iter().filter(|path| !path.contains("/sessions")) {
            for method in METHODS
                .into_iter()
                .filter(|method| !is_permitted(caller.name, method, path) || caller.name == "nobody")
            {
                let response = send(&mut client, method, path, &caller.fields, "{}");
                assert!(
                    is_refused(response.status()),
                    "{} {method} {path}: {}",
                    caller.name,
                    response.status()
                );
                if response.header("connection") == Some("close") {
                    client = connected(gateway.admin);
                }
            }
        }
    }
    assert_eq!(gateway.admin("GET", "/apisix/admin/revision", "").1, revision, "nothing has changed");
    for (caller, path) in
        [&viewer, &editor].into_iter().flat_map(|caller| paths.iter().map(move |path| (caller, path)))
    {
        // What may be read can be; what an editor may not, cannot.
        let is_read = is_permitted(caller.name, "GET", path)
            && !path.contains("/sessions")
            && !path.ends_with("/traffic");
        // It goes on for a minute.
        let asked = if path.ends_with("/traffic") { format!("{path}?seconds=1") } else { path.clone() };
        let response = send(&mut connected(gateway.admin), "GET", &asked, &caller.fields, "");
        let refused = matches!(response.status(), 401 | 403);
        assert!(!(refused && is_read), "{} GET {path}: {}", caller.name, response.status());
        if path.contains("/users") || path.ends_with("/export") {
            for method in METHODS {
                let response = send(&mut connected(gateway.admin), method, path, &caller.fields, "{}");
                assert!(
                    is_refused(response.status()),
                    "{} {method} {path}: {}",
                    caller.name,
                    response.status()
                );
            }
        }
    }
}

/// Other spellings of a path are the path, or none.
#[test]
fn spellings_of_a_path_open_nothing() {
    let gateway = start();
    let viewer = session(&gateway, "viewer");
    for path in [
        "/apisix/admin//users",
        "/apisix/admin/users/",
        "/apisix/admin/users//",
        "/apisix/admin/%75sers",
        "/apisix/admin/users%2Fa-viewer",
        "/apisix/admin/Users",
        "/apisix/admin/./users",
        "/apisix/admin/routes/../users",
        "/apisix/admin/routes/%2e%2e/users",
        "/apisix/admin/users;x=1",
        "/apisix/admin/users?x=1",
        "/apisix/admin/%65xport",
        "/apisix/admin/export/",
        "/apisix/admin//export",
        "/apisix//admin/users",
        "//apisix/admin/users",
        "/APISIX/ADMIN/USERS",
        "/ui/../apisix/admin/users",
        "/apisix/admin/sessions/../users",
    ] {
        for fields in [&viewer.fields, "X-API-KEY: test-viewer-key\r\n", ""] {
            let response = send(&mut connected(gateway.admin), "GET", path, fields, "");
            let text = response.body_text();
            assert!(response.status() >= 400, "{path}: {} {text}", response.status());
            assert!(!text.contains("\"created\""), "{path}: {text}");
        }
    }
    let stolen = json!({"role": "admin", "password": PASSWORD}).to_string();
    for (method, path) in [("PUT", "/apisix/admin/users/a-viewer"), ("PATCH", "/apisix/admin/users/a-viewer")]
    {
        let response = send(&mut connected(gateway.admin), method, path, &viewer.fields, &stolen);
        assert!(is_refused(response.status()), "{method}: {}", response.status());
        // A method that is named in a field counts for nothing.
        let fields = format!("{}X-HTTP-Method-Override: {method}\r\n", viewer.fields);
        let response = send(&mut connected(gateway.admin), "GET", path, &fields, "");
        assert_eq!(response.status(), 403);
    }
    let (_, user) = gateway.admin("GET", "/apisix/admin/users/a-viewer", "");
    assert!(user.contains("\"viewer\""), "{user}");
    assert!(gateway.admin("GET", "/apisix/admin/users", "").0 == 200 && !ADMIN_KEY.is_empty());
}
