use serde_json::{Value, json};
use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Gateway, Message, Upstream};

use super::{Site, cookies, forged, location};

/// Any ticket that begins with `ST-good` is jack's, as often as it is asked: what serves once is the gateway's care.
fn cas() -> Upstream {
    Upstream::service(|request| {
        let response = |inner: &str| {
            format!(
                "<cas:serviceResponse xmlns:cas='http://www.yale.edu/tp/cas'>{inner}</cas:serviceResponse>"
            )
        };
        let success =
            response("<cas:authenticationSuccess><cas:user>jack</cas:user></cas:authenticationSuccess>");
        let ticket = request.target().split("ticket=").nth(1).unwrap_or_default();
        match ticket {
            "ST-away" => (503, success),
            "ST-html" => (200, format!("<html>{success}</html>")),
            "ST-both" => (
                200,
                success.replace(
                    "<cas:authenticationSuccess>",
                    "<cas:authenticationFailure/><cas:authenticationSuccess>",
                ),
            ),
            ticket if ticket.starts_with("ST-good") => (200, success),
            _ => (
                200,
                response("<cas:authenticationFailure code=\"INVALID_TICKET\">no</cas:authenticationFailure>"),
            ),
        }
    })
}

struct Scene {
    site: Site,
    cas: Upstream,
}

fn conf(cas: &str, callback: &str) -> Value {
    json!({"idp_uri": cas, "cas_callback_uri": callback, "logout_uri": "/logout", "max_req_body_size": 4096,
           "cookie": {"secret": "0123456789abcdef0123456789abcdef", "secure": false}})
}

fn scene() -> Scene {
    let cas = cas();
    let address = format!("http://{}/cas", cas.address);
    let mut secure = conf(&address, "https://site.test/secure/cb");
    secure["cookie"] = json!({"secret": "0123456789abcdef0123456789abcdef", "samesite": "None"});
    let routes = [
        ("/*", conf(&address, "https://site.test/cb?x=1")),
        ("/path/*", conf(&address, "/path/cb")),
        ("/secure/*", secure),
        ("/away/*", conf("http://127.0.0.1:1", "https://site.test/away/cb")),
    ];
    Scene { site: Site::start("cas-auth", &routes), cas }
}

fn message(answer: &Message) -> (u16, String, usize) {
    let text: Value = serde_json::from_str(&answer.body_text()).unwrap_or_default();
    (answer.status(), text["message"].as_str().unwrap_or_default().to_owned(), answer.count("Set-Cookie"))
}

impl Scene {
    /// The cookie of a login that has begun.
    fn begin(&self, target: &str) -> String {
        cookies(&self.site.get(target, ""))
    }

    /// The cookie of a session.
    fn log_in(&self, ticket: &str) -> String {
        let answer = self.site.get(&format!("/cb?ticket={ticket}"), &self.begin("/app?x=1"));
        assert_eq!(location(&answer), "/app?x=1");
        cookies(&answer)
    }
}

#[test]
fn a_login() {
    let scene = scene();
    let answer = scene.site.get("/app?x=1", "");
    let service = "https%3A%2F%2Fsite.test%2Fcb%3Fx%3D1";
    assert_eq!(location(&answer), format!("http://{}/cas/login?service={service}", scene.cas.address));
    let line = answer.header("Set-Cookie").expect("a cookie");
    assert!(
        line.starts_with("CAS_REQUEST_URI=") && line.ends_with("; Path=/; HttpOnly; SameSite=Lax"),
        "{line}"
    );
    let answer = scene.site.get("/cb?ticket=ST-good", &cookies(&answer));
    assert_eq!(location(&answer), "/app?x=1");
    let asked = scene.cas.take();
    assert_eq!(asked[0].message.target(), format!("/cas/serviceValidate?service={service}&ticket=ST-good"));
    let lines: Vec<&str> = answer
        .headers
        .iter()
        .filter(|(name, _)| name == "Set-Cookie")
        .map(|(_, value)| value.as_str())
        .collect();
    assert!(
        lines[0].starts_with("CAS_SESSION_") && lines[0].ends_with("; Path=/; HttpOnly; SameSite=Lax"),
        "{lines:?}"
    );
    assert_eq!(lines[1], "CAS_REQUEST_URI=deleted; Max-Age=0; Path=/; HttpOnly; SameSite=Lax");
    let session = cookies(&answer);
    assert!(!session.contains("ST-good"), "tickets stand in logs");
    assert!(scene.site.is_in("/app", &session));
    assert!(scene.cas.seen().is_empty(), "a session is enough");

    let answer = scene.site.get("/logout", &session);
    assert_eq!(location(&answer), format!("http://{}/cas/logout", scene.cas.address));
    assert!(answer.header("Set-Cookie").is_some_and(|line| line.contains("=deleted; Max-Age=0")));
    assert!(!scene.site.is_in("/app", &session), "a copy of the cookie");
    assert_eq!(scene.site.get("/logout", "").status(), 401);
}

