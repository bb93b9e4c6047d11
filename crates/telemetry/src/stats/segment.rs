//! Files that records are appended to, each for a fixed part of the time.
//!
//! ```text
//! magic, then for each record: length (4 bytes), checksum (4 bytes), the record
//! ```
//!
//! A process that is killed leaves half a record at the end at most, which the next one cuts off. Anything else that does not fit is damage.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use super::{
    level::Period,
    record::{self, Names},
    wire::checksum,
};
use crate::background::give_way;

pub(super) const MAGIC: &[u8] = b"tidegate stats 1";

/// No file of ours is longer.
const LONGEST: u64 = 8 << 20;

/// The whole of a file.
pub(super) fn contents(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(LONGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn damaged(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_owned())
}

/// Shows each record. Returns the names of the file, and the bytes of its whole records.
pub(super) fn read(bytes: &[u8], mut visit: impl FnMut(Period)) -> io::Result<(Names, u64)> {
    let mut names = Names::default();
    let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
        // Killed before it was written.
        let is_begun = MAGIC.starts_with(bytes);
        return if is_begun { Ok((names, 0)) } else { Err(damaged("it does not begin as such a file does")) };
    };
    while let Some((head, after)) = rest.split_first_chunk::<8>() {
        let [a, b, c, d, sum @ ..] = *head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length as u64 > LONGEST {
            return Err(damaged("a record is too long"));
        }
        let Some((record, after)) = after.split_at_checked(length) else { break };
        if u32::from_le_bytes(sum) != checksum(record) {
            return Err(damaged("a checksum is wrong"));
        }
        visit(record::read(record, &mut names).ok_or_else(|| damaged("a record cannot be read"))?);
        rest = after;
        give_way();
    }
    Ok((names, (bytes.len() - rest.len()) as u64))
}

/// The file that records are appended to now.
#[derive(Debug)]
pub(super) struct Appending {
    pub path: PathBuf,
    file: File,
    names: Names,
    length: u64,
}

impl Appending {
    /// Makes the file, or goes on with it.
    pub(super) fn open(path: PathBuf) -> io::Result<Appending> {
        let mut file = File::options().read(true).write(true).create(true).truncate(false).open(&path)?;
        let mut bytes = Vec::new();
        (&mut file).take(LONGEST).read_to_end(&mut bytes)?;
        let (names, mut length) = read(&bytes, |_| ())?;
        if length == 0 {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(MAGIC)?;
            length = MAGIC.len() as u64;
        }
        file.set_len(length)?;
        Ok(Appending { path, file, names, length })
    }

    /// All of it, or nothing.
    pub(super) fn append(&mut self, period: &Period) -> io::Result<()> {
        let known = self.names.len();
        let record = record::write(period, &mut self.names);
        let mut bytes = Vec::with_capacity(record.len() + 8);
        bytes.extend_from_slice(&(record.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&checksum(&record).to_le_bytes());
        bytes.extend_from_slice(&record);
        let written = self.file.seek(SeekFrom::Start(self.length)).and_then(|_| self.file.write_all(&bytes));
        match written {
            Ok(()) => self.length += bytes.len() as u64,
            Err(_) => {
                self.names.truncate(known);
                // Fails where the disk does; then the next record is written over it.
                let _ = self.file.set_len(self.length);
            }
        }
        written
    }
}

/// Replaces a file, so that there is the old or the new one whenever the process is killed.
pub(super) fn replace(path: &Path, payload: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    let mut bytes = Vec::with_capacity(payload.len() + MAGIC.len() + 4);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&checksum(payload).to_le_bytes());
    bytes.extend_from_slice(payload);
    fs::write(&new, bytes)?;
    fs::rename(new, path)
}

/// What [`replace`] wrote.
pub(super) fn payload(bytes: &[u8]) -> io::Result<&[u8]> {
    let rest = bytes.strip_prefix(MAGIC).and_then(|rest| rest.split_first_chunk::<4>());
    let (sum, payload) = rest.ok_or_else(|| damaged("it does not begin as such a file does"))?;
    match u32::from_le_bytes(*sum) == checksum(payload) {
        true => Ok(payload),
        false => Err(damaged("its checksum is wrong")),
    }
}

#[cfg(test)]
mod tests {
    use super::{super::record::tests::busy, *};

    #[test]
    fn half_a_record_is_cut_off_and_damage_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("minutes-0");
        let mut file = Appending::open(path.clone()).expect("made");
        for minute in 0..3 {
            file.append(&busy(minute * 60, 5)).expect("written");
        }
        let whole = contents(&path).expect("read");
        let starts = |bytes: &[u8]| {
            let mut starts = Vec::new();
            read(bytes, |period| starts.push(period.start)).map(|_| starts)
        };
        assert_eq!(starts(&whole).expect("read"), [0, 60, 120]);
        fs::write(&path, &whole[..whole.len() - 3]).expect("written");
        let mut file = Appending::open(path.clone()).expect("opened");
        file.append(&busy(180, 6)).expect("written");
        assert_eq!(starts(&contents(&path).expect("read")).expect("read"), [0, 60, 180]);
        let mut damaged = whole;
        damaged[MAGIC.len() + 20] ^= 1;
        assert!(starts(&damaged).is_err());
        assert!(starts(b"something else").is_err());
        assert!(starts(&MAGIC[..4]).expect("begun").is_empty());
    }
}
