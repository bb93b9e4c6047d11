//! The certificates that clients have to present: `client` of an `ssl` resource.

use std::sync::Arc;

use rustls::{
    DigitallySignedStruct, DistinguishedName, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::CryptoProvider,
    server::danger::{ClientCertVerified, ClientCertVerifier},
};
use rustls_pki_types::{CertificateDer, UnixTime};
use tidegate_model::resources;
use tidegate_plugin_api::certificates::ClientCheck;
use tidegate_routing::expr::Pattern;
use tidegate_tls::{Anchors, ClientVerifier};

pub(super) fn check(
    client: &resources::SslClient,
    provider: &Arc<CryptoProvider>,
) -> Result<ClientCheck, String> {
    let failed = |error: String| format!("client.ca: {error}");
    let anchors = Anchors::from_pem(client.ca.as_bytes()).map_err(failed)?;
    let depth = client.depth.try_into().unwrap_or(usize::MAX);
    let verifier = ClientVerifier::new(anchors, Some(depth), provider).map_err(failed)?;
    let skip = client.skip_mtls_uri_regex.iter();
    let skip = skip
        .map(|pattern| {
            if pattern.is_empty() {
                return Err(
                    "client.skip_mtls_uri_regex: an empty pattern matches every path; remove it".to_owned()
                );
            }
            Pattern::new(pattern, false).map_err(|reason| format!("client.skip_mtls_uri_regex: {reason}"))
        })
        .collect::<Result<_, _>>()?;
    Ok(ClientCheck { verifier, skip })
}

/// Lets clients without a certificate finish the handshake: their requests get nginx's page, which says what is missing.
/// A certificate that is presented has to be a good one.
#[derive(Debug)]
pub(crate) struct Asking(pub Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Asking {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        leaf: &CertificateDer<'_>,
        rest: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.0.verify_client_cert(leaf, rest, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}

/// Lets every client finish the handshake, with proof of the key; whether the certificate will do is judged per
/// request.
#[derive(Debug)]
pub(crate) struct Lenient(pub Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Lenient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
