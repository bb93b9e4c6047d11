//! Figures over time: the thread that takes them, and how they are shown (`GET /apisix/admin/stats`).

use std::{
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use anyhow::Context;
use serde_json::{Map, Value, json};
use tidegate_admin::StatsQuestion;
use tidegate_config::Settings;
use tidegate_proxy::Workers;
use tidegate_telemetry::{
    background, clock,
    metrics::{HTTP_LATENCY_BUCKETS_MS, Registry},
    stats::{Count, Share, Stats, View},
};

use super::{control::Control, metrics::Metrics};

const EVERY: Duration = Duration::from_secs(1);

/// The thread; dropped, what it knows is saved.
pub(super) struct Taking {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Taking {
    /// Where the Admin API is served; without it no client could ask.
    pub(super) fn start(
        settings: &Settings,
        metrics: &Metrics,
        workers: &Arc<Workers>,
        show: impl FnOnce(Arc<Stats>),
    ) -> anyhow::Result<Option<Taking>> {
        if settings.admin.listen.is_none() {
            return Ok(None);
        }
        let stats = Arc::new(Stats::new(settings.files.prefix.join("data").join("stats")));
        let (end, ended) = mpsc::channel();
        let (registry, workers, taken) = (metrics.registry.clone(), workers.clone(), stats.clone());
        let thread = std::thread::Builder::new().name("stats".to_owned()).spawn(move || {
            background::lower_priority();
            while let Err(mpsc::RecvTimeoutError::Timeout) = ended.recv_timeout(EVERY) {
                background::begin_turn();
                take_figures(&taken, &registry, &workers);
            }
            take_figures(&taken, &registry, &workers);
            taken.close(now());
        });
        let thread = thread.context("cannot start the thread of figures")?;
        show(stats);
        Ok(Some(Taking { end: Some(end), thread: Some(thread) }))
    }
}

impl Drop for Taking {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The second that most of the time since the last look was in.
fn now() -> u64 {
    u64::try_from(clock::unix_ms() - 500).unwrap_or_default() / 1000
}

fn take_figures(stats: &Stats, registry: &Registry, workers: &Workers) {
    let begun = workers.stats().iter().map(|seat| seat.count(|stats| &stats.requests)).sum();
    stats.take_figures(now(), begun, registry);
}

/// The answer to a question. Reads files: blocks.
pub(super) fn answer(stats: &Stats, control: &Control, question: &StatsQuestion) -> Value {
    let view = stats.view_of(now(), question.range_s, question.top, question.routes.as_ref());
    let (mut checked, mut unhealthy) = (0, Vec::new());
    control.health.each(|upstream, host, port, usable| {
        checked += 1;
        if !usable {
            unhealthy.push(json!({"upstream": upstream, "host": host, "port": port}));
        }
    });
    let mut answer = over_time(&view);
    let mut more = json!({
        "range_s": question.range_s,
        "totals": totals(&view),
        "routes": shares(&view.routes),
        "other_routes": share(&view.other_routes),
        "nodes": {"checked": checked, "unhealthy": unhealthy},
        "certificates": expiring(control),
        "kept": {"bytes": view.bytes, "problem": view.problem},
    });
    if question.consumers {
        more["consumers"] = shares(&view.consumers);
        more["other_consumers"] = share(&view.other_consumers);
    } else {
        more["consumers"] = Value::Null;
        more["other_consumers"] = Value::Null;
    }
    if let Value::Object(more) = more {
        answer.extend(more);
    }
    Value::Object(answer)
}

/// Certificates that end soon, as the error log warns of them: the next to end first.
const SOON_S: i64 = 30 * 24 * 3600;

const MOST_CERTIFICATES: usize = 100;

fn expiring(control: &Control) -> Value {
    let snapshot = control.publisher.current();
    let now = super::expiry::now();
    let mut soon: Vec<_> =
        snapshot.certificates.expiries.iter().filter(|one| one.expires - now < SOON_S).collect();
    soon.sort_by_key(|one| one.expires);
    let list: Vec<Value> = soon
        .iter()
        .take(MOST_CERTIFICATES)
        .map(|one| json!({"ssl": &*one.id, "name": &*one.name, "expires": one.expires}))
        .collect();
    json!({"total": soon.len(), "list": list})
}

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// A list for each figure; `null` where the gateway did not run.
fn over_time(view: &View) -> Map<String, Value> {
    let times = usize::try_from((view.to - view.from) / view.step).unwrap_or(0);
    let mut bins: Vec<Option<Count>> = vec![None; times];
    for (start, count) in &view.bins {
        let place = usize::try_from((start - view.from) / view.step).unwrap_or(usize::MAX);
        if let Some(bin) = bins.get_mut(place) {
            *bin = Some(*count);
        }
    }
    let list = |of: &dyn Fn(&Count) -> Value| -> Value {
        bins.iter().map(|bin| bin.as_ref().map_or(Value::Null, of)).collect()
    };
    let class = |class: usize| list(&|count| json!(count.classes.get(class)));
    let status: Map<String, Value> =
        CLASSES.iter().enumerate().map(|(at, name)| ((*name).to_owned(), class(at))).collect();
    let answer = json!({
        "from": view.from,
        "to": view.to,
        "step": view.step,
        "requests": list(&|count| json!(count.requests)),
        "counted": list(&|count| json!(count.counted)),
        "status": status,
        "mean_ms": list(&|count| json!(mean_ms(count.latency_us as f64 / 1000.0, count.counted))),
        "latency": {"bounds_ms": HTTP_LATENCY_BUCKETS_MS, "counts": list(&|count| json!(count.latency))},
        "ingress_bytes": list(&|count| json!(count.ingress)),
        "egress_bytes": list(&|count| json!(count.egress)),
    });
    match answer {
        Value::Object(answer) => answer,
        _ => Map::new(),
    }
}

fn totals(view: &View) -> Value {
    let (mut requests, mut counted, mut latency_us, mut ingress, mut egress) = (0, 0, 0, 0, 0);
    let mut classes = [0_u64; CLASSES.len()];
    let mut latency = vec![0_u64; HTTP_LATENCY_BUCKETS_MS.len() + 1];
    for (_, count) in &view.bins {
        requests += count.requests;
        counted += count.counted;
        latency_us += count.latency_us;
        ingress += count.ingress;
        egress += count.egress;
        classes.iter_mut().zip(count.classes).for_each(|(sum, more)| *sum += u64::from(more));
        latency.iter_mut().zip(count.latency).for_each(|(sum, more)| *sum += u64::from(more));
    }
    let status: Map<String, Value> =
        CLASSES.iter().zip(classes).map(|(name, count)| ((*name).to_owned(), json!(count))).collect();
    json!({
        "requests": requests,
        "counted": counted,
        "status": status,
        "mean_ms": mean_ms(latency_us as f64 / 1000.0, counted),
        "p50_ms": bound_of(&latency, 0.5),
        "p95_ms": bound_of(&latency, 0.95),
        "p99_ms": bound_of(&latency, 0.99),
        "ingress_bytes": ingress,
        "egress_bytes": egress,
    })
}

/// The upper bound of the bucket with this part of the requests; `null` without requests, and above all bounds.
fn bound_of(latency: &[u64], part: f64) -> Value {
    let wanted = latency.iter().sum::<u64>() as f64 * part;
    let mut sum = 0;
    let bucket = latency.iter().position(|count| {
        sum += count;
        sum > 0 && sum as f64 >= wanted
    });
    json!(bucket.and_then(|bucket| HTTP_LATENCY_BUCKETS_MS.get(bucket)))
}

/// To a hundredth of a millisecond.
fn mean_ms(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| (sum / count as f64 * 100.0).round() / 100.0)
}

fn shares(shares: &[(String, Share)]) -> Value {
    let named = |(name, one): &(String, Share)| {
        let mut shown = share(one);
        shown["id"] = json!(name);
        shown
    };
    shares.iter().map(named).collect()
}

fn share(share: &Share) -> Value {
    json!({
        "requests": share.requests,
        "status_4xx": share.client_errors,
        "status_5xx": share.server_errors,
        "mean_ms": mean_ms(share.latency_100us as f64 / 10.0, share.requests),
    })
}
