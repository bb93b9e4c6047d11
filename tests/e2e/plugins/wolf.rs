//! wolf-rbac with a server that speaks wolf's protocol: who is let through, what is passed on, and the calls of users.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Gateway, Message, Upstream};

const TOKEN: &str = "V1#app#good";

/// Answers as wolf does; some paths that are asked about make it fail.
fn wolf() -> Upstream {
    Upstream::service(|request| {
        let user = json!({"id": 100, "username": "admin", "nickname": "the admin"});
        let (path, query) = request.target().split_once('?').unwrap_or((request.target(), ""));
        let refused =
            |status: u16, reason: &str| (status, json!({"ok": false, "reason": reason}).to_string());
        let is_good = request.header("X-Rbac-Token") == Some("good");
        match path {
            "/wolf/rbac/login.rest" if request.body_text().contains("wrong") => {
                refused(200, "ERR_PASSWORD_ERROR")
            }
            "/wolf/rbac/login.rest" => {
                (200, json!({"ok": true, "data": {"token": "good", "userInfo": user}}).to_string())
            }
            _ if !is_good => refused(401, "ERR_TOKEN_INVALID"),
            "/wolf/rbac/change_pwd" if request.body_text().contains("old") => {
                (200, json!({"ok": true}).to_string())
            }
            "/wolf/rbac/change_pwd" => refused(200, "ERR_OLD_PASSWORD_INCORRECT"),
            "/wolf/rbac/user_info" => (200, json!({"ok": true, "data": {"userInfo": user}}).to_string()),
            _ if query.ends_with("denied") => (
                403,
                json!({"ok": false, "reason": "ERR_ACCESS_DENIED", "data": {"userInfo": user}}).to_string(),
            ),
            // Nothing but a plain yes lets through.
            _ if query.ends_with("vague") => (200, json!({"OK": true}).to_string()),
            _ if query.ends_with("list") => (200, json!([true]).to_string()),
            _ if query.ends_with("broken") => refused(502, "ERR_SERVER_ERROR"),
            _ if query.ends_with("text") => (200, "<html>".to_owned()),
            _ if query.ends_with("no") => refused(200, "ERR_NO"),
            _ if query.ends_with("moved") => (302, "{}".to_owned()),
            _ if query.ends_with("split") => (
                200,
                json!({"ok": true, "data": {"userInfo": {"username": "a\r\nX-Role: root"}}}).to_string(),
            ),
            _ => (200, json!({"ok": true, "data": {"userInfo": user}}).to_string()),
        }
    })
}

struct Scene {
    gateway: Gateway,
    wolf: Upstream,
    upstream: Upstream,
}

fn scene() -> Scene {
    let (wolf, upstream) = (wolf(), Upstream::start());
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let api = |name: &str| json!({"id": name, "uri": format!("/apisix/plugin/wolf-rbac/{name}"), "plugins": {"public-api": {}}});
    let consumer = |name: &str, server: String, prefix: &str| json!({"username": name, "plugins": {"wolf-rbac": {"appid": name, "server": server, "header_prefix": prefix}}});
    let server = format!("http://{}", wolf.address);
    let objects = json!({
        "routes": [
            {"id": "guarded", "uri": "/guarded/*", "plugins": {"wolf-rbac": {}}, "upstream": target},
            api("login"), api("change_pwd"), api("user_info"),
        ],
        "consumers": [
            consumer("app", server.clone(), "X-"),
            consumer("own", server, "Wolf-"),
            consumer("away", "http://127.0.0.1:1".to_owned(), "X-"),
        ],
    });
    Scene { gateway: Gateway::start(YAML_PROVIDER, Some(&objects.to_string())), wolf, upstream }
}

impl Scene {
    fn send(&self, method: &str, target: &str, fields: &str, body: &str) -> Message {
        let length = body.len();
        let text = format!(
            "{method} {target} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {length}\r\n\r\n{body}"
        );
        self.gateway.client().request(&text).unwrap_or_else(|error| panic!("{target}: {error}"))
    }
}

