//! The part that all batching loggers have in common: a logger adds what one entry is and how a batch is sent.

use std::sync::Arc;

use serde_json::{Map, Value};
use tidegate_clients::batch::{self, Batch, Lot, Sending, Weigh};
use tidegate_plugin_api::{BodyChunk, BuildContext, Foresight, Phases, Plugin, Request, Step};

use super::log_entry::{LogEntry, Made};

/// Makes the entry of a request.
type Make<T> = Box<dyn Fn(&LogEntry, &mut Request) -> Made<T> + Send + Sync>;

pub(crate) struct BatchLogger<T> {
    entry: LogEntry,
    make: Make<T>,
    batch: Batch<T>,
}

impl<T: Weigh + Send + Sync + 'static> BatchLogger<T> {
    pub(crate) fn build(
        plugin: &'static str,
        conf: &Value,
        context: &BuildContext,
        make: impl Fn(&LogEntry, &mut Request) -> Made<T> + Send + Sync + 'static,
        send: impl Fn(Arc<Lot<T>>) -> Sending + Send + Sync + 'static,
    ) -> Result<Arc<dyn Plugin>, String> {
        Ok(Arc::new(BatchLogger {
            entry: LogEntry::new(conf, context.metadata)?,
            make: Box::new(make),
            batch: Batch::new(plugin, conf, context.metadata, send)?,
        }))
    }
}

/// The entry as it stands, for [`BatchLogger::build`].
pub(crate) fn plain(entry: &LogEntry, request: &mut Request) -> Made<Map<String, Value>> {
    entry.entry(request).then(|entry| entry)
}

/// As `meta_format` says: the request as it was sent, or the entry.
pub(crate) fn in_format(
    original: bool,
) -> impl Fn(&LogEntry, &mut Request) -> Made<Value> + Send + Sync + 'static {
    move |entry, request| match original {
        true => entry.original(request).map(Value::String),
        false => entry.entry(request).then(Value::Object),
    }
}

/// The message that entries of [`in_format`] make for a queue.
pub(crate) fn message(entries: &[Value], batch_max_size: usize) -> Vec<u8> {
    match entries {
        [Value::String(only)] if batch_max_size == 1 => only.clone().into_bytes(),
        entries => batch::json(entries, batch_max_size),
    }
}

/// The entry with `route_id: no-matched` where no route matched.
pub(crate) fn with_route(entry: &LogEntry, request: &mut Request) -> Made<Map<String, Value>> {
    entry.entry(request).then(|mut entry| {
        entry.entry("route_id").or_insert_with(|| "no-matched".into());
        entry
    })
}

impl<T: Weigh + Send + Sync + 'static> Plugin for BatchLogger<T> {
    fn phases(&self) -> Phases {
        self.entry.phases()
    }

    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.entry.access(request)
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        self.entry.body_filter(request, chunk);
    }

    fn log(&self, request: &mut Request) {
        match (self.make)(&self.entry, request) {
            Made::Now(entry) => self.batch.push_shown(request, entry),
            Made::Later(weight, make) => self.batch.push_made_elsewhere(request, weight, make),
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}
