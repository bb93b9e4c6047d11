//! Configuration from a file that the gateway only reads: conf/apisix.yaml or conf/apisix.json.
//!
//! The file is looked at once a second. A file that cannot be read whole (missing, empty, half-written, a variable not
//! set) changes nothing: the last good state stays, and the problem is reported once. A start has no last good state,
//! and fails.

mod places;
mod read;

use std::{
    fs::Metadata,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use serde_json::Value;
use tidegate_telemetry::background::lower_priority;
use tokio::sync::watch;

use self::places::Text;
pub(crate) use crate::collections::PluginList;
pub use crate::collections::{Check, Report};
use crate::{
    BoxFuture, Changes, ObjectPlaces, State, Store, Write, Written,
    collections::{self, Places as _},
    error::StoreError,
    live::Live,
};

pub use self::read::Format;

/// Takes the `plugins` list of a file; `None`: it has none.
pub type ChoosePlugins = Box<dyn Fn(Option<&PluginList>) + Send + Sync>;

/// How a configuration file is read.
pub struct Options {
    /// Of the file.
    pub format: Format,
    /// For each object; what does not pass is kept out and reported.
    pub check: Check,
    /// Gets the file's plugin list before the objects are checked, so that they are checked against it.
    pub choose_plugins: Option<ChoosePlugins>,
    /// Called with each problem: a bad object, an unreadable file.
    pub report: Report,
    /// How often the file is looked at; zero: only when `read_if_changed` is called.
    pub interval: Duration,
}

/// A file that is read again when it changes, such as `apisix.yaml`.
pub struct File {
    shared: Arc<Shared>,
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    path: PathBuf,
    pub(super) options: Options,
    pub(super) live: Live,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    stamp: Option<Stamp>,
    loaded: bool,
    plugins: Option<PluginList>,
    /// What the file has that is in no use, and was reported.
    ignored: Vec<String>,
    /// The last problem with the file as a whole, so that it is reported once and not every second.
    problem: Option<String>,
}

/// What distinguishes one version of the file from the next. Time alone does not: two writes can fall into one tick.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stamp {
    modified: Option<SystemTime>,
    size: u64,
    inode: u64,
    /// Of the inode, in seconds and nanoseconds: tools that copy a file in place set the other one back.
    changed: (i64, i64),
}

impl File {
    /// Reads the file and starts looking after it. A file that cannot be read whole is an error: without it there
    /// is nothing to serve, and nothing to guard it with.
    pub fn open(path: &Path, options: Options) -> Result<Self, StoreError> {
        let interval = options.interval;
        let live = Live::new(State::default());
        let shared = Arc::new(Shared { path: path.to_owned(), options, live, seen: Mutex::default() });
        shared.read_if_changed();
        let problem = shared.seen.lock().problem.take();
        if let Some(problem) = problem {
            return Err(StoreError::Unavailable(problem));
        }
        if interval.is_zero() {
            return Ok(Self { shared, stop: None, thread: None });
        }
        let (stop, stopped) = mpsc::channel::<()>();
        let watched = shared.clone();
        let thread = thread::Builder::new()
            .name("config-file".to_owned())
            .spawn(move || {
                lower_priority();
                while stopped.recv_timeout(interval) == Err(mpsc::RecvTimeoutError::Timeout) {
                    watched.read_if_changed();
                }
            })
            .map_err(|error| {
                StoreError::Unavailable(format!("cannot start the thread that reads files: {error}"))
            })?;
        Ok(Self { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Reads the file now if it changed. Returns why it could not be taken, whenever that was found out.
    pub fn read_if_changed(&self) -> Option<String> {
        self.shared.read_if_changed();
        self.shared.seen.lock().problem.clone()
    }

    /// Keys of the file that are not lists of objects and not in use, with their places, as they were reported.
    pub fn ignored(&self) -> Vec<String> {
        self.shared.seen.lock().ignored.clone()
    }

    /// The `plugins` list of the file, which takes the place of config.yaml's lists. Changes ring `watch`.
    pub fn plugins(&self) -> Option<PluginList> {
        self.shared.seen.lock().plugins.clone()
    }
}

/// Reads a file once, for `tidegate test`: the number of good objects, or why it cannot be read.
pub fn check(path: &Path, options: &Options) -> Result<usize, String> {
    let (document, text) = read::document(path, options.format)?;
    let objects = collections::read(&document, &text, &options.check, &options.report);
    Ok(objects.values().filter(|item| item.fault.is_none()).count())
}

impl Drop for File {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn read_if_changed(&self) {
        let mut seen = self.seen.lock();
        let stamp = match std::fs::metadata(&self.path) {
            Ok(metadata) => Stamp::of(&metadata),
            Err(error) => return self.complain(&mut seen, read::missing(&self.path, &error)),
        };
        if seen.stamp == Some(stamp) {
            return;
        }
        match read::document(&self.path, self.options.format) {
            Ok((document, text)) => {
                seen.problem = None;
                self.apply(&document, &text, &mut seen);
            }
            Err(problem) => self.complain(&mut seen, problem),
        }
        // Also after a problem: a bad file is read again when it changes.
        seen.stamp = Some(stamp);
    }

    fn apply(&self, document: &Value, text: &Text, seen: &mut Seen) {
        let plugins = collections::plugins(document, text, &self.options.report);
        if let Some(choose) = &self.options.choose_plugins {
            choose(plugins.as_ref());
        }
        let objects = collections::read(document, text, &self.options.check, &self.options.report);
        let none = std::collections::HashMap::new();
        let (revision, changes) = self.live.read(|state| {
            let revision = state.revision + 1;
            (revision, collections::changes(state, objects, revision, &none))
        });
        let first = !seen.loaded;
        let other_plugins = seen.plugins != plugins;
        seen.loaded = true;
        seen.plugins = plugins;
        seen.ignored = collections::ignored(document, text);
        if first || other_plugins || !changes.is_empty() {
            self.live.publish(revision, changes);
        }
    }

    fn complain(&self, seen: &mut Seen, problem: String) {
        if seen.problem.as_ref() != Some(&problem) {
            if seen.loaded {
                (self.options.report)(&format!("{problem}; the last good configuration stays"));
            }
            seen.problem = Some(problem);
        }
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Self {
            modified: metadata.modified().ok(),
            size: metadata.size(),
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Store for File {
    fn read(&self, read: &mut dyn FnMut(&State)) {
        self.shared.live.read(|state| read(state));
    }

    fn write(&self, _: Write) -> BoxFuture<'_, Result<Written, StoreError>> {
        Box::pin(std::future::ready(Err(StoreError::ReadOnly)))
    }

    /// The file is read once more: its text is not kept. Of one that changed meanwhile, only the name is known.
    fn places(&self) -> Option<ObjectPlaces> {
        let path = self.shared.path.clone();
        let Ok((document, text)) = read::document(&path, self.shared.options.format) else {
            return Some(Box::new(move |_, _, _| format!("{}: ", path.display())));
        };
        Some(Box::new(move |kind, id, message| match collections::position(&document, kind, id) {
            Some((list, index)) => text.item(list, index, message),
            None => format!("{}: ", path.display()),
        }))
    }

    fn changes_since(&self, revision: u64) -> Changes {
        self.shared.live.changes_since(revision)
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.shared.live.watch()
    }

    fn is_writable(&self) -> bool {
        false
    }

    fn revisions_last(&self) -> bool {
        false
    }
}
