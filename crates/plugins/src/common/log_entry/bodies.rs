//! Bodies in log entries: kept in counted memory, and read on another thread where that takes long.
//!
//! A worker reads bodies up to [`aside::SMALL`] itself. For a longer one (compressed answers may unfold to a thousand times their
//! length) the entry gets a mark, and the text takes the mark's place on a thread for blocking work.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use tidegate_clients::batch::{Weigh, memory::Account};
use tidegate_model::random::random_u64;
use tidegate_plugin_api::aside;
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

use crate::common::{
    decompress::{NoRoom, decompress, decompress_within},
    log_format::{Marks, text},
    masked_body::Shown,
};

/// Bodies that are kept until their requests end, or until they are read. Their number is that of slow clients.
static KEPT: Account = Account::new();

/// What an entry weighs for each byte of a body: see [`Weigh::weight`].
const MADE_OF_A_BYTE: usize = 3;

/// No client can guess them.
pub(super) static MARKS: LazyLock<Marks> = LazyLock::new(|| {
    let random = random_u64;
    let mark = |name| format!("{name} {:016x}{:016x}", random(), random());
    Marks { request: mark("request body"), response: mark("response body") }
});

/// A part of the memory for bodies. Dropping it gives it back.
#[derive(Default)]
struct Lease(usize);

impl Lease {
    fn grow_to(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.0) else { return true };
        let fits = KEPT.take(more);
        if fits {
            self.0 = bytes;
        }
        fits
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        KEPT.give_back(self.0);
    }
}

#[cold]
fn warn_of_dropped(whose: &str) {
    static LINES: Limiter = Limiter::new(1, 1000);
    if let Some(others) = LINES.pass() {
        error_log::log(
            Level::Error,
            format_args!(
                "a {whose} body is not logged: bodies kept for logs take too much memory \
                 (apisix.log_memory); \
                 {others} more since the previous line"
            ),
        );
    }
}

/// The response body as one logger keeps it.
#[derive(Default)]
pub(super) struct Kept {
    pub serial: u64,
    pub wanted: bool,
    data: Vec<u8>,
    lease: Lease,
}

impl Kept {
    pub(super) fn new(serial: u64, wanted: bool) -> Kept {
        Kept { serial, wanted, ..Kept::default() }
    }

    /// Keeps more of the body, up to `max` bytes; without memory for it, nothing of the body is logged.
    pub(super) fn extend(&mut self, bytes: &[u8], max: usize) {
        let bytes = bytes.get(..max.saturating_sub(self.data.len())).unwrap_or(bytes);
        let needed = self.data.len() + bytes.len();
        if needed > self.lease.0 {
            let room = needed.next_power_of_two().min(max.max(needed));
            if !self.lease.grow_to(room) {
                warn_of_dropped("response");
                *self = Kept::new(self.serial, false);
                return;
            }
            self.data.reserve_exact(room - self.data.len());
        }
        self.data.extend_from_slice(bytes);
    }

    /// The body in clear. `Err`: reading it takes long.
    pub(super) fn read(&mut self, coding: Option<&[u8]>, max: usize) -> Result<Option<String>, ResponseBody> {
        let small = self.data.len() <= aside::SMALL;
        let read = match coding {
            None => small.then(|| Some(text(&self.data))),
            Some(coding) if small => {
                let data = decompress(coding, &self.data, max.min(aside::SMALL + 1));
                let whole = data.as_ref().is_none_or(|data| data.len() <= aside::SMALL);
                whole.then(|| data.map(into_text))
            }
            Some(_) => None,
        };
        read.ok_or_else(|| ResponseBody {
            kept: std::mem::replace(self, Kept::new(self.serial, false)),
            coding: coding.map(<[u8]>::to_vec),
            max,
        })
    }
}

fn into_text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| text(error.as_bytes()))
}

pub(crate) struct ResponseBody {
    kept: Kept,
    coding: Option<Vec<u8>>,
    max: usize,
}

impl ResponseBody {
    /// With the memory that an entry takes which holds it.
    fn read(self) -> Option<(String, Lease)> {
        let mut lease = Lease::default();
        let mut grow = |bytes: usize| lease.grow_to(bytes.saturating_mul(MADE_OF_A_BYTE));
        let data = match &self.coding {
            None if grow(self.kept.data.len()) => Ok(Some(self.kept.data)),
            None => Err(NoRoom),
            Some(coding) => decompress_within(coding, &self.kept.data, self.max, &mut grow),
        };
        let Ok(data) = data else {
            warn_of_dropped("response");
            return None;
        };
        Some((into_text(data?), lease))
    }
}

