use serde_json::json;

use super::*;

const ED25519_KEY: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA9PdGVALrrBX4oX5t9DKb5JHYx7XRb0RXU42r0FVO2sA=\n-----END PUBLIC KEY-----";
const ED25519_TOKEN: &str = "eyJ4NWMiOlsiLS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS1cbk1Db3dCUVlESzJWd0F5RUE5UGRHVkFMcnJCWDRvWDV0OURLYjVKSFl4N1hSYjBSWFU0MnIwRlZPMnNBPVxuLS0tLS1FTkQgUFVCTElDIEtFWS0tLS0tIl0sInR5cCI6IkpXVCIsImFsZyI6IkVkRFNBIn0.eyJleHAiOjIwODUwNzA2MDQsImtleSI6InVzZXIta2V5In0.FmPpxVDubPukcnW58DICZOYMqvkikn4TuUzIQX68-s9KOBUhOgH1_TZM3gUk5Wv0L86c4joVzU7hqstsJSs0Cw";

fn key(algorithm: &str, secret: Option<&str>, public_key: Option<&str>) -> Result<Key, String> {
    let conf = json!({
        "key": "user-key", "algorithm": algorithm, "secret": secret, "public_key": public_key,
        "base64_secret": false, "lifetime_grace_period": 0
    });
    consumer(&conf).map(|made| *made.data.downcast::<Key>().expect("a key"))
}

fn signed(algorithm: &str, secret: &[u8], payload: &Value) -> String {
    let digest = match algorithm {
        "HS256" => aws_lc_rs::hmac::HMAC_SHA256,
        "HS384" => aws_lc_rs::hmac::HMAC_SHA384,
        _ => aws_lc_rs::hmac::HMAC_SHA512,
    };
    let header = nginx_base64::encode_url(json!({"alg": algorithm}).to_string());
    let message = format!("{header}.{}", nginx_base64::encode_url(payload.to_string()));
    let tag = aws_lc_rs::hmac::sign(&aws_lc_rs::hmac::Key::new(digest, secret), message.as_bytes());
    format!("{message}.{}", nginx_base64::encode_url(tag))
}

#[test]
fn signatures() {
    let payload = json!({"key": "user-key"});
    for algorithm in ["HS256", "HS384", "HS512"] {
        let token = signed(algorithm, b"secret", &payload);
        let token = || Token::parse(token.as_bytes()).expect("token");
        assert!(verify(token(), &key(algorithm, Some("secret"), None).unwrap()).is_ok(), "{algorithm}");
        assert!(verify(token(), &key(algorithm, Some("other"), None).unwrap()).is_err(), "{algorithm}");
    }
    let token = || Token::parse(ED25519_TOKEN.as_bytes()).expect("token");
    assert!(verify(token(), &key("EdDSA", None, Some(ED25519_KEY)).unwrap()).is_ok());
    // The classic: a public key used as the secret of a token that names HS256.
    let forged = signed("HS256", ED25519_KEY.as_bytes(), &payload);
    let forged = Token::parse(forged.as_bytes()).expect("token");
    let reason = verify(forged, &key("EdDSA", None, Some(ED25519_KEY)).unwrap()).err();
    assert_eq!(reason.as_deref(), Some("algorithm mismatch, expected EdDSA"));
    assert!(key("RS256", None, Some(ED25519_KEY)).is_err(), "a key of another kind verifies nothing");
}

#[test]
fn malformed_tokens() {
    for text in ["", "a", "a.b", "a.b.c.d", "e30.e30", "!.e30.x", "ImEi.e30.x"] {
        assert!(Token::parse(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn claims() {
    let cases = [
        (json!({}), false, true),
        (json!({}), true, false),
        (json!({"exp": 99}), false, false),
        (json!({"exp": 100}), false, false),
        (json!({"exp": 101}), true, true),
        (json!({"exp": "101"}), false, false),
        (json!({"exp": 96}), false, false),
        (json!({"exp": 1e300}), false, true),
    ];
    for (payload, required, expected) in cases {
        let got = check_claim(&payload, Claim::Exp, required, 100.0, 0.0).is_ok();
        assert_eq!(got, expected, "{payload} {required}");
    }
    assert!(check_claim(&json!({"exp": 96}), Claim::Exp, true, 100.0, 5.0).is_ok());
    assert!(check_claim(&json!({"nbf": 100}), Claim::Nbf, true, 100.0, 0.0).is_err());
    assert!(check_claim(&json!({"nbf": 99}), Claim::Nbf, true, 100.0, 0.0).is_ok());
    let reason = check_claim(&json!({"exp": 0}), Claim::Exp, true, 100.0, 0.0).unwrap_err();
    assert_eq!(reason, "'exp' claim expired at Thu, 01 Jan 1970 00:00:00 GMT");
}

#[test]
fn consumer_configurations() {
    let cases = [
        (
            json!({"algorithm": "HS256"}),
            Err("property \"secret\" is required when using HS based algorithms"),
        ),
        (json!({"algorithm": "HS256", "secret": "s"}), Ok(())),
        (json!({"algorithm": "RS256"}), Err("missing valid public key")),
        (
            json!({"algorithm": "HS256", "secret": "!", "base64_secret": true}),
            Err("base64_secret required but the secret is not in base64 format"),
        ),
        (json!({"algorithm": "HS256", "secret": "$env://X", "base64_secret": true}), Ok(())),
    ];
    for (conf, expected) in cases {
        let got = check(&conf, SchemaKind::Consumer);
        assert_eq!(got.as_ref().map_err(String::as_str), expected.as_ref().map_err(|reason| *reason));
    }
}
