//! Where a `Location` that the gateway itself writes leads: to this site, unless its template names a host.
//!
//! Browsers read `/\evil.example`, `//evil.example` and `/<tab>/evil.example` as another host, so a path that a client
//! wrote must not be copied unchanged behind a template's `/`. Every `Location` of ours is put together here, of
//! pieces whose origin is known. (Answers of an upstream or an authorization service pass unchanged.)

use std::borrow::Cow;

use crate::{
    Request, Slashes, Variable,
    uri_text::{Kind, UriPart},
    variables::Named,
};
use tidegate_protocol::uri::MARK;

/// An encoded slash, in the path that plugins see.
const WRITTEN: &[u8] = b"%2F";

/// Who wrote a piece of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The configuration, or the upstream.
    Author,
    /// The client, but only by choosing one of the gateway's names.
    Site,
    /// The client.
    Client,
}

#[derive(Clone, Copy)]
struct Byte {
    value: u8,
    origin: Origin,
    /// The piece it came with. Two slashes of different pieces name no host.
    piece: usize,
    /// Part of an escape that encodes a client's byte.
    escaped: bool,
}

/// A location in the making.
#[derive(Default)]
pub struct Location {
    bytes: Vec<Byte>,
    pieces: usize,
    place: UriPart,
    /// What `%2F` in the client's path is. `None`: no route distinguishes it from a slash, and escapes are written as in
    /// APISIX.
    slashes: Option<Slashes>,
    is_unclear: bool,
}

impl Location {
    /// A location with pieces of the request's path: with `match_uri_encoded_slash` they lead to the resource that the
    /// client has asked for.
    pub fn of(request: &Request) -> Location {
        let tells = request.snapshot.options.match_uri_encoded_slash;
        Location { slashes: tells.then(|| request.slashes()), ..Location::default() }
    }

    /// Appends a text; the origin decides how far it is encoded where it stands.
    pub fn push(&mut self, origin: Origin, text: &[u8]) {
        let piece = self.pieces;
        self.pieces += 1;
        self.place = self.place.behind(text);
        self.bytes.extend(text.iter().map(|&value| Byte { value, origin, piece, escaped: false }));
    }

    /// Whether it has a piece of a path with `%2F` of both kinds, so that the kind in the piece is not known.
    pub fn is_unclear(&self) -> bool {
        self.is_unclear
    }

    /// Adds a client's text, with bytes escaped that would be structure at that place.
    pub fn push_text(&mut self, kind: Kind, text: &[u8]) {
        if let (Some(slashes), Kind::Path, UriPart::Path) = (self.slashes, kind, self.place) {
            let has_slash = memchr::memmem::find(text, WRITTEN).is_some();
            self.is_unclear |= has_slash && slashes == Slashes::Mixed;
            let marked = match slashes {
                Slashes::Encoded => marked(text),
                Slashes::Text | Slashes::Mixed => text.to_vec(),
            };
            return self.push_path(&marked);
        }
        let piece = self.pieces;
        self.pieces += 1;
        let kind = kind.at(self.place);
        let mut escape = Vec::with_capacity(3);
        for byte in text {
            escape.clear();
            let escaped = kind.escapes(self.place, *byte);
            match escaped {
                true => tidegate_protocol::uri::encode_component(&[*byte], &mut escape),
                false => escape.push(*byte),
            }
            self.place = self.place.behind(&escape);
            let origin = Origin::Client;
            self.bytes.extend(escape.iter().map(|&value| Byte { value, origin, piece, escaped }));
        }
    }

    /// A client's path, marked, in a path: each escape means what it meant.
    fn push_path(&mut self, marked: &[u8]) {
        let piece = self.pieces;
        self.pieces += 1;
        for &byte in marked {
            let mut text = Vec::with_capacity(3);
            let escaped = match byte {
                MARK => {
                    text.extend_from_slice(WRITTEN);
                    true
                }
                b'%' => {
                    text.extend_from_slice(b"%25");
                    true
                }
                _ if Kind::Path.escapes(UriPart::Path, byte) => {
                    tidegate_protocol::uri::encode_component(&[byte], &mut text);
                    true
                }
                _ => {
                    text.push(byte);
                    false
                }
            };
            let origin = Origin::Client;
            self.bytes.extend(text.iter().map(|&value| Byte { value, origin, piece, escaped }));
        }
    }

    /// The path of the request, which `text` is unless a plugin has set another.
    pub(crate) fn push_uri(&mut self, request: &Request, text: &[u8]) {
        match self.place {
            UriPart::Path if self.slashes.is_some() && text == &request.path[..] => {
                self.push_path(&request.marked_path());
            }
            _ => self.push_text(Kind::Path, text),
        }
    }

