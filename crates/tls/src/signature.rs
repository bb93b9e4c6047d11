//! Checks that a peer holds the key of its certificate, of any version.

use rustls::{
    CertificateError, DigitallySignedStruct, Error, PeerMisbehaved,
    client::danger::HandshakeSignatureValid,
    crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key},
    pki_types::SubjectPublicKeyInfoDer,
};

use crate::{certificate::Certificate, refusal::Refusal};

fn key(certificate: &[u8]) -> Result<SubjectPublicKeyInfoDer<'_>, Error> {
    let certificate = Certificate::parse(certificate).map_err(|_| Error::from(Refusal::Unreadable))?;
    Ok(SubjectPublicKeyInfoDer::from(certificate.key))
}

pub(crate) fn tls13(
    algorithms: &WebPkiSupportedAlgorithms,
    message: &[u8],
    certificate: &[u8],
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    verify_tls13_signature_with_raw_key(message, &key(certificate)?, signed, algorithms)
}

/// A scheme of TLS 1.2 leaves the curve open (RFC 8422 section 5.4), so that several algorithms may have to be tried.
pub(crate) fn tls12(
    algorithms: &WebPkiSupportedAlgorithms,
    message: &[u8],
    certificate: &[u8],
    signed: &DigitallySignedStruct,
) -> Result<HandshakeSignatureValid, Error> {
    let key = key(certificate)?;
    let key = webpki::RawPublicKeyEntity::try_from(&key).map_err(|_| Error::from(Refusal::Unreadable))?;
    let offered = algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
    let (_, candidates) = offered.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
    for algorithm in *candidates {
        match key.verify_signature(*algorithm, message, signed.signature()) {
            Ok(()) => return Ok(HandshakeSignatureValid::assertion()),
            Err(webpki::Error::UnsupportedSignatureAlgorithmForPublicKeyContext(_)) => {}
            Err(error) => return Err(Refusal::from(error).into()),
        }
    }
    Err(CertificateError::BadSignature.into())
}
