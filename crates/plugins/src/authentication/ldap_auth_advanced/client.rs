//! A connection to a directory (RFC 4511): StartTLS, simple binds, and a search for entries by one attribute.

use std::io;

use rustls_pki_types::ServerName;
use tidegate_clients::http::{Endpoint, TlsWanted, Transport, connect, tls_config};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::common::ber::{LONGEST_BYTES, element, read_element};

/// Result codes.
pub(super) const SUCCESS: u32 = 0;
pub(super) const SIZE_LIMIT_EXCEEDED: u32 = 4;
pub(super) const INVALID_CREDENTIALS: u32 = 49;

const BIND: u8 = 0x60;
const BIND_RESPONSE: u8 = 0x61;
const SEARCH: u8 = 0x63;
const SEARCH_ENTRY: u8 = 0x64;
const SEARCH_DONE: u8 = 0x65;
const SEARCH_REFERENCE: u8 = 0x73;
const EXTENDED: u8 = 0x77;
const EXTENDED_RESPONSE: u8 = 0x78;

const START_TLS: &[u8] = b"1.3.6.1.4.1.1466.20037";

pub(super) struct Connection {
    transport: Transport,
    /// Of the last request.
    id: u32,
    received: Vec<u8>,
}

/// For the entries below `base` whose attribute has the value.
pub(super) struct Search<'a> {
    pub(super) base: &'a str,
    pub(super) attribute: &'a str,
    pub(super) value: &'a str,
    pub(super) size_limit: u32,
    pub(super) time_limit: u32,
}

pub(super) struct Found {
    pub(super) code: u32,
    pub(super) dns: Vec<String>,
}

impl Connection {
    /// The caller sets the time limit, here and below.
    pub(super) async fn open(
        endpoint: &Endpoint,
        tls: &TlsWanted,
        start_tls: bool,
    ) -> Result<Connection, String> {
        let transport = connect(endpoint, tls).await?;
        let connection = Connection { transport, id: 0, received: Vec::new() };
        if start_tls { connection.start_tls(endpoint, tls).await } else { Ok(connection) }
    }

    /// Nothing but the answer may come before the handshake: what came in the clear must not count as said under TLS.
    async fn start_tls(mut self, endpoint: &Endpoint, tls: &TlsWanted) -> Result<Connection, String> {
        let mut name = Vec::new();
        element(&mut name, 0x80, START_TLS);
        self.send(EXTENDED, &name).await?;
        let code = result_code(&self.answer(EXTENDED_RESPONSE).await?)?;
        if code != SUCCESS {
            return Err(format!("StartTLS is refused with result code {code}"));
        }
        if !self.received.is_empty() {
            return Err("there is more behind the answer to StartTLS".to_owned());
        }
        let host = ServerName::try_from(endpoint.host.clone()).map_err(|error| error.to_string())?;
        let Transport::Plain(stream) = self.transport else { return Err("TLS within TLS".to_owned()) };
        let stream = tidegate_tls::connect(tls_config(tls)?, host, stream).await;
        let stream = stream.map_err(|error| format!("TLS handshake failed: {error}"))?;
        Ok(Connection { transport: Transport::Tls(Box::new(stream)), ..self })
    }

    /// The result code of a simple bind.
    pub(super) async fn bind(&mut self, dn: &str, password: &str) -> Result<u32, String> {
        let mut bind = vec![0x02, 1, 3];
        element(&mut bind, 0x04, dn.as_bytes());
        element(&mut bind, 0x80, password.as_bytes());
        self.send(BIND, &bind).await?;
        result_code(&self.answer(BIND_RESPONSE).await?)
    }

    /// The value is a part of the message, not of a text: no sign in it means anything else.
    pub(super) async fn search(&mut self, search: &Search<'_>) -> Result<Found, String> {
        let mut filter = Vec::new();
        element(&mut filter, 0x04, search.attribute.as_bytes());
        element(&mut filter, 0x04, search.value.as_bytes());
        let mut attributes = Vec::new();
        // RFC 4511, 4.5.1.8: none of them.
        element(&mut attributes, 0x04, b"1.1");
        let mut body = Vec::new();
        element(&mut body, 0x04, search.base.as_bytes());
        // The whole subtree, aliases always dereferenced.
        body.extend_from_slice(&[0x0a, 1, 2, 0x0a, 1, 3]);
        element(&mut body, 0x02, &integer(search.size_limit));
        element(&mut body, 0x02, &integer(search.time_limit));
        // Types and values; equalityMatch.
        body.extend_from_slice(&[0x01, 1, 0]);
        element(&mut body, 0xa3, &filter);
        element(&mut body, 0x30, &attributes);
        self.send(SEARCH, &body).await?;
        let mut dns = Vec::new();
        loop {
            let (tag, content) = self.message().await?;
            match tag {
                SEARCH_ENTRY => {
                    let name = read_element(&content, 0x04)?.ok_or("an entry has no name")?.0;
                    let name =
                        String::from_utf8(name.to_vec()).map_err(|_| "the name of an entry is not a text")?;
                    dns.push(name);
                    // More than one is too many; a server that sends more than was asked for does not stop.
                    if dns.len() > 2 {
                        return Ok(Found { code: SIZE_LIMIT_EXCEEDED, dns });
                    }
                }
                SEARCH_REFERENCE => {}
                SEARCH_DONE => return Ok(Found { code: result_code(&content)?, dns }),
                other => return Err(format!("element {other:#x} in the answer to a search")),
            }
        }
    }

