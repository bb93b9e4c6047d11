//! Signing in to the console with an identity provider: what forged answers, tokens and documents are worth, and whose names the
//! logs have. A certified provider and a browser are in web/tests/oidc.spec.ts.

mod kit;

use std::fs;

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tidegate_testkit::gateway::ADMIN_KEY;
use tidegate_testkit::{Client, Gateway, eventually};

use super::sessions::send;
use kit::*;

const ROUTE: &str = r#"{"uri":"/a","plugins":{"mocking":{"response_status":200,"response_example":"x"}}}"#;

#[test]
fn people_have_the_roles_and_names_of_their_claims() {
    let provider = Provider::start();
    let gateway = start(&provider, &json!({}));
    let ways = send(gateway.admin, "GET", "/sessions", "", "");
    assert_eq!(json_of(&ways), json!({"users": true, "oidc": {"name": "Example"}}), "display_name");
    let away = Away::of(&gateway);
    provider.plan(|plan| plan.nonce = away.argument("nonce").to_owned());
    let answer = come_back(&gateway, &away.answer(), &away.cookie, "");
    let fields = session(&answer);
    let shown = json_of(&answer);
    assert_eq!(
        (&shown["name"], &shown["role"], &shown["user"]),
        (&json!("oidc:alice@example.com"), &json!("admin"), &json!(false))
    );
    let lifetime = shown["expires"].as_u64().expect("a time") - seconds();
    assert!((8 * 3600 - 60..=8 * 3600).contains(&lifetime), "session_lifetime: {lifetime}");
    assert_eq!(send(gateway.admin, "PUT", "/routes/1", &fields, ROUTE).status(), 201);
    let history = send(gateway.admin, "GET", "/history", &fields, "");
    assert_eq!(json_of(&history)["list"][0]["who"]["name"], "oidc:alice@example.com");
    let asked = provider.plan.lock().expect("a plan").asked.clone();
    let (form, authorization) = asked.first().expect("asked for tokens");
    let pair =
        authorization.strip_prefix("Basic ").and_then(|pair| STANDARD.decode(pair).ok()).expect("a pair");
    assert_eq!(String::from_utf8_lossy(&pair), "console:the%20secret%20of%20the%20client");
    let (_, verifier) = form.split_once("code_verifier=").expect("PKCE");
    let verifier = verifier.split('&').next().unwrap_or_default();
    let challenge = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()));
    assert!(away.location.contains("code_challenge_method=S256"), "{}", away.location);
    assert_eq!(away.argument("code_challenge"), challenge);
    assert!(away.location.contains("scope=openid%20profile%20email"), "{}", away.location);
    for (claims, userinfo, expected) in [
        (json!({"groups": null, "realm_access": {"roles": ["x", "edit"]}}), json!({}), Some("editor")),
        (json!({"groups": ["staff"], "team": "look"}), json!({}), Some("viewer")),
        (json!({"groups": null}), json!({"groups": ["gateway-admins"]}), Some("admin")),
        // What the ID token says counts before what the userinfo says, and the userinfo of another for nothing.
        (json!({"groups": ["staff"]}), json!({"groups": ["gateway-admins"]}), None),
        (json!({"groups": null}), json!({"groups": ["gateway-admins"], "sub": "u-2"}), None),
        (json!({"groups": "gateway-admins,staff"}), json!({}), None),
        (json!({"groups": null}), json!({}), None),
        (json!({"email_verified": false}), json!({}), None),
        (json!({"email_verified": 0}), json!({}), None),
        (json!({"email": "alice@example.com\u{202e}"}), json!({}), None),
        (
            json!({"email": null, "email_verified": true}),
            json!({"email": "bob@example.com", "email_verified": false}),
            None,
        ),
        (json!({"email": null}), json!({}), None),
    ] {
        let answer = sign_in(&gateway, &provider, |plan| {
            plan.claims = claims.clone();
            plan.userinfo = userinfo;
        });
        let role = json_of(&answer)["role"].as_str().map(str::to_owned);
        assert_eq!(role.as_deref(), expected, "{claims}");
        assert_eq!(answer.status(), if expected.is_some() { 201 } else { 403 }, "{claims}");
    }
    let viewer = session(&sign_in(&gateway, &provider, |plan| {
        plan.claims = json!({"groups": null, "team": "look"});
    }));
    assert_eq!(send(gateway.admin, "PUT", "/routes/1", &viewer, ROUTE).status(), 401);
    assert_eq!(send(gateway.admin, "GET", "/users", &viewer, "").status(), 403);
}

