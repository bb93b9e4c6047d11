//! TLS with etcd: whom to trust, what to show.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, aws_lc_rs},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject};

/// `deployment.etcd.tls`, with paths that can be opened.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Files with the client's certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
    pub verify: bool,
    /// The name to ask for and to check, in place of the host.
    pub sni: Option<String>,
    /// Files with authorities; empty: the system's.
    pub authorities: Vec<PathBuf>,
}

const SYSTEM_AUTHORITIES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Reads the files. The error names the file.
pub fn client_config(options: &TlsOptions) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = if options.verify {
        builder.with_root_certificates(authorities(&options.authorities)?)
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
    };
    let mut config = match &options.client {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate)?;
            let key = PrivateKeyDer::from_pem_slice(&read(key)?)
                .map_err(|error| format!("deployment.etcd.tls.key: {}: {error}", key.display()))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| format!("deployment.etcd.tls.cert: {}: {error}", certificate.display()))?
        }
    };
    // gRPC servers refuse connections that do not ask for HTTP/2.
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn authorities(files: &[PathBuf]) -> Result<RootCertStore, String> {
    let system = || SYSTEM_AUTHORITIES.iter().map(PathBuf::from).find(|path| path.exists());
    let files = if files.is_empty() {
        vec![
            system()
                .ok_or("no certificate authorities on this system: set apisix.ssl.ssl_trusted_certificate")?,
        ]
    } else {
        files.to_vec()
    };
    let mut roots = RootCertStore::empty();
    for file in files {
        // A bundle may hold certificates that are too old for the library; the others serve.
        roots.add_parsable_certificates(certificates(&file)?);
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Vec<_> = CertificateDer::pem_slice_iter(&read(file)?).filter_map(Result::ok).collect();
    if found.is_empty() {
        return Err(format!("{}: no certificate in it (PEM is expected)", file.display()));
    }
    Ok(found)
}

fn read(file: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(file).map_err(|error: io::Error| format!("cannot read {}: {error}", file.display()))
}

/// `tls.verify: false`: encrypts, trusts anybody who holds the key of the certificate shown.
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
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