    async fn send(&mut self, tag: u8, operation: &[u8]) -> Result<(), String> {
        self.id =
            self.id.checked_add(1).filter(|id| *id < i32::MAX as u32).ok_or("the connection is used up")?;
        let mut message = Vec::new();
        element(&mut message, 0x02, &integer(self.id));
        element(&mut message, tag, operation);
        let mut bytes = Vec::new();
        element(&mut bytes, 0x30, &message);
        let sent = match &mut self.transport {
            Transport::Plain(stream) => stream.write_all(&bytes).await,
            Transport::Tls(stream) => stream.write_all(&bytes).await,
        };
        sent.map_err(|error| lost(&error))
    }

    async fn answer(&mut self, tag: u8) -> Result<Vec<u8>, String> {
        let (found, content) = self.message().await?;
        if found == tag { Ok(content) } else { Err(format!("element {found:#x} where {tag:#x} belongs")) }
    }

    /// The next operation that answers the last request.
    async fn message(&mut self) -> Result<(u8, Vec<u8>), String> {
        loop {
            if let Some((message, rest)) = read_element(&self.received, 0x30)? {
                let found = operation(message, self.id).map(|(tag, content)| (tag, content.to_vec()));
                let used = self.received.len() - rest.len();
                self.received.drain(..used);
                return found;
            }
            if self.received.len() > LONGEST_BYTES {
                return Err("an answer is too long".to_owned());
            }
            let read = match &mut self.transport {
                Transport::Plain(stream) => stream.read_buf(&mut self.received).await,
                Transport::Tls(stream) => stream.read_buf(&mut self.received).await,
            };
            if read.map_err(|error| lost(&error))? == 0 {
                return Err("the server closed the connection".to_owned());
            }
        }
    }
}

fn lost(error: &io::Error) -> String {
    format!("the connection failed: {error}")
}

/// Tag and content of a message's operation, if it is for this request.
fn operation(message: &[u8], id: u32) -> Result<(u8, &[u8]), String> {
    const MALFORMED: &str = "malformed message";
    let (found, rest) = read_element(message, 0x02)?.ok_or(MALFORMED)?;
    if number(found) != Some(id) {
        return Err("an answer to a request that was not sent".to_owned());
    }
    let tag = *rest.first().ok_or(MALFORMED)?;
    let (content, _) = read_element(rest, tag)?.ok_or(MALFORMED)?;
    Ok((tag, content))
}

fn result_code(content: &[u8]) -> Result<u32, String> {
    let code = read_element(content, 0x0a)?.and_then(|(code, _)| number(code));
    code.ok_or_else(|| "a result without a code".to_owned())
}

fn number(bytes: &[u8]) -> Option<u32> {
    let is_short = !bytes.is_empty() && bytes.len() <= 4 && bytes.first().is_some_and(|first| *first < 0x80);
    is_short.then(|| bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

/// The content of a non-negative INTEGER, in its shortest form.
fn integer(value: u32) -> Vec<u8> {
    let bytes = value.to_be_bytes();
    // Not counted in a loop: the compiler unrolls it in one of two ways, by chance, and builds of one commit differ.
    let zeros = (value | 1).leading_zeros() / 8;
    let bytes = bytes.get(zeros as usize..).unwrap_or_default();
    let needs_sign = bytes.first().is_some_and(|first| *first >= 0x80);
    if needs_sign { [&[0], bytes].concat() } else { bytes.to_vec() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers() {
        for (value, expected) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0, 128]),
            (256, &[1, 0]),
            (u32::MAX, &[0, 255, 255, 255, 255]),
        ] {
            assert_eq!(integer(value), expected, "{value}");
        }
        for value in [0, 1, 127, 128, 65_535, 0x7fff_ffff] {
            assert_eq!(number(&integer(value)), Some(value));
        }
        assert_eq!((number(&[]), number(&[0x80]), number(&[0; 5])), (None, None, None));
    }

    #[test]
    fn messages_are_for_their_request() {
        let message = [2, 1, 7, 0x61, 7, 0x0a, 1, 49, 4, 0, 4, 0];
        let (tag, content) = operation(&message, 7).expect("a response");
        assert_eq!((tag, result_code(content)), (BIND_RESPONSE, Ok(INVALID_CREDENTIALS)));
        assert!(operation(&message, 8).is_err());
        for length in 0..message.len() {
            assert!(operation(&message[..length], 7).is_err(), "{length} bytes");
        }
        assert!(result_code(&[0x04, 0]).is_err());
    }
}
