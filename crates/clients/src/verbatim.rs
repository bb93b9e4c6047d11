//! HTTP/1 byte for byte: requests are sent as their maker wrote them, answers keep the order and case of their fields and the
//! reason phrase. For requests to gateways (batch-requests, the command line) and for health checks, which judge only the status
//! line.
//!
//! [`crate::http`] keeps neither, because hyper does not.

use std::{
    io::{self, ErrorKind},
    time::{Duration, Instant},
};

use tidegate_protocol::{
    BodyLength, Head, Method, ResponseHead,
    chunked::{ChunkedDecoder, Event},
    connection::ConnectionOptions,
    framing,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

/// The size limit of an answer's head.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_FIELDS: usize = 200;
/// The least rate of an answer, beside the caller's limits: one that drips would hold the caller forever.
const LEAST_BYTES_PER_SECOND: u32 = 1024;
/// A status line is shorter; a server that sends more without a line feed is not speaking HTTP.
const MAX_STATUS_LINE: usize = 4096;

/// How long an exchange may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For the whole request.
    pub write: Duration,
    /// For each piece of the answer.
    pub wait: Duration,
}

/// How a body is treated that is longer than the caller has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// The exchange fails.
    Refused,
    /// The rest is left unread, and the connection ends.
    Cut,
}

/// An answer as it was received.
#[derive(Debug)]
pub struct VerbatimResponse {
    /// Status line and fields.
    pub head: ResponseHead,
    /// Without the chunked coding.
    pub body: Vec<u8>,
    /// Whether the connection may carry another request.
    pub persists: bool,
}

/// A connection that carries one request after the other.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    limits: Limits,
    received: Vec<u8>,
    /// When the answer under way has to be here; later with each byte of it.
    due: Instant,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    /// Over a stream that is open and has carried nothing.
    pub fn new(stream: S, limits: Limits) -> Connection<S> {
        Connection { stream, limits, received: Vec::new(), due: Instant::now() }
    }

    /// Sends a request, framed by its maker, and reads the whole answer. `room`: for its body.
    pub async fn exchange(
        &mut self,
        method: &str,
        request: &[u8],
        room: usize,
        excess: Excess,
    ) -> io::Result<VerbatimResponse> {
        self.due = Instant::now() + self.limits.write + self.limits.wait;
        let written = timeout(self.limits.write, self.stream.write_all(request)).await;
        // A server that refuses a request by its head takes no more of it: then its answer is more informative than the
        // failed write.
        written
            .map_err(|_| ErrorKind::TimedOut)?
            .or_else(|error| if is_cut(&error) { Ok(()) } else { Err(error) })?;
        let head = self.head().await?;
        let length = framing::response_body(&head, &Method::of(method.as_bytes()))
            .map_err(|error| io::Error::other(error.reason))?;
        let too_long = || Err(io::Error::other("the response is too long"));
        if excess == Excess::Refused && matches!(length, BodyLength::Fixed(length) if length > room as u64) {
            return too_long();
        }
        let mut body = self.body(length, room).await?;
        let is_whole = body.len() <= room;
        if excess == Excess::Refused && !is_whole {
            return too_long();
        }
        body.truncate(room);
        let options = ConnectionOptions::of(&head.headers);
        let persists = is_whole && framing::response_persists(&head, options, length);
        Ok(VerbatimResponse { head, body, persists })
    }

    /// That of the final answer; interim ones (100, 103) go before it.
    async fn head(&mut self) -> io::Result<ResponseHead> {
        let mut head = ResponseHead::default();
        let mut interim_bytes = 0;
        loop {
            let parsed = head.parse(&self.received, MAX_HEAD_BYTES, MAX_FIELDS);
            match parsed.map_err(|error| io::Error::other(error.reason))? {
                Some(used) => {
                    self.received.drain(..used);
                    if head.status >= 200 {
                        return Ok(head);
                    }
                    interim_bytes += used;
                    if interim_bytes > MAX_HEAD_BYTES {
                        return Err(io::Error::other("too many interim answers"));
                    }
                }
                None => self.read().await?,
            }
        }
    }

    /// The body; a result longer than `room` means that there is more.
    async fn body(&mut self, length: BodyLength, room: usize) -> io::Result<Vec<u8>> {
        match length {
            BodyLength::Fixed(length) => {
                let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(room.saturating_add(1));
                while self.received.len() < wanted {
                    self.read().await?;
                }
                let rest = self.received.split_off(wanted);
                Ok(std::mem::replace(&mut self.received, rest))
            }
            BodyLength::UntilClose => {
                while self.received.len() <= room {
                    match self.fill().await {
                        Ok(0) => break,
                        // A reset after the answer is an end as well.
                        Err(error) if is_cut(&error) && !self.received.is_empty() => break,
                        read => _ = read?,
                    }
                }
                Ok(std::mem::take(&mut self.received))
            }
            BodyLength::Chunked => self.chunked(room).await,
        }
    }

    async fn chunked(&mut self, room: usize) -> io::Result<Vec<u8>> {
        let (mut decoder, mut trailers, mut body) = (ChunkedDecoder::default(), Head::new(), Vec::new());
        while body.len() <= room {
            let event = decoder.next(&self.received, &mut trailers);
            match event.map_err(|error| io::Error::other(error.reason))? {
                Event::NeedMore { skip } => {
                    self.received.drain(..skip);
                    self.read().await?;
                }
                Event::Data { skip, length } => {
                    body.extend_from_slice(self.received.get(skip..skip + length).unwrap_or_default());
                    self.received.drain(..skip + length);
                }
                Event::End { skip } => {
                    self.received.drain(..skip);
                    break;
                }
            }
        }
        Ok(body)
    }

    /// Reads once; a closed connection is an error.
    async fn read(&mut self) -> io::Result<()> {
        if self.fill().await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(())
    }

    async fn fill(&mut self) -> io::Result<usize> {
        self.received.reserve(16 * 1024);
        let limit = self.limits.wait.min(self.due.saturating_duration_since(Instant::now()));
        let count = timeout(limit, self.stream.read_buf(&mut self.received))
            .await
            .map_err(|_| io::Error::from(ErrorKind::TimedOut))??;
        self.due +=
            Duration::from_secs(1) * u32::try_from(count).unwrap_or(u32::MAX) / LEAST_BYTES_PER_SECOND;
        Ok(count)
    }
}

