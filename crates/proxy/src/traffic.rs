//! Requests as they end, for viewers.
//!
//! ```text
//! worker: request has ended --(does it fit? is there room?)--> a queue --every 100 ms--> viewers
//! ```
//!
//! Workers wait for no viewer: without one they load one flag, and else they leave a request out where a lock is held, or as many
//! have been shown as may be in that time. Values of credentials are masked before they get into the queue.

use std::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant, SystemTime},
};

use parking_lot::{Mutex, RwLock};
use tidegate_model::{field_shown, url::without_user};
use tidegate_plugin_api::{Request, outcome::Attempt, route::Birth, upstream::Peer};

/// Requests that wait to be taken.
const MOST_WAITING: usize = 512;

/// Fields of a request that are shown, and bytes of each value.
const MOST_FIELDS: usize = 40;
const LONGEST_VALUE: usize = 256;
const LONGEST_TARGET: usize = 1024;

/// On a cache line that is written only when a viewer comes or goes.
#[repr(align(128))]
struct Watched(AtomicBool);

static WATCHED: Watched = Watched(AtomicBool::new(false));
static FILTERS: RwLock<Vec<Filter>> = RwLock::new(Vec::new());
static SEEN: Mutex<Vec<Seen>> = Mutex::new(Vec::new());

/// How many requests may still be shown in this time, and how many that failed.
static ROOM: AtomicU32 = AtomicU32::new(0);
static ROOM_FOR_FAILED: AtomicU32 = AtomicU32::new(0);

/// Requests that fit and were not shown.
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// Which requests a viewer wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The id of their route.
    pub route: Option<String>,
    /// Which of the routes that have had this id.
    pub birth: Option<Birth>,
    /// Their consumer.
    pub consumer: Option<String>,
    /// The first and the last status.
    pub status: Option<(u16, u16)>,
    /// Those that took at least as long.
    pub least: Duration,
}

/// A request that has ended.
#[derive(Clone, Debug)]
pub struct Seen {
    /// When.
    pub ended: SystemTime,
    /// As sent.
    pub method: String,
    /// As sent.
    pub host: String,
    /// Path and query; arguments that are credentials are masked.
    pub target: String,
    /// Of the answer.
    pub status: u16,
    /// Empty: none.
    pub route: String,
    /// Of the route.
    pub birth: Option<Birth>,
    /// Empty: none.
    pub consumer: String,
    /// The client's address.
    pub client: String,
    /// The node of the last attempt.
    pub node: String,
    /// From the first byte of the request to the last of the answer.
    pub total: Duration,
    /// Tries to reach a node.
    pub attempts: Vec<Attempt>,
    /// Bytes to the client.
    pub bytes_sent: u64,
    /// Fields of the request; values that are credentials are masked.
    pub headers: Vec<(String, String)>,
}

impl Filter {
    fn fits(&self, request: &Request, total: Duration) -> bool {
        let route = (route_of(request), birth_of(request));
        self.fits_all(request.response.status, total, route, consumer_of(request))
    }

    /// As the workers decide it, of a request that was shown because it fits another filter.
    pub fn fits_seen(&self, seen: &Seen) -> bool {
        self.fits_all(seen.status, seen.total, (&seen.route, seen.birth), &seen.consumer)
    }

    fn fits_all(
        &self,
        status: u16,
        total: Duration,
        (route, birth): (&str, Option<Birth>),
        consumer: &str,
    ) -> bool {
        let is =
            |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
        self.status.is_none_or(|(first, last)| (first..=last).contains(&status))
            && total >= self.least
            && is(&self.route, route)
            && (self.birth.is_none() || self.birth == birth)
            && is(&self.consumer, consumer)
    }
}

fn route_of(request: &Request) -> &str {
    request.route.as_deref().map_or("", |route| &route.id)
}

fn birth_of(request: &Request) -> Option<Birth> {
    request.route.as_deref().map(|route| route.birth)
}

fn consumer_of(request: &Request) -> &str {
    request.consumer.as_deref().map_or("", |consumer| &consumer.username)
}

/// Replaces the filters of all viewers. An empty list turns observation off.
pub fn watch(filters: Vec<Filter>) {
    let is_watched = !filters.is_empty();
    *FILTERS.write() = filters;
    WATCHED.0.store(is_watched, Relaxed);
    if !is_watched {
        SEEN.lock().clear();
    }
}

/// What has ended since the last call, and how many were left out; `room` more may be shown until the next one, and as many that failed.
pub fn take(room: u32) -> (Vec<Seen>, u64) {
    admit(room);
    (std::mem::take(&mut *SEEN.lock()), LEFT_OUT.swap(0, Relaxed))
}

/// So many may be shown until the next call of [`take`].
pub fn admit(room: u32) {
    ROOM.store(room, Relaxed);
    ROOM_FOR_FAILED.store(room, Relaxed);
}

#[inline]
pub(crate) fn is_watched() -> bool {
    WATCHED.0.load(Relaxed)
}

/// Shows a request that has ended, if a viewer wants to see it and nothing has to be waited for.
#[cold]
pub(crate) fn offer(request: &mut Request) {
    let finished = *request.outcome.finished.get_or_insert_with(Instant::now);
    let total = finished.duration_since(request.started);
    let fits = FILTERS.try_read().map(|filters| filters.iter().any(|filter| filter.fits(request, total)));
    if fits == Some(false) {
        return;
    }
    let room = if request.response.status >= 500 { &ROOM_FOR_FAILED } else { &ROOM };
    let one_less = |room: u32| room.checked_sub(1);
    if fits.is_some() && room.fetch_update(Relaxed, Relaxed, one_less).is_ok() {
        let shown = describe(request, total);
        if let Some(mut seen) = SEEN.try_lock().filter(|seen| seen.len() < MOST_WAITING) {
            seen.push(shown);
            return;
        }
    }
    LEFT_OUT.fetch_add(1, Relaxed);
}

fn describe(request: &Request, total: Duration) -> Seen {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields = request.head.headers.iter().take(MOST_FIELDS).map(|(name, value)| {
        let (name, value) = (text(name), text(value));
        let value = cut(&without_user(field_shown(&name, &value)), LONGEST_VALUE);
        (cut(&name, LONGEST_VALUE), value)
    });
    let node = request.outcome.peer.as_ref().and_then(Peer::node);
    Seen {
        ended: SystemTime::now(),
        method: text(request.head.method.as_bytes()),
        host: cut(&text(&request.host), LONGEST_VALUE),
        target: cut(&without_user(&text(request.head.target())), LONGEST_TARGET),
        status: request.response.status,
        route: route_of(request).to_owned(),
        birth: birth_of(request),
        consumer: consumer_of(request).to_owned(),
        client: request.remote_addr.to_string(),
        node: node.map_or_else(String::new, |node| format!("{}:{}", node.ip, node.port)),
        total,
        attempts: request.outcome.attempts.to_vec(),
        bytes_sent: request.outcome.bytes_sent,
        headers: fields.collect(),
    }
}

fn cut(text: &str, longest: usize) -> String {
    let mut end = text.len().min(longest);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = if end < text.len() { "…" } else { "" };
    format!("{}{cut}", text.get(..end).unwrap_or_default())
}
