//! Messages of protobuf, written by hand: a dozen fields do not need generated code.

pub(crate) fn number(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3, out);
    varint(value, out);
}

/// Eight bytes: a `fixed64` or the bits of a `double`.
pub(crate) fn fixed(field: u64, value: u64, out: &mut Vec<u8>) {
    varint(field << 3 | 1, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// A message, or bytes.
pub(crate) fn message(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    varint(field << 3 | 2, out);
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

pub(crate) fn text(field: u64, value: &str, out: &mut Vec<u8>) {
    message(field, value.as_bytes(), out);
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_fields() {
        let mut out = Vec::new();
        number(1, 300, &mut out);
        text(2, "a", &mut out);
        fixed(3, 1, &mut out);
        assert_eq!(out, [0x08, 0xac, 0x02, 0x12, 1, b'a', 0x19, 1, 0, 0, 0, 0, 0, 0, 0]);
    }
}
