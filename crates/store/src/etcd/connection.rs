//! One connection to one member of the cluster, authenticated.

use std::{io, sync::Arc, time::Duration};

use hyper_util::rt::TokioIo;
use rustix::net::sockopt;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tonic::{Status, transport::Endpoint};

use super::{Options, pings::Pings, rpc::Client};

/// Connecting, the handshake and the login together. Short, because another member may be well.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// A host that acknowledges nothing for that long is gone.
const DEAD_HOST: Duration = Duration::from_secs(10);
/// Between the kernel's probes of a silent host.
const PROBE: Duration = Duration::from_secs(1);
/// What may be under way in answers: a full read is large, and the standard 64 KiB make it slow.
const STREAM_WINDOW: u32 = 2 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;

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
        .initial_connection_window_size(CONNECTION_WINDOW);
    let (target, sni) = (member.clone(), options.tls.sni.clone());
    let tls = tls.filter(|_| member.tls);
    let clock = pings.clock();
    let connector = tower::service_fn(move |_: http::Uri| {
        let (target, sni, tls) = (target.clone(), sni.clone(), tls.clone());
        async move { open(&target, sni, tls).await.map(|stream| TokioIo::new(clock.over(stream))) }
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
    notice_dead_hosts(&stream)?;
    let Some(tls) = tls else { return Ok(Box::new(stream)) };
    let name = ServerName::try_from(sni.unwrap_or_else(|| member.host.clone())).map_err(io::Error::other)?;
    Ok(Box::new(tidegate_tls::connect(tls, name, stream).await?))
}

/// The kernels' own questions, which cost etcd nothing: where a member allows few PINGs, a host that is gone is still noticed. While PINGs
/// are sent, none of them is.
fn notice_dead_hosts(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(stream, DEAD_HOST - 2 * PROBE)?;
    sockopt::set_tcp_keepintvl(stream, PROBE)?;
    sockopt::set_tcp_user_timeout(stream, u32::try_from(DEAD_HOST.as_millis()).unwrap_or(u32::MAX))?;
    sockopt::set_socket_keepalive(stream, true)?;
    Ok(())
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