fn is_cut(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// The status that a server answers with; the rest of its answer is not read. `None`: its first line is not a status line.
/// The caller sets the time limit.
pub async fn status<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Option<u16>> {
    let mut line = Vec::with_capacity(256);
    loop {
        if let Some(end) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(end);
            break;
        }
        if line.len() >= MAX_STATUS_LINE {
            break;
        }
        if stream.read_buf(&mut line).await? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(parse_status(&line))
}

/// `HTTP/1.1 200 ...`
fn parse_status(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line.get(..line.len().min(64))?.trim_ascii_end()).ok()?;
    let (version, rest) = line.split_once(' ')?;
    version.strip_prefix("HTTP/")?.split_once('.')?;
    let digits: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { write: Duration::from_secs(5), wait: Duration::from_secs(5) };

    /// The answer as a client reads it, and whether the client would reuse the connection.
    async fn answer(text: &[u8], room: usize, excess: Excess) -> Result<(u16, Vec<u8>, bool), ErrorKind> {
        let (near, mut far) = tokio::io::duplex(1 << 16);
        far.write_all(text).await.unwrap();
        far.shutdown().await.unwrap();
        let answer =
            Connection::new(near, LIMITS).exchange("GET", b"GET / HTTP/1.1\r\n\r\n", room, excess).await;
        answer.map(|it| (it.head.status, it.body, it.persists)).map_err(|error| error.kind())
    }

    #[tokio::test]
    async fn answers() {
        let cases: [(&str, Result<(u16, &str, bool), ErrorKind>); 6] = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", Ok((200, "hi", true))),
            ("HTTP/1.1 100 C\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Ok((200, "", true))),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
                Ok((200, "hi", true)),
            ),
            ("HTTP/1.0 200 OK\r\n\r\nhi", Ok((200, "hi", false))),
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", Err(ErrorKind::UnexpectedEof)),
            ("", Err(ErrorKind::UnexpectedEof)),
        ];
        for (text, expected) in cases {
            let got = answer(text.as_bytes(), 10, Excess::Refused).await;
            let expected =
                expected.map(|(status, body, persists)| (status, body.as_bytes().to_vec(), persists));
            assert_eq!(got, expected, "{text}");
        }
    }

    #[tokio::test]
    async fn there_is_no_room_for_more() {
        for framing in [
            "Content-Length: 4\r\n\r\nlong",
            "X: y\r\n\r\nlong",
            "Transfer-Encoding: chunked\r\n\r\n4\r\nlong\r\n0\r\n\r\n",
        ] {
            let text = format!("HTTP/1.1 200 OK\r\n{framing}");
            assert_eq!(answer(text.as_bytes(), 3, Excess::Refused).await, Err(ErrorKind::Other), "{text}");
            assert_eq!(
                answer(text.as_bytes(), 3, Excess::Cut).await,
                Ok((200, b"lon".to_vec(), false)),
                "{text}"
            );
        }
    }

    #[test]
    fn status_lines() {
        for (line, expected) in [
            ("HTTP/1.1 200 OK\r", Some(200)),
            ("HTTP/1.0  503", Some(503)),
            ("HTTP/1.1 x", None),
            ("SSH-2.0-OpenSSH", None),
            ("", None),
            ("HTTP/1.1 99999999 ", None),
        ] {
            assert_eq!(parse_status(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn a_long_reason_may_be_cut_anywhere() {
        let line = format!("HTTP/1.1 200 {}", "reason ".repeat(20));
        assert_eq!(parse_status(line.as_bytes()), Some(200));
    }
}
