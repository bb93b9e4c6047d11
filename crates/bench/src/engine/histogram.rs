//! Histograms of times.

use hdrhistogram::Histogram;

const HOUR_NS: u64 = 3_600_000_000_000;

/// Three significant digits from a nanosecond on, an hour at most.
pub(super) fn histogram() -> Histogram<u64> {
    with_digits(1, 3)
}

/// Two significant digits from a microsecond on: a tenth of the size, where there are many.
pub(crate) fn coarse_histogram() -> Histogram<u64> {
    with_digits(1_000, 2)
}

fn with_digits(lowest_ns: u64, digits: u8) -> Histogram<u64> {
    // The bounds are constants that the library accepts; the other arm cannot be reached.
    Histogram::new_with_bounds(lowest_ns, HOUR_NS, digits).unwrap_or_else(|_| {
        let mut automatic = Histogram::new(3).unwrap_or_else(|_| unreachable!("3 digits are supported"));
        automatic.auto(true);
        automatic
    })
}
