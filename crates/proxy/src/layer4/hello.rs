//! The server name in the first bytes of a connection whose TLS does not end here.
//!
//! Read without a TLS library: nodes may speak versions, or accept mistakes, that it refuses, and a name that is not seen would
//! lead past the guards of its route. What may be TLS for some server, and cannot be read, is [`Hello::Unreadable`].
//! [RFC 8446, sections 4.1.2 and 5.1](https://www.rfc-editor.org/rfc/rfc8446), [RFC 6066, section 3](https://www.rfc-editor.org/rfc/rfc6066).

/// What the bytes so far say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hello {
    /// They are the beginning of a ClientHello.
    Incomplete,
    /// In lower case.
    Name(Box<str>),
    /// No TLS, or no name in it.
    Nameless,
    /// TLS, but no ClientHello with at most one name.
    Unreadable,
}

/// The first byte of a record of a handshake, and of any record.
const HANDSHAKE: u8 = 22;
const RECORDS: std::ops::RangeInclusive<u8> = 20..=24;

const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const HOST_NAME: u8 = 0;

pub(super) fn read(seen: &[u8]) -> Hello {
    match seen.first() {
        None => return Hello::Incomplete,
        Some(first) if !RECORDS.contains(first) => return Hello::Nameless,
        Some(_) => {}
    }
    let Some(message) = message(seen) else { return Hello::Unreadable };
    let Some((header, body)) = message.split_first_chunk::<4>() else { return Hello::Incomplete };
    let [kind, length @ ..] = *header;
    if kind != CLIENT_HELLO {
        return Hello::Unreadable;
    }
    let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    match body.get(..length).map(name) {
        None => Hello::Incomplete,
        Some(Ok(Some(name))) => Hello::Name(name),
        Some(Ok(None)) => Hello::Nameless,
        Some(Err(Malformed)) => Hello::Unreadable,
    }
}

/// The bytes of the handshake in the records so far; `None` where something else is between them.
fn message(mut seen: &[u8]) -> Option<Vec<u8>> {
    let mut message = Vec::new();
    while let Some((header, rest)) = seen.split_first_chunk::<5>() {
        let [kind, _, _, length @ ..] = *header;
        let length = usize::from(u16::from_be_bytes(length));
        // An empty record is not allowed, and some servers take it.
        if kind != HANDSHAKE || length == 0 {
            // What follows a whole hello is not looked at.
            return is_whole(&message).then_some(message);
        }
        let (fragment, rest) = rest.split_at(length.min(rest.len()));
        message.extend_from_slice(fragment);
        seen = rest;
    }
    (seen.is_empty() || seen.first() == Some(&HANDSHAKE) || is_whole(&message)).then_some(message)
}

fn is_whole(message: &[u8]) -> bool {
    let [_, length @ ..] = message.first_chunk::<4>().copied().unwrap_or([0, u8::MAX, u8::MAX, u8::MAX]);
    let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    message.len() >= 4 + length
}

struct Malformed;

/// The name in the body of a ClientHello.
fn name(hello: &[u8]) -> Result<Option<Box<str>>, Malformed> {
    let mut rest = Fields(hello);
    // Version and random.
    rest.take(34)?;
    rest.list::<1>()?;
    rest.list::<2>()?;
    rest.list::<1>()?;
    if rest.0.is_empty() {
        return Ok(None);
    }
    let mut extensions = Fields(rest.list::<2>()?);
    if !rest.0.is_empty() {
        return Err(Malformed);
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.number::<2>()?;
        let extension = extensions.list::<2>()?;
        if kind == usize::from(SERVER_NAME) && found.replace(host(extension)?).is_some() {
            return Err(Malformed);
        }
    }
    Ok(found)
}

/// The one name of the extension, in lower case and without the dot of the root.
fn host(extension: &[u8]) -> Result<Box<str>, Malformed> {
    let mut outer = Fields(extension);
    let mut names = Fields(outer.list::<2>()?);
    let kind = names.take(1)?;
    let name = names.list::<2>()?;
    if kind != [HOST_NAME] || !names.0.is_empty() || !outer.0.is_empty() {
        return Err(Malformed);
    }
    let name = std::str::from_utf8(name).map_err(|_| Malformed)?;
    let is_text = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_text.then(|| name.trim_end_matches('.').to_ascii_lowercase().into()).ok_or(Malformed)
}

