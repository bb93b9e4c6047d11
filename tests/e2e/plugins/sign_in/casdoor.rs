use serde_json::{Value, json};
use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Gateway, Message, Upstream, eventually};

use super::{Site, cookies, forged, location};

/// Gives a token for any code, as often as it is asked: what serves once is the gateway's care.
fn casdoor() -> Upstream {
    Upstream::service(|request| {
        let form = request.body_text();
        let token = |expires: Value| json!({"access_token": "t", "expires_in": expires}).to_string();
        match form.split('&').find_map(|field| field.strip_prefix("code=")).unwrap_or_default() {
            "none" => (200, json!({"error": "invalid_grant"}).to_string()),
            "empty" => (200, json!({"access_token": "", "expires_in": 60}).to_string()),
            "over" => (200, token(json!(0))),
            "endless" => (200, token(Value::Null)),
            "text" => (200, "<html>".to_owned()),
            "failed" => (500, token(json!(60))),
            "short" => (200, token(json!(1))),
            "written" => (200, token(json!("60"))),
            _ => (200, token(json!(60))),
        }
    })
}

fn conf(casdoor: &str, client: &str, path: &str) -> Value {
    json!({"endpoint_addr": casdoor, "client_id": client, "client_secret": "the secret of the client",
           "callback_url": format!("http://site.test{path}/callback")})
}

struct Scene {
    site: Site,
    casdoor: Upstream,
}

fn scene() -> Scene {
    let casdoor = casdoor();
    let address = format!("http://{}", casdoor.address);
    let routes = [
        ("/app/*", conf(&address, "c", "/app")),
        ("/other/*", conf(&address, "c", "/other")),
        ("/client/*", conf(&address, "d", "/client")),
        ("/away/*", conf("http://127.0.0.1:1", "c", "/away")),
    ];
    Scene { site: Site::start("authz-casdoor", &routes), casdoor }
}

/// The argument of Casdoor's address that the browser is sent to.
fn state(answer: &Message) -> String {
    let (_, rest) = location(answer).split_once("state=").expect("a state");
    rest.split('&').next().unwrap_or_default().to_owned()
}

impl Scene {
    /// Begins a login: its state, and the cookie.
    fn begin(&self, target: &str) -> (String, String) {
        let answer = self.site.get(target, "");
        (state(&answer), cookies(&answer))
    }

    fn callback(&self, path: &str, code: &str, state: &str, cookie: &str) -> Message {
        self.site.get(&format!("{path}/callback?code={code}&state={state}"), cookie)
    }
}

#[test]
fn a_login() {
    let scene = scene();
    let answer = scene.site.get("/app/page?x=1&y=%2F", "");
    let expected = format!(
        "http://{}/login/oauth/authorize?client_id=c&redirect_uri=http%3A%2F%2Fsite.test%2Fapp%2Fcallback&response_type=code&scope=read&state=",
        scene.casdoor.address
    );
    assert!(location(&answer).starts_with(&expected), "{answer:?}");
    let line = answer.header("Set-Cookie").expect("a cookie");
    assert!(line.starts_with(
        "authz_casdoor_session_2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6="
    ));
    assert!(line.ends_with("; Path=/; SameSite=Lax; HttpOnly"), "{line}");
    let (state, cookie) = (state(&answer), cookies(&answer));
    let answer = scene.callback("/app", "good", &state, &cookie);
    assert_eq!(location(&answer), "/app/page?x=1&y=%2F");
    let asked = &scene.casdoor.take()[0].message;
    assert_eq!((asked.method(), asked.target()), ("POST", "/api/login/oauth/access_token"));
    assert_eq!(
        asked.body_text(),
        "code=good&grant_type=authorization_code&client_id=c&client_secret=the%20secret%20of%20the%20client"
    );
    assert!(scene.site.is_in("/app/page", &cookies(&answer)));
    let (state, cookie) = scene.begin("/app/page");
    assert!(scene.site.is_in("/app/page", &cookies(&scene.callback("/app", "written", &state, &cookie))));
}

