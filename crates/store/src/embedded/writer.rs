//! The thread that writes.

use std::{
    collections::HashMap,
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tidegate_model::{Document, Object};
use tidegate_telemetry::{
    background::{begin_turn, give_way, lower_priority},
    error_log::{Level, log},
};
use tokio::sync::oneshot;

use super::{
    copier::Bell,
    database::{Database, Loaded, Stored},
    expiries::{Expiries, Key, now_ms},
    faults::stopped,
};
use crate::{Author, Change, Operation, State, Write, Written, error::StoreError, live::Live};

/// Writes that share one fsync, at most: bounds how long the first of them waits.
const MAX_GROUP: usize = 512;

/// Between steps of trimming the history while there is more to trim, and between looks whether there is.
const NEXT_STEP: Duration = Duration::from_millis(50);
const NEXT_LOOK: Duration = Duration::from_secs(600);

/// Between attempts to open a file again that failed, at least: each reads all of it.
const NEXT_ATTEMPT: Duration = Duration::from_millis(250);

type Reply = oneshot::Sender<Result<Written, StoreError>>;

enum Message {
    Write(Request),
    Release(oneshot::Sender<()>),
    Resume(oneshot::Sender<Result<(), StoreError>>),
}

struct Request {
    write: Write,
    /// `None`: the thread's own write (something expired).
    reply: Option<Reply>,
}

/// The handle. Dropping it ends the thread after what is queued is written, and closes the file cleanly.
pub(super) struct Writer {
    queue: Option<mpsc::Sender<Message>>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    pub(super) fn start(
        database: Arc<Database>,
        live: Arc<Live>,
        expiries: Arc<Mutex<Expiries>>,
        bell: Bell,
    ) -> Result<Self, StoreError> {
        let (queue, requests) = mpsc::channel();
        let trim_at = Instant::now() + NEXT_STEP;
        let failure = Failure::default();
        let mut worker = Worker { database, live, expiries, bell, trim_at, failure };
        let thread = thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || {
                lower_priority();
                worker.run(&requests);
            })
            .map_err(|error| StoreError::Unavailable(format!("cannot start the database thread: {error}")))?;
        Ok(Self { queue: Some(queue), thread: Some(thread) })
    }

    pub(super) fn send(&self, write: Write, reply: Reply) -> Result<(), StoreError> {
        self.queue(Message::Write(Request { write, reply: Some(reply) }))
    }

    /// See [`super::Embedded::release`].
    pub(super) fn release(&self, reply: oneshot::Sender<()>) -> Result<(), StoreError> {
        self.queue(Message::Release(reply))
    }

    /// See [`super::Embedded::resume`].
    pub(super) fn resume(&self, reply: oneshot::Sender<Result<(), StoreError>>) -> Result<(), StoreError> {
        self.queue(Message::Resume(reply))
    }

    fn queue(&self, message: Message) -> Result<(), StoreError> {
        self.queue.as_ref().and_then(|queue| queue.send(message).ok()).ok_or_else(stopped)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker {
    database: Arc<Database>,
    live: Arc<Live>,
    /// Locked while what it says and what is visible differ.
    expiries: Arc<Mutex<Expiries>>,
    bell: Bell,
    /// When to look for history that is too old. Most of it goes with the writes that exceed it.
    trim_at: Instant,
    failure: Failure,
}

/// Since when writes fail, and when to try again.
#[derive(Default)]
struct Failure {
    /// The error that writers get; `None` while writes work.
    told: Option<String>,
    next_attempt: Option<Instant>,
}

impl Worker {
    fn run(&mut self, messages: &mpsc::Receiver<Message>) {
        loop {
            let mut group = Vec::new();
            let mut other = None;
            // Nothing expires while another process has the file.
            let first = if self.database.is_released() {
                messages.recv().map_err(|_| mpsc::RecvTimeoutError::Disconnected)
            } else {
                let until_trim = self.trim_at.saturating_duration_since(Instant::now());
                let wait = self.expiries.lock().wait().map_or(until_trim, |wait| wait.min(until_trim));
                messages.recv_timeout(if self.database.is_failing() { NEXT_ATTEMPT } else { wait })
            };
            begin_turn();
            match first {
                Ok(Message::Write(request)) => group.push(request),
                Ok(message) => other = Some(message),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            while other.is_none()
                && group.len() < MAX_GROUP
                && let Ok(message) = messages.try_recv()
            {
                match message {
                    Message::Write(request) => group.push(request),
                    message => other = Some(message),
                }
            }
            self.write(group);
            match other {
                Some(Message::Release(reply)) => {
                    self.database.release();
                    let _ = reply.send(());
                }
                Some(Message::Resume(reply)) => {
                    let _ = reply.send(self.resume());
                }
                Some(Message::Write(_)) | None => {}
            }
        }
    }

    /// A step of trimming, when no write is waiting. What cannot be trimmed now is tried again later.
    fn trim(&mut self) {
        if Instant::now() < self.trim_at {
            return;
        }
        let more = self.database.trim_step(now_ms());
        self.trim_at = Instant::now() + if more { NEXT_STEP } else { NEXT_LOOK };
    }

    fn write(&mut self, mut group: Vec<Request>) {
        if self.database.is_released() {
            for reply in group.into_iter().filter_map(|request| request.reply) {
                let _ = reply.send(Err(StoreError::HandedOver));
            }
            return;
        }
        if self.database.is_failing() && !self.recover() {
            let told = self.failure.told.clone().unwrap_or_else(|| "the database has failed".to_owned());
            for reply in group.into_iter().filter_map(|request| request.reply) {
                let _ = reply.send(Err(StoreError::Unavailable(told.clone())));
            }
            return;
        }
        let expired = self.expiries.lock().due(now_ms());
        if !expired.is_empty() {
            let operations =
                expired.into_iter().map(|(kind, id)| Operation::Delete { kind, id, expected: None });
            let author = Author { request: "ttl".to_owned(), ..Author::default() };
            let write = Write { operations: operations.collect(), at: None, author };
            group.insert(0, Request { write, reply: None });
        }
        if group.is_empty() {
            self.trim();
        } else {
            self.commit(group);
        }
    }

    /// Takes the file back. The process that had it may have written.
    fn resume(&mut self) -> Result<(), StoreError> {
        if self.database.is_released() {
            let loaded = self.database.resume()?;
            self.take(loaded);
        }
        Ok(())
    }

    /// Opens the file again after a failure; whether writes can be tried. What was written and could not be acknowledged
    /// may be there.
    fn recover(&mut self) -> bool {
        let begin = Instant::now();
        if self.failure.next_attempt.is_some_and(|at| begin < at) {
            return false;
        }
        let known = self.live.read(|state| state.revision);
        match self.database.recover() {
            Ok(loaded) if loaded.state.revision >= known => {
                self.take(loaded);
                return true;
            }
            Ok(loaded) => {
                let path = self.database.path.display();
                let found = loaded.state.revision;
                self.fail(format!(
                    "database {path} is at revision {found}, but {known} was acknowledged; restart"
                ));
                self.database.fail();
            }
            Err(error) => self.fail(error.to_string()),
        }
        self.failure.next_attempt = Some(Instant::now() + NEXT_ATTEMPT.max(begin.elapsed()));
        false
    }

    /// Remembers a failure. The first of them is logged, until writes work again.
    fn fail(&mut self, problem: String) {
        if self.failure.told.is_none() {
            log(Level::Error, format_args!("{problem}"));
        }
        self.failure = Failure { told: Some(problem), next_attempt: Some(Instant::now() + NEXT_ATTEMPT) };
    }

    fn take(&mut self, loaded: Loaded) {
        let shared = self.expiries.clone();
        let mut expiries = shared.lock();
        *expiries = Expiries::new(loaded.expiries);
        let revision = loaded.state.revision;
        let (known, changes) = self.live.read(|state| (state.revision, differences(state, &loaded.state)));
        if revision != known || !changes.is_empty() {
            self.live.publish(revision, changes);
            self.bell.ring();
        }
    }

    /// Decides every request, writes those that hold with one fsync, shows them, answers all.
    fn commit(&mut self, requests: Vec<Request>) {
        let (live, shared) = (self.live.clone(), self.expiries.clone());
        let expiries = shared.lock();
        let mut group = Group::new(&live, &expiries);
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            let Request { write, reply } = request;
            answers.push((reply, group.apply(write)));
        }
        give_way();
        let outcome = if group.changes.is_empty() {
            Ok(())
        } else {
            let stored = group.changes.iter().filter_map(|change| change.stored());
            self.database.commit(group.revision, stored, &group.history())
        };
        let Group { revision, changes, .. } = group;
        drop(expiries);
        give_way();
        match outcome {
            Ok(()) => {
                let wrote = !changes.is_empty();
                self.show(revision, changes);
                if wrote && self.failure.told.take().is_some() {
                    let path = self.database.path.display();
                    log(Level::Warn, format_args!("database {path} can be written to again"));
                }
            }
            Err(error) => {
                let message = error.to_string();
                self.fail(message.clone());
                for (_, result) in &mut answers {
                    if result.is_ok() {
                        *result = Err(StoreError::Unavailable(message.clone()));
                    }
                }
            }
        }
        for (reply, result) in answers {
            if let Some(reply) = reply {
                // The caller may have gone; the write stands.
                let _ = reply.send(result);
            }
        }
    }

    fn show(&mut self, revision: u64, pending: Vec<Pending>) {
        if pending.is_empty() {
            return;
        }
        let mut changes = Vec::with_capacity(pending.len());
        let mut expiries = self.expiries.lock();
        for pending in pending {
            expiries.set((pending.change.kind, pending.change.id.clone()), pending.expires_at_ms);
            changes.push((pending.revision, pending.change));
        }
        self.live.publish(revision, changes);
        drop(expiries);
        self.bell.ring();
    }
}

/// What leads from one state to another.
fn differences(old: &State, new: &State) -> Vec<(u64, Change)> {
    let gone = old.all().filter(|object| new.get(object.kind, &object.id).is_none());
    let gone = gone.map(|object| Change { kind: object.kind, id: object.id.clone(), object: None });
    let put = new.all().filter(|object| {
        old.get(object.kind, &object.id).is_none_or(|known| known.modified != object.modified)
    });
    let put =
        put.map(|object| Change { kind: object.kind, id: object.id.clone(), object: Some(object.clone()) });
    gone.chain(put).map(|change| (new.revision, change)).collect()
}

/// Changes that are decided but not yet durable. Later requests of the group see them, readers do not.
struct Group<'a> {
    live: &'a Live,
    expiries: &'a Expiries,
    revision: u64,
    overlay: HashMap<Key, Held>,
    changes: Vec<Pending>,
    /// The writes, each with its revision and where its changes end.
    writes: Vec<(Author, u64, usize)>,
}

/// An object, if there is one, and when it expires.
type Held = (Option<Object>, Option<u64>);

struct Pending {
    revision: u64,
    change: Change,
    before: Held,
    expires_at_ms: Option<u64>,
}

impl Pending {
    fn stored(&self) -> Option<Stored<'_>> {
        match (&self.change.object, &self.before.0) {
            (Some(object), _) => Some(Stored::Put { object, expires_at_ms: self.expires_at_ms }),
            (None, Some(object)) => Some(Stored::Delete { object }),
            (None, None) => None,
        }
    }

    fn changed(&self) -> super::draft::Changed<'_> {
        let before = self.before.0.as_ref().map(|object| (object, self.before.1));
        let after = self.change.object.as_ref().map(|object| (object, self.expires_at_ms));
        super::draft::Changed { kind: self.change.kind, id: &self.change.id, before, after }
    }
}

