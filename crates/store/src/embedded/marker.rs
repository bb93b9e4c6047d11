//! The marker beside a store: that there is one, which one, and how far it was written.
//!
//! redb keeps two commits and silently takes the older one when the newer is damaged: right after a crash, and a rollback
//! of acknowledged writes where a disk lost bits. So every commit has a number, which the marker repeats after the commit
//! is durable and before it is acknowledged. The record is written in one piece over the old one, without fsync: it
//! survives the process, and after a power loss it can only be older than the store, which is not a reason for an alarm. A
//! store that is behind its marker has lost what was acknowledged.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, ErrorKind, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::HEXLOWER;
use parking_lot::Mutex;
use tidegate_telemetry::error_log::{Level, log};

use super::{
    faults::{damaged, unavailable},
    files::{marker, sync_folder},
};
use crate::error::StoreError;

const NAME: &str = "tidegate-store 1";
/// Hexadecimal digits of SHA-256 that a record ends with.
const CHECK_DIGITS: usize = 32;

/// How far a store was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Progress {
    /// Chosen at random for each store.
    pub identity: u128,
    /// Counts the commits, also those that change no object.
    pub commit: u64,
    pub revision: u64,
    pub objects: u64,
}

pub(crate) struct Marker {
    path: PathBuf,
    /// `None` while there is no marker to write to.
    open: Mutex<Option<Open>>,
}

struct Open {
    file: File,
    identity: u128,
    commit: u64,
    /// Whether a failure was logged already.
    failing: bool,
}

/// What lies at the marker's place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// Of a program that left no record.
    WithoutRecord,
    Record(Progress),
}

impl Marker {
    pub(super) fn new(database: &Path) -> Self {
        Self { path: database.to_owned(), open: Mutex::new(None) }
    }

    /// Compares a store with its marker; returns a warning where there is nothing to compare it with. The error names
    /// both and the remedy.
    pub(super) fn check(
        &self,
        store: Option<Progress>,
        revision: u64,
        objects: u64,
    ) -> Result<Option<String>, StoreError> {
        let (shown, marker) = (self.path.display(), marker(&self.path));
        let marker = marker.display();
        let told = match self.read().map_err(unavailable)? {
            Found::Record(told) => told,
            Found::WithoutRecord => return Ok(None),
            Found::Nothing => {
                return Ok(store.filter(|store| store.commit > 1).map(|_| {
                    format!(
                        "{marker} is missing, so it is unknown whether {shown} is the newest state of this \
                         gateway; using it as it is, revision {revision} with {objects} objects"
                    )
                }));
            }
        };
        let Some(store) = store.filter(|store| store.identity == told.identity) else {
            return Err(unavailable(format!(
                "database {shown} is not the one that {marker} was written for (revision {revision} with \
                 {objects} objects instead of revision {} with {}); put the right one back, or move {marker} \
                 away to take this \
                 one as it is",
                told.revision, told.objects
            )));
        };
        if store.commit < told.commit || revision < told.revision {
            return Err(damaged(
                &self.path,
                &format!(
                    "it was rolled back: it holds revision {revision} with {objects} objects (commit {}), \
                     but {marker} records revision {} with {} (commit {}) as acknowledged",
                    store.commit, told.revision, told.objects, told.commit
                ),
            ));
        }
        if revision == told.revision && objects != told.objects {
            let problem = format!(
                "it has {objects} objects at revision {revision}, but {marker} records {}",
                told.objects
            );
            return Err(damaged(&self.path, &problem));
        }
        Ok(None)
    }

