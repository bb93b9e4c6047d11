//! Access tokens that are bound to a key of the gateway's (DPoP), and providers that are asked through a proxy.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use tidegate_testkit::{free_port, gateway::EMBEDDED, upstream::Behaviour};

use super::*;
use crate::protocols::certs::self_signed;

const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgzVW+Se78iBpOnKwj\n\
    D0Gqp/ZpmFSVJPRSTI7ZU50g3s2hRANCAARJ6hd/fMq/ZLvdEu1ZKHWFmiTjL1LD\n\
    U4q5hU/UxozQRW7+Gr5bcSvgHJWK/PlNCN/NGISpRs3K3l3K0BUr7plo\n\
    -----END PRIVATE KEY-----";
const X: &str = "SeoXf3zKv2S73RLtWSh1hZok4y9Sw1OKuYVP1MaM0EU";
const Y: &str = "bv4avltxK-AclYr8-U0I380YhKlGzcreXcrQFSvumWg";

fn jwk() -> Value {
    json!({"kty": "EC", "crv": "P-256", "x": X, "y": Y})
}

/// Header and claims of a proof whose signature is good.
fn proof(request: &Message) -> Option<(Value, Value)> {
    let text = request.header("DPoP")?;
    let (signed, signature) = text.rsplit_once('.')?;
    let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
    let coordinate = |text| URL_SAFE_NO_PAD.decode(text).expect("base64url");
    let point = [vec![4], coordinate(X), coordinate(Y)].concat();
    let algorithm = &aws_lc_rs::signature::ECDSA_P256_SHA256_FIXED;
    let key = aws_lc_rs::signature::UnparsedPublicKey::new(algorithm, point);
    key.verify(signed.as_bytes(), &signature).ok()?;
    let mut parts = signed
        .split('.')
        .map(|part| serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).expect("base64url")).expect("JSON"));
    Some((parts.next()?, parts.next()?))
}

/// A provider that wants proofs with its own nonce.
fn provider() -> Upstream {
    let answer = Upstream::answer(|request| {
        let issuer = format!("http://{}", request.header("Host").unwrap_or_default());
        let (header, claims) = proof(request).unwrap_or_default();
        let is_for = |method: &str, path: &str| {
            header["typ"] == "dpop+jwt"
                && header["alg"] == "ES256"
                && header["jwk"] == jwk()
                && claims["htm"] == method
                && claims["htu"] == format!("{issuer}{path}").as_str()
                && claims["jti"].as_str().is_some_and(|id| id.len() >= 16)
                && claims["iat"].is_u64()
        };
        let (status, fields, body) = match request.target() {
            "/token" if !is_for("POST", "/token") => (400, "", json!({"error": "invalid_dpop_proof"})),
            "/token" if claims["nonce"] != "of-tokens" => {
                (400, "DPoP-Nonce: of-tokens\r\n", json!({"error": "use_dpop_nonce"}))
            }
            "/token" => {
                let mut body = tokens(&issuer, &(json!({"alg": "HS256"}), None));
                body["token_type"] = "DPoP".into();
                (200, "", body)
            }
            "/userinfo" if claims["nonce"] != "of-users" => (
                401,
                "DPoP-Nonce: of-users\r\nWWW-Authenticate: DPoP error=\"use_dpop_nonce\"\r\n",
                Value::Null,
            ),
            "/userinfo" => {
                let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, b"opaque");
                let is_bound = is_for("GET", "/userinfo")
                    && claims["ath"] == URL_SAFE_NO_PAD.encode(hash).as_str()
                    && request.header("Authorization") == Some("DPoP opaque");
                (if is_bound { 200 } else { 401 }, "", json!({"sub": "alice", "name": "Alice"}))
            }
            _ => {
                let document = json!({"issuer": issuer, "token_endpoint": format!("{issuer}/token"),
                    "authorization_endpoint": format!("{issuer}/authorize"), "jwks_uri": format!("{issuer}/keys"),
                    "userinfo_endpoint": format!("{issuer}/userinfo")});
                (200, "", document)
            }
        };
        let (body, length) = (body.to_string(), body.to_string().len());
        format!("HTTP/1.1 {status} Status\r\n{fields}Content-Length: {length}\r\n\r\n{body}").into_bytes()
    });
    Upstream::with(move |_| Behaviour { read_body: true, steps: vec![answer.clone()] })
}

