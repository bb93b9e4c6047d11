//! How counts are written: numbers in as few bytes as they need (LEB128), texts behind their length, and a checksum over all.

/// Longest name of a route or consumer, in bytes.
pub(super) const LONGEST_NAME: usize = 128;

/// Finds what a disk or an editor has changed; not what is changed on purpose (FNV-1a).
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    }
    (hash ^ (hash >> 32)) as u32
}

pub(super) fn put(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads what [`put`] and [`put_text`] wrote. `None`: it was something else.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok().filter(|length| *length <= LONGEST_NAME)?;
        std::str::from_utf8(self.bytes(length)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        let mut out = Vec::new();
        numbers.iter().for_each(|number| put(&mut out, *number));
        put_text(&mut out, "naïve");
        let mut reader = Reader(&out);
        assert!(numbers.iter().all(|number| reader.number() == Some(*number)));
        assert_eq!(reader.text(), Some("naïve"));
        assert_eq!(reader.number(), None, "nothing is left");
        assert_eq!(Reader(&[0xff; 12]).number(), None, "no number is so long");
        assert_eq!(Reader(&[200, 1, b'a']).text(), None);
    }
}
