//! Where events end in a stream (HTML Living Standard, section 9.2.6): at an empty line, if there was data before it.

const DATA: &[u8] = b"data";

#[derive(Debug, Default)]
pub(crate) struct EventReader {
    /// The beginning of the line at hand, which holds the name of its field.
    begin: [u8; 5],
    length: usize,
    has_data: bool,
    /// The last byte was a CR, which ends a line with or without an LF.
    after_cr: bool,
}

impl EventReader {
    /// How many events end in these bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) -> u64 {
        let mut events = 0;
        for &byte in bytes {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                continue;
            }
            self.after_cr = byte == b'\r';
            if byte == b'\r' || byte == b'\n' {
                events += u64::from(self.end_line());
                continue;
            }
            if let Some(place) = self.begin.get_mut(self.length) {
                *place = byte;
            }
            // Beyond the name the length says nothing.
            self.length = (self.length + 1).min(self.begin.len() + 1);
        }
        events
    }

    /// Whether an event ends with the line.
    fn end_line(&mut self) -> bool {
        let length = std::mem::take(&mut self.length);
        if length == 0 {
            return std::mem::take(&mut self.has_data);
        }
        let line = self.begin.get(..length.min(self.begin.len())).unwrap_or_default();
        self.has_data |= line == DATA || (line.starts_with(DATA) && line.ends_with(b":"));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_end_at_empty_lines_however_they_are_cut() {
        let check = |text: &str, expected: u64| {
            for size in 1..=text.len() {
                let mut reader = EventReader::default();
                let found: u64 = text.as_bytes().chunks(size).map(|part| reader.take(part)).sum();
                assert_eq!(found, expected, "{text:?} by {size}");
            }
        };
        check("data: a\n\ndata: b\n\n", 2);
        check("data: a\r\n\r\nid: 1\r\ndata\r\n\r\n", 2);
        check("data:a\r\rdata:b\rdata:c\r\r", 2);
        // Comments, events without data, an event without its end.
        check(": ping\n\n\nevent: x\n\ndatabase: 1\n\ndata: half\n", 0);
    }
}
