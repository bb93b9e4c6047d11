//! How an object lies in the database.
//!
//! Key: the kind's code, then the id. Value: a fixed head, then the object as JSON. Codes and the head are the
//! file format: they may grow, never change.

use std::{str, sync::Arc};

use tidegate_model::{Document, Kind, Object};

/// An object and when it expires, in milliseconds since 1970.
#[derive(Debug, PartialEq)]
pub struct Record {
    pub object: Object,
    pub expires_at_ms: Option<u64>,
}

/// created, modified, expires_at_ms (0: never), each a little-endian u64.
const HEAD_BYTES: usize = 24;

pub(super) fn key(kind: Kind, id: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + id.len());
    key.push(code(kind));
    key.extend_from_slice(id.as_bytes());
    key
}

/// `value` is what goes to the disk: the object's own, or its encrypted copy.
pub(super) fn encode(object: &Object, value: &str, expires_at_ms: Option<u64>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + value.len());
    for number in [object.created, object.modified, expires_at_ms.unwrap_or(0)] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.extend_from_slice(value.as_bytes());
    bytes
}

/// `None` when the bytes are not such a record.
pub(super) fn decode(key: &[u8], bytes: &[u8]) -> Option<Record> {
    let (code, id) = key.split_first()?;
    let kind = kind(*code)?;
    let (head, json) = bytes.split_at_checked(HEAD_BYTES)?;
    let number = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
    let expires = number(16)?;
    let object = Object {
        kind,
        id: Arc::from(str::from_utf8(id).ok()?),
        document: Document::parse(str::from_utf8(json).ok()?)?,
        created: number(0)?,
        modified: number(8)?,
        fault: None,
        unread: None,
    };
    Some(Record { object, expires_at_ms: (expires != 0).then_some(expires) })
}

pub(super) fn kind(code: u8) -> Option<Kind> {
    Kind::ALL.into_iter().find(|kind| self::code(*kind) == code)
}

pub(super) fn code(kind: Kind) -> u8 {
    match kind {
        Kind::Secret => 1,
        Kind::Proto => 2,
        Kind::Ssl => 3,
        Kind::Upstream => 4,
        Kind::Service => 5,
        Kind::PluginConfig => 6,
        Kind::ConsumerGroup => 7,
        Kind::Consumer => 8,
        Kind::Credential => 9,
        Kind::GlobalRule => 10,
        Kind::PluginMetadata => 11,
        Kind::Route => 12,
        Kind::StreamRoute => 13,
        Kind::GraphqlCostDecoration => 14,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn round_trip() {
        for kind in Kind::ALL {
            for expires_at_ms in [None, Some(7)] {
                let document = Document::new(&json!({"id": "a/b", "deep": [1, 2.5, null, "é"]}));
                let (created, modified) = (3, u64::MAX);
                let object =
                    Object { kind, id: "a/b".into(), document, created, modified, fault: None, unread: None };
                let bytes = encode(&object, object.document.text(), expires_at_ms);
                assert_eq!(decode(&key(kind, "a/b"), &bytes), Some(Record { object, expires_at_ms }));
            }
        }
    }

    #[test]
    fn rubbish_is_refused() {
        let good = key(Kind::Route, "1");
        for (key, bytes) in [
            (&[][..], &[0; 30][..]),
            (&[99, b'1'], &[0; 30]),
            (&good, &[0; 23]),
            (&good, &[0; 24]),
            (&[12, 0xff], b"000000000000000000000000{}"),
        ] {
            assert_eq!(decode(key, bytes), None, "{key:?} {bytes:?}");
        }
    }
}