/// Whoever does not know the secret makes neither the cookie of a login nor that of a session.
#[test]
fn cookies_are_for_their_secret() {
    let cas = cas();
    let own = conf(&format!("http://{}/cas", cas.address), "https://site.test/cb");
    let mut other = own.clone();
    other["cookie"]["secret"] = json!("fedcba9876543210fedcba9876543210");
    let routes = [("/*", own.clone()), ("/same/*", own), ("/other/*", other)];
    let scene = Scene { site: Site::start("cas-auth", &routes), cas };
    let log_in = |begun: &str| scene.site.get("/cb?ticket=ST-good-1", begun);
    assert_eq!(log_in(&scene.begin("/other/app")).status(), 401, "a login of the other secret");
    let session = cookies(&log_in(&scene.begin("/same/app")));
    assert!(scene.site.is_in("/same/app", &session) && scene.site.is_in("/app", &session));
    assert!(!scene.site.is_in("/other/app", &session));
}

#[test]
fn services() {
    let scene = scene();
    let at = scene.gateway_port();
    let answer = scene.site.send("GET", "/path/x", "Host: other.test:1\r\n", "");
    assert!(
        location(&answer).ends_with(&format!("service=http%3A%2F%2Fother.test%3A{at}%2Fpath%2Fcb")),
        "{answer:?}"
    );
    let answer = scene.site.send("GET", "/app", "Host: other.test\r\n", "");
    assert!(location(&answer).ends_with("service=https%3A%2F%2Fsite.test%2Fcb%3Fx%3D1"), "{answer:?}");
    let answer = scene.site.get("/secure/x", "");
    let line = answer.header("Set-Cookie").expect("a cookie");
    assert!(line.ends_with("; Path=/; HttpOnly; Secure; SameSite=None"), "{line}");
}

impl Scene {
    fn gateway_port(&self) -> u16 {
        self.site.gateway.http.port()
    }
}

#[test]
fn tickets_that_are_none() {
    let scene = scene();
    let begun = scene.begin("/app");
    let state = (401, "invalid callback state".to_owned(), 0);
    let ticket = (401, "invalid ticket".to_owned(), 0);
    // Only the browser that began a login here may bring a ticket: nobody is logged in as somebody else by a link.
    for cookie in [String::new(), "CAS_REQUEST_URI=x".to_owned(), forged(&begun), scene.begin("/secure/x")] {
        assert_eq!(message(&scene.site.get("/cb?ticket=ST-good-1", &cookie)), state, "{cookie}");
    }
    assert!(scene.cas.seen().is_empty());
    for bad in ["ST-bad", "ST-away", "ST-html", "ST-both", ""] {
        assert_eq!(message(&scene.site.get(&format!("/cb?ticket={bad}"), &begun)), ticket, "{bad}");
    }
    let away = scene.begin("/away/x");
    assert_eq!(message(&scene.site.get("/away/cb?ticket=ST-good-1", &away)), ticket);
    assert!(scene.site.get("/app?ticket=ST-good-1", &begun).status() == 302, "not at the callback");
    // Each ticket makes one session.
    assert_eq!(scene.site.get("/cb?ticket=ST-good-1", &begun).status(), 302);
    assert_eq!(message(&scene.site.get("/cb?ticket=ST-good-1", &begun)), ticket);
    assert!(scene.site.upstream.seen().is_empty());
}

