//! `$ssl_client_*`: the certificate that a client presented, verified or not, in nginx's format.

use std::time::Duration;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::{Engine, prelude::BASE64_STANDARD};
use data_encoding::{HEXLOWER, HEXUPPER};
use tidegate_protocol::uri::encoded_component;
use tidegate_telemetry::clock;
use tidegate_tls::Certificate;

/// Made for the first variable that needs it, once per connection.
#[derive(Debug)]
pub struct ClientCertificate {
    pub fingerprint: String,
    pub serial: String,
    pub subject: String,
    pub(crate) subject_legacy: String,
    pub issuer: String,
    pub(crate) issuer_legacy: String,
    /// With a line break at its end.
    pub pem: String,
    pub start: String,
    pub end: String,
    not_after: u64,
}

impl ClientCertificate {
    /// `None` when it cannot be read, which a handshake would have refused.
    pub fn of(der: &[u8]) -> Option<ClientCertificate> {
        let certificate = Certificate::parse(der).ok()?;
        Some(ClientCertificate {
            fingerprint: HEXLOWER.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, der).as_ref()),
            serial: serial(certificate.serial),
            subject: tidegate_tls::rfc2253(certificate.subject)?,
            subject_legacy: tidegate_tls::one_line(certificate.subject)?,
            issuer: tidegate_tls::rfc2253(certificate.issuer)?,
            issuer_legacy: tidegate_tls::one_line(certificate.issuer)?,
            pem: pem(der),
            start: date(certificate.not_before),
            end: date(certificate.not_after),
            not_after: certificate.not_after,
        })
    }

    /// `$ssl_client_cert`: folded for a header, as nginx did before RFC 7230.
    pub(crate) fn folded_pem(&self) -> String {
        self.pem.trim_end().replace('\n', "\n\t")
    }

    /// `$ssl_client_escaped_cert`
    pub(crate) fn escaped_pem(&self) -> String {
        encoded_component(&self.pem)
    }

    /// Whole days.
    pub(crate) fn remaining_days(&self) -> u64 {
        let now = std::time::UNIX_EPOCH.elapsed().unwrap_or(Duration::MAX).as_secs();
        self.not_after.saturating_sub(now) / 86_400
    }
}

/// From the two's complement of DER to sign and magnitude.
fn serial(der: &[u8]) -> String {
    let negative = der.first().is_some_and(|first| first & 0x80 != 0);
    let mut digits = der.to_vec();
    if negative {
        let mut carry = true;
        for digit in digits.iter_mut().rev() {
            (*digit, carry) = (!*digit).overflowing_add(u8::from(carry));
        }
    }
    let first = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len().saturating_sub(1));
    let magnitude = HEXUPPER.encode(digits.get(first..).unwrap_or_default());
    if negative { format!("-{magnitude}") } else { magnitude }
}

fn pem(der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let mut pem = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, more) = rest.split_at(rest.len().min(64));
        pem.push_str(line);
        pem.push('\n');
        rest = more;
    }
    pem.push_str("-----END CERTIFICATE-----\n");
    pem
}

/// `Nov  2 10:48:15 2026 GMT`
fn date(seconds: u64) -> String {
    clock::utc(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000), "%b %e %H:%M:%S %Y GMT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_numbers_are_signed_hexadecimal() {
        for (der, text) in [
            (&[1][..], "01"),
            (&[0, 0xe7, 0x4a], "E74A"),
            (&[0], "00"),
            (&[0xff], "-01"),
            (&[0x80, 0], "-8000"),
            (&[0x12, 0x00], "1200"),
        ] {
            assert_eq!(serial(der), text);
        }
    }

    #[test]
    fn dates_have_a_padded_day() {
        assert_eq!(date(1_793_616_495), "Nov  2 10:48:15 2026 GMT");
    }
}