fn said(answer: &Message) -> Value {
    serde_json::from_str(&answer.body_text()).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

#[test]
fn users_whom_wolf_lets_through() {
    let scene = scene();
    let claims = "X-UserId: 1\r\nX_Username: root\r\nX-NICKNAME: root\r\n";
    for (target, fields) in [
        ("/guarded/a?rbac_token=V1%23app%23good", String::new()),
        ("/guarded/a", format!("Authorization: {TOKEN}\r\n{claims}")),
        ("/guarded/a", format!("X-Rbac-Token: {TOKEN}\r\n")),
        ("/guarded/a", format!("Cookie: x=1; x-rbac-token={TOKEN}\r\n")),
        ("/guarded/a", "X-Rbac-Token: V1#own#good\r\n".to_owned()),
    ] {
        let answer = scene.send("POST", target, &fields, "");
        assert_eq!(answer.status(), 200, "{target} {fields}: {answer:?}");
        let prefix = if fields.contains("own") { "Wolf" } else { "X" };
        let seen = scene.upstream.take();
        for (name, value) in [("UserId", "100"), ("Username", "admin"), ("Nickname", "the%20admin")] {
            let name = format!("{prefix}-{name}");
            assert_eq!(seen[0].message.header(&name), Some(value), "{fields}");
            assert_eq!((seen[0].message.count(&name), answer.header(&name)), (1, Some(value)), "{fields}");
        }
        assert!(!seen[0].text().contains("root"), "{}", seen[0].text());
        let consumer = if fields.contains("own") { "own" } else { "app" };
        assert_eq!(seen[0].message.header("X-Consumer-Username"), Some(consumer));
        let asked = scene.wolf.take();
        let target = format!(
            "/wolf/rbac/access_check?action=POST&appID={consumer}&clientIP=127.0.0.1&resName=%2Fguarded%2Fa"
        );
        assert_eq!(asked[0].message.target(), target);
    }
}

#[test]
fn users_whom_wolf_does_not_let_through() {
    let scene = scene();
    let token = format!("X-Rbac-Token: {TOKEN}\r\n");
    let message = |text: &str| json!({ "message": text });
    let failed = |what: &str| message(&format!("request to wolf-server failed, {what}"));
    for (target, fields, status, body) in [
        ("/guarded/a", "", 401, message("Missing rbac token in request")),
        ("/guarded/a", "X-Rbac-Token: good\r\n", 401, message("invalid rbac token: parse failed")),
        ("/guarded/a", "X-Rbac-Token: V1#none#good\r\n", 401, message("Invalid appid in rbac token")),
        ("/guarded/a", "X-Rbac-Token: V1#app#bad\r\n", 401, message("ERR_TOKEN_INVALID")),
        ("/guarded/a", "X-Rbac-Token: V1#away#good\r\n", 500, failed("err:no connection")),
        (
            "/guarded/denied",
            &token,
            403,
            json!({"message": "ERR_ACCESS_DENIED", "username": "admin", "nickname": "the admin"}),
        ),
        ("/guarded/broken", &token, 500, failed("status:502")),
        ("/guarded/moved", &token, 500, failed("status:302")),
        ("/guarded/text", &token, 500, message("check permission failed! parse response json failed!")),
        ("/guarded/no", &token, 403, message("ERR_NO")),
        ("/guarded/vague", &token, 403, message("check permission failed! wolf-server does not permit it")),
        ("/guarded/list", &token, 403, message("check permission failed! wolf-server does not permit it")),
        ("/guarded/split", &token, 500, failed("err:invalid user info")),
    ] {
        let answer = scene.send("GET", target, fields, "");
        assert_eq!((answer.status(), said(&answer)), (status, body), "{target} {fields}");
    }
    assert!(scene.upstream.seen().is_empty());
    let about = |path: &str| {
        let asked = scene.wolf.seen();
        asked.iter().filter(|request| request.message.target().ends_with(path)).count()
    };
    assert_eq!((about("broken"), about("denied")), (3, 1), "a server that fails is asked three times");
    // A path that routes read in another way than wolf is judged as routes read it.
    scene.send("GET", "/guarded/x/%2e%2e/denied", &token, "");
    assert_eq!(about("%2Fguarded%2Fdenied"), 2);
}

#[test]
fn what_users_do_beside_requests() {
    let scene = scene();
    let json_kind = "Content-Type: application/json\r\n";
    let form = "Content-Type: application/x-www-form-urlencoded\r\n";
    let token = format!("X-Rbac-Token: {TOKEN}\r\n");
    let failed = json!({"message": "request to wolf-server failed!"});
    let message = |text: &str| json!({ "message": text });
    let user = json!({"id": 100, "username": "admin", "nickname": "the admin"});
    let with_token = format!("{json_kind}{token}");
    let rows: [(&str, &str, &str, &str, u16, Value); 11] = [
        ("POST", "login", form, "username=a", 400, message("appid is missing")),
        ("POST", "login", form, "appid=x&username=a", 400, message("appid not found")),
        ("POST", "login", json_kind, "{", 400, message("invalid request")),
        ("POST", "login", json_kind, r#"{"appid":7}"#, 400, message("appid not found")),
        ("POST", "login", form, "appid=away", 500, failed.clone()),
        ("POST", "login", form, "appid=app&password=wrong", 200, failed.clone()),
        (
            "POST",
            "login",
            json_kind,
            r#"{"appid":"app","username":"admin","password":"p"}"#,
            200,
            json!({"rbac_token": TOKEN, "user_info": user}),
        ),
        ("PUT", "change_pwd", json_kind, "{}", 401, message("Missing rbac token in request")),
        ("PUT", "change_pwd", &with_token, r#"{"newPassword":"n"}"#, 200, failed),
        (
            "PUT",
            "change_pwd",
            &with_token,
            r#"{"oldPassword":"old"}"#,
            200,
            message("success to change password"),
        ),
        ("GET", "user_info", &token, "", 200, json!({"user_info": user})),
    ];
    for (method, name, fields, body, status, expected) in rows {
        let answer = scene.send(method, &format!("/apisix/plugin/wolf-rbac/{name}"), fields, body);
        assert_eq!((answer.status(), said(&answer)), (status, expected), "{name} {body}");
    }
    let large = format!("appid=app&x={}", "x".repeat(1 << 20));
    assert_eq!(scene.send("POST", "/apisix/plugin/wolf-rbac/login", form, &large).status(), 413);
    let bad = "X-Rbac-Token: V1#app#bad\r\n";
    assert_eq!(scene.send("GET", "/apisix/plugin/wolf-rbac/user_info", bad, "").status(), 500);
}

#[test]
fn what_cannot_be_asked_is_refused_when_it_is_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    for conf in [json!({"server": "wolf"}), json!({"header_prefix": "X "}), json!({"appid": 7})] {
        let consumer = json!({"username": "a", "plugins": {"wolf-rbac": conf}}).to_string();
        let (status, answer) = gateway.admin("PUT", "/apisix/admin/consumers", &consumer);
        assert_eq!(status, 400, "{conf}: {answer}");
    }
}