impl<'a> Group<'a> {
    fn new(live: &'a Live, expiries: &'a Expiries) -> Self {
        let revision = live.read(|state| state.revision);
        let (overlay, changes, writes) = (HashMap::new(), Vec::new(), Vec::new());
        Self { live, expiries, revision, overlay, changes, writes }
    }

    /// What the history is to say of the writes so far.
    fn history(&self) -> Vec<super::draft::Draft<'_>> {
        let mut begin = 0;
        let mut drafts = Vec::with_capacity(self.writes.len());
        for (author, revision, end) in &self.writes {
            let changes = self.changes.get(begin..*end).unwrap_or_default();
            let changes = changes.iter().map(Pending::changed).collect();
            drafts.push(super::draft::Draft { author, revision: *revision, changes });
            begin = *end;
        }
        drafts
    }

    /// Applies one write as a whole: when one operation does not hold, none is done.
    fn apply(&mut self, write: Write) -> Result<Written, StoreError> {
        let Write { operations, at, author } = write;
        if at.is_some_and(|at| at != self.revision) {
            return Err(StoreError::Conflict);
        }
        let mut draft = Draft {
            group: self,
            revision: self.revision + 1,
            overlay: HashMap::new(),
            changes: Vec::new(),
            lease: None,
        };
        let mut objects = Vec::with_capacity(operations.len());
        for operation in operations {
            objects.push(draft.operation(operation)?);
        }
        let Draft { revision, overlay, changes, lease, .. } = draft;
        if !changes.is_empty() {
            self.revision = revision;
            self.overlay.extend(overlay);
            self.changes.extend(changes);
            self.writes.push((author, revision, self.changes.len()));
        }
        Ok(Written { revision: self.revision, objects, lease })
    }

    fn current(&self, key: &Key) -> Held {
        match self.overlay.get(key) {
            Some(held) => held.clone(),
            None => {
                let object = self.live.read(|state| state.get(key.0, &key.1).cloned());
                (object, self.expiries.by_key.get(key).copied())
            }
        }
    }
}