#[test]
fn forged_tokens_sign_in_no_one() {
    let provider = Provider::start();
    let more = json!({"clock_skew": 60});
    let gateway = start(&provider, &more);
    let now = seconds();
    let rows: [(&str, Signed, Value, &str); 25] = [
        ("", Signed::Not("none"), json!({}), "not signed; the console needs"),
        ("", Signed::Not("NoNe"), json!({}), "not signed"),
        ("", Signed::Not("ES256K"), json!({}), "unsupported algorithm"),
        (
            "the client's secret",
            Signed::With(SECRET),
            json!({}),
            "needs a signature by a key of the provider",
        ),
        ("the public key", Signed::WithPublicKey, json!({}), "wrong signature"),
        ("", Signed::With(""), json!({}), "wrong signature"),
        ("", Signed::ByStranger, json!({}), "wrong signature"),
        ("", Signed::ByProvider, json!({"iss": "https://other.example.com"}), "issuer"),
        ("", Signed::ByProvider, json!({"iss": null}), "issuer"),
        ("", Signed::ByProvider, json!({"aud": "other"}), "audience"),
        ("", Signed::ByProvider, json!({"aud": ["other", "another"]}), "audience"),
        ("", Signed::ByProvider, json!({"aud": ["console", "other"], "azp": "other"}), "audience"),
        ("", Signed::ByProvider, json!({"azp": "other"}), "azp is \\\"other\\\""),
        ("", Signed::ByProvider, json!({"aud": ["console"], "azp": "other"}), "audience"),
        ("", Signed::ByProvider, json!({"azp": ["console"]}), "audience"),
        ("", Signed::ByProvider, json!({"aud": null}), "audience"),
        ("past the skew", Signed::ByProvider, json!({"exp": now - 90}), "expired"),
        ("", Signed::ByProvider, json!({"exp": null}), "no exp"),
        (
            "",
            Signed::ByProvider,
            json!({"iat": now + 300}),
            "issued in the future: see deployment.admin.oidc.clock_skew",
        ),
        ("", Signed::ByProvider, json!({"iat": null}), "no iat"),
        ("", Signed::ByProvider, json!({"nonce": "of another login"}), "nonce"),
        ("", Signed::ByProvider, json!({"nonce": null}), "nonce"),
        ("", Signed::ByProvider, json!({"sub": null}), "no sub"),
        ("", Signed::ByProvider, json!({"nbf": now + 300}), ""),
        ("", Signed::ByProvider, json!("no token"), "no id_token"),
    ];
    for (what, signed, claims, reason) in rows {
        let answer = sign_in(&gateway, &provider, |plan| {
            (plan.signed, plan.claims) = (signed, claims.clone());
        });
        assert!(answer.status() == 401, "{what} {claims}: {}", answer.body_text());
        refused(&answer, 401, reason);
    }
    let within =
        sign_in(&gateway, &provider, |plan| plan.claims = json!({"exp": now - 30, "iat": now - 600}));
    assert_eq!(within.status(), 201, "within clock_skew: {}", within.body_text());
    session(&sign_in(&gateway, &provider, |plan| {
        plan.claims = json!({"aud": ["console", "other"], "azp": "console"});
    }));
    refused(&sign_in(&gateway, &provider, |plan| plan.token_status = 500), 401, "answered 500");
    // RFC 9207: what another provider answered.
    let away = Away::of(&gateway);
    provider.plan(|plan| plan.nonce = away.argument("nonce").to_owned());
    let mut answer = away.answer();
    answer["iss"] = json!("https://other.example.com");
    refused(&come_back(&gateway, &answer, &away.cookie, ""), 401, "iss from argument");
    gateway.wait_for_log("signing in to the console with Example failed");
}

