//! saml-auth, with an identity provider that signs what it says. Its documents are written in canonical form: what is signed is what
//! stands here. Documents that another library signed, and what becomes of them, are in `saml_auth/tests.rs`.

use std::io::{Read, Write};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    KeyPair, RSA_PKCS1_2048_8192_SHA512, RSA_PKCS1_SHA256, RsaKeyPair, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use serde_json::{Value, json};
use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Gateway, Message};

use super::{Site, cookies, forged, location};

const CALLBACK: &str = "https://site.test/acs";
const PROTOCOL: &str = "urn:oasis:names:tc:SAML:2.0:protocol";

/// A key with its certificate.
struct Identity {
    pair: RsaKeyPair,
    key: String,
    certificate: String,
}

impl Identity {
    fn new(name: &str) -> Identity {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        let der = AsDer::<Pkcs8V1Der>::as_der(&pair).expect("PKCS#8");
        let keys = rcgen::KeyPair::try_from(der.as_ref()).expect("a key");
        let params = rcgen::CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        let certificate = params.self_signed(&keys).expect("a certificate").pem();
        Identity { pair, key: keys.serialize_pem(), certificate }
    }

    fn sign(&self, text: &str) -> String {
        let mut signature = vec![0; self.pair.public_modulus_len()];
        let signed = self.pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature);
        signed.expect("a signature");
        STANDARD.encode(signature)
    }

    /// An element with a signature where it says `<!--here-->`.
    fn enveloped(&self, element: &str) -> String {
        let bare = element.replace("<!--here-->", "");
        let id = bare.split(" ID=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an ID");
        let what = STANDARD.encode(digest(&SHA256, bare.as_bytes()));
        let info = format!(
            "<ds:SignedInfo xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\">\
             <ds:CanonicalizationMethod Algorithm=\"http://www.w3.org/2001/10/xml-exc-c14n#\"></ds:CanonicalizationMethod>\
             <ds:SignatureMethod Algorithm=\"http://www.w3.org/2001/04/xmldsig-more#rsa-sha256\"></ds:SignatureMethod>\
             <ds:Reference URI=\"#{id}\"><ds:Transforms>\
             <ds:Transform Algorithm=\"http://www.w3.org/2000/09/xmldsig#enveloped-signature\"></ds:Transform>\
             <ds:Transform Algorithm=\"http://www.w3.org/2001/10/xml-exc-c14n#\"></ds:Transform></ds:Transforms>\
             <ds:DigestMethod Algorithm=\"http://www.w3.org/2001/04/xmlenc#sha256\"></ds:DigestMethod>\
             <ds:DigestValue>{what}</ds:DigestValue></ds:Reference></ds:SignedInfo>"
        );
        let value = self.sign(&info);
        let signature = format!(
            "<ds:Signature xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\">{info}<ds:SignatureValue>{value}</ds:SignatureValue></ds:Signature>"
        );
        element.replace("<!--here-->", &signature)
    }
}

/// A message of the gateway to the provider.
struct Asked {
    document: String,
    id: String,
    relay_state: String,
}

struct Scene {
    site: Site,
    provider: Identity,
}

fn escaped(text: &str) -> String {
    let sign = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(sign).collect()
}

fn unescaped(text: &str) -> String {
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("hexadecimal"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    String::from_utf8(bytes).expect("UTF-8")
}

fn argument<'t>(target: &'t str, name: &str) -> Option<&'t str> {
    target.split(['?', '&']).find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

fn conf(provider: &Identity, service: &Identity) -> Value {
    json!({
        "sp_issuer": "https://site.test", "idp_uri": "https://idp.test/saml", "idp_cert": provider.certificate,
        "login_callback_uri": CALLBACK, "logout_uri": "/logout", "logout_callback_uri": "/sls",
        "logout_redirect_uri": "/bye", "sp_cert": service.certificate, "sp_private_key": service.key,
        "secret": "secret-1"
    })
}

