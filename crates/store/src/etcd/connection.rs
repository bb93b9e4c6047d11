//! One connection to one member of the cluster, authenticated.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tonic::{Status, transport::Endpoint};

use super::{Options, rpc::Client};

/// Connecting, the handshake and the login together. Short, because another member may be well.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Seconds after which a quiet connection is asked by an HTTP/2 PING whether the member is there. etcd allows one each 5 s
/// (`--grpc-keepalive-min-time`) and ends connections with more.
const PING_SECONDS: u64 = 6;
/// What a member that allows fewer may make of it.
const MOST_PING_SECONDS: u64 = 600;
/// A member that does not answer a PING for that long is gone: within 10 s it is noticed.
const PING_PATIENCE: Duration = Duration::from_secs(3);
/// What may be under way in answers: a full read is large, and the standard 64 KiB make it slow.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

/// How often quiet connections are asked, as the members allow it.
pub(super) struct Pings(AtomicU64);

impl Default for Pings {
    fn default() -> Pings {
        Pings(AtomicU64::new(PING_SECONDS))
    }
}

impl Pings {
    fn interval(&self) -> Duration {
        Duration::from_secs(self.0.load(Relaxed))
    }

    /// Halves them when a connection ended because the member calls them too many.
    pub(super) fn heed(&self, status: &Status) {
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(status);
        while let Some(error) = cause {
            let reason = error.downcast_ref::<h2::Error>().and_then(h2::Error::reason);
            if reason == Some(h2::Reason::ENHANCE_YOUR_CALM) {
                self.0.store((self.0.load(Relaxed) * 2).min(MOST_PING_SECONDS), Relaxed);
                return;
            }
            cause = error.source();
        }
    }
}

trait Transport: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Transport for T {}

/// `http://HOST:PORT` taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    pub address: String,
    host: String,
    port: u16,
    tls: bool,
}

impl Member {
    pub(super) fn parse(address: &str) -> Result<Self, String> {
        // Not quoted: it may carry a password.
        let (tls, host, port) = tidegate_config::keys::forms::etcd_member(address).ok_or(
            "deployment.etcd.host: this is not an address of a member; write http://HOST:PORT or https://HOST:PORT, and user \
             name and password at deployment.etcd.user and deployment.etcd.password",
        )?;
        Ok(Self { address: address.to_owned(), host: host.to_owned(), port, tls })
    }
}

/// Opens a connection and logs in. The error says what failed, without the address.
pub(super) async fn connect(
    member: &Member,
    options: &Options,
    pings: &Pings,
    tls: Option<Arc<ClientConfig>>,
) -> Result<Client, String> {
    let patience = options.timeout.min(CONNECT_TIME);
    match tokio::time::timeout(patience, login(member, options, pings, tls)).await {
        Ok(result) => result,
        Err(_) => Err(format!("no answer within {} s", patience.as_secs_f64())),
    }
}

async fn login(
    member: &Member,
    options: &Options,
    pings: &Pings,
    tls: Option<Arc<ClientConfig>>,
) -> Result<Client, String> {
    let bracketed =
        if member.host.contains(':') { format!("[{}]", member.host) } else { member.host.clone() };
    // TLS is the connector's business; to the library every member is plain.
    let endpoint = Endpoint::from_shared(format!("http://{bracketed}:{}", member.port))
        .map_err(|error| error.to_string())?
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .http2_keep_alive_interval(pings.interval())
        .keep_alive_timeout(PING_PATIENCE)
        .keep_alive_while_idle(true);
    let (target, sni) = (member.clone(), options.tls.sni.clone());
    let tls = tls.filter(|_| member.tls);
    let connector = tower::service_fn(move |_: http::Uri| {
        let (target, sni, tls) = (target.clone(), sni.clone(), tls.clone());
        async move { open(&target, sni, tls).await.map(TokioIo::new) }
    });
    let channel =
        endpoint.connect_with_connector(connector).await.map_err(|error| explain_disconnect(root(&error)))?;
    Client::login(channel, options.user.clone()).await.map_err(|status| reason(&status))
}

async fn open(
    member: &Member,
    sni: Option<String>,
    tls: Option<Arc<ClientConfig>>,
) -> io::Result<Box<dyn Transport>> {
    let stream = TcpStream::connect((member.host.as_str(), member.port)).await?;
    stream.set_nodelay(true)?;
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(sni.unwrap_or_else(|| member.host.clone())).map_err(io::Error::other)?;
    Ok(Box::new(tidegate_tls::connect(tls, name, stream).await?))
}

/// The words of a failure, which for gRPC are the server's own.
pub(super) fn reason(status: &Status) -> String {
    match status.message() {
        "" => status.code().to_string(),
        // As APISIX names the two that users meet.
        "etcdserver: user name is empty" => "insufficient credentials code: 401".to_owned(),
        "etcdserver: permission denied" => "etcd forbidden code: 403".to_owned(),
        message => explain_disconnect(message.to_owned()),
    }
}

/// A peer that does not speak HTTP/2 ends the connection in one way or another.
fn explain_disconnect(reason: String) -> String {
    const NO_HTTP2: [&str; 5] = [
        "operation was canceled",
        "transport error",
        "frame with invalid size",
        "connection closed",
        "http2 error",
    ];
    match NO_HTTP2.iter().any(|words| reason.contains(words)) {
        true => format!(
            "{reason}: it does not respond like etcd; it went away, is another kind of server, or expects \
             https://"
        ),
        false => reason,
    }
}

/// The innermost cause: "transport error" alone explains nothing.
fn root(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let check = |address: &str, host: &str, port: u16, tls: bool| {
            let member = Member::parse(address).expect("an address");
            assert_eq!((member.host.as_str(), member.port, member.tls), (host, port, tls), "{address}");
        };
        check("http://127.0.0.1:2379", "127.0.0.1", 2379, false);
        check("https://etcd.example.com:2379/", "etcd.example.com", 2379, true);
        check("http://etcd", "etcd", 2379, false);
        check("http://[::1]:2400", "::1", 2400, false);
        check("http://[::1]", "::1", 2379, false);
        for wrong in ["127.0.0.1:2379", "ftp://a:1", "http://", "http://a:b", "http://a:70000", "http://u@a"]
        {
            assert!(Member::parse(wrong).is_err(), "{wrong}");
        }
    }
}
