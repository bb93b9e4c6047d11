//! Responses that xmlsec signed (`signed/`), and what an attacker makes of one: every user of the provider has one that counts.

mod attacks;

use serde_json::json;

use super::{
    message::{Expected, Message, Refusal, Vouched, logout, vouched},
    signature::ProviderKey,
};

const CERTIFICATE: &str = include_str!("signed/idp.crt");
/// Its assertion is signed.
const ASSERTION: &str = include_str!("signed/assertion.xml");
/// The whole of it is signed.
const RESPONSE: &str = include_str!("signed/response.xml");
/// 2026-01-01
const NOW_MS: i64 = 1_767_225_600_000;

const EXPECTED: Expected = Expected {
    recipient: "https://sp.test/acs",
    audience: "https://sp.test",
    request: "ID_request",
    now_ms: NOW_MS,
};

fn key() -> ProviderKey {
    ProviderKey::new(CERTIFICATE).expect("a certificate")
}

fn read(document: &str, expected: &Expected) -> Result<Vouched, Refusal> {
    vouched(&Message { document: document.as_bytes().to_vec(), is_signed: false }, &key(), expected)
}

/// From the first of `begin` up to and with the first `end` behind it.
fn part<'d>(document: &'d str, begin: &str, end: &str) -> &'d str {
    let from = document.find(begin).unwrap_or_else(|| panic!("{begin}"));
    let length = document[from..].find(end).unwrap_or_else(|| panic!("{end}"));
    &document[from..from + length + end.len()]
}

fn assertion(document: &str) -> &str {
    part(document, "<saml:Assertion", "</saml:Assertion>")
}

fn signature(document: &str) -> &str {
    part(document, "<ds:Signature ", "</ds:Signature>")
}

#[test]
fn what_the_provider_says() {
    for document in [ASSERTION, RESPONSE] {
        let vouched = read(document, &EXPECTED).expect("it counts");
        assert_eq!(vouched.name_id, "jack@corp.test", "a comment divides no text");
        assert_eq!(vouched.session_index.as_deref(), Some("s\"1"));
        assert_eq!(vouched.issuer, "https://idp.test");
        let expected = json!({"mail": "jack & jill\r<x>", "groups": ["a", "b"]});
        assert_eq!(serde_json::Value::Object(vouched.attributes), expected);
        assert_eq!((vouched.session_ends_ms, vouched.assertion_id.as_str()), (None, "_assertion"));
    }
}

#[test]
fn responses_for_others() {
    let far = Expected { now_ms: 5_000_000_000_000, ..EXPECTED };
    let early = Expected { now_ms: 1_500_000_000_000, ..EXPECTED };
    for expected in [
        Expected { recipient: "https://other.test/acs", ..EXPECTED },
        Expected { audience: "https://other.test", ..EXPECTED },
        Expected { request: "ID_other", ..EXPECTED },
        far,
        early,
    ] {
        for document in [ASSERTION, RESPONSE] {
            let refusal = read(document, &expected).expect_err("it is for another");
            assert!(matches!(refusal, Refusal::Foreign(_)), "{refusal:?}");
        }
    }
    // What is around a signed assertion can be taken away; what it says itself is enough.
    let bare = ASSERTION.replacen(" InResponseTo=\"ID_request\" Destination=\"https://sp.test/acs\"", "", 1);
    assert!(read(&bare, &EXPECTED).is_ok());
    for expected in [Expected { request: "ID_other", ..EXPECTED }, Expected { recipient: "x", ..EXPECTED }] {
        assert!(read(&bare, &expected).is_err());
    }
}

#[test]
fn responses_that_nobody_signed() {
    for document in [ASSERTION, RESPONSE] {
        assert!(read(&document.replace(signature(document), ""), &EXPECTED).is_err());
        for (from, to) in [
            ("jack@", "root@"),
            ("<!-- a comment -->", ".evil"),
            ("SessionIndex", "x"),
            ("ID=\"_assertion\"", "ID=\"_other\""),
            ("rsa-sha256", "rsa-sha384"),
            ("xmldsig-more#rsa-sha256", "xmldsig#rsa-sha1"),
            ("xmlenc#sha256", "xmldsig#sha1"),
            ("#enveloped-signature", "#base64"),
            ("10/xml-exc-c14n#\"/>", "10/xml-exc-c14n#WithComments\"/>"),
            ("</ds:Reference>", "</ds:Reference><ds:Reference URI=\"#_assertion\"/>"),
            ("</ds:KeyInfo>", "</ds:KeyInfo><ds:Object/>"),
            ("#_assertion\"", "\""),
            ("#_response\"", "\""),
        ] {
            let changed = document.replace(from, to);
            assert!(changed == document || read(&changed, &EXPECTED).is_err(), "{from} {to}");
        }
    }
    let other = another_key();
    let message = Message { document: ASSERTION.as_bytes().to_vec(), is_signed: false };
    assert!(vouched(&message, &other, &EXPECTED).is_err(), "another provider's key");
    assert!(
        read(ASSERTION.replace("status:Success", "status:Requester").as_str(), &EXPECTED)
            .is_err_and(|refusal| matches!(refusal, Refusal::Failed(_)))
    );
}

