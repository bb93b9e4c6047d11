//! Values in Protocol Buffers as they are written (https://protobuf.dev/programming-guides/encoding).

use super::records::Record;

/// One record of an answer.
pub(super) fn write_record(out: &mut Vec<u8>, record: &Record<'_>) {
    let mut body = Vec::with_capacity(48);
    write_number(&mut body, 1, record.offset);
    write_number(&mut body, 2, record.timestamp);
    let parts = [(3, record.key), (4, record.value)];
    let length: usize = parts.iter().filter_map(|(_, part)| *part).map(bytes_length).sum();
    write_tag(out, 1, 2);
    write_varint(out, (body.len() + length) as u64);
    out.extend_from_slice(&body);
    for (number, part) in parts {
        write_bytes(out, number, part.unwrap_or_default());
    }
}

/// With the tag, which has one byte. What is empty is left out.
fn bytes_length(bytes: &[u8]) -> usize {
    if bytes.is_empty() { 0 } else { 1 + varint_length(bytes.len() as u64) + bytes.len() }
}

fn varint_length(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

pub(super) fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(super) fn write_tag(out: &mut Vec<u8>, number: u64, kind: u64) {
    write_varint(out, number << 3 | kind);
}

/// Defaults are left out.
pub(super) fn write_number(out: &mut Vec<u8>, number: u64, value: i64) {
    if value != 0 {
        write_tag(out, number, 0);
        write_varint(out, value as u64);
    }
}

pub(super) fn write_bytes(out: &mut Vec<u8>, number: u64, value: &[u8]) {
    if !value.is_empty() {
        write_tag(out, number, 2);
        write_varint(out, value.len() as u64);
        out.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records() {
        let mut out = Vec::new();
        write_record(&mut out, &Record { offset: 1, timestamp: 0, key: None, value: Some(b"v") });
        assert_eq!(out, [0x0a, 5, 0x08, 1, 0x22, 1, b'v']);
        assert_eq!([0, 127, 128, u64::MAX].map(varint_length), [1, 1, 2, 10]);
    }
}
