//! TLS with etcd: whom to trust, what to show.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use trust::AnyCertificate;

/// `deployment.etcd.tls`, with paths that can be opened.
#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// Files with the client's certificate and its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Else anybody is trusted who holds the key of the certificate shown.
    pub verify: bool,
    /// The name to ask for and to check, in place of the host.
    pub sni: Option<String>,
    /// Files with authorities; empty: the system's.
    pub authorities: Vec<PathBuf>,
}

/// Reads the files. The error names the file.
pub fn client_config(options: &TlsOptions) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = if options.verify {
        builder.with_root_certificates(authorities(&options.authorities)?)
    } else {
        builder.dangerous().with_custom_certificate_verifier(AnyCertificate::new(provider))
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
    let files = if files.is_empty() {
        vec![
            trust::system_authorities()
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
