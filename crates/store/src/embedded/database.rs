//! The file in use: loading it, committing to it, opening it again after a failure.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};
use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata};
use tidegate_model::{Document, Object};

pub(super) use super::faults::damaged;
use super::{
    Hooks, copy,
    creation::{self, StoreFile},
    faults::unavailable,
    marker::{Marker, Progress},
    opening,
    record::{self, Record},
    tables::{COUNT_KEY, COUNTED_AT_KEY, FORMAT, FORMAT_KEY, META, OBJECTS, REVISION_KEY},
    user_table::UserWrites,
};
use tidegate_telemetry::{
    background::give_way,
    error_log::{Level, log},
};

use crate::{State, error::StoreError, history::Retention};

const MAX_DECODERS: usize = 4;
/// Fewer objects than this are not worth a thread.
const OBJECTS_PER_DECODER: usize = 250;

pub(super) struct Database {
    /// `None` while another process has the file. Closing it waits for its readers.
    redb: RwLock<Option<redb::Database>>,
    /// redb does nothing more after a failed write or read: the file has to be opened again.
    failing: AtomicBool,
    pub(super) marker: Marker,
    pub(super) path: PathBuf,
    pub(super) hooks: Hooks,
    pub(super) retention: Retention,
    pub(super) user_writes: UserWrites,
}

pub(super) struct Loaded {
    pub state: State,
    /// What was stored with a ttl.
    pub expiries: Vec<(u64, Object)>,
    pub is_new: bool,
    pub warnings: Vec<String>,
}

