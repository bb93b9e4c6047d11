//! The open model: when each request is due, whatever became of the earlier ones.

/// The schedule of one thread. Threads are offset so that together they keep an even rhythm.
#[derive(Debug)]
pub struct Pace {
    interval_ns: f64,
    offset_ns: f64,
    next: u64,
}

impl Pace {
    pub fn new(rate: f64, thread: usize, threads: usize) -> Pace {
        let each_ns = 1e9 / rate;
        Pace { interval_ns: each_ns * threads as f64, offset_ns: each_ns * thread as f64, next: 0 }
    }

    /// When the next request is due.
    pub fn due(&self) -> u64 {
        (self.offset_ns + self.interval_ns * self.next as f64) as u64
    }

    pub fn advance(&mut self) {
        self.next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_interleave() {
        let mut all = Vec::new();
        for thread in 0..3 {
            let mut pace = Pace::new(1000.0, thread, 3);
            for _ in 0..4 {
                all.push(pace.due());
                pace.advance();
            }
        }
        all.sort_unstable();
        assert_eq!(all, (0..12).map(|at| at * 1_000_000).collect::<Vec<u64>>());
    }
}
