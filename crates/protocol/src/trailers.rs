//! Trailer fields: what may follow a body at all, and what a client may say there.

use crate::{Head, HeaderId, ParseError, claims};

/// All of them together, each counted as a line of HTTP/1.
pub const MOST_BYTES: usize = 16 * 1024;
pub const MOST_FIELDS: usize = 64;

/// Whether there are no more of them than there may be. `lengths`: of each name and value.
pub fn check_size(lengths: impl Iterator<Item = usize>) -> Result<(), ParseError> {
    let (mut count, mut bytes) = (0, 0);
    for length in lengths {
        count += 1;
        bytes += length + ": \r\n".len();
        if count > MOST_FIELDS || bytes > MOST_BYTES {
            return Err(ParseError::with_status(431, "trailers larger than the limit"));
        }
    }
    Ok(())
}

/// Names without a [`HeaderId`] of their own: controls and conditionals of a request (RFC 9110 sections 7.6.2 and 13.1), and what
/// servers take for such.
const MODIFIERS: [&str; 9] = [
    "max-forwards",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "if-range",
    "proxy",
    "x-http-method-override",
    "cdn-loop",
];

/// RFC 9110 section 6.5.1: framing, routing, authentication, content fields and modifiers are not accepted as trailers.
pub fn may_be_trailer(name: &[u8]) -> bool {
    use HeaderId::*;
    let modifies = || MODIFIERS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    let has_other_place = matches!(
        HeaderId::of(name),
        Host | Connection
            | ContentLength
            | TransferEncoding
            | Expect
            | Upgrade
            | Te
            | Trailer
            | KeepAlive
            | ProxyConnection
            | ProxyAuthenticate
            | ProxyAuthorization
            | Authorization
            | Cookie
            | SetCookie
            | ContentType
            | ContentEncoding
            | Range
            | CacheControl
            | WwwAuthenticate
    );
    !has_other_place && !modifies()
}

/// Takes out of a client's trailers what may not be there: claims (see [`claims`]), names with `_` where those are not
/// accepted or with other signs, and what [`may_be_trailer`] excludes. Returns how many were claims, and how many had such
/// names.
pub fn retain_clients_own(trailers: &mut Head, underscores: bool) -> (usize, usize) {
    let (mut claimed, mut misnamed) = (0, 0);
    trailers.retain(|name, _| {
        if claims::of(name).is_some() {
            claimed += 1;
            return false;
        }
        if !underscores && name.contains(&b'_') || claims::has_invalid_sign(name) {
            misnamed += 1;
            return false;
        }
        may_be_trailer(name)
    });
    (claimed, misnamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_may_not_say_at_the_end_either() {
        let names = [
            "X-Sum",
            "x_consumer_username",
            "Content-Length",
            "Content_Length",
            "X-Real-IP",
            "Cookie",
            "If-Match",
            "a_b",
        ];
        let left = |underscores| {
            let mut head = Head::new();
            names.iter().for_each(|name| head.add(name, "1"));
            let counted = retain_clients_own(&mut head, underscores);
            let left: Vec<String> =
                head.iter().map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect();
            (left.join(" "), counted)
        };
        assert_eq!(left(true), ("X-Sum a_b".to_owned(), (4, 0)));
        assert_eq!(left(false), ("X-Sum".to_owned(), (4, 1)));
    }
}
