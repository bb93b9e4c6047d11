//! AWS Secrets Manager and Google Cloud Secret Manager, played by servers that verify signatures.

use aws_lc_rs::{
    digest, hmac,
    signature::{RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey},
};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use rcgen::{KeyPair, PKCS_RSA_SHA256, RsaKeySize};
use serde_json::{Value, json};
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER};
use tidegate_testkit::{Message, Upstream};

const SECRET_KEY: &str = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hmac_sha256(key: &[u8], text: &str) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes()).as_ref().to_vec()
}

/// Signature Version 4 from the receiver's side: from the bytes that arrived.
fn verify_aws(request: &Message) -> Result<(), String> {
    let header = |name: &str| request.header(name).ok_or(format!("{name} missing"));
    let authorization = header("Authorization")?;
    let part = |name: &str| {
        let (_, rest) = authorization.split_once(name).ok_or(format!("{name} missing"))?;
        Ok::<_, String>(rest.split([',', ' ']).next().unwrap_or_default().to_owned())
    };
    let (credential, names, signature) = (part("Credential=")?, part("SignedHeaders=")?, part("Signature=")?);
    let stamp = header("X-Amz-Date")?;
    let scope = format!("{}/eu-west-1/secretsmanager/aws4_request", stamp.get(..8).unwrap_or_default());
    if credential != format!("AKID/{scope}") {
        return Err(format!("credential {credential}"));
    }
    for needed in ["content-type", "host", "x-amz-date", "x-amz-security-token", "x-amz-target"] {
        if !names.split(';').any(|name| name == needed) {
            return Err(format!("{needed} is not signed"));
        }
    }
    let lines: Result<Vec<String>, String> =
        names.split(';').map(|name| Ok(format!("{name}:{}\n", header(name)?.trim()))).collect();
    let canonical = format!(
        "{}\n{}\n\n{}\n{names}\n{}",
        request.method(),
        request.target(),
        lines?.concat(),
        sha256(&request.body)
    );
    let text = format!("AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{}", sha256(canonical.as_bytes()));
    let mut key = format!("AWS4{SECRET_KEY}").into_bytes();
    for part in scope.split('/') {
        key = hmac_sha256(&key, part);
    }
    let expected = hex(&hmac_sha256(&key, &text));
    if expected == signature { Ok(()) } else { Err(format!("signature {signature}, expected {expected}")) }
}

