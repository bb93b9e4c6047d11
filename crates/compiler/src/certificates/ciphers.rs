//! `apisix.ssl.ssl_ciphers`: which suites of TLS 1.2 clients may use, by their OpenSSL names.
//!
//! The library has six, all with forward secrecy. A list names those that are offered; what it names beyond, such as DHE
//! suites, no client gets. Suites of TLS 1.3 are not for this key, as in OpenSSL.

use rustls::{SupportedCipherSuite, crypto::CryptoProvider};
use tidegate_model::nearest::nearest;

/// Words of OpenSSL that stand for many suites, all of the library's among them.
const ALL: &[&str] =
    &["ALL", "DEFAULT", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "ECDHE+AESGCM", "EECDH+AESGCM"];

/// Words of OpenSSL that stand for some of the library's suites. They are not read.
const PARTS: &[&str] = &[
    "AES", "AES128", "AES256", "AESGCM", "ALL", "CHACHA20", "DEFAULT", "ECDHE", "ECDSA", "EECDH", "HIGH",
    "RSA", "TLSv1.2", "aECDSA", "aRSA", "kECDHE", "kEECDH",
];

/// Leaves in the provider what the list names. An empty list names everything.
pub(crate) fn limit(provider: &mut CryptoProvider, names: &[String]) {
    if !names.is_empty() {
        provider.cipher_suites.retain(|suite| is_wanted(suite, names));
    }
}

/// The reason why a list leaves nothing for TLS 1.2.
pub fn check(names: &[String]) -> Result<(), String> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let mut old =
        provider.cipher_suites.iter().filter(|suite| matches!(suite, SupportedCipherSuite::Tls12(_)));
    if names.is_empty() || old.clone().any(|suite| is_wanted(suite, names)) {
        return Ok(());
    }
    let served: Vec<String> = old.by_ref().map(openssl_name).collect();
    Err(format!("none of these cipher suites is supported; those for TLS 1.2 are {}", served.join(", ")))
}

/// What the names of a list do not do, as messages.
pub fn remarks(names: &[String]) -> Vec<String> {
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let old = provider.cipher_suites.iter().filter(|suite| matches!(suite, SupportedCipherSuite::Tls12(_)));
    let served: Vec<String> = old.map(openssl_name).collect();
    let of_served = |name: &str| served.iter().any(|own| own == name);
    let meant = |name: &str| nearest(name, served.iter().map(String::as_str));
    let (mut absent, mut kept) = (Vec::new(), Vec::new());
    for name in names.iter().map(String::as_str).filter(|name| !name.starts_with(['+', '@'])) {
        match name.strip_prefix(['!', '-']) {
            Some(other) if of_served(other) || is_dhe(other) => {}
            Some(other) if PARTS.contains(&other) || meant(other).is_some() => kept.push(name),
            Some(_) => {}
            None if of_served(name) || ALL.contains(&name) || is_dhe(name) => {}
            None => absent.push(
                meant(name)
                    .map_or_else(|| name.to_owned(), |meant| format!("{name} (did you mean {meant}?)")),
            ),
        }
    }
    let mut found = Vec::new();
    if !absent.is_empty() {
        let served = served.join(", ");
        found.push(format!("no client gets {}; the suites for TLS 1.2 are {served}", absent.join(", ")));
    }
    if !kept.is_empty() {
        found.push(format!("{} takes no suite out; write ! and the name of a suite", kept.join(", ")));
    }
    found
}

/// Known to be ignored: the default list has some.
fn is_dhe(name: &str) -> bool {
    name.starts_with("DHE-")
}

fn is_wanted(suite: &SupportedCipherSuite, names: &[String]) -> bool {
    if matches!(suite, SupportedCipherSuite::Tls13(_)) {
        return true;
    }
    let own = openssl_name(suite);
    let mut wanted = false;
    for name in names {
        match name.strip_prefix(['!', '-']) {
            Some(other) if other == own => return false,
            Some(_) => {}
            None => wanted |= *name == own || ALL.contains(&name.as_str()),
        }
    }
    wanted
}

/// `ECDHE-RSA-AES128-GCM-SHA256` for `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`.
fn openssl_name(suite: &SupportedCipherSuite) -> String {
    let name = suite.suite();
    let short = name.as_str().unwrap_or_default().trim_start_matches("TLS_");
    let short = short.replace("_WITH_", "_").replace("AES_", "AES");
    short.replace("POLY1305_SHA256", "POLY1305").replace('_', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        for (list, expected) in [
            ("", 6),
            ("ECDHE-RSA-AES128-GCM-SHA256", 1),
            ("ECDHE-RSA-AES128-GCM-SHA256 DHE-RSA-AES128-GCM-SHA256 ECDHE-ECDSA-CHACHA20-POLY1305", 2),
            ("HIGH !aNULL !MD5", 6),
            ("HIGH !ECDHE-RSA-CHACHA20-POLY1305", 5),
            ("DHE-RSA-AES128-GCM-SHA256", 0),
        ] {
            let names: Vec<String> = list.split_whitespace().map(str::to_owned).collect();
            let mut provider = rustls::crypto::aws_lc_rs::default_provider();
            limit(&mut provider, &names);
            let (old, new): (Vec<&SupportedCipherSuite>, Vec<&SupportedCipherSuite>) = provider
                .cipher_suites
                .iter()
                .partition(|suite| matches!(suite, SupportedCipherSuite::Tls12(_)));
            assert_eq!((old.len(), new.len()), (expected, 3), "{list}");
            assert_eq!(check(&names).is_ok(), expected > 0, "{list}");
        }
    }

    #[test]
    fn names_without_effect() {
        for (list, expected) in [
            ("HIGH !aNULL !MD5 !DHE-RSA-AES128-GCM-SHA256 @STRENGTH", None),
            ("ECDHE-RSA-AES128-GCM-SHA256 DHE-RSA-AES128-GCM-SHA256", None),
            (
                "ECDHE-RSA-AES128-GCM-SHA256 ECDHE-RSA-AES256-GCM-SHA385",
                Some(
                    "no client gets ECDHE-RSA-AES256-GCM-SHA385 (did you mean ECDHE-RSA-AES256-GCM-SHA384?)",
                ),
            ),
            ("HIGH ECDHE-RSA-AES128-SHA", Some("no client gets ECDHE-RSA-AES128-SHA; the suites")),
            ("HIGH !CHACHA20", Some("!CHACHA20 takes no suite out")),
        ] {
            let names: Vec<String> = list.split_whitespace().map(str::to_owned).collect();
            let found = remarks(&names);
            assert_eq!(found.len(), usize::from(expected.is_some()), "{list}: {found:?}");
            assert!(found.iter().all(|text| text.starts_with(expected.unwrap_or_default())), "{found:?}");
        }
    }
}
