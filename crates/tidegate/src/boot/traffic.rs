//! Requests as they end, for the viewers of `GET /apisix/admin/traffic`.
//!
//! One task takes them from the workers ten times a second while there is a viewer, writes each down once, and gives it to those whose
//! filter it fits. A viewer who is slow misses some, and gets their number. The slowest and the last that failed are kept, for viewers that come later.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, UNIX_EPOCH},
};

use bytes::Bytes;
use serde_json::{Value, json};
use tidegate_admin::TrafficQuestion;
use tidegate_plugin_api::route::Birth;
use tidegate_protocol::claims::{self, Claim};
use tidegate_proxy::traffic::{self, Filter, Seen};
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval},
};

/// At a time.
const MOST_VIEWERS: usize = 20;

/// Events that a viewer may be behind.
const MOST_BEHIND: usize = 256;

const EVERY: Duration = Duration::from_millis(100);

/// Requests that are shown in that time, and as many that failed.
const ROOM: u32 = 20;

/// A connection is asked for again then: by who has signed out meanwhile in vain.
const LONGEST: Duration = Duration::from_secs(60);

/// Without a request there is a comment, so that a client that is gone is noticed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// Of each kind.
const MOST_KEPT: usize = 50;

#[derive(Default)]
pub(super) struct Traffic(Arc<Mutex<Hub>>);

#[derive(Default)]
struct Hub {
    viewers: Vec<Viewer>,
    slowest: Vec<Event>,
    failed: VecDeque<Event>,
    last: u64,
    is_running: bool,
}

struct Viewer {
    filter: Filter,
    consumers: bool,
    events: mpsc::Sender<Bytes>,
    missed: u64,
    until: Instant,
    told: Instant,
}

/// A request, written down for those who may see its consumer, and for others.
struct Event {
    seen: Seen,
    number: u64,
}

impl Traffic {
    /// What a viewer gets: events until the sender is dropped. `counted`: as [`Birth::of`] asks.
    pub(super) fn watch(
        &self,
        question: TrafficQuestion,
        counted: bool,
    ) -> Result<mpsc::Receiver<Bytes>, String> {
        let mut hub = lock(&self.0);
        hub.viewers.retain(|viewer| !viewer.events.is_closed());
        if hub.viewers.len() >= MOST_VIEWERS {
            return Err(format!("{MOST_VIEWERS} viewers look at the traffic already; try again later"));
        }
        let (events, receiver) = mpsc::channel(MOST_BEHIND);
        let now = Instant::now();
        let filter = Filter {
            route: question.route,
            birth: question.object.map(|object| Birth::of(&object, counted)),
            consumer: question.consumer,
            status: question.status,
            least: question.least,
        };
        let viewer = Viewer {
            filter,
            consumers: question.consumers,
            events,
            missed: 0,
            until: now + question.longest.min(LONGEST),
            told: now,
        };
        viewer.begin(&hub);
        hub.viewers.push(viewer);
        traffic::watch(hub.filters());
        traffic::admit(ROOM);
        if !std::mem::replace(&mut hub.is_running, true) {
            // Whichever thread the API answers on.
            let host = tidegate_plugin_api::host().ok_or("the gateway is starting")?;
            host.background.spawn(run(self.0.clone()));
        }
        Ok(receiver)
    }
}

fn lock(hub: &Mutex<Hub>) -> MutexGuard<'_, Hub> {
    hub.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn run(hub: Arc<Mutex<Hub>>) {
    let mut clock = interval(EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        clock.tick().await;
        let mut hub = lock(&hub);
        let (seen, left_out) = traffic::take(ROOM);
        hub.show(seen, left_out);
        if hub.viewers.is_empty() {
            hub.is_running = false;
            return;
        }
    }
}

impl Hub {
    /// Nothing is wanted of who does not look.
    fn filters(&self) -> Vec<Filter> {
        let mut filters: Vec<Filter> = Vec::new();
        for viewer in &self.viewers {
            if !filters.contains(&viewer.filter) {
                filters.push(viewer.filter.clone());
            }
        }
        filters
    }

    fn show(&mut self, seen: Vec<Seen>, left_out: u64) {
        for seen in seen {
            self.last += 1;
            let event = Event { seen, number: self.last };
            let texts = [false, true].map(|consumers| event.text("request", consumers));
            for viewer in self.viewers.iter_mut().filter(|viewer| viewer.filter.fits_seen(&event.seen)) {
                let [without, with] = &texts;
                viewer.send(if viewer.consumers { with } else { without });
            }
            self.keep(event);
        }
        let (now, before) = (Instant::now(), self.viewers.len());
        for viewer in &mut self.viewers {
            viewer.missed += left_out;
            viewer.report_missed(now);
        }
        self.viewers.retain(|viewer| !viewer.events.is_closed() && now < viewer.until);
        if self.viewers.len() != before {
            traffic::watch(self.filters());
        }
    }

