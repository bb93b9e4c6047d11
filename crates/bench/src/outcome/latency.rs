//! Times of answers, in percentiles.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Percentiles that reports show.
pub const SHOWN: [f64; 8] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0];

/// A histogram: the figures people ask for, and the counts to compute others from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Of values.
    pub count: u64,
    pub(crate) min_us: f64,
    /// Microseconds.
    pub mean_us: f64,
    pub(crate) stdev_us: f64,
    pub(crate) max_us: f64,
    /// Share of the values within one standard deviation of the mean.
    pub(crate) within_stdev_percent: f64,
    /// (percentile, microseconds).
    pub percentiles: Vec<(f64, f64)>,
    /// (lowest value of the step in microseconds, count), steps of at most 0.2 %.
    pub steps: Vec<(f64, u64)>,
}

impl Latency {
    /// `histogram` is in nanoseconds.
    pub fn of(histogram: &Histogram<u64>) -> Latency {
        if histogram.is_empty() {
            return Latency::default();
        }
        let us = |ns: u64| ns as f64 / 1000.0;
        let (mean, stdev) = (histogram.mean(), histogram.stdev());
        let within =
            histogram.count_between((mean - stdev).max(0.0) as u64, (mean + stdev).ceil() as u64) as f64;
        let recorded = histogram.iter_recorded();
        Latency {
            count: histogram.len(),
            min_us: us(histogram.min()),
            mean_us: mean / 1000.0,
            stdev_us: stdev / 1000.0,
            max_us: us(histogram.max()),
            within_stdev_percent: 100.0 * within / histogram.len() as f64,
            percentiles: SHOWN
                .iter()
                .map(|&at| (at, us(histogram.value_at_percentile(at).min(histogram.max()))))
                .collect(),
            steps: recorded.map(|step| (us(step.value_iterated_to()), step.count_at_value())).collect(),
        }
    }

    /// Microseconds that `percent` of the requests stayed under.
    pub fn at(&self, percent: f64) -> f64 {
        if percent >= 100.0 {
            return self.max_us;
        }
        let wanted = ((percent / 100.0 * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for &(value, count) in &self.steps {
            seen += count;
            if seen >= wanted {
                return value.min(self.max_us);
            }
        }
        self.max_us
    }

    /// How many lie from `low` up to but not including `high`, in milliseconds.
    pub(crate) fn between_ms(&self, low: f64, high: f64) -> u64 {
        let inside = |value: f64| value >= low * 1000.0 && value < high * 1000.0;
        self.steps.iter().filter(|&&(value, _)| inside(value)).map(|(_, count)| count).sum()
    }
}
