//! A store that is damaged or lost, rebuilt from what is left: by a person, while no gateway has it open.
//!
//! What was there stays, under another name. A damaged file is not searched for objects: a value that lost a bit looks
//! like any other. Either the whole file verifies, and was only rolled back, or the copy beside it is used.

use std::{
    fs::{self, File, TryLockError},
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use super::{
    Hooks,
    copy::{self, Head, Kept, User},
    creation::{StoreFile, inspect_path},
    database::Database,
    expiries::now_ms,
    faults::unavailable,
    last_good::Lag,
    marker::{Found, Marker, Progress},
    opening, progress,
    record::{self, Record},
    tables::{COUNT_KEY, COUNTED_AT_KEY, META, OBJECTS, REVISION_KEY},
    user_table,
};
use crate::{error::StoreError, history::Retention, users::Users};

/// What a repair would do, or did.
pub struct Repair {
    /// What is wrong with the store.
    pub problem: String,
    /// What the store is rebuilt from.
    pub source: Source,
    /// What was acknowledged and is in neither source.
    pub lost: Lag,
    /// What was there before, under its new names.
    pub aside: Vec<PathBuf>,
}

/// What a store is rebuilt from.
pub enum Source {
    /// The file itself, which is whole and older than its marker: the history stays.
    Store {
        /// Of its newest state.
        revision: u64,
        /// Objects in that state.
        objects: u64,
    },
    /// The copy: history and checkpoints are lost.
    Copy {
        /// Its file.
        path: PathBuf,
        /// The state it holds.
        head: Head,
        /// How many users it has.
        users: usize,
    },
}

/// What can be had of the store at `path`, without changing it. `None`: nothing is wrong.
pub fn inspect(path: &Path) -> Result<Option<Repair>, StoreError> {
    in_nobodys_use(path)?;
    // Opening would create it.
    if let Ok(StoreFile::New) = inspect_path(path) {
        return Err(unavailable(format!("no store was ever created at {}", path.display())));
    }
    let problem = match Database::open(path, Hooks::default(), Retention::default()) {
        Ok(_) => return Ok(None),
        Err(StoreError::Damaged(problem)) => problem,
        Err(error) => return Err(error),
    };
    let marker = Marker::new(path);
    let place = super::files::place(path);
    let copy = match copy::read(&place) {
        Ok(Some(kept)) => Lag::of(path, &kept.head).map(|lag| (kept.head, kept.users.len(), lag)),
        Ok(None) => Err("there is none".to_owned()),
        Err(reason) => Err(reason),
    };
    // The file keeps its history: it is better than a copy of the same state.
    let is_better = |store: &Progress| match &copy {
        Ok((head, ..)) => {
            let same = (store.revision, store.objects) == (head.revision, head.objects);
            store.identity == head.identity && (store.revision > head.revision || same)
        }
        Err(_) => true,
    };
    let (source, lost) = match (whole(path).filter(is_better), copy) {
        (Some(store), _) => {
            let (revision, objects) = (store.revision, store.objects);
            (Source::Store { revision, objects }, lost_by(&marker, store))
        }
        (None, Ok((head, users, lag))) => (Source::Copy { path: place, head, users }, lag),
        (None, Err(reason)) => {
            return Err(unavailable(format!(
                "{problem}. Nothing can be recovered: the copy of the last good configuration, {}, cannot be \
                 used: {reason}",
                place.display()
            )));
        }
    };
    Ok(Some(Repair { problem, source, lost, aside: Vec::new() }))
}

/// What an intact file lacks compared with its marker.
fn lost_by(marker: &Marker, store: Progress) -> Lag {
    let Ok(Found::Record(told)) = marker.read() else {
        return Lag::Unknown("the marker of the store cannot be read".to_owned());
    };
    match told.revision.saturating_sub(store.revision) {
        0 if told.objects == store.objects => Lag::Nothing,
        0 => Lag::Unknown(format!("it has {} objects instead of {}", store.objects, told.objects)),
        writes => Lag::Behind { writes, seconds: None },
    }
}

/// The file, where all of its pages verify.
fn whole(path: &Path) -> Option<Progress> {
    // Some damage makes redb panic.
    catch_unwind(AssertUnwindSafe(|| Database::whole(path).ok())).ok()?
}

/// Does what [`inspect`] found.
pub fn carry_out(path: &Path, mut repair: Repair) -> Result<Repair, StoreError> {
    let marker = Marker::new(path);
    let problem = |error: io::Error| {
        unavailable(format!("cannot put a store at {}: {error}; nothing is lost", path.display()))
    };
    match &repair.source {
        Source::Store { .. } => {
            let found =
                whole(path).ok_or_else(|| unavailable("the store has changed meanwhile".to_owned()))?;
            repair.aside.extend(kept_marker(path).map_err(problem)?);
            marker.replace(found).map_err(problem)?;
        }
        Source::Copy { path: place, head, .. } => {
            let kept = copy::read(place).ok().flatten().filter(|kept| kept.head == *head);
            let kept =
                kept.ok_or_else(|| unavailable(format!("{} has changed meanwhile", place.display())))?;
            let told = match marker.read() {
                Ok(Found::Record(told)) => told,
                _ => Progress { revision: head.revision, ..Progress::default() },
            };
            let revision = told.revision.max(head.revision) + 1;
            let fresh = Progress {
                identity: head.identity,
                commit: told.commit + 1,
                revision,
                objects: head.objects,
            };
            repair.aside = put(path, kept, fresh, "damaged")?;
        }
    }
    Ok(repair)
}

/// What a restore did.
pub struct Restored {
    /// The state that the backup holds.
    pub head: Head,
    /// The revision that the restored state has: above all that the old store gave.
    pub revision: u64,
    /// How many users the restored store has.
    pub users: usize,
    /// Whether they are those of the store that was replaced; else they come from the backup.
    pub users_stay: bool,
    /// What was there before, under its new names.
    pub aside: Vec<PathBuf>,
}

/// Puts a backup in place of the store, whatever is there.
pub fn restore(path: &Path, backup: &Path) -> Result<Restored, StoreError> {
    let unusable = |reason: &str| {
        unavailable(format!("{} is not restored: {reason}; nothing was changed", backup.display()))
    };
    let mut kept = match copy::read(backup) {
        Ok(Some(kept)) => kept,
        Ok(None) => return Err(unusable("there is no such file")),
        Err(reason) => return Err(unusable(&reason)),
    };
    in_nobodys_use(path)?;
    let head = kept.head;
    // Revisions continue where the store was, so that no follower sees an older number.
    let newest = match Marker::new(path).read() {
        Ok(Found::Record(told)) => told.revision.max(head.revision),
        _ => head.revision,
    };
    let identity = progress::random().map_err(|error| unavailable(error.to_string()))?;
    let fresh = Progress { identity, commit: 1, revision: newest + 1, objects: head.objects };
    // A user who was deleted since the backup must not come back with it.
    let known = users_of(path);
    let users_stay = known.is_some();
    kept.users = known.unwrap_or(kept.users);
    let users = kept.users.len();
    let mut aside = put(path, kept, fresh, "replaced")?;
    // Of the store that was there: what the next one keeps here is its own.
    let place = copy::place(path);
    let name = self::aside(&place, "replaced");
    // There may be none. Where it cannot be renamed, the next start tries, and says so.
    if fs::rename(&place, &name).is_ok() {
        aside.push(name);
    }
    Ok(Restored { head, revision: newest + 1, users, users_stay, aside })
}

/// `None` if the store is missing or unreadable.
fn users_of(path: &Path) -> Option<Vec<User>> {
    matches!(inspect_path(path), Ok(StoreFile::Taken)).then_some(())?;
    let (database, _) = Database::open(path, Hooks::default(), Retention::default()).ok()?;
    database.list().ok()
}

/// What a backup of a store that no gateway has open holds.
pub fn backup(path: &Path) -> Result<Kept, StoreError> {
    in_nobodys_use(path)?;
    if !path.exists() {
        return Err(unavailable(format!(
            "there is no database {}; the first start makes it; --prefix names another folder",
            path.display()
        )));
    }
    // Without hooks: what is encrypted stays so.
    let (database, loaded) = Database::open(path, Hooks::default(), Retention::default())?;
    let identity = database.marker.identity();
    let identity =
        identity.ok_or_else(|| unavailable("the marker of the store cannot be written".to_owned()))?;
    let objects: Vec<_> = loaded.state.all().cloned().collect();
    let expiries = super::expiries::Expiries::new(loaded.expiries);
    let head =
        Head { identity, revision: loaded.state.revision, objects: objects.len() as u64, taken_ms: now_ms() };
    let records = objects.into_iter().map(|object| {
        let expires_at_ms = expiries.by_key.get(&(object.kind, object.id.clone())).copied();
        Record { object, expires_at_ms }
    });
    Ok(Kept { head, records: records.collect(), users: database.list()? })
}

/// A store with these objects, under its name when it is whole. At no moment is there neither a store nor a marker: a start
/// in between is refused, and this can be repeated.
fn put(path: &Path, kept: Kept, progress: Progress, reason: &str) -> Result<Vec<PathBuf>, StoreError> {
    let problem = |error: io::Error| {
        unavailable(format!("cannot put a store at {}: {error}; nothing is lost", path.display()))
    };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(problem)?;
    }
    let fresh = path.with_extension("redb.restored");
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(problem(error)),
        _ => {}
    }
    fill(&fresh, kept, progress)?;
    let mut aside = Vec::new();
    if fs::symlink_metadata(path).is_ok() {
        let name = self::aside(path, reason);
        // The marker, or for want of one its like, says meanwhile that there was a store.
        if !super::files::marker(path).exists() {
            Marker::new(path).replace(progress).map_err(problem)?;
        } else {
            aside.extend(kept_marker(path).map_err(problem)?);
        }
        fs::rename(path, &name).map_err(problem)?;
        aside.push(name);
    } else if super::files::marker(path).exists() {
        aside.extend(kept_marker(path).map_err(problem)?);
    }
    fs::rename(&fresh, path).and_then(|()| super::files::sync_folder(path)).map_err(problem)?;
    Marker::new(path).replace(progress).map_err(problem)?;
    Ok(aside)
}