/// Each of these is what xmlsec takes, with the provider's key: SHA-1, and an HMAC whose secret is the public key, which everyone has.
#[test]
fn algorithms_that_are_not_accepted() {
    let fine = read(include_str!("signed/rsa-sha256.xml"), &EXPECTED).expect("it counts");
    assert_eq!((fine.name_id.as_str(), fine.session_index), ("jack", None));
    for document in [include_str!("signed/rsa-sha1.xml"), include_str!("signed/hmac-sha256.xml")] {
        let refusal = read(document, &EXPECTED).expect_err("another algorithm");
        assert!(refusal.reason().contains("are not accepted"), "{refusal:?}");
    }
}

/// Of a provider that signed nothing here.
fn another_key() -> ProviderKey {
    ProviderKey::new(include_str!("signed/other.crt")).expect("a certificate")
}

/// The text up to a comment is whom a reader sees that stops at comments.
#[test]
fn comments_cut_no_name() {
    let document = RESPONSE.replace("jack@<!-- a comment -->corp.test", "jack@corp<!---->.test");
    let vouched = read(&document, &EXPECTED).expect("comments are not signed");
    assert_eq!(vouched.name_id, "jack@corp.test");
    let divided = ASSERTION.replace("jack@<!-- a comment -->corp.test", "jack@corp.test<x/>.evil");
    assert!(read(&divided, &EXPECTED).is_err());
}

/// The eight forms that "On Breaking SAML" (2012) has: a signed part moves to where the reader does not look, and another takes its
/// place.
#[test]
fn signatures_of_other_parts() {
    let evil_of = |document: &str| document.replace("jack@<!-- a comment -->", "root@");
    // Of a signed response.
    let (whole, by) = (RESPONSE.split_once("?>").expect("a declaration").1.trim(), signature(RESPONSE));
    let bare = whole.replace(by, "");
    let evil = evil_of(&bare).replace("_response", "_evil").replace("_assertion", "_evil_assertion");
    let (head, rest) = evil.split_at(evil.find("<samlp:Status>").expect("a status"));
    let with_original =
        by.replace("</ds:Signature>", &format!("<ds:Object>{bare}</ds:Object></ds:Signature>"));
    let mut forms = vec![format!("{head}{with_original}{rest}"), format!("{head}{bare}{by}{rest}")];
    // Of a signed assertion.
    let (original, by) = (assertion(ASSERTION), signature(ASSERTION));
    let bare = original.replace(by, "");
    let evil = evil_of(&bare).replace("_assertion", "_evil");
    let in_it = |text: &str| evil.replace("</saml:Assertion>", &format!("{text}</saml:Assertion>"));
    let object =
        |text: &str| by.replace("</ds:Signature>", &format!("<ds:Object>{text}</ds:Object></ds:Signature>"));
    for assertions in [
        format!("{evil}{original}"),
        in_it(original),
        format!("{}{bare}", in_it(by)),
        in_it(&by.replace("</ds:SignedInfo>", &format!("</ds:SignedInfo>{bare}"))),
        format!("<samlp:Extensions>{evil}</samlp:Extensions>{original}"),
        in_it(&object(&bare)),
        // The same id twice, and an element of another name around the evil one.
        format!("{}{original}", evil.replace("_evil", "_assertion")),
        format!("<x>{original}</x>{evil}"),
        format!("{original}<x>{evil}</x>"),
    ] {
        forms.push(ASSERTION.replace(original, &assertions));
    }
    for (number, form) in forms.iter().enumerate() {
        assert!(form.contains("root@"), "{number}");
        super::tree::parse(form.trim_start().as_bytes())
            .unwrap_or_else(|reason| panic!("{number}: {reason}"));
        assert!(read(form, &EXPECTED).is_err(), "{number}: {form}");
    }
}

#[test]
fn messages_about_logouts() {
    let request = |inner: &str| {
        format!(
            "<samlp:LogoutRequest xmlns:samlp=\"urn:oasis:names:tc:SAML:2.0:protocol\" \
             xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\" ID=\"_1\" Version=\"2.0\"{inner}</samlp:LogoutRequest>"
        )
    };
    let fine = request("><saml:NameID>jack</saml:NameID><samlp:SessionIndex>s1</samlp:SessionIndex>");
    let late = request(" NotOnOrAfter=\"2020-01-01T00:00:00Z\"><saml:NameID>jack</saml:NameID>");
    for (document, is_signed, is_fine) in [(&fine, true, true), (&fine, false, false), (&late, true, false)] {
        let message = Message { document: document.as_bytes().to_vec(), is_signed };
        assert_eq!(logout(&message, &key(), NOW_MS).is_ok(), is_fine, "{document}");
    }
    let message = Message { document: RESPONSE.as_bytes().to_vec(), is_signed: true };
    assert!(logout(&message, &key(), NOW_MS).is_err(), "a login is not a logout");
}