/// Counted before it waits: of those that wait there may be many.
fn lease(body: Option<&Shown>, others: usize) -> Option<Lease> {
    let mut lease = Lease::default();
    let bytes = body.map_or(0, Shown::len).saturating_mul(MADE_OF_A_BYTE);
    lease.grow_to(others.saturating_add(bytes)).then_some(lease)
}

/// The bodies that an entry has marks for.
struct Unread {
    request: Option<Shown>,
    response: Option<ResponseBody>,
    /// Of the entry, and of what it takes with the request's body.
    waiting: Lease,
}

/// An entry, perhaps with marks.
pub(crate) struct Entry {
    fields: Map<String, Value>,
    unread: Option<Box<Unread>>,
}

/// Something made of an entry, or what makes it on another thread.
pub(crate) enum Made<T> {
    Now(T),
    /// With what it weighs as far as that is known.
    Later(usize, Box<dyn FnOnce() -> T + Send>),
}

impl Entry {
    pub(crate) fn new(
        mut fields: Map<String, Value>,
        request: Option<Shown>,
        response: Option<ResponseBody>,
    ) -> Entry {
        // Of a body that another plugin has read, the entry may say nothing.
        let request = request.filter(|_| mentions(&fields, &MARKS.request));
        if request.is_none() && response.is_none() {
            return Entry { fields, unread: None };
        }
        if let Some(waiting) = lease(request.as_ref(), fields.weight()) {
            let unread = Unread { request, response, waiting };
            return Entry { fields, unread: Some(Box::new(unread)) };
        }
        warn_of_dropped(if request.is_some() { "request" } else { "response" });
        put(&mut fields, &MARKS.request, None);
        put(&mut fields, &MARKS.response, None);
        Entry { fields, unread: None }
    }

    pub(crate) fn then<T>(self, make: impl FnOnce(Map<String, Value>) -> T + Send + 'static) -> Made<T> {
        let Entry { mut fields, unread } = self;
        let Some(unread) = unread else { return Made::Now(make(fields)) };
        let weight = unread.waiting.0;
        let made = Box::new(move || {
            let Unread { request, response, waiting } = *unread;
            let request = request.and_then(Shown::read).map(|body| text(&body));
            put(&mut fields, &MARKS.request, request.as_ref());
            let response = response.and_then(ResponseBody::read);
            put(&mut fields, &MARKS.response, response.as_ref().map(|(text, _)| text));
            let made = make(fields);
            drop((request, response, waiting));
            made
        });
        Made::Later(weight, made)
    }
}

/// A text that ends with the request's body.
pub(crate) fn with_request_body(mut start: Vec<u8>, body: Shown) -> Made<String> {
    if body.is_short() {
        start.extend_from_slice(&body.read().unwrap_or_default());
        return Made::Now(into_text(start));
    }
    let Some(lease) = lease(Some(&body), start.len()) else {
        warn_of_dropped("request");
        return Made::Now(into_text(start));
    };
    let weight = lease.0;
    let made = Box::new(move || {
        start.extend_from_slice(&body.read().unwrap_or_default());
        drop(lease);
        into_text(start)
    });
    Made::Later(weight, made)
}

impl<T: Send + 'static> Made<T> {
    pub(crate) fn map<U>(self, make: impl FnOnce(T) -> U + Send + 'static) -> Made<U> {
        match self {
            Made::Now(value) => Made::Now(make(value)),
            Made::Later(weight, first) => Made::Later(weight, Box::new(move || make(first()))),
        }
    }
}

/// Puts a body, or nothing, in place of its marks.
fn put(fields: &mut Map<String, Value>, mark: &str, body: Option<&String>) {
    fields.retain(|_, value| put_value(value, mark, body));
}

fn mentions(fields: &Map<String, Value>, mark: &str) -> bool {
    fn in_value(value: &Value, mark: &str) -> bool {
        match value {
            Value::String(text) => text == mark,
            Value::Object(fields) => mentions(fields, mark),
            Value::Array(items) => items.iter().any(|item| in_value(item, mark)),
            _ => false,
        }
    }
    fields.values().any(|value| in_value(value, mark))
}

/// `false`: the value was the mark of a body that is not there.
fn put_value(value: &mut Value, mark: &str, body: Option<&String>) -> bool {
    match value {
        Value::String(text) if text == mark => {
            let Some(body) = body else { return false };
            text.clone_from(body);
        }
        Value::Object(fields) => put(fields, mark, body),
        Value::Array(items) => items.retain_mut(|item| put_value(item, mark, body)),
        _ => {}
    }
    true
}
