//! A small HTTP/1.1 client of this gateway: requests one after the other on one connection, opened again when the
//! gateway closes it.

use std::{
    io,
    time::{Duration, Instant},
};

use serde_json::{Map, Value, json};
use tidegate_clients::batch::Weigh;
use tidegate_plugin_api::{Request, hops::Ticket};
use tidegate_protocol::{
    BodyLength, Head, Method, ResponseHead, Version,
    chunked::{ChunkedDecoder, Event},
    framing::{self, ConnectionOptions},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::timeout,
};

use tidegate_plugin_api::{aside, memory};

use super::outgoing::Requests;
use crate::common::form;

pub(super) struct Outgoing {
    pub method: String,
    pub target: Vec<u8>,
    pub http10: bool,
    /// Names in lower case.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Vec<u8>,
    /// Kept until the answer has come.
    pub _ticket: Option<Ticket>,
}

const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_FIELDS: usize = 200;
/// The least rate of an answer, beside the batch's `timeout`: what drips would hold the batch for ever.
const LEAST_BYTES_PER_SECOND: u32 = 1024;
/// All bodies of a batch together.
const MAX_BODIES_BYTES: usize = 64 * 1024 * 1024;

pub(super) enum Failed {
    /// No connection at all.
    Connect(String),
    /// The budget for bodies.
    Spent,
}

/// The answers as they are shown to the client, each as text. What they hold is taken from `lease`.
pub(super) async fn run(
    requests: &Requests<'_>,
    outer: &Request,
    limit: Duration,
    lease: &mut memory::Lease,
) -> Result<Vec<Vec<u8>>, Failed> {
    let mut connection = Some(connect(outer, limit).map_err(|error| Failed::Connect(error.to_string()))?);
    let mut held = 0;
    let mut texts = Vec::with_capacity(requests.count());
    let mut room = MAX_BODIES_BYTES;
    for index in 0..requests.count() {
        // Making and answering small ones may never wait.
        tokio::task::yield_now().await;
        let Some(request) = requests.get(index, outer) else {
            texts.push(text_of(&json!({ "status": 431, "reason": tidegate_protocol::status::reason(431) })));
            continue;
        };
        let open = match connection.take() {
            Some(open) => Ok(open),
            None => connect(outer, limit),
        };
        let exchanged = match open {
            Ok(mut open) => open.exchange(&request, room).await.map(|answer| (open, answer)),
            Err(error) => Err(error),
        };
        let Ok((open, answer)) = exchanged else {
            texts.push(text_of(&json!({ "status": 504, "reason": "upstream timeout" })));
            continue;
        };
        room = room.saturating_sub(answer.body.len());
        connection = Some(open).filter(|_| answer.persists);
        let text = answer.into_text(request.method, held, lease).await?;
        // Once as it is, once more in the list of all.
        held += 2 * text.len();
        texts.push(text);
    }
    Ok(texts)
}

fn text_of(answer: &Value) -> Vec<u8> {
    // Into memory: nothing can fail.
    serde_json::to_vec(answer).unwrap_or_default()
}

struct Connection {
    stream: UnixStream,
    limit: Duration,
    received: Vec<u8>,
    /// When the answer under way has to be here; later with each byte of it.
    due: Instant,
}

struct Answer {
    head: ResponseHead,
    body: Vec<u8>,
    persists: bool,
}

fn connect(outer: &Request, limit: Duration) -> io::Result<Connection> {
    Ok(Connection {
        stream: tidegate_plugin_api::inner::connect(outer)?,
        limit,
        received: Vec::new(),
        due: Instant::now(),
    })
}

impl Connection {
    async fn exchange(&mut self, request: &Outgoing, room: usize) -> io::Result<Answer> {
        let bytes = request.to_bytes();
        self.due = Instant::now() + 2 * self.limit;
        timeout(self.limit, self.stream.write_all(&bytes)).await.map_err(|_| io::ErrorKind::TimedOut)??;
        let mut head = ResponseHead::default();
        let mut interim_bytes = 0;
        loop {
            let parsed = head.parse(&self.received, MAX_HEAD_BYTES, MAX_FIELDS);
            match parsed.map_err(|error| io::Error::other(error.reason))? {
                Some(used) => {
                    self.received.drain(..used);
                    // An interim answer (100, 103) goes before the real one.
                    if head.status >= 200 {
                        break;
                    }
                    interim_bytes += used;
                    if interim_bytes > MAX_HEAD_BYTES {
                        return Err(io::Error::other("too many interim answers"));
                    }
                }
                None => self.read().await?,
            }
        }
        let method = Method::of(request.method.as_bytes());
        let length =
            framing::response_body(&head, &method).map_err(|error| io::Error::other(error.reason))?;
        let body = self.body(length, room).await?;
        let persists = ConnectionOptions::of(&head.headers).persists(head.version)
            && !request.http10
            && head.version == Version::Http11
            && length != BodyLength::UntilClose;
        Ok(Answer { head, body, persists })
    }

