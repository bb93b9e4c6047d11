//! Reads answers from the bytes of a connection, over the codec of `protocol`.
//!
//! A server that is measured sends the same head again and again, apart from `Date` once a second. The last head is
//! remembered with what it meant; when the next answer begins with the very same bytes it is not parsed again.

use tidegate_protocol::{
    BodyLength, Head, Method, ParseError, ResponseHead,
    chunked::{ChunkedDecoder, Event},
    connection::ConnectionOptions,
    framing,
};

const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_FIELDS: usize = 256;

/// What the thread needs to read heads; shared by its connections.
#[derive(Debug, Default)]
pub(crate) struct HeadParser {
    head: ResponseHead,
    trailers: Head,
    last: Vec<u8>,
    meaning: Meaning,
}

#[derive(Clone, Copy, Debug)]
struct Meaning {
    status: u16,
    body: BodyLength,
    close: bool,
    to_head: bool,
}

impl Default for Meaning {
    fn default() -> Meaning {
        Meaning { status: 0, body: BodyLength::EMPTY, close: false, to_head: false }
    }
}

impl HeadParser {
    /// The head at the start of `input` and its length.
    fn read(&mut self, input: &[u8], to_head: bool) -> Result<Option<(Meaning, usize)>, ParseError> {
        if !self.last.is_empty() && self.meaning.to_head == to_head && input.starts_with(&self.last) {
            return Ok(Some((self.meaning, self.last.len())));
        }
        let Some(used) = self.head.parse(input, MAX_HEAD_BYTES, MAX_FIELDS)? else { return Ok(None) };
        let method = if to_head { Method::Head } else { Method::Get };
        let body = framing::response_body(&self.head, &method)?;
        let persists = ConnectionOptions::of(&self.head.headers).persists(self.head.version);
        let close = !persists || body == BodyLength::UntilClose;
        self.meaning = Meaning { status: self.head.status, body, close, to_head };
        self.last.clear();
        self.last.extend_from_slice(input.get(..used).unwrap_or_default());
        Ok(Some((self.meaning, used)))
    }
}

impl HeadParser {
    /// What the server calls itself.
    pub(super) fn server(&self) -> String {
        self.head.headers.get_str("server").unwrap_or_default().to_owned()
    }
}

/// A whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParsedResponse {
    pub status: u16,
    /// The server closes the connection after it.
    pub close: bool,
    /// Bytes of the body, without framing.
    pub body: u64,
}

/// How far one connection is in its current answer.
#[derive(Debug, Default)]
pub(crate) struct AnswerReader {
    state: State,
    status: u16,
    close: bool,
    body: u64,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Head,
    Body(u64),
    Chunked(ChunkedDecoder),
    UntilClose,
}

impl AnswerReader {
    /// Whether an answer has begun; a connection that ends then has cut it.
    pub(super) fn is_inside(&self) -> bool {
        !matches!(self.state, State::Head)
    }

    /// Bytes until the answer ends: at its beginning as many as the `usual` one has. `None` where only reading shows
    /// it.
    pub(super) fn missing(&self, usual: u64) -> Option<u64> {
        match self.state {
            State::Head => Some(usual),
            State::Body(left) => Some(left),
            State::Chunked(_) | State::UntilClose => None,
        }
    }

    /// Takes bytes from `input`: how many are used up, and the answer when it ended there.
    pub(super) fn next(
        &mut self,
        input: &[u8],
        to_head: bool,
        parser: &mut HeadParser,
    ) -> Result<(usize, Option<ParsedResponse>), ParseError> {
        let mut used = 0;
        loop {
            let rest = input.get(used..).unwrap_or_default();
            match &mut self.state {
                State::Head => {
                    if rest.is_empty() {
                        return Ok((used, None));
                    }
                    let Some((meaning, length)) = parser.read(rest, to_head)? else {
                        return Ok((used, None));
                    };
                    used += length;
                    // Interim answers announce the final one; 101 is final for a client that did not ask for it.
                    if meaning.status < 200 && meaning.status != 101 {
                        continue;
                    }
                    (self.status, self.close, self.body) = (meaning.status, meaning.close, 0);
                    self.state = match meaning.body {
                        BodyLength::Fixed(0) => return Ok((used, Some(self.finish()))),
                        BodyLength::Fixed(length) => {
                            self.body = length;
                            State::Body(length)
                        }
                        BodyLength::Chunked => {
                            parser.trailers.clear();
                            State::Chunked(ChunkedDecoder::default())
                        }
                        BodyLength::UntilClose => State::UntilClose,
                    };
                }
                State::Body(left) => {
                    let taken = (*left).min(rest.len() as u64);
                    *left -= taken;
                    used += taken as usize;
                    if *left > 0 {
                        return Ok((used, None));
                    }
                    return Ok((used, Some(self.finish())));
                }
                State::Chunked(decoder) => match decoder.next(rest, &mut parser.trailers)? {
                    Event::NeedMore { skip } => return Ok((used + skip, None)),
                    Event::Data { skip, length } => {
                        used += skip + length;
                        self.body += length as u64;
                    }
                    Event::End { skip } => return Ok((used + skip, Some(self.finish()))),
                },
                State::UntilClose => {
                    self.body += rest.len() as u64;
                    return Ok((input.len(), None));
                }
            }
        }
    }

    /// The connection ended: the answer, if that was its end.
    pub(super) fn closed(&mut self) -> Option<ParsedResponse> {
        matches!(self.state, State::UntilClose).then(|| self.finish())
    }

    fn finish(&mut self) -> ParsedResponse {
        self.state = State::Head;
        ParsedResponse { status: self.status, close: self.close, body: self.body }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads answers fed `step` bytes at a time, the way a connection does: what is not used stays.
    fn read(text: &str, step: usize, to_head: bool) -> Result<Vec<ParsedResponse>, &'static str> {
        let (mut parser, mut reader) = (HeadParser::default(), AnswerReader::default());
        let (mut kept, mut answers) = (Vec::new(), Vec::new());
        for piece in text.as_bytes().chunks(step) {
            kept.extend_from_slice(piece);
            loop {
                let (used, answer) =
                    reader.next(&kept, to_head, &mut parser).map_err(|error| error.reason)?;
                kept.drain(..used);
                match answer {
                    Some(answer) => answers.push(answer),
                    None => break,
                }
            }
        }
        answers.extend(reader.closed());
        Ok(answers)
    }

    #[test]
    fn answers_at_any_cut() {
        let fixed = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
        let text = format!(
            "{fixed}{fixed}HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 404 Not Found\r\nTransfer-Encoding: \
             chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nHTTP/1.1 204 No Content\r\n\r\nHTTP/1.0 500 x\r\n\r\nuntil close"
        );
        let answer = |status, close, body| ParsedResponse { status, close, body };
        let expected = [
            answer(200, false, 5),
            answer(200, false, 5),
            answer(404, false, 3),
            answer(204, false, 0),
            answer(500, true, 11),
        ];
        for step in 1..=text.len() {
            assert_eq!(read(&text, step, false).as_deref(), Ok(&expected[..]), "step {step}");
        }
    }

    #[test]
    fn heads_only() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n".repeat(2);
        assert_eq!(read(&text, 7, true).map(|answers| answers.len()), Ok(2));
    }

    #[test]
    fn refused() {
        for bad in ["HTTP/9 200\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "hello\r\n\r\n"] {
            assert!(read(bad, 4, false).is_err(), "{bad:?}");
        }
    }
}
