//! The signature of a request, as the service's documentation has it (version "sha1"). Neither header fields nor arguments
//! are signed.

use aws_lc_rs::{
    digest::{SHA1_FOR_LEGACY_USE_ONLY, digest},
    hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, Key, sign},
};
use data_encoding::HEXLOWER;

/// Where structured logs go.
pub(super) const PATH: &str = "/structuredlog";

/// Seconds for which a signature holds.
const VALID: i64 = 60;

/// The `Authorization` of a POST at a time, in seconds since 1970.
pub(super) fn authorization(secret_id: &str, secret_key: &str, now: i64) -> String {
    let times = format!("{now};{}", now + VALID);
    let request = format!("post\n{PATH}\n\n\n");
    let hash = HEXLOWER.encode(digest(&SHA1_FOR_LEGACY_USE_ONLY, request.as_bytes()).as_ref());
    let key = hmac(secret_key, &times);
    let signature = hmac(&key, &format!("sha1\n{times}\n{hash}\n"));
    format!(
        "q-sign-algorithm=sha1&q-ak={secret_id}&q-sign-time={times}&q-key-time={times}\
         &q-header-list=&q-url-param-list=&q-signature={signature}"
    )
}

fn hmac(key: &str, text: &str) -> String {
    let key = Key::new(HMAC_SHA1_FOR_LEGACY_USE_ONLY, key.as_bytes());
    HEXLOWER.encode(sign(&key, text.as_bytes()).as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The signature was computed with OpenSSL.
    #[test]
    fn a_known_signature() {
        assert_eq!(
            authorization("id", "key", 1_700_000_000),
            "q-sign-algorithm=sha1&q-ak=id&q-sign-time=1700000000;1700000060&q-key-time=1700000000;1700000060\
             &q-header-list=&q-url-param-list=&q-signature=cea1921f990ea9532fdb1c0c71222a6402681f3c"
        );
    }
}
