//! Commands that were answered, and how long it took, under APISIX's metric names.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use parking_lot::Mutex;

/// Upper bounds in seconds.
const BOUNDS: [f64; 10] = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];

/// Names of commands are what clients send: beyond so many of a route they count as `other`.
const MOST_COMMANDS: usize = 300;

#[derive(Default)]
struct Counts {
    /// Of each bound, not added up.
    buckets: [u64; BOUNDS.len()],
    count: u64,
    seconds: f64,
}

type Commands = BTreeMap<Box<str>, Counts>;

static ROUTES: LazyLock<Mutex<BTreeMap<Arc<str>, Commands>>> = LazyLock::new(Mutex::default);

pub(super) fn count(route: &Arc<str>, command: &[u8], took: Duration) {
    let command = std::str::from_utf8(command).unwrap_or("other");
    let mut routes = ROUTES.lock();
    let commands = routes.entry(route.clone()).or_default();
    let is_known = commands.contains_key(command) || commands.len() < MOST_COMMANDS;
    let counts = commands.entry(if is_known { command } else { "other" }.into()).or_default();
    let seconds = took.as_secs_f64();
    if let Some((_, bucket)) = BOUNDS.iter().zip(&mut counts.buckets).find(|(bound, _)| seconds <= **bound) {
        *bucket += 1;
    }
    counts.count += 1;
    counts.seconds += seconds;
}

/// A command of a route.
pub struct Counted {
    /// The route's id.
    pub route: Arc<str>,
    /// In lower case.
    pub command: Box<str>,
    /// Answers that took at most so many seconds.
    pub within: [(f64, u64); BOUNDS.len()],
    /// All answers.
    pub count: u64,
    /// Their times together.
    pub seconds: f64,
}

pub(crate) fn counted() -> Vec<Counted> {
    let routes = ROUTES.lock();
    let all = routes.iter().flat_map(|(route, commands)| {
        commands.iter().map(|(command, counts)| {
            let mut sum = 0;
            let within = std::array::from_fn(|at| {
                sum += counts.buckets.get(at).copied().unwrap_or(0);
                (BOUNDS.get(at).copied().unwrap_or(f64::INFINITY), sum)
            });
            let (route, command) = (route.clone(), command.clone());
            Counted { route, command, within, count: counts.count, seconds: counts.seconds }
        })
    });
    all.collect()
}