    /// A client's path and query; in the query of the location as a whole, without escapes.
    pub(crate) fn push_target(&mut self, request: &Request, query: Option<&[u8]>) {
        match self.place {
            UriPart::Path => self.push_uri(request, &request.path),
            UriPart::Name | UriPart::Value => self.push(Origin::Client, &request.path),
        }
        if let Some(query) = query.filter(|query| !query.is_empty()) {
            self.push(Origin::Client, &[b"?", query].concat());
        }
    }

    /// Whether a `?` has been pushed.
    pub fn has_query(&self) -> bool {
        self.bytes.iter().any(|byte| byte.value == b'?')
    }

    /// Encodes what a path may not contain, up to the query (see [`tidegate_protocol::uri::encode_path`]).
    pub fn encode_path(&mut self) {
        let path = self.bytes.iter().position(|byte| byte.value == b'?').unwrap_or(self.bytes.len());
        let query = self.bytes.split_off(path);
        let mut encoded = Vec::with_capacity(3);
        for byte in std::mem::take(&mut self.bytes) {
            encoded.clear();
            match byte.escaped {
                true => encoded.push(byte.value),
                false => tidegate_protocol::uri::encode_path(&[byte.value], &mut encoded),
            }
            self.bytes.extend(encoded.iter().map(|&value| Byte { value, ..byte }));
        }
        self.bytes.extend(query);
    }

    /// The value of the field. `None`: the host would be one that the client chose, or it is unclear.
    pub fn finish(mut self) -> Option<Vec<u8>> {
        if self.is_unclear {
            return None;
        }
        match self.authority()? {
            Some(start) => self.check_authority(start)?,
            None => self.stay()?,
        }
        Some(self.written())
    }

    /// Where the authority begins, if the author names one. The outer `None`: refused.
    fn authority(&self) -> Option<Option<usize>> {
        let end = self.bytes.iter().position(|byte| is_delimiter(byte.value)).unwrap_or(self.bytes.len());
        let [first, second, ..] = self.bytes.get(end..).unwrap_or_default() else { return Some(None) };
        let slashes = [first, second].iter().all(|byte| byte.value == b'/' && byte.origin == Origin::Author);
        if !slashes || first.piece != second.piece {
            return Some(None);
        }
        let before = self.bytes.get(..end).unwrap_or_default();
        let Some((colon, scheme)) = before.split_last() else { return Some(Some(2)) };
        if colon.value != b':' || colon.origin != Origin::Author {
            return Some(None);
        }
        let text: Vec<u8> = scheme.iter().map(|byte| byte.value.to_ascii_lowercase()).collect();
        let by_author = scheme.iter().all(|byte| byte.origin == Origin::Author);
        (by_author || text == b"http" || text == b"https").then_some(Some(end + 2))
    }

    /// The client may fill in labels left of a name that the author wrote, and a port. Text that would continue the
    /// name becomes the path.
    fn check_authority(&mut self, start: usize) -> Option<()> {
        let length = self.bytes.get(start..)?.iter().position(|byte| is_delimiter(byte.value));
        let mut end = length.map_or(self.bytes.len(), |length| start + length);
        loop {
            let authority = self.bytes.get(start..end)?;
            let Some(last) = authority.iter().rposition(|byte| byte.origin == Origin::Client) else { break };
            let tail = authority.get(last + 1..)?;
            let name_end = tail.iter().position(|byte| byte.value == b':').unwrap_or(tail.len());
            if tail.get(..name_end)?.iter().any(|byte| byte.value.is_ascii_alphanumeric()) {
                break;
            }
            let run = authority.get(..=last)?.iter().rposition(|byte| byte.origin != Origin::Client)? + 1;
            let is_port = authority.get(run - 1)?.value == b':'
                && authority.get(run..=last)?.iter().all(|byte| byte.value.is_ascii_digit());
            if is_port {
                break;
            }
            let piece = self.pieces;
            self.bytes
                .insert(start + run, Byte { value: b'/', origin: Origin::Author, piece, escaped: false });
            end = start + run;
        }
        let authority = self.bytes.get(start..end)?;
        let named = authority.iter().any(|byte| byte.origin != Origin::Client);
        let sound = authority.iter().all(|byte| byte.origin == Origin::Author || is_of_host(byte));
        // The end of the authority must be the end for a browser, too.
        if let Some(next) = self.bytes.get(end)
            && next.value == b'\\'
        {
            let piece = self.pieces;
            self.bytes.insert(end, Byte { value: b'/', origin: Origin::Author, piece, escaped: false });
        }
        (named && sound).then_some(())
    }

