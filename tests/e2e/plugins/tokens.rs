//! Signatures that prove less than they seem to: tokens with extensions that must be understood, repeated fields of which
//! one is signed, and signed requests that come twice.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Upstream};

fn tag(secret: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret), text.as_bytes()).as_ref().to_vec()
}

/// A JSON web token, signed with HS256 whatever its header says.
pub(super) fn token(header: &Value, payload: &Value, secret: &[u8]) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(header), part(payload));
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag(secret, &signed)))
}

struct Fixture {
    gateway: Gateway,
    upstream: Upstream,
}

fn fixture(plugins: &[(&str, Value)], consumer: Value) -> Fixture {
    let upstream = Upstream::start();
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let routes: Vec<Value> = plugins
        .iter()
        .map(|(path, plugins)| json!({"id": path[1..], "uri": path, "plugins": plugins, "upstream": node}))
        .collect();
    let objects = json!({"routes": routes, "consumers": [{"username": "jack", "plugins": consumer}]});
    Fixture { gateway: Gateway::start(YAML_PROVIDER, Some(&objects.to_string())), upstream }
}

impl Fixture {
    /// The status, and whether the request went on.
    fn get(&self, path: &str, fields: &str) -> (u16, bool) {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        let status = self.gateway.client().request(&request).expect("an answer").status();
        (status, !self.upstream.take().is_empty())
    }
}

const PASSED: (u16, bool) = (200, true);
const REFUSED: (u16, bool) = (401, false);
const TWICE: (u16, bool) = (400, false);

/// RFC 7515, section 4.1.11: who does not understand an extension refuses the token.
#[test]
fn tokens_with_critical_extensions() {
    let consumer = json!({"jwt-auth": {"key": "jack", "secret": "a secret of jack"}});
    let fixture = fixture(&[("/jwt", json!({"jwt-auth": {}}))], consumer);
    let payload = json!({"key": "jack", "exp": 4_000_000_000u32});
    let headers = [
        (json!({"alg": "HS256"}), PASSED),
        (json!({"alg": "HS256", "typ": "JWT", "exp": 1}), PASSED),
        (json!({"alg": "HS256", "crit": ["exp"], "exp": 1}), REFUSED),
        (json!({"alg": "HS256", "crit": ["b64"], "b64": false}), REFUSED),
        (json!({"alg": "HS256", "crit": ["b64"], "b64": true}), REFUSED),
        (json!({"alg": "HS256", "crit": ["alg"]}), REFUSED),
        (json!({"alg": "HS256", "crit": []}), REFUSED),
        (json!({"alg": "HS256", "crit": "exp"}), REFUSED),
        (json!({"alg": "HS256", "crit": null}), REFUSED),
        (json!({"alg": "none"}), REFUSED),
        (json!({"alg": "NoNe"}), REFUSED),
        (json!({"alg": "hs256"}), REFUSED),
        (json!({}), REFUSED),
    ];
    // Twice: what the cache of good tokens has learnt must not help.
    for (header, expected) in headers.iter().chain(&headers) {
        let token = token(header, &payload, b"a secret of jack");
        assert_eq!(fixture.get("/jwt", &format!("Authorization: Bearer {token}\r\n")), *expected, "{header}");
    }
}

/// A gateway that looks at the first one and an upstream that looks at the last one would differ.
#[test]
fn repeated_credentials() {
    let consumer = json!({"jwt-auth": {"key": "jack", "secret": "s"}, "basic-auth": {"username": "jack", "password": "p"}});
    let plugins = [("/jwt", json!({"jwt-auth": {}})), ("/basic", json!({"basic-auth": {}}))];
    let fixture = fixture(&plugins, consumer);
    let token = token(&json!({"alg": "HS256"}), &json!({"key": "jack"}), b"s");
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let basic = format!("Authorization: Basic {}\r\n", STANDARD.encode("jack:p"));
    for (path, good) in [("/jwt", bearer), ("/basic", basic)] {
        assert_eq!(fixture.get(path, &good), PASSED, "{path}");
        // As in nginx: the head is refused before any plugin reads it.
        assert_eq!(fixture.get(path, &format!("{good}Authorization: Bearer x.y.z\r\n")), TWICE, "{path}");
        assert_eq!(fixture.get(path, &format!("{good}{good}")), TWICE, "{path}");
    }
}

