//! Trailer fields: which may follow a body at all, and which a client may send there.

use crate::{Head, ParseError, claims};

/// All of them together, each counted as a line of HTTP/1.
pub const MOST_BYTES: usize = 16 * 1024;
/// The most trailers of one message; more are an error of the peer.
pub const MOST_FIELDS: usize = 64;

/// Checks that they are within the limit. `lengths`: of each name and value.
pub(crate) fn check_size(lengths: impl Iterator<Item = usize>) -> Result<(), ParseError> {
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

/// RFC 9110 section 6.5.1: framing, routing, authentication, content fields and modifiers of a request, and what servers take
/// for such. The one list, besides [`claims`].
#[rustfmt::skip]
const ELSEWHERE: &[&[u8]] = &[
    // Framing and connections.
    b"connection", b"content-length", b"http2-settings", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade",
    // Routing.
    b"cdn-loop", b"host", b"max-forwards", b"proxy", b"x-original-uri", b"x-original-url", b"x-rewrite-url",
    // Control of the request.
    b"cache-control", b"expect", b"grpc-timeout", b"if", b"pragma", b"range", b"x-http-method", b"x-http-method-override",
    b"x-method-override",
    // The sender.
    b"authorization", b"cookie", b"set-cookie", b"www-authenticate",
    // How the content is to be read.
    b"content-encoding", b"content-language", b"content-location", b"content-range", b"content-type",
];

/// All names with such a beginning, but for [`ALLOWED`].
const FAMILIES: [&[u8]; 2] = [b"if-", b"proxy-"];

/// RFC 9209 section 2: as a trailer it reports what went wrong later.
const ALLOWED: &[u8] = b"proxy-status";

/// Whether a field of this name may follow a body. Names are compared as [`claims`] are.
pub fn may_be_trailer(name: &[u8]) -> bool {
    let begins = |start: &&[u8]| name.get(..start.len()).is_some_and(|found| claims::same_name(found, start));
    let is_of_family = FAMILIES.iter().any(begins) && !claims::same_name(name, ALLOWED);
    !is_of_family && !ELSEWHERE.iter().any(|known| claims::same_name(name, known))
}

/// Removes fields that may not be in a client's trailers: claims (see [`claims`]), names with `_` where those are not
/// accepted or with other signs, and those that [`may_be_trailer`] excludes. Returns how many were claims, and how many
/// had such names.
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
            "If_Range",
            "Proxy-Authorization",
            "X-HTTP-Method-Override",
            "x_method_override",
            "Grpc-Timeout",
            "CDN-Loop",
            "Content_Encoding",
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
        assert_eq!(left(true), ("X-Sum a_b".to_owned(), (5, 0)));
        assert_eq!(left(false), ("X-Sum".to_owned(), (5, 4)));
    }
}
