//! Connections to Redis whose replies are bounded, and TLS with the gateway's own verifier: `apisix.ssl.ssl_trusted_certificate` counts here too.

use std::{future::Future, io, time::Duration};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ConnectionInfo, IntoConnectionInfo, Pipeline,
    RedisError, RedisFuture, RedisResult, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cluster_async::Connect,
};
use rustls_pki_types::ServerName;
use tidegate_plugin_api::descriptors;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    http::{TlsWanted, tls_config},
    names,
    paced::{Credit, Grant, Paced},
};

/// For a node of a cluster that the library connects to by itself; the connections that a request waits for have
/// their own limit.
const LIMIT: Duration = Duration::from_secs(10);

/// Connects to one server, with TLS when its address asks for it. Without a name its certificate is for its host.
pub(super) async fn connect(
    info: impl IntoConnectionInfo,
    name: Option<ServerName<'static>>,
    config: AsyncConnectionConfig,
) -> RedisResult<MultiplexedConnection> {
    let info = info.into_connection_info()?;
    let (host, port, insecure) = match info.addr() {
        ConnectionAddr::Tcp(host, port) => (host, *port, None),
        ConnectionAddr::TcpTls { host, port, insecure, .. } => (host, *port, Some(*insecure)),
        _ => return Client::open(info)?.get_multiplexed_async_connection_with_config(&config).await,
    };
    let tcp = async {
        let stream = names::connect(host, port).await.and_then(descriptors::spared)?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    let Some(insecure) = insecure else { return start(&info, within(tcp).await?, config).await };
    let handshake = async {
        let wanted = TlsWanted { verify: !insecure, client: None };
        let settings = tls_config(&wanted).map_err(io::Error::other)?;
        let name = name.map_or_else(|| ServerName::try_from(host.clone()), Ok).map_err(io::Error::other)?;
        tidegate_tls::connect(settings, name, tcp.await?).await
    };
    start(&info, within(handshake).await?, config).await
}

/// Bounds the replies to our commands: numbers, and sessions.
const REPLIES: Grant = Grant { per_write: 64 << 10, per_byte: 256, most: MAX_REPLY_BYTES };

/// A reply beyond it ends the connection.
const MAX_REPLY_BYTES: usize = 1 << 20;

async fn start(
    info: &ConnectionInfo,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    config: AsyncConnectionConfig,
) -> RedisResult<MultiplexedConnection> {
    let stream = Paced::new(stream, Credit::new(REPLIES.per_write, REPLIES));
    let setup = MultiplexedConnection::new_with_config(info.redis_settings(), stream, config);
    let (connection, driver) = setup.await?;
    // Ends when the connection and all its copies are gone.
    tokio::spawn(driver);
    Ok(connection)
}

async fn within<T>(handshake: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    tokio::time::timeout(LIMIT, handshake).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// A node of a cluster.
#[derive(Clone)]
pub(super) struct Node(MultiplexedConnection);

impl Connect for Node {
    fn connect_with_config<'a, T>(info: T, config: AsyncConnectionConfig) -> RedisFuture<'a, Self>
    where
        T: IntoConnectionInfo + Send + 'a,
    {
        Box::pin(async move { Ok::<_, RedisError>(Node(connect(info, None, config).await?)) })
    }
}

impl ConnectionLike for Node {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        self.0.req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0.req_packed_commands(commands, offset, count)
    }

    fn get_db(&self) -> i64 {
        self.0.get_db()
    }
}
