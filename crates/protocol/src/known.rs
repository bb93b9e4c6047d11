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
    XRateLimitLimit = "X-RateLimit-Limit",
    XRateLimitRemaining = "X-RateLimit-Remaining",
    XRateLimitReset = "X-RateLimit-Reset",
}

/// Up to 24 bytes as words, padded with zeros.
type Words = [u64; 3];

/// A known name. Bytes are its spelling in some case exactly if setting the bits of `case`, one for each letter, makes them `lower`.
#[derive(Clone, Copy)]
struct Entry {
    lower: Words,
    case: Words,
    len: usize,
    id: HeaderId,
}

/// The slot of no name leads here.
const NOBODY: Entry = Entry { lower: [0; 3], case: [0; 3], len: usize::MAX, id: HeaderId::Other };

static ENTRIES: [Entry; 64] = {
    let mut entries = [NOBODY; 64];
    let mut index = 0;
    while index < NAMES.len() {
        entries[index + 1] = entry(NAMES[index].0, NAMES[index].1.as_bytes());
        index += 1;
    }
    entries
};

const fn entry(id: HeaderId, name: &[u8]) -> Entry {
    let (mut lower, mut case) = ([0u64; 3], [0u64; 3]);
    let mut at = 0;
    while at < name.len() {
        let shift = at % 8 * 8;
        lower[at / 8] |= (name[at].to_ascii_lowercase() as u64) << shift;
        case[at / 8] |= (name[at].is_ascii_alphabetic() as u64 * 0x20) << shift;
        at += 1;
    }
    Entry { lower, case, len: name.len(), id }
}

const SLOT_BITS: u32 = 9;

/// The number of each name's entry, at a slot of its own: a lookup compares one name.
static SLOTS: [u8; 1 << SLOT_BITS] = match slots(MULTIPLIER) {
    Some(slots) => slots,
    None => panic!("two names at one slot"),
};

/// The first multiplier, of a sequence, that keeps all names apart.
const MULTIPLIER: u64 = {
    let mut multiplier = 0x9e37_79b9_7f4a_7c15u64;
    while slots(multiplier).is_none() {
        multiplier = multiplier.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(2);
    }
    multiplier
};

const fn slots(multiplier: u64) -> Option<[u8; 1 << SLOT_BITS]> {
    let mut slots = [0u8; 1 << SLOT_BITS];
    let mut index = 0;
    while index < NAMES.len() {
        let slot = slot(entry(NAMES[index].0, NAMES[index].1.as_bytes()).lower, multiplier);
        if slots[slot] != 0 {
            return None;
        }
        slots[slot] = index as u8 + 1;
        index += 1;
    }
    Some(slots)
}

/// The same for each spelling of a name in either case.
#[inline]
const fn slot(words: Words, multiplier: u64) -> usize {
    const CASE: u64 = 0x2020_2020_2020_2020;
    let mixed = (words[0] | CASE) ^ (words[1] | CASE).rotate_left(21) ^ (words[2] | CASE).rotate_left(42);
    (mixed.wrapping_mul(multiplier) >> (64 - SLOT_BITS)) as usize
}

// One bit each, and one to spare: see `Head::seen`.
const _: () = assert!(NAMES.len() < 62);

impl HeaderId {
    /// The id's bit in a set of ids.
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// Recognises a name, in any case.
    #[inline]
    pub fn of(name: &[u8]) -> HeaderId {
        let words = words(name);
        let entry = &ENTRIES[usize::from(SLOTS[slot(words, MULTIPLIER)]) % ENTRIES.len()];
        let [first, second, third] = entry.case;
        let folded = [words[0] | first, words[1] | second, words[2] | third];
        if entry.len == name.len() && folded == entry.lower { entry.id } else { HeaderId::Other }
    }
}

/// The bytes of a name of at most 24; of a longer one, any of its words. Loads overlap in place of a copy of unknown length.
#[inline]
fn words(name: &[u8]) -> Words {
    let at = |start: usize| {
        name.get(start..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word))
    };
    // The last eight bytes, without those that `already` words hold.
    let tail = |already: usize| {
        let last = name.last_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        let twice = (8 * (already + 1)).saturating_sub(name.len());
        last.checked_shr(8 * twice as u32).unwrap_or(0)
    };
    match name.len() {
        0..8 => [short(name), 0, 0],
        8..=16 => [at(0), tail(1), 0],
        _ => [at(0), at(8), tail(2)],
    }
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
        for len in 0..=size_of::<Words>() {
            assert_eq!(words(&name[..len]), entry(HeaderId::Other, &name[..len]).lower, "{len}");
        }
    }

    #[test]
    fn no_other_bytes_are_a_known_name() {
        for &(id, name) in NAMES {
            for at in 0..name.len() {
                for byte in 0..=255 {
                    let mut other = name.as_bytes().to_vec();
                    other[at] = byte;
                    let same = other.eq_ignore_ascii_case(name.as_bytes());
                    assert_eq!(HeaderId::of(&other) == id, same, "{:?}", String::from_utf8_lossy(&other));
                }
            }
        }
    }
}