#[test]
fn documents_of_others_and_providers_that_are_down_sign_in_no_one() {
    for (document, reason) in [
        (json!({"issuer": "https://other.example.com"}), "is of issuer https://other.example.com, not of"),
        (json!({"token_endpoint": "http://idp.example.com/token"}), "is not https"),
        (json!({"jwks_uri": "http://192.0.2.1/keys"}), "is not https"),
        (json!({"authorization_endpoint": "javascript:alert(1)"}), "is not https"),
        (json!({"authorization_endpoint": null}), "no authorization_endpoint"),
        (json!({"token_endpoint": null}), "no token_endpoint"),
        (json!({"jwks_uri": null}), "no jwks_uri"),
    ] {
        let provider = Provider::start();
        let gateway = start(&provider, &json!({}));
        provider.plan(|plan| plan.document = document);
        refused(&leave(&gateway), 503, reason);
        // It is not kept: the provider is asked again.
        provider.plan(|_| {});
        session(&sign_in(&gateway, &provider, |_| {}));
    }
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.local_addr().expect("an address")
    };
    let mut gateway = Gateway::start(&config(gone, &json!({})), None);
    gateway.process.wait_for_port(gateway.admin);
    refused(&leave(&gateway), 503, "Example cannot be used");
    let key = json!({ "key": ADMIN_KEY }).to_string();
    assert_eq!(send(gateway.admin, "POST", "/sessions", "", &key).status(), 201, "keys still sign in");
    // An issuer that the document's address does not tell.
    let provider = Provider::start();
    let gateway = start(&provider, &json!({"issuer": "https://idp.example.com"}));
    refused(&leave(&gateway), 503, "not of https://idp.example.com");
}

#[test]
fn an_answer_serves_once_and_the_browser_that_asked() {
    let provider = Provider::start();
    let gateway = start(&provider, &json!({}));
    let away = Away::of(&gateway);
    provider.plan(|plan| plan.nonce = away.argument("nonce").to_owned());
    refused(&come_back(&gateway, &away.answer(), "", ""), 401, "no sign-in of this browser is under way");
    let other = Away::of(&gateway);
    refused(&come_back(&gateway, &away.answer(), &other.cookie, ""), 401, "no sign-in of this browser");
    let name = away.cookie.split('=').next().unwrap_or_default();
    refused(
        &come_back(&gateway, &away.answer(), &format!("{name}=guessed"), ""),
        401,
        "no sign-in of this browser",
    );
    for site in ["cross-site", "same-site"] {
        let fields = format!("Sec-Fetch-Site: {site}\r\n");
        refused(&come_back(&gateway, &away.answer(), &away.cookie, &fields), 403, "console's own page");
        let uri = json!({"redirect_uri": format!("http://{}/ui/oidc", gateway.admin)}).to_string();
        refused(&send(gateway.admin, "POST", "/sessions/oidc", &fields, &uri), 403, "console's own page");
    }
    // The session that the browser had, or that was planted there, is another one than that which begins.
    let planted =
        session(&send(gateway.admin, "POST", "/sessions", "", &json!({ "key": ADMIN_KEY }).to_string()));
    let cookie = planted.lines().find_map(|line| line.strip_prefix("Cookie: ")).expect("a cookie").to_owned();
    let answer = come_back(&gateway, &away.answer(), &format!("{cookie}; {}", away.cookie), "");
    let fields = session(&answer);
    assert!(!fields.contains(cookie.split('=').next_back().unwrap_or_default()), "{fields}");
    assert_eq!(
        send(gateway.admin, "GET", "/routes", &planted, "").status(),
        401,
        "the planted one has ended"
    );
    refused(
        &come_back(&gateway, &away.answer(), &away.cookie, ""),
        401,
        "no sign-in of this browser is under way",
    );
    // A wrong state ends what was under way.
    let away = Away::of(&gateway);
    provider.plan(|plan| plan.nonce = away.argument("nonce").to_owned());
    refused(&come_back(&gateway, &json!({"code": "any", "state": "x"}), &away.cookie, ""), 401, "under way");
    refused(&come_back(&gateway, &away.answer(), &away.cookie, ""), 401, "under way");
    for body in [
        json!({"redirect_uri": "https://evil.example.com/ui/oidc"}),
        json!({"redirect_uri": format!("http://{}/ui/oidc?x", gateway.admin)}),
        json!({"redirect_uri": format!("http://{}/ui/oidc/", gateway.admin)}),
        json!({"redirect_uri": "http://gateway.example.com/ui/oidc"}),
        json!({"redirect_uri": ["https://gateway.example.com/ui/oidc"]}),
        json!({}),
    ] {
        let answer = send(gateway.admin, "POST", "/sessions/oidc", "", &body.to_string());
        assert_eq!(answer.status(), 400, "{body}: {}", answer.body_text());
    }
    // Signed out is signed out.
    assert_eq!(send(gateway.admin, "DELETE", "/sessions/current", &fields, "").status(), 204);
    assert_eq!(send(gateway.admin, "GET", "/routes", &fields, "").status(), 401);
}

