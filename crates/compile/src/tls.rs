//! TLS settings toward upstreams, made once per combination.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject};

/// What distinguishes two settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Wanted {
    pub verify: bool,
    /// PEM of the certificate chain and key shown to the upstream.
    pub client: Option<(String, String)>,
}

pub struct TlsClients {
    trusted: Option<String>,
    made: FxHashMap<Wanted, Arc<ClientConfig>>,
}

const SYSTEM_CERTIFICATES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

impl TlsClients {
    pub fn new(trusted: Option<String>) -> TlsClients {
        TlsClients { trusted, made: FxHashMap::default() }
    }

    pub fn get(&mut self, wanted: Wanted) -> Result<Arc<ClientConfig>, String> {
        if let Some(made) = self.made.get(&wanted) {
            return Ok(made.clone());
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?;
        let builder = if wanted.verify {
            builder.with_root_certificates(self.roots()?)
        } else {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        };
        let config = match &wanted.client {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => {
                let chain = CertificateDer::pem_slice_iter(chain.as_bytes())
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|error| format!("client_cert: {error}"))?;
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                    .map_err(|error| format!("client_key: {error}"))?;
                builder.with_client_auth_cert(chain, key).map_err(|error| format!("client_cert: {error}"))?
            }
        };
        let config = Arc::new(config);
        self.made.insert(wanted, config.clone());
        Ok(config)
    }

    fn roots(&self) -> Result<RootCertStore, String> {
        let system = || {
            SYSTEM_CERTIFICATES
                .iter()
                .find(|path| std::path::Path::new(path).exists())
                .map(|p| (*p).to_owned())
        };
        let path = self.trusted.clone().filter(|path| path != "system").or_else(system);
        let path = path.ok_or("no certificate authorities found: set apisix.ssl.ssl_trusted_certificate")?;
        let pem = std::fs::read(&path).map_err(|error| format!("{path}: {error}"))?;
        let mut roots = RootCertStore::empty();
        // A bundle may hold certificates that are too old for the library; the others serve.
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
        if roots.is_empty() { Err(format!("{path}: no certificate in it")) } else { Ok(roots) }
    }
}

/// `tls.verify: false`, APISIX's default: encrypts, trusts anybody.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
