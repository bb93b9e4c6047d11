//! Header names that the gateway itself acts on, recognised once when a head is parsed.

macro_rules! known_headers {
    ($($variant:ident = $name:literal,)*) => {
        /// A known header name, or [`HeaderId::Other`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum HeaderId {
            /// Any other name.
            Other = 0,
            $(#[doc = concat!("`", $name, "`")] $variant,)*
        }

        impl HeaderId {
            /// The usual spelling; empty for [`HeaderId::Other`].
            pub const fn name(self) -> &'static str {
                match self { HeaderId::Other => "", $(HeaderId::$variant => $name,)* }
            }
        }

        const NAMES: &[(HeaderId, &str)] = &[$((HeaderId::$variant, $name),)*];
    };
}

known_headers! {
    Host = "Host",
    Connection = "Connection",
    ContentLength = "Content-Length",
    TransferEncoding = "Transfer-Encoding",
    Expect = "Expect",
    Upgrade = "Upgrade",
    Te = "TE",
    Trailer = "Trailer",
    KeepAlive = "Keep-Alive",
    ProxyConnection = "Proxy-Connection",
    ProxyAuthenticate = "Proxy-Authenticate",
    ProxyAuthorization = "Proxy-Authorization",
    Http2Settings = "HTTP2-Settings",
    Server = "Server",
    Date = "Date",
    ContentType = "Content-Type",
    ContentEncoding = "Content-Encoding",
    Accept = "Accept",
    AcceptEncoding = "Accept-Encoding",
    AcceptLanguage = "Accept-Language",
    Authorization = "Authorization",
    ApiKey = "apikey",
    CacheControl = "Cache-Control",
    Cookie = "Cookie",
    SetCookie = "Set-Cookie",
    Etag = "ETag",
    LastModified = "Last-Modified",
    Expires = "Expires",
    Location = "Location",
    Origin = "Origin",
    Referer = "Referer",
    UserAgent = "User-Agent",
    Vary = "Vary",
    Range = "Range",
    AcceptRanges = "Accept-Ranges",
    IfNoneMatch = "If-None-Match",
    IfModifiedSince = "If-Modified-Since",
    WwwAuthenticate = "WWW-Authenticate",
    Forwarded = "Forwarded",
    XForwardedFor = "X-Forwarded-For",
    XForwardedProto = "X-Forwarded-Proto",
    XForwardedHost = "X-Forwarded-Host",
    XForwardedPort = "X-Forwarded-Port",
    XRealIp = "X-Real-IP",
    XRequestId = "X-Request-Id",
    XConsumerUsername = "X-Consumer-Username",
    XCredentialIdentifier = "X-Credential-Identifier",
    XConsumerCustomId = "X-Consumer-Custom-ID",
    XApiKey = "X-API-KEY",
    XUserinfo = "X-Userinfo",
    XIdToken = "X-ID-Token",
    XRawIdToken = "X-Raw-ID-Token",
    XRefreshToken = "X-Refresh-Token",
    XAccessToken = "X-Access-Token",
    CdnLoop = "CDN-Loop",
}

const LONGEST: usize = 24;
const BUCKET: usize = 8;

/// A name in lower case as three words, padded with blanks.
type Folded = [u64; 3];

/// Candidates by name length, made at compile time, so that a lookup compares a few words.
static BY_LENGTH: [[(Folded, HeaderId); BUCKET]; LONGEST + 1] = buckets();

const fn buckets() -> [[(Folded, HeaderId); BUCKET]; LONGEST + 1] {
    let mut table = [[([0u64; 3], HeaderId::Other); BUCKET]; LONGEST + 1];
    let mut used = [0usize; LONGEST + 1];
    let mut index = 0;
    while index < NAMES.len() {
        let name = NAMES[index].1.as_bytes();
        table[name.len()][used[name.len()]] = (fold(name), NAMES[index].0);
        used[name.len()] += 1;
        index += 1;
    }
    table
}

const fn fold(name: &[u8]) -> Folded {
    let mut words = [0u64; 3];
    let mut at = 0;
    while at < name.len() && at < LONGEST {
        words[at / 8] |= (name[at] as u64) << (at % 8 * 8);
        at += 1;
    }
    const BLANKS: u64 = 0x2020_2020_2020_2020;
    [words[0] | BLANKS, words[1] | BLANKS, words[2] | BLANKS]
}

// One bit each, and one to spare: see `Head::seen`.
const _: () = assert!(NAMES.len() < 62);

impl HeaderId {
    /// The id's bit in a set of ids.
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// Recognises a name, in any case. `name` must be a token (RFC 9110 section 5.6.2): among token characters, setting
    /// the case bit maps only the two cases of a letter to the same byte as a letter of a known name.
    pub fn of(name: &[u8]) -> HeaderId {
        let Some(bucket) = BY_LENGTH.get(name.len()) else { return HeaderId::Other };
        let folded = folded(name);
        for (candidate, id) in bucket {
            if *id == HeaderId::Other {
                break;
            }
            if *candidate == folded {
                return *id;
            }
        }
        HeaderId::Other
    }
}

/// As [`fold`] makes it of a known name, for at most [`LONGEST`] bytes. Loads overlap in place of a copy of unknown length.
#[inline]
fn folded(name: &[u8]) -> Folded {
    const BLANKS: u64 = 0x2020_2020_2020_2020;
    let at = |start: usize| {
        name.get(start..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
    };
    // The last eight bytes, without those that `already` words hold.
    let tail = |already: usize| {
        let last = name.last_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let twice = (8 * (already + 1)).saturating_sub(name.len());
        last.checked_shr(8 * twice as u32).unwrap_or(0)
    };
    let words = match name.len() {
        0..8 => [short(name), 0, 0],
        8..=16 => [at(0), tail(1), 0],
        _ => [at(0), at(8), tail(2)],
    };
    words.map(|word| word | BLANKS)
}

/// Up to seven bytes as a word.
#[inline]
fn short(name: &[u8]) -> u64 {
    let len = name.len() as u32;
    if let (Some(first), Some(last)) = (name.first_chunk(), name.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        return u64::from(first) | u64::from(last) << (8 * (len - 4));
    }
    name.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_name_is_found_in_any_case() {
        for &(id, name) in NAMES {
            assert_eq!(HeaderId::of(name.as_bytes()), id, "{name}");
            assert_eq!(HeaderId::of(name.to_ascii_uppercase().as_bytes()), id, "{name}");
            assert_eq!(HeaderId::of(name.to_ascii_lowercase().as_bytes()), id, "{name}");
        }
        for name in ["", "x", "hosts", "content-lengthy", "a-header-name-that-is-longer-than-any-known-one"] {
            assert_eq!(HeaderId::of(name.as_bytes()), HeaderId::Other, "{name}");
        }
        let name = b"abcdefghijklmnopqrstuvwx";
        for len in 0..=LONGEST {
            assert_eq!(folded(&name[..len]), fold(&name[..len]), "{len}");
        }
    }
}
