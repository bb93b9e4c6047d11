//! Writes messages of the runner's protocol: a byte for the kind, three for the length, and a FlatBuffer.

use super::table::Entry;

/// The most that three bytes count.
pub(super) const MOST_BYTES: usize = (1 << 24) - 1;

/// Kind and length.
pub(super) const HEAD: usize = 4;

/// A field of a table, by its number in the list.
pub(super) enum Field<'a> {
    Absent,
    U8(u8),
    U16(u16),
    U32(u32),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    Entries(&'a [Entry<'a>]),
}

impl Field<'_> {
    /// Bytes within the table.
    fn width(&self) -> usize {
        match self {
            Field::Absent => 0,
            Field::U8(_) => 1,
            Field::U16(_) => 2,
            Field::U32(_) | Field::Text(_) | Field::Bytes(_) | Field::Entries(_) => 4,
        }
    }
}

pub(super) struct Frame(Vec<u8>);

impl Frame {
    /// The error is the length of a message that is too long.
    pub(super) fn new(kind: u8, fields: &[Field]) -> Result<Frame, usize> {
        let mut out = Vec::with_capacity(1024);
        out.extend([kind, 0, 0, 0]);
        // Offsets are relative, and the head is as long as a number: places may be counted from it.
        out.extend([0; 4]);
        let root = table(&mut out, fields);
        write_offset(&mut out, HEAD, root);
        let length = out.len() - HEAD;
        if length > MOST_BYTES {
            return Err(length);
        }
        let [_, lengths @ ..] = (length as u32).to_be_bytes();
        out.splice(1..HEAD, lengths);
        Ok(Frame(out))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Fills in the offset at one place that leads to another.
fn write_offset(out: &mut [u8], from: usize, to: usize) {
    let offset = u32::try_from(to - from).unwrap_or_default().to_le_bytes();
    if let Some(place) = out.get_mut(from..from + offset.len()) {
        place.copy_from_slice(&offset);
    }
}

fn align(out: &mut Vec<u8>, to: usize) {
    out.resize(out.len().next_multiple_of(to), 0);
}

/// Appends a table, and what its fields lead to. Where it is.
fn table(out: &mut Vec<u8>, fields: &[Field]) -> usize {
    let list_bytes = 4 + 2 * fields.len();
    // The table comes next, and has its place at a multiple of four.
    align(out, 4);
    if !list_bytes.is_multiple_of(4) {
        out.extend([0; 2]);
    }
    let list = out.len();
    out.resize(list + list_bytes, 0);
    let at = out.len();
    out.extend(u32::try_from(at - list).unwrap_or_default().to_le_bytes());
    let mut later = Vec::new();
    // Wide fields first: each is at a multiple of its width.
    for width in [4, 2, 1] {
        for (number, field) in fields.iter().enumerate().filter(|(_, field)| field.width() == width) {
            let place = out.len();
            let offset = u16::try_from(place - at).unwrap_or_default().to_le_bytes();
            let entry = list + 4 + 2 * number;
            out.splice(entry..entry + 2, offset);
            match field {
                Field::Absent => {}
                Field::U8(value) => out.push(*value),
                Field::U16(value) => out.extend(value.to_le_bytes()),
                Field::U32(value) => out.extend(value.to_le_bytes()),
                Field::Text(_) | Field::Bytes(_) | Field::Entries(_) => {
                    out.extend([0; 4]);
                    later.push((place, field));
                }
            }
        }
    }
    let sizes =
        [list_bytes, out.len() - at].map(|size| u16::try_from(size).unwrap_or_default().to_le_bytes());
    out.splice(list..list + 4, sizes.concat());
    for (place, field) in later {
        align(out, 4);
        let start = out.len();
        write_offset(out, place, start);
        match field {
            Field::Text(text) => {
                bytes(out, text);
                out.push(0);
            }
            Field::Bytes(list) => bytes(out, list),
            Field::Entries(list) => entries(out, list),
            Field::Absent | Field::U8(_) | Field::U16(_) | Field::U32(_) => {}
        }
    }
    align(out, 4);
    at
}

fn count(out: &mut Vec<u8>, count: usize) {
    out.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    count(out, bytes.len());
    out.extend(bytes);
}

fn entries(out: &mut Vec<u8>, list: &[Entry]) {
    count(out, list.len());
    let first = out.len();
    out.resize(first + 4 * list.len(), 0);
    for (number, entry) in list.iter().enumerate() {
        let value = entry.value.map_or(Field::Absent, Field::Text);
        let at = table(out, &[Field::Text(entry.name), value]);
        write_offset(out, first + 4 * number, at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_of_a_message() {
        let frame = Frame::new(1, &[Field::Absent, Field::Text(b"key")]).expect("short");
        let expected: &[u8] = &[
            1, 0, 0, 28, // kind and length
            12, 0, 0, 0, // the table
            8, 0, 8, 0, 0, 0, 4, 0, // the list, the table's length, two offsets
            8, 0, 0, 0, 4, 0, 0, 0, // back to the list; the text
            3, 0, 0, 0, b'k', b'e', b'y', 0,
        ];
        assert_eq!(frame.bytes(), expected);
        assert!(Frame::new(1, &[Field::Bytes(&vec![0; MOST_BYTES])]).is_err());
    }
}