/// Further routes have the plugin with these changes.
fn scene(more: &[(&str, Value)]) -> Scene {
    let (provider, service) = (Identity::new("idp.test"), Identity::new("site.test"));
    let mut routes = vec![("/*", conf(&provider, &service))];
    for (uri, changes) in more {
        let mut conf = conf(&provider, &service);
        for (name, value) in changes.as_object().into_iter().flatten() {
            conf[name] = value.clone();
        }
        routes.push((*uri, conf));
    }
    let site = Site::start("saml-auth", &routes);
    Scene { site, provider }
}

/// What a redirect to the provider says; `service` checks its signature.
fn asked(answer: &Message, name: &str) -> Asked {
    let target = location(answer);
    assert!(target.starts_with("https://idp.test/saml?"), "{target}");
    let deflated = STANDARD.decode(unescaped(argument(target, name).expect("a message"))).expect("base64");
    let mut document = String::new();
    DeflateDecoder::new(deflated.as_slice()).read_to_string(&mut document).expect("deflated");
    let id =
        document.split(" ID=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an ID").to_owned();
    let relay_state = unescaped(argument(target, "RelayState").expect("a state"));
    Asked { document, id, relay_state }
}

/// An assertion as a browser should have it; `change` makes another of it before it is signed.
fn assertion(asked: &Asked, id: &str) -> String {
    format!(
        "<saml:Assertion xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\" ID=\"{id}\" IssueInstant=\"2026-01-01T00:00:00Z\" Version=\"2.0\">\
         <saml:Issuer>https://idp.test</saml:Issuer><!--here--><saml:Subject><saml:NameID>jack</saml:NameID>\
         <saml:SubjectConfirmation Method=\"urn:oasis:names:tc:SAML:2.0:cm:bearer\">\
         <saml:SubjectConfirmationData InResponseTo=\"{}\" NotOnOrAfter=\"2120-01-01T00:00:00Z\" Recipient=\"{CALLBACK}\"></saml:SubjectConfirmationData>\
         </saml:SubjectConfirmation></saml:Subject><saml:Conditions NotBefore=\"2020-01-01T00:00:00Z\" NotOnOrAfter=\"2120-01-01T00:00:00Z\">\
         <saml:AudienceRestriction><saml:Audience>https://site.test</saml:Audience></saml:AudienceRestriction></saml:Conditions>\
         <saml:AuthnStatement SessionIndex=\"s1\"></saml:AuthnStatement><saml:AttributeStatement><saml:Attribute Name=\"role\">\
         <saml:AttributeValue>admin</saml:AttributeValue></saml:Attribute></saml:AttributeStatement></saml:Assertion>",
        asked.id
    )
}

fn response(assertion: &str) -> String {
    format!(
        "<samlp:Response xmlns:samlp=\"{PROTOCOL}\" ID=\"_r\" Version=\"2.0\"><samlp:Status>\
         <samlp:StatusCode Value=\"urn:oasis:names:tc:SAML:2.0:status:Success\"/></samlp:Status>{assertion}</samlp:Response>"
    )
}

fn form(name: &str, document: &str, relay_state: &str) -> String {
    format!("{name}={}&RelayState={}", escaped(&STANDARD.encode(document)), escaped(relay_state))
}

impl Scene {
    fn post(&self, target: &str, cookie: &str, form: &str) -> Message {
        let fields = format!("Cookie: {cookie}\r\nContent-Type: application/x-www-form-urlencoded\r\n");
        self.site.send("POST", target, &fields, form)
    }

    /// A target with a message that the provider signs there.
    fn signed_target(&self, path: &str, name: &str, document: &str, relay_state: &str) -> String {
        let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(document.as_bytes()).expect("deflates");
        let message = escaped(&STANDARD.encode(encoder.finish().expect("deflates")));
        let method = escaped("http://www.w3.org/2001/04/xmldsig-more#rsa-sha256");
        let signed = format!("{name}={message}&RelayState={}&SigAlg={method}", escaped(relay_state));
        format!("{path}?{signed}&Signature={}", escaped(&self.provider.sign(&signed)))
    }

    /// Sends a browser to log in: its cookie, and what the provider is asked.
    fn begin(&self, target: &str) -> (String, Asked) {
        let answer = self.site.get(target, "");
        (cookies(&answer), asked(&answer, "SAMLRequest"))
    }

