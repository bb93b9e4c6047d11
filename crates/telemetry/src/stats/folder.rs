//! The files of the figures: `now`, which is replaced every few seconds, and files of minutes and of ten minutes, which grow.
//!
//! One process at a time has them: a successor gets them when its predecessor ends.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rustix::fs::{FlockOperation, flock};

use super::{
    level::Period,
    now::Now,
    segment::{self, Appending},
};
use crate::error_log::{self, Level as LogLevel};

/// All files together may have so many bytes; the oldest minutes go first.
pub(super) const MOST_BYTES: u64 = 30 << 20;

const NOW: &str = "now";

/// Which periods a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Minutes,
    TenMinutes,
}

impl Kind {
    pub(super) const ALL: [Kind; 2] = [Kind::Minutes, Kind::TenMinutes];

    fn prefix(self) -> &'static str {
        match self {
            Kind::Minutes => "minutes-",
            Kind::TenMinutes => "ten-minutes-",
        }
    }

    /// The time that one file has, in seconds.
    fn span(self) -> u64 {
        match self {
            Kind::Minutes => 3600,
            Kind::TenMinutes => 86_400,
        }
    }

    /// Files that are kept: those of 24 hours, or 7 days, and the one that is begun.
    fn most(self) -> usize {
        match self {
            Kind::Minutes => 25,
            Kind::TenMinutes => 8,
        }
    }
}

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Held for as long as the process has the folder.
    _lock: File,
    appending: [Option<Appending>; 2],
}

impl Folder {
    /// `None`: another process has it.
    pub(super) fn open(path: &Path) -> io::Result<Option<Folder>> {
        fs::create_dir_all(path)?;
        let lock = File::options().write(true).create(true).truncate(false).open(path.join("lock"))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Folder { path: path.to_owned(), _lock: lock, appending: [None, None] })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Names of files of a kind with the times that they begin with, the oldest first.
    fn files(&self, kind: Kind) -> Vec<(u64, PathBuf)> {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let mut files: Vec<(u64, PathBuf)> = entries
            .filter_map(|entry| {
                let name = entry.file_name();
                let start = name.to_str()?.strip_prefix(kind.prefix())?.parse().ok()?;
                Some((start, entry.path()))
            })
            .collect();
        files.sort_unstable();
        files
    }

    /// Files of a kind with periods of this time, to be read without the folder.
    pub(super) fn files_within(&self, kind: Kind, from: u64, to: u64) -> Vec<PathBuf> {
        let files = self.files(kind).into_iter();
        let within = files.filter(|(start, _)| *start < to && start.saturating_add(kind.span()) > from);
        within.map(|(_, path)| path).collect()
    }

    /// All periods of a kind; what is damaged is set aside.
    pub(super) fn load(&self, kind: Kind, mut visit: impl FnMut(Period)) {
        for (_, path) in self.files(kind) {
            let mut periods = Vec::new();
            match segment::contents(&path)
                .and_then(|bytes| segment::read(&bytes, |one| periods.push((one.start, one.count))))
            {
                Ok(_) => periods
                    .into_iter()
                    .for_each(|(start, count)| visit(Period { count, ..Period::at(start) })),
                Err(error) => set_aside(&path, &error),
            }
        }
    }

    pub(super) fn load_now(&self) -> Option<Now> {
        let path = self.path.join(NOW);
        let read = |bytes: &[u8]| {
            let unreadable = || io::Error::new(io::ErrorKind::InvalidData, "it cannot be read");
            Now::read(segment::payload(bytes)?).ok_or_else(unreadable)
        };
        match segment::contents(&path).and_then(|bytes| read(&bytes)) {
            Ok(now) => Some(now),
            Err(error) => {
                if error.kind() != io::ErrorKind::NotFound {
                    set_aside(&path, &error);
                }
                None
            }
        }
    }

    pub(super) fn save_now(&self, payload: &[u8]) -> io::Result<()> {
        segment::replace(&self.path.join(NOW), payload)
    }

    /// Appends to the file of its time, and removes files that are too old or too many.
    pub(super) fn append(&mut self, kind: Kind, period: &Period) -> io::Result<()> {
        let start = period.start - period.start % kind.span();
        let path = self.path.join(format!("{}{start}", kind.prefix()));
        let place = &mut self.appending[kind as usize];
        if place.as_ref().is_none_or(|open| open.path != path) {
            *place = None;
            let opened = match Appending::open(path.clone()) {
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    set_aside(&path, &error);
                    Appending::open(path)
                }
                opened => opened,
            };
            *place = Some(opened?);
            self.remove_old();
        }
        match &mut self.appending[kind as usize] {
            Some(open) => open.append(period),
            None => Ok(()),
        }
    }

    fn remove_old(&self) {
        let mut files = Kind::ALL.map(|kind| self.files(kind));
        for (kind, files) in Kind::ALL.into_iter().zip(&mut files) {
            for (_, path) in files.drain(..files.len().saturating_sub(kind.most())) {
                let _ = fs::remove_file(path);
            }
        }
        let size = |path: &PathBuf| fs::metadata(path).map_or(0, |found| found.len());
        let mut bytes: u64 = files.iter().flatten().map(|(_, path)| size(path)).sum();
        for (_, path) in files.iter().flatten() {
            // Room for what the two files that are written to may become.
            if bytes <= MOST_BYTES - (2 << 20) {
                return;
            }
            bytes -= size(path);
            let _ = fs::remove_file(path);
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
    }
}

/// Keeps a damaged file for the operator, in place of the one before.
pub(super) fn set_aside(path: &Path, error: &io::Error) {
    if error.kind() == io::ErrorKind::NotFound {
        return;
    }
    let aside = path.with_file_name("damaged");
    let renamed = fs::rename(path, &aside);
    error_log::log(
        LogLevel::Warn,
        format_args!(
            "{}: {error}; {}; figures of its time are missing in the console",
            path.display(),
            match renamed {
                Ok(()) => format!("it is set aside as {}", aside.display()),
                Err(error) => format!("it cannot be set aside: {error}"),
            }
        ),
    );
}
