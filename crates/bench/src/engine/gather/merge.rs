//! Histograms of several workers as one.

use hdrhistogram::Histogram;

pub(super) fn merge<'a>(histograms: impl Iterator<Item = &'a Histogram<u64>>) -> Option<Histogram<u64>> {
    histograms.fold(None, |sum, one| match sum {
        None => Some(one.clone()),
        Some(mut sum) => {
            // All have the same bounds, so adding cannot fail.
            let _ = sum.add(one);
            Some(sum)
        }
    })
}
