//! TLS toward servers: the one place that makes client configurations, so that "verified" has one meaning.

use std::sync::Arc;

use rustls::{ClientConfig, crypto::aws_lc_rs};

use crate::{Anchors, AnyCertificate, ServerVerifier, certified_key, single};

/// Which servers a client trusts.
#[derive(Clone, Debug)]
pub enum Trust {
    /// Encryption without verification: APISIX's default toward upstreams.
    Anybody,
    /// Certificates must lead to one of these.
    Anchors(Anchors),
}

/// A configuration; `client` is the PEM of the certificate chain and key that are shown to the server.
pub fn client_config(trust: Trust, client: Option<(&[u8], &[u8])>) -> Result<ClientConfig, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous();
    let builder = match trust {
        Trust::Anchors(anchors) => {
            builder.with_custom_certificate_verifier(ServerVerifier::new(anchors, &provider))
        }
        Trust::Anybody => builder.with_custom_certificate_verifier(AnyCertificate::new(&provider)),
    };
    let Some((chain, key)) = client else { return Ok(builder.with_no_client_auth()) };
    let key = certified_key(&provider, chain, key).map_err(|error| format!("client {error}"))?;
    Ok(builder.with_client_cert_resolver(single(key)))
}
