//! TLS in front of the Admin API (`https_admin`, `admin_api_mtls`).

use std::sync::Arc;

use admin::listener::{Accept, Connection};
use anyhow::{Context, bail};
use config::Settings;
use rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use tokio_rustls::TlsAcceptor;

/// `None` without `https_admin`.
pub fn accept(settings: &Settings) -> anyhow::Result<Option<Accept>> {
    let admin = &settings.admin;
    if !admin.https {
        return Ok(None);
    }
    let (Some(certificate), Some(key)) = (&admin.certificate, &admin.certificate_key) else {
        bail!("https_admin needs deployment.admin.admin_api_mtls.admin_ssl_cert and admin_ssl_cert_key");
    };
    let read = |path: &str| {
        let path = settings.below_prefix(path);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let chain = CertificateDer::pem_slice_iter(&read(certificate)?).collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_slice(&read(key)?)?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match &admin.client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            for certificate in CertificateDer::pem_slice_iter(&read(ca)?) {
                roots.add(certificate?)?;
            }
            builder.with_client_cert_verifier(
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?,
            )
        }
    };
    let acceptor = TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key)?));
    Ok(Some(Arc::new(move |stream| {
        let acceptor = acceptor.clone();
        Box::pin(async move {
            let stream = acceptor.accept(stream).await.ok()?;
            Some(Box::new(stream) as Box<dyn Connection>)
        })
    })))
}