/// Fields of a request that is signed with these, and the signature.
fn signed(path: &str, signed: &[(&str, &str)]) -> String {
    let mut text = format!("jack\nGET {path}\n");
    let mut names = String::from("@request-target");
    let mut fields = String::new();
    for (name, value) in signed {
        text.push_str(&format!("{name}: {value}\n"));
        names.push_str(&format!(" {name}"));
        fields.push_str(&format!("{name}: {value}\r\n"));
    }
    let signature = STANDARD.encode(tag(b"secret of jack", &text));
    format!(
        "{fields}Authorization: Signature keyId=\"jack\",algorithm=\"hmac-sha256\",headers=\"{names}\",\
         signature=\"{signature}\"\r\n"
    )
}

fn date() -> String {
    let output = std::process::Command::new("date").args(["-u", "+%a, %d %b %Y %H:%M:%S GMT"]).output();
    String::from_utf8_lossy(&output.expect("date runs").stdout).trim().to_owned()
}

fn hmac_fixture(plugins: &[(&str, Value)]) -> Fixture {
    fixture(plugins, json!({"hmac-auth": {"key_id": "jack", "secret_key": "secret of jack"}}))
}

#[test]
fn repeated_fields_that_are_signed() {
    let body_too = json!({"hmac-auth": {"validate_request_body": true}});
    let fixture = hmac_fixture(&[("/hmac", json!({"hmac-auth": {}})), ("/body", body_too)]);
    let date = date();
    let good = signed("/hmac", &[("date", &date), ("x-amount", "1")]);
    assert_eq!(fixture.get("/hmac", &good), PASSED);
    for more in [
        format!("Date: {date}\r\n"),
        "Date: Thu, 01 Jan 2015 00:00:00 GMT\r\n".to_owned(),
        "X-Amount: 100\r\n".to_owned(),
        "x-amount: 1\r\n".to_owned(),
        "X_Amount: 100\r\n".to_owned(),
    ] {
        assert_eq!(fixture.get("/hmac", &format!("{good}{more}")), REFUSED, "behind: {more}");
        assert_eq!(fixture.get("/hmac", &format!("{more}{good}")), REFUSED, "before: {more}");
    }
    // What nothing vouches for may be repeated.
    assert_eq!(fixture.get("/hmac", &format!("{good}X-Note: a\r\nX-Note: b\r\n")), PASSED);
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, b"");
    let digest = format!("Digest: SHA-256={}\r\n", STANDARD.encode(digest));
    let good = signed("/body", &[("date", &date)]);
    assert_eq!(fixture.get("/body", &format!("{good}{digest}")), PASSED);
    assert_eq!(fixture.get("/body", &format!("{good}{digest}Digest: SHA-256=x\r\n")), REFUSED);
}

