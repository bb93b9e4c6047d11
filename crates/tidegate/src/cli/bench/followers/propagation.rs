//! From the moment a change is sent to the moment each follower has it.

use std::{
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use serde_json::json;
use tidegate_bench::Problem;
use tidegate_model::Kind;
use tidegate_store::{Etcd, Operation, Store};
use tokio::{runtime::Runtime, task::JoinHandle};

/// How long the last change may take to arrive.
const PATIENCE: Duration = Duration::from_secs(10);
const ID: &str = "bench-followers";

pub(super) struct Propagation {
    /// What each follower saw: revisions with the times at which they were visible.
    seen: Vec<JoinHandle<Vec<(u64, Instant)>>>,
    over: tokio::sync::watch::Sender<bool>,
    sent: Mutex<Vec<(u64, Instant)>>,
    followers: usize,
}

impl Propagation {
    pub(super) fn watch(runtime: &Runtime, fleet: &[Arc<Etcd>]) -> Propagation {
        let (over, ended) = tokio::sync::watch::channel(false);
        let seen = fleet.iter().map(|follower| {
            let (mut revisions, mut ended) = (follower.watch(), ended.clone());
            revisions.mark_unchanged();
            runtime.spawn(async move {
                let mut seen = Vec::new();
                loop {
                    tokio::select! {
                        changed = revisions.changed() => match changed {
                            Ok(()) => seen.push((*revisions.borrow_and_update(), Instant::now())),
                            Err(_) => return seen,
                        },
                        _ = ended.wait_for(|over| *over) => return seen,
                    }
                }
            })
        });
        let seen: Vec<_> = seen.collect();
        Propagation { followers: seen.len(), seen, over, sent: Mutex::default() }
    }

    /// Writes through the first follower, at a constant rate.
    pub(super) fn write(
        &self,
        runtime: &Runtime,
        writer: Option<&Arc<Etcd>>,
        per_second: f64,
        length: Duration,
        stop: &AtomicBool,
    ) -> Result<(), Problem> {
        let Some(writer) = writer else { return Ok(()) };
        let (start, mut number) = (Instant::now(), 0_u32);
        while start.elapsed() < length && !stop.load(Relaxed) {
            let due = start + Duration::from_secs_f64(f64::from(number) / per_second);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let value = Arc::new(json!({"uri": "/bench", "desc": number.to_string()}));
            let put =
                Operation::Put { kind: Kind::Route, id: ID.into(), value, expected: None, ttl_seconds: None };
            let sent = Instant::now();
            let written = runtime.block_on(writer.write(vec![put].into()));
            let written = written.map_err(|error| Problem::failed(format!("change {number}: {error}")))?;
            self.sent.lock().unwrap_or_else(PoisonError::into_inner).push((written.revision, sent));
            number += 1;
        }
        let delete = Operation::Delete { kind: Kind::Route, id: ID.into(), expected: None };
        let deleted = runtime.block_on(writer.write(vec![delete].into()));
        deleted.map_err(|error| Problem::failed(format!("the last change: {error}")))?;
        std::thread::sleep(PATIENCE.min(length / 4));
        Ok(())
    }

    /// Reports times; whether every change reached every follower.
    pub(super) fn finish(self, runtime: &Runtime, out: &mut String) -> bool {
        self.over.send_replace(true);
        let sent = self.sent.into_inner().unwrap_or_else(PoisonError::into_inner);
        let (mut times, mut lost) = (Vec::new(), 0);
        for seen in self.seen {
            let seen = runtime.block_on(seen).unwrap_or_default();
            for (revision, at) in &sent {
                // A follower may have two changes at once.
                match seen.iter().find(|(visible, _)| visible >= revision) {
                    Some((_, visible)) => times.push(visible.saturating_duration_since(*at)),
                    None => lost += 1,
                }
            }
        }
        times.sort_unstable();
        let at = |part: f64| {
            let index = (times.len() as f64 * part) as usize;
            times.get(index.min(times.len().saturating_sub(1))).copied().unwrap_or_default().as_secs_f64()
                * 1000.0
        };
        let _ = writeln!(
            out,
            "{} changes at {} followers, from the write to the follower: p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms; {lost} missing",
            sent.len(),
            self.followers,
            at(0.5),
            at(0.99),
            at(1.0)
        );
        lost == 0 && !sent.is_empty()
    }
}
