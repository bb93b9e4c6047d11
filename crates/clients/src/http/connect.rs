//! Opening connections, with TLS when wanted.

use std::{io, net::SocketAddr, path::Path, sync::Arc};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde_json::Value;
use tidegate_model::endpoint::Endpoint;
use tidegate_plugin_api::{descriptors, host};
use tidegate_tls::{Anchors, Trust, client_config};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::proxies::{Proxy, tunnel};
use crate::names;

/// The values that distinguish two TLS settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsWanted {
    /// Whether the server's certificate is verified.
    pub verify: bool,
    /// PEM of the certificate chain and key shown to the server.
    pub client: Option<(String, String)>,
}

impl Default for TlsWanted {
    fn default() -> TlsWanted {
        TlsWanted { verify: true, client: None }
    }
}

/// A connection to a server.
pub enum Transport {
    /// Without TLS.
    Plain(TcpStream),
    /// After the handshake.
    Tls(Box<TlsStream<TcpStream>>),
}

impl Transport {
    /// The addresses of the other side and of this one.
    pub fn addresses(&self) -> io::Result<(SocketAddr, SocketAddr)> {
        let stream = match self {
            Transport::Plain(stream) => stream,
            Transport::Tls(stream) => stream.get_ref().0,
        };
        Ok((stream.peer_addr()?, stream.local_addr()?))
    }
}

/// The caller sets the time limit.
pub async fn connect(endpoint: &Endpoint, tls: &TlsWanted) -> Result<Transport, String> {
    connect_through(None, endpoint, tls).await
}

/// As [`connect`], through a proxy.
pub(super) async fn connect_through(
    proxy: Option<&Proxy>,
    endpoint: &Endpoint,
    tls: &TlsWanted,
) -> Result<Transport, String> {
    let Endpoint { host, port, .. } = proxy.map_or(endpoint, |proxy| &proxy.endpoint);
    let mut stream = names::connect(host, *port)
        .await
        .and_then(descriptors::spared)
        .map_err(|error| format!("failed to connect to {host}:{port}: {error}"))?;
    let _ = stream.set_nodelay(true);
    if !endpoint.tls {
        return Ok(Transport::Plain(stream));
    }
    if let Some(proxy) = proxy {
        tunnel(&mut stream, proxy, endpoint).await?;
    }
    let Endpoint { host, port, .. } = endpoint;
    let name = ServerName::try_from(host.clone()).map_err(|error| format!("{host}: {error}"))?;
    let stream = tidegate_tls::connect(tls_config(tls)?, name, stream)
        .await
        .map_err(|error| format!("TLS handshake with {host}:{port} failed: {error}"))?;
    Ok(Transport::Tls(Box::new(stream)))
}

/// Made once per setting: a configuration keeps its session tickets.
pub fn tls_config(wanted: &TlsWanted) -> Result<Arc<ClientConfig>, String> {
    /// More settings than any installation has; past that they are made again.
    const MAX_SETTINGS: usize = 256;
    static MADE: Mutex<Option<FxHashMap<TlsWanted, Arc<ClientConfig>>>> = Mutex::new(None);
    if let Some(made) = MADE.lock().get_or_insert_default().get(wanted) {
        return Ok(made.clone());
    }
    let config = Arc::new(make(wanted)?);
    let mut made = MADE.lock();
    let made = made.get_or_insert_default();
    if made.len() >= MAX_SETTINGS {
        made.clear();
    }
    made.insert(wanted.clone(), config.clone());
    Ok(config)
}

fn make(wanted: &TlsWanted) -> Result<ClientConfig, String> {
    let trust = if wanted.verify { Trust::Anchors(anchors()?) } else { Trust::Anybody };
    client_config(trust, wanted.client.as_ref().map(|(chain, key)| (chain.as_bytes(), key.as_bytes())))
}

/// The authorities of `apisix.ssl.ssl_trusted_certificate`.
fn anchors() -> Result<Anchors, String> {
    let Some(host) = host() else { return Anchors::from_setting("system", Path::new("")) };
    let setting = host.settings.pointer("/apisix/ssl/ssl_trusted_certificate");
    Anchors::from_setting(setting.and_then(Value::as_str).unwrap_or("system"), &host.prefix)
}
