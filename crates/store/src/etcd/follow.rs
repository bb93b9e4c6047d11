//! The task that keeps the state in step with etcd.
//!
//! ```text
//! connect to a member -> read everything (first time, or after a compaction) -> watch from the next revision
//!        ^                                                                              |
//!        +--- pause, next member <--- silent, closed, refused, cancelled <--------------+
//! ```

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::{Duration, Instant},
};

use rustls::ClientConfig;
use tidegate_model::random::random_fraction;
use tidegate_telemetry::error_log::{Level, log};

use super::{
    connection,
    keys::{self, EtcdKey},
    load,
    rpc::{
        Client, Watch,
        messages::{Event, RangeRequest, WatchCreateRequest, WatchResponse},
    },
    shared::Shared,
    values,
};
use crate::Change;

/// How long a write of ours may be under way before the watch is asked for a sign of life, and how often it is asked then. A quiet
/// watch is asked for nothing: 1,000 gateways that ask twice a second keep a quarter of a core of etcd busy. That its member is
/// there is known by HTTP/2 PINGs ([`connection`]), and that the member has lost the cluster by `hasleader`.
const PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// A watch that was asked for that long is dead, whatever TCP thinks of it. The same for a new one.
const SILENCE_LIMIT: Duration = Duration::from_secs(2);
/// The first pause after a round over all members; doubled up to `resync_delay`, at most a second.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Full reads over one connection after the first; then a new one is made, with its pause.
const MAX_FORGOTTEN: u32 = 3;

/// How a watch ended.
enum Ended {
    /// etcd has forgotten the revisions asked for, or they were another cluster's.
    Forgotten(String),
    Lost(String),
}

pub(super) async fn run(shared: Arc<Shared>, tls: Option<Arc<ClientConfig>>) {
    let mut attempts: u64 = 0;
    let mut place = 0;
    // What was logged of each member since the last good connection: an outage is logged once, not each second.
    let mut told = vec![String::new(); shared.members.len()];
    loop {
        let Some(member) = shared.members.get(place) else { return };
        let problem = match connection::connect(member, &shared.options, &shared.pings, tls.clone()).await {
            Ok(client) => {
                let (in_step, problem) = serve(&shared, client).await;
                shared.client.send_replace(None);
                if in_step {
                    attempts = 0;
                    told.fill(String::new());
                }
                problem
            }
            Err(problem) => problem,
        };
        if shared.closed.load(Relaxed) {
            return;
        }
        let problem = format!("{}: {problem}", member.address);
        if let Some(told) = told.get_mut(place).filter(|told| **told != problem) {
            log(Level::Error, format_args!("failed to fetch data from etcd: {problem}"));
            told.clone_from(&problem);
        }
        attempts += 1;
        place = (place + 1) % shared.members.len();
        let rounds = attempts / shared.members.len() as u64;
        shared.followed.send_modify(|followed| {
            followed.rounds = rounds;
            followed.problem = Some(problem);
        });
        if attempts.is_multiple_of(shared.members.len() as u64) {
            tokio::time::sleep(pause(rounds, shared.options.resync_delay)).await;
        }
    }
}

/// Longer each round, and different for each gateway: they lost etcd at the same moment.
fn pause(rounds: u64, longest: Duration) -> Duration {
    let doublings = u32::try_from(rounds.saturating_sub(1)).unwrap_or(u32::MAX).min(10);
    let longest = longest.clamp(FIRST_PAUSE, LONGEST_PAUSE);
    let pause = FIRST_PAUSE.saturating_mul(1 << doublings).min(longest);
    pause.mul_f64(0.5 + random_fraction() / 2.0)
}

/// Works with one connection until it ends. Returns whether it ever was in step, and why it ended.
async fn serve(shared: &Arc<Shared>, client: Client) -> (bool, String) {
    let mut forgotten = 0;
    let mut session = Session { shared, client, in_step: false, missing: Vec::new() };
    if shared.term.load(Relaxed) == 0 {
        // What was read over an earlier connection may be of a term that no watch has reported.
        shared.followed.send_modify(|followed| followed.loaded = false);
    }
    loop {
        if !shared.followed.borrow().loaded {
            match load::load(shared, &session.client).await {
                Ok(missing) => session.missing = missing,
                Err(problem) => return (session.in_step, problem),
            }
        }
        match session.watch().await {
            Ended::Lost(problem) => return (session.in_step, problem),
            // Over and over again: an address behind which there are several clusters, for one.
            Ended::Forgotten(why) if forgotten == MAX_FORGOTTEN => return (session.in_step, why),
            Ended::Forgotten(why) => {
                forgotten += 1;
                log(Level::Warn, format_args!("{why}; reading the whole configuration again"));
                // Stays so until it was read, with whichever member.
                shared.followed.send_modify(|followed| followed.loaded = false);
            }
        }
    }
}

