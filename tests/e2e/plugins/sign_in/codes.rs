use std::collections::HashSet;
use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Gateway, Message, Upstream, eventually};

use super::{Site, cookies, forged, location};

/// Feishu and DingTalk in one: each code that begins with `good` counts once.
fn provider() -> Upstream {
    let used = Mutex::new(HashSet::new());
    Upstream::service(move |request| {
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let code = body["code"].as_str().unwrap_or_default().to_owned();
        let is_good = code.starts_with("good") && used.lock().expect("codes").insert(code.clone());
        let (path, query) = request.target().split_once('?').unwrap_or((request.target(), ""));
        match path {
            "/feishu/token" => match code.as_str() {
                "text" => (200, "<html>".to_owned()),
                "lasting" => (200, json!({"access_token": "t"}).to_string()),
                _ if is_good => {
                    (200, json!({"code": 0, "access_token": code, "expires_in": 7200}).to_string())
                }
                _ => (400, json!({"code": 20003, "error_description": "used or unknown"}).to_string()),
            },
            "/feishu/user" => match request.header("Authorization") {
                Some("Bearer good-nobody") => (200, json!({"code": 20005, "msg": "no"}).to_string()),
                Some("Bearer good-empty") => (200, json!({"code": 0}).to_string()),
                Some("Bearer good-large") => {
                    (200, json!({"code": 0, "data": {"name": "x".repeat(40_000)}}).to_string())
                }
                Some("Bearer good-long") => {
                    (200, json!({"code": 0, "data": {"name": "x".repeat(9_000)}}).to_string())
                }
                _ => (200, json!({"code": 0, "data": {"name": "jack", "open_id": "ou_1"}}).to_string()),
            },
            "/dingtalk/token" => (200, json!({"accessToken": "app", "expireIn": 7200}).to_string()),
            "/dingtalk/user" if query != "access_token=app" => (200, json!({"errcode": 40014}).to_string()),
            "/dingtalk/user" => match code.as_str() {
                "text" => (200, "<html>".to_owned()),
                "failed" => (500, json!({"errcode": 0, "result": {}}).to_string()),
                "empty" => (200, json!({"errcode": 0}).to_string()),
                "stale" => (200, json!({"errcode": 40014, "errmsg": "invalid access_token"}).to_string()),
                _ if is_good => {
                    (200, json!({"errcode": 0, "result": {"name": "jack", "userid": "u1"}}).to_string())
                }
                _ => (200, json!({"errcode": 40078, "errmsg": "used or unknown"}).to_string()),
            },
            _ => (404, String::new()),
        }
    })
}

struct Scene {
    site: Site,
    provider: Upstream,
}

fn conf(plugin: &str, provider: &str, more: &Value) -> Value {
    let mut conf = match plugin {
        "feishu-auth" => {
            json!({"app_id": "app", "app_secret": "s", "auth_redirect_uri": "https://site.test/back",
            "access_token_url": format!("{provider}/feishu/token"), "userinfo_url": format!("{provider}/feishu/user")})
        }
        _ => json!({"app_key": "app", "app_secret": "s",
            "access_token_url": format!("{provider}/dingtalk/token"), "userinfo_url": format!("{provider}/dingtalk/user")}),
    };
    conf["redirect_uri"] = json!("https://provider.test/authorize");
    conf["secret"] = json!("secret-1");
    for (name, value) in more.as_object().into_iter().flatten() {
        conf[name] = value.clone();
    }
    conf
}

fn scene(plugin: &str) -> Scene {
    let provider = provider();
    let address = format!("http://{}", provider.address);
    let conf = |more: Value| conf(plugin, &address, &more);
    let app = if plugin == "feishu-auth" { "app_id" } else { "app_key" };
    let routes = [
        ("/app", conf(json!({}))),
        ("/quiet", conf(json!({"set_userinfo_header": false}))),
        ("/own", conf(json!({"code_header": "X-Own-Code", "code_query": "own"}))),
        ("/rotated", conf(json!({"secret": "secret-2", "secret_fallbacks": ["secret-0", "secret-1"]}))),
        ("/replaced", conf(json!({"secret": "secret-2"}))),
        ("/other-app", conf(json!({app: "other"}))),
        ("/short", conf(json!({"cookie_expires_in": 1}))),
        ("/away", conf(json!({"access_token_url": "http://127.0.0.1:1/", "timeout": 500}))),
    ];
    Scene { site: Site::start(plugin, &routes), provider }
}

fn message(answer: &Message) -> (u16, String) {
    let text: Value = serde_json::from_str(&answer.body_text()).unwrap_or_default();
    (answer.status(), text["message"].as_str().unwrap_or_default().to_owned())
}

