//! Certificates with their keys, made once per run of the tests: three for servers, and an authority.

use std::sync::LazyLock;

use serde_json::Value;

/// PEM of certificate and key.
pub(crate) static PAIRS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let pair = |number: usize| {
        let names = vec![format!("pair{number}.test")];
        let made = rcgen::generate_simple_self_signed(names).expect("a certificate is made");
        (made.cert.pem(), made.signing_key.serialize_pem())
    };
    (0..3).map(pair).collect()
});

/// A document as text, with names in the places of certificates and keys.
pub(crate) fn shown(value: &Value) -> String {
    hidden(value.to_string())
}

/// A text with names in the places of certificates and keys in JSON.
pub(crate) fn hidden(mut text: String) -> String {
    for (number, (certificate, key)) in PAIRS.iter().enumerate() {
        for (pem, name) in [(certificate, "certificate"), (key, "key")] {
            text = text.replace(&Value::from(pem.as_str()).to_string(), &format!("\"{name} {number}\""));
        }
    }
    text
}
