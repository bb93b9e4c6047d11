//! The error log: nginx's line format, usable from any thread, never blocking.
//!
//! `2026/11/21 03:28:02 [error] 123#456: message, client: 10.0.0.1, server: _, request: "GET / HTTP/1.1"`
//!
//! The log is global because errors come from everywhere. Before [`init`] lines go to stderr. The same message
//! many times a second is cut to ten, then a line reports how often it was suppressed. On workers, where each request
//! may cause a distinct line, each place in the code is also limited in lines and bytes a second.

mod level;
mod places;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt;
use std::future::poll_fn;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;
use std::panic::Location;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::thread::LocalKey;

pub use self::level::Level;
use self::places::Places;
use crate::{clock::TimeStrings, log_writer::sink::LogSink};

/// The part of a line about its request; empty parts are left out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RequestContext<'a> {
    pub client: &'a str,
    pub server: &'a str,
    pub request: &'a str,
    pub upstream: &'a str,
    pub host: &'a str,
    pub request_id: &'a str,
}

static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8);
static SINK: OnceLock<LogSink> = OnceLock::new();

/// Lines of one message a second before it is cut.
const SAME_MESSAGE_LIMIT: u32 = 10;
/// Messages a thread remembers within a second; more pass unlimited.
const REMEMBERED_MESSAGES: usize = 256;
/// Longest line; the rest is cut. Messages can hold what a client sent.
const LONGEST_LINE_BYTES: usize = 8 * 1024;

/// Sets where lines go and from which level on. The destination is set once; later calls change the level.
pub fn init(level: Level, sink: LogSink) {
    set_level(level);
    // A second call would be a second boot in one process, as tests do: the first destination stays.
    let _ = SINK.set(sink);
}

/// Lines below it are dropped from now on, in all threads.
pub fn set_level(level: Level) {
    LEVEL.store(level as u8, Relaxed);
}

/// Whether lines of this level are written; ask before costly formatting.
#[inline]
pub fn enabled(level: Level) -> bool {
    level as u8 <= LEVEL.load(Relaxed)
}

/// From now on each place that logs on this thread has a limit: its lines are caused by clients.
pub fn limit_places() {
    let _ = STATE.try_with(|state| state.borrow_mut().places = Some(Places::default()));
}

/// Writes a line. Use the [`crate::log`] macro.
#[track_caller]
pub fn log(level: Level, message: fmt::Arguments<'_>) {
    log_request(level, message, &RequestContext::default());
}

/// Writes a line about a request.
#[track_caller]
pub(crate) fn log_request(level: Level, message: fmt::Arguments<'_>, context: &RequestContext<'_>) {
    if !enabled(level) || MUTED.get() {
        return;
    }
    let place = Location::caller();
    // Fails only while the thread is being torn down, or when a Display below logs itself.
    let _ = STATE.try_with(|state| {
        if let Ok(mut state) = state.try_borrow_mut() {
            state.write(level, message, context, place);
        }
    });
}

/// Takes each line that is written, with its line feed, on the thread that logs. It must not block, and what it logs is
/// lost.
pub type Forwarder = Box<dyn Fn(Level, &[u8]) + Send + Sync>;

static FORWARDER: RwLock<Option<Forwarder>> = RwLock::new(None);
static FORWARDS: AtomicBool = AtomicBool::new(false);

/// From now on lines go there as well.
pub fn forward(to: Option<Forwarder>) {
    FORWARDS.store(to.is_some(), Relaxed);
    let before = std::mem::replace(&mut *FORWARDER.write().unwrap_or_else(PoisonError::into_inner), to);
    // Not under the lock: the end of a forwarder may log.
    drop(before);
}

/// Runs a function whose lines are not forwarded, because they are about forwarding.
pub fn kept_back<T>(function: impl FnOnce() -> T) -> T {
    with(&KEPT_BACK, function)
}

/// A future whose lines are not forwarded: see [`kept_back`].
pub async fn keeping_back<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| kept_back(|| future.as_mut().poll(context))).await
}

/// Runs a function whose lines are not written, because what they tell does not happen.
pub fn muted<T>(function: impl FnOnce() -> T) -> T {
    with(&MUTED, function)
}

/// Runs a function while a flag of this thread is set; a panic leaves it as it was.
fn with<T>(flag: &'static LocalKey<Cell<bool>>, function: impl FnOnce() -> T) -> T {
    let _restore = Restore(flag, flag.replace(true));
    function()
}

/// As [`kept_back`], until what is returned is dropped.
#[must_use]
pub fn keep_back() -> impl Drop {
    Restore(&KEPT_BACK, KEPT_BACK.replace(true))
}