/// Neither what is no guess nor what the provider does keeps others behind the same address out.
#[test]
fn failures_of_others_on_this_machine_lock_nobody_out() {
    let provider = Provider::start();
    let gateway = start(&provider, &json!({}));
    let forged = json!({"code": "x", "state": "y"});
    for _ in 0..24 {
        refused(&come_back(&gateway, &forged, "", ""), 401, "no sign-in of this browser");
    }
    session(&sign_in(&gateway, &provider, |_| {}));
    for _ in 0..12 {
        refused(&sign_in(&gateway, &provider, |plan| plan.token_status = 503), 401, "answered 503");
    }
    session(&sign_in(&gateway, &provider, |_| {}));
    for _ in 0..12 {
        let nobody = sign_in(&gateway, &provider, |plan| plan.claims = json!({"groups": []}));
        refused(&nobody, 403, "no entry of");
    }
    // Wrong keys are guesses, of keys: they still count, and not for the provider.
    let wrong = json!({"key": "wrong"}).to_string();
    let statuses: Vec<u16> =
        (0..12).map(|_| send(gateway.admin, "POST", "/sessions", "", &wrong).status()).collect();
    assert!(statuses[..10].iter().all(|status| *status == 401) && statuses[11] == 429, "{statuses:?}");
    session(&sign_in(&gateway, &provider, |_| {}));
}