#[test]
fn signed_requests_that_come_twice() {
    let once = json!({"hmac-auth": {"nonce_header": "X-Nonce"}});
    let fixture =
        hmac_fixture(&[("/often", json!({"hmac-auth": {}})), ("/once", once.clone()), ("/once-too", once)]);
    let date = date();
    let with_nonce = |path: &str, nonce: &str| signed(path, &[("date", &date), ("x-nonce", nonce)]);
    let first = with_nonce("/once", "a");
    assert_eq!(fixture.get("/once", &first), PASSED);
    assert_eq!(fixture.get("/once", &first), REFUSED, "a replay");
    assert_eq!(fixture.get("/once", &with_nonce("/once", "b")), PASSED);
    assert_eq!(
        fixture.get("/once-too", &with_nonce("/once-too", "a")),
        REFUSED,
        "a nonce is used once anywhere"
    );
    let bare = signed("/once", &[("date", &date)]);
    assert_eq!(fixture.get("/once", &bare), REFUSED, "no nonce");
    assert_eq!(fixture.get("/once", &format!("{bare}X-Nonce: c\r\n")), REFUSED, "a nonce that is not signed");
    assert_eq!(fixture.get("/once", &with_nonce("/once", "")), REFUSED, "an empty nonce");
    // A wrong signature uses up nobody's nonce.
    let forged = with_nonce("/once", "d").replace("signature=\"", "signature=\"AAAA");
    assert_eq!(fixture.get("/once", &forged), REFUSED);
    assert_eq!(fixture.get("/once", &with_nonce("/once", "d")), PASSED);
    // Without the option it is as in APISIX.
    let often = with_nonce("/often", "a");
    assert_eq!(fixture.get("/often", &often), PASSED);
    assert_eq!(fixture.get("/often", &often), PASSED);
}

/// A signature says nothing of what it does not cover: with an unsigned `Digest` another body can go with it.
#[test]
fn bodies_are_covered_by_a_signed_digest() {
    let conf = |more: Value| {
        let mut conf = json!({"validate_request_body": true});
        for (name, value) in more.as_object().into_iter().flatten() {
            conf[name] = value.clone();
        }
        json!({ "hmac-auth": conf })
    };
    let signs_all = json!({"signed_headers": ["@request-target", "date", "digest"]});
    let fixture = hmac_fixture(&[("/as-apisix", conf(json!({}))), ("/strict", conf(signs_all))]);
    let date = date();
    let digest = |body: &[u8]| {
        format!("SHA-256={}", STANDARD.encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, body)))
    };
    let post = |path: &str, fields: &str, body: &str| {
        let length = body.len();
        let request =
            format!("POST {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n{fields}\r\n{body}");
        let status = fixture.gateway.client().request(&request).expect("an answer").status();
        (status, !fixture.upstream.take().is_empty())
    };
    // `signed` is for GET.
    let of_post = |path: &str, headers: &[(&str, &str)]| {
        let mut text = format!("jack\nPOST {path}\n");
        let (mut names, mut fields) = (String::from("@request-target"), String::new());
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\n"));
            names.push_str(&format!(" {name}"));
            fields.push_str(&format!("{name}: {value}\r\n"));
        }
        let signature = STANDARD.encode(tag(b"secret of jack", &text));
        format!(
            "{fields}Authorization: Signature keyId=\"jack\",algorithm=\"hmac-sha256\",headers=\"{names}\",\
             signature=\"{signature}\"\r\n"
        )
    };
    let whole = of_post("/strict", &[("date", &date), ("digest", &digest(b"good"))]);
    assert_eq!(post("/strict", &whole, "good"), PASSED);
    assert_eq!(post("/strict", &whole, "evil"), REFUSED);
    let other = whole.replace(&digest(b"good"), &digest(b"evil"));
    assert_eq!(post("/strict", &other, "evil"), REFUSED, "another digest");
    let loose = |path: &str, body: &str| {
        format!("{}Digest: {}\r\n", of_post(path, &[("date", &date)]), digest(body.as_bytes()))
    };
    assert_eq!(post("/strict", &loose("/strict", "evil"), "evil"), REFUSED, "an unsigned digest");
    // As in APISIX, whose clients need not sign it; the log says so.
    assert_eq!(post("/as-apisix", &loose("/as-apisix", "evil"), "evil"), PASSED);
    fixture.gateway.wait_for_log("hmac-auth of routes/as-apisix: validate_request_body without");
    assert!(!fixture.gateway.error_log().contains("hmac-auth of routes/strict"));
}