    fn log_in(&self, target: &str, callback: &str, id: &str) -> String {
        let (cookie, asked) = self.begin(target);
        let document = response(&self.provider.enveloped(&assertion(&asked, id)));
        let answer = self.post(callback, &cookie, &form("SAMLResponse", &document, &asked.relay_state));
        assert_eq!(location(&answer), target);
        cookies(&answer)
    }
}

#[test]
fn a_login() {
    let scene = scene(&[]);
    let answer = scene.site.get("/app?x=1", "");
    let line = answer.header("Set-Cookie").expect("a cookie");
    assert!(
        line.starts_with("saml_session=") && line.ends_with("; Path=/; SameSite=Lax; HttpOnly"),
        "{line}"
    );
    let request = asked(&answer, "SAMLRequest");
    for part in [
        "<samlp:AuthnRequest ",
        "Version=\"2.0\"",
        "Destination=\"https://idp.test/saml\"",
        "ProtocolBinding=\"urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect\"",
        "AssertionConsumerServiceURL=\"https://site.test/acs\"",
        "<saml:Issuer>https://site.test</saml:Issuer>",
    ] {
        assert!(request.document.contains(part), "{part}: {}", request.document);
    }
    let cookie = cookies(&answer);
    let document = response(&scene.provider.enveloped(&assertion(&request, "_1")));
    let target = scene.signed_target("/acs", "SAMLResponse", &document, &request.relay_state);
    let answer = scene.site.get(&target, &cookie);
    assert_eq!(location(&answer), "/app?x=1");
    let session = cookies(&answer);
    assert!(scene.site.is_in("/app", &session));
    assert!(!scene.site.is_in("/app", &cookie) && !scene.site.is_in("/app", &forged(&session)));

    // By a form, and with a signature on the whole.
    assert!(scene.site.is_in("/app", &scene.log_in("/a", "/acs", "_2")));
    let (cookie, asked) = scene.begin("/b");
    let bare = assertion(&asked, "_3").replace("<!--here-->", "");
    let whole = response(&bare).replace("\"/></samlp:Status>", "\"></samlp:StatusCode></samlp:Status>");
    let whole = scene.provider.enveloped(&whole.replace("<samlp:Status>", "<!--here--><samlp:Status>"));
    let answer = scene.post("/acs", &cookie, &form("SAMLResponse", &whole, &asked.relay_state));
    assert_eq!(location(&answer), "/b");
}

/// The provider checks requests with the certificate of `sp_cert`.
#[test]
fn requests_are_signed() {
    let (provider, service) = (Identity::new("idp.test"), Identity::new("site.test"));
    let site = Site::start("saml-auth", &[("/*", conf(&provider, &service))]);
    let target = location(&site.get("/", "")).to_owned();
    let (signed, signature) =
        target.split_once('?').expect("arguments").1.split_once("&Signature=").expect("signed");
    assert_eq!(
        argument(&target, "SigAlg").map(unescaped).as_deref(),
        Some("http://www.w3.org/2001/04/xmldsig-more#rsa-sha512")
    );
    let signature = STANDARD.decode(unescaped(signature)).expect("base64");
    let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA512, service.pair.public_key().as_ref());
    public.verify(signed.as_bytes(), &signature).expect("the service's signature");
}