    pub(super) fn read(&self) -> Result<Found, String> {
        let marker = marker(&self.path);
        let problem = match fs::read(&marker) {
            Ok(bytes) if bytes == prose(&self.path).as_bytes() => return Ok(Found::WithoutRecord),
            Ok(bytes) => match decode(&bytes) {
                Some(progress) => return Ok(Found::Record(progress)),
                None => "its first line is damaged".to_owned(),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(error) => error.to_string(),
        };
        let (marker, shown) = (marker.display(), self.path.display());
        Err(format!(
            "{marker} cannot be read ({problem}), so it is unknown whether database {shown} is complete; \
             restore both \
             from one backup, or move {marker} away to take the database as it is"
        ))
    }

    /// Begins to write, for a store that is good. Makes the marker, durable before it returns, where there is none.
    pub(super) fn begin(&self, progress: Progress) -> io::Result<()> {
        let marker = marker(&self.path);
        if !matches!(self.read(), Ok(Found::Record(_))) {
            self.make(&marker, progress)?;
        }
        let file = File::options().write(true).open(&marker)?;
        // Where nothing is new the time of the newest commit stays as well.
        if self.read() != Ok(Found::Record(progress)) {
            file.write_all_at(encode(progress).as_bytes(), 0)?;
        }
        let Progress { identity, commit, .. } = progress;
        *self.open.lock() = Some(Open { file, identity, commit, failing: false });
        Ok(())
    }

    /// Of the store, while it is open and its marker can be written.
    pub(super) fn identity(&self) -> Option<u128> {
        self.open.lock().as_ref().map(|open| open.identity)
    }

    /// Makes the record durable. Called where no write waits for it, so that the record is rarely much older than
    /// the store.
    pub(super) fn sync(&self) {
        let file = self.open.lock().as_ref().and_then(|open| open.file.try_clone().ok());
        if let Some(file) = file {
            let _ = file.sync_data();
        }
    }

    /// When the newest commit was recorded, in milliseconds since 1970.
    pub(crate) fn recorded_ms(&self) -> Option<u64> {
        let time = fs::metadata(marker(&self.path)).and_then(|found| found.modified()).ok()?;
        let since = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        u64::try_from(since.as_millis()).ok()
    }

    /// Starts over for a store that takes the place of another one.
    pub(super) fn replace(&self, progress: Progress) -> io::Result<()> {
        self.make(&marker(&self.path), progress)
    }

    /// It has its name when it is whole.
    fn make(&self, marker: &Path, progress: Progress) -> io::Result<()> {
        let mut unfinished = marker.as_os_str().to_owned();
        unfinished.push(".new");
        let mut file =
            File::options().write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        file.write_all(encode(progress).as_bytes())?;
        file.write_all(prose(&self.path).as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, marker)?;
        sync_folder(marker)
    }

    /// After a commit is durable, before it is acknowledged. A failure is logged once: the commit itself stands.
    pub(super) fn record(&self, progress: Progress) {
        let mut open = self.open.lock();
        // Commits of two threads may come here in either order.
        let Some(open) = open.as_mut().filter(|open| open.commit < progress.commit) else { return };
        open.commit = progress.commit;
        let outcome = open.file.write_all_at(encode(progress).as_bytes(), 0);
        if let Err(error) = &outcome
            && !open.failing
        {
            let marker = marker(&self.path);
            let text = format!(
                "cannot write to {}: {error}; until that works, a damaged database may go unnoticed",
                marker.display()
            );
            log(Level::Error, format_args!("{text}"));
        }
        open.failing = outcome.is_err();
    }

    /// Durable, and written to no more: the store is closed.
    pub(super) fn end(&self) {
        let open = self.open.lock().take();
        if let Some(open) = open {
            // What is not durable is older, and that is allowed.
            let _ = open.file.sync_data();
        }
    }
}

fn prose(database: &Path) -> String {
    let marker = marker(database);
    let own = marker.file_name().unwrap_or_default().to_string_lossy();
    let database = database.file_name().unwrap_or_default().to_string_lossy();
    format!(
        "{database} holds the configuration of this gateway. As long as {own} exists, a start without a good\n\
         {database} fails: it would serve an empty configuration. To start with an empty configuration on purpose,\n\
         move both files away.\n"
    )
}

/// Every record has the same length, so that it can be written over another.
fn encode(progress: Progress) -> String {
    let Progress { identity, commit, revision, objects } = progress;
    let mut line = format!(
        "{NAME} identity {identity:032x} commit {commit:020} revision {revision:020} objects {objects:020}"
    );
    let check = check_digits(&line);
    let _ = writeln!(line, " check {check}");
    line
}

fn decode(bytes: &[u8]) -> Option<Progress> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let line = str::from_utf8(bytes.get(..end)?).ok()?;
    let (told, check) = line.rsplit_once(" check ")?;
    if check != check_digits(told) {
        return None;
    }
    let mut words = told.strip_prefix(NAME)?.split_ascii_whitespace();
    let mut field = |name: &str| (words.next() == Some(name)).then(|| words.next()).flatten();
    Some(Progress {
        identity: u128::from_str_radix(field("identity")?, 16).ok()?,
        commit: field("commit")?.parse().ok()?,
        revision: field("revision")?.parse().ok()?,
        objects: field("objects")?.parse().ok()?,
    })
}

fn check_digits(text: &str) -> String {
    let mut digits = HEXLOWER.encode(digest(&SHA256, text.as_bytes()).as_ref());
    digits.truncate(CHECK_DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_bit_of_a_record_is_noticed() {
        let progress = Progress { identity: u128::MAX / 3, commit: 7, revision: u64::MAX, objects: 50_000 };
        let line = encode(progress);
        assert_eq!(line.len(), encode(Progress::default()).len());
        assert_eq!(decode(line.as_bytes()), Some(progress));
        for bit in 0..line.len() * 8 {
            let mut damaged = line.clone().into_bytes();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&damaged), None, "bit {bit}");
        }
        for length in 0..line.len() {
            assert_eq!(decode(&line.as_bytes()[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn what_is_behind_or_another_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidegate.redb");
        let marker = Marker::new(&path);
        let now = Progress { identity: 5, commit: 10, revision: 8, objects: 3 };
        marker.begin(now).unwrap();
        let check = |store: Progress| marker.check(Some(store), store.revision, store.objects);
        for (store, words) in [
            (now, None),
            (Progress { commit: 11, revision: 9, objects: 2, ..now }, None),
            (Progress { commit: 9, ..now }, Some("rolled back")),
            (Progress { revision: 7, ..now }, Some("rolled back")),
            (Progress { objects: 2, ..now }, Some("it has 2 objects")),
            (Progress { identity: 6, commit: 99, revision: 99, ..now }, Some("is not the one")),
        ] {
            match (check(store), words) {
                (Ok(None), None) => {}
                (Err(error), Some(words)) => assert!(error.to_string().contains(words), "{error}"),
                (outcome, _) => panic!("{store:?}: {outcome:?}"),
            }
        }
        assert!(marker.check(None, 8, 3).is_err(), "a store without identity is another one");
        // Commits of two threads: the later one stays.
        marker.record(Progress { commit: 12, ..now });
        marker.record(Progress { commit: 11, ..now });
        assert_eq!(marker.read(), Ok(Found::Record(Progress { commit: 12, ..now })));
    }
}
