//! HTTP/1.0 and 1.1: one request after the other.

use std::io;

use tidegate_protocol::{
    BodyLength, Head, Method, ParseError, RequestHead, RequestLimits, Version,
    chunked::{ChunkedDecoder, Event, write_chunk, write_end},
    framing, status,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::{
    answer::{Body, EchoResponse, event},
    capture::{Capture, Shown},
    options::Options,
    patience::in_time,
    websocket,
};

const PIECE: usize = 16 * 1024;
/// A handshake of TLS begins with this byte (RFC 8446 section 5.1).
pub(crate) const HANDSHAKE: u8 = 22;

/// Serves a connection, of which `received` has been read already, until it ends.
pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    stream: S,
    received: Vec<u8>,
    options: &Options,
) -> io::Result<()> {
    let mut connection = Connection { stream, received };
    loop {
        let (head, raw) = match connection.head().await? {
            Some(Ok(head)) => head,
            Some(Err(error)) => return connection.refuse(error).await,
            None => return Ok(()),
        };
        if let Some(key) = websocket::key(&head) {
            connection.write(websocket::accepted(key).as_bytes()).await?;
            return websocket::echo(connection.stream, connection.received).await;
        }
        let answer = EchoResponse::of(head.raw_path(), head.headers.get("accept"), options);
        let request = match connection.body(&head, raw).await? {
            Ok(request) => request,
            Err(error) => return connection.refuse(error).await,
        };
        answer.wait().await;
        if !connection.answer(&head, &answer, request, options).await? {
            return in_time(connection.stream.shutdown()).await;
        }
    }
}

struct Connection<S> {
    stream: S,
    /// What was read and not used.
    received: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Whether something came.
    async fn more(&mut self) -> io::Result<bool> {
        self.received.reserve(PIECE);
        let mut stream = (&mut self.stream).take(PIECE as u64);
        Ok(in_time(stream.read_buf(&mut self.received)).await? > 0)
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        in_time(self.stream.write_all(bytes)).await
    }

    /// The next head, and its text. `None`: the client has left.
    async fn head(&mut self) -> io::Result<Option<Result<(RequestHead, Vec<u8>), ParseError>>> {
        let limits = RequestLimits::default();
        let (mut head, mut tried) = (RequestHead::default(), 0);
        loop {
            match head.parse(&self.received, &mut tried, &limits) {
                Ok(Some(used)) => {
                    if let Err(error) = head.host() {
                        return Ok(Some(Err(error)));
                    }
                    let mut raw: Vec<u8> = self.received.drain(..used).collect();
                    raw.retain(|byte| *byte != b'\r');
                    return Ok(Some(Ok((head, raw))));
                }
                Ok(None) if self.more().await? => {}
                Ok(None) => return Ok(None),
                Err(error) => return Ok(Some(Err(error))),
            }
        }
    }

