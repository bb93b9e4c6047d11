//! An open file to which whole lines are appended. If a write ends in the middle of a line, the next one writes the rest
//! first, so that no half line stays between others once there is room again.

use std::fs::File;
use std::io::{self, ErrorKind, Write};

#[derive(Debug)]
pub(super) struct Appending<F = File> {
    file: F,
    /// The rest of a partly written line, which is counted as lost.
    rest: Vec<u8>,
}

impl<F: Write> Appending<F> {
    pub(super) fn new(file: F) -> Appending<F> {
        Appending { file, rest: Vec::new() }
    }

    /// Writes whole lines. The error: how many of them are lost, and why.
    pub(super) fn write(&mut self, lines: &[u8]) -> Result<(), (u64, io::Error)> {
        let lost = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).count() as u64;
        let rest = std::mem::take(&mut self.rest);
        if let Err((written, error)) = self.put(&rest) {
            self.rest = rest.get(written..).unwrap_or_default().to_vec();
            return Err((lost(lines), error));
        }
        self.put(lines).map_err(|(written, error)| {
            let (before, after) = lines.split_at(written.min(lines.len()));
            if before.last().is_some_and(|byte| *byte != b'\n') {
                let end = memchr::memchr(b'\n', after).map_or(after.len(), |end| end + 1);
                self.rest = after.get(..end).unwrap_or_default().to_vec();
            }
            (lost(after), error)
        })
    }

    /// The error: how many bytes were written before it.
    fn put(&mut self, bytes: &[u8]) -> Result<(), (usize, io::Error)> {
        let mut written = 0;
        while let Some(left) = bytes.get(written..).filter(|left| !left.is_empty()) {
            match self.file.write(left) {
                Ok(0) => return Err((written, ErrorKind::WriteZero.into())),
                Ok(count) => written += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err((written, error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with so much room.
    struct Small {
        text: Vec<u8>,
        room: usize,
    }

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let count = bytes.len().min(self.room);
            if count == 0 {
                return Err(ErrorKind::StorageFull.into());
            }
            self.room -= count;
            self.text.extend_from_slice(&bytes[..count]);
            Ok(count)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_that_were_cut_are_completed_first() {
        let mut file = Appending::new(Small { text: Vec::new(), room: 0 });
        let mut write = |room: usize, lines: &str| {
            file.file.room += room;
            let lost = file.write(lines.as_bytes()).map_or_else(|(lost, _)| lost, |()| 0);
            (lost, String::from_utf8_lossy(&file.file.text).into_owned())
        };
        assert_eq!(write(7, "one\ntwo\nthree\n"), (2, "one\ntwo".into()));
        assert_eq!(write(0, "four\n"), (1, "one\ntwo".into()));
        assert_eq!(write(1, "five\n"), (1, "one\ntwo\n".into()), "completed, and then it is full");
        assert_eq!(write(3, "six\nseven\n"), (2, "one\ntwo\nsix".into()));
        assert_eq!(write(90, "eight\n"), (0, "one\ntwo\nsix\neight\n".into()));
        assert_eq!(write(0, ""), (0, "one\ntwo\nsix\neight\n".into()));
    }
}