#[test]
fn responses_that_do_not_count() {
    let scene = scene(&[]);
    let stranger = Identity::new("evil.test");
    let changes: [(&str, &str, u16); 9] = [
        ("https://site.test</saml:Audience>", "https://other.test</saml:Audience>", 401),
        ("Recipient=\"https://site.test", "Recipient=\"https://other.test", 401),
        ("InResponseTo=\"ID_", "InResponseTo=\"ID_0", 401),
        ("NotOnOrAfter=\"2120", "NotOnOrAfter=\"2021", 401),
        ("NotBefore=\"2020", "NotBefore=\"2119", 401),
        ("cm:bearer", "cm:sender-vouches", 401),
        ("<saml:AudienceRestriction>", "<saml:Condition></saml:Condition><saml:AudienceRestriction>", 401),
        (">jack<", "><", 401),
        ("ID=\"_1\"", "ID=\"\"", 400),
    ];
    for (from, to, status) in changes {
        let (cookie, asked) = scene.begin("/app");
        let changed = assertion(&asked, "_1").replace(from, to);
        assert!(changed.contains(to), "{from}");
        let document = response(&scene.provider.enveloped(&changed));
        let answer = scene.post("/acs", &cookie, &form("SAMLResponse", &document, &asked.relay_state));
        assert_eq!((answer.status(), answer.count("Set-Cookie")), (status, 0), "{to}");
    }
    let (cookie, asked) = scene.begin("/app");
    let signed = scene.provider.enveloped(&assertion(&asked, "_2"));
    let fine = response(&signed);
    let state = asked.relay_state.as_str();
    for (document, status) in [
        (response(&assertion(&asked, "_2")), 400),
        (response(&stranger.enveloped(&assertion(&asked, "_2"))), 400),
        (fine.replace(">jack<", ">root<"), 400),
        (response(&format!("{}{signed}", assertion(&asked, "_3"))), 400),
        (fine.replace("status:Success", "status:Responder"), 500),
        ("<x/>".to_owned(), 400),
        (String::new(), 400),
    ] {
        let answer = scene.post("/acs", &cookie, &form("SAMLResponse", &document, state));
        assert_eq!(answer.status(), status, "{document}");
    }
    let right = form("SAMLResponse", &fine, state);
    assert_eq!(scene.post("/acs", &cookie, &form("SAMLResponse", &fine, "other")).status(), 401);
    assert_eq!(scene.post("/acs", &cookie, &format!("{right}&SAMLResponse=x")).status(), 400);
    assert_eq!(scene.post("/acs", &cookie, "a=b").status(), 400);
    assert_eq!(scene.post("/acs", "", &right).status(), 503, "another browser");
    assert_eq!(scene.site.send("PUT", "/acs", &format!("Cookie: {cookie}\r\n"), "").status(), 405);
    let unsigned = scene.signed_target("/acs", "SAMLResponse", &fine, state);
    for target in [unsigned.replace("Signature=", "Signatur="), unsigned.replace("SigAlg=", "SigAlg=x")] {
        assert_eq!(scene.site.get(&target, &cookie).status(), 400);
    }
    // What was refused before is still good, once.
    let answer = scene.post("/acs", &cookie, &right);
    assert_eq!(location(&answer), "/app");
    assert_eq!(scene.post("/acs", &cookie, &right).status(), 401, "a copy of cookie and response");
    let (cookie, other) = scene.begin("/app");
    assert_eq!(scene.post("/acs", &cookie, &form("SAMLResponse", &fine, &other.relay_state)).status(), 401);
}

#[test]
fn an_assertion_serves_once() {
    let scene = scene(&[]);
    let answer = scene.site.get("/app", "");
    let request = asked(&answer, "SAMLRequest");
    let cookie = cookies(&answer);
    let first = response(&scene.provider.enveloped(&assertion(&request, "_same")));
    assert_eq!(
        scene.post("/acs", &cookie, &form("SAMLResponse", &first, &request.relay_state)).status(),
        302
    );
    let (cookie, asked) = scene.begin("/app");
    let again = response(&scene.provider.enveloped(&assertion(&asked, "_same")));
    assert_eq!(scene.post("/acs", &cookie, &form("SAMLResponse", &again, &asked.relay_state)).status(), 401);
}