#[test]
fn states_that_are_none() {
    let scene = scene();
    let (state, cookie) = scene.begin("/app/page");
    let (_, of_another) = scene.begin("/app/page");
    let said = |answer: Message| (answer.status(), answer.body_text());
    let refused = |text: &str| (400, text.to_owned());
    let missing = refused("failed when accessing token. Invalid code or state");
    assert_eq!(said(scene.callback("/app", "good", "1", &cookie)), refused("invalid state"));
    assert_eq!(said(scene.callback("/app", "good", "", &cookie)), refused("invalid state"));
    assert_eq!(said(scene.callback("/app", "good", &state, &of_another)), refused("invalid state"));
    assert_eq!(said(scene.site.get(&format!("/app/callback?state={state}"), &cookie)), missing);
    assert_eq!(said(scene.site.get("/app/callback?code=good", &cookie)), missing);
    for cookie in [String::new(), forged(&cookie), "authz_casdoor_session_x=1".to_owned()] {
        assert_eq!(scene.callback("/app", "good", &state, &cookie).status(), 503, "{cookie}");
    }
    // The same cookie for another callback or client of the same secret.
    assert_eq!(scene.callback("/other", "good", &state, &cookie).status(), 503);
    assert_eq!(scene.callback("/client", "good", &state, &cookie).status(), 503);
    assert!(scene.casdoor.seen().is_empty(), "no code was exchanged");
    // A second tab leaves the first one's state.
    let answer = scene.site.get("/app/two", &cookie);
    assert_eq!(location(&scene.callback("/app", "good", &state, &cookies(&answer))), "/app/page");
}

#[test]
fn callbacks_serve_once() {
    let scene = scene();
    let (state, cookie) = scene.begin("/app/page");
    assert_eq!(scene.callback("/app", "none", &state, &cookie).status(), 503);
    let answer = scene.callback("/app", "good", &state, &cookie);
    assert_eq!(answer.status(), 302, "a login that came to nothing can be tried again");
    let inside = cookies(&answer);
    assert_eq!(scene.callback("/app", "good", &state, &cookie).status(), 400, "again, with the old cookie");
    assert_eq!(scene.callback("/app", "good", &state, &inside).status(), 503, "again, with the new one");
    // Whoever knew the cookie from before the login is not logged in by it.
    assert!(scene.site.is_in("/app/page", &inside));
    assert!(!scene.site.is_in("/app/page", &cookie));
    assert!(!scene.site.is_in("/app/page", &forged(&inside)));
    for path in ["/other/page", "/client/page"] {
        assert!(!scene.site.is_in(path, &inside), "{path}");
    }
}

#[test]
fn tokens_that_are_none() {
    let scene = scene();
    for code in ["none", "empty", "over", "endless", "text", "failed"] {
        let (state, cookie) = scene.begin("/app/page");
        let answer = scene.callback("/app", code, &state, &cookie);
        assert_eq!((answer.status(), answer.count("Set-Cookie")), (503, 0), "{code}");
    }
    let answer = scene.site.get("/away/page", "");
    let (state, cookie) = (state(&answer), cookies(&answer));
    assert_eq!(scene.callback("/away", "good", &state, &cookie).status(), 503);
    assert!(scene.site.upstream.seen().is_empty());
}

#[test]
fn a_session_ends_with_its_token() {
    let scene = scene();
    let (state, cookie) = scene.begin("/app/page");
    let inside = cookies(&scene.callback("/app", "short", &state, &cookie));
    eventually("the session is over", || !scene.site.is_in("/app/page", &inside));
    assert!(location(&scene.site.get("/app/page", &inside)).contains("/login/oauth/authorize?"));
}

#[test]
fn browsers_come_back_to_this_site_only() {
    let scene = scene();
    for (target, expected) in [
        ("/app/..//..//evil.test", "/app/..//..//evil.test"),
        ("/app/%2e%2e/app/x", "/app/%2e%2e/app/x"),
        ("/app/a\\b", "/app/a%5Cb"),
    ] {
        let answer = scene.site.get(target, "");
        if answer.status() == 302 {
            let (state, cookie) = (state(&answer), cookies(&answer));
            let back = scene.callback("/app", "good", &state, &cookie);
            let back = location(&back);
            assert!(
                back.starts_with('/') && !back.starts_with("//") && !back.contains('\\'),
                "{target}: {back} {expected}"
            );
        }
    }
}

#[test]
fn what_no_browser_can_come_back_from_is_refused_when_it_is_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    let good = conf("http://casdoor.test", "c", "/app");
    for (field, value) in [
        ("client_id", ""),
        ("client_secret", ""),
        ("callback_url", "http://site.test"),
        ("callback_url", "site.test/app/callback"),
        ("callback_url", "http://site.test/callback/"),
        ("callback_url", "http://site.test/callback?code=1"),
        ("endpoint_addr", "casdoor.test"),
        ("endpoint_addr", "http://casdoor.test/"),
    ] {
        let mut conf = good.clone();
        conf[field] = json!(value);
        let route = json!({"uri": "/app/*", "plugins": {"authz-casdoor": conf}}).to_string();
        let (status, answer) = gateway.admin("PUT", "/apisix/admin/routes/1", &route);
        assert_eq!(status, 400, "{field} {value}: {answer}");
    }
}
