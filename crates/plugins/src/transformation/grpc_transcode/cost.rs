//! What a message takes when it is read and written as JSON, found by a walk over its bytes: a list of numbers takes a
//! byte for each there, and a hundred here.

use prost_reflect::{Kind, MessageDescriptor, Value as Field};
use serde_json::Value;

/// A value in a list that doubles, and the same as JSON.
const VALUE_BYTES: usize = 2 * (size_of::<Field>() + size_of::<Value>());
/// A message beside its fields, and its object.
const MESSAGE_BYTES: usize = 256;
/// A text is there as it came, as a value and in the answer, where it may be escaped.
const TEXT_TIMES: usize = 4;

/// Messages nest no deeper, or they are not read.
const MAX_DEPTH: usize = 100;

/// Bytes, about. What is not a message counts as far as it is one.
pub(super) fn of(descriptor: &MessageDescriptor, mut bytes: &[u8], depth: usize) -> usize {
    let mut cost = MESSAGE_BYTES;
    while let Some(tag) = varint(&mut bytes) {
        let field = u32::try_from(tag >> 3).ok().and_then(|number| descriptor.get_field(number));
        let kind = field.map(|field| field.kind());
        cost += VALUE_BYTES;
        let length = match tag & 7 {
            0 => {
                varint(&mut bytes);
                continue;
            }
            1 => 8,
            5 => 4,
            2 => varint(&mut bytes).and_then(|length| usize::try_from(length).ok()).unwrap_or(usize::MAX),
            // Groups: their fields count as ours.
            _ => continue,
        };
        let Some((inner, rest)) = bytes.split_at_checked(length) else { break };
        bytes = rest;
        if tag & 7 == 2 {
            cost = cost.saturating_add(match kind {
                Some(Kind::Message(inside)) if depth < MAX_DEPTH => of(&inside, inner, depth + 1),
                Some(Kind::String | Kind::Bytes | Kind::Message(_)) | None => TEXT_TIMES * inner.len(),
                Some(Kind::Double | Kind::Fixed64 | Kind::Sfixed64) => inner.len() / 8 * VALUE_BYTES,
                Some(Kind::Float | Kind::Fixed32 | Kind::Sfixed32) => inner.len() / 4 * VALUE_BYTES,
                Some(_) => inner.iter().filter(|byte| **byte < 0x80).count() * VALUE_BYTES,
            });
        }
    }
    cost
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_packed_lists_and_messages_count() {
        let proto = "syntax = \"proto3\"; message M { repeated int32 n = 1; repeated M m = 2; string s = 3; repeated fixed32 f = 4; }
                     service S { rpc Get (M) returns (M); }";
        let compiled = super::super::proto::compile(proto).unwrap();
        let message = compiled.method("S", "Get").unwrap().output();
        let check = |bytes: &[u8], values: usize, messages: usize, text: usize| {
            let expected = values * VALUE_BYTES + messages * MESSAGE_BYTES + text * TEXT_TIMES;
            assert_eq!(of(&message, bytes, 0), expected, "{bytes:?}");
        };
        check(&[], 0, 1, 0);
        check(&[0x0a, 4, 1, 1, 0x80, 1], 1 + 3, 1, 0);
        check(&[0x08, 5, 0x08, 6], 2, 1, 0);
        check(&[0x12, 2, 0x08, 1, 0x12, 0], 3, 3, 0);
        check(&[0x1a, 3, b'a', b'b', b'c'], 1, 1, 3);
        check(&[0x22, 8, 0, 0, 0, 0, 0, 0, 0, 0], 1 + 2, 1, 0);
        // Cut, and no message at all.
        check(&[0x0a, 9, 1], 1, 1, 0);
        check(&[0xff; 12], 0, 1, 0);
    }
}
