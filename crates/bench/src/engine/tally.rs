//! What one thread counts. Only the thread itself writes it; the finished slots are handed over ten times a second.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use hdrhistogram::Histogram;

use super::{
    answered::Answered, beyond::Beyond, failure::Failure, histogram::histogram, lives::Lives, pace::Pace,
    parts::Parts, slot::Slot,
};

/// Length of a slot.
pub(crate) const SLOT_NS: u64 = 100_000_000;
/// Length of a step of the fine series, which finds what comes back with a period.
pub(crate) const FINE_NS: u64 = 10_000_000;
/// Ten minutes of fine steps; what comes later is not looked at for periods.
const MAX_FINE: usize = 60_000;
const MAX_MESSAGES: usize = 16;
const STATUSES: usize = 600;

/// A thread's finished slots, read by the one that shows progress.
pub(crate) type SharedSlots = Arc<Mutex<Vec<Slot>>>;

#[derive(Debug)]
pub(crate) struct Tally {
    /// From sending to the whole answer.
    pub raw: Histogram<u64>,
    /// From the moment the request was due (open model).
    pub corrected: Option<Histogram<u64>>,
    pub(crate) connect: Histogram<u64>,
    pub(crate) handshake: Histogram<u64>,
    pub(crate) completed: u64,
    /// Responses by status, up to 999.
    pub statuses: Vec<u64>,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
    /// Of bodies alone.
    pub body_bytes: u64,
    pub(crate) failures: [u64; Failure::COUNT],
    /// Failures by their text.
    pub messages: BTreeMap<String, u64>,
    /// Connections that the server ended after an answer.
    pub(crate) server_closes: u64,
    pub(crate) lives: Lives,
    /// The slowest request that began in each fine step, in microseconds.
    pub fine: Vec<u32>,
    /// Requests on the way at the end, and the age of the oldest in nanoseconds.
    pub unfinished: u64,
    pub(crate) oldest_unfinished_ns: u64,
    /// Requests that were due but found no free connection.
    pub unsent: u64,
    /// Figures by request and status.
    pub parts: Parts,
    pub(crate) beyond: Beyond,
    slot: Slot,
    slot_end: u64,
    shared: SharedSlots,
}

impl Tally {
    /// Empty. `requests`: how many different ones the plan has.
    pub(crate) fn new(open_model: bool, requests: usize, shared: SharedSlots) -> Tally {
        Tally {
            raw: histogram(),
            corrected: open_model.then(histogram),
            connect: histogram(),
            handshake: histogram(),
            completed: 0,
            statuses: vec![0; STATUSES],
            bytes_in: 0,
            bytes_out: 0,
            body_bytes: 0,
            failures: [0; Failure::COUNT],
            messages: BTreeMap::new(),
            server_closes: 0,
            lives: Lives::default(),
            fine: Vec::new(),
            unfinished: 0,
            oldest_unfinished_ns: 0,
            unsent: 0,
            parts: Parts::new(requests),
            beyond: Beyond::default(),
            slot: Slot::default(),
            slot_end: SLOT_NS,
            shared,
        }
    }

    /// One whole answer.
    pub(crate) fn complete(&mut self, answered: &Answered) {
        let &Answered { now, sent, due, status, .. } = answered;
        let latency = now - sent;
        self.raw.saturating_record(latency);
        let seen = match &mut self.corrected {
            Some(corrected) => {
                corrected.saturating_record(now - due);
                now - due
            }
            None => latency,
        };
        self.completed += 1;
        self.slot.record(seen);
        self.parts.record(answered, seen);
        if let Some(count) = self.statuses.get_mut(usize::from(status)) {
            *count += 1;
        }
        let step = (sent / FINE_NS) as usize;
        let micros = u32::try_from(latency / 1000).unwrap_or(u32::MAX);
        match self.fine.get_mut(step) {
            Some(slowest) => *slowest = (*slowest).max(micros),
            None if step < MAX_FINE => {
                self.fine.resize(step, 0);
                self.fine.push(micros);
            }
            None => {}
        }
    }

    /// Events of one stream that came together, and when the one before them came.
    pub(crate) fn heard(&mut self, now: u64, last: Option<u64>, events: u64) {
        let mut last = last;
        for _ in 0..events {
            let gap = now - last.unwrap_or(now);
            if last.is_some() {
                self.beyond.events.gap(gap);
            }
            self.slot.record(gap);
            last = Some(now);
        }
        self.beyond.events.count += events;
    }

    pub(crate) fn fail(&mut self, failure: Failure, message: &str) {
        if let Some(count) = self.failures.get_mut(failure as usize) {
            *count += 1;
        }
        self.slot.errors += 1;
        if let Some(count) = self.messages.get_mut(message) {
            *count += 1;
        } else if self.messages.len() < MAX_MESSAGES {
            self.messages.insert(message.to_owned(), 1);
        }
    }

    /// A request without an answer at the end, for the statistics as old as it is.
    pub(crate) fn unfinished(&mut self, now: u64, sent: u64, due: u64) {
        self.unfinished += 1;
        self.oldest_unfinished_ns = self.oldest_unfinished_ns.max(now.saturating_sub(sent));
        if let Some(corrected) = &mut self.corrected {
            corrected.saturating_record(now.saturating_sub(due));
            self.parts.record_unanswered(now.saturating_sub(due));
        }
    }

    pub(crate) fn never_sent(&mut self, now: u64, due: u64) {
        self.unsent += 1;
        if let Some(corrected) = &mut self.corrected {
            corrected.saturating_record(now.saturating_sub(due));
            self.parts.record_unanswered(now.saturating_sub(due));
        }
    }

    /// At the end: what was due until then and no connection took, as old as it is `now`.
    pub(crate) fn left_over(&mut self, pace: Option<&mut Pace>, left: &mut u64, end: u64, now: u64) {
        let Some(pace) = pace else { return };
        while pace.is_overdue(end) && *left > 0 {
            self.never_sent(now, pace.due());
            pace.advance();
            *left -= 1;
        }
    }

    /// Hands over the slots that have ended; true when there was one.
    pub(crate) fn rotate(&mut self, now: u64) -> bool {
        let mut rotated = false;
        while now >= self.slot_end {
            let done = std::mem::take(&mut self.slot);
            self.shared.lock().unwrap_or_else(PoisonError::into_inner).push(done);
            self.slot_end += SLOT_NS;
            rotated = true;
        }
        rotated
    }

    /// Hands over the last slot, which may be short.
    pub(crate) fn finish(&mut self, now: u64) {
        self.rotate(now);
        let last = std::mem::take(&mut self.slot);
        if last.count > 0 || last.errors > 0 {
            self.shared.lock().unwrap_or_else(PoisonError::into_inner).push(last);
        }
    }
}
