//! Request heads: request line and fields (RFC 9112 sections 2-3, 5).

use memchr::memchr;

use super::fields::{NameForm, TOO_MANY_FIELDS, find_head_end, line_end, parse_fields, take_common};
use crate::{
    Head, HeaderId, Method, ParseError, Version, claims,
    connection::ConnectionOptions,
    head::{Field, LeftOut},
    names,
};

pub use crate::fields::is_token_byte;

/// Bounds on what a peer may make us hold before we know what it wants.
#[derive(Clone, Copy, Debug)]
pub struct RequestLimits {
    /// Bytes of the request line and all fields. Exceeded by the target: 414, else 431.
    pub head_bytes: usize,
    /// Of the target on the request line, else 414.
    pub target_bytes: usize,
    /// Number of header fields, else 431.
    pub fields: usize,
    /// Fields with `_` in their name are taken (`underscores_in_headers`); otherwise they are left out.
    pub underscores: bool,
}

impl Default for RequestLimits {
    fn default() -> RequestLimits {
        RequestLimits { head_bytes: 32 * 1024, target_bytes: 16 * 1024, fields: 100, underscores: true }
    }
}

/// At most 128 bytes: it moves several times per request, and longer ones are moved by calls of memcpy.
#[derive(Clone, Debug)]
pub struct RequestHead {
    /// Of the request line.
    pub method: Method,
    /// Of the request line; no later minor version of HTTP/1.
    pub version: Version,
    /// Without those of [`RequestHead::left_out`].
    pub headers: Head,
    /// The options of the `Connection` fields.
    pub connection: ConnectionOptions,
    left_out: LeftOut,
    /// Origin-form target as received (`/path?query`), or `*` or an authority for CONNECT.
    target: Vec<u8>,
    /// Length of the path part of `target`.
    path_len: u32,
    /// Bytes of the head as it was received; 0 when it was not received as HTTP/1.
    received_len: u32,
}

const _: () = assert!(size_of::<RequestHead>() <= 128);

impl Default for RequestHead {
    fn default() -> RequestHead {
        RequestHead {
            method: Method::Get,
            version: Version::Http11,
            headers: Head::new(),
            connection: ConnectionOptions::default(),
            left_out: LeftOut::default(),
            target: Vec::new(),
            path_len: 0,
            received_len: 0,
        }
    }
}

impl RequestHead {
    /// The target as received: path and query.
    pub fn target(&self) -> &[u8] {
        &self.target
    }

    /// The raw path, still percent-encoded.
    pub fn raw_path(&self) -> &[u8] {
        self.target.get(..self.path_len as usize).unwrap_or_default()
    }

    /// The part after the first `?`; `None` without one.
    pub fn query(&self) -> Option<&[u8]> {
        self.target.get(self.path_len as usize + 1..)
    }

    /// Replaces path and query; `received_len` stays.
    pub fn set_target(&mut self, target: &[u8]) {
        self.target.clear();
        self.target.extend_from_slice(target);
        self.path_len = memchr(b'?', &self.target).unwrap_or(self.target.len()) as u32;
    }

    /// Back to no request; the memory stays for the connection's next one.
    pub fn clear(&mut self) {
        self.headers.clear();
        self.left_out = LeftOut::default();
        self.target.clear();
        self.path_len = 0;
        self.received_len = 0;
    }

    /// Fields that were not taken over from the received head.
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// All fields are in. Fields added later are the gateway's own. Checks names with `_` and the like, which visits
    /// each field only where there is such a name at all.
    pub(crate) fn end_of_received(&mut self, limits: &RequestLimits) {
        self.headers.end_of_received();
        self.left_out = LeftOut::default();
        if !self.headers.has_signs() {
            return;
        }
        let mut left_out = LeftOut::default();
        self.headers.retain(|name, _| {
            if !names::has_other_sign(name) {
                return true;
            }
            if claims::of(name).is_some() {
                left_out.claims = left_out.claims.saturating_add(1);
                return false;
            }
            // nginx does not pass them on (`ignore_invalid_headers`), and no condition on the header with dashes sees them.
            if claims::has_invalid_sign(name) {
                left_out.invalid = left_out.invalid.saturating_add(1);
                return false;
            }
            left_out.underscored = left_out.underscored.saturating_add(u8::from(!limits.underscores));
            limits.underscores
        });
        self.left_out = left_out;
    }