    fn keep(&mut self, event: Event) {
        if event.seen.status >= 500 {
            if self.failed.len() >= MOST_KEPT {
                self.failed.pop_front();
            }
            self.failed.push_back(Event { seen: event.seen.clone(), number: event.number });
        }
        let at = self.slowest.partition_point(|other| other.seen.total >= event.seen.total);
        if at < MOST_KEPT {
            self.slowest.insert(at, event);
            self.slowest.truncate(MOST_KEPT);
        }
    }
}

impl Viewer {
    /// What is known already; as much as there is room for.
    fn begin(&self, hub: &Hub) {
        let _ = self.events.try_send(Bytes::from_static(b"retry: 500\n\n"));
        let send = |kind: &str, event: &Event| {
            if self.filter.fits_seen(&event.seen) {
                let _ = self.events.try_send(event.text(kind, self.consumers));
            }
        };
        hub.slowest.iter().for_each(|event| send("slowest", event));
        hub.failed.iter().for_each(|event| send("failed", event));
    }

    fn send(&mut self, text: &Bytes) {
        if self.events.try_send(text.clone()).is_err() {
            self.missed += 1;
        }
    }

    /// How many were not shown; or that it is still there.
    fn report_missed(&mut self, now: Instant) {
        let since = now.duration_since(self.told);
        if self.missed > 0 && since >= Duration::from_secs(1) {
            let text = Bytes::from(format!("event: missed\ndata: {}\n\n", self.missed));
            if self.events.try_send(text).is_ok() {
                (self.missed, self.told) = (0, now);
            }
        } else if since >= SIGN_OF_LIFE && self.events.try_send(Bytes::from_static(b":\n\n")).is_ok() {
            self.told = now;
        }
    }
}

/// Headers that say who the consumer is, beside what identifies clients everywhere.
const OF_CONSUMERS: [&str; 2] = ["x-credential-", "x-anonymous-consumer"];

/// Whether a request header tells its consumer: by its name, or because a plugin wrote the consumer's name into it.
fn tells_consumer(header: &str, value: &str, consumer: &str) -> bool {
    let is_claim = matches!(claims::of(header.as_bytes()), Some(Claim::Identity | Claim::AccessToken));
    let header = header.to_ascii_lowercase();
    is_claim
        || OF_CONSUMERS.iter().any(|start| header.starts_with(start))
        || (!consumer.is_empty() && value == consumer)
}

impl Event {
    fn text(&self, kind: &str, consumers: bool) -> Bytes {
        let request = self.described(consumers);
        Bytes::from(format!("event: {kind}\nid: {}\ndata: {request}\n\n", self.number))
    }

    fn described(&self, consumers: bool) -> Value {
        let Seen { attempts, .. } = &self.seen;
        let ms = |seconds: f64| (seconds * 1_000_000.0).round() / 1000.0;
        let upstream: f64 = attempts.iter().map(|attempt| attempt.response_seconds).sum();
        let total = self.seen.total.as_secs_f64();
        let ended = self.seen.ended.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let attempts: Vec<Value> = attempts
            .iter()
            .map(|attempt| {
                json!({
                    "address": attempt.address.to_string(),
                    "status": attempt.status,
                    "connect_ms": attempt.connect_seconds.map(ms),
                    "header_ms": attempt.header_seconds.map(ms),
                    "response_ms": ms(attempt.response_seconds),
                })
            })
            .collect();
        let tells = |name: &str, value: &str| tells_consumer(name, value, &self.seen.consumer);
        let shown = self.seen.headers.iter().filter(|(name, value)| consumers || !tells(name, value));
        let headers: Vec<Value> = shown.map(|(name, value)| json!([name, value])).collect();
        json!({
            "number": self.number,
            "ended_ms": u64::try_from(ended).unwrap_or(u64::MAX),
            "method": self.seen.method,
            "host": self.seen.host,
            "target": self.seen.target,
            "status": self.seen.status,
            "route": self.seen.route,
            "consumer": consumers.then_some(&self.seen.consumer),
            "client": self.seen.client,
            "node": self.seen.node,
            "total_ms": ms(total),
            "upstream_ms": (!attempts.is_empty()).then(|| ms(upstream)),
            "attempts": attempts,
            "bytes_sent": self.seen.bytes_sent,
            "headers": headers,
        })
    }
}
