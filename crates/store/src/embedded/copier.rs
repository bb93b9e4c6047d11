//! The thread that keeps the copy of the last good configuration up to date.
//!
//! What it writes comes from memory, not from the file of the store: a disk that loses bits while the gateway runs must not
//! damage the copy as well. It is not part of a write: a writer only rings, and does not wait.

use std::{
    collections::HashMap,
    fs, io,
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tidegate_model::Object;
use tidegate_telemetry::{
    background::{begin_turn, give_way, lower_priority},
    error_log::{Level, log},
};

use super::{
    copy::{self, Head, User},
    database::Database,
    expiries::{Expiries, Key, now_ms},
};
use crate::{State, error::StoreError, live::Live, users::Users};

/// Changes have settled when there was none for that long.
const SETTLED: Duration = Duration::from_secs(1);
/// While changes keep coming, a copy begins at least that often,
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// or after so many writes.
const MOST_WRITES: u64 = 500;
/// The largest part of its time that the thread works while changes keep coming: one in so many.
const REST: u32 = 4;
/// Between attempts after a failure.
const NEXT_ATTEMPT: Duration = Duration::from_secs(5);
/// What a full disk keeps for the store: the copy waits until so much would be left.
const SPARE_BYTES: u64 = 1 << 20;
/// Rings that are waiting beyond this number add nothing.
const QUEUE: usize = 64;

pub(super) enum Message {
    Changed,
    /// Write the current state, if the copy is behind; reply when it is durable.
    Now(mpsc::Sender<Result<Head, String>>),
    /// The current state in memory, for a disk that takes no copy.
    Whole(mpsc::Sender<Result<Vec<u8>, String>>),
    /// Write no more: another process has the store from now on.
    Hold(mpsc::Sender<()>),
    Resume,
    End,
}

/// Rings when something was written.
#[derive(Clone)]
pub(crate) struct Bell(mpsc::SyncSender<Message>);

impl Bell {
    pub(super) fn ring(&self) {
        // A full queue holds a ring already.
        let _ = self.0.try_send(Message::Changed);
    }
}

/// The handle. Dropping it ends the thread after a last copy.
pub(crate) struct Copier {
    queue: mpsc::SyncSender<Message>,
    /// Until the thread begins.
    waiting: Mutex<Option<mpsc::Receiver<Message>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Default for Copier {
    fn default() -> Self {
        let (queue, messages) = mpsc::sync_channel(QUEUE);
        Self { queue, waiting: Mutex::new(Some(messages)), thread: Mutex::new(None) }
    }
}

impl Copier {
    pub(super) fn bell(&self) -> Bell {
        Bell(self.queue.clone())
    }

    /// Begins to keep the copy, with one at once where there is none of this state.
    pub(super) fn begin(
        &self,
        database: Arc<Database>,
        live: Arc<Live>,
        expiries: Arc<Mutex<Expiries>>,
    ) -> Result<(), StoreError> {
        let Some(messages) = self.waiting.lock().take() else { return Ok(()) };
        let path = super::files::place(&database.path);
        let known = copy::glance(&path);
        let users = (None, Vec::new());
        let mut worker = Worker { database, live, expiries, path, known, users, is_first: true, told: false };
        let thread = thread::Builder::new().name("last-good".to_owned()).spawn(move || {
            lower_priority();
            worker.run(&messages);
        });
        let thread = thread.map_err(|error| {
            StoreError::Unavailable(format!(
                "cannot start the thread of the last good configuration: {error}"
            ))
        })?;
        *self.thread.lock() = Some(thread);
        self.bell().ring();
        Ok(())
    }

    /// Which state the copy holds when it holds all that has been acknowledged.
    pub(super) fn now(&self) -> Result<Head, String> {
        self.ask(Message::Now)
    }

    /// A copy of all that has been acknowledged, which no disk has to take.
    pub(super) fn whole(&self) -> Result<Vec<u8>, String> {
        self.ask(Message::Whole)
    }

    fn ask<T>(&self, question: impl FnOnce(mpsc::Sender<Result<T, String>>) -> Message) -> Result<T, String> {
        let (reply, answer) = mpsc::channel();
        let stopped = || "the last good configuration is not being kept".to_owned();
        if self.thread.lock().is_none() {
            return Err(stopped());
        }
        self.queue.send(question(reply)).map_err(|_| stopped())?;
        answer.recv().map_err(|_| stopped())?
    }

    /// See [`Message::Hold`].
    pub(super) fn hold(&self) {
        let (reply, answer) = mpsc::channel();
        if self.thread.lock().is_some() && self.queue.send(Message::Hold(reply)).is_ok() {
            let _ = answer.recv();
        }
    }

    pub(super) fn resume(&self) {
        if self.thread.lock().is_some() {
            let _ = self.queue.send(Message::Resume);
        }
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.get_mut().take() {
            let _ = self.queue.send(Message::End);
            let _ = thread.join();
        }
    }
}

/// A state, and what it takes to write it.
struct Taken {
    head: Head,
    objects: Vec<Object>,
    expiries: HashMap<Key, u64>,
}

struct Worker {
    database: Arc<Database>,
    live: Arc<Live>,
    expiries: Arc<Mutex<Expiries>>,
    path: PathBuf,
    /// What the copy holds.
    known: Option<Head>,
    /// The users, and how many writes of them came before.
    users: (Option<u64>, Vec<User>),
    /// Whether this process has written none yet: what is there may be of another store.
    is_first: bool,
    /// Whether a failure was logged.
    told: bool,
}

impl Worker {
    fn run(&mut self, messages: &mpsc::Receiver<Message>) {
        // `None`: nothing to do until the next ring.
        let mut next: Option<Instant> = None;
        let mut first_change = Instant::now();
        let mut rest_until = Instant::now();
        loop {
            let message = match next {
                None => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => messages.recv_timeout(at.saturating_duration_since(Instant::now())),
            };
            begin_turn();
            match message {
                Ok(Message::Changed) => {
                    let now = Instant::now();
                    if next.is_none() {
                        first_change = now;
                        if self.behind() > 0 {
                            copy::behind_from_now(&self.path);
                        }
                    }
                    let settled = (now + SETTLED).min(first_change + LONGEST_WAIT);
                    let due = if self.behind() >= MOST_WRITES { now } else { settled };
                    next = Some(due.max(rest_until));
                    continue;
                }
                Ok(Message::Now(reply)) => {
                    let _ = reply.send(self.update().map_err(|error| self.problem(&error)));
                }
                Ok(Message::Whole(reply)) => {
                    let _ = reply.send(self.in_memory().map_err(|error| error.to_string()));
                    continue;
                }
                Ok(Message::Hold(reply)) => {
                    let _ = reply.send(());
                    // Nothing else is meant while another process writes.
                    while !matches!(messages.recv(), Ok(Message::Resume | Message::End) | Err(_)) {}
                    self.known = copy::glance(&self.path);
                    self.is_first = true;
                    if self.database.is_released() {
                        return;
                    }
                }
                Ok(Message::Resume) => {}
                Ok(Message::End) | Err(RecvTimeoutError::Disconnected) => {
                    self.keep();
                    return;
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let begin = Instant::now();
            let done = self.keep();
            rest_until = Instant::now() + begin.elapsed() * REST;
            next = (!done).then(|| Instant::now() + NEXT_ATTEMPT);
        }
    }

    /// Writes that are not in the copy.
    fn behind(&self) -> u64 {
        let revision = self.live.read(|state| state.revision);
        revision.saturating_sub(self.known.map_or(0, |head| head.revision))
    }

    /// Updates the copy and returns whether that worked. A failure is logged once.
    fn keep(&mut self) -> bool {
        match self.update() {
            Ok(_) => {
                if std::mem::take(&mut self.told) {
                    let shown = self.path.display();
                    log(Level::Warn, format_args!("{shown} can be written again"));
                }
                true
            }
            Err(error) => {
                if !std::mem::replace(&mut self.told, true) {
                    let problem = self.problem(&error);
                    log(Level::Error, format_args!("{problem}"));
                }
                false
            }
        }
    }

    fn problem(&self, error: &io::Error) -> String {
        format!(
            "cannot write {}: {error}; until that works, the last good configuration beside the store is older",
            self.path.display()
        )
    }

    /// The copy's state, after writing it where it is another than that of the store.
    fn update(&mut self) -> io::Result<Head> {
        let Taken { head, objects, expiries } = self.take()?;
        let taken_ms = head.taken_ms;
        let others = self.look_for_users()?;
        if let Some(known) = self.known
            && (Head { taken_ms, ..known }) == head
            && (self.is_first || !others)
            // What another run has left may be damaged.
            && (!self.is_first || matches!(copy::read(&self.path), Ok(Some(kept)) if kept.users == self.users.1))
        {
            self.is_first = false;
            return Ok(known);
        }
        if self.is_first {
            self.put_aside(&head)?;
        }
        self.look_for_space()?;
        let mut records = self.at_rest(objects, &expiries);
        copy::write(&self.path, &head, &mut records, &self.users.1)?;
        drop(records);
        self.database.marker.sync();
        (self.known, self.is_first) = (Some(head), false);
        Ok(head)
    }

    /// All that is acknowledged, with secrets as they are at rest.
    fn in_memory(&mut self) -> io::Result<Vec<u8>> {
        let Taken { head, objects, expiries } = self.take()?;
        if self.look_for_users()? {
            // The file is still to learn of them.
            self.known = None;
        }
        let mut records = self.at_rest(objects, &expiries);
        copy::in_memory(&head, &mut records, &self.users.1)
    }

    /// The state of this moment.
    fn take(&self) -> io::Result<Taken> {
        let Some(identity) = self.database.marker.identity() else {
            return Err(io::Error::other("the store is being handed over, or its marker cannot be written"));
        };
        // Both of one moment.
        let (revision, objects, taken_ms, expiries) = {
            let expiries = self.expiries.lock();
            let each = |object: &Object| {
                give_way();
                object.clone()
            };
            let take = |state: &State| (state.revision, state.all().map(each).collect::<Vec<Object>>());
            let (revision, objects) = self.live.read(take);
            (revision, objects, now_ms(), expiries.by_key.clone())
        };
        let head = Head { identity, revision, objects: objects.len() as u64, taken_ms };
        Ok(Taken { head, objects, expiries })
    }

    fn at_rest<'a>(
        &'a self,
        objects: Vec<Object>,
        expiries: &'a HashMap<Key, u64>,
    ) -> impl Iterator<Item = (Object, Option<u64>)> + 'a {
        objects.into_iter().map(move |object| {
            give_way();
            let expires_at_ms = expiries.get(&(object.kind, object.id.clone())).copied();
            (self.database.at_rest(object), expires_at_ms)
        })
    }

    /// Whether there are others than the last time. Where the store cannot be read, those stay that are known.
    fn look_for_users(&mut self) -> io::Result<bool> {
        let writes = self.database.user_writes.count();
        if self.users.0 == Some(writes) {
            return Ok(false);
        }
        match self.database.list() {
            Ok(users) => {
                self.users = (Some(writes), users);
                Ok(true)
            }
            Err(_) if self.users.0.is_some() => Ok(false),
            Err(error) => Err(io::Error::other(error.to_string())),
        }
    }

    /// Renames a file at the copy's place that is not an older state of this store: it may be the last trace of
    /// another one.
    fn put_aside(&self, head: &Head) -> io::Result<()> {
        let is_older = |found: &Head| found.identity == head.identity && found.revision <= head.revision;
        if !self.path.exists() || copy::glance(&self.path).is_some_and(|found| is_older(&found)) {
            return Ok(());
        }
        let aside = super::repair::aside(&self.path, "other");
        fs::rename(&self.path, &aside)?;
        let (shown, aside) = (self.path.display(), aside.display());
        log(
            Level::Warn,
            format_args!(
                "{shown} is a copy of another store, which was here before; it is kept as {aside}, which may be deleted when that store is not wanted back"
            ),
        );
        Ok(())
    }

    /// A copy that fills the disk would take the store's space.
    fn look_for_space(&self) -> io::Result<()> {
        let needed = fs::metadata(&self.path).map_or(0, |found| found.len()) + SPARE_BYTES;
        let folder = self.path.parent().unwrap_or(&self.path);
        let disk = rustix::fs::statvfs(folder)?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < needed {
            return Err(io::Error::new(io::ErrorKind::StorageFull, "too little space is free"));
        }
        Ok(())
    }
}
