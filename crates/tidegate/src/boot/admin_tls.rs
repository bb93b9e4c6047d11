//! TLS in front of the Admin API (`https_admin`, `admin_api_mtls`).

use std::sync::Arc;

use admin::listener::{Accept, Connection};
use anyhow::{Context, anyhow, bail};
use config::Settings;
use rustls::ServerConfig;
use telemetry::handshakes::Refused;
use tokio_rustls::TlsAcceptor;
use trust::{Anchors, ClientVerifier};

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
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let pair = trust::certified_key(&provider, &read(certificate)?, &read(key)?)
        .map_err(|error| anyhow!("deployment.admin.admin_api_mtls ({certificate}, {key}): {error}"))?;
    let builder =
        ServerConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions()?;
    let builder = match &admin.client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let verifier = Anchors::from_pem(&read(ca)?)
                .and_then(|anchors| ClientVerifier::new(anchors, None, &provider))
                .map_err(|error| anyhow!("admin_api_mtls.admin_ssl_ca_cert ({ca}): {error}"))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let acceptor = TlsAcceptor::from(Arc::new(builder.with_cert_resolver(trust::single(pair))));
    Ok(Some(Arc::new(move |stream| {
        let acceptor = acceptor.clone();
        Box::pin(async move {
            let peer = stream.peer_addr();
            match acceptor.accept(stream).await {
                Ok(stream) => Some(Box::new(stream) as Box<dyn Connection>),
                Err(error) => {
                    let peer = peer.map_or_else(|_| "unknown".to_owned(), |peer| peer.to_string());
                    let refused = Refused { client: &peer, port: "Admin API", ..Refused::default() };
                    refused.log(&error, &trust::reason(&error));
                    None
                }
            }
        })
    })))
}
