//! Batches of log entries: collected per configuration, sent from the control runtime, sent again when that fails.
//!
//! A worker only pushes into a queue. Waiting entries are bounded, in number per logger (`max_pending_entries` of its
//! metadata) and in bytes per logger and over all ([`memory`]); past it entries are dropped, counted and reported in the
//! error log once a second.

mod gauge;
mod lot;
pub mod memory;
mod pending;
mod weight;

use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use gauge::Gauge;
use serde::Deserialize;
use serde_json::Value;
use tidegate_plugin_api::{Request, aside, hops, stop};
use tidegate_telemetry::error_log::{self, Level};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    task::JoinSet,
    time::Instant,
};

pub use gauge::entries;
pub use lot::Lot;
pub use pending::{Counts, Pending, counts};
pub use weight::Weigh;

/// The fields that all batching loggers share; times in seconds.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct BatchConf {
    pub name: String,
    pub batch_max_size: usize,
    pub max_retry_count: u32,
    pub retry_delay: u64,
    pub buffer_duration: f64,
    pub inactive_timeout: f64,
}

/// Batches of one configuration that are on their way at the same time.
const MAX_SENDING: usize = 16;

/// Sends one batch; the error is the reason why it could not.
pub type Sending = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;
type Send_<T> = Box<dyn Fn(Arc<Lot<T>>) -> Sending + Send + Sync>;

struct Shared<T> {
    conf: BatchConf,
    send: Send_<T>,
    pending: &'static Pending,
    gauge: Arc<Gauge>,
    /// What is said of deliveries is not an entry itself.
    of_error_log: bool,
}

impl<T> Shared<T> {
    /// What is logged meanwhile is about a delivery, too.
    async fn attempt(&self, entries: Arc<Lot<T>>) -> Result<(), String> {
        let sending = hops::delivering((self.send)(entries));
        match self.of_error_log {
            true => error_log::keeping_back(sending).await,
            false => sending.await,
        }
    }

    fn log_error(&self, message: std::fmt::Arguments<'_>) {
        let say = || error_log::log(Level::Error, message);
        if self.of_error_log { error_log::kept_back(say) } else { say() }
    }

    fn done(&self, count: usize, bytes: usize) {
        self.pending.done(count, bytes);
        self.gauge.done(count);
    }
}

/// Entries for one batch, and their weight.
struct Buffer<T> {
    entries: Vec<T>,
    bytes: usize,
}

impl<T> Default for Buffer<T> {
    fn default() -> Buffer<T> {
        Buffer { entries: Vec::new(), bytes: 0 }
    }
}

impl<T> Buffer<T> {
    fn push(&mut self, (entry, bytes): (T, usize)) {
        self.entries.push(entry);
        self.bytes += bytes;
    }
}

/// The batches of one configuration. Dropped with it; waiting entries are still sent.
pub struct Batch<T> {
    shared: Arc<Shared<T>>,
    limit: usize,
    /// Made at the first entry: a route that logs nothing costs nothing.
    queue: OnceLock<UnboundedSender<(T, usize)>>,
}