    /// Servers differ on which of two counts (RFC 9110 section 11.6.2 allows one).
    pub(crate) fn check_credentials(&self) -> Result<(), ParseError> {
        match self.headers.all_known(HeaderId::Authorization).nth(1) {
            Some(_) => Err(ParseError::bad("several Authorization fields")),
            None => Ok(()),
        }
    }

    /// Bytes of the head as it came, request line and empty line included.
    pub fn received_len(&self) -> usize {
        self.received_len as usize
    }

    /// Parses one head from the start of `buffer`.
    ///
    /// `Ok(Some(n))`: complete, `n` bytes consumed. `Ok(None)`: more bytes are needed; `tried` then remembers how far
    /// this went, so that a peer that dribbles bytes costs linear time.
    pub fn parse(
        &mut self,
        buffer: &[u8],
        tried: &mut usize,
        limits: &RequestLimits,
    ) -> Result<Option<usize>, ParseError> {
        if *tried > 0 && !may_be_complete(buffer, *tried) {
            *tried = buffer.len();
            return over_limit(buffer, limits).map_or(Ok(None), Err);
        }
        match self.parse_whole(buffer, limits)? {
            Some(consumed) => {
                *tried = 0;
                Ok(Some(consumed))
            }
            None => {
                *tried = buffer.len();
                over_limit(buffer, limits).map_or(Ok(None), Err)
            }
        }
    }