/// One connection at work.
struct Session<'a> {
    shared: &'a Arc<Shared>,
    client: Client,
    /// Whether it ever was in step with etcd.
    in_step: bool,
    /// Directories that lack APISIX's placeholder.
    missing: Vec<&'static str>,
}

impl Session<'_> {
    async fn watch(&mut self) -> Ended {
        let shared = self.shared;
        let next = shared.live.read(|state| state.revision) + 1;
        let (key, range_end) = keys::range(&shared.options.prefix);
        let start_revision = i64::try_from(next).unwrap_or(i64::MAX);
        let wanted = WatchCreateRequest { key, range_end, start_revision, progress_notify: true };
        let opened = tokio::time::timeout(SILENCE_LIMIT, self.client.watch(wanted)).await;
        let mut stream = match opened {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => return Ended::Lost(connection::reason(&error)),
            Err(_) => return Ended::Lost("no response to a watch request".to_owned()),
        };
        let mut writes = shared.writes.subscribe();
        let mut signs = Signs::default();
        loop {
            signs.expect(*writes.borrow_and_update() > 0);
            let message = tokio::select! {
                message = stream.message() => message,
                _ = writes.changed() => continue,
                () = signs.next_probe() => {
                    if let Err(problem) = signs.ask(&stream).await {
                        return Ended::Lost(problem);
                    }
                    continue;
                }
            };
            let mut answer = match message {
                Ok(Some(answer)) => answer,
                Ok(None) => return Ended::Lost("the watch was closed".to_owned()),
                Err(error) => {
                    let too_many = shared.pings.heed(&error);
                    return Ended::Lost(too_many.unwrap_or_else(|| connection::reason(&error)));
                }
            };
            signs.heard();
            if answer.created
                && let Err(problem) = self.complete(&mut answer).await
            {
                return Ended::Lost(problem);
            }
            if let Err(ended) = take(shared, &answer, next) {
                return ended;
            }
            if answer.created {
                self.enter_step();
            }
        }
    }

    /// Asks etcd who it is where `etcd grpc-proxy` has answered for it: to a watch that joins another it says neither cluster nor term.
    async fn complete(&self, answer: &mut WatchResponse) -> Result<(), String> {
        if answer.header.as_ref().is_some_and(|header| header.cluster_id != 0) {
            return Ok(());
        }
        let (key, _) = keys::range(&self.shared.options.prefix);
        let request = RangeRequest { key, limit: 1, ..RangeRequest::default() };
        let read = tokio::time::timeout(SILENCE_LIMIT, self.client.range(request)).await;
        let read = read.map_err(|_| "no response to a read".to_owned())?;
        answer.header = read.map_err(|error| connection::reason(&error))?.header;
        Ok(())
    }

    fn enter_step(&mut self) {
        self.in_step = true;
        self.shared.client.send_replace(Some(self.client.clone()));
        self.shared.followed.send_modify(|followed| {
            followed.rounds = 0;
            if followed.problem.take().is_some() {
                log(Level::Warn, format_args!("reconnected to etcd"));
            }
        });
        let missing = std::mem::take(&mut self.missing);
        if !missing.is_empty() {
            tokio::spawn(load::write_placeholders(self.shared.clone(), self.client.clone(), missing));
        }
    }
}

/// When a watch has to show that it lives: while a write of ours is under way.
#[derive(Default)]
struct Signs {
    probe_at: Option<Instant>,
    asked: Option<Instant>,
}

impl Signs {
    fn expect(&mut self, expected: bool) {
        match expected {
            true if self.probe_at.is_none() => self.probe_at = Some(Instant::now() + PROBE_INTERVAL),
            true => {}
            false => *self = Signs::default(),
        }
    }

    fn heard(&mut self) {
        self.asked = None;
        self.probe_at = self.probe_at.map(|_| Instant::now() + PROBE_INTERVAL);
    }

