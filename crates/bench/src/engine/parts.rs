//! Latencies apart from each other: by status, by request, and until the first byte.
//!
//! An answer is recorded in the histogram of all answers anyway. What most of them are, a 200 that came in one piece, is
//! what remains of that when the others are subtracted, so only the others are recorded here. A run of one request and
//! nothing but such answers pays a few comparisons for it.

use hdrhistogram::Histogram;

use super::{
    answered::Answered,
    histogram::{coarse_histogram, histogram},
};

/// The status that is not recorded apart.
pub(crate) const USUAL_STATUS: u16 = 200;
/// Statuses beyond so many share one histogram, and so do requests.
const MAX_STATUSES: usize = 32;
pub(crate) const MAX_REQUESTS: usize = 100;
/// Stands for the statuses that share one.
pub(crate) const OTHER_STATUSES: u16 = 0;

#[derive(Debug)]
pub(crate) struct Parts {
    /// Of answers with another status, as a user waits.
    pub statuses: Vec<(u16, Histogram<u64>)>,
    /// Of requests without an answer, in the open model: they are in the histogram of all and have no status.
    pub unanswered: Option<Histogram<u64>>,
    pub(crate) pieces: Option<Pieces>,
    /// Of each request where there are several.
    pub requests: Vec<OfRequest>,
}

/// Answers that came in more than one piece: until the first byte, and until the last.
#[derive(Debug)]
pub struct Pieces {
    /// Nanoseconds to the first byte.
    pub first: Histogram<u64>,
    /// Nanoseconds to the last byte.
    pub whole: Histogram<u64>,
}

#[derive(Clone, Debug)]
pub(crate) struct OfRequest {
    pub(crate) latency: Histogram<u64>,
    /// Responses by status.
    pub statuses: Vec<(u16, u64)>,
}

impl Parts {
    /// For a run of so many different requests.
    pub(crate) fn new(requests: usize) -> Parts {
        let wanted = if requests > 1 { requests.min(MAX_REQUESTS + 1) } else { 0 };
        let of_request = || OfRequest { latency: coarse_histogram(), statuses: Vec::new() };
        Parts {
            statuses: Vec::new(),
            unanswered: None,
            pieces: None,
            requests: (0..wanted).map(|_| of_request()).collect(),
        }
    }

    /// `seen` is what a user waited.
    pub(crate) fn record(&mut self, answered: &Answered, seen: u64) {
        if answered.status != USUAL_STATUS {
            self.record_status(answered.status, seen);
        }
        if answered.first_byte != 0 {
            self.record_pieces(answered);
        }
        if let Some(last) = self.requests.len().checked_sub(1)
            && let Some(request) = self.requests.get_mut((answered.request as usize).min(last))
        {
            request.record(answered.status, seen);
        }
    }

    fn record_status(&mut self, status: u16, seen: u64) {
        if let Some((_, latency)) = self.statuses.iter_mut().find(|(other, _)| *other == status) {
            latency.saturating_record(seen);
        } else if self.statuses.len() < MAX_STATUSES {
            let mut latency = histogram();
            latency.saturating_record(seen);
            self.statuses.push((status, latency));
        } else if status != OTHER_STATUSES {
            self.record_other(seen);
        }
    }

    fn record_other(&mut self, seen: u64) {
        match self.statuses.iter_mut().find(|(other, _)| *other == OTHER_STATUSES) {
            Some((_, latency)) => latency.saturating_record(seen),
            None => {
                let mut latency = histogram();
                latency.saturating_record(seen);
                self.statuses.push((OTHER_STATUSES, latency));
            }
        }
    }

    fn record_pieces(&mut self, answered: &Answered) {
        let pieces = self.pieces.get_or_insert_with(|| Pieces { first: histogram(), whole: histogram() });
        pieces.first.saturating_record(answered.first_byte.saturating_sub(answered.sent));
        pieces.whole.saturating_record(answered.now.saturating_sub(answered.sent));
    }

    /// A request that will have no answer, so long after it was due.
    pub(crate) fn record_unanswered(&mut self, waited: u64) {
        self.unanswered.get_or_insert_with(histogram).saturating_record(waited);
    }
}

impl OfRequest {
    fn record(&mut self, status: u16, seen: u64) {
        self.latency.saturating_record(seen);
        match self.statuses.iter_mut().find(|(other, _)| *other == status) {
            Some((_, count)) => *count += 1,
            None => self.statuses.push((status, 1)),
        }
    }
}