#[test]
fn logouts() {
    let scene = scene(&[]);
    assert_eq!(scene.site.get("/logout", "").status(), 401);
    let session = scene.log_in("/app", "/acs", "_1");
    let away = scene.site.get("/logout", &session);
    let request = asked(&away, "SAMLRequest");
    for part in [
        "<samlp:LogoutRequest ",
        "<saml:NameID>jack</saml:NameID>",
        "<samlp:SessionIndex>s1</samlp:SessionIndex>",
    ] {
        assert!(request.document.contains(part), "{part}: {}", request.document);
    }
    let leaving = cookies(&away);
    for cookie in [&session, &leaving] {
        assert!(!scene.site.is_in("/app", cookie), "whether the provider answers or not: {cookie}");
    }
    let session = leaving;
    let done = format!(
        "<samlp:LogoutResponse xmlns:samlp=\"{PROTOCOL}\" ID=\"_l\" Version=\"2.0\"><samlp:Status>\
         <samlp:StatusCode Value=\"urn:oasis:names:tc:SAML:2.0:status:Success\"/></samlp:Status></samlp:LogoutResponse>"
    );
    assert_eq!(scene.post("/sls", &session, &form("SAMLResponse", &done, "")).status(), 400, "not signed");
    let failed = done.replace("Success", "Responder");
    let target = scene.signed_target("/sls", "SAMLResponse", &failed, "");
    assert_eq!(scene.site.get(&target, &session).status(), 500);
    let target = scene.signed_target("/sls", "SAMLResponse", &done, "");
    assert_eq!(scene.site.get(&target, "").status(), 401);
    let answer = scene.site.get(&target, &session);
    assert_eq!(location(&answer), "/bye");
    assert!(
        answer
            .header("Set-Cookie")
            .is_some_and(|line| line.contains("saml_session=;") && line.contains("Max-Age=0"))
    );
    assert!(!scene.site.is_in("/app", &session), "a copy of the cookie");

    // The provider begins.
    let session = scene.log_in("/app", "/acs", "_2");
    let request = format!(
        "<samlp:LogoutRequest xmlns:samlp=\"{PROTOCOL}\" ID=\"_q\" Version=\"2.0\"><!--here-->\
         <saml:NameID xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\">jack</saml:NameID></samlp:LogoutRequest>"
    );
    let unsigned = request.replace("<!--here-->", "");
    assert_eq!(scene.post("/sls", &session, &form("SAMLRequest", &unsigned, "")).status(), 400);
    let answer = scene.post("/sls", &session, &form("SAMLRequest", &scene.provider.enveloped(&request), ""));
    let said = asked(&answer, "SAMLResponse");
    assert!(
        said.document.contains("InResponseTo=\"_q\"") && said.document.contains("status:Success"),
        "{}",
        said.document
    );
    assert!(!scene.site.is_in("/app", &session));
}

#[test]
fn settings() {
    let posted = json!({"auth_protocol_binding_method": "HTTP-POST", "login_callback_uri": "https://site.test/posted/acs"});
    let rotated = json!({"secret": "secret-2", "secret_fallbacks": ["secret-0", "secret-1"]});
    let other = json!({"sp_issuer": "https://other.test"});
    let by_path = json!({"login_callback_uri": "/path/acs"});
    let scene = scene(&[
        ("/posted/*", posted),
        ("/rotated/*", rotated),
        ("/replaced/*", json!({"secret": "secret-2"})),
        ("/other/*", other),
        ("/path/*", by_path),
    ]);
    let answer = scene.site.get("/posted/x", "");
    let line = answer.header("Set-Cookie").expect("a cookie");
    assert!(line.ends_with("; Path=/; SameSite=None; HttpOnly; Secure"), "{line}");
    assert!(asked(&answer, "SAMLRequest").document.contains("bindings:HTTP-POST"));
    let answer = scene.site.get("/path/x", "");
    assert!(asked(&answer, "SAMLRequest").document.contains("ServiceURL=\"http://site.test/path/acs\""));
    let session = scene.log_in("/app", "/acs", "_1");
    assert!(scene.site.is_in("/rotated/x", &session));
    assert!(!scene.site.is_in("/replaced/x", &session) && !scene.site.is_in("/other/x", &session));
}

/// What the identity provider is to check requests with would not fit them.
#[test]
fn a_certificate_of_another_key_is_refused_when_it_is_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    let (provider, service) = (Identity::new("idp.test"), Identity::new("site.test"));
    let put = |conf: Value| {
        let route = json!({"uri": "/*", "plugins": {"saml-auth": conf}}).to_string();
        gateway.admin("PUT", "/apisix/admin/routes/1", &route)
    };
    let good = conf(&provider, &service);
    let mut other = good.clone();
    other["sp_cert"] = json!(provider.certificate);
    assert_eq!(put(good).0, 201);
    let (status, answer) = put(other);
    assert!(status == 400 && answer.contains("is not the certificate of sp_private_key"), "{answer}");
}
