//! TLS of probes, with the certificate verified or not, as `https_verify_certificate` says.

use std::{io, sync::Arc};

use plugin::tls::{Trust, client_config};
use rustls::RootCertStore;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// Both ways to connect; cheap to clone.
#[derive(Clone)]
pub struct ProbeTls {
    verifying: TlsConnector,
    trusting: TlsConnector,
}

impl ProbeTls {
    /// `roots`: whom to trust, from `ssl_trusted_certificate`.
    pub fn new(roots: RootCertStore) -> Result<Self, String> {
        let verifying = Arc::new(client_config(Trust::Roots(roots), None)?);
        let trusting = Arc::new(client_config(Trust::Anybody, None)?);
        Ok(Self { verifying: verifying.into(), trusting: trusting.into() })
    }

    /// Trusts the public authorities.
    pub fn with_public_roots() -> Result<Self, String> {
        Self::new(webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect())
    }

    pub(super) async fn connect(
        &self,
        stream: TcpStream,
        host: &str,
        verify: bool,
    ) -> io::Result<TlsStream<TcpStream>> {
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare).map_err(io::Error::other)?;
        let connector = if verify { &self.verifying } else { &self.trusting };
        connector.connect(name, stream).await
    }
}
