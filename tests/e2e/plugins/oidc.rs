//! openid-connect with a provider that does as it is told: what an unsigned ID token, a second callback and a cookie from
//! before the logout are worth.

mod bound;
mod sessions;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Message, Upstream, servers};

use crate::plugins::tokens::token;

const SECRET: &str = "the secret of the client";

/// An identity provider. It gives tokens for any code, as often as it is asked: what is used once is the gateway's care.
struct Provider {
    server: Upstream,
    /// The header of the next ID tokens, and what stands instead of their signature.
    header: Arc<Mutex<(Value, Option<String>)>>,
    asked: Arc<AtomicUsize>,
    /// Status of the next answers with tokens.
    status: Arc<Mutex<u16>>,
}

impl Provider {
    fn start() -> Provider {
        let header = Arc::new(Mutex::new((json!({"alg": "HS256"}), None)));
        let asked = Arc::new(AtomicUsize::new(0));
        let status = Arc::new(Mutex::new(200));
        let (of_tokens, count, with) = (Arc::clone(&header), Arc::clone(&asked), Arc::clone(&status));
        let server = Upstream::service(move |request| {
            let issuer = format!("http://{}", request.header("Host").unwrap_or_default());
            match request.target() {
                "/token" => {
                    count.fetch_add(1, Ordering::SeqCst);
                    (
                        *with.lock().expect("a status"),
                        tokens(&issuer, &of_tokens.lock().expect("a header")).to_string(),
                    )
                }
                "/.well-known" => {
                    let document = json!({"issuer": issuer, "token_endpoint": format!("{issuer}/token"),
                        "authorization_endpoint": format!("{issuer}/authorize"), "jwks_uri": format!("{issuer}/keys")});
                    (200, document.to_string())
                }
                "/keys" => (200, json!({"keys": []}).to_string()),
                _ => (404, String::new()),
            }
        });
        Provider { server, header, asked, status }
    }

