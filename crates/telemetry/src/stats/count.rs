//! What is counted of the requests of a time: of all, and by name of each route or consumer.

use std::collections::HashMap;

use super::wire::{LONGEST_NAME, Reader, put};
use crate::metrics::{HTTP_LATENCY_BUCKETS_MS, TakenRequests};

/// Buckets of latencies; the last one has no bound.
pub const BUCKETS: usize = HTTP_LATENCY_BUCKETS_MS.len() + 1;

/// Names that are counted apart within one time; more are counted together.
const MOST_NAMES: usize = 10_000;

/// All requests of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Begun, whether plugin prometheus counted them or not.
    pub requests: u64,
    /// Counted by plugin prometheus as they ended: what the rest is about.
    pub counted: u64,
    /// Status 1xx to 5xx.
    pub classes: [u32; 5],
    /// By [`HTTP_LATENCY_BUCKETS_MS`].
    pub latency: [u32; BUCKETS],
    /// The sum of all latencies, in microseconds.
    pub latency_us: u64,
    /// Bytes from clients.
    pub ingress: u64,
    /// Bytes to clients.
    pub egress: u64,
}

impl Count {
    pub(super) fn is_empty(&self) -> bool {
        self.requests == 0 && self.counted == 0
    }

    pub(super) fn add(&mut self, other: &Count) {
        self.requests = self.requests.saturating_add(other.requests);
        self.counted = self.counted.saturating_add(other.counted);
        for (sum, more) in self.classes.iter_mut().zip(other.classes) {
            *sum = sum.saturating_add(more);
        }
        for (sum, more) in self.latency.iter_mut().zip(other.latency) {
            *sum = sum.saturating_add(more);
        }
        self.latency_us = self.latency_us.saturating_add(other.latency_us);
        self.ingress = self.ingress.saturating_add(other.ingress);
        self.egress = self.egress.saturating_add(other.egress);
    }

    pub(super) fn add_taken(&mut self, taken: &TakenRequests<'_>) {
        let requests = u32::try_from(taken.requests).unwrap_or(u32::MAX);
        self.counted += taken.requests;
        if let Some(class) = class(taken.code).and_then(|class| self.classes.get_mut(class)) {
            *class = class.saturating_add(requests);
        }
        for (sum, more) in self.latency.iter_mut().zip(taken.latency) {
            *sum = sum.saturating_add(u32::try_from(more).unwrap_or(u32::MAX));
        }
        self.latency_us = self.latency_us.saturating_add(taken.latency_us);
        self.ingress = self.ingress.saturating_add(taken.ingress);
        self.egress = self.egress.saturating_add(taken.egress);
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for number in [self.requests, self.counted, self.latency_us, self.ingress, self.egress] {
            put(out, number);
        }
        self.classes.iter().chain(&self.latency).for_each(|number| put(out, u64::from(*number)));
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Count> {
        let mut count = Count {
            requests: reader.number()?,
            counted: reader.number()?,
            latency_us: reader.number()?,
            ingress: reader.number()?,
            egress: reader.number()?,
            ..Count::default()
        };
        for number in count.classes.iter_mut().chain(&mut count.latency) {
            *number = reader.small()?;
        }
        Some(count)
    }
}

/// 0 for 1xx; `None` where `disabled_labels` hide the status.
fn class(code: &str) -> Option<usize> {
    let first = code.bytes().next().filter(u8::is_ascii_digit)?;
    usize::from(first - b'0').checked_sub(1)
}

/// The requests of one route or consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// All.
    pub requests: u64,
    /// With a 4xx.
    pub client_errors: u64,
    /// With a 5xx.
    pub server_errors: u64,
    /// The sum of their latencies, in tenths of milliseconds.
    pub latency_100us: u64,
}

impl Share {
    pub(super) fn of(taken: &TakenRequests<'_>) -> Share {
        let of_class = |wanted| if class(taken.code) == Some(wanted) { taken.requests } else { 0 };
        Share {
            requests: taken.requests,
            client_errors: of_class(3),
            server_errors: of_class(4),
            latency_100us: (taken.latency_us + 50) / 100,
        }
    }

    pub(super) fn add(&mut self, other: Share) {
        self.requests = self.requests.saturating_add(other.requests);
        self.client_errors = self.client_errors.saturating_add(other.client_errors);
        self.server_errors = self.server_errors.saturating_add(other.server_errors);
        self.latency_100us = self.latency_100us.saturating_add(other.latency_100us);
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for number in [self.requests, self.client_errors, self.server_errors, self.latency_100us] {
            put(out, number);
        }
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Option<Share> {
        Some(Share {
            requests: reader.number()?,
            client_errors: reader.number()?,
            server_errors: reader.number()?,
            latency_100us: reader.number()?,
        })
    }
}

/// Shares by name, and of all that have none of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shares {
    pub named: HashMap<Box<str>, Share>,
    pub others: Share,
}

impl Shares {
    pub(super) fn add(&mut self, name: &str, share: Share) {
        let name = shortened(name);
        if let Some(known) = self.named.get_mut(name) {
            known.add(share);
        } else if self.named.len() < MOST_NAMES && name != OVERFLOW {
            self.named.insert(name.into(), share);
        } else {
            self.others.add(share);
        }
    }

    pub(super) fn add_all(&mut self, other: &Shares) {
        other.named.iter().for_each(|(name, share)| self.add(name, *share));
        self.others.add(other.others);
    }

    /// Those of `only` that the period is not too early for have names; `None`: all have.
    pub(super) fn add_some(&mut self, other: &Shares, start: u64, only: Option<&HashMap<String, u64>>) {
        let Some(only) = only else { return self.add_all(other) };
        for (name, share) in &other.named {
            match only.get(&**name) {
                Some(since) if start >= *since => self.add(name, *share),
                _ => self.others.add(*share),
            }
        }
        self.others.add(other.others);
    }

    /// The `most` that have most requests, the first of them first; all others together.
    pub(super) fn top(&self, most: usize) -> (Vec<(&str, Share)>, Share) {
        let mut all: Vec<(&str, Share)> = self.named.iter().map(|(name, share)| (&**name, *share)).collect();
        all.sort_unstable_by(|(a, one), (b, other)| other.requests.cmp(&one.requests).then(a.cmp(b)));
        let mut others = self.others;
        all.iter().skip(most).for_each(|(_, share)| others.add(*share));
        all.truncate(most);
        (all, others)
    }
}

/// As metrics name what is over their limit.
const OVERFLOW: &str = "_overflow";

fn shortened(name: &str) -> &str {
    let mut end = name.len().min(LONGEST_NAME);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_beyond_the_bound_are_counted_together() {
        let mut shares = Shares::default();
        let one = Share { requests: 1, ..Share::default() };
        for number in 0..MOST_NAMES + 5 {
            shares.add(&number.to_string(), one);
        }
        shares.add("7", Share { server_errors: 1, ..one });
        assert_eq!((shares.named.len(), shares.others.requests), (MOST_NAMES, 5));
        let (top, others) = shares.top(1);
        assert_eq!(top, [("7", Share { requests: 2, server_errors: 1, ..Share::default() })]);
        assert_eq!(others.requests, MOST_NAMES as u64 + 4);
    }

    #[test]
    fn long_names_are_cut_between_letters() {
        assert_eq!(shortened(&"é".repeat(100)).len(), LONGEST_NAME);
        assert_eq!(shortened("a"), "a");
    }
}