fn fill(path: &Path, kept: Kept, progress: Progress) -> Result<(), StoreError> {
    let made = File::options().read(true).write(true).create_new(true).open(path);
    let problem = |error: &dyn std::fmt::Display| {
        unavailable(format!("cannot write {}: {error}; check free space", path.display()))
    };
    let file = made.map_err(|error| problem(&error))?;
    opening::restrict(path);
    let redb = opening::fresh(path, file).map_err(unavailable)?;
    let write = || -> Result<(), redb::Error> {
        let transaction = redb.begin_write()?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            for record in kept.records {
                let object = &record.object;
                let bytes = record::encode(object, object.document.text(), record.expires_at_ms);
                objects.insert(record::key(object.kind, &object.id).as_slice(), bytes.as_slice())?;
            }
            let mut meta = transaction.open_table(META)?;
            meta.insert(REVISION_KEY, progress.revision)?;
            meta.insert(COUNT_KEY, progress.objects)?;
            meta.insert(COUNTED_AT_KEY, progress.revision)?;
            progress::set(&mut meta, progress)?;
        }
        user_table::fill(&transaction, &kept.users)?;
        transaction.commit()?;
        Ok(())
    };
    let written = write();
    written.map_err(|error| problem(&error))
}

/// The marker's text under another name; it stays where it is until another takes its place.
fn kept_marker(path: &Path) -> io::Result<Option<PathBuf>> {
    let marker = super::files::marker(path);
    if !marker.exists() {
        return Ok(None);
    }
    let name = aside(&marker, "old");
    fs::copy(&marker, &name)?;
    Ok(Some(name))
}

/// A name that nothing has yet.
pub fn aside(path: &Path, reason: &str) -> PathBuf {
    let named = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{reason}-{number}"));
        PathBuf::from(name)
    };
    (1..).map(named).find(|name| fs::symlink_metadata(name).is_err()).unwrap_or_else(|| named(0))
}

/// A gateway holds a lock on the file of its store.
fn in_nobodys_use(path: &Path) -> Result<(), StoreError> {
    let Ok(file) = File::open(path) else { return Ok(()) };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(unavailable(format!(
            "database {} is in use by a gateway that runs; stop it first",
            path.display()
        ))),
        Ok(()) | Err(TryLockError::Error(_)) => Ok(()),
    }
}

/// Whether a copy or backup can be used; what it holds.
pub fn verify(path: &Path) -> Result<Head, String> {
    match copy::read(path) {
        Ok(Some(kept)) => Ok(kept.head),
        Ok(None) => Err("there is no such file".to_owned()),
        Err(reason) => Err(reason),
    }
}