fn aws(request: &Message) -> (u16, String) {
    let failure = |kind: &str, text: &str| (400, json!({"__type": kind, "message": text}).to_string());
    if let Err(reason) = verify_aws(request) {
        return failure("InvalidSignatureException", &reason);
    }
    if request.header("X-Amz-Target") != Some("secretsmanager.GetSecretValue")
        || request.header("X-Amz-Security-Token") != Some("session")
    {
        return failure("InvalidAction", "target or session token");
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let value = match (body["SecretId"].as_str(), body["VersionStage"].as_str()) {
        (Some("team/web"), Some("AWSCURRENT")) => json!({"title": "from aws"}).to_string(),
        (Some("plain"), Some("AWSCURRENT")) => "plain text".to_owned(),
        _ => return failure("ResourceNotFoundException", "Secrets Manager can't find the specified secret."),
    };
    (200, json!({"ARN": "arn", "SecretString": value}).to_string())
}

/// A gateway with one route per reference; its answers are the value.
fn gateway(secrets: &str, references: &[&str]) -> Gateway {
    let mut resources = format!("secrets:\n{secrets}\nroutes:\n");
    for (at, reference) in references.iter().enumerate() {
        resources += &format!(
            "- {{id: r{at}, uri: /{at}, plugins: {{mocking: {{response_example: fine}}, \
             response-rewrite: {{body: \"{reference}\"}}}}}}\n"
        );
    }
    Gateway::start(YAML_PROVIDER, Some(&resources))
}

fn value(gateway: &Gateway, at: usize) -> String {
    gateway.client().get("h", &format!("/{at}")).expect("an answer").body_text()
}

#[test]
fn aws_gets_requests_with_valid_signatures() {
    let aws = Upstream::service(aws);
    let manager = format!(
        "- {{id: aws/1, endpoint_url: \"http://{}\", region: eu-west-1, access_key_id: AKID, \
         secret_access_key: {SECRET_KEY}, session_token: session}}",
        aws.address
    );
    let references =
        ["$secret://aws/1/plain", "$secret://aws/1/team/web/title", "$secret://aws/1/team/nothing/title"];
    let gateway = gateway(&manager, &references);
    assert_eq!(value(&gateway, 0), "plain text", "{}", gateway.error_log());
    // The longest name is tried first.
    assert_eq!(value(&gateway, 1), "from aws", "{}", gateway.error_log());
    assert_eq!(value(&gateway, 2), references[2]);
    assert!(!gateway.error_log().contains("InvalidSignature"), "{}", gateway.error_log());
}

/// Token endpoint and secrets of a Google that knows one service account.
fn google(request: &Message, public_key: &[u8]) -> (u16, String) {
    let denied = |reason: &str| (403, json!({"error": reason}).to_string());
    match request.target() {
        "/token" => match verify_assertion(request, public_key) {
            Ok(()) => {
                (200, json!({"access_token": "at", "token_type": "Bearer", "expires_in": 3600}).to_string())
            }
            Err(reason) => denied(&reason),
        },
        _ if request.header("Authorization") != Some("Bearer at") => denied("no token"),
        "/v1/projects/apisix/secrets/web/versions/latest:access" => {
            let data = STANDARD.encode(json!({"title": "from google"}).to_string());
            (200, json!({"payload": {"data": data}}).to_string())
        }
        _ => (404, json!({"error": {"status": "NOT_FOUND"}}).to_string()),
    }
}

fn verify_assertion(request: &Message, public_key: &[u8]) -> Result<(), String> {
    let claims = claims(request, public_key)?;
    let audience = format!("http://{}/token", request.header("host").unwrap_or_default());
    let lasts = claims["exp"].as_u64().zip(claims["iat"].as_u64()).map(|(end, start)| end - start);
    let fine = claims["iss"] == "me@apisix.iam.gserviceaccount.com"
        && claims["aud"] == audience
        && claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
        && lasts == Some(3600);
    if fine { Ok(()) } else { Err(format!("{claims}, audience {audience}")) }
}

/// What a request for a token claims, once its signature is checked.
pub(crate) fn claims(request: &Message, public_key: &[u8]) -> Result<Value, String> {
    let body = request.body_text();
    let assertion = body
        .strip_prefix("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=")
        .ok_or("no grant")?;
    let (message, signature) = assertion.rsplit_once('.').ok_or("no signature")?;
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|error| error.to_string());
    UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public_key)
        .verify(message.as_bytes(), &decode(signature)?)
        .map_err(|_| "bad signature")?;
    let (header, claims) = message.split_once('.').ok_or("no claims")?;
    let json =
        |part: &str| serde_json::from_slice::<Value>(&decode(part)?).map_err(|error| error.to_string());
    match json(header)? {
        header if header["alg"] == "RS256" => json(claims),
        header => Err(header.to_string()),
    }
}

#[test]
fn google_gets_a_signed_assertion_once() {
    let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).expect("a key");
    let public_key = key.public_key_raw().to_vec();
    let google = Upstream::service(move |request| google(request, &public_key));
    let account = json!({
        "client_email": "me@apisix.iam.gserviceaccount.com",
        "private_key": key.serialize_pem(),
        "project_id": "apisix",
        "token_uri": format!("http://{}/token", google.address),
        "entries_uri": format!("http://{}/v1", google.address),
    });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("account.json");
    std::fs::write(&file, account.to_string()).expect("account.json");
    let managers = format!(
        "- {{id: gcp/1, auth_config: {account}}}\n- {{id: gcp/2, auth_file: \"{}\"}}",
        file.display()
    );
    let gateway =
        gateway(&managers, &["$secret://gcp/1/web/title", "$secret://gcp/2/web", "$secret://gcp/1/no"]);
    assert_eq!(value(&gateway, 0), "from google", "{}", gateway.error_log());
    assert_eq!(value(&gateway, 1), r#"{"title":"from google"}"#);
    assert_eq!(value(&gateway, 2), "$secret://gcp/1/no");
    let tokens = google.seen().iter().filter(|seen| seen.message.target() == "/token").count();
    // Three references that start at the same time may each find no token; what comes later uses one.
    assert!((1..=3).contains(&tokens), "{tokens} tokens");
}
