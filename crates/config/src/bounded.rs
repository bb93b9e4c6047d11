//! Files that a user names: no device that never ends fills the memory.

use std::{
    fs,
    io::{self, Read},
    path::Path,
};

/// No configuration is larger.
const MAX_BYTES: u64 = 64 << 20;

/// Reads a text of at most 64 MiB. Pipes are read to their end, so that a shell's `<(command)` works.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read(path)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

/// As [`read_text`], whatever the bytes are.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {} MiB", MAX_BYTES >> 20),
        )),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_ends_is_an_error() {
        let reason = read_text(Path::new("/dev/zero")).expect_err("too much").to_string();
        assert_eq!(reason, "it has more than 64 MiB");
        assert_eq!(read_text(Path::new("/dev/null")).expect("a text"), "");
    }
}