    async fn next_probe(&self) {
        match self.probe_at {
            Some(at) => tokio::time::sleep_until(at.into()).await,
            None => std::future::pending().await,
        }
    }

    async fn ask(&mut self, stream: &Watch) -> Result<(), String> {
        let now = Instant::now();
        let silence = now - *self.asked.get_or_insert(now);
        if silence > SILENCE_LIMIT {
            return Err(format!("silent for {:.1} s", silence.as_secs_f64()));
        }
        self.probe_at = Some(now + PROBE_INTERVAL);
        stream.request_progress().await.map_err(|error| connection::reason(&error))
    }
}

/// Applies one message of the watch, which asked for changes from revision `next` on.
fn take(shared: &Shared, answer: &WatchResponse, next: u64) -> Result<(), Ended> {
    let header = answer.header.as_ref().ok_or_else(|| Ended::Lost("response without a header".to_owned()))?;
    let revision = values::revision(header.revision);
    if answer.compact_revision > 0 {
        let oldest = answer.compact_revision;
        return Err(Ended::Forgotten(format!("etcd is compacted up to revision {oldest}")));
    }
    if answer.canceled {
        return Err(Ended::Lost(format!("etcd cancelled the watch: {}", answer.cancel_reason)));
    }
    if answer.created {
        // Every start of a single member, and every election, is a new term. A member that was killed can come back without
        // its newest revisions and give their numbers to other writes, so that numbers alone show no gap.
        let (term, known) = (header.raft_term, shared.term.swap(header.raft_term, Relaxed));
        if known != 0 && term != known {
            shared.revisions_doubted.store(true, Relaxed);
            return Err(Ended::Forgotten(format!("etcd is in term {term}, after {known}")));
        }
        if header.cluster_id != shared.followed.borrow().cluster {
            return Err(Ended::Forgotten("this is another etcd cluster than before".to_owned()));
        }
        // A member that is behind shows an old revision, too; a full read waits until it has caught up.
        if revision + 1 < next {
            return Err(Ended::Forgotten(format!("etcd is at revision {revision}, before {}", next - 1)));
        }
    }
    // An election during a watch leaves no gap.
    shared.term.store(header.raft_term, Relaxed);
    shared.heard_of(revision);
    apply(shared, &answer.events);
    Ok(())
}

fn apply(shared: &Shared, events: &[Event]) {
    let mut changes = Vec::with_capacity(events.len());
    let mut newest = 0;
    for entry in events.iter().filter_map(|event| event.kv.as_ref()) {
        let at = values::revision(entry.mod_revision);
        newest = newest.max(at);
        // A deletion shows its key with version 0.
        let deleted = entry.version == 0;
        match keys::place(&shared.options.prefix, &entry.key) {
            EtcdKey::Object(kind, id) if deleted => {
                changes.push((at, Change { kind, id: id.into(), object: None }));
            }
            EtcdKey::Object(kind, id) => {
                // One message may have several changes of an object.
                let before = || {
                    let mut earlier = changes.iter().rev();
                    match earlier
                        .find(|(_, change): &&(u64, Change)| change.kind == kind && *change.id == *id)
                    {
                        Some((_, change)) => change.object.clone(),
                        None => shared.live.read(|state| state.get(kind, id).cloned()),
                    }
                };
                let object = values::object(&shared.options, kind, id, entry, &before);
                changes.push((at, Change { kind, id: object.id.clone(), object: Some(object) }));
            }
            EtcdKey::Plugins if deleted => *shared.plugins.lock() = None,
            EtcdKey::Plugins => {
                if let Some(list) = values::plugins(&entry.key, &entry.value) {
                    *shared.plugins.lock() = Some(list);
                }
            }
            EtcdKey::Other => {}
            EtcdKey::Unknown => values::complain(&entry.key, "unknown kind of resource; it is ignored"),
        }
    }
    if newest > 0 {
        shared.live.publish(newest, changes);
        shared.mark_changed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_second() {
        let longest = Duration::from_secs(5);
        for (rounds, most_ms) in [(1, 50), (2, 100), (4, 400), (6, 1000), (u64::MAX, 1000)] {
            let pause = pause(rounds, longest);
            let most = Duration::from_millis(most_ms);
            assert!(pause <= most && pause >= most / 2, "round {rounds}: {pause:?}");
        }
        assert!(pause(9, Duration::ZERO) <= FIRST_PAUSE);
    }
}