/// One request on its way into the group.
struct Draft<'g, 'a> {
    group: &'g Group<'a>,
    revision: u64,
    overlay: HashMap<Key, Held>,
    changes: Vec<Pending>,
    lease: Option<u64>,
}

impl Draft<'_, '_> {
    fn operation(&mut self, operation: Operation) -> Result<Option<Object>, StoreError> {
        match operation {
            Operation::Put { kind, id, value, expected, ttl_seconds } => {
                let current = self.current(&(kind, id.clone()));
                check(expected, current.0.as_ref())?;
                let created = current.0.as_ref().map_or(self.revision, |object| object.created);
                let document = Document::new(&value);
                let object = Object {
                    kind,
                    id,
                    document,
                    created,
                    modified: self.revision,
                    fault: None,
                    unread: None,
                };
                Ok(Some(self.put(object, current, ttl_seconds)))
            }
            Operation::Create { kind, mut value, ttl_seconds } => {
                let mut id: Arc<str> = format!("{:020}", self.revision).into();
                // Only when one request creates twice, or a client chose such an id itself.
                while self.current(&(kind, id.clone())).0.is_some() {
                    self.revision += 1;
                    id = format!("{:020}", self.revision).into();
                }
                if let Some(map) = value.as_object_mut() {
                    map.insert("id".to_owned(), id.as_ref().into());
                }
                let object = Object {
                    kind,
                    id,
                    document: value.into(),
                    created: self.revision,
                    modified: self.revision,
                    fault: None,
                    unread: None,
                };
                Ok(Some(self.put(object, (None, None), ttl_seconds)))
            }
            Operation::Delete { kind, id, expected } => {
                let key = (kind, id);
                let current = self.current(&key);
                check(expected, current.0.as_ref())?;
                if current.0.is_some() {
                    let change = Change { kind, id: key.1.clone(), object: None };
                    let (revision, before) = (self.revision, current.clone());
                    self.changes.push(Pending { revision, change, before, expires_at_ms: None });
                    self.overlay.insert(key, (None, None));
                }
                Ok(current.0)
            }
        }
    }

    fn put(&mut self, object: Object, before: Held, ttl_seconds: Option<u64>) -> Object {
        let expires_at_ms = ttl_seconds.map(|seconds| now_ms().saturating_add(seconds.saturating_mul(1000)));
        if expires_at_ms.is_some() {
            self.lease = Some(self.revision);
        }
        let change = Change { kind: object.kind, id: object.id.clone(), object: Some(object.clone()) };
        self.changes.push(Pending { revision: self.revision, change, before, expires_at_ms });
        self.overlay.insert((object.kind, object.id.clone()), (Some(object.clone()), expires_at_ms));
        object
    }

    fn current(&self, key: &Key) -> Held {
        match self.overlay.get(key) {
            Some(held) => held.clone(),
            None => self.group.current(key),
        }
    }
}

fn check(expected: Option<u64>, current: Option<&Object>) -> Result<(), StoreError> {
    match expected {
        Some(expected) if expected != current.map_or(0, |object| object.modified) => {
            Err(StoreError::Conflict)
        }
        _ => Ok(()),
    }
}
