//! The other end of a connection of the worker: a client, or a node.

use std::{future::Future, time::Duration};

use tidegate_protocol::{
    BodyLength, Head, Method, RequestHead, RequestLimits, ResponseHead,
    chunked::{ChunkedDecoder, Event},
    framing,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::stage::run_until_idle;

/// Real time, for what never comes.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(result) => result,
        Err(_) => panic!("{what} did not come"),
    }
}

pub(super) struct Peer<S> {
    stream: S,
    received: Vec<u8>,
}

/// A whole message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Message {
    /// The start line and the fields.
    pub head: String,
    pub body: String,
    pub trailers: Vec<String>,
}

impl Message {
    pub(super) fn starts_with(&self, start: &str) -> bool {
        self.head.starts_with(start)
    }

    pub(super) fn has(&self, line: &str) -> bool {
        self.head.split("\r\n").any(|found| found.eq_ignore_ascii_case(line))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Peer<S> {
    pub(super) fn new(stream: S) -> Peer<S> {
        Peer { stream, received: Vec::new() }
    }

    /// Sends, and waits until all have noticed.
    pub(super) async fn send(&mut self, text: impl AsRef<[u8]>) {
        within("room to send", self.stream.write_all(text.as_ref())).await.expect("sent");
        run_until_idle().await;
    }

    /// As much as the other side takes now; the number of bytes.
    pub(super) async fn send_what_fits(&mut self, data: &[u8]) -> usize {
        let mut sent = 0;
        while sent < data.len() {
            let writing = self.stream.write(&data[sent..]);
            let count = tokio::select! {
                biased;
                count = writing => count.expect("sent"),
                () = run_until_idle() => break,
            };
            sent += count;
        }
        sent
    }

    /// Ends the sending side.
    pub(super) async fn end(&mut self) {
        self.stream.shutdown().await.expect("ended");
        run_until_idle().await;
    }

    async fn more(&mut self) -> usize {
        let mut piece = [0; 4096];
        let count = within("a byte", self.stream.read(&mut piece)).await.unwrap_or(0);
        self.received.extend_from_slice(&piece[..count]);
        count
    }

    /// The next bytes, as many as the text has, which they have to be.
    pub(super) async fn expect(&mut self, text: &str) {
        while self.received.len() < text.len() && self.more().await > 0 {}
        let length = text.len().min(self.received.len());
        let came: Vec<u8> = self.received.drain(..length).collect();
        assert_eq!(String::from_utf8_lossy(&came), text);
    }

    /// What comes until the other side ends the connection.
    pub(super) async fn rest(&mut self) -> String {
        while self.more().await > 0 {}
        String::from_utf8_lossy(&std::mem::take(&mut self.received)).into_owned()
    }

    /// Whether nothing comes, and the connection stays open.
    pub(super) async fn hears_nothing(&mut self) -> bool {
        let mut byte = [0];
        let silent = tokio::select! {
            biased;
            count = self.stream.read(&mut byte) => {
                self.received.extend_from_slice(&byte[..count.unwrap_or(0)]);
                false
            }
            () = run_until_idle() => true,
        };
        silent && self.received.is_empty()
    }

    /// The next request.
    pub(super) async fn request(&mut self) -> Message {
        let mut head = RequestHead::default();
        let mut tried = 0;
        let used = loop {
            let parsed = head.parse(&self.received, &mut tried, &RequestLimits::default());
            match parsed.expect("a request") {
                Some(used) => break used,
                None => assert!(self.more().await > 0, "no request came: {:?}", self.received),
            }
        };
        let length = framing::request_body(&head).expect("a length");
        self.message(used, length).await
    }

    /// The head of the next request alone.
    pub(super) async fn request_head(&mut self) -> String {
        while !self.received.windows(4).any(|four| four == b"\r\n\r\n") {
            assert!(self.more().await > 0, "no request came");
        }
        let end = self.received.windows(4).position(|four| four == b"\r\n\r\n").map_or(0, |at| at + 4);
        String::from_utf8_lossy(&self.received.drain(..end).collect::<Vec<u8>>()).into_owned()
    }

    /// The next answer, to a request of this method.
    pub(super) async fn answer_to(&mut self, method: Method) -> Message {
        let mut head = ResponseHead::default();
        let used = loop {
            match head.parse(&self.received, 64 * 1024, 200).expect("an answer") {
                Some(used) => break used,
                None => assert!(self.more().await > 0, "no answer came: {:?}", self.received),
            }
        };
        let length = framing::response_body(&head, &method).expect("a length");
        self.message(used, length).await
    }

    pub(super) async fn answer(&mut self) -> Message {
        self.answer_to(Method::Get).await
    }

    async fn message(&mut self, head_bytes: usize, length: BodyLength) -> Message {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        let head = text(self.received.drain(..head_bytes).collect());
        let mut trailers = Head::new();
        let body = match length {
            BodyLength::Fixed(length) => {
                let length = usize::try_from(length).expect("a short body");
                while self.received.len() < length {
                    assert!(self.more().await > 0, "the body of {head} is cut");
                }
                text(self.received.drain(..length).collect())
            }
            BodyLength::UntilClose => self.rest().await,
            BodyLength::Chunked => text(self.chunks(&mut trailers).await),
        };
        let trailers = trailers.iter().map(|(name, value)| {
            format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
        });
        Message { head, body, trailers: trailers.collect() }
    }

    async fn chunks(&mut self, trailers: &mut Head) -> Vec<u8> {
        let mut decoder = ChunkedDecoder::default();
        let mut body = Vec::new();
        loop {
            match decoder.next(&self.received, trailers).expect("chunks") {
                Event::NeedMore { skip } => {
                    drop(self.received.drain(..skip));
                    assert!(self.more().await > 0, "a chunked body is cut");
                }
                Event::Data { skip, length } => {
                    drop(self.received.drain(..skip));
                    body.extend(self.received.drain(..length));
                }
                Event::End { skip } => {
                    drop(self.received.drain(..skip));
                    return body;
                }
            }
        }
    }
}