#[test]
fn sessions_that_are_none() {
    let scene = scene();
    let session = scene.log_in("ST-good-2");
    let (name, value) = session.split_once('=').expect("a cookie");
    let other = |path: &str, cookie: &str| !scene.site.is_in(path, cookie);
    assert!(scene.site.is_in("/app", &session));
    assert!(other("/app", &forged(&session)) && other("/app", &format!("{name}=ST-good-2")));
    // Under the name that another configuration gives its sessions, a session of this one is none.
    let answer = scene.site.get("/secure/cb?ticket=ST-good-3", &scene.begin("/secure/x"));
    let of_other = cookies(&answer);
    let (other_name, _) = of_other.split_once('=').expect("a cookie");
    assert_ne!(other_name, name);
    assert!(other("/secure/x", &session) && other("/secure/x", &format!("{other_name}={value}")));
    assert!(scene.site.is_in("/secure/x", &of_other));
    // A session that somebody planted before the login is none afterwards.
    let planted = format!("{name}={}", "0".repeat(64));
    let answer = scene.site.get("/app", &planted);
    assert_eq!(answer.status(), 302);
    assert!(other("/app", &planted));
}

#[test]
fn single_logout() {
    let scene = scene();
    let document = |ticket: &str| {
        format!(
            "<samlp:LogoutRequest><samlp:SessionIndex>{ticket}</samlp:SessionIndex></samlp:LogoutRequest>"
        )
    };
    let (one, two) = (scene.log_in("ST-good-4"), scene.log_in("ST-good-5"));
    let post = |body: &str| scene.site.send("POST", "/cb", "", body);
    for body in [
        "",
        "x=1",
        "<samlp:SessionIndex></samlp:SessionIndex>",
        "<samlp:SessionIndex>ST-good-4",
        &"x".repeat(5000),
    ] {
        let expected = (400, "invalid logout request from IdP, no ticket".to_owned(), 0);
        assert_eq!(message(&post(body)), expected, "{body}");
    }
    assert_eq!(post(&document("ST-unknown")).status(), 200);
    assert!(scene.site.is_in("/app", &one) && scene.site.is_in("/app", &two));
    assert_eq!(post(&document("ST-good-4")).status(), 200);
    assert!(!scene.site.is_in("/app", &one) && scene.site.is_in("/app", &two));
    let form = "logoutRequest=%3Csamlp%3ASessionIndex%3EST-good-5%3C%2Fsamlp%3ASessionIndex%3E";
    assert_eq!(post(form).status(), 200);
    assert!(!scene.site.is_in("/app", &two));
    assert!(scene.site.upstream.seen().is_empty(), "logout requests do not go upstream");
}

#[test]
fn cookies_that_no_browser_keeps_are_refused_when_they_are_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    let good = conf("https://cas.test/cas", "/cb");
    for (pointer, value, said) in [
        ("/cookie/secret", json!("short"), "secret"),
        ("/cookie/samesite", json!("Strict"), "samesite"),
        (
            "/cookie/samesite",
            json!("None"),
            "cookie.secure must be true when cookie.samesite is \\\"None\\\"",
        ),
        ("/idp_uri", json!("cas.test"), "idp_uri"),
        ("/cas_callback_uri", json!("https://"), "cas_callback_uri"),
    ] {
        let mut conf = good.clone();
        match pointer.strip_prefix("/cookie/") {
            Some(name) => conf["cookie"][name] = value,
            None => conf[&pointer[1..]] = value,
        }
        let route = json!({"uri": "/*", "plugins": {"cas-auth": conf}}).to_string();
        let (status, answer) = gateway.admin("PUT", "/apisix/admin/routes/1", &route);
        assert!(status == 400 && answer.contains(said), "{pointer}: {answer}");
    }
}
