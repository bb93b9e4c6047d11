//! The answer: that it is about this certificate, signed by an authorised key, current, and good.

use std::time::Duration;

use der::{AnyRef, Decode, Encode, Reader, SliceReader, asn1::ObjectIdentifier};
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::{CertificateDer, UnixTime};
use x509_cert::Certificate;
use x509_ocsp::{BasicOcspResponse, CertStatus, OcspResponse, OcspResponseStatus, SingleResponse};

use super::{Subject, question::cert_id};

/// id-kp-OCSPSigning, in the bytes of an object identifier.
const OCSP_SIGNING: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x09];
const BASIC: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.48.1.1");
/// Clocks differ.
const TOLERANCE: Duration = Duration::from_secs(300);

/// An answer that may be shown to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// When it ends, if it says so.
    pub until: Option<Duration>,
}

/// `now` and `until` are times since 1970. With `skip_verify` an answer need only be one about this certificate.
pub fn verify_response(
    answer: &[u8],
    subject: Subject<'_>,
    now: Duration,
    skip_verify: bool,
) -> Result<Judgement, String> {
    let unreadable = |error: der::Error| format!("cannot parse the OCSP response: {error}");
    let response = OcspResponse::from_der(answer).map_err(unreadable)?;
    if response.response_status != OcspResponseStatus::Successful {
        return Err(format!("the OCSP responder answers {:?}", response.response_status));
    }
    let bytes = response.response_bytes.ok_or("the OCSP response is empty")?;
    if bytes.response_type != BASIC {
        return Err("the OCSP response has an unknown type".to_owned());
    }
    let basic = BasicOcspResponse::from_der(bytes.response.as_bytes()).map_err(unreadable)?;
    let (certificate, issuer) = subject.parse()?;
    let single = find(&basic, &certificate, &issuer)?;
    let until = single.next_update.as_ref().map(|time| time.0.to_unix_duration());
    if skip_verify {
        return Ok(Judgement { until });
    }
    check_signature(bytes.response.as_bytes(), &basic, subject.issuer, now)?;
    match single.cert_status {
        CertStatus::Good(_) => {}
        CertStatus::Revoked(_) => {
            return Err("certificate status \"revoked\" in the OCSP response".to_owned());
        }
        CertStatus::Unknown(_) => {
            return Err("certificate status \"unknown\" in the OCSP response".to_owned());
        }
    }
    if single.this_update.0.to_unix_duration() > now + TOLERANCE {
        return Err("the OCSP response is not valid yet".to_owned());
    }
    if until.is_some_and(|until| until + TOLERANCE < now) {
        return Err("the OCSP response has expired".to_owned());
    }
    Ok(Judgement { until })
}

fn find<'a>(
    basic: &'a BasicOcspResponse,
    certificate: &Certificate,
    issuer: &Certificate,
) -> Result<&'a SingleResponse, String> {
    let wanted = cert_id(certificate, issuer)?;
    let same = |single: &&SingleResponse| {
        let id = &single.cert_id;
        id.serial_number == wanted.serial_number
            && id.issuer_key_hash == wanted.issuer_key_hash
            && id.issuer_name_hash == wanted.issuer_name_hash
    };
    let found = basic.tbs_response_data.responses.iter().find(same);
    found.ok_or_else(|| "the OCSP response is for another certificate".to_owned())
}

/// By the issuer itself, or by a responder that the issuer has certified for this.
fn check_signature(
    basic_der: &[u8],
    basic: &BasicOcspResponse,
    issuer: &[u8],
    now: Duration,
) -> Result<(), String> {
    const BAD: &str = "the OCSP response is not signed by the certificate's issuer";
    let bad = |_| BAD.to_owned();
    let bad_der = |_: der::Error| BAD.to_owned();
    let signed = signed_bytes(basic_der).map_err(bad_der)?;
    let algorithm = basic.signature_algorithm.to_der().map_err(bad_der)?;
    let algorithm = AnyRef::from_der(&algorithm).map_err(bad_der)?.value().to_vec();
    let signature = basic.signature.as_bytes().ok_or(BAD)?;
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms.all;
    let usable = || algorithms.iter().filter(|known| known.signature_alg_id().as_ref() == algorithm);
    let issuer = CertificateDer::from(issuer);
    let verified = |certificate: &CertificateDer<'_>| {
        webpki::EndEntityCert::try_from(certificate).is_ok_and(|certificate| {
            usable().any(|known| certificate.verify_signature(*known, &signed, signature).is_ok())
        })
    };
    if verified(&issuer) {
        return Ok(());
    }
    let anchor = webpki::anchor_from_trusted_cert(&issuer).map_err(bad)?;
    for delegate in basic.certs.iter().flatten() {
        let delegate = CertificateDer::from(delegate.to_der().map_err(bad_der)?);
        let parsed = webpki::EndEntityCert::try_from(&delegate).map_err(bad)?;
        let allowed = parsed.verify_for_usage(
            algorithms,
            std::slice::from_ref(&anchor),
            &[],
            UnixTime::since_unix_epoch(now),
            webpki::KeyUsage::required(OCSP_SIGNING),
            None,
            None,
        );
        if allowed.is_ok() && verified(&delegate) {
            return Ok(());
        }
    }
    Err(BAD.to_owned())
}

/// `tbsResponseData` as it was sent.
fn signed_bytes(basic: &[u8]) -> Result<Vec<u8>, der::Error> {
    let outer = AnyRef::from_der(basic)?;
    let mut reader = SliceReader::new(outer.value())?;
    Ok(reader.tlv_bytes()?.to_vec())
}