    /// Reads once; a closed connection is an error.
    async fn read(&mut self) -> io::Result<()> {
        if self.fill().await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    async fn fill(&mut self) -> io::Result<usize> {
        self.received.reserve(16 * 1024);
        let limit = self.limit.min(self.due.saturating_duration_since(Instant::now()));
        let count = timeout(limit, self.stream.read_buf(&mut self.received))
            .await
            .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
        self.due +=
            Duration::from_secs(1) * u32::try_from(count).unwrap_or(u32::MAX) / LEAST_BYTES_PER_SECOND;
        Ok(count)
    }

    async fn body(&mut self, length: BodyLength, room: usize) -> io::Result<Vec<u8>> {
        let too_large = || io::Error::other("responses of the batch are too large");
        match length {
            BodyLength::Fixed(length) => {
                let length = usize::try_from(length).map_err(|_| too_large())?;
                if length > room {
                    return Err(too_large());
                }
                while self.received.len() < length {
                    self.read().await?;
                }
                let rest = self.received.split_off(length);
                Ok(std::mem::replace(&mut self.received, rest))
            }
            BodyLength::UntilClose => {
                while self.fill().await? > 0 {
                    if self.received.len() > room {
                        return Err(too_large());
                    }
                }
                Ok(std::mem::take(&mut self.received))
            }
            BodyLength::Chunked => self.chunked(room).await,
        }
    }

    async fn chunked(&mut self, room: usize) -> io::Result<Vec<u8>> {
        let (mut decoder, mut trailers, mut body) = (ChunkedDecoder::default(), Head::new(), Vec::new());
        loop {
            let event = decoder.next(&self.received, &mut trailers);
            match event.map_err(|error| io::Error::other(error.reason))? {
                Event::NeedMore { skip } => {
                    self.received.drain(..skip);
                    self.read().await?;
                }
                Event::Data { skip, length } => {
                    body.extend_from_slice(self.received.get(skip..skip + length).unwrap_or_default());
                    self.received.drain(..skip + length);
                    if body.len() > room {
                        return Err(io::Error::other("responses of the batch are too large"));
                    }
                }
                Event::End { skip } => {
                    self.received.drain(..skip);
                    return Ok(body);
                }
            }
        }
    }
}

impl Outgoing {
    fn to_bytes(&self) -> Vec<u8> {
        let mut head = Head::new();
        for (name, value) in &self.headers {
            let is_own = matches!(
                name.as_str(),
                "connection"
                    | "keep-alive"
                    | "transfer-encoding"
                    | "te"
                    | "upgrade"
                    | "expect"
                    | "content-length"
            );
            let is_token = !name.is_empty() && name.bytes().all(tidegate_protocol::request::is_token_byte);
            if !is_own && is_token {
                head.add(name, value);
            }
        }
        if !head.contains("host") {
            head.add("host", "127.0.0.1");
        }
        if !self.body.is_empty() {
            head.add("content-length", self.body.len().to_string());
        }
        let mut bytes = self.method.as_bytes().to_vec();
        bytes.push(b' ');
        bytes.extend_from_slice(&self.target);
        bytes.extend_from_slice(if self.http10 { b" HTTP/1.0\r\n" } else { b" HTTP/1.1\r\n" });
        head.write_fields(&mut bytes, |_| true);
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

impl Answer {
    /// Large ones are read and written elsewhere. Beside them `held` bytes are there already.
    async fn into_text(
        self,
        method: String,
        held: usize,
        lease: &mut memory::Lease,
    ) -> Result<Vec<u8>, Failed> {
        let size = self.body.len();
        let read = aside::run_by_size(size, move || {
            let answer = self.into_json(&method);
            let (held, encoded) = (answer.held(), answer.encoded());
            (answer, held, encoded)
        });
        let (answer, tree, encoded) = read.await.map_err(|_| Failed::Spent)?;
        lease.grow_to(held + tree + 2 * encoded).map_err(|memory::Spent| Failed::Spent)?;
        aside::run_by_size(size.max(encoded), move || text_of(&answer)).await.map_err(|_| Failed::Spent)
    }

    fn into_json(self, method: &str) -> Value {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut headers = Map::new();
        for (name, value) in self.head.headers.iter() {
            form::insert(&mut headers, text(name), Value::String(text(value)));
        }
        let reason = match self.head.reason.as_slice() {
            b"" => tidegate_protocol::status::reason(self.head.status).to_owned(),
            reason => text(reason),
        };
        let mut answer = json!({ "status": self.head.status, "reason": reason, "headers": headers });
        let bodiless = method == "HEAD" || matches!(self.head.status, 204 | 304);
        if let Some(answer) = answer.as_object_mut().filter(|_| !bodiless) {
            let body = String::from_utf8(self.body).unwrap_or_else(|error| text(error.as_bytes()));
            answer.insert("body".to_owned(), Value::String(body));
        }
        answer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_on_the_wire() {
        let request = Outgoing {
            method: "POST".to_owned(),
            target: b"/a".to_vec(),
            http10: false,
            headers: vec![
                ("host".to_owned(), b"h".to_vec()),
                ("connection".to_owned(), b"close".to_vec()),
                ("x-a".to_owned(), b"b\r\nc: d".to_vec()),
                ("bad name".to_owned(), b"x".to_vec()),
            ],
            body: b"hi".to_vec(),
            _ticket: None,
        };
        let expected = "POST /a HTTP/1.1\r\nhost: h\r\nx-a: b  c: d\r\ncontent-length: 2\r\n\r\nhi";
        assert_eq!(String::from_utf8(request.to_bytes()).unwrap(), expected);
    }
}
