//! A small strict reader of HTTP/1 messages, for client and upstream alike (RFC 9112).
//!
//! It refuses what a careful peer would not send, because the gateway must not send it.

use std::io::{self, Read};

/// A received message.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Message {
    /// Request or status line, without its end.
    pub start_line: String,
    /// As received: order and case kept.
    pub headers: Vec<(String, String)>,
    /// Without chunked coding.
    pub body: Vec<u8>,
    /// Of a chunked body.
    pub trailers: Vec<(String, String)>,
    /// The head's bytes, with the empty line.
    pub head: Vec<u8>,
}

/// Why no message could be read.
#[derive(Debug)]
pub enum ReadError {
    /// The peer closed before the first byte.
    Closed,
    /// The peer closed, or reset, in the middle; holds what had arrived.
    Cut(Box<Message>),
    /// Nothing came within the read timeout.
    Timeout,
    /// The bytes are not HTTP/1; says what is wrong.
    Malformed(String),
    /// Reading failed, or timed out.
    Io(io::Error),
}

/// Short enough for the message of a failed assertion.
impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let body: String = self.body_text().chars().take(200).collect();
        write!(f, "{:?} {:?} body {:?}", self.start_line, self.headers, body)
    }
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for ReadError {}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// No body.
    None,
    /// A body of this length.
    Length(usize),
    /// A chunked body.
    Chunked,
    /// A body up to the end of the connection.
    Close,
}

impl Message {
    /// The status of a response; 0 when the line has none.
    pub fn status(&self) -> u16 {
        self.start_line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default()
    }

    /// The method of a request.
    pub fn method(&self) -> &str {
        self.start_line.split(' ').next().unwrap_or_default()
    }

    /// The target of a request.
    pub fn target(&self) -> &str {
        self.start_line.split(' ').nth(1).unwrap_or_default()
    }

    /// A header's first value, by name in any case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// How often a header occurs.
    pub fn count(&self, name: &str) -> usize {
        self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).count()
    }

    /// The body; bytes that are not UTF-8 are replaced.
    pub fn body_text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn body_end(&self, when_unsaid: BodyEnd) -> Result<BodyEnd, ReadError> {
        let encoding = self.header("transfer-encoding");
        match (encoding, self.header("content-length")) {
            (Some(_), Some(_)) => malformed("both Content-Length and Transfer-Encoding"),
            (Some(value), None) if value.eq_ignore_ascii_case("chunked") => Ok(BodyEnd::Chunked),
            (Some(value), None) => malformed(&format!("Transfer-Encoding {value:?}")),
            (None, Some(_)) if self.count("content-length") > 1 => malformed("several Content-Length"),
            (None, Some(value)) if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                value.parse().map(BodyEnd::Length).or_else(|_| malformed("Content-Length out of range"))
            }
            (None, Some(value)) => malformed(&format!("Content-Length {value:?}")),
            (None, None) => Ok(when_unsaid),
        }
    }
}

/// Reads messages from a stream, keeping what was read beyond one for the next.
#[derive(Debug)]
pub struct Reader<S> {
    /// What is read.
    pub stream: S,
    buffer: Vec<u8>,
}

impl<S: Read> Reader<S> {
    /// Reads from the current position.
    pub fn new(stream: S) -> Self {
        Reader { stream, buffer: Vec::new() }
    }

    /// Bytes that arrived but belong to no message yet.
    pub fn pending(&self) -> &[u8] {
        &self.buffer
    }

