//! HTTP requests that plugins make: authorisation services, identity providers, log receivers.
//!
//! Connections are kept per thread, so a worker never takes a lock. The driver of a connection is spawned on the
//! runtime that opened it; both the workers' and the control runtime work. Redirects are not followed.

mod connect;
mod endpoint;
mod heard;

pub use connect::{TlsWanted, Transport, connect, tls_config};
pub use endpoint::Endpoint;

use std::{
    cell::RefCell,
    net::SocketAddr,
    time::{Duration, Instant},
};

use ahash::AHashMap;
use bytes::Bytes;
use heard::Heard;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::HeaderValue;
use hyper_util::rt::TokioIo;
use tidegate_plugin_api::{
    answers::Answer,
    hops::{self, Ticket, Way},
};

pub use hyper::{HeaderMap, Method};

use crate::paced::{Credit, Grant, Paced};

/// How requests of one configuration are made. Made once, in `build`.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// For connecting, and again for the answer.
    pub timeout: Duration,
    pub tls: TlsWanted,
    pub keepalive: bool,
    /// Idle connections older than this are not used again.
    pub keepalive_timeout: Duration,
    /// Idle connections kept per thread and server.
    pub keepalive_pool: usize,
    pub body: Body,
}

/// What is kept of the body of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// All of it; a longer one is an error.
    Whole(usize),
    /// Its first bytes; the rest is read and dropped.
    Start(usize),
}

/// Of an answer that decides something: a longer one is an error.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Of an answer that nobody reads: a longer one is broken off.
const MAX_DROPPED_BYTES: usize = 16 << 20;

impl Body {
    /// For those who only tell of a failure: what a message has room for.
    pub const SAID: Body = Body::Start(16 << 10);
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            timeout: Duration::from_secs(3),
            tls: TlsWanted::default(),
            keepalive: true,
            keepalive_timeout: Duration::from_secs(60),
            keepalive_pool: 5,
            body: Body::Whole(MAX_ANSWER_BYTES),
        }
    }
}

/// A request about to be sent. `Host`, `Content-Length` and `User-Agent` are added when they are missing.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub method: Method,
    pub endpoint: Endpoint,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Bytes,
}

impl Outgoing {
    pub fn get(endpoint: Endpoint) -> Outgoing {
        Outgoing { method: Method::GET, endpoint, headers: Vec::new(), body: Bytes::new() }
    }

    pub fn post(endpoint: Endpoint, content_type: &str, body: impl Into<Bytes>) -> Outgoing {
        let headers = vec![("Content-Type".to_owned(), content_type.as_bytes().to_vec())];
        Outgoing { method: Method::POST, endpoint, headers, body: body.into() }
    }

    pub fn header(mut self, name: &str, value: impl Into<Vec<u8>>) -> Outgoing {
        self.headers.push((name.to_owned(), value.into()));
        self
    }
}

#[derive(Clone, Debug)]
pub struct Incoming {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Incoming {
    pub fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.get(name).map(|value| value.as_bytes())
    }
}

struct Connection {
    requests: SendRequest<Full<Bytes>>,
    /// Where it leads, and from where.
    peer: SocketAddr,
    local: SocketAddr,
    /// What the server may send: bounded until its answer has begun.
    credit: Credit,
}

thread_local! {
    static IDLE: RefCell<AHashMap<String, Vec<(Connection, Instant)>>> = RefCell::default();
}

/// Of the head of an answer, and of what is read at once.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// What may come before the head of an answer is whole: interim answers (100, 103) and itself.
const MAX_BEFORE_ANSWER_BYTES: usize = 256 << 10;

/// Servers with idle connections per thread; past that all are dropped.
const MAX_POOLS: usize = 256;

/// How far it came without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// There was no connection.
    Connection,
    /// The server did not answer in time.
    Answer,
    /// The server ended the connection, or its answer is not HTTP: that may be the request's doing.
    End,
}