/// What both have alike.
fn check(plugin: &str, cookie_name: &str, user: &Value) {
    let Scene { site, provider } = scene(plugin);
    let header = if plugin == "feishu-auth" { "X-Feishu-Code" } else { "X-DingTalk-Code" };
    for cookie in ["", &format!("{cookie_name}=x")] {
        assert_eq!(location(&site.get("/app", cookie)), "https://provider.test/authorize");
    }
    let claim = "X-Userinfo: e30=\r\nX_Userinfo: e30=\r\n";
    let answer = site.send("GET", "/app?code=good-1", claim, "");
    assert_eq!(answer.status(), 200, "{answer:?}");
    let seen = &site.upstream.take()[0].message;
    let sent: Value =
        serde_json::from_slice(&STANDARD.decode(seen.header("X-Userinfo").expect("a user")).expect("base64"))
            .expect("JSON");
    assert_eq!((&sent, seen.count("X-Userinfo"), seen.count("X_Userinfo")), (user, 1, 0));
    let line = answer.header("Set-Cookie").expect("a cookie");
    assert!(
        line.starts_with(&format!("{cookie_name}=")) && line.ends_with("; Path=/; SameSite=Lax; HttpOnly"),
        "{line}"
    );
    let inside = cookies(&answer);

    // The provider takes a code once; a session needs none.
    assert_eq!(message(&site.get("/app?code=good-1", "")), (401, "Invalid authorization code".to_owned()));
    provider.take();
    for (path, expected) in
        [("/app", true), ("/quiet", true), ("/rotated", true), ("/replaced", false), ("/other-app", false)]
    {
        assert_eq!(site.is_in(path, &inside), expected, "{path}");
    }
    assert!(!site.is_in("/app", &forged(&inside)));
    assert!(provider.seen().is_empty(), "a session is enough");
    site.send("GET", "/quiet", &format!("Cookie: {inside}\r\n{claim}"), "");
    assert_eq!(site.upstream.take()[0].message.header("X-Userinfo"), None);

    // Where codes are looked for.
    for (target, fields, status) in [
        ("/app", format!("{header}: good-2\r\n"), 200),
        ("/app?code=good-3", format!("{header}: bad\r\n"), 401),
        ("/own?code=good-4", format!("{header}: good-4\r\n"), 302),
        ("/app?code=", format!("{header}: \r\n"), 302),
        ("/app?code=good-9", format!("{header}: \r\n"), 200),
        ("/own?own=good-5", String::new(), 200),
        ("/own", "X-Own-Code: good-6\r\n".to_owned(), 200),
    ] {
        assert_eq!(site.send("GET", target, &fields, "").status(), status, "{target} {fields}");
    }
    let inside = cookies(&site.get("/short?code=good-7", ""));
    eventually("the session is over", || !site.is_in("/short", &inside));
    assert!(site.is_in("/app", &cookies(&site.get("/app?code=good-8", ""))));
}

#[test]
fn users_of_feishu() {
    check("feishu-auth", "feishu_session", &json!({"name": "jack", "open_id": "ou_1"}));
    let Scene { site, provider } = scene("feishu-auth");
    let invalid = (401, "Invalid authorization code".to_owned());
    for code in ["bad", "text", "lasting", "good-nobody", "good-empty"] {
        let answer = site.get(&format!("/app?code={code}"), "");
        assert_eq!((message(&answer), answer.count("Set-Cookie")), (invalid.clone(), 0), "{code}");
    }
    assert_eq!(message(&site.get("/away?code=good", "")), invalid);
    assert_eq!(message(&site.get("/app?code=good-large", "")), (500, "Failed to save session".to_owned()));
    assert!(site.upstream.take().is_empty());
    // A long user is in several cookies.
    let answer = site.get("/app?code=good-long", "");
    assert_eq!((answer.status(), answer.count("Set-Cookie")), (200, 4));
    assert!(site.is_in("/app", &cookies(&answer)));
    provider.take();
    site.get("/app?code=good-x%2Fy", "");
    let asked = provider.take();
    let question: Value = serde_json::from_slice(&asked[0].message.body).expect("JSON");
    let expected = json!({"grant_type": "authorization_code", "client_id": "app", "client_secret": "s",
                          "redirect_uri": "https://site.test/back", "code": "good-x/y"});
    assert_eq!(question, expected);
    assert_eq!(asked[1].message.header("Authorization"), Some("Bearer good-x/y"));
}

#[test]
fn users_of_dingtalk() {
    check("dingtalk-auth", "dingtalk_session", &json!({"name": "jack", "userid": "u1"}));
    let Scene { site, provider } = scene("dingtalk-auth");
    let unavailable = (503, "Failed to obtain user info from DingTalk".to_owned());
    let invalid = (401, "Invalid authorization code".to_owned());
    for (code, expected) in
        [("bad", &invalid), ("text", &unavailable), ("failed", &unavailable), ("empty", &unavailable)]
    {
        let answer = site.get(&format!("/app?code={code}"), "");
        assert_eq!((&message(&answer), answer.count("Set-Cookie")), (expected, 0), "{code}");
    }
    assert_eq!(message(&site.get("/away?code=good", "")), (500, "Failed to obtain access token".to_owned()));
    assert!(site.upstream.take().is_empty());
    let tokens =
        || provider.take().iter().filter(|asked| asked.message.target() == "/dingtalk/token").count();
    assert_eq!(tokens(), 1, "the app's token is kept");
    assert_eq!(message(&site.get("/app?code=stale", "")), invalid);
    assert_eq!(
        (site.get("/app?code=good", "").status(), tokens()),
        (200, 1),
        "and replaced when it is no good"
    );
}

#[test]
fn what_cannot_be_asked_is_refused_when_it_is_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    for plugin in ["feishu-auth", "dingtalk-auth"] {
        for more in [
            json!({"userinfo_url": "provider"}),
            json!({"access_token_url": "ftp://provider/"}),
            json!({"timeout": 0}),
            json!({"cookie_expires_in": 0}),
            json!({"secret": "short"}),
            json!({"secret_fallbacks": ["short"]}),
            json!({"redirect_uri": "a\r\nX: b"}),
            json!({"code_header": "a b"}),
            json!({"redirect_uri": ""}),
            json!({"code_query": ""}),
        ] {
            let conf = conf(plugin, "http://provider.test", &more);
            let route = json!({"uri": "/app", "plugins": {plugin: conf}}).to_string();
            let (status, answer) = gateway.admin("PUT", "/apisix/admin/routes/1", &route);
            assert_eq!(status, 400, "{plugin} {more}: {answer}");
        }
    }
}
