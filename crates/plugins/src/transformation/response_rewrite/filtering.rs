//! `filters` over a whole answer: unpacked and searched in steps, in counted memory and bounded time.
//!
//! A filter may be what keeps a secret back. So an answer that is not filtered to its end is not sent: one that is too
//! large, cannot be unpacked, or takes more time or steps than there are.
//!
//! A short body is filtered on the worker, in slices between which others get their turn. What turns out to be more goes
//! on with a thread for long work.

use std::{
    io::Read,
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use tidegate_plugin_api::{
    aside::{self, Undone},
    memory::{Full, Growing},
};
use tidegate_routing::expr::GaveUp;

use crate::common::{
    content_coding::{self, Decoder},
    held_body::{self, Whole},
    regexes::{Regex, Replacement},
};

/// One search of a pattern that goes back, on a worker: some hundred microseconds.
const QUICK_STEPS: usize = 10_000;
/// The same on a thread for long work.
const PATIENT_STEPS: usize = 10_000_000;

/// Processor time of all filters over one answer, in milliseconds.
const MOST_MS: u64 = 2_000;

/// How long a worker continues before others get their turn, and how long in all.
const SLICE: Duration = Duration::from_micros(500);
const ON_A_WORKER: Duration = Duration::from_millis(5);

/// Unpacked at once.
const PIECE: usize = 16 << 10;

pub(super) struct Filter {
    quick: Regex,
    /// Of a pattern that goes back: the same with more steps.
    patient: Option<Regex>,
    replacement: Replacement,
    all: bool,
}

impl Filter {
    pub(super) fn new(pattern: &str, options: &str, replace: &str, all: bool) -> Result<Filter, String> {
        let (quick, patient) = Regex::quick_and_patient(pattern, options, QUICK_STEPS, PATIENT_STEPS)?;
        Ok(Filter { quick, patient, replacement: Replacement::new(replace), all })
    }
}

/// Why an answer is not filtered.
pub(super) struct Failure {
    pub(super) status: u16,
    pub(super) reason: String,
}

impl Failure {
    fn new(reason: impl Into<String>) -> Failure {
        Failure { status: 502, reason: reason.into() }
    }
}

impl From<Full> for Failure {
    fn from(full: Full) -> Failure {
        let reason = match full {
            Full::Limit(limit) => format!("it has more than {limit} bytes when it is unpacked and filtered"),
            Full::Spent => "there is no memory left for bodies".to_owned(),
        };
        Failure { status: held_body::status(full), reason }
    }
}

enum Progress {
    Done(Bytes),
    More,
}

/// An answer on its way through the filters.
pub(super) struct Work {
    filters: Arc<[Filter]>,
    limit: usize,
    client: IpAddr,
    unpacking: Option<Decoder>,
    /// What the filter reads.
    text: Bytes,
    /// The filter at work, and how far it is.
    filter: usize,
    at: usize,
    /// What the filter, or the decoder, has made so far.
    out: Option<Growing>,
    spent: Duration,
    patient: bool,
}

/// The body after all filters.
pub(super) async fn filtered(
    filters: Arc<[Filter]>,
    body: Whole,
    coding: Option<Vec<u8>>,
    limit: usize,
    client: IpAddr,
) -> Result<Bytes, Failure> {
    let undone = |Undone| Failure { status: 500, reason: "it was not done".to_owned() };
    if body.length() > aside::SMALL {
        let work = move || Work::new(filters, body.join(), coding, limit, client)?.finish();
        return aside::run(client, work).await.map_err(undone)?;
    }
    let mut work = Work::new(filters, body.join(), coding, limit, client)?;
    while !work.is_long() {
        match work.advance(Some(SLICE))? {
            Progress::Done(body) => return Ok(body),
            Progress::More => tokio::task::yield_now().await,
        }
    }
    aside::run(client, move || work.finish()).await.map_err(undone)?
}

impl Work {
    fn new(
        filters: Arc<[Filter]>,
        body: Bytes,
        coding: Option<Vec<u8>>,
        limit: usize,
        client: IpAddr,
    ) -> Result<Work, Failure> {
        // Of an answer without a body its coding says nothing.
        let coding = coding.filter(|_| !body.is_empty());
        let (unpacking, text) = match coding {
            None => (None, body),
            Some(coding) => {
                (Some(content_coding::decoder(&coding, body).map_err(Failure::new)?), Bytes::new())
            }
        };
        let out = unpacking.is_some().then(|| Growing::new(limit, client));
        let (spent, patient) = (Duration::ZERO, false);
        Ok(Work { filters, limit, client, unpacking, text, filter: 0, at: 0, out, spent, patient })
    }

    /// Whether it is more than a worker should do.
    fn is_long(&self) -> bool {
        let made = self.out.as_ref().map_or(0, Growing::len);
        self.patient || self.spent > ON_A_WORKER || self.text.len().max(made) > aside::SMALL
    }

    /// To the end, on a thread for long work.
    fn finish(mut self) -> Result<Bytes, Failure> {
        self.patient = true;
        loop {
            if let Progress::Done(body) = self.advance(None)? {
                return Ok(body);
            }
        }
    }

    /// A slice of the work, or for as long as the filters have.
    fn advance(&mut self, slice: Option<Duration>) -> Result<Progress, Failure> {
        let started = Instant::now();
        let clock = processor_time();
        let left = Duration::from_millis(MOST_MS).saturating_sub(self.spent);
        let slice = slice.unwrap_or(left).min(left);
        let mut done = false;
        while !done {
            let was_patient = self.patient;
            done = if self.unpacking.is_some() { self.unpack()? } else { self.step()? };
            if self.patient != was_patient {
                break;
            }
            // Time that others had does not count.
            if !done && started.elapsed() > slice && processor_time().saturating_sub(clock) > slice {
                break;
            }
        }
        self.spent += processor_time().saturating_sub(clock);
        if done {
            return Ok(Progress::Done(std::mem::take(&mut self.text)));
        }
        if self.spent >= Duration::from_millis(MOST_MS) {
            return Err(Failure::new(format!("its filters take more than {MOST_MS} ms")));
        }
        Ok(Progress::More)
    }

    /// Unpacks a piece.
    fn unpack(&mut self) -> Result<bool, Failure> {
        let (Some(decoder), Some(out)) = (&mut self.unpacking, &mut self.out) else { return Ok(false) };
        let mut piece = [0; PIECE];
        let count = decoder
            .read(&mut piece)
            .map_err(|error| Failure::new(format!("it cannot be unpacked: {error}")))?;
        out.push(piece.get(..count).unwrap_or_default())?;
        if count == 0 {
            self.unpacking = None;
            self.text = self.out.take().map(Growing::into_bytes).unwrap_or_default();
        }
        Ok(false)
    }

    /// Looks for the next match, and replaces it; true behind the last filter.
    fn step(&mut self) -> Result<bool, Failure> {
        let Work { filters, text, out, at, .. } = self;
        let Some(filter) = filters.get(self.filter) else { return Ok(true) };
        let Some(rest) = text.get(*at..) else { return self.next_filter() };
        let regex = filter.patient.as_ref().filter(|_| self.patient).unwrap_or(&filter.quick);
        let groups = match self.patient {
            true => regex.captures_patiently(rest, Duration::from_millis(MOST_MS).saturating_sub(self.spent)),
            false => regex.captures_patiently(rest, ON_A_WORKER),
        };
        let groups = match groups {
            Ok(groups) => groups,
            Err(GaveUp) if !self.patient => {
                self.patient = true;
                return Ok(false);
            }
            Err(GaveUp) => return Err(Failure::new("one of its patterns gave up")),
        };
        let Some(groups) = groups else { return self.next_filter() };
        let Some(whole) = groups.first().cloned().flatten() else { return self.next_filter() };
        let out = out.get_or_insert_with(|| Growing::new(self.limit, self.client));
        out.push(rest.get(..whole.start).unwrap_or_default())?;
        for part in filter.replacement.parts(rest, &groups) {
            out.push(part)?;
        }
        *at += whole.end;
        if whole.is_empty() {
            // An empty match consumes nothing: pass one byte on, or it matches here for ever.
            out.push(text.get(*at..=*at).unwrap_or_default())?;
            *at += 1;
        }
        if filter.all { Ok(false) } else { self.next_filter() }
    }

    fn next_filter(&mut self) -> Result<bool, Failure> {
        if let Some(mut out) = self.out.take() {
            out.push(self.text.get(self.at..).unwrap_or_default())?;
            self.text = out.into_bytes();
        }
        self.filter += 1;
        self.at = 0;
        Ok(false)
    }
}

fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
