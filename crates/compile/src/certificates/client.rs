//! The certificates that clients have to present: `client` of an `ssl` resource.

use std::sync::Arc;

use model::resources;
use plugin::certificates::ClientCheck;
use routing::expr::Pattern;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::CryptoProvider,
    server::{
        WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
};
use rustls_pki_types::{CertificateDer, UnixTime, pem::PemObject};

pub fn check(client: &resources::SslClient, provider: &Arc<CryptoProvider>) -> Result<ClientCheck, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(client.ca.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("client.ca: {error}"))?;
        roots.add(certificate).map_err(|error| format!("client.ca: {error}"))?;
    }
    let roots = Arc::new(roots);
    let usual = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .map_err(|error| format!("client.ca: {error}"))?;
    let verifier = Bounded {
        usual,
        roots,
        provider: provider.clone(),
        depth: client.depth.try_into().unwrap_or(usize::MAX),
    };
    let skip = client.skip_mtls_uri_regex.iter();
    let skip = skip
        .map(|pattern| {
            Pattern::new(pattern, false)
                .ok_or_else(|| format!("client.skip_mtls_uri_regex: {pattern} is no regular expression"))
        })
        .collect::<Result<_, _>>()?;
    Ok(ClientCheck { verifier: Arc::new(verifier), skip })
}

/// The library's verifier, with a bound on the authorities between a client's certificate and one of `client.ca`
/// (`client.depth`, counted as OpenSSL does).
#[derive(Debug)]
struct Bounded {
    usual: Arc<dyn ClientCertVerifier>,
    roots: Arc<RootCertStore>,
    provider: Arc<CryptoProvider>,
    depth: usize,
}

impl ClientCertVerifier for Bounded {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.usual.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        // First the library: its errors say more.
        self.usual.verify_client_cert(certificate, intermediates, now)?;
        let bad = |_| rustls::Error::InvalidCertificate(CertificateError::BadEncoding);
        let certificate = webpki::EndEntityCert::try_from(certificate).map_err(bad)?;
        let short = |path: &webpki::VerifiedPath<'_>| match path.intermediate_certificates().count() {
            count if count <= self.depth => Ok(()),
            _ => Err(webpki::Error::UnknownIssuer),
        };
        certificate
            .verify_for_usage(
                self.provider.signature_verification_algorithms.all,
                &self.roots.roots,
                intermediates,
                now,
                webpki::KeyUsage::client_auth(),
                None,
                Some(&short),
            )
            .map(|_| ClientCertVerified::assertion())
            .map_err(|_| {
                let reason = "the chain of the client's certificate is longer than client.depth allows";
                rustls::Error::General(reason.to_owned())
            })
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

/// Lets everybody finish the handshake, with proof of the key; whether the certificate will do is judged per request.
#[derive(Debug)]
pub struct Lenient(pub Arc<dyn ClientCertVerifier>);

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
