//! Where messages end in a stream of bytes that is cut anywhere.

/// A flag and a length stand before each message.
const PREFIX: usize = 5;

#[derive(Debug, Default)]
pub(crate) struct Messages {
    prefix: [u8; PREFIX],
    /// Bytes of the prefix that are there.
    have: usize,
    /// Bytes of the message that are missing.
    missing: usize,
}

impl Messages {
    /// How many messages end in these bytes.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<u64, &'static str> {
        let mut whole = 0;
        loop {
            while self.have < PREFIX {
                let Some((&byte, rest)) = bytes.split_first() else { return Ok(whole) };
                if let Some(place) = self.prefix.get_mut(self.have) {
                    *place = byte;
                }
                (self.have, bytes) = (self.have + 1, rest);
                if self.have == PREFIX {
                    let [flag, a, b, c, d] = self.prefix;
                    if flag > 1 {
                        return Err("a message begins with neither 0 nor 1");
                    }
                    self.missing = u32::from_be_bytes([a, b, c, d]) as usize;
                }
            }
            let taken = self.missing.min(bytes.len());
            self.missing -= taken;
            bytes = bytes.get(taken..).unwrap_or_default();
            if self.missing > 0 {
                return Ok(whole);
            }
            (self.have, whole) = (0, whole + 1);
        }
    }

    /// Whether no message is half there.
    pub(crate) fn is_between(&self) -> bool {
        self.have == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_however_they_are_cut() {
        let stream = [&[0, 0, 0, 0, 3][..], b"abc", &[1, 0, 0, 0, 0], &[0, 0, 0, 1, 0], &[7; 256]].concat();
        for size in 1..=stream.len() {
            let mut messages = Messages::default();
            let whole: u64 = stream.chunks(size).map(|part| messages.take(part).expect("good")).sum();
            assert_eq!((whole, messages.is_between()), (3, true), "{size}");
        }
        let mut messages = Messages::default();
        assert_eq!((messages.take(&stream[..7]), messages.is_between()), (Ok(0), false));
        assert!(Messages::default().take(&[2, 0, 0, 0, 0]).is_err());
    }
}