/// Sets the flag back.
struct Restore(&'static LocalKey<Cell<bool>>, bool);

impl Drop for Restore {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

thread_local! {
    static MUTED: Cell<bool> = const { Cell::new(false) };
    static KEPT_BACK: Cell<bool> = const { Cell::new(false) };
}

/// Writes a line to the error log: `telemetry::log!(Level::Warn, "route {id} skipped: {error}")`.
#[macro_export]
macro_rules! log {
    ($level:expr, $($argument:tt)+) => {
        if $crate::error_log::enabled($level) {
            $crate::error_log::log($level, ::std::format_args!($($argument)+));
        }
    };
}

thread_local! {
    static STATE: RefCell<ThreadState> = RefCell::new(ThreadState::new());
}

struct ThreadState {
    time: TimeStrings,
    thread_id: u64,
    message: Vec<u8>,
    second: String,
    seen: HashMap<u64, Repeats>,
    places: Option<Places>,
}

/// Takes as much as a line may have; the rest is not even formatted.
struct Cut<'a>(&'a mut Vec<u8>);

impl Write for Cut<'_> {
    fn write(&mut self, part: &[u8]) -> std::io::Result<usize> {
        let room = LONGEST_LINE_BYTES.saturating_sub(self.0.len()).min(part.len());
        self.0.extend_from_slice(&part[..room]);
        Ok(room)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Repeats {
    level: Level,
    count: u32,
    text: Vec<u8>,
    kept_back: bool,
}

impl ThreadState {
    fn new() -> Self {
        ThreadState {
            time: TimeStrings::default(),
            thread_id: thread_id(),
            message: Vec::new(),
            second: String::new(),
            seen: HashMap::new(),
            places: None,
        }
    }

    fn write(
        &mut self,
        level: Level,
        message: fmt::Arguments<'_>,
        context: &RequestContext<'_>,
        place: &'static Location<'static>,
    ) {
        self.time.refresh();
        if self.time.error_log() != self.second {
            self.start_second();
        }
        // Asked first: under a flood nothing is formatted.
        let is_full =
            level > Level::Critical && self.places.as_mut().is_some_and(|places| places.is_full(place));
        if is_full {
            return;
        }
        let mut text = std::mem::take(&mut self.message);
        text.clear();
        // An error means that the rest was cut.
        let _ = Cut(&mut text).write_fmt(message);
        if self.passes(level, &text) {
            let line = self.line(level, &text, context);
            if let Some(places) = &mut self.places {
                places.wrote(place, level, &text, line.len());
            }
            emit(level, line, KEPT_BACK.get());
        }
        self.message = text;
    }

    fn passes(&mut self, level: Level, text: &[u8]) -> bool {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let key = hasher.finish();
        if let Some(repeats) = self.seen.get_mut(&key) {
            repeats.count += 1;
            if repeats.count > SAME_MESSAGE_LIMIT && repeats.text.is_empty() {
                repeats.text.extend_from_slice(text);
            }
            return repeats.count <= SAME_MESSAGE_LIMIT;
        }
        if self.seen.len() < REMEMBERED_MESSAGES {
            self.seen.insert(key, Repeats { level, count: 1, text: Vec::new(), kept_back: KEPT_BACK.get() });
        }
        true
    }

    /// A new second: reports what the last one suppressed, on the thread's first line after it.
    fn start_second(&mut self) {
        self.second.clear();
        self.second.push_str(self.time.error_log());
        let seen = std::mem::take(&mut self.seen);
        for repeats in seen.values().filter(|repeats| repeats.count > SAME_MESSAGE_LIMIT) {
            let mut text = repeats.text.clone();
            let _ = write!(text, " (repeated {} more times)", repeats.count - SAME_MESSAGE_LIMIT);
            let line = self.line(repeats.level, &text, &RequestContext::default());
            emit(repeats.level, line, repeats.kept_back);
        }
        for (level, text) in self.places.as_mut().map(Places::start_second).unwrap_or_default() {
            emit(level, self.line(level, &text, &RequestContext::default()), false);
        }
    }

    fn line(&self, level: Level, text: &[u8], context: &RequestContext<'_>) -> Vec<u8> {
        let mut line = Vec::with_capacity(text.len() + 128);
        let time = self.time.error_log();
        let _ = write!(line, "{time} [{}] {}#{}: ", level.name(), std::process::id(), self.thread_id);
        push_clean(&mut line, text);
        let quoted = [("request", context.request), ("upstream", context.upstream), ("host", context.host)];
        for (name, value) in [("client", context.client), ("server", context.server)] {
            if !value.is_empty() {
                let _ = write!(line, ", {name}: ");
                push_clean(&mut line, value.as_bytes());
            }
        }
        for (name, value) in quoted.into_iter().chain([("request_id", context.request_id)]) {
            if !value.is_empty() {
                let _ = write!(line, ", {name}: \"");
                push_clean(&mut line, value.as_bytes());
                line.push(b'"');
            }
        }
        line.push(b'\n');
        line
    }
}

/// A message may quote what a client sent: it must not be able to start a new line, nor to send control
/// sequences to the terminal of an operator who reads the log.
fn push_clean(line: &mut Vec<u8>, text: &[u8]) {
    let harmless = |byte: &u8| if *byte < 0x20 && *byte != b'\t' || *byte == 0x7f { b' ' } else { *byte };
    line.extend(text.iter().map(harmless));
}

fn emit(level: Level, line: Vec<u8>, is_kept_back: bool) {
    if FORWARDS.load(Relaxed)
        && !is_kept_back
        && let Some(forward) = &*FORWARDER.read().unwrap_or_else(PoisonError::into_inner)
    {
        forward(level, &line);
    }
    match SINK.get() {
        // A worker must not wait for a disk, nor for the reader of a pipe.
        Some(sink) => _ = sink.send(line, 1),
        None => _ = std::io::stderr().write_all(&line),
    }
}

/// The kernel's id of this thread, as nginx shows it. Read from /proc because the call itself needs unsafe.
fn thread_id() -> u64 {
    std::fs::read_link("/proc/thread-self")
        .ok()
        .and_then(|link| link.file_name()?.to_str()?.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::log_writer::LogWriter;

    /// One test, because the log is global to the process.
    #[test]
    fn lines_levels_context_and_duplicates() {
        let directory = tempfile::tempdir().expect("temp dir");
        let path = directory.path().join("error.log");
        let writer = LogWriter::start().expect("thread starts");
        init(Level::Warn, writer.open(&path).expect("opens"));
        log!(Level::Info, "not shown");
        log!(Level::Warn, "route {} skipped", 7);
        let context = RequestContext {
            client: "10.0.0.1",
            server: "_",
            request: "GET /\n HTTP/1.1",
            host: "a.example",
            ..RequestContext::default()
        };
        log_request(Level::Error, format_args!("no healthy\nnode"), &context);
        for _ in 0..25 {
            log!(Level::Error, "again");
        }
        assert!(writer.drain(Duration::from_secs(10)));
        STATE.with_borrow_mut(ThreadState::start_second);
        let forwarded = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let (to, this) = (forwarded.clone(), std::thread::current().id());
        // Other tests log meanwhile.
        forward(Some(Box::new(move |level, line: &[u8]| {
            if std::thread::current().id() == this {
                to.lock().expect("lines").push((level, String::from_utf8_lossy(line).into_owned()));
            }
        })));
        log!(Level::Error, "forwarded");
        kept_back(|| log!(Level::Error, "kept back"));
        let failed = std::panic::catch_unwind(|| kept_back(|| panic!("on purpose")));
        assert!(failed.is_err() && !KEPT_BACK.get());
        // What is said of their number in the next second is kept back as they are.
        kept_back(|| (0..25).for_each(|_| log!(Level::Error, "kept back again")));
        STATE.with_borrow_mut(ThreadState::start_second);
        forward(None);
        log!(Level::Error, "not forwarded");
        let lines = forwarded.lock().expect("lines");
        assert_eq!((lines.len(), lines[0].0), (1, Level::Error), "{lines:?}");
        assert!(lines[0].1.ends_with(": forwarded\n"), "{lines:?}");

        let text = std::fs::read_to_string(&path).expect("log");
        let lines: Vec<&str> = text.lines().collect();
        let after = |line: &str| {
            line.split_once("#").and_then(|(_, rest)| rest.split_once(": ")).map(|split| split.1.to_owned())
        };
        assert!(lines[0].contains(" [warn] "), "{text}");
        assert_eq!(after(lines[0]).as_deref(), Some("route 7 skipped"));
        assert_eq!(
            after(lines[1]).as_deref(),
            Some(
                "no healthy node, client: 10.0.0.1, server: _, request: \"GET /  HTTP/1.1\", host: \"a.example\""
            )
        );
        // The clock may enter a new second in the middle of the loop, which starts the count again.
        let shown = text
            .matches(
                ": again
",
            )
            .count();
        assert!((10..25).contains(&shown), "{text}");
        assert!(!text.contains("not shown"));
    }
}
