//! Until when certificates are valid, and for which names.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use der::Decode;
use rustls::sign::CertifiedKey;
use tidegate_plugin_api::certificates::Expiry;
use x509_cert::{
    Certificate,
    ext::pkix::{SubjectAltName, name::GeneralName},
};

const DAY: u64 = 24 * 3600;
/// So many names of a certificate are listed.
const MOST_NAMES: usize = 3;

/// The end of each pair's first certificate. One that cannot be read has none: the library may still serve it.
pub(super) fn of(id: &Arc<str>, name: &str, keys: &[CertifiedKey]) -> Vec<Expiry> {
    let ends = keys.iter().enumerate().filter_map(|(pair, key)| Some((pair, end(key.cert.first()?)?)));
    let expiry = |(pair, expires)| Expiry { id: id.clone(), name: name.into(), pair, expires };
    ends.map(expiry).collect()
}

fn end(certificate: &[u8]) -> Option<i64> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let end = certificate.tbs_certificate.validity.not_after.to_unix_duration();
    i64::try_from(end.as_secs()).ok()
}

/// Why clients will refuse what they get for these names.
pub(super) fn remarks(names: &[String], keys: &[CertifiedKey]) -> Vec<String> {
    let read = |key: &CertifiedKey| Certificate::from_der(key.cert.first()?).ok();
    // One that cannot be read may be for any name.
    let Some(certificates) = keys.iter().map(read).collect::<Option<Vec<_>>>() else { return Vec::new() };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let mut found: Vec<String> =
        certificates.iter().filter_map(|certificate| time(certificate, now)).collect();
    let all: Vec<String> = certificates.iter().flat_map(names_of).collect();
    let is_for = |name: &str| all.iter().any(|own| covers(own, &name.to_ascii_lowercase()));
    let absent: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| name.contains('.') && !is_for(name)).collect();
    if !absent.is_empty() {
        let more = absent.len().saturating_sub(MOST_NAMES);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let shown = |names: &[&str]| names.iter().take(MOST_NAMES).copied().collect::<Vec<_>>().join(", ");
        let own: Vec<&str> = all.iter().map(String::as_str).collect();
        let own = if own.is_empty() { "no name".to_owned() } else { shown(&own) };
        found.push(format!(
            "sni {}{more}: the certificate is for {own}, so clients that ask for another name refuse it; add one for these names, or \
             take them out",
            shown(&absent)
        ));
    }
    found
}

fn time(certificate: &Certificate, now: u64) -> Option<String> {
    let validity = &certificate.tbs_certificate.validity;
    let (begins, ends) =
        (validity.not_before.to_unix_duration().as_secs(), validity.not_after.to_unix_duration().as_secs());
    if ends <= now {
        let days = (now - ends) / DAY;
        return Some(format!("the certificate ended {days} days ago, so clients refuse it; replace it"));
    }
    (begins > now).then(|| {
        "the certificate is not good yet, so clients refuse it; check the clock, or replace it".to_owned()
    })
}

/// Addresses as well, which clients send no name for.
fn names_of(certificate: &Certificate) -> Vec<String> {
    let names = certificate.tbs_certificate.get::<SubjectAltName>().ok().flatten();
    let names = names.into_iter().flat_map(|(_, names)| names.0);
    let text = |name: GeneralName| match name {
        GeneralName::DnsName(name) => Some(name.as_str().to_ascii_lowercase()),
        GeneralName::IpAddress(address) => match *address.as_bytes() {
            [a, b, c, d] => Some(Ipv4Addr::new(a, b, c, d).to_string()),
            ref bytes => <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).to_string()),
        },
        _ => None,
    };
    names.filter_map(text).collect()
}

/// A wildcard stands for one label, and covers the same wildcard.
fn covers(own: &str, name: &str) -> bool {
    let below = |suffix: &str| name.split_once('.').is_some_and(|(_, rest)| rest == suffix);
    own == name || own.strip_prefix("*.").is_some_and(below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_certificates() {
        for (own, name, expected) in [
            ("a.test", "a.test", true),
            ("a.test", "b.test", false),
            ("*.test", "b.test", true),
            ("*.test", "a.b.test", false),
            ("*.test", "*.test", true),
            ("b.test", "*.test", false),
        ] {
            assert_eq!(covers(own, name), expected, "{own} {name}");
        }
    }
}
