//! One request over HTTP by a verb, to a gateway or to nginx, on a new connection.

use std::{io, net::ToSocketAddrs, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use serde_json::Value;
use tidegate_clients::verbatim::{Connection, Excess, Limits, VerbatimResponse};
use tidegate_config::Listener;
use tokio::{net::TcpStream, time::timeout};

use super::printable::printable;

/// What may be waited for at each step, and what is kept of the answer's body.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    pub wait: Duration,
    pub body_bytes: usize,
    pub excess: Excess,
}

/// Bytes of a request that a server takes in a second at least.
const LEAST_WRITE_RATE: usize = 64 << 10;

/// How a server is reached over TLS.
#[cfg_attr(not(feature = "import"), allow(dead_code, reason = "only the importer's comparison asks so"))]
pub(super) struct Tls {
    pub config: Arc<ClientConfig>,
    pub name: ServerName<'static>,
}

/// Sends `request`, which is a whole message that asks for the end of the connection.
pub(super) fn exchange(
    to: impl ToSocketAddrs,
    method: &str,
    request: &[u8],
    bounds: Bounds,
) -> io::Result<VerbatimResponse> {
    exchange_over(None, to, method, request, bounds)
}

/// As [`exchange`], over TLS where it is given. [`io::ErrorKind::ConnectionReset`]: the server refuses the handshake.
pub(super) fn exchange_over(
    tls: Option<Tls>,
    to: impl ToSocketAddrs,
    method: &str,
    request: &[u8],
    bounds: Bounds,
) -> io::Result<VerbatimResponse> {
    let Bounds { wait, body_bytes, excess } = bounds;
    let address = to.to_socket_addrs()?.next().ok_or_else(|| io::Error::other("the name has no address"))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().build()?;
    runtime.block_on(async {
        let stream =
            timeout(wait, TcpStream::connect(address)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        let write = wait + Duration::from_secs((request.len() / LEAST_WRITE_RATE) as u64);
        let limits = Limits { write, wait };
        let Some(Tls { config, name }) = tls else {
            return Connection::new(stream, limits).exchange(method, request, body_bytes, excess).await;
        };
        let handshake = timeout(wait, tidegate_tls::connect(config, name, stream)).await;
        let stream = handshake.map_err(|_| io::ErrorKind::TimedOut)?.map_err(of_handshake)?;
        Connection::new(stream, limits).exchange(method, request, body_bytes, excess).await
    })
}

fn of_handshake(error: io::Error) -> io::Error {
    let is_refused = error.to_string().starts_with("the peer refused: TLS alert");
    if is_refused { io::Error::new(io::ErrorKind::ConnectionReset, error) } else { error }
}

/// What one of a gateway's own pages answered.
pub(super) struct Answer {
    from: String,
    response: VerbatimResponse,
}

impl Answer {
    /// The body, if the status is 200.
    pub(super) fn text(self) -> anyhow::Result<String> {
        let status = self.response.head.status;
        let body = String::from_utf8(self.response.body);
        if status != 200 {
            let reason = body.ok().and_then(|body| reason(&body)).map(|reason| format!(": {reason}"));
            bail!("{} answered {status}{}", self.from, reason.unwrap_or_default());
        }
        body.with_context(|| format!("{} answered without text", self.from))
    }
}

/// Why, in the form of the Control API or of the status page.
fn reason(body: &str) -> Option<String> {
    let body: Value = serde_json::from_str(body).ok()?;
    let text = body.get("error_msg").or_else(|| body.get("error"))?.as_str()?;
    Some(printable(text).into_owned())
}

/// `GET path` from the page `name` of the running gateway, which listens there.
pub(super) fn get(listener: &Listener, name: &str, path: &str, bounds: Bounds) -> anyhow::Result<Answer> {
    let ip = reachable(&listener.ip);
    let place = authority(ip, listener.port);
    let from = format!("the {name} at {place}");
    let request = format!("GET {path} HTTP/1.1\r\nHost: {place}\r\nConnection: close\r\n\r\n");
    let response = exchange((ip, listener.port), "GET", request.as_bytes(), bounds).with_context(|| {
        format!("cannot reach {from}; is the gateway running? start it, or give --prefix")
    })?;
    Ok(Answer { from, response })
}

/// Host and port as a URL and `Host` have them.
pub(super) fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Where a listener is reached from this machine.
pub(super) fn reachable(ip: &str) -> &str {
    match ip {
        "0.0.0.0" => "127.0.0.1",
        "::" => "::1",
        ip => ip,
    }
}