impl<T: Weigh + Send + Sync + 'static> Batch<T> {
    /// `plugin`: whose limit of waiting entries counts. `send` runs on the control runtime.
    pub fn new(
        plugin: &'static str,
        conf: &Value,
        metadata: Option<&Value>,
        send: impl Fn(Arc<Lot<T>>) -> Sending + Send + Sync + 'static,
    ) -> Result<Batch<T>, String> {
        Batch::make(plugin, conf, metadata, Box::new(send), false)
    }

    /// Of lines of the error log.
    pub fn of_error_log(
        plugin: &'static str,
        conf: &Value,
        send: impl Fn(Arc<Lot<T>>) -> Sending + Send + Sync + 'static,
    ) -> Result<Batch<T>, String> {
        Batch::make(plugin, conf, None, Box::new(send), true)
    }

    fn make(
        plugin: &'static str,
        conf: &Value,
        metadata: Option<&Value>,
        send: Send_<T>,
        of_error_log: bool,
    ) -> Result<Batch<T>, String> {
        let conf: BatchConf = tidegate_plugin_api::typed(conf)?;
        let limit = metadata
            .and_then(|metadata| metadata.get("max_pending_entries"))
            .and_then(Value::as_u64)
            .map_or(DEFAULT_MAX_PENDING, |limit| limit as usize);
        let gauge = Gauge::new(&conf.name);
        let shared = Shared { conf, send, pending: pending::of(plugin), gauge, of_error_log };
        Ok(Batch { shared: Arc::new(shared), limit, queue: OnceLock::new() })
    }

    /// Takes an entry about a request, or drops it when too many wait.
    ///
    /// Deliveries, also those of other loggers, get no entry: it would be delivered, and so on.
    pub fn push(&self, request: &Request, entry: T) {
        self.put(request, entry, None);
    }

    /// As [`Batch::push`] for a logger, whose waiting entries are shown with the request's route.
    pub fn push_shown(&self, request: &Request, entry: T) {
        self.put(request, entry, Some(request));
    }

    /// As [`Batch::push_shown`] of an entry that takes long to make. It takes its place first: an entry that would be
    /// dropped is not made, and does not hold a body until then. `weight`: as far as it is known.
    pub fn push_made_elsewhere(&self, request: &Request, weight: usize, make: Box<dyn FnOnce() -> T + Send>) {
        if hops::origin(request).is_of_delivery() {
            return self.shared.pending.count_own_delivery();
        }
        let (Some(queue), Some(host)) = (self.queue().cloned(), tidegate_plugin_api::host()) else { return };
        let expected = size_of::<T>() + weight;
        if !self.shared.pending.add(self.limit, expected) {
            return;
        }
        self.shared.gauge.add(Some(request));
        let (shared, guard) = (self.shared.clone(), stop::guard());
        host.background.spawn(async move {
            let make = move || {
                let entry = make();
                let bytes = size_of::<T>() + entry.weight();
                (entry, bytes)
            };
            match aside::run(aside::Whose::Ours, make).await {
                Ok((entry, bytes)) if shared.pending.weighs(expected, bytes) => {
                    if queue.send((entry, bytes)).is_err() {
                        shared.pending.lost(1);
                        shared.done(1, bytes);
                    }
                }
                Ok(_) => shared.done(1, expected),
                Err(aside::Undone) => {
                    shared.pending.lost(1);
                    shared.done(1, expected);
                }
            }
            drop(guard);
        });
    }

    fn put(&self, request: &Request, entry: T, shown_for: Option<&Request>) {
        if hops::origin(request).is_of_delivery() {
            return self.shared.pending.count_own_delivery();
        }
        self.take(entry, shown_for);
    }

    /// As [`Batch::push`] of an entry that is about no request.
    pub fn push_plain(&self, entry: T) {
        self.take(entry, None);
    }

    fn take(&self, entry: T, shown_for: Option<&Request>) {
        let bytes = size_of::<T>() + entry.weight();
        if !self.shared.pending.add(self.limit, bytes) {
            return;
        }
        self.shared.gauge.add(shown_for);
        if let Some(queue) = self.queue()
            && queue.send((entry, bytes)).is_ok()
        {
            return;
        }
        self.shared.done(1, bytes);
    }

    fn queue(&self) -> Option<&UnboundedSender<(T, usize)>> {
        if self.queue.get().is_none() {
            let background = &tidegate_plugin_api::host()?.background;
            self.queue.get_or_init(|| {
                let (sender, receiver) = unbounded_channel();
                background.spawn(task(collect(self.shared.clone(), receiver, stop::guard())));
                sender
            });
        }
        self.queue.get()
    }
}

/// As in APISIX: a backlog of large bodies must not exhaust the memory.
const DEFAULT_MAX_PENDING: usize = 8192;

/// A day at most: sums with the clock must not overflow.
fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value.clamp(0.0, 86_400.0)).unwrap_or(Duration::from_secs(1))
}