    fn sign(&self, header: Value, signature: Option<&str>) {
        *self.header.lock().expect("a header") = (header, signature.map(str::to_owned));
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

fn tokens(issuer: &str, (header, signature): &(Value, Option<String>)) -> Value {
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_secs();
    let claims = json!({"iss": issuer, "sub": "alice", "aud": "c", "iat": now, "exp": now + 600});
    let signed = token(header, &claims, SECRET.as_bytes());
    let id_token = match signature {
        None => signed,
        Some(other) => {
            let end = signed.rfind('.').expect("a signature");
            format!("{}.{other}", &signed[..end])
        }
    };
    json!({"access_token": "opaque", "token_type": "Bearer", "expires_in": 600, "id_token": id_token})
}

struct Fixture {
    gateway: Gateway,
    provider: Provider,
    /// What is to be guarded.
    upstream: Upstream,
}

fn fixture(more: Value, session: Value) -> Fixture {
    let provider = Provider::start();
    let upstream = Upstream::start();
    let mut conf = json!({
        "client_id": "c", "client_secret": SECRET, "redirect_uri": "/callback",
        "discovery": format!("http://{}/.well-known", provider.server.address),
        "session": {"secret": "0123456789abcdef0123456789abcdef"},
    });
    for (name, value) in more.as_object().into_iter().flatten() {
        conf[name] = value.clone();
    }
    for (name, value) in session.as_object().into_iter().flatten() {
        conf["session"][name] = value.clone();
    }
    let route = json!({"id": "1", "uri": "/*", "plugins": {"openid-connect": conf},
                       "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}}});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({ "routes": [route] }).to_string()));
    Fixture { gateway, provider, upstream }
}

/// What a browser would send back: name and value of the cookies that are set.
fn cookies(answer: &Message) -> String {
    let head = String::from_utf8_lossy(&answer.head).into_owned();
    let lines = head.lines().filter_map(|line| line.strip_prefix("Set-Cookie: "));
    let pairs: Vec<&str> = lines.filter_map(|line| line.split(';').next()).collect();
    pairs.join("; ")
}

impl Fixture {
    fn get(&self, path: &str, cookie: &str) -> Message {
        let cookie = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\r\n") };
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{cookie}\r\n");
        self.gateway.client().request(&request).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Begins a login: the path of its callback, and the cookie.
    fn begin(&self) -> (String, String) {
        let answer = self.get("/app?x=1", "");
        assert_eq!(answer.status(), 302, "{}", answer.body_text());
        let location = answer.header("Location").expect("a location");
        let (_, rest) = location.split_once("state=").expect("a state");
        let state = rest.split('&').next().unwrap_or_default();
        (format!("/callback?code=any&state={state}"), cookies(&answer))
    }

    /// The cookie of a session that is logged in.
    fn log_in(&self) -> String {
        let (callback, cookie) = self.begin();
        let answer = self.get(&callback, &cookie);
        assert_eq!((answer.status(), answer.header("Location")), (302, Some("/app?x=1")));
        cookies(&answer)
    }

    fn is_in(&self, cookie: &str) -> bool {
        self.upstream.take();
        let status = self.get("/app", cookie).status();
        let reached = !self.upstream.take().is_empty();
        assert_eq!(reached, status == 200, "{status}");
        reached
    }
}

#[test]
fn unsigned_id_tokens() {
    let named = |name: &str| json!({ "alg": name });
    let rows = [
        (named("HS256"), None, true),
        (named("HS256"), Some(""), false),
        (named("none"), Some(""), false),
        (named("None"), Some(""), false),
        (named("NoNe"), Some(""), false),
        (named("nONE"), Some("x"), false),
        (named(" none"), Some(""), false),
        (named("none "), Some(""), false),
        (named("nöne"), Some(""), false),
        (named(""), Some(""), false),
        (json!({}), Some(""), false),
        (json!({"alg": ["none"]}), Some(""), false),
        (json!({"alg": null}), Some(""), false),
        (named("HS1"), Some("x"), false),
        (named("hs256"), None, false),
        (named("x"), Some("x"), false),
        // One that is registered and cannot be checked here, with a signature: `accept_unsupported_alg` is for these.
        (named("ES256K"), Some("x"), true),
        (named("ES256K"), Some(""), false),
        (json!({"alg": "HS256", "crit": ["b64"], "b64": true}), None, false),
    ];
    let check = |conf: Value, exceptions: &[(&str, bool)]| {
        let fixture = fixture(conf.clone(), json!({}));
        for (header, signature, expected) in &rows {
            let name = header["alg"].as_str().unwrap_or_default();
            let excepted = exceptions.iter().find(|(of, _)| *of == name).map(|(_, expected)| *expected);
            let expected = excepted.unwrap_or(*expected);
            fixture.provider.sign(header.clone(), *signature);
            let (callback, cookie) = fixture.begin();
            let answer = fixture.get(&callback, &cookie);
            let logged_in = answer.status() == 302 && fixture.is_in(&cookies(&answer));
            assert_eq!(logged_in, expected, "{header} {signature:?} with {conf}");
        }
    };
    check(json!({}), &[]);
    check(json!({"accept_unsupported_alg": false}), &[("ES256K", false)]);
    check(json!({"accept_none_alg": true}), &[("none", true)]);
    check(
        json!({"accept_none_alg": true, "token_signing_alg_values_expected": "HS256"}),
        &[("none", false), ("ES256K", false)],
    );
}

/// The session, and the login that it came from, wherever they are kept.
fn sessions_end_and_callbacks_serve_once(fixture: &Fixture) {
    let (callback, before) = fixture.begin();
    let answer = fixture.get(&callback, &before);
    assert_eq!(answer.status(), 302);
    let session = cookies(&answer);
    assert!(fixture.is_in(&session));

    // Whoever has seen the callback and the cookie of then.
    let asked = fixture.provider.asked();
    for cookie in [before.as_str(), session.as_str()] {
        let again = fixture.get(&callback, cookie);
        assert!(again.status() >= 400, "{}", again.status());
        assert!(cookies(&again).is_empty());
    }
    assert_eq!(fixture.provider.asked(), asked, "the provider is not asked for tokens a second time");
    assert!(fixture.is_in(&session), "a replay ends nobody's session");

    let other = fixture.log_in();
    assert!(matches!(fixture.get("/logout", &session).status(), 200 | 302));
    assert!(!fixture.is_in(&session), "a copy of the cookie after the logout");
    assert!(fixture.is_in(&other), "another session of the same user");
    assert!(fixture.is_in(&fixture.log_in()), "a new login");
}

#[test]
fn sessions_in_cookies() {
    let fixture = fixture(json!({}), json!({}));
    sessions_end_and_callbacks_serve_once(&fixture);
    // What ended stays ended when the route is written again, and the plugin with it rebuilt.
    let session = fixture.log_in();
    fixture.get("/logout", &session);
    let conf = fixture.gateway.prefix().join("conf/apisix.yaml");
    let routes = std::fs::read_to_string(conf).expect("routes").replace("\"/*\"", "\"/a*\"");
    fixture.gateway.write_routes(&routes);
    let start = std::time::Instant::now();
    while fixture.get("/other", "").status() != 404 && start.elapsed() < tidegate_testkit::PATIENCE {}
    assert!(!fixture.is_in(&session));
}

#[test]
fn sessions_in_redis() {
    let redis = servers::redis(&[]);
    let port = redis.address.port();
    sessions_end_and_callbacks_serve_once(&fixture(
        json!({}),
        json!({"storage": "redis", "redis": {"port": port}}),
    ));
}

/// Whoever is not logged in leaves nothing in Redis, however often he asks; a login that has several pages waiting ends.
#[test]
fn anonymous_clients_leave_nothing_in_redis() {
    let redis = servers::redis(&[]);
    let session = json!({"storage": "redis", "redis": {"port": redis.address.port()}});
    let fixture = fixture(json!({}), session);
    let keys = || {
        let mut client = tidegate_testkit::Client::connect(redis.address).expect("connects");
        client.send(b"DBSIZE\r\n").expect("sends");
        let answer = client.exactly(4).expect("an answer");
        String::from_utf8_lossy(&answer).trim().to_owned()
    };
    let long = format!("/app?{}", "x".repeat(1_900));
    let mut cookie = String::new();
    for number in 0..40 {
        let answer = fixture.get(&long, if number % 2 == 0 { "" } else { &cookie });
        assert_eq!(answer.status(), 302);
        cookie = cookies(&answer);
        assert!(cookie.len() < 8_000, "{} bytes of cookies", cookie.len());
    }
    assert_eq!(keys(), ":0");
    let session = fixture.log_in();
    assert!(fixture.is_in(&session));
    assert_ne!(keys(), ":0");
}

/// A login that came to nothing at the provider may be tried again with the same callback.
#[test]
fn a_failed_exchange_uses_nothing_up() {
    let fixture = fixture(json!({}), json!({}));
    let (callback, cookie) = fixture.begin();
    *fixture.provider.status.lock().expect("a status") = 503;
    assert_eq!(fixture.get(&callback, &cookie).status(), 500);
    *fixture.provider.status.lock().expect("a status") = 200;
    assert_eq!(fixture.get(&callback, &cookie).status(), 302);
}

/// Cookies that nobody signed, and answers for one user that a cache would give to the next.
#[test]
fn what_a_session_brings_is_not_shared() {
    let zones = "  proxy_cache: {cache_ttl: 60s, zones: [{name: in_memory, memory_size: 10m}]}\n";
    let provider = Provider::start();
    let upstream = Upstream::start();
    let conf = json!({"client_id": "c", "client_secret": SECRET, "redirect_uri": "/callback",
        "discovery": format!("http://{}/.well-known", provider.server.address),
        "session": {"secret": "0123456789abcdef0123456789abcdef"}});
    let cache = json!({"cache_strategy": "memory", "cache_zone": "in_memory"});
    let route = json!({"id": "1", "uri": "/*", "plugins": {"openid-connect": conf, "proxy-cache": cache},
                       "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}}});
    let config = YAML_PROVIDER.replace("apisix:\n", &format!("apisix:\n{zones}"));
    let gateway = Gateway::start(&config, Some(&json!({ "routes": [route] }).to_string()));
    let fixture = Fixture { gateway, provider, upstream };
    let (alice, bob) = (fixture.log_in(), fixture.log_in());
    assert!(fixture.is_in(&alice) && fixture.is_in(&bob), "each answer comes from the upstream");
    let forged = URL_SAFE_NO_PAD.encode([7; 200]);
    assert!(!fixture.is_in(&format!("session={forged}")));
}

#[test]
fn assertions_live_as_long_as_configured() {
    let client = json!({"client_secret": "a secret of the client, long enough for HMAC",
        "token_endpoint_auth_method": "client_secret_jwt", "client_jwt_assertion_expires_in": 77});
    let fixture = fixture(client, json!({}));
    let (callback, cookie) = fixture.begin();
    fixture.get(&callback, &cookie);
    let seen = fixture.provider.server.seen();
    let asked = seen.iter().find(|seen| seen.message.target() == "/token").expect("a question for tokens");
    let body = asked.message.body_text();
    let assertion =
        body.split('&').find_map(|pair| pair.strip_prefix("client_assertion=")).expect("an assertion");
    let claims = URL_SAFE_NO_PAD.decode(assertion.split('.').nth(1).expect("claims")).expect("base64url");
    let claims: Value = serde_json::from_slice(&claims).expect("JSON");
    let time = |name: &str| claims[name].as_i64().expect("a time");
    assert_eq!(time("exp") - time("iat"), 77, "{claims}");
}
