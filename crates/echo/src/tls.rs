//! TLS on the port.

use std::sync::Arc;

use rustls::{ServerConfig, crypto::aws_lc_rs};

/// A certificate chain and its key, both PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    pub certificate: String,
    pub key: String,
}

/// Shows the certificate to each client; HTTP/2 is offered.
pub fn server_config(identity: &Identity) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let (certificate, key) = (identity.certificate.as_bytes(), identity.key.as_bytes());
    let pair = tidegate_tls::certified_key(&provider, certificate, key).map_err(|error| error.to_string())?;
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let mut config = builder.with_no_client_auth().with_cert_resolver(tidegate_tls::single(pair));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