fn gateway(discovery: &str, more: &Value, upstream: &Upstream) -> Gateway {
    let mut conf = json!({
        "client_id": "c", "client_secret": SECRET, "redirect_uri": "/callback", "discovery": discovery,
        "session": {"secret": "0123456789abcdef0123456789abcdef"},
    });
    conf.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    let route = json!({"id": "1", "uri": "/*", "plugins": {"openid-connect": conf},
                       "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}}});
    Gateway::start(YAML_PROVIDER, Some(&json!({ "routes": [route] }).to_string()))
}

#[test]
fn tokens_are_bound_to_the_key() {
    let (server, upstream) = (provider(), Upstream::start());
    let dpop = json!({"dpop": {"enabled": true, "private_key": KEY, "public_jwk": jwk()}});
    let gateway = gateway(&format!("http://{}/.well-known", server.address), &dpop, &upstream);
    for asked in [4, 2] {
        let begun = gateway.client().get("h", "/app").expect("an answer");
        let location = begun.header("Location").expect("a location").to_owned();
        assert!(location.contains("&dpop_jkt="), "{location}");
        let (_, state) = location.split_once("state=").expect("a state");
        let state = state.split('&').next().unwrap_or_default();
        server.take();
        let cookie = cookies(&begun);
        let request =
            format!("GET /callback?code=x&state={state} HTTP/1.1\r\nHost: h\r\nCookie: {cookie}\r\n\r\n");
        let back = gateway.client().request(&request).expect("an answer");
        assert_eq!(back.status(), 302, "{}", gateway.error_log());
        // Both servers ask for their nonce once.
        assert_eq!(server.take().len(), asked);
        let request = format!("GET /app HTTP/1.1\r\nHost: h\r\nCookie: {}\r\n\r\n", cookies(&back));
        upstream.take();
        assert_eq!(gateway.client().request(&request).expect("an answer").status(), 200);
        let seen = upstream.wait_for(1)[0].text();
        let user = seen.lines().find_map(|line| line.strip_prefix("X-Userinfo: ")).expect("a user");
        let user = base64::engine::general_purpose::STANDARD.decode(user).expect("base64");
        assert!(String::from_utf8_lossy(&user).contains("Alice"), "{seen}");
    }
}

#[test]
fn plain_providers_are_asked_through_the_proxy() {
    let (server, upstream) = (provider(), Upstream::start());
    // Asked with the whole URL, it answers as the provider.
    let shown = |no_proxy: &str| {
        let opts = json!({"proxy_opts": {"http_proxy": format!("http://{}", server.address),
            "http_proxy_authorization": "Basic Zm9v", "no_proxy": no_proxy}, "timeout": 1});
        let gateway = gateway("http://idp.test:1/.well-known", &opts, &upstream);
        server.take();
        let status = gateway.client().get("h", "/app").expect("an answer").status();
        (status, server.take().iter().map(|seen| seen.text()).collect::<String>())
    };
    let (status, seen) = shown("other.test");
    assert_eq!(status, 302);
    assert!(seen.starts_with("GET http://idp.test:1/.well-known HTTP/1.1\r\n"), "{seen}");
    assert!(
        seen.contains("Proxy-Authorization: Basic Zm9v\r\n") && seen.contains("Host: idp.test:1\r\n"),
        "{seen}"
    );
    assert_eq!(shown("x.test,.test"), (500, String::new()));
}

/// Lets through who shows the right header, to one port.
fn tunnels(to: u16) -> (u16, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let thread = thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && client.read_exact(&mut byte).is_ok() {
                head.push(byte[0]);
            }
            let head = String::from_utf8_lossy(&head).into_owned();
            let is_known = head.contains("Proxy-Authorization: Basic YmFy\r\n");
            if !head.starts_with("CONNECT idp.test:443 HTTP/1.1\r\n") || !is_known {
                let _ = client.write_all(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\n\r\n");
                continue;
            }
            let _ = client.write_all(b"HTTP/1.1 200 Yes\r\n\r\n");
            let mut server = TcpStream::connect(("127.0.0.1", to)).expect("connects");
            let (mut from, mut into) =
                (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
            thread::spawn(move || std::io::copy(&mut from, &mut into));
            thread::spawn(move || std::io::copy(&mut server, &mut client));
        }
    });
    (port, thread)
}

#[test]
fn providers_with_tls_are_asked_through_a_tunnel() {
    if !servers::installed("nginx") {
        eprintln!("skipped: nginx is not installed");
        return;
    }
    let pair = self_signed("idp.test");
    let folder = tempfile::tempdir().expect("a folder");
    let [cert, key] = [("cert.pem", &pair.cert), ("key.pem", &pair.key)].map(|(name, text)| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    });
    let port = free_port();
    let document = r#"{"issuer": "https://idp.test", "authorization_endpoint": "https://idp.test/a"}"#;
    let _nginx = servers::nginx(&format!(
        "listen 127.0.0.1:{port} ssl; ssl_certificate {cert}; ssl_certificate_key {key}; \
         location / {{ return 200 '{document}'; }}"
    ));
    let (proxy, _thread) = tunnels(port);
    let upstream = Upstream::start();
    let gateway = |authorization: &str| {
        let opts = json!({"proxy_opts": {"https_proxy": format!("http://127.0.0.1:{proxy}"),
            "https_proxy_authorization": authorization}, "ssl_verify": false});
        gateway("https://idp.test/.well-known", &opts, &upstream)
    };
    let known = gateway("Basic YmFy");
    let answer = known.client().get("h", "/app").expect("an answer");
    assert!(
        answer.header("Location").is_some_and(|to| to.starts_with("https://idp.test/a?")),
        "{}",
        known.error_log()
    );
    let unknown = gateway("Basic eA==");
    assert_eq!(unknown.client().get("h", "/app").expect("an answer").status(), 500);
    unknown.wait_for_log("answered 407 to CONNECT idp.test:443");
}

#[test]
fn proofs_of_another_kind_than_the_key_are_refused_when_they_are_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (algorithm, status) in [("ES256", 201), ("RS256", 400), ("PS256", 400)] {
        let dpop =
            json!({"enabled": true, "private_key": KEY, "public_jwk": jwk(), "signing_alg": algorithm});
        let conf = json!({"client_id": "c", "client_secret": SECRET, "discovery": "https://idp.test/.well-known",
            "session": {"secret": "0123456789abcdef0123456789abcdef"}, "dpop": dpop});
        let route = json!({"uri": "/*", "plugins": {"openid-connect": conf}}).to_string();
        let (found, answer) = gateway.admin("PUT", "/apisix/admin/routes/1", &route);
        assert!(found == status && answer.contains("signing_alg"), "{algorithm}: {answer}");
    }
}
