//! Clients that connect to us.

use std::sync::Arc;

use rustls::{
    DigitallySignedStruct, DistinguishedName, Error, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms},
    pki_types::{CertificateDer, UnixTime},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

use crate::{Anchors, path::Question, purpose::Purpose, signature};

/// Verifies a client's chain; without a certificate the handshake fails.
#[derive(Debug)]
pub struct ClientVerifier {
    anchors: Anchors,
    names: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
    depth: Option<usize>,
}

impl ClientVerifier {
    /// `depth`: intermediate certificates at most, as OpenSSL counts them.
    pub fn new(
        anchors: Anchors,
        depth: Option<usize>,
        provider: &CryptoProvider,
    ) -> Result<Arc<ClientVerifier>, String> {
        if anchors.is_empty() {
            return Err("no certificate authority".to_owned());
        }
        Ok(Arc::new(ClientVerifier {
            names: anchors.names(),
            anchors,
            algorithms: provider.signature_verification_algorithms,
            depth,
        }))
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.names
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let question = Question {
            anchors: &self.anchors,
            algorithms: &self.algorithms,
            purpose: Purpose::Client,
            depth: self.depth,
        };
        question.verify(certificate, intermediates, now)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signature::tls12(&self.algorithms, message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        signature::tls13(&self.algorithms, message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
