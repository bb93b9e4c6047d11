//! What a cache holds: an answer, or the list of fields that answers to one key vary by.

use std::sync::Arc;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use md5::{Digest, Md5};
use tidegate_plugin_api::Request;

use crate::common::clock::unix_seconds;

/// Variants of one key. The oldest gives way, so a `Vary` by something like `User-Agent` stays bounded.
const MAX_VARIANTS: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Stored {
    CachedResponse(Arc<CachedResponse>),
    Variants(Arc<Variants>),
}

#[derive(Debug, PartialEq)]
pub(super) struct CachedResponse {
    pub status: u16,
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    pub body: Bytes,
    /// Seconds since 1970, when its age was 0: before it came here, if another cache had it.
    pub stored: f64,
    /// The age at which it stops being fresh.
    pub ttl: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Variants {
    /// Lower case, sorted.
    pub fields: Vec<String>,
    pub signatures: Vec<String>,
    pub expires: f64,
}

impl CachedResponse {
    pub(super) fn age(&self) -> f64 {
        unix_seconds() - self.stored
    }

    pub(crate) fn is_fresh(&self) -> bool {
        self.age() < self.ttl
    }

    pub(super) fn size(&self) -> usize {
        let fields: usize = self.headers.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
        self.body.len() + fields + 128
    }
}

/// No variant fits a request that spells one of its fields in another way.
#[derive(Debug, PartialEq)]
pub(super) struct Unclear;

impl Stored {
    pub(super) fn answer(self) -> Option<Arc<CachedResponse>> {
        match self {
            Stored::CachedResponse(answer) => Some(answer),
            Stored::Variants(_) => None,
        }
    }

    pub(super) fn size(&self) -> usize {
        match self {
            Stored::CachedResponse(answer) => answer.size(),
            Stored::Variants(variants) => 128 + variants.signatures.len() * 64 + variants.fields.len() * 32,
        }
    }
}

impl Variants {
    /// The list with one more signature, and the signatures that must go.
    pub(super) fn with(
        known: Option<&Variants>,
        fields: Vec<String>,
        signature: &str,
        ttl: f64,
    ) -> (Variants, Vec<String>) {
        let (mut signatures, mut gone) = match known {
            Some(known) if known.fields == fields => (known.signatures.clone(), Vec::new()),
            Some(known) => (Vec::new(), known.signatures.clone()),
            None => (Vec::new(), Vec::new()),
        };
        if !signatures.iter().any(|other| other == signature) {
            while signatures.len() >= MAX_VARIANTS {
                gone.push(signatures.remove(0));
            }
            signatures.push(signature.to_owned());
        }
        (Variants { fields, signatures, expires: unix_seconds() + ttl }, gone)
    }

    /// Names the variant that fits the request.
    pub(super) fn signature(fields: &[String], request: &Request) -> Result<String, Unclear> {
        if has_other_spelling(fields, request) {
            return Err(Unclear);
        }
        let mut digest = Md5::new();
        for field in fields {
            for value in request.head.headers.get_all(field) {
                digest.update(value);
                digest.update(b",");
            }
            digest.update(b"\0");
        }
        Ok(HEXLOWER.encode(&digest.finalize()))
    }
}

/// Whether the request has one of these fields as `X_A` for `X-A`, which WSGI, CGI and PHP read as the same. What the field says
/// then depends on who reads it, and so does the answer.
pub(super) fn has_other_spelling(fields: &[String], request: &Request) -> bool {
    fields.iter().any(|field| request.head.headers.has_other_spelling(field))
}

/// The key of an answer; the length in front keeps variants of one key apart from other keys.
pub(crate) fn base_key(key: &[u8]) -> Vec<u8> {
    let mut out = format!("{}:", key.len()).into_bytes();
    out.extend_from_slice(key);
    out
}

pub(crate) fn variant_key(key: &[u8], signature: &str) -> Vec<u8> {
    let mut out = base_key(key);
    out.extend_from_slice(b"::");
    out.extend_from_slice(signature.as_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request::request;

    #[test]
    fn variants_are_bounded_and_forget_other_fields() {
        let fields = vec!["accept".to_owned()];
        let mut known = Variants::default();
        for index in 0..=MAX_VARIANTS {
            let (next, gone) = Variants::with(Some(&known), fields.clone(), &index.to_string(), 1.0);
            if index == MAX_VARIANTS {
                assert_eq!(gone, ["0"]);
            }
            known = next;
        }
        assert_eq!(known.signatures.len(), MAX_VARIANTS);
        let (next, gone) = Variants::with(Some(&known), vec!["origin".to_owned()], "x", 1.0);
        assert_eq!((next.signatures.len(), gone.len()), (1, MAX_VARIANTS));
    }

    #[test]
    fn signatures_tell_values_apart() {
        let fields = vec!["accept".to_owned()];
        let of = |value: &str| {
            let head = format!("GET / HTTP/1.1\r\nHost: a\r\nAccept: {value}\r\n\r\n");
            Variants::signature(&fields, &request(&head)).expect("one spelling")
        };
        assert_eq!(of("a"), of("a"));
        assert_ne!(of("a"), of("b"));
    }
}
