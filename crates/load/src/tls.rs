//! TLS settings of a run: which certificates are trusted, which protocol is offered.

use std::{fs, sync::Arc};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use trust::AnyCertificate;

use crate::{Problem, target::Origin};

#[derive(Clone, Debug, Default)]
pub struct TlsOptions {
    /// PEM file with certificates to trust in place of the public ones.
    pub ca_file: Option<String>,
    /// Trusts every certificate; the handshake is real, the name on it is not looked at.
    pub insecure: bool,
    /// Offers `h2` instead of `http/1.1`.
    pub http2: bool,
}

pub fn config(options: &TlsOptions) -> Result<Arc<ClientConfig>, Problem> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let failed = |error: rustls::Error| Problem::failed(format!("tls: {error}"));
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(failed)?;
    let mut config = if options.insecure {
        builder
            .dangerous()
            .with_custom_certificate_verifier(AnyCertificate::new(provider))
            .with_no_client_auth()
    } else {
        builder.with_root_certificates(roots(options.ca_file.as_deref())?).with_no_client_auth()
    };
    config.alpn_protocols = vec![if options.http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    Ok(Arc::new(config))
}

pub fn server_name(origin: &Origin) -> Result<ServerName<'static>, Problem> {
    ServerName::try_from(origin.host.clone())
        .map_err(|_| Problem::usage(format!("{:?} is neither a host name nor an address", origin.host)))
}

fn roots(file: Option<&str>) -> Result<RootCertStore, Problem> {
    let mut roots = RootCertStore::empty();
    let Some(file) = file else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(roots);
    };
    let wrong = |why: &dyn std::fmt::Display| Problem::usage(format!("--cacert {file}: {why}"));
    let text = fs::read(file).map_err(|error| wrong(&error))?;
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() {
        return Err(wrong(&"no certificate in it; it must be PEM"));
    }
    Ok(roots)
}
