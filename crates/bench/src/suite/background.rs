//! What happens in a gateway while it is measured: metrics are scraped, routes change.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use super::{
    Background,
    tidegate::{self, Tidegate},
};
use crate::Problem;

/// Runs until it is stopped; a failure of it is a failure of the measurement.
#[derive(Debug)]
pub(super) struct Busy {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<u64, Problem>>>,
}

impl Busy {
    pub(super) fn start(what: Background, gateway: Option<&Tidegate>) -> Busy {
        let stop = Arc::new(AtomicBool::new(false));
        let mut threads = Vec::new();
        if let Some(gateway) = gateway {
            let (admin, upstream, metrics) = (gateway.admin, gateway.upstream(), gateway.metrics);
            if what.changes_per_second > 0.0 {
                let change = move |number| Tidegate::change(admin, upstream, number);
                threads.push(every(what.changes_per_second, Arc::clone(&stop), change));
            }
            if what.scrapes_per_second > 0.0 {
                let scrape = move |_| scrape(metrics);
                threads.push(every(what.scrapes_per_second, Arc::clone(&stop), scrape));
            }
        }
        Busy { stop, threads }
    }

    pub(super) fn finish(self) -> Result<(), Problem> {
        self.stop.store(true, Relaxed);
        for thread in self.threads {
            thread.join().map_err(|_| Problem::failed("a background thread panicked"))??;
        }
        Ok(())
    }
}

fn scrape(metrics: SocketAddr) -> Result<(), Problem> {
    tidegate::scrape(metrics)
}

fn every(
    per_second: f64,
    stop: Arc<AtomicBool>,
    act: impl Fn(u64) -> Result<(), Problem> + Send + 'static,
) -> JoinHandle<Result<u64, Problem>> {
    std::thread::spawn(move || {
        let interval = Duration::from_secs_f64(1.0 / per_second);
        let (mut number, mut next) = (0, Instant::now());
        while !stop.load(Relaxed) {
            act(number)?;
            number += 1;
            next += interval;
            // In short steps, so that the end of a measurement does not wait for a slow rhythm.
            while !stop.load(Relaxed) && Instant::now() < next {
                std::thread::sleep(
                    next.saturating_duration_since(Instant::now()).min(Duration::from_millis(20)),
                );
            }
        }
        Ok(number)
    })
}
