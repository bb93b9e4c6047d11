//! Hessian 2, as far as calls with a map need it: maps of texts and bytes are written, any value is read, and what is neither
//! text nor bytes is passed over.

/// Values within values.
const DEEPEST: usize = 32;
/// UTF-16 units, or bytes, in a piece of a longer one.
const PIECE: usize = 0x8000;

/// A value that was read.
#[derive(Debug, PartialEq)]
pub(super) enum Value {
    Text(Vec<u8>),
    Bytes(Vec<u8>),
    /// Entries whose keys are texts.
    Map(Vec<(Vec<u8>, Value)>),
    Null,
    Other,
}

pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    let units: Vec<u16> = text.encode_utf16().collect();
    let mut pieces = units.chunks(PIECE).peekable();
    while let Some(piece) = pieces.next() {
        write_length(out, piece.len(), pieces.peek().is_some(), [0x00, 0x30, b'R', b'S']);
        for unit in piece {
            write_unit(out, *unit);
        }
    }
    if units.is_empty() {
        out.push(0);
    }
}

pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let mut pieces = bytes.chunks(PIECE).peekable();
    while let Some(piece) = pieces.next() {
        write_length(out, piece.len(), pieces.peek().is_some(), [0x20, 0x34, b'A', b'B']);
        out.extend_from_slice(piece);
    }
    if bytes.is_empty() {
        out.push(0x20);
    }
}

/// Codes for short ones, for those up to 1023, for pieces, and for the last.
fn write_length(out: &mut Vec<u8>, length: usize, goes_on: bool, [short, middle, piece, last]: [u8; 4]) {
    let [.., high, low] = length.to_be_bytes();
    // Bytes have room for 16 short lengths, texts for 32.
    let shortest = if short == 0 { 32 } else { 16 };
    match length {
        _ if goes_on => out.extend([piece, high, low]),
        0..1024 if length < shortest => out.push(short + low),
        0..1024 => out.extend([middle + high, low]),
        _ => out.extend([last, high, low]),
    }
}

/// Halves of a surrogate pair are written one by one.
fn write_unit(out: &mut Vec<u8>, unit: u16) {
    let [high, low] = unit.to_be_bytes();
    match unit {
        0..0x80 => out.push(low),
        0x80..0x800 => out.extend([0xc0 | high << 2 | low >> 6, 0x80 | low & 0x3f]),
        _ => out.extend([0xe0 | high >> 4, 0x80 | (high << 2 | low >> 6) & 0x3f, 0x80 | low & 0x3f]),
    }
}

