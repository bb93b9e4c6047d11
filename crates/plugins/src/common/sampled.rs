//! Loggers that log a part of the requests.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use tidegate_model::random::random_fraction;
use tidegate_plugin_api::{BodyChunk, Foresight, Phases, Plugin, Request, Step};

/// A logger of one request in so many.
struct Sampled {
    ratio: f64,
    logger: Arc<dyn Plugin>,
    /// Names this configuration's decision among those of others.
    serial: u64,
}

/// What was decided about a request, by the serial of the configuration.
#[derive(Default)]
struct Decisions(Vec<(u64, bool)>);

/// The logger, for the part of the requests that the ratio says.
pub(crate) fn sampled(ratio: f64, logger: Arc<dyn Plugin>) -> Arc<dyn Plugin> {
    static SERIAL: AtomicU64 = AtomicU64::new(1);
    if ratio >= 1.0 {
        return logger;
    }
    Arc::new(Sampled { ratio, logger, serial: SERIAL.fetch_add(1, Relaxed) })
}

impl Sampled {
    /// Decided once for each request, in the first phase that runs.
    fn takes(&self, request: &mut Request) -> bool {
        let decisions = &mut request.extensions.get_or_insert_with(Decisions::default).0;
        if let Some((_, taken)) = decisions.iter().find(|(serial, _)| *serial == self.serial) {
            return *taken;
        }
        let taken = random_fraction() < self.ratio;
        decisions.push((self.serial, taken));
        taken
    }
}

impl Plugin for Sampled {
    fn phases(&self) -> Phases {
        self.logger.phases()
    }

    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if self.takes(request) { self.logger.access(request) } else { Step::Next }
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        if self.takes(request) {
            self.logger.body_filter(request, chunk);
        }
    }

    fn log(&self, request: &mut Request) {
        if self.takes(request) {
            self.logger.log(request);
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        self.logger.foresee(phase, request)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::common::test_request;

    #[derive(Clone, Default)]
    struct Counter {
        bodies: Arc<AtomicUsize>,
        logs: Arc<AtomicUsize>,
    }

    impl Plugin for Counter {
        fn body_filter(&self, _: &mut Request, _: &mut BodyChunk) {
            self.bodies.fetch_add(1, Relaxed);
        }

        fn log(&self, _: &mut Request) {
            self.logs.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn a_part_of_the_requests_is_logged_with_their_bodies() {
        let counter = Counter::default();
        let logger = sampled(0.5, Arc::new(counter.clone()));
        for _ in 0..1000 {
            let mut request = test_request::request("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
            logger.body_filter(&mut request, &mut BodyChunk::default());
            logger.log(&mut request);
        }
        let counts = [&counter.bodies, &counter.logs].map(|count| count.load(Relaxed));
        assert_eq!(counts[0], counts[1]);
        assert!((350..650).contains(&counts[0]), "{counts:?}");
    }
}
