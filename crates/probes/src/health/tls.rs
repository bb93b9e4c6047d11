//! TLS of probes, with the certificate verified or not, as `https_verify_certificate` says.

use std::{io, sync::Arc};

use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};
use tidegate_tls::{Anchors, Trust, client_config};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// A line a minute: probes come every second or so, and the change of state is logged anyway.
static LIMITER: Limiter = Limiter::new(1, 60_000);

/// Both ways to connect; cheap to clone.
#[derive(Clone)]
pub struct ProbeTls {
    verifying: Arc<ClientConfig>,
    trusting: Arc<ClientConfig>,
}

impl ProbeTls {
    /// `anchors`: whom to trust, from `ssl_trusted_certificate`.
    pub fn new(anchors: Anchors) -> Result<Self, String> {
        let verifying = Arc::new(client_config(Trust::Anchors(anchors), None)?);
        let trusting = Arc::new(client_config(Trust::Anybody, None)?);
        Ok(Self { verifying, trusting })
    }

    pub(super) async fn connect(
        &self,
        stream: TcpStream,
        host: &str,
        verify: bool,
    ) -> io::Result<TlsStream<TcpStream>> {
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(bare).map_err(io::Error::other)?;
        let config = if verify { &self.verifying } else { &self.trusting };
        let peer = stream.peer_addr();
        tidegate_tls::connect(config.clone(), name, stream).await.inspect_err(|error| {
            if LIMITER.pass().is_some() {
                let peer = peer.map_or_else(|_| host.to_owned(), |peer| peer.to_string());
                let line = format_args!("health check of {peer} ({host}): TLS handshake failed: {error}");
                error_log::log(Level::Warn, line);
            }
        })
    }
}