/// Reads values one after the other. `None`: it is not Hessian, or too deep.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// How many fields objects of each class have.
    classes: Vec<usize>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(data: &'a [u8]) -> Reader<'a> {
        Reader { rest: data, classes: Vec::new() }
    }

    pub(super) fn value(&mut self) -> Option<Value> {
        self.value_at(0)
    }

    /// An integer of a single byte: what an answer is.
    pub(super) fn small(&mut self) -> Option<u8> {
        self.byte()?.checked_sub(0x90)
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    fn length(&mut self) -> Option<usize> {
        let bytes = self.take(2)?;
        Some(bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    fn other(&mut self, length: usize) -> Option<Value> {
        self.take(length).map(|_| Value::Other)
    }

    fn value_at(&mut self, depth: usize) -> Option<Value> {
        if depth > DEEPEST {
            return None;
        }
        let code = self.byte()?;
        match code {
            b'N' => Some(Value::Null),
            b'T' | b'F' | 0x80..=0xbf | 0xd8..=0xef | 0x5b | 0x5c => Some(Value::Other),
            0xc0..=0xcf | 0xf0..=0xff | 0x5d => self.other(1),
            0xd0..=0xd7 | 0x38..=0x3f | 0x5e => self.other(2),
            b'I' | 0x59 | 0x5f | 0x4b => self.other(4),
            b'L' | b'D' | 0x4a => self.other(8),
            0x51 => self.value_at(depth + 1).map(|_| Value::Other),
            0x00..=0x1f | 0x30..=0x33 | b'R' | b'S' => self.text(code).map(Value::Text),
            0x20..=0x2f | 0x34..=0x37 | b'A' | b'B' => self.bytes(code).map(Value::Bytes),
            b'H' => self.map(depth),
            b'M' => {
                self.kind(depth)?;
                self.map(depth)
            }
            b'C' => {
                self.value_at(depth + 1)?;
                let count = self.integer()?;
                for _ in 0..count {
                    self.value_at(depth + 1)?;
                }
                self.classes.push(count);
                self.value_at(depth + 1)
            }
            b'O' => {
                let class = self.integer()?;
                self.object(class, depth)
            }
            0x60..=0x6f => self.object(usize::from(code - 0x60), depth),
            _ => self.list(code, depth),
        }
    }

    fn list(&mut self, code: u8, depth: usize) -> Option<Value> {
        let typed = matches!(code, 0x55 | 0x56 | 0x70..=0x77);
        if typed {
            self.kind(depth)?;
        }
        let count = match code {
            0x55 | 0x57 => None,
            0x56 | 0x58 => Some(self.integer()?),
            0x70..=0x77 => Some(usize::from(code - 0x70)),
            0x78..=0x7f => Some(usize::from(code - 0x78)),
            _ => return None,
        };
        match count {
            Some(count) => {
                for _ in 0..count {
                    self.value_at(depth + 1)?;
                }
            }
            None => {
                while self.rest.first() != Some(&b'Z') {
                    self.value_at(depth + 1)?;
                }
                self.byte()?;
            }
        }
        Some(Value::Other)
    }

    fn object(&mut self, class: usize, depth: usize) -> Option<Value> {
        for _ in 0..*self.classes.get(class)? {
            self.value_at(depth + 1)?;
        }
        Some(Value::Other)
    }

    /// The name of a type, or its number.
    fn kind(&mut self, depth: usize) -> Option<()> {
        self.value_at(depth + 1).map(drop)
    }

    fn integer(&mut self) -> Option<usize> {
        let code = self.byte()?;
        match code {
            0x90..=0xbf => Some(usize::from(code - 0x90)),
            0xc8..=0xcf => Some(usize::from(code - 0xc8) << 8 | usize::from(self.byte()?)),
            0xd4..=0xd7 => Some(usize::from(code - 0xd4) << 16 | self.length()?),
            b'I' => usize::try_from(i32::from_be_bytes(*self.take(4)?.first_chunk()?)).ok(),
            _ => None,
        }
    }

    fn map(&mut self, depth: usize) -> Option<Value> {
        let mut entries = Vec::new();
        while self.rest.first() != Some(&b'Z') {
            let key = self.value_at(depth + 1)?;
            let value = self.value_at(depth + 1)?;
            if let Value::Text(key) = key {
                entries.push((key, value));
            }
        }
        self.byte()?;
        Some(Value::Map(entries))
    }

    fn bytes(&mut self, mut code: u8) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        loop {
            let length = match code {
                0x20..=0x2f => usize::from(code - 0x20),
                0x34..=0x37 => usize::from(code - 0x34) << 8 | usize::from(self.byte()?),
                b'A' | b'B' => self.length()?,
                _ => return None,
            };
            bytes.extend_from_slice(self.take(length)?);
            if code != b'A' {
                return Some(bytes);
            }
            code = self.byte()?;
        }
    }

    fn text(&mut self, mut code: u8) -> Option<Vec<u8>> {
        let mut units = Vec::new();
        loop {
            let length = match code {
                0x00..=0x1f => usize::from(code),
                0x30..=0x33 => usize::from(code - 0x30) << 8 | usize::from(self.byte()?),
                b'R' | b'S' => self.length()?,
                _ => return None,
            };
            let end = units.len() + length;
            while units.len() < end {
                self.units(&mut units)?;
            }
            if code != b'R' {
                return Some(String::from_utf16_lossy(&units).into_bytes());
            }
            code = self.byte()?;
        }
    }

    /// A character: one unit, or two where it is written as UTF-8 has it.
    fn units(&mut self, units: &mut Vec<u16>) -> Option<()> {
        let first = self.byte()?;
        let (more, start) = match first {
            0..0x80 => (0, first),
            0xc0..0xe0 => (1, first & 0x1f),
            0xe0..0xf0 => (2, first & 0x0f),
            0xf0..0xf8 => (3, first & 0x07),
            _ => return None,
        };
        let rest = self.take(more)?;
        let sign = rest.iter().fold(u32::from(start), |sign, byte| sign << 6 | u32::from(byte & 0x3f));
        match u16::try_from(sign) {
            Ok(unit) => units.push(unit),
            Err(_) => units.extend_from_slice(char::from_u32(sign)?.encode_utf16(&mut [0; 2])),
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_bytes_come_back() {
        for text in [
            "",
            "a",
            &"x".repeat(31),
            &"y".repeat(32),
            "größer \u{1f980}",
            &"z".repeat(1023),
            &"ä".repeat(40_000),
            &"\u{1f980}".repeat(33_000),
        ] {
            let mut out = Vec::new();
            write_text(&mut out, text);
            assert_eq!(
                Reader::new(&out).value(),
                Some(Value::Text(text.as_bytes().to_vec())),
                "{}",
                text.len()
            );
            let mut out = Vec::new();
            write_bytes(&mut out, text.as_bytes());
            assert_eq!(
                Reader::new(&out).value(),
                Some(Value::Bytes(text.as_bytes().to_vec())),
                "{}",
                text.len()
            );
        }
        let mut out = Vec::new();
        write_text(&mut out, "hello");
        assert_eq!(out, b"\x05hello", "as in the specification");
    }

    #[test]
    fn what_is_not_needed_is_passed_over() {
        let mut data = vec![b'H'];
        let values: [&[u8]; 19] = [
            b"N",
            b"T",
            b"\x90",
            b"\xc8\x00",
            b"\xd4\x00\x00",
            b"I\x00\x00\x00\x01",
            b"\xe0",
            b"L\0\0\0\0\0\0\0\x01",
            b"\x5b",
            b"D\0\0\0\0\0\0\0\0",
            b"\x4a\0\0\0\0\0\0\0\0",
            b"\x51\x90",
            b"\x79\x90",
            b"\x57\x90\x91Z",
            b"\x58\x91\x90",
            b"\x71\x01a\x90",
            b"V\x01a\x91\x90",
            b"M\x01t\x01k\x90Z",
            b"C\x01c\x92\x01a\x01b\x60\x90\x91",
        ];
        for value in values {
            write_text(&mut data, "k");
            data.extend_from_slice(value);
        }
        write_text(&mut data, "last");
        write_text(&mut data, "text");
        data.push(b'Z');
        let Some(Value::Map(entries)) = Reader::new(&data).value() else { panic!("a map") };
        assert_eq!(entries.len(), values.len() + 1);
        assert_eq!(entries.last(), Some(&(b"last".to_vec(), Value::Text(b"text".to_vec()))));
        for cut in 0..data.len() {
            assert_eq!(Reader::new(&data[..cut]).value(), None, "{cut}");
        }
    }

    #[test]
    fn depth_and_counts_are_bounded() {
        assert_eq!(Reader::new(&[0x51; 100]).value(), None);
        assert_eq!(Reader::new(b"\x58I\x7f\xff\xff\xff").value(), None);
        assert_eq!(Reader::new(b"\x60").value(), None, "no such class");
        assert_eq!(Reader::new(b"C\x01c\xffx").value(), None);
    }
}