    fn parse_whole(&mut self, buffer: &[u8], limits: &RequestLimits) -> Result<Option<usize>, ParseError> {
        // RFC 9112 section 2.2: at least one empty line before the request line is ignored.
        let start = if buffer.starts_with(b"\r\n") { 2 } else { 0 };
        let Some(line_end) = line_end(buffer, start)? else {
            check_method_so_far(buffer.get(start..).unwrap_or_default())?;
            return Ok(None);
        };
        let line = &buffer[start..line_end];
        let (method, target, version) = split_request_line(line, limits)?;
        // Only the fields are kept; the target is separate because plugins rewrite it.
        let fields_at = line_end + 2;
        let common = take_common(&mut self.headers, buffer, fields_at, limits.fields);
        let (end, count) = match common {
            Some(end) => (end, self.headers.len()),
            None => match find_head_end(buffer, fields_at)? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        if end - start > limits.head_bytes {
            self.headers.clear();
            return Err(ParseError::with_status(431, "request head larger than the limit"));
        }
        self.method = Method::of(method);
        self.version = version;
        if count > limits.fields {
            return Err(TOO_MANY_FIELDS);
        }
        if common.is_none() {
            let fields = buffer.get(fields_at..end).unwrap_or_default();
            parse_fields(&mut self.headers, fields, NameForm::Printable)?;
        }
        self.end_of_received(limits);
        self.check_credentials()?;
        self.connection = ConnectionOptions::of(&self.headers);
        self.take_target(target)?;
        self.received_len = (end - start) as u32;
        Ok(Some(end))
    }

    /// Brings the four target forms (RFC 9112 section 3.2) to origin-form.
    fn take_target(&mut self, target: &[u8]) -> Result<(), ParseError> {
        if self.method == Method::Connect {
            return Err(ParseError::with_status(405, "CONNECT is not supported"));
        }
        if target.first() == Some(&b'/') {
            self.set_target(target);
            return Ok(());
        }
        if target == b"*" && self.method == Method::Options {
            self.set_target(b"*");
            return Ok(());
        }
        let rest = strip_scheme(target).ok_or(ParseError::bad("invalid request target"))?;
        let authority_len = rest.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(authority_len);
        if authority.is_empty() || memchr(b'@', authority).is_some() {
            return Err(ParseError::bad("invalid authority in request target"));
        }
        // RFC 9112 section 3.2.2: the authority of an absolute-form target replaces Host, which must still be present and
        // valid.
        self.host()?;
        self.headers.set("Host", authority);
        if path.first() == Some(&b'/') {
            self.set_target(path);
        } else {
            let mut full = Vec::with_capacity(path.len() + 1);
            full.push(b'/');
            full.extend_from_slice(path);
            self.set_target(&full);
        }
        Ok(())
    }

    /// The only valid Host value. HTTP/1.1 must have exactly one (RFC 9112 section 3.2).
    pub fn host(&self) -> Result<Option<&[u8]>, ParseError> {
        let mut hosts = self.headers.all_known(HeaderId::Host);
        let first = hosts.next();
        if hosts.next().is_some() {
            return Err(ParseError::bad("several Host fields"));
        }
        match first {
            None if self.version >= Version::Http11 => Err(ParseError::bad("missing Host field")),
            None => Ok(None),
            Some(host) if is_host(host) => Ok(Some(host)),
            Some(_) => Err(ParseError::bad("invalid Host field")),
        }
    }
}

/// Whether it is a host with or without a port, which has digits only (RFC 9110 section 7.2). With two colons, servers differ on
/// where the name ends.
pub fn is_host(host: &[u8]) -> bool {
    let rest = match host.strip_prefix(b"[") {
        None => host,
        // An IPv6 address; only a port may follow.
        Some(literal) => match literal.iter().position(|&byte| byte == b']') {
            Some(end) if literal[..end].iter().all(|&byte| HOST[usize::from(byte)] != REFUSED) => {
                &literal[end + 1..]
            }
            _ => return false,
        },
    };
    let (mut in_port, mut last) = (false, 0);
    for &byte in rest {
        match HOST[usize::from(byte)] {
            _ if in_port && !byte.is_ascii_digit() => return false,
            ORDINARY => {}
            // A name has no empty part; nginx refuses it, too.
            MARKED if byte == b'.' && last != b'.' => {}
            MARKED if byte == b':' => in_port = true,
            _ => return false,
        }
        last = byte;
    }
    let is_literal = rest.len() < host.len();
    !host.is_empty() && (!is_literal || rest.is_empty() || rest.first() == Some(&b':'))
}

fn strip_scheme(target: &[u8]) -> Option<&[u8]> {
    for scheme in [&b"http://"[..], &b"https://"[..]] {
        if target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)) {
            return target.get(scheme.len()..);
        }
    }
    None
}

/// What a byte is in a host.
const REFUSED: u8 = 0;
const ORDINARY: u8 = 1;
/// One that says where a part ends: a dot, a colon, a bracket.
const MARKED: u8 = 2;

static HOST: [u8; 256] = {
    let mut table = [REFUSED; 256];
    let mut byte = 0usize;
    while byte < 256 {
        let b = byte as u8;
        if b.is_ascii_alphanumeric() || b >= 0x80 {
            table[byte] = ORDINARY;
        }
        byte += 1;
    }
    let (others, marks) = (b"-_%~!$&'()*+,;=", b".:[]");
    let mut at = 0;
    while at < others.len() {
        table[others[at] as usize] = ORDINARY;
        at += 1;
    }
    at = 0;
    while at < marks.len() {
        table[marks[at] as usize] = MARKED;
        at += 1;
    }
    table
};

/// Whether an empty line came in after `tried`, or a bare LF that ends the matter.
fn may_be_complete(buffer: &[u8], tried: usize) -> bool {
    let new = &buffer[tried.saturating_sub(3).min(buffer.len())..];
    memchr::memmem::find(new, b"\r\n\r\n").is_some()
        || memchr::memchr_iter(b'\n', new).any(|at| at > 0 && new[at - 1] != b'\r')
}

