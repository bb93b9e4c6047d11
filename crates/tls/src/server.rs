//! Servers that we connect to.

use std::sync::Arc;

use rustls::{
    DigitallySignedStruct, Error, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms},
    pki_types::{CertificateDer, ServerName, UnixTime},
};

use crate::{Anchors, name, path::Question, purpose::Purpose, signature};

/// Verifies a server's chain and that it is for the name that was asked for.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    anchors: Anchors,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerVerifier {
    /// Without anchors nothing is trusted.
    pub(crate) fn new(anchors: Anchors, provider: &CryptoProvider) -> Arc<ServerVerifier> {
        Arc::new(ServerVerifier { anchors, algorithms: provider.signature_verification_algorithms })
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let question = Question {
            anchors: &self.anchors,
            algorithms: &self.algorithms,
            purpose: Purpose::Server,
            depth: None,
        };
        let verified = question.verify(certificate, intermediates, now)?;
        name::check(certificate, server_name, verified.name_constraints)?;
        Ok(ServerCertVerified::assertion())
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