/// One type for the tasks of all kinds of entries: the runtime's code for a task is there once, not for each of them.
fn task(work: impl Future<Output = ()> + Send + 'static) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(work)
}

/// Fills batches until the configuration is gone or the process ends.
async fn collect<T: Send + Sync + 'static>(
    shared: Arc<Shared<T>>,
    mut queue: UnboundedReceiver<(T, usize)>,
    guard: stop::Guard,
) {
    let mut sending = JoinSet::new();
    let mut buffer = Buffer::default();
    let (mut first, mut last) = (Instant::now(), Instant::now());
    let inactive = seconds(shared.conf.inactive_timeout);
    let longest = seconds(shared.conf.buffer_duration);
    let mut stopping = std::pin::pin!(stop::requested());
    loop {
        let due = (last + inactive).min(first + longest);
        tokio::select! {
            entry = queue.recv() => match entry {
                Some(entry) => {
                    last = Instant::now();
                    if buffer.entries.is_empty() {
                        first = last;
                    }
                    buffer.push(entry);
                    if buffer.entries.len() >= shared.conf.batch_max_size {
                        send(&shared, &mut buffer, &mut sending).await;
                    }
                }
                None => break,
            },
            () = tokio::time::sleep_until(due), if !buffer.entries.is_empty() => {
                send(&shared, &mut buffer, &mut sending).await;
            }
            () = &mut stopping => {
                queue.close();
                while let Some(entry) = queue.recv().await {
                    buffer.push(entry);
                    if buffer.entries.len() >= shared.conf.batch_max_size {
                        send(&shared, &mut buffer, &mut sending).await;
                    }
                }
                break;
            }
            Some(_) = sending.join_next(), if !sending.is_empty() => {}
        }
    }
    send(&shared, &mut buffer, &mut sending).await;
    while sending.join_next().await.is_some() {}
    drop(guard);
}

async fn send<T: Send + Sync + 'static>(
    shared: &Arc<Shared<T>>,
    buffer: &mut Buffer<T>,
    sending: &mut JoinSet<()>,
) {
    if buffer.entries.is_empty() {
        return;
    }
    while sending.len() >= MAX_SENDING {
        sending.join_next().await;
    }
    let Buffer { entries, bytes } = std::mem::take(buffer);
    sending.spawn(task(deliver(shared.clone(), Arc::new(Lot::new(entries)), bytes)));
}

/// Sends a batch as often as the configuration allows.
async fn deliver<T>(shared: Arc<Shared<T>>, entries: Arc<Lot<T>>, bytes: usize) {
    let count = entries.len();
    let name = &shared.conf.name;
    let (mut failures, mut is_delivered) = (0, true);
    while let Err(reason) = shared.attempt(entries.clone()).await {
        shared.log_error(format_args!("Batch Processor[{name}] failed to process entries: {reason}"));
        failures += 1;
        if failures > shared.conf.max_retry_count {
            shared.log_error(format_args!(
                "Batch Processor[{name}] exceeded the max_retry_count[{failures}] dropping the entries"
            ));
            is_delivered = false;
            break;
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(shared.conf.retry_delay)) => {}
            // When the process ends, the last attempt is made at once.
            () = stop::requested() => failures = failures.max(shared.conf.max_retry_count),
        }
    }
    shared.pending.lost(entries.lost(is_delivered));
    drop(entries);
    shared.done(count, bytes);
}

/// Entries as one JSON document: the entry itself for batches of one, else a list.
pub fn json(entries: &[impl serde::Serialize + Weigh], batch_max_size: usize) -> Vec<u8> {
    // Allocated at its final length: a growing one takes twice as much for a while.
    let mut text = Vec::with_capacity(entries.encoded());
    let written = match entries {
        [only] if batch_max_size == 1 => serde_json::to_writer(&mut text, only),
        entries => serde_json::to_writer(&mut text, entries),
    };
    if written.is_err() {
        text.clear();
    }
    text
}