fn over_limit(buffer: &[u8], limits: &RequestLimits) -> Option<ParseError> {
    if buffer.len() < limits.head_bytes {
        return None;
    }
    Some(match memchr(b'\n', buffer) {
        None => ParseError::with_status(414, "request target longer than the limit"),
        Some(_) => ParseError::with_status(431, "request head larger than the limit"),
    })
}

fn split_request_line<'a>(
    line: &'a [u8],
    limits: &RequestLimits,
) -> Result<(&'a [u8], &'a [u8], Version), ParseError> {
    const BAD: ParseError = ParseError::bad("malformed request line");
    let method_len = memchr(b' ', line).ok_or(BAD)?;
    let (method, rest) = line.split_at(method_len);
    let rest = &rest[1..];
    check_method(method)?;
    let target_len = memchr(b' ', rest).ok_or(BAD)?;
    let (target, version) = rest.split_at(target_len);
    if target.is_empty() || !may_be_target(target) {
        return Err(ParseError::bad("invalid request target"));
    }
    if target.len() > limits.target_bytes {
        return Err(ParseError::with_status(414, "request target longer than the limit"));
    }
    let version = match &version[1..] {
        b"HTTP/1.1" => Version::Http11,
        b"HTTP/1.0" => Version::Http10,
        // RFC 9110 section 2.5: the highest minor version that is known counts, as in nginx.
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'2'..=b'9'] => Version::Http11,
        other => return Err(version_error(other)),
    };
    Ok((method, target, version))
}

/// Whether a request target has only bytes that stay what they are. Servers that read URLs as browsers do (WHATWG) take `\` in a path for `/`:
/// `/open\..\guarded` would pass the guards of `/guarded`. Browsers never send one.
pub(crate) fn may_be_target(target: &[u8]) -> bool {
    let path = memchr(b'?', target).and_then(|end| target.get(..end)).unwrap_or(target);
    let is_refused = |byte: u8| byte <= 0x20 || byte == 0x7f || byte == b'#';
    // Without a jump for each byte.
    memchr(b'\\', path).is_none() && !target.iter().fold(false, |any, &byte| any | is_refused(byte))
}

/// Longer than any method in use.
const MAX_METHOD: usize = 32;

pub(crate) fn check_method(method: &[u8]) -> Result<(), ParseError> {
    if method.is_empty() || !method.iter().all(|&byte| is_token_byte(byte)) {
        return Err(ParseError::bad("invalid method"));
    }
    // Methods are case-sensitive (RFC 9110 section 9.1), but some servers fold them: `post` would pass a guard
    // for POST. nginx refuses them, too.
    if method.iter().any(u8::is_ascii_lowercase) {
        return Err(ParseError::bad("lowercase letters in the method"));
    }
    if method.len() > MAX_METHOD {
        // RFC 9112 section 3: longer than any known method.
        return Err(ParseError::with_status(501, "method longer than the limit"));
    }
    Ok(())
}

/// A method that is too long is refused before its line ends: the limit of the target is not its limit.
fn check_method_so_far(received: &[u8]) -> Result<(), ParseError> {
    let start = received.get(..=MAX_METHOD).unwrap_or_default();
    if start.is_empty() || memchr(b' ', start).is_some() { Ok(()) } else { check_method(start) }
}

fn version_error(text: &[u8]) -> ParseError {
    match text {
        [b'H', b'T', b'T', b'P', b'/', major, b'.', minor]
            if major.is_ascii_digit() && minor.is_ascii_digit() =>
        {
            ParseError::with_status(505, "unsupported HTTP version")
        }
        _ => ParseError::bad("malformed request line"),
    }
}

/// Whether a field may travel to the next hop (RFC 9110 section 7.6.1). `Connection`-nominated names are the caller's.
pub fn is_end_to_end(field: &Field) -> bool {
    !matches!(
        field.id,
        HeaderId::Connection
            | HeaderId::KeepAlive
            | HeaderId::ProxyConnection
            | HeaderId::TransferEncoding
            | HeaderId::ContentLength
            | HeaderId::Upgrade
            | HeaderId::Te
            | HeaderId::Http2Settings
    )
}

#[cfg(test)]
mod tests;
