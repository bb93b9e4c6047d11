//! Answers, however they are cut and nested. Only what tells which call they end is kept of them.

use smallvec::SmallVec;

/// The longest line: an error or a status.
const LINE_BYTES: usize = 64 * 1024;

/// Deeper answers are not read.
const MOST_DEPTH: usize = 64;

/// What is kept of a text; the names of messages are shorter.
const TEXT_BYTES: usize = 16;

/// An answer.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reply {
    /// Values in it; `None`: it is a value itself.
    pub count: Option<u64>,
    /// It may come at any time (RESP 3).
    pub is_push: bool,
    /// The beginning of its first value.
    first: SmallVec<[u8; TEXT_BYTES]>,
    /// Its third value, if it is a number.
    pub third: Option<i64>,
}

impl Reply {
    /// `subscribe`, `message` and so on; `None` for an answer that is not a message of channels.
    pub(super) fn message_kind(&self) -> Option<&'static [u8]> {
        const KINDS: [&[u8]; 9] = [
            b"subscribe",
            b"psubscribe",
            b"ssubscribe",
            b"unsubscribe",
            b"punsubscribe",
            b"sunsubscribe",
            b"message",
            b"pmessage",
            b"smessage",
        ];
        matches!(self.count, Some(3 | 4)).then_some(())?;
        KINDS.into_iter().find(|kind| *kind == &*self.first)
    }
}

#[derive(Default)]
pub(super) struct Replies {
    line: Vec<u8>,
    /// Bytes of a text that are still to come, with the end of its line.
    left: u64,
    /// Values that are still to come, of each list around the next one.
    open: SmallVec<[u64; 4]>,
    reply: Reply,
}

impl Replies {
    /// Reads to the end of an answer, or of the bytes; returns how many of them.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<(usize, Option<Reply>), String> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let is_value = if self.left > 0 { self.read_text(&mut rest) } else { self.read_line(&mut rest)? };
            if is_value && self.end_value() {
                return Ok((bytes.len() - rest.len(), Some(std::mem::take(&mut self.reply))));
            }
        }
        Ok((bytes.len(), None))
    }

    /// Whether a text ends.
    fn read_text(&mut self, rest: &mut &[u8]) -> bool {
        let taken = rest.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let (text, others) = rest.split_at(taken);
        if self.is_place(0) {
            let of_text = usize::try_from(self.left.saturating_sub(2)).unwrap_or(usize::MAX).min(taken);
            let room = (TEXT_BYTES - self.reply.first.len().min(TEXT_BYTES)).min(of_text);
            self.reply.first.extend_from_slice(text.get(..room).unwrap_or_default());
        }
        (self.left, *rest) = (self.left - taken as u64, others);
        self.left == 0
    }

    /// Whether the next value is this one of the answer's own.
    fn is_place(&self, place: u64) -> bool {
        let count = self.reply.count.unwrap_or(0);
        matches!(self.open.as_slice(), [left] if count.checked_sub(*left) == Some(place))
    }

    /// Whether a value ends with the line.
    fn read_line(&mut self, rest: &mut &[u8]) -> Result<bool, String> {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (line, others) = rest.split_at(end.map_or(rest.len(), |end| end + 1));
        *rest = others;
        if self.line.len() + line.len() > LINE_BYTES {
            return Err("line too long".to_owned());
        }
        self.line.extend_from_slice(line);
        if end.is_none() {
            return Ok(false);
        }
        let line = std::mem::take(&mut self.line);
        let is_value = self.take_line(line.trim_ascii_end());
        self.line = line;
        self.line.clear();
        // A long one leaves no memory behind.
        self.line.shrink_to(256);
        is_value
    }

    fn take_line(&mut self, line: &[u8]) -> Result<bool, String> {
        let Some((sign, text)) = line.split_first() else { return Err("line too short".to_owned()) };
        let number = || {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse::<i64>().ok());
            number.ok_or_else(|| format!("invalid len string: \"{}\"", String::from_utf8_lossy(text)))
        };
        match sign {
            b'+' | b'-' | b'_' | b',' | b'#' | b'(' => {
                if self.is_place(0) {
                    self.reply.first.extend_from_slice(text.get(..TEXT_BYTES).unwrap_or(text));
                }
                Ok(true)
            }
            b':' => {
                if self.is_place(2) {
                    self.reply.third = number().ok();
                }
                Ok(true)
            }
            b'$' | b'!' | b'=' => {
                let length = number()?;
                self.left = u64::try_from(length).map_or(0, |length| length.saturating_add(2));
                Ok(self.left == 0)
            }
            b'*' | b'~' | b'>' => self.open_list(*sign, number()?, 1),
            b'%' => self.open_list(*sign, number()?, 2),
            // Goes before the answer that it is about.
            b'|' => self.open_list(*sign, number()?, 2).map(|_| false),
            _ => Err(format!("unknown prefix: \"{}\"", char::from(*sign))),
        }
    }

    /// Whether it is complete.
    fn open_list(&mut self, sign: u8, count: i64, values: u64) -> Result<bool, String> {
        let count = u64::try_from(count).unwrap_or(0).saturating_mul(values);
        if self.open.len() >= MOST_DEPTH {
            return Err("nested too deep".to_owned());
        }
        if self.open.is_empty() && sign != b'|' {
            (self.reply.count, self.reply.is_push) = (Some(count), sign == b'>');
        }
        if sign == b'|' {
            // Its values, and the one that it is about, take one place.
            self.open.push(count.saturating_add(1));
            return Ok(false);
        }
        if count > 0 {
            self.open.push(count);
        }
        Ok(count == 0)
    }

    /// Whether the answer ends with the value.
    fn end_value(&mut self) -> bool {
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.open.pop();
        }
        true
    }
}
