//! Until when certificates are valid.

use std::sync::Arc;

use der::Decode;
use rustls::sign::CertifiedKey;
use tidegate_plugin_api::certificates::Expiry;
use x509_cert::Certificate;

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
