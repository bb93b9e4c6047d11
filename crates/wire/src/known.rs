//! Header names that the gateway itself acts on, recognised once when a head is parsed.

macro_rules! known_headers {
    ($($variant:ident = $name:literal,)*) => {
        /// A known header name, or [`HeaderId::Other`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum HeaderId { Other = 0, $($variant,)* }

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
}

/// Candidates by name length, made at compile time, so that a lookup compares one or two names at most.
const LONGEST: usize = 24;
const BUCKET: usize = 8;

const fn buckets() -> [[u8; BUCKET]; LONGEST + 1] {
    let mut table = [[0u8; BUCKET]; LONGEST + 1];
    let mut index = 0;
    while index < NAMES.len() {
        let length = NAMES[index].1.len();
        let mut slot = 0;
        while table[length][slot] != 0 {
            slot += 1;
        }
        table[length][slot] = index as u8 + 1;
        index += 1;
    }
    table
}

static BY_LENGTH: [[u8; BUCKET]; LONGEST + 1] = buckets();

impl HeaderId {
    /// Recognises a name, in any case.
    pub fn of(name: &[u8]) -> HeaderId {
        let Some(bucket) = BY_LENGTH.get(name.len()) else { return HeaderId::Other };
        for &entry in bucket {
            if entry == 0 {
                break;
            }
            let (id, known) = NAMES[usize::from(entry) - 1];
            if known.as_bytes().eq_ignore_ascii_case(name) {
                return id;
            }
        }
        HeaderId::Other
    }
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
    }
}