/// However many sign-ins begin, none makes room for another.
#[test]
fn a_flood_of_beginnings_ends_no_sign_in() {
    let provider = Provider::start();
    let gateway = start(&provider, &json!({}));
    let first = Away::of(&gateway);
    let body = json!({"redirect_uri": format!("http://{}/ui/oidc", gateway.admin)}).to_string();
    let request = format!(
        "POST /apisix/admin/sessions/oidc HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut client = Client::connect(gateway.admin).expect("connected");
    for _ in 0..1100 {
        assert_eq!(client.request(&request).expect("an answer").status(), 201);
    }
    // What a browser has of its sign-in is sealed.
    let (_, sealed) = first.cookie.split_once('=').expect("a cookie");
    let known = String::from_utf8_lossy(&URL_SAFE_NO_PAD.decode(sealed).expect("base64")).into_owned();
    assert!(!known.contains(first.argument("state")), "{known}");
    provider.plan(|plan| plan.nonce = first.argument("nonce").to_owned());
    session(&come_back(&gateway, &first.answer(), &first.cookie, ""));
    refused(&come_back(&gateway, &first.answer(), &first.cookie, ""), 401, "no sign-in of this browser");
}

/// A provider that never answers holds a bounded number of sign-ins, and those alone.
#[test]
fn a_provider_that_does_not_answer_holds_no_more_than_a_few() {
    let provider = Provider::start();
    let gateway = start(&provider, &json!({}));
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = silent.local_addr().expect("an address");
    provider.plan(|plan| plan.document = json!({"token_endpoint": format!("http://{at}/token")}));
    let away: Vec<Away> = (0..33).map(|_| Away::of(&gateway)).collect();
    let mut waiting = Vec::new();
    for away in &away[..32] {
        let body = json!({ "oidc": away.answer() }).to_string();
        let (cookie, length) = (&away.cookie, body.len());
        let mut stream = std::net::TcpStream::connect(gateway.admin).expect("connected");
        let request = format!(
            "POST /apisix/admin/sessions HTTP/1.1\r\nHost: localhost\r\nCookie: {cookie}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        std::io::Write::write_all(&mut stream, request.as_bytes()).expect("sent");
        // The gateway has asked the provider.
        waiting.push((stream, silent.accept().expect("a connection")));
    }
    let one_more = come_back(&gateway, &away[32].answer(), &away[32].cookie, "");
    refused(&one_more, 503, "send the same again");
    let key = json!({ "key": ADMIN_KEY }).to_string();
    assert_eq!(send(gateway.admin, "POST", "/sessions", "", &key).status(), 201, "keys sign in");
    drop((waiting, silent));
    eventually("the same answer is taken", || {
        let again = come_back(&gateway, &away[32].answer(), &away[32].cookie, "");
        again.status() == 401 && again.body_text().contains("accessing")
    });
}

#[test]
fn the_audit_log_names_who_signs_in_and_who_tries_to() {
    let provider = Provider::start();
    let gateway = start(&provider, &json!({}));
    session(&sign_in(&gateway, &provider, |_| {}));
    refused(&sign_in(&gateway, &provider, |plan| plan.claims = json!({"groups": []})), 403, "no entry of");
    let user = json!({"role": "viewer", "password": "correct horse battery"}).to_string();
    let as_admin = format!("X-API-KEY: {ADMIN_KEY}\r\n");
    assert_eq!(send(gateway.admin, "PUT", "/users/jo", &as_admin, &user).status(), 201);
    for password in ["wrong horse battery", "correct horse battery"] {
        send(
            gateway.admin,
            "POST",
            "/sessions",
            "",
            &json!({"user": "jo", "password": password}).to_string(),
        );
    }
    send(gateway.admin, "POST", "/sessions", "", &json!({"user": "jo\n", "password": "x"}).to_string());
    send(gateway.admin, "POST", "/sessions", "", &json!({"key": "wrong"}).to_string());
    let expected = [
        ("oidc:alice@example.com admin", "null", 201),
        ("null null", "oidc:alice@example.com", 403),
        ("null null", "jo", 401),
        ("jo viewer", "null", 201),
        ("null null", "null", 401),
        ("null null", "null", 401),
    ];
    let path = gateway.prefix().join("logs/audit.log");
    let read = || {
        let text = fs::read_to_string(&path).unwrap_or_default();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let of_sessions = lines.filter(|line| line["path"] == "/apisix/admin/sessions");
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let shown = |line: Value| {
            let tried = line.get("tried").map_or_else(|| "null".to_owned(), text);
            (format!("{} {}", text(&line["key"]), text(&line["role"])), tried, line["status"].as_u64())
        };
        of_sessions.map(shown).collect::<Vec<_>>()
    };
    let expected: Vec<_> = expected
        .into_iter()
        .map(|(who, tried, status)| (who.to_owned(), tried.to_owned(), Some(status)))
        .collect();
    eventually("the lines of the audit log", || read().len() == expected.len());
    assert_eq!(read(), expected);
}

#[test]
fn secrets_scopes_and_the_way_out_are_those_of_the_file() {
    let provider = Provider::start();
    let home = std::env::var("HOME").expect("a home");
    let more = json!({
        "client_secret": "$env://HOME", "scopes": ["openid", "groups"], "name_claim": "sub", "session_lifetime": "90s",
        "sign_out_at_provider": true,
        "roles": [{"claim": "groups", "value": "staff", "role": "viewer", "scope": {"team": "payments"}}],
    });
    let gateway = start(&provider, &more);
    assert!(Away::of(&gateway).location.contains("scope=openid%20groups"));
    let answer = sign_in(&gateway, &provider, |_| {});
    let (fields, shown) = (session(&answer), json_of(&answer));
    assert_eq!((&shown["name"], &shown["scopes"]), (&json!("oidc:u-1"), &json!(["team=payments"])), "scope");
    assert!(shown["expires"].as_u64().is_some_and(|at| at <= seconds() + 90), "{shown}");
    let pair = |index: usize| {
        let asked = provider.plan.lock().expect("a plan").asked.clone();
        let shown = asked[index].1.strip_prefix("Basic ").map(str::to_owned).expect("basic");
        String::from_utf8(STANDARD.decode(shown).expect("base64")).expect("text")
    };
    assert_eq!(pair(0), format!("console:{}", home.replace('/', "%2F")));
    let out = send(gateway.admin, "DELETE", "/sessions/current", &fields, "");
    let location = format!("http://{}/leave?client_id=console", provider.address());
    assert_eq!((out.status(), &json_of(&out)["location"]), (200, &json!(location)));
    let gateway = start(&provider, &json!({"client_secret": "$secret://vault/1/oidc/secret"}));
    refused(&sign_in(&gateway, &provider, |_| {}), 401, "no such secret manager");
    let vault =
        json!({"uri": format!("http://{}", provider.address()), "prefix": "kv", "token": "t"}).to_string();
    let as_admin = format!("X-API-KEY: {ADMIN_KEY}\r\n");
    assert_eq!(send(gateway.admin, "PUT", "/secrets/vault/1", &as_admin, &vault).status(), 201);
    session(&sign_in(&gateway, &provider, |_| {}));
    assert_eq!(pair(0), "console:the%20secret%20of%20the%20client");
    let gateway = start(&provider, &json!({"client_secret": "$env://TIDEGATE_NOT_SET"}));
    refused(&sign_in(&gateway, &provider, |_| {}), 401, "no such variable in the gateway's environment");
}

#[test]
fn half_a_provider_keeps_the_gateway_from_starting() {
    let provider = Provider::start();
    for (more, said) in [
        (json!({"roles": null}), "oidc needs roles"),
        (json!({"client_id": null, "redirect_uris": []}), "oidc needs client_id, redirect_uris"),
        (
            json!({"discovery": "http://idp.example.com/.well-known/openid-configuration"}),
            "begins with https://",
        ),
        (json!({"discovery": "https://idp.example.com/x"}), "set issuer"),
        (json!({"redirect_uris": ["http://gateway.example.com/ui/oidc"]}), "/ui/oidc"),
        (json!({"redirect_uris": ["https://gateway.example.com/ui/other"]}), "/ui/oidc"),
        (json!({"scopes": ["email"]}), "openid is missing"),
        (json!({"session_lifetime": "13h"}), "at most 12h"),
        (json!({"roles": [{"value": "x"}]}), "needs value and role"),
        (json!({"roles": [{"value": "x", "role": "owner"}]}), "admin"),
        (
            json!({"roles": [{"value": "x", "role": "admin", "scope": {"team": "a"}}]}),
            "role admin has no scope",
        ),
        (json!({"roles": [{"value": "x", "role": "viewer", "scope": {}}]}), "scope is empty"),
        (json!({"roles": [{"value": "x", "role": "editor", "scope": null}]}), "scope is empty"),
    ] {
        let mut gateway = Gateway::start_unready(&config(provider.address(), &more), None);
        assert!(!gateway.process.wait_for_exit().success(), "{more}");
        gateway.process.wait_for_output(said);
    }
}
