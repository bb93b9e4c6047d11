//! Files that a user names: no device that never ends fills the memory.

use std::{
    fs,
    io::{self, ErrorKind, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{OFlags, Timespec},
};

/// No configuration is larger.
const MAX_BYTES: u64 = 64 << 20;
/// What a pipe's writer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads a text of at most 64 MiB. Pipes are read to their end, so that a shell's `<(command)` works; one without a writer is
/// empty, and one whose writer writes nothing for 10 s an error.
pub fn read_text(path: &Path) -> io::Result<String> {
    let bytes = read(path)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "stream did not contain valid UTF-8"))
}

/// As [`read_text`], whatever the bytes are.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut file = open(path)?.take(MAX_BYTES + 1);
    let mut deadline = Instant::now() + PATIENCE;
    loop {
        let had = bytes.len();
        match file.read_to_end(&mut bytes) {
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                // What came before it would block stays in the buffer.
                if bytes.len() > had {
                    deadline = Instant::now() + PATIENCE;
                }
                wait(file.get_ref(), deadline)?;
            }
            Err(error) => return Err(error),
        }
    }
    match bytes.len() as u64 > MAX_BYTES {
        true => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has more than {} MiB", MAX_BYTES >> 20),
        )),
        false => Ok(bytes),
    }
}

/// A named pipe is opened whether it has a writer or not.
pub fn open(path: &Path) -> io::Result<fs::File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

fn wait(pipe: &fs::File, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(io::Error::other)?;
    match poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&left))? {
        0 => Err(io::Error::new(ErrorKind::TimedOut, "it is a pipe whose writer writes nothing")),
        _ => Ok(()),
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

    #[test]
    fn pipes_are_read_to_their_end() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        let written = std::thread::spawn(move || {
            for _ in 0..40 {
                io::Write::write_all(&mut writer, &[b'a'; 10_000]).expect("written");
                std::thread::yield_now();
            }
        });
        assert_eq!(read_text(Path::new(&path)).expect("a text").len(), 400_000);
        written.join().expect("ended");
    }

    #[test]
    fn a_named_pipe_without_a_writer_is_empty() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).expect("a pipe");
        assert_eq!(read_text(&path).expect("a text"), "");
    }
}