/// Why there is no answer.
#[derive(Debug)]
pub struct Failure {
    pub missed: Missed,
    pub reason: String,
}

impl Failure {
    fn late() -> Failure {
        Failure { missed: Missed::Answer, reason: "timeout".to_owned() }
    }

    fn ended(reason: String) -> Failure {
        Failure { missed: Missed::End, reason }
    }
}

/// Sends the request and reads the whole answer.
pub async fn send(request: Outgoing, options: &ClientOptions) -> Result<Incoming, String> {
    exchange(request, options).await.map_err(|failure| failure.reason)
}

/// As [`send`], for those who have to know whether the server was there.
pub async fn exchange(request: Outgoing, options: &ClientOptions) -> Result<Incoming, Failure> {
    let pool = pool_name(&request.endpoint, &options.tls);
    while let Some(mut connection) = take(&pool, options.keepalive_timeout) {
        if connection.requests.ready().await.is_err() {
            continue;
        }
        let Some((message, _ticket)) = build(&request, &connection).map_err(Failure::ended)? else {
            return Ok(refused_as_loop());
        };
        connection.credit.set(MAX_BEFORE_ANSWER_BYTES);
        let Ok(answered) = within(options, connection.requests.try_send_request(message)).await else {
            // The others that lie idle may be as silent, and each would cost a request.
            IDLE.with_borrow_mut(|pools| pools.remove(&pool));
            return Err(Failure::late());
        };
        match answered {
            Ok(response) => return finish(response, connection, &pool, options).await,
            Err(mut error) => match error.take_message() {
                // Closed while it lay idle, before it saw the request: another one may take it.
                Some(_) => {}
                // The server was closing it as the request was on its way (RFC 9112 section 9.3.1): once more, on a
                // connection of its own. What plugins send are questions, or entries of logs that may come twice, so the
                // method says nothing about a second time (RFC 9110 section 9.2.2).
                None if connection.credit.is_unspent(MAX_BEFORE_ANSWER_BYTES) => break,
                None => return Err(Failure::ended(describe(&error.into_error()))),
            },
        }
    }
    let opened = open(&request.endpoint, options).await;
    let mut connection = opened.map_err(|reason| Failure { missed: Missed::Connection, reason })?;
    let Some((message, _ticket)) = build(&request, &connection).map_err(Failure::ended)? else {
        return Ok(refused_as_loop());
    };
    connection.credit.set(MAX_BEFORE_ANSWER_BYTES);
    match within(options, connection.requests.send_request(message)).await {
        Ok(Ok(response)) => finish(response, connection, &pool, options).await,
        Ok(Err(error)) => Err(Failure::ended(describe(&error))),
        Err(_) => Err(Failure::late()),
    }
}

async fn within<T>(options: &ClientOptions, future: impl Future<Output = T>) -> Result<T, String> {
    tokio::time::timeout(options.timeout, future).await.map_err(|_| "timeout".to_owned())
}

async fn open(endpoint: &Endpoint, options: &ClientOptions) -> Result<Connection, String> {
    let transport = within(options, connect(endpoint, &options.tls)).await??;
    let (peer, local) = transport.addresses().map_err(|error| error.to_string())?;
    let credit = Credit::new(usize::MAX, Grant::default());
    macro_rules! handshake {
        ($stream:expr) => {{
            let handshake = http1::Builder::new()
                .title_case_headers(true)
                .max_buf_size(MAX_HEAD_BYTES)
                .handshake(TokioIo::new(Heard::new(Paced::new($stream, credit.clone()))));
            let (requests, driver) = handshake.await.map_err(|error| describe(&error))?;
            // Ends by itself when the connection is closed or dropped from the pool.
            tokio::spawn(driver);
            Ok(Connection { requests, peer, local, credit })
        }};
    }
    match transport {
        Transport::Plain(stream) => handshake!(stream),
        Transport::Tls(stream) => handshake!(*stream),
    }
}

