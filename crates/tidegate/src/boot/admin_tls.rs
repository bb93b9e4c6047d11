//! TLS in front of the Admin API (`https_admin`, `admin_api_mtls`).

use std::sync::Arc;

use rustls::ServerConfig;
use tidegate_admin::listener::{Accept, Connection};
use tidegate_config::Settings;
use tidegate_telemetry::handshakes::Refused;
use tidegate_tls::{Anchors, ClientVerifier};
use tokio_rustls::TlsAcceptor;

use super::pem::{Fault, pair, read};

const CERTIFICATE: &str = "deployment.admin.admin_api_mtls.admin_ssl_cert";
const KEY: &str = "deployment.admin.admin_api_mtls.admin_ssl_cert_key";
const AUTHORITIES: &str = "deployment.admin.admin_api_mtls.admin_ssl_ca_cert";

/// Whether the files can be used; the key of config.yaml and what is wrong.
pub(super) fn check(settings: &Settings) -> Result<(), Fault> {
    server(settings).map(|_| ())
}

/// `None` without `https_admin`.
pub(super) fn accept(settings: &Settings) -> anyhow::Result<Option<Accept>> {
    let server = server(settings).map_err(|(key, reason)| anyhow::anyhow!("{key}: {reason}"))?;
    let Some(server) = server else { return Ok(None) };
    let acceptor = TlsAcceptor::from(Arc::new(server));
    Ok(Some(Arc::new(move |stream| {
        let acceptor = acceptor.clone();
        Box::pin(async move {
            let peer = stream.peer_addr();
            match acceptor.accept(stream).await {
                Ok(stream) => Some(Box::new(stream) as Box<dyn Connection>),
                Err(error) => {
                    let peer = peer.map_or_else(|_| "unknown".to_owned(), |peer| peer.to_string());
                    let refused = Refused { client: &peer, port: "Admin API", ..Refused::default() };
                    refused.log(&error, &tidegate_tls::reason(&error));
                    None
                }
            }
        })
    })))
}

fn server(settings: &Settings) -> Result<Option<ServerConfig>, Fault> {
    let admin = &settings.admin;
    if !admin.https || admin.listen.is_none() {
        return Ok(None);
    }
    let (Some(certificate), Some(key)) = (&admin.certificate, &admin.certificate_key) else {
        return Err((CERTIFICATE.into(), "https_admin needs it, and admin_ssl_cert_key".to_owned()));
    };
    let pair = pair(settings, (CERTIFICATE, certificate), (KEY, key))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| (CERTIFICATE.into(), error.to_string()))?;
    let builder = match &admin.client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let verifier = Anchors::from_pem(&read(settings, AUTHORITIES, ca)?)
                .and_then(|anchors| ClientVerifier::new(anchors, None, &provider))
                .map_err(|error| (AUTHORITIES.into(), format!("{ca}: {error}")))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    Ok(Some(builder.with_cert_resolver(tidegate_tls::single(pair))))
}
