//! A body in a file: which parts of it go to the client, and how to read it without waiting for the disk.

use std::{
    fs::File,
    io::{self, IoSliceMut},
    os::unix::fs::FileExt,
    sync::Arc,
};

use bytes::Bytes;
use rustix::io::{Errno, ReadWriteFlags};

/// The kernel reads pages of a file into memory in runs of at least this, so one byte of each run shows whether
/// the rest is there.
const PROBE_STEP: u64 = 64 * 1024;

/// How a worker learns whether the bytes of a file are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Residence {
    /// The file system is memory (tmpfs).
    Always,
    /// The kernel answers when asked (preadv2 with RWF_NOWAIT).
    Asked,
    /// The file system does not know: everything is read by the disk threads first.
    Unknown,
}

/// A body that the request path reads from a file, with sendfile where nothing stands between.
#[derive(Clone, Debug)]
pub struct FileBody {
    /// Open for reading; the position is not used.
    pub file: Arc<File>,
    /// How to find out which bytes are in memory.
    pub residence: Residence,
    /// Sent one after the other.
    pub parts: Vec<Part>,
}

/// A piece of such a body.
#[derive(Clone, Debug)]
pub enum Part {
    /// From memory, as the head of a part of `multipart/byteranges`.
    Bytes(Bytes),
    /// From the file.
    File {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
}

impl FileBody {
    /// Bytes of all parts.
    pub fn length(&self) -> u64 {
        self.parts.iter().map(Part::length).sum()
    }
}

impl Part {
    /// Bytes of this part.
    pub fn length(&self) -> u64 {
        match self {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::File { length, .. } => *length,
        }
    }
}

impl Residence {
    /// Asks the file system once, when a file is opened. Reads a byte: for the disk threads.
    pub fn of(file: &File) -> Residence {
        const TMPFS: u64 = 0x0102_1994;
        const RAMFS: u64 = 0x8584_58f6;
        let kind = rustix::fs::fstatfs(file).map_or(0, |found| found.f_type as u64);
        if matches!(kind, TMPFS | RAMFS) {
            return Residence::Always;
        }
        match read_now(file, &mut [0], 0) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Residence::Unknown,
            _ => Residence::Asked,
        }
    }

    /// Whether these bytes can be sent without waiting for the disk, as far as one can know.
    pub fn is_resident(self, file: &File, offset: u64, length: u64) -> bool {
        let end = offset.saturating_add(length);
        let here = |at: u64| read_now(file, &mut [0], at).is_ok();
        match self {
            Residence::Always => true,
            Residence::Unknown => false,
            Residence::Asked => {
                let mut at = offset;
                while at < end {
                    if !here(at) {
                        return false;
                    }
                    at = at.saturating_add(PROBE_STEP);
                }
                length == 0 || here(end - 1)
            }
        }
    }

    /// Reads what is in memory; `WouldBlock`: the disk threads must.
    pub fn read(self, file: &File, room: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Residence::Always => file.read_at(room, offset),
            Residence::Asked => read_now(file, room, offset),
            Residence::Unknown => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

fn read_now(file: &File, room: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match rustix::io::preadv2(file, &mut [IoSliceMut::new(room)], offset, ReadWriteFlags::NOWAIT) {
            Err(Errno::INTR) => {}
            other => return other.map_err(io::Error::from),
        }
    }
}

/// Brings bytes of a file into memory. Waits for the disk.
pub fn fetch(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let mut scratch = vec![0; 64 * 1024];
    let (mut at, end) = (offset, offset.saturating_add(length));
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(usize::MAX).min(scratch.len());
        let room = scratch.get_mut(..wanted).unwrap_or_default();
        match file.read_at(room, at) {
            Ok(0) => return Ok(()),
            Ok(count) => at += count as u64,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn bytes_that_were_just_written_are_resident() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[7; 200_000]).unwrap();
        let residence = Residence::of(&file);
        let known = residence != Residence::Unknown;
        assert_eq!(residence.is_resident(&file, 0, 200_000), known);
        assert_eq!(residence.is_resident(&file, 10, 0), known);
        let mut room = [0; 10];
        match residence.read(&file, &mut room, 199_995) {
            Ok(count) => assert_eq!((count, room[4]), (5, 7)),
            Err(error) => assert_eq!((known, error.kind()), (false, io::ErrorKind::WouldBlock)),
        }
        fetch(&file, 0, 1_000_000).unwrap();
    }
}
