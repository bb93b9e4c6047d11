//! Which requests of a connection begin, and which wait in line for others to end, see [`super::untaken`].

use std::collections::VecDeque;

use bytes::Bytes;
use h2::{Reason, RecvStream, server::SendResponse};

use super::{
    places::{KEEPS_UP_BYTES, Places},
    untaken::{self, ALWAYS},
};

/// After so long in line, a request of a client that keeps taking answers begins regardless, and others are refused.
pub(super) const LONGEST_LINED_MS: u64 = 10_000;

/// A request that has not begun.
pub(super) struct Fresh {
    pub request: http::Request<RecvStream>,
    pub respond: SendResponse<Bytes>,
    /// Roughly what its head takes in memory.
    pub head_bytes: usize,
}

impl Fresh {
    pub(super) fn new(request: http::Request<RecvStream>, respond: SendResponse<Bytes>) -> Fresh {
        let fields = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
        let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
        Fresh { head_bytes: fields.sum::<usize>() + target, request, respond }
    }

    /// Refuses the request so that the client may send it again.
    pub(super) fn refuse(mut self) {
        self.respond.send_reset(Reason::REFUSED_STREAM);
    }
}

struct Lined {
    fresh: Fresh,
    since_ms: u64,
    /// The connection's total when the request was lined up.
    total: u64,
    _counted: untaken::Lined,
}

#[derive(Default)]
pub(super) struct Line(VecDeque<Lined>);

#[derive(Debug, PartialEq, Eq)]
enum StreamAdmission {
    Begins,
    Waits,
    Refused,
}

/// `lined`: it is in line. It stays there until its client resumes reading the answers that it has left.
fn admission(places: &Places, lined: bool) -> StreamAdmission {
    let (held, leaves) = (places.held(), places.leaves());
    if held == 0 || !(places.account().is_full() || lined && leaves) {
        return StreamAdmission::Begins;
    }
    match leaves {
        false if held < ALWAYS => StreamAdmission::Begins,
        _ if places.stalls() && places.account().is_line_crowded() => StreamAdmission::Refused,
        _ => StreamAdmission::Waits,
    }
}

impl Line {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Accepts a new request: it is returned if it may begin at once.
    pub(super) fn enter(&mut self, fresh: Fresh, places: &Places, now_ms: u64) -> Option<Fresh> {
        let verdict = match admission(places, false) {
            StreamAdmission::Begins if !self.0.is_empty() => StreamAdmission::Waits,
            verdict => verdict,
        };
        match verdict {
            StreamAdmission::Begins => return Some(fresh),
            StreamAdmission::Refused => fresh.refuse(),
            StreamAdmission::Waits => match places.account().line_up(fresh.head_bytes) {
                Some(counted) => {
                    self.0.push_back(Lined {
                        fresh,
                        since_ms: now_ms,
                        total: places.total(),
                        _counted: counted,
                    });
                    places.arm_soon();
                }
                None => fresh.refuse(),
            },
        }
        places.account().warn_full();
        None
    }

    /// The next one that may begin. Requests beyond the share of the address are refused, the last first.
    pub(super) fn next(&mut self, places: &Places, now_ms: u64) -> Option<Fresh> {
        while places.account().exceeds_share() {
            self.0.pop_back()?.fresh.refuse();
        }
        loop {
            let first = self.0.front()?;
            let is_over = now_ms.saturating_sub(first.since_ms) >= LONGEST_LINED_MS;
            let keeps_up = places.total() - first.total >= KEEPS_UP_BYTES * LONGEST_LINED_MS / 1000;
            let verdict = match admission(places, true) {
                StreamAdmission::Waits if is_over && keeps_up => StreamAdmission::Begins,
                StreamAdmission::Waits if is_over => StreamAdmission::Refused,
                verdict => verdict,
            };
            match verdict {
                StreamAdmission::Waits => {
                    places.arm_soon();
                    return None;
                }
                StreamAdmission::Begins => return self.0.pop_front().map(|lined| lined.fresh),
                StreamAdmission::Refused => self.0.pop_front()?.fresh.refuse(),
            }
        }
    }

    pub(crate) fn refuse_all(&mut self) {
        self.0.drain(..).for_each(|lined| lined.fresh.refuse());
    }
}
