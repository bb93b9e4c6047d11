//! Requests to one server of a registry, over one connection that is kept.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Request, Response, body::Incoming, client::conn::http1::SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tidegate_clients::http::{Body, Endpoint, Method, TlsWanted, Transport, connect, gather};

/// A longer answer is an error. The list of all services of a large installation has some ten megabytes.
const MAX_BODY_BYTES: usize = 256 << 20;

/// Values in it: 50,000 instances with 20 each. `[1,1,…]` takes 36 times its length in memory.
const MAX_VALUES: usize = 1_000_000;

/// What a registry says, if it is not too much.
pub fn document(text: &[u8]) -> Result<Value, String> {
    tidegate_model::json::parse_within(text, MAX_VALUES).map_err(|fault| fault.to_string())
}

pub struct Client {
    /// Path and query of the endpoint are the beginning of every target.
    endpoint: Endpoint,
    tls: TlsWanted,
    connect: Duration,
    read: Duration,
    headers: Vec<(&'static str, String)>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

pub struct Answer {
    pub status: u16,
    pub index: Option<u64>,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Result<Value, String> {
        document(&self.body).map_err(|reason| format!("answer is not read: {reason}"))
    }

    /// The document of an answer with status 200.
    pub fn good(&self) -> Result<Value, String> {
        if self.status != 200 {
            return Err(format!("status {}", self.status));
        }
        self.json()
    }
}

impl Client {
    pub fn new(endpoint: Endpoint, verify: bool, connect_ms: u64, read_ms: u64) -> Client {
        Client {
            endpoint,
            tls: TlsWanted { verify, client: None },
            connect: Duration::from_millis(connect_ms),
            read: Duration::from_millis(read_ms),
            headers: Vec::new(),
            connection: None,
        }
    }

    /// A field of every request; takes the place of one with the same name.
    pub fn set_header(&mut self, name: &'static str, value: String) {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value));
    }

    pub async fn get(&mut self, target: &str) -> Result<Answer, String> {
        self.send(Method::GET, target, self.read).await
    }

    /// As [`Client::get`], for an answer that may take so much longer.
    pub async fn get_slowly(&mut self, target: &str, longer: Duration) -> Result<Answer, String> {
        self.send(Method::GET, target, self.read + longer).await
    }

    pub async fn post(&mut self, target: &str) -> Result<Answer, String> {
        self.send(Method::POST, target, self.read).await
    }

    async fn send(&mut self, method: Method, target: &str, read: Duration) -> Result<Answer, String> {
        let (response, connection) = self.exchange(method, target, read).await?;
        let (head, body) = response.into_parts();
        let index = head.headers.get("x-consul-index").and_then(|value| value.to_str().ok()?.parse().ok());
        let server = self.server();
        let body = tokio::time::timeout(read, gather(body, &server, Body::Whole(MAX_BODY_BYTES))).await;
        let body = body.map_err(|_| "timeout while reading the answer".to_owned())?;
        let body = body.map_err(|reason| format!("answer: {reason}"))?;
        self.connection = Some(connection);
        Ok(Answer { status: head.status.as_u16(), index, body })
    }

    /// The head of an answer whose body has no end; the connection is gone with it.
    pub async fn stream(&mut self, target: &str) -> Result<Response<Incoming>, String> {
        let (response, _) = self.exchange(Method::GET, target, self.read).await?;
        Ok(response)
    }

    async fn exchange(
        &mut self,
        method: Method,
        target: &str,
        read: Duration,
    ) -> Result<(Response<Incoming>, SendRequest<Full<Bytes>>), String> {
        // Taken, not borrowed: an answer that nobody waited for must not be the next request's.
        if let Some(mut connection) = self.connection.take()
            && connection.ready().await.is_ok()
        {
            let sent = connection.send_request(self.request(&method, target)?);
            // Closed while it lay idle, perhaps: a new one tells.
            if let Ok(Ok(response)) = tokio::time::timeout(read, sent).await {
                return Ok((response, connection));
            }
        }
        let opened = tokio::time::timeout(self.connect, self.open()).await;
        let mut connection =
            opened.map_err(|_| format!("timeout while connecting to {}", self.server()))??;
        let sent = connection.send_request(self.request(&method, target)?);
        let response = tokio::time::timeout(read, sent).await;
        let response = response.map_err(|_| format!("timeout while waiting for {}", self.server()))?;
        Ok((response.map_err(|error| format!("{}: {error}", self.server()))?, connection))
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

    async fn open(&self) -> Result<SendRequest<Full<Bytes>>, String> {
        macro_rules! handshake {
            ($stream:expr) => {{
                let (connection, driver) = hyper::client::conn::http1::handshake(TokioIo::new($stream))
                    .await
                    .map_err(|error| error.to_string())?;
                // Ends by itself with the connection.
                tokio::spawn(driver);
                Ok(connection)
            }};
        }
        match connect(&self.endpoint, &self.tls).await? {
            Transport::Plain(stream) => handshake!(stream),
            Transport::Tls(stream) => handshake!(*stream),
        }
    }

    pub fn server(&self) -> String {
        format!("{}:{}", self.endpoint.host, self.endpoint.port)
    }
}

/// `user:password` of a URL that has it, and the URL without.
pub fn split_user(url: &str) -> (Option<&str>, String) {
    let Some((scheme, rest)) = url.split_once("://") else { return (None, url.to_owned()) };
    match rest.rsplit_once('@') {
        Some((user, host)) => (Some(user), format!("{scheme}://{host}")),
        None => (None, url.to_owned()),
    }
}

/// One value of a path or query.
pub fn encoded(text: &str) -> String {
    let mut out = Vec::new();
    tidegate_protocol::uri::encode_component(text.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// Weights come as integers, fractions and texts. A fraction that is not nothing counts as one at least.
pub fn weight(value: Option<&Value>, default: u32) -> u32 {
    let number = match value {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if number > 0.0 => number.round().clamp(1.0, f64::from(u32::MAX)) as u32,
        Some(number) if number <= 0.0 => 0,
        _ => default,
    }
}

pub fn port(value: Option<&Value>) -> Option<u16> {
    match value? {
        Value::Number(number) => u16::try_from(number.as_u64()?).ok(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn weights() {
        for (value, expected) in [
            (json!(3), 3),
            (json!(0.2), 1),
            (json!(1.0), 1),
            (json!("20"), 20),
            (json!(0), 0),
            (json!(-1), 0),
            (json!("x"), 7),
            (json!(null), 7),
            (json!(1e30), u32::MAX),
        ] {
            assert_eq!(weight(Some(&value), 7), expected, "{value}");
        }
    }

    #[test]
    fn users_of_urls() {
        assert_eq!(split_user("http://a:b@c:1"), (Some("a:b"), "http://c:1".to_owned()));
        assert_eq!(split_user("http://c:1"), (None, "http://c:1".to_owned()));
    }
}