async fn finish(
    response: hyper::Response<hyper::body::Incoming>,
    connection: Connection,
    pool: &str,
    options: &ClientOptions,
) -> Result<Incoming, Failure> {
    // The body has bounds of its own.
    connection.credit.set(usize::MAX);
    let (head, body) = response.into_parts();
    let gathered = within(options, gather(body, pool, options.body)).await.map_err(|_| Failure::late())?;
    let body = gathered.map_err(|reason| Failure::ended(format!("response body: {reason}")))?;
    if options.keepalive && options.keepalive_pool > 0 && !connection.requests.is_closed() {
        keep(pool, connection, options.keepalive_pool);
    }
    Ok(Incoming { status: head.status.as_u16(), headers: head.headers, body })
}

type Built = (hyper::Request<Full<Bytes>>, Option<Ticket>);

/// Of a request that would go round: as the gateway would answer it.
fn refused_as_loop() -> Incoming {
    Incoming { status: 508, headers: HeaderMap::new(), body: Bytes::new() }
}

/// `pool`: whose answer it is.
pub async fn gather(mut body: hyper::body::Incoming, pool: &str, kept: Body) -> Result<Bytes, String> {
    let (Body::Whole(limit) | Body::Start(limit)) = kept;
    let mut answer = Answer::new(pool, limit);
    let mut come = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| describe(&error))?;
        let Some(piece) = frame.data_ref() else { continue };
        come += piece.len();
        match kept {
            Body::Whole(_) => answer.push(piece).map_err(|refused| refused.to_string())?,
            // The connection ends with the rest of the body.
            Body::Start(_) if come > MAX_DROPPED_BYTES => break,
            Body::Start(_) => answer.push_start(piece),
        }
    }
    Ok(answer.into_bytes())
}

/// For this connection: one that leads back here is marked, or has no request.
fn build(request: &Outgoing, connection: &Connection) -> Result<Option<Built>, String> {
    let is_loop = |name: &str| name.eq_ignore_ascii_case("cdn-loop");
    let there = request.headers.iter().filter(|(name, _)| is_loop(name)).map(|(_, value)| value.as_slice());
    let marked = match hops::way(connection.peer, connection.local, there) {
        Way::Free => None,
        Way::Marked(marked) => Some(marked),
        Way::Round => return Ok(None),
    };
    let has = |name: &str| request.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
    let mut builder = hyper::Request::builder().method(&request.method).uri(&request.endpoint.target);
    if !has("host") {
        builder = builder.header("Host", request.endpoint.host_header());
    }
    if !has("user-agent") {
        builder = builder.header("User-Agent", concat!("tidegate/", env!("CARGO_PKG_VERSION")));
    }
    // An empty body of these methods must say so; of others it need not.
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

fn pool_name(endpoint: &Endpoint, tls: &TlsWanted) -> String {
    let identity = tls.client.as_ref().map_or("", |(chain, _)| chain);
    let Endpoint { host, port, .. } = endpoint;
    match endpoint.tls {
        false => format!("{host} {port}"),
        true => format!("{host} {port} {} {identity}", tls.verify),
    }
}

fn take(pool: &str, keepalive_timeout: Duration) -> Option<Connection> {
    IDLE.with_borrow_mut(|pools| {
        let idle = pools.get_mut(pool)?;
        while let Some((connection, since)) = idle.pop() {
            if !connection.requests.is_closed() && since.elapsed() < keepalive_timeout {
                return Some(connection);
            }
        }
        None
    })
}

fn keep(pool: &str, connection: Connection, limit: usize) {
    IDLE.with_borrow_mut(|pools| {
        if pools.len() >= MAX_POOLS && !pools.contains_key(pool) {
            pools.clear();
        }
        let idle = pools.entry(pool.to_owned()).or_default();
        if idle.len() < limit {
            idle.push((connection, Instant::now()));
        }
    });
}

/// hyper's text names the layer; the cause is what an operator needs.
fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
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
        assert_eq!(send(Outgoing::get(endpoint), &options).await.unwrap_err(), "timeout");
    }
}
