//! HTTP requests that plugins make: authorisation services, identity providers, log receivers.
//!
//! Connections are kept per thread, so a worker never takes a lock. The driver of a connection is spawned on the
//! runtime that opened it; both the workers' and the control runtime work. Redirects are not followed.

mod connect;
mod connection;
mod heard;
mod idle;
mod kept;
mod proxies;

pub use connect::{TlsWanted, Transport, connect, tls_config};
pub use connection::Body;
pub use kept::{KeptClient, KeptResponse, Stream};
pub use proxies::{Proxies, Proxy};
pub use tidegate_model::endpoint::Endpoint;

use std::{net::IpAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use connection::{Connection, describe, gather};
use http_body_util::Full;
use hyper::header::HeaderValue;
use thiserror::Error;
use tidegate_plugin_api::hops::{self, SideRequestAction, Ticket};

pub use hyper::{HeaderMap, Method};

/// How requests of one configuration are made. Made once, in `build`.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// For connecting, and again for the answer.
    pub timeout: Duration,
    /// How certificates are verified.
    pub tls: TlsWanted,
    /// Whether connections are kept for further requests.
    pub keepalive: bool,
    /// Idle connections older than this are not used again.
    pub keepalive_timeout: Duration,
    /// Idle connections kept per thread and server.
    pub keepalive_pool: usize,
    /// What becomes of bodies of responses.
    pub body: Body,
    /// A request may be sent once more when its connection ended before anything came back: it may have arrived.
    pub repeats: bool,
    /// `None`: the server is asked directly.
    pub proxies: Option<Arc<Proxies>>,
}

/// The size limit of an answer that decides something: a longer one is an error.
const MAX_ANSWER_BYTES: usize = 1 << 20;

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            timeout: Duration::from_secs(3),
            tls: TlsWanted::default(),
            keepalive: true,
            keepalive_timeout: Duration::from_secs(60),
            keepalive_pool: 5,
            body: Body::Whole(MAX_ANSWER_BYTES),
            repeats: true,
            proxies: None,
        }
    }
}

/// A request about to be sent. `Host`, `Content-Length` and `User-Agent` are added when they are missing.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// Of the request line.
    pub method: Method,
    /// Where it goes.
    pub endpoint: Endpoint,
    /// Besides `Host` and `Content-Length`.
    pub headers: Vec<(String, Vec<u8>)>,
    /// Empty: none.
    pub body: Bytes,
    /// Who gets the answer, in the end: its memory counts for that one, too.
    pub client: Option<IpAddr>,
}

impl Outgoing {
    /// A GET without a body.
    pub fn get(endpoint: Endpoint) -> Outgoing {
        Outgoing { method: Method::GET, endpoint, headers: Vec::new(), body: Bytes::new(), client: None }
    }

    /// A POST with its `Content-Type`.
    pub fn post(endpoint: Endpoint, content_type: &str, body: impl Into<Bytes>) -> Outgoing {
        let headers = vec![("Content-Type".to_owned(), content_type.as_bytes().to_vec())];
        Outgoing { method: Method::POST, endpoint, headers, body: body.into(), client: None }
    }

    /// The client whose request is the reason.
    pub fn on_behalf_of(mut self, client: IpAddr) -> Outgoing {
        self.client = Some(client);
        self
    }