    /// Reads a request's or response's head.
    pub fn head(&mut self) -> Result<Message, ReadError> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head: Vec<u8> = self.buffer.drain(..end + 4).collect();
                return parse_head(head);
            }
            if self.fill()? == 0 {
                let partial = Message { head: std::mem::take(&mut self.buffer), ..Message::default() };
                let empty = partial.head.is_empty();
                return Err(if empty { ReadError::Closed } else { ReadError::Cut(Box::new(partial)) });
            }
        }
    }

    /// Reads the body the head announces into the message.
    pub fn body(&mut self, message: &mut Message, when_unsaid: BodyEnd) -> Result<(), ReadError> {
        let result = match message.body_end(when_unsaid)? {
            BodyEnd::None => Ok(()),
            BodyEnd::Length(length) => self.take_into(&mut message.body, length),
            BodyEnd::Chunked => self.chunks(message),
            BodyEnd::Close => loop {
                message.body.append(&mut self.buffer);
                match self.fill() {
                    Ok(0) => break Ok(()),
                    Ok(_) => {}
                    Err(error) => break Err(error),
                }
            },
        };
        match result {
            Err(ReadError::Closed) => Err(ReadError::Cut(Box::new(message.clone()))),
            other => other,
        }
    }

    /// A response to a request with this method; interim (1xx) answers other than 101 are returned as well.
    pub fn response(&mut self, method: &str) -> Result<Message, ReadError> {
        let mut message = self.head()?;
        if !message.start_line.starts_with("HTTP/1.") || message.status() == 0 {
            return malformed(&format!("status line {:?}", message.start_line));
        }
        let status = message.status();
        if method != "HEAD" && status >= 200 && !matches!(status, 204 | 304) {
            self.body(&mut message, BodyEnd::Close)?;
        }
        Ok(message)
    }

    /// Reads until the peer closes; fails when it does not within the read timeout.
    pub fn to_close(&mut self) -> Result<Vec<u8>, ReadError> {
        while self.fill()? > 0 {}
        Ok(std::mem::take(&mut self.buffer))
    }

    /// Reads exactly so many bytes.
    pub fn exactly(&mut self, length: usize) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::new();
        self.take_into(&mut bytes, length)?;
        Ok(bytes)
    }

    fn take_into(&mut self, into: &mut Vec<u8>, length: usize) -> Result<(), ReadError> {
        let mut left = length;
        loop {
            let now = left.min(self.buffer.len());
            into.extend(self.buffer.drain(..now));
            left -= now;
            if left == 0 {
                return Ok(());
            }
            if self.fill()? == 0 {
                return Err(ReadError::Closed);
            }
        }
    }

    fn line(&mut self) -> Result<String, ReadError> {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n") {
                let line: Vec<u8> = self.buffer.drain(..end + 2).take(end).collect();
                return String::from_utf8(line).or_else(|_| malformed("line is not text"));
            }
            if self.fill()? == 0 {
                return Err(ReadError::Closed);
            }
        }
    }

    fn chunks(&mut self, message: &mut Message) -> Result<(), ReadError> {
        loop {
            let line = self.line()?;
            let size = usize::from_str_radix(&line, 16).ok().filter(|_| !line.starts_with('+'));
            let Some(size) = size else { return malformed(&format!("chunk size {line:?}")) };
            if size == 0 {
                break;
            }
            self.take_into(&mut message.body, size)?;
            if !self.line()?.is_empty() {
                return malformed("chunk longer than its size");
            }
        }
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(());
            }
            message.trailers.push(split_field(&line)?);
        }
    }

    fn fill(&mut self) -> Result<usize, ReadError> {
        let mut chunk = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(length) => {
                    self.buffer.extend_from_slice(&chunk[..length]);
                    return Ok(length);
                }
                Err(error) => match error.kind() {
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => return Err(ReadError::Timeout),
                    // A reset ends the stream as surely as a close; only what had arrived matters.
                    io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => return Ok(0),
                    _ => return Err(ReadError::Io(error)),
                },
            }
        }
    }
}

fn parse_head(head: Vec<u8>) -> Result<Message, ReadError> {
    let Ok(text) = std::str::from_utf8(&head) else {
        // Latin-1 fields: each byte becomes the character of that number.
        return parse_text(head.iter().map(|byte| char::from(*byte)).collect(), head);
    };
    parse_text(text.to_owned(), head)
}

fn parse_text(text: String, head: Vec<u8>) -> Result<Message, ReadError> {
    let mut lines = text.split("\r\n");
    let start_line = lines.next().unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        headers.push(split_field(line)?);
    }
    Ok(Message { start_line, headers, head, ..Message::default() })
}

fn split_field(line: &str) -> Result<(String, String), ReadError> {
    let Some((name, value)) = line.split_once(':') else {
        return malformed(&format!("field without colon: {line:?}"));
    };
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(token) {
        return malformed(&format!("field name {name:?}"));
    }
    if value.bytes().any(|byte| byte < 0x20 && byte != b'\t' || byte == 0x7f) {
        return malformed(&format!("control byte in field {name:?}"));
    }
    Ok((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn malformed<T>(what: &str) -> Result<T, ReadError> {
    Err(ReadError::Malformed(what.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_responses_and_refuses_sloppy_ones() {
        let read = |bytes: &str| Reader::new(bytes.as_bytes()).response("GET");
        let message = read(
            "HTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nT: v\r\n\r\n",
        )
        .expect("valid");
        assert_eq!((message.status(), message.body_text().as_str()), (200, "abc"));
        assert_eq!(message.trailers, [("T".to_owned(), "v".to_owned())]);
        assert_eq!(read("HTTP/1.1 200 OK\r\n\r\nto the end").expect("valid").body_text(), "to the end");
        assert_eq!(read("HTTP/1.1 204 No\r\nContent-Length: 5\r\n\r\n").expect("no body").body, b"");
        for sloppy in [
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\na",
            "HTTP/1.1 200 OK\r\nA : b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
            "HELLO\r\n\r\n",
        ] {
            assert!(matches!(read(sloppy), Err(ReadError::Malformed(_))), "{sloppy:?}");
        }
        assert!(matches!(read("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"), Err(ReadError::Cut(_))));
        assert!(matches!(read(""), Err(ReadError::Closed)));
    }
}
