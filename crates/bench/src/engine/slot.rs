//! A tenth of a second of a run: counts by latency in coarse steps, so that the shape of each moment survives.

/// Steps in each doubling of the latency: 16, so a step is at most 6 % wide.
const STEPS: u32 = 16;
/// Below this, 1,024 ns, everything is one step.
const LOWEST_BIT: u32 = 10;
/// Above this, 69 s, everything is one step.
const HIGHEST_BIT: u32 = 36;
pub(crate) const BUCKETS: usize = ((HIGHEST_BIT - LOWEST_BIT) * STEPS + 2) as usize;

/// What happened in a tenth of a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Responses.
    pub count: u64,
    /// Failures.
    pub errors: u64,
    pub(crate) max_ns: u64,
    pub(crate) sum_ns: u64,
    buckets: Box<[u32]>,
}

impl Default for Slot {
    fn default() -> Slot {
        Slot { count: 0, errors: 0, max_ns: 0, sum_ns: 0, buckets: vec![0; BUCKETS].into() }
    }
}

impl Slot {
    pub(crate) fn record(&mut self, latency_ns: u64) {
        self.count += 1;
        self.sum_ns += latency_ns;
        self.max_ns = self.max_ns.max(latency_ns);
        if let Some(bucket) = self.buckets.get_mut(bucket_of(latency_ns)) {
            *bucket += 1;
        }
    }

    pub(crate) fn add(&mut self, other: &Slot) {
        self.count += other.count;
        self.errors += other.errors;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
        for (bucket, more) in self.buckets.iter_mut().zip(&other.buckets) {
            *bucket = bucket.saturating_add(*more);
        }
    }

    pub(crate) fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.count).unwrap_or(0)
    }

    /// The latency that `percent` of the requests stayed under, within a step.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        let counts = self.buckets.iter().enumerate().map(|(index, &count)| (index, u64::from(count)));
        percentile_of(counts, self.count, percent).min(self.max_ns)
    }

    /// (step, count) of the steps in use.
    pub fn used(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let counts = self.buckets.iter().enumerate().map(|(index, &count)| (index, u64::from(count)));
        counts.filter(|&(_, count)| count > 0)
    }
}

/// The geometric mean of the latencies of one connection: a few slow answers hardly move it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usual {
    pub count: u64,
    steps: u64,
}

impl Usual {
    pub(crate) fn add(&mut self, latency_ns: u64) {
        self.count += 1;
        self.steps += bucket_of(latency_ns) as u64;
    }

    pub(crate) fn latency_ns(&self) -> u64 {
        let step = self.steps as f64 / self.count.max(1) as f64;
        let (below, above) = (bucket_floor(step as usize) as f64, bucket_floor(step as usize + 1) as f64);
        // The middle of a step stands for what is in it.
        (below + (above - below) * (step.fract() + 0.5)) as u64
    }
}

/// The upper middle of the step in which the wanted request lies.
pub(crate) fn percentile_of(counts: impl Iterator<Item = (usize, u64)>, total: u64, percent: f64) -> u64 {
    let wanted = ((percent / 100.0 * total as f64).ceil() as u64).max(1);
    let mut seen = 0;
    for (index, count) in counts {
        seen += count;
        if seen >= wanted {
            return (bucket_floor(index) + bucket_floor(index + 1)) / 2;
        }
    }
    0
}

/// The step of a latency: a logarithm, sixteen to the doubling.
pub(crate) fn bucket_of(latency_ns: u64) -> usize {
    let bit = 63 - latency_ns.max(1).leading_zeros();
    if bit < LOWEST_BIT {
        return 0;
    }
    if bit >= HIGHEST_BIT {
        return BUCKETS - 1;
    }
    let step = (latency_ns >> (bit - STEPS.ilog2())) as u32 & (STEPS - 1);
    ((bit - LOWEST_BIT) * STEPS + step + 1) as usize
}

/// Where a step begins, in nanoseconds.
pub(crate) fn bucket_floor(index: usize) -> u64 {
    let Some(index) = index.checked_sub(1) else { return 0 };
    let (octave, step) = (index as u32 / STEPS, index as u64 % u64::from(STEPS));
    (u64::from(STEPS) + step) << (octave + LOWEST_BIT - STEPS.ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_found_again() {
        for latency in [0, 1, 1023, 1024, 1500, 99_999, 40_000_000, 200_000_000, 60_000_000_000, u64::MAX] {
            let bucket = bucket_of(latency);
            assert!(bucket_floor(bucket) <= latency, "{latency}");
            assert!(bucket == BUCKETS - 1 || bucket_floor(bucket + 1) > latency, "{latency}");
        }
    }

    #[test]
    fn the_usual_latency_is_not_moved_by_a_few_slow_answers() {
        let mut usual = Usual::default();
        (0..100).for_each(|_| usual.add(200_000));
        let before = usual.latency_ns() as f64;
        assert!((before / 200_000.0 - 1.0).abs() < 0.07, "{before}");
        (0..3).for_each(|_| usual.add(204_000_000));
        assert!(usual.latency_ns() as f64 / before < 1.3, "{}", usual.latency_ns());
    }

    #[test]
    fn percentiles_are_within_a_step() {
        let mut slot = Slot::default();
        for micros in 1..=10_000u64 {
            slot.record(micros * 1000);
        }
        for percent in [1.0, 50.0, 90.0, 99.0, 99.9] {
            let (found, exact) = (slot.percentile_ns(percent) as f64, percent * 100_000.0);
            assert!((found / exact - 1.0).abs() < 0.065, "{percent}: {found} for {exact}");
        }
    }
}