    /// Makes it a reference that cannot resolve to another host.
    fn stay(&mut self) -> Option<()> {
        let delimiter = self.bytes.iter().position(|byte| is_delimiter(byte.value));
        let before = self.bytes.get(..delimiter.unwrap_or(self.bytes.len()))?;
        match self.bytes.first() {
            Some(Byte { origin: Origin::Author, value, .. }) if *value != b'/' && *value != b'\\' => {
                let Some(colon) = before.iter().position(|byte| byte.value == b':') else { return Some(()) };
                if self.bytes.get(..=colon)?.iter().any(|byte| byte.origin != Origin::Author) {
                    self.bytes.splice(0..0, b"./".iter().map(|&value| author(value)));
                    return Some(());
                }
                // A scheme without a host: fine for an application's scheme, but `https:` takes what follows as
                // its host.
                let scheme: Vec<u8> = before.get(..colon)?.iter().map(|byte| byte.value).collect();
                let special = ["http", "https", "ws", "wss", "ftp", "file", "javascript", "data"];
                let is_special = special.iter().any(|name| scheme.eq_ignore_ascii_case(name.as_bytes()));
                return (!is_special).then_some(());
            }
            Some(byte) if byte.value == b'/' => {}
            Some(_) | None => self.bytes.insert(0, author(b'/')),
        }
        // Slashes, backslashes and dot segments after the first slash, of any origin.
        loop {
            let head: Vec<u8> = self.bytes.iter().take(4).map(|byte| byte.value).collect();
            let surplus = match head.as_slice() {
                [_, b'/' | b'\\', ..] => 1,
                [_, b'.', b'/' | b'\\', ..] => 2,
                [_, b'.', b'.', b'/' | b'\\'] => 3,
                _ => break,
            };
            self.bytes.drain(1..=surplus);
        }
        Some(())
    }

    fn written(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.bytes.len() + 8);
        let mut in_path = true;
        for byte in &self.bytes {
            in_path &= !matches!(byte.value, b'?' | b'#');
            let unsafe_here = byte.value.is_ascii_control() || (byte.value == b'\\' && in_path);
            if byte.origin != Origin::Author && unsafe_here {
                tidegate_protocol::uri::encode_component(&[byte.value], &mut out);
            } else {
                out.push(byte.value);
            }
        }
        out
    }
}

fn marked(text: &[u8]) -> Vec<u8> {
    let mut marked = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let slash = rest.strip_prefix(WRITTEN);
        marked.push(if slash.is_some() { MARK } else { first });
        rest = slash.unwrap_or(behind);
    }
    marked
}

fn author(value: u8) -> Byte {
    Byte { value, origin: Origin::Author, piece: usize::MAX, escaped: false }
}

fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b'/' | b'\\' | b'?' | b'#')
}

fn is_of_host(byte: &Byte) -> bool {
    let plain = byte.value.is_ascii_alphanumeric() || matches!(byte.value, b'.' | b'-' | b'_');
    plain || (byte.origin == Origin::Site && matches!(byte.value, b':' | b'[' | b']'))
}

/// A path of a client's on this site, such as the one it wanted before it was sent to log in.
pub fn on_this_site(path: &[u8]) -> Vec<u8> {
    let mut location = Location::default();
    location.push(Origin::Client, path);
    location.finish().unwrap_or_else(|| b"/".to_vec())
}

/// Who determines the value of a variable.
pub(crate) fn origin(variable: &Variable) -> Origin {
    match variable {
        Variable::UpstreamHeader(_) | Variable::SentHeader(_) => Origin::Author,
        Variable::Named(
            Named::Scheme
            | Named::Host
            | Named::Hostname
            | Named::ServerName
            | Named::ServerAddr
            | Named::ServerPort
            | Named::SslServerName
            | Named::MatchedHost
            | Named::UpstreamHost
            | Named::ProxyProtocolServerAddr
            | Named::ProxyProtocolServerPort,
        ) => Origin::Site,
        // The gateway has checked the first, and takes the others from trusted proxies only.
        Variable::Header(name)
            if ["host", "x-forwarded-host", "x-forwarded-proto", "x-forwarded-port"]
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known)) =>
        {
            Origin::Site
        }
        _ => Origin::Client,
    }
}

/// The value of a response field that a configuration describes with a template. `None`: it would be a `Location` on a
/// host that the client chose.
pub fn field<'a>(name: &str, template: &'a crate::Template, request: &Request) -> Option<Cow<'a, [u8]>> {
    if name.eq_ignore_ascii_case("location") {
        return template.location(request).finish().map(Cow::Owned);
    }
    Some(template.render_or_borrow(request))
}

#[cfg(test)]
mod tests;
