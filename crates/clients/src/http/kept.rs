//! Requests to one server, one after the other over one kept connection: for registries, which are polled often, send long
//! answers, and are watched by answers without an end.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::{HeaderMap, Method, Request, Response, body::Incoming};
use tidegate_model::endpoint::Endpoint;

use super::{
    connect::TlsWanted,
    connection::{Body, Connection, describe, gather},
};

/// A client of one server.
pub struct KeptClient {
    /// Path and query of the endpoint are the beginning of every target.
    endpoint: Endpoint,
    tls: TlsWanted,
    connect: Duration,
    read: Duration,
    most_bytes: usize,
    headers: Vec<(&'static str, String)>,
    connection: Option<Connection>,
}

/// A whole answer.
pub struct KeptResponse {
    /// The status code.
    pub status: u16,
    /// The fields of its head.
    pub headers: HeaderMap,
    /// Its body, within the client's limit.
    pub body: Bytes,
}

/// The rest of an answer whose body has no end.
pub struct Stream {
    /// The status code.
    pub status: u16,
    body: Incoming,
    /// Bounds how much the server sends; dropped together with the answer.
    _connection: Connection,
}

impl Stream {
    /// The next piece; `None` at the end of the answer.
    pub async fn next(&mut self) -> Result<Option<Bytes>, String> {
        while let Some(frame) = self.body.frame().await {
            if let Ok(piece) = frame.map_err(|error| describe(&error))?.into_data() {
                return Ok(Some(piece));
            }
        }
        Ok(None)
    }
}

impl KeptClient {
    /// `connect` and `read` are limits of time, `most_bytes` that of an answer's body.
    pub fn new(
        endpoint: Endpoint,
        verify: bool,
        [connect, read]: [Duration; 2],
        most_bytes: usize,
    ) -> KeptClient {
        KeptClient {
            endpoint,
            tls: TlsWanted { verify, client: None },
            connect,
            read,
            most_bytes,
            headers: Vec::new(),
            connection: None,
        }
    }

    /// Sets a field of every request; replaces one with the same name.
    pub fn set_header(&mut self, name: &'static str, value: String) {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value));
    }

    /// Asks with GET.
    pub async fn get(&mut self, target: &str) -> Result<KeptResponse, String> {
        self.send(Method::GET, target, self.read).await
    }

    /// As [`KeptClient::get`], for an answer that may take so much longer.
    pub async fn get_slowly(&mut self, target: &str, longer: Duration) -> Result<KeptResponse, String> {
        self.send(Method::GET, target, self.read + longer).await
    }

    /// Asks with POST, without a body.
    pub async fn post(&mut self, target: &str) -> Result<KeptResponse, String> {
        self.send(Method::POST, target, self.read).await
    }

    /// Asks with GET for an answer whose body has no end; the connection ends with it.
    pub async fn stream(&mut self, target: &str) -> Result<Stream, String> {
        let (response, connection) = self.exchange(Method::GET, target, self.read).await?;
        let (head, body) = response.into_parts();
        Ok(Stream { status: head.status.as_u16(), body, _connection: connection })
    }

    /// `HOST:PORT`, for messages.
    pub fn server(&self) -> String {
        format!("{}:{}", self.endpoint.host, self.endpoint.port)
    }

    async fn send(&mut self, method: Method, target: &str, read: Duration) -> Result<KeptResponse, String> {
        let (response, connection) = self.exchange(method, target, read).await?;
        let (head, body) = response.into_parts();
        let server = self.server();
        let body =
            tokio::time::timeout(read, gather(body, &server, None, Body::Whole(self.most_bytes))).await;
        let body = body.map_err(|_| "timeout while reading the answer".to_owned())?;
        let body = body.map_err(|reason| format!("answer: {reason}"))?;
        self.connection = Some(connection);
        Ok(KeptResponse { status: head.status.as_u16(), headers: head.headers, body })
    }

    async fn exchange(
        &mut self,
        method: Method,
        target: &str,
        read: Duration,
    ) -> Result<(Response<Incoming>, Connection), String> {
        // Taken, not borrowed: an abandoned answer must not become the next request's.
        if let Some(mut connection) = self.connection.take()
            && connection.is_ready().await
        {
            connection.expect_head();
            let sent = connection.requests.send_request(self.request(&method, target)?);
            // On failure it may have been closed while idle: a new connection is tried.
            if let Ok(Ok(response)) = tokio::time::timeout(read, sent).await {
                connection.expect_body();
                return Ok((response, connection));
            }
        }
        let opened =
            tokio::time::timeout(self.connect, Connection::open(&self.endpoint, &self.tls, None)).await;
        let mut connection =
            opened.map_err(|_| format!("timeout while connecting to {}", self.server()))??;
        connection.expect_head();
        let sent = connection.requests.send_request(self.request(&method, target)?);
        let response = tokio::time::timeout(read, sent).await;
        let response = response.map_err(|_| format!("timeout while waiting for {}", self.server()))?;
        let response = response.map_err(|error| format!("{}: {}", self.server(), describe(&error)))?;
        connection.expect_body();
        Ok((response, connection))
    }

    fn request(&self, method: &Method, target: &str) -> Result<Request<Full<Bytes>>, String> {
        let base = self.endpoint.target.trim_end_matches('/');
        let mut request = Request::builder().method(method).uri(format!("{base}{target}"));
        request = request.header("Host", self.endpoint.host_header()).header("Accept", "application/json");
        if method == Method::POST {
            request = request.header("Content-Length", 0);
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        request.body(Full::default()).map_err(|error| format!("request: {error}"))
    }
}