/// Fields that follow each other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (field, rest) = self.0.split_at_checked(count).ok_or(Malformed)?;
        self.0 = rest;
        Ok(field)
    }

    fn number<const BYTES: usize>(&mut self) -> Result<usize, Malformed> {
        let bytes = self.take(BYTES)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// A field behind its length.
    fn list<const BYTES: usize>(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.number::<BYTES>()?;
        self.take(length)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn hello(name: &str) -> Vec<u8> {
        let config = tidegate_tls::client_config(tidegate_tls::Trust::Anybody, None).unwrap();
        let name = name.to_owned().try_into().unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    fn behind_length(bytes: &[u8]) -> Vec<u8> {
        [&(bytes.len() as u16).to_be_bytes(), bytes].concat()
    }

    fn record(kind: u8, bytes: &[u8]) -> Vec<u8> {
        [&[kind, 3, 1], &*behind_length(bytes)].concat()
    }

    /// Of TLS 1.0, with these extensions.
    fn old(extensions: Option<&[u8]>) -> Vec<u8> {
        let mut body = [&[3, 1], &[7; 32][..], &[0], &[0, 2, 0, 47], &[1, 0]].concat();
        body.extend(extensions.map(behind_length).into_iter().flatten());
        [&[1, 0], &*behind_length(&body)].concat()
    }

    fn extension(names: &[&[u8]]) -> Vec<u8> {
        let names: Vec<u8> = names.iter().flat_map(|name| [&[0], &*behind_length(name)].concat()).collect();
        [&[0, 0], &*behind_length(&behind_length(&names))].concat()
    }

    #[test]
    fn names_are_found_however_the_bytes_are_cut() {
        let bytes = hello("Name.test");
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), Hello::Incomplete, "{cut}");
        }
        assert_eq!(read(&bytes), Hello::Name("name.test".into()));
        assert_eq!(read(&[&*bytes, b"more"].concat()), Hello::Name("name.test".into()));
        assert_eq!(read(b"SSH-2.0"), Hello::Nameless);
        // Each byte of the handshake in a record of its own.
        let split: Vec<u8> = bytes[5..].iter().flat_map(|byte| record(22, &[*byte])).collect();
        assert_eq!(read(&split), Hello::Name("name.test".into()));
        assert_eq!(read(&split[..split.len() - 1]), Hello::Incomplete);
    }

    #[test]
    fn what_a_server_may_read_otherwise_is_not_nameless() {
        let named = || Hello::Name("a.test".into());
        let one = extension(&[b"A.test."]);
        let unknown = [9, 9, 0, 1, 5];
        let whole = record(22, &old(Some(&one)));
        for (case, bytes, expected) in [
            ("TLS 1.0", whole.clone(), named()),
            ("TLS 1.0 without extensions", record(22, &old(None)), Hello::Nameless),
            ("no name", record(22, &old(Some(&unknown))), Hello::Nameless),
            ("an extension twice", record(22, &old(Some(&[&unknown, &unknown, &*one].concat()))), named()),
            (
                "two extensions with names",
                record(22, &old(Some(&[&*one, &*one].concat()))),
                Hello::Unreadable,
            ),
            ("two names", record(22, &old(Some(&extension(&[b"a.test", b"b.test"])))), Hello::Unreadable),
            ("an empty name", record(22, &old(Some(&extension(&[b""])))), Hello::Unreadable),
            ("a name with NUL", record(22, &old(Some(&extension(&[b"a.test\0"])))), Hello::Unreadable),
            ("an empty extension", record(22, &old(Some(&[0, 0, 0, 0]))), Hello::Unreadable),
            ("an empty record", [&record(22, b""), &*whole].concat(), Hello::Unreadable),
            ("an alert first", [&record(21, &[1, 0]), &*whole].concat(), Hello::Unreadable),
            ("another message", record(22, &[2, 0, 0, 1, 0]), Hello::Unreadable),
            (
                "bytes behind the extensions",
                record(22, &[&[1, 0, 0, 1], &[0][..]].concat()),
                Hello::Unreadable,
            ),
            ("a record of another kind behind it", [&*whole, &record(20, &[1])].concat(), named()),
        ] {
            assert_eq!(read(&bytes), expected, "{case}");
        }
    }
}
