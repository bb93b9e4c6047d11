//! `apisix.ssl.ssl_ciphers`: which suites of TLS 1.2 clients may use, by their OpenSSL names.
//!
//! The library has six, all with forward secrecy. A list names those that are offered; what it names beyond, such as DHE
//! suites, no client gets. Suites of TLS 1.3 are not for this key, as in OpenSSL.

use rustls::{SupportedCipherSuite, crypto::CryptoProvider};

/// Words of OpenSSL that stand for many suites, all of the library's among them.
const ALL: &[&str] =
    &["ALL", "DEFAULT", "HIGH", "ECDHE", "EECDH", "kECDHE", "kEECDH", "ECDHE+AESGCM", "EECDH+AESGCM"];

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
}
