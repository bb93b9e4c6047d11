//! One HTTP/1 connection to a service: opening it, and reading the body of an answer.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tidegate_model::endpoint::Endpoint;
use tidegate_plugin_api::answers::BoundedBody;

use super::{
    connect::{TlsWanted, Transport, connect_through},
    heard::Heard,
    proxies::Proxy,
};
use crate::paced::{Credit, Grant, Paced};

/// The size limit of an answer's head, and of one read.
const MAX_HEAD_BYTES: usize = 64 << 10;

/// The most bytes until the head of an answer is complete: interim answers (100, 103) and the head itself.
const MAX_BEFORE_ANSWER_BYTES: usize = 256 << 10;

/// How much of an unwanted body is read: a longer one is broken off.
const MAX_DROPPED_BYTES: usize = 16 << 20;

/// How much of the body of an answer is kept.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// All of it; a longer one is an error.
    Whole(usize),
    /// Its first bytes; the rest is read and dropped.
    Start(usize),
}

impl Body {
    /// For callers that only report a failure: as much as a message has room for.
    pub const SAID: Body = Body::Start(16 << 10);
}

pub(super) struct Connection {
    pub requests: SendRequest<Full<Bytes>>,
    /// Its two ends.
    pub peer: SocketAddr,
    pub local: SocketAddr,
    /// How much the server may send: bounded until its answer has begun.
    credit: Credit,
}

impl Connection {
    /// The caller sets the time limit. The driver runs until the connection is closed or dropped.
    pub(super) async fn open(
        endpoint: &Endpoint,
        tls: &TlsWanted,
        proxy: Option<&Proxy>,
    ) -> Result<Connection, String> {
        let transport = connect_through(proxy, endpoint, tls).await?;
        let (peer, local) = transport.addresses().map_err(|error| error.to_string())?;
        let credit = Credit::new(usize::MAX, Grant::default());
        macro_rules! handshake {
            ($stream:expr) => {{
                let handshake = http1::Builder::new()
                    .title_case_headers(true)
                    .max_buf_size(MAX_HEAD_BYTES)
                    .handshake(TokioIo::new(Heard::new(Paced::new($stream, credit.clone()))));
                let (requests, driver) = handshake.await.map_err(|error| describe(&error))?;
                tokio::spawn(driver);
                Ok(Connection { requests, peer, local, credit })
            }};
        }
        match transport {
            Transport::Plain(stream) => handshake!(stream),
            Transport::Tls(stream) => handshake!(*stream),
        }
    }

    /// Whether the server can be written to; `false` once it has closed.
    pub(super) async fn is_ready(&mut self) -> bool {
        self.requests.ready().await.is_ok()
    }

    /// To be called before each request: from now on the server may send no more than an answer's head takes.
    pub(crate) fn expect_head(&self) {
        self.credit.set(MAX_BEFORE_ANSWER_BYTES);
    }

    /// Whether the server has sent nothing since [`Connection::expect_head`].
    pub(super) fn is_silent(&self) -> bool {
        self.credit.is_unspent(MAX_BEFORE_ANSWER_BYTES)
    }

    /// The body has its own bounds.
    pub(crate) fn expect_body(&self) {
        self.credit.set(usize::MAX);
    }
}

/// Reads the body of an answer. `service`: whose answer it is; `client`: who gets it.
pub(super) async fn gather(
    mut body: hyper::body::Incoming,
    service: &str,
    client: Option<IpAddr>,
    kept: Body,
) -> Result<Bytes, String> {
    let (Body::Whole(limit) | Body::Start(limit)) = kept;
    let mut answer = BoundedBody::new(service, client, limit);
    if let Some(length) = hyper::body::Body::size_hint(&body).exact() {
        answer.expect(length);
    }
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

/// hyper's message names the layer; an operator needs the cause.
pub(super) fn describe(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