    /// Adds a field.
    pub fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Outgoing {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

/// A response.
#[derive(Clone, Debug)]
pub struct Incoming {
    /// Of the final response.
    pub status: u16,
    /// As received.
    pub headers: HeaderMap,
    /// The whole body; empty where it is not wanted.
    pub body: Bytes,
}

impl Incoming {
    /// The first field of that name.
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.get(name).map(|value| value.as_bytes())
    }

    /// Status and start of the body, for an answer that refuses: the whole might be long, and end up in a log.
    pub fn refusal(&self) -> String {
        let body: String = String::from_utf8_lossy(&self.body).chars().take(200).collect();
        format!("invalid status code {}, {body}", self.status)
    }
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub enum Error {
    /// There was no connection.
    #[error("{0}")]
    NotConnected(String),
    /// The server did not answer in time.
    #[error("timeout")]
    TimedOut,
    /// The server ended the connection, or its answer is not HTTP: the request may be the cause.
    #[error("{0}")]
    Ended(String),
}

impl From<Error> for String {
    fn from(error: Error) -> String {
        error.to_string()
    }
}

/// Sends the request and reads the whole answer.
pub async fn send(request: Outgoing, options: &ClientOptions) -> Result<Incoming, Error> {
    let proxy = options.proxies.as_ref().and_then(|proxies| proxies.of(&request.endpoint));
    let pool = idle::pool_name(&request.endpoint, &options.tls, proxy);
    while let Some(mut connection) = idle::take(&pool, options.keepalive_timeout) {
        if !connection.is_ready().await {
            continue;
        }
        let Some((message, _ticket)) = build(&request, &connection, proxy).map_err(Error::Ended)? else {
            return Ok(refused_as_loop());
        };
        connection.expect_head();
        let Some(answered) = within(options, connection.requests.try_send_request(message)).await else {
            // Other idle connections may be as silent, and each would cost a request.
            idle::forget(&pool);
            return Err(Error::TimedOut);
        };
        match answered {
            Ok(response) => return finish(response, connection, &pool, request.client, options).await,
            Err(mut error) => match error.take_message() {
                // Closed while idle, before it saw the request: another one may take it.
                Some(_) => {}
                // The server was closing it as the request was on its way (RFC 9112 section 9.3.1): once more, on a
                // new connection. Most plugins send questions, or log entries that may arrive twice, so any method may be
                // sent again (RFC 9110 section 9.2.2).
                None if options.repeats && connection.is_silent() => break,
                None => return Err(Error::Ended(describe(&error.into_error()))),
            },
        }
    }
    let opened = within(options, Connection::open(&request.endpoint, &options.tls, proxy)).await;
    let opened = opened.unwrap_or_else(|| Err(Error::TimedOut.into()));
    let mut connection = opened.map_err(Error::NotConnected)?;
    let Some((message, _ticket)) = build(&request, &connection, proxy).map_err(Error::Ended)? else {
        return Ok(refused_as_loop());
    };
    connection.expect_head();
    match within(options, connection.requests.send_request(message)).await {
        Some(Ok(response)) => finish(response, connection, &pool, request.client, options).await,
        Some(Err(error)) => Err(Error::Ended(describe(&error))),
        None => Err(Error::TimedOut),
    }
}

/// `None` when the time is over.
async fn within<T>(options: &ClientOptions, future: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(options.timeout, future).await.ok()
}

async fn finish(
    response: hyper::Response<hyper::body::Incoming>,
    connection: Connection,
    pool: &str,
    client: Option<IpAddr>,
    options: &ClientOptions,
) -> Result<Incoming, Error> {
    connection.expect_body();
    let (head, body) = response.into_parts();
    let gathered = within(options, gather(body, pool, client, options.body)).await.ok_or(Error::TimedOut)?;
    let body = gathered.map_err(|reason| Error::Ended(format!("response body: {reason}")))?;
    if options.keepalive && options.keepalive_pool > 0 && !connection.requests.is_closed() {
        idle::keep(pool, connection, options.keepalive_pool);
    }
    Ok(Incoming { status: head.status.as_u16(), headers: head.headers, body })
}

type Built = (hyper::Request<Full<Bytes>>, Option<Ticket>);

/// The answer to a request that would loop: the same as the gateway's own.
fn refused_as_loop() -> Incoming {
    Incoming { status: 508, headers: HeaderMap::new(), body: Bytes::new() }
}

/// Builds the request for this connection. On one that leads back here it is marked, or not sent.
fn build(
    request: &Outgoing,
    connection: &Connection,
    proxy: Option<&Proxy>,
) -> Result<Option<Built>, String> {
    let is_loop = |name: &str| name.eq_ignore_ascii_case("cdn-loop");
    let there = request.headers.iter().filter(|(name, _)| is_loop(name)).map(|(_, value)| value.as_slice());
    let marked = match hops::side_request_action(connection.peer, connection.local, there) {
        SideRequestAction::Free => None,
        SideRequestAction::Marked(marked) => Some(marked),
        SideRequestAction::Round => return Ok(None),
    };
    let has = |name: &str| request.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    // A tunnel is as good as a direct connection.
    let proxy = proxy.filter(|_| !request.endpoint.tls);
    let target = &request.endpoint.target;
    let target = match proxy {
        Some(_) => format!("http://{}{target}", request.endpoint.host_header()),
        None => target.clone(),
    };
    let mut builder = hyper::Request::builder().method(&request.method).uri(target);
    if let Some(authorization) = proxy.and_then(|proxy| proxy.authorization.as_ref())
        && !has("proxy-authorization")
    {
        builder = builder.header("Proxy-Authorization", authorization);
    }
    if !has("host") {
        builder = builder.header("Host", request.endpoint.host_header());
    }
    if !has("user-agent") {
        builder = builder.header("User-Agent", concat!("tidegate/", env!("CARGO_PKG_VERSION")));
    }
    // With these methods an empty body must be announced; with others it need not be.
    let says_length = matches!(request.method, Method::POST | Method::PUT | Method::PATCH);
    if says_length || !request.body.is_empty() {
        builder = builder.header("Content-Length", request.body.len());
    }
    let rest = request.headers.iter().filter(|(name, _)| {
        !name.eq_ignore_ascii_case("content-length") && (marked.is_none() || !is_loop(name))
    });
    for (name, value) in rest {
        builder = builder.header(name, value.as_slice());
    }
    let ticket = marked.and_then(|marked| {
        builder
            .headers_mut()
            .zip(HeaderValue::from_bytes(&marked.value).ok())
            .map(|(headers, value)| headers.insert("CDN-Loop", value));
        marked.ticket
    });
    let message =
        builder.body(Full::new(request.body.clone())).map_err(|error| format!("request: {error}"))?;
    Ok(Some((message, ticket)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Answers each request on each connection with the same text, and counts connections.
    async fn server(answer: &'static str) -> (Endpoint, std::sync::Arc<std::sync::atomic::AtomicUsize>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = Endpoint::parse(&format!("http://{}/x", listener.local_addr().unwrap())).unwrap();
        let connections = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = connections.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counted.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    while stream.read(&mut buffer).await.is_ok_and(|read| read > 0) {
                        let _ = stream.write_all(answer.as_bytes()).await;
                    }
                });
            }
        });
        (endpoint, connections)
    }

    #[tokio::test]
    async fn connections_are_used_again() {
        let (endpoint, connections) = server("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi").await;
        for _ in 0..3 {
            let answer =
                send(Outgoing::get(endpoint.clone()), &ClientOptions::default()).await.expect("answer");
            assert_eq!((answer.status, answer.body.as_ref()), (200, b"hi".as_slice()));
        }
        assert_eq!(connections.load(std::sync::atomic::Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn long_answers_are_refused() {
        let (endpoint, _) = server("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789").await;
        let options = ClientOptions { body: Body::Whole(8), ..ClientOptions::default() };
        assert!(send(Outgoing::get(endpoint), &options).await.is_err());
    }

    #[tokio::test]
    async fn silence_is_a_timeout() {
        let (endpoint, _) = server("").await;
        let options = ClientOptions { timeout: Duration::from_millis(20), ..ClientOptions::default() };
        assert!(matches!(send(Outgoing::get(endpoint), &options).await, Err(Error::TimedOut)));
    }
}