/// One change to commit: the object to store and when it expires, or the object to remove.
pub(super) enum Stored<'a> {
    Put { object: &'a Object, expires_at_ms: Option<u64> },
    Delete { object: &'a Object },
}

impl Drop for Database {
    fn drop(&mut self) {
        self.marker.end();
    }
}

impl Database {
    pub(super) fn open(
        path: &Path,
        hooks: Hooks,
        retention: Retention,
    ) -> Result<(Self, Loaded), StoreError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            fs::create_dir_all(folder).map_err(|error| {
                unavailable(format!("cannot create folder {} for the database: {error}", folder.display()))
            })?;
        }
        // redb checks much, but some damage makes it panic: that is an answer too.
        catch_unwind(AssertUnwindSafe(|| Self::open_file(path, hooks, retention)))
            .unwrap_or_else(|_| Err(damaged(path, "its pages contradict each other")))
    }

    fn open_file(path: &Path, hooks: Hooks, retention: Retention) -> Result<(Self, Loaded), StoreError> {
        let place = creation::inspect_path(path)?;
        let is_new = matches!(place, StoreFile::New);
        let (redb, repaired) = match place {
            StoreFile::Taken => opening::existing(path)?,
            StoreFile::New => {
                let made = creation::create(path, |file| opening::fresh(path, file)).map_err(unavailable)?;
                (made, None)
            }
        };
        opening::restrict(path);
        let (redb, marker) = (RwLock::new(Some(redb)), Marker::new(path));
        let (failing, path) = (AtomicBool::new(false), path.to_owned());
        let user_writes = UserWrites::default();
        let database = Self { redb, failing, marker, path, hooks, retention, user_writes };
        let mut loaded = database.load_all()?;
        loaded.is_new = is_new;
        loaded.warnings.extend(repaired);
        Ok((database, loaded))
    }

    /// What a file holds all of whose pages verify, without asking its marker.
    pub(super) fn whole(path: &Path) -> Result<Progress, StoreError> {
        creation::inspect_path(path)?;
        let (redb, _) = opening::existing(path)?;
        let (redb, marker) = (RwLock::new(Some(redb)), Marker::new(path));
        let (hooks, retention, failing) = (Hooks::default(), Retention::default(), AtomicBool::new(false));
        let (path, user_writes) = (path.to_owned(), UserWrites::default());
        let database = Self { redb, failing, marker, path, hooks, retention, user_writes };
        let path = database.path.as_path();
        let state = database.load()?.state;
        let (revision, objects) = (state.revision, state.all().count() as u64);
        let known = database.progress(revision, objects);
        let known = known.map_err(|error| damaged(path, &error.to_string()))?;
        Ok(known.unwrap_or(Progress { revision, objects, ..Progress::default() }))
    }

    /// Closes the file, so that another process can open it.
    pub(super) fn release(&self) {
        *self.redb.write() = None;
        self.failing.store(false, Relaxed);
        self.marker.end();
    }

    pub(crate) fn is_released(&self) -> bool {
        self.redb.read_recursive().is_none() && !self.is_failing()
    }

    /// Whether it takes no writes until [`Database::recover`] is through.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Relaxed)
    }

    pub(super) fn fail(&self) {
        self.failing.store(true, Relaxed);
    }

    /// Opens a file again that failed; what is in it now. Where the file is gone, the open one stays.
    pub(crate) fn recover(&self) -> Result<Loaded, StoreError> {
        let recover = || {
            creation::inspect_path(&self.path)?;
            // Readers of the history wait meanwhile. Closing a damaged file may panic.
            let mut redb = self.redb.write();
            let old = redb.take();
            let _ = catch_unwind(AssertUnwindSafe(|| drop(old)));
            let (opened, repaired) = opening::existing(&self.path)?;
            *redb = Some(opened);
            drop(redb);
            let mut loaded = self.load_all()?;
            // After a failed write there is always something to repair, and the failure has been reported.
            drop(repaired);
            loaded.warnings.clear();
            Ok(loaded)
        };
        let loaded = catch_unwind(AssertUnwindSafe(recover))
            .unwrap_or_else(|_| Err(damaged(&self.path, "its pages contradict each other")))?;
        self.failing.store(false, Relaxed);
        Ok(loaded)
    }

    /// Opens the file again; what is in it now.
    pub(super) fn resume(&self) -> Result<Loaded, StoreError> {
        catch_unwind(AssertUnwindSafe(|| self.open_again()))
            .unwrap_or_else(|_| Err(damaged(&self.path, "its pages contradict each other")))
    }

    fn open_again(&self) -> Result<Loaded, StoreError> {
        creation::inspect_path(&self.path)?;
        let (redb, repaired) = opening::existing(&self.path)?;
        *self.redb.write() = Some(redb);
        let mut loaded = self.load_all().inspect_err(|_| self.release())?;
        loaded.warnings.extend(repaired);
        for warning in &loaded.warnings {
            log(Level::Warn, format_args!("{warning}"));
        }
        Ok(loaded)
    }

    /// Keeps the file open as long as it is held.
    pub(super) fn opened(&self) -> Result<MappedRwLockReadGuard<'_, redb::Database>, redb::Error> {
        // Callers look first; redb's own word for a file that is not open.
        RwLockReadGuard::try_map(self.redb.read_recursive(), Option::as_ref)
            .map_err(|_| redb::Error::DatabaseAlreadyOpen)
    }

    /// Writes all changes, what the history says of them and the revision they lead to, with one fsync.
    pub(super) fn commit<'a>(
        &self,
        revision: u64,
        changes: impl Iterator<Item = Stored<'a>>,
        history: &[super::draft::Draft<'_>],
    ) -> Result<(), StoreError> {
        let commit = || {
            // A file without a name would take the write, and lose it at the next start.
            fs::metadata(&self.path).map_err(redb::Error::Io)?;
            self.try_commit(revision, changes, history)
        };
        let outcome = catch_unwind(AssertUnwindSafe(commit));
        let problem = match outcome {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "its pages contradict each other".to_owned(),
        };
        self.fail();
        let path = self.path.display();
        Err(unavailable(format!(
            "cannot write to database {path}: {problem}; check free space and permissions: writes resume as \
             soon as they succeed"
        )))
    }

    fn try_commit<'a>(
        &self,
        revision: u64,
        changes: impl Iterator<Item = Stored<'a>>,
        history: &[super::draft::Draft<'_>],
    ) -> Result<(), redb::Error> {
        let redb = self.opened()?;
        let transaction = redb.begin_write()?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for change in changes {
                match change {
                    Stored::Put { object, expires_at_ms } => {
                        let bytes = self.encode(object, expires_at_ms);
                        objects.insert(record::key(object.kind, &object.id).as_slice(), bytes.as_slice())?;
                    }
                    Stored::Delete { object } => {
                        objects.remove(record::key(object.kind, &object.id).as_slice())?;
                    }
                }
            }
            let mut meta = transaction.open_table(META)?;
            meta.insert(REVISION_KEY, revision)?;
            meta.insert(COUNT_KEY, objects.len()?)?;
            meta.insert(COUNTED_AT_KEY, revision)?;
        }
        give_way();
        self.append(&transaction, revision, history)?;
        give_way();
        self.finish(transaction)
    }

    /// With its secrets encrypted.
    pub(super) fn at_rest(&self, mut object: Object) -> Object {
        if let Some(document) = Document::parse(&self.hooks.text_of(&object)) {
            object.document = document;
        }
        object
    }

    fn encode(&self, object: &Object, expires_at_ms: Option<u64>) -> Vec<u8> {
        record::encode(object, &self.hooks.text_of(object), expires_at_ms)
    }

    fn load_all(&self) -> Result<Loaded, StoreError> {
        let mut loaded = self.load()?;
        let problem = |error: redb::Error| damaged(&self.path, &error.to_string());
        let (revision, objects) = (loaded.state.revision, loaded.state.all().count() as u64);
        let known = self.progress(revision, objects).map_err(problem)?;
        loaded.warnings.extend(self.marker.check(known, revision, objects)?);
        self.compare_with_copy(known.map(|known| known.identity), revision)?;
        let progress = match known {
            Some(known) => known,
            None => self.name().map_err(problem)?,
        };
        if let Err(error) = self.marker.begin(Progress { revision, objects, ..progress }) {
            let shown = self.path.display();
            loaded.warnings.push(format!(
                "cannot write beside {shown}: {error}; if it is lost or damaged, a start may not notice"
            ));
        }
        self.begin_history(revision).map_err(problem)?;
        Ok(loaded)
    }

    /// The copy is a second witness, where the marker was lost or is older than both: after a power loss it may be.
    fn compare_with_copy(&self, identity: Option<u128>, revision: u64) -> Result<(), StoreError> {
        let place = super::files::place(&self.path);
        let is_ahead = |head: &copy::Head| Some(head.identity) == identity && head.revision > revision;
        let ahead = copy::glance(&place).filter(is_ahead);
        // Only a whole copy is believed.
        let Some(ahead) = ahead.filter(|_| matches!(copy::read(&place), Ok(Some(_)))) else { return Ok(()) };
        let problem = format!(
            "it was rolled back: it holds revision {revision}, and {} holds revision {}",
            place.display(),
            ahead.revision
        );
        Err(damaged(&self.path, &problem))
    }

    /// What is in the file. A store has had its tables since it had its name: without them it is damaged, not new.
    fn load(&self) -> Result<Loaded, StoreError> {
        let problem = |error: redb::Error| damaged(&self.path, &error.to_string());
        let redb = self.opened().map_err(problem)?;
        let transaction = redb.begin_read().map_err(|error| problem(error.into()))?;
        let meta = transaction.open_table(META).map_err(|error| problem(error.into()))?;
        let number = |name: &str| -> Result<Option<u64>, StoreError> {
            Ok(meta.get(name).map_err(|error| problem(error.into()))?.map(|number| number.value()))
        };
        let required = |name: &str| -> Result<u64, StoreError> {
            number(name)?.ok_or_else(|| damaged(&self.path, &format!("its {name} is missing")))
        };
        let format = required(FORMAT_KEY)?;
        if format != FORMAT {
            let path = self.path.display();
            return Err(unavailable(format!(
                "database {path} has format {format}, this program reads {FORMAT}; use a newer program"
            )));
        }
        let revision = required(REVISION_KEY)?;
        let objects = transaction.open_table(OBJECTS).map_err(|error| problem(error.into()))?;
        let mut raw = Vec::new();
        for entry in objects.iter().map_err(|error| problem(error.into()))? {
            let (key, value) = entry.map_err(|error| problem(error.into()))?;
            raw.push((key.value().to_vec(), value.value().to_vec()));
        }
        if let Some(count) = number(COUNT_KEY)?
            && number(COUNTED_AT_KEY)? == Some(revision)
            && count != raw.len() as u64
        {
            return Err(damaged(&self.path, &format!("it has {} objects in place of {count}", raw.len())));
        }
        let mut loaded =
            Loaded { state: State::at(revision), expiries: Vec::new(), is_new: false, warnings: Vec::new() };
        for record in self.decode_all(&raw)? {
            if record.object.modified > revision {
                let (id, modified) = (&record.object.id, record.object.modified);
                let reason =
                    format!("object {id:?} is of revision {modified}, the whole of revision {revision}");
                return Err(damaged(&self.path, &reason));
            }
            if let Some(expires_at_ms) = record.expires_at_ms {
                loaded.expiries.push((expires_at_ms, record.object.clone()));
            }
            loaded.state.put(record.object);
        }
        Ok(loaded)
    }

    /// Parsing JSON is most of the time a start takes, so many objects are parsed by several threads.
    fn decode_all(&self, raw: &[(Vec<u8>, Vec<u8>)]) -> Result<Vec<Record>, StoreError> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(MAX_DECODERS);
        let share = raw.len().div_ceil(threads).max(OBJECTS_PER_DECODER);
        let decode = |part: &[(Vec<u8>, Vec<u8>)]| -> Result<Vec<Record>, StoreError> {
            part.iter().map(|(key, value)| self.decode(key, value)).collect()
        };
        if raw.len() <= share {
            return decode(raw);
        }
        let mut records = Vec::with_capacity(raw.len());
        thread::scope(|scope| {
            let parts: Vec<_> = raw.chunks(share).map(|part| scope.spawn(move || decode(part))).collect();
            for part in parts {
                let decoded =
                    part.join().map_err(|_| damaged(&self.path, "an object cannot be decrypted"))?;
                records.append(&mut decoded?);
            }
            Ok(records)
        })
    }

    pub(super) fn decode(&self, key: &[u8], value: &[u8]) -> Result<Record, StoreError> {
        let Some(record) = record::decode(key, value) else {
            let key = String::from_utf8_lossy(key.get(1..).unwrap_or_default());
            return Err(damaged(&self.path, &format!("the object with id {key:?} cannot be read")));
        };
        Ok(Record { object: self.hooks.open(record.object), ..record })
    }
}