    /// Reads the body to its end.
    async fn body(&mut self, head: &RequestHead, raw: Vec<u8>) -> io::Result<Result<Shown, ParseError>> {
        let length = match framing::request_body(head) {
            Ok(length) => length,
            Err(error) => return Ok(Err(error)),
        };
        let mut capture = Capture::new(raw);
        let waits =
            head.headers.get("expect").is_some_and(|value| value.eq_ignore_ascii_case(b"100-continue"));
        if waits && !length.is_empty() && head.version == Version::Http11 {
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        match length {
            BodyLength::Fixed(length) => self.fixed(length, &mut capture).await?,
            BodyLength::Chunked => {
                if let Err(error) = self.chunked(&mut capture).await? {
                    return Ok(Err(error));
                }
            }
            BodyLength::UntilClose => {}
        }
        Ok(Ok(capture.finish()))
    }

    async fn fixed(&mut self, mut left: u64, capture: &mut Capture) -> io::Result<()> {
        while left > 0 {
            if self.received.is_empty() && !self.more().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(self.received.len());
            capture.body(self.received.get(..length).unwrap_or_default());
            self.received.drain(..length);
            left -= length as u64;
        }
        Ok(())
    }

    async fn chunked(&mut self, capture: &mut Capture) -> io::Result<Result<(), ParseError>> {
        let (mut decoder, mut trailers) = (ChunkedDecoder::default(), Head::new());
        loop {
            match decoder.next(&self.received, &mut trailers) {
                Err(error) => return Ok(Err(error)),
                Ok(Event::End { skip }) => {
                    self.received.drain(..skip);
                    return Ok(Ok(()));
                }
                Ok(Event::Data { skip, length }) => {
                    capture.body(self.received.get(skip..skip + length).unwrap_or_default());
                    self.received.drain(..skip + length);
                }
                Ok(Event::NeedMore { skip }) => {
                    self.received.drain(..skip);
                    if !self.more().await? {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
            }
        }
    }

    async fn refuse(&mut self, error: ParseError) -> io::Result<()> {
        let text = match self.received.first() {
            Some(&HANDSHAKE) => "This port speaks HTTP without TLS: use http:// for it.",
            _ => error.reason,
        };
        self.write(&refusal(error.status, text)).await?;
        in_time(self.stream.shutdown()).await
    }

    /// Whether the connection may go on.
    async fn answer(
        &mut self,
        request: &RequestHead,
        answer: &EchoResponse,
        text: Shown,
        options: &Options,
    ) -> io::Result<bool> {
        let is_old = request.version == Version::Http10;
        let is_endless = answer.body == Body::Events && answer.has_body();
        let persists = request.connection.persists(request.version) && !(is_old && is_endless);
        let mut out = format!("HTTP/1.1 {} {}\r\n", answer.status, status::reason(answer.status));
        if answer.has_body() {
            out += &format!("Content-Type: {}\r\n", answer.content_type());
        }
        match answer.body {
            _ if !answer.has_body() => {}
            Body::Request => out += &format!("Content-Length: {}\r\n", text.len()),
            Body::Letters(count) => out += &format!("Content-Length: {count}\r\n"),
            Body::Hint(hint) => out += &format!("Content-Length: {}\r\n", hint.len()),
            Body::Events if !is_old => out += "Transfer-Encoding: chunked\r\nCache-Control: no-store\r\n",
            Body::Events => {}
        }
        out += match (persists, is_old) {
            (false, _) => "Connection: close\r\n\r\n",
            (true, true) => "Connection: keep-alive\r\n\r\n",
            (true, false) => "\r\n",
        };
        let mut out = out.into_bytes();
        if answer.has_body() && request.method != Method::Head {
            match answer.body {
                Body::Request if text.len() <= PIECE => out.extend_from_slice(text.as_ref()),
                Body::Hint(hint) => out.extend_from_slice(hint.as_bytes()),
                Body::Request => {
                    self.write(&out).await?;
                    return self.write(text.as_ref()).await.map(|()| persists);
                }
                Body::Letters(count) => {
                    self.write(&out).await?;
                    return self.letters(count).await.map(|()| persists);
                }
                Body::Events => {
                    self.write(&out).await?;
                    return self.events(!is_old, options).await.map(|()| persists);
                }
            }
        }
        self.write(&out).await.map(|()| persists)
    }

    async fn letters(&mut self, mut left: u64) -> io::Result<()> {
        let piece = [b'x'; PIECE];
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
            self.write(piece.get(..length).unwrap_or_default()).await?;
            left -= length as u64;
        }
        Ok(())
    }

    async fn events(&mut self, is_chunked: bool, options: &Options) -> io::Result<()> {
        for number in 1..=options.events {
            if number > 1 {
                tokio::time::sleep(options.event_interval).await;
            }
            let text = event(number, options);
            let mut out = Vec::new();
            match is_chunked {
                true => write_chunk(&mut out, text.as_bytes()),
                false => out.extend_from_slice(text.as_bytes()),
            }
            self.write(&out).await?;
        }
        let mut end = Vec::new();
        if is_chunked {
            write_end(&mut end, &Head::new());
        }
        self.write(&end).await
    }
}

/// A whole answer to what is not a request.
pub(crate) fn refusal(number: u16, text: &str) -> Vec<u8> {
    let (reason, length) = (status::reason(number), text.len() + 1);
    let fields = format!("Content-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n");
    format!("HTTP/1.1 {number} {reason}\r\n{fields}\r\n{text}\n").into_bytes()
}
