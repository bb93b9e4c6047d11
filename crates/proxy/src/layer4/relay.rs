//! A session of TCP with its node, until both ways have ended or nothing moved for the upstream's time.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use super::{
    end,
    established::{Ends, Established},
    idle,
    silence::{Due, Outcome},
    ways::{Ways, is_over},
};
use crate::{sessions::Listed, worker::Worker};

/// A side that has ended has perhaps gone away, which is not known before something is sent to it. Where places run out, such sessions
/// make room.
const HALF_CLOSED_IDLE_MS: u64 = 60_000;

/// What a session waits with: a future of its own, since one that the compiler makes keeps a second copy of what it begins with.
pub(super) struct Relay {
    worker: &'static Worker,
    established: Box<Established>,
    listed: Listed,
    ways: Ways,
}

impl Relay {
    /// `early` is sent to the node first.
    pub(super) fn new(worker: &'static Worker, mut established: Box<Established>, early: Vec<u8>) -> Relay {
        let ways = Ways::new(established.route.protocol.as_ref(), early);
        let Established { silence, timer, .. } = &mut *established;
        silence.renew(worker.deadlines.now_ms(), timer);
        let listed = Listed::new(worker, &established.session);
        Relay { worker, established, listed, ways }
    }

    /// Moves what can be moved. Ready: the session is over.
    fn poll_ways(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Established { session, route, ends, silence, timer, .. } = &mut *self.established;
        let Ends::Open(client, node) = ends else { return Poll::Ready(()) };
        let now_ms = self.worker.deadlines.now_ms();
        let ways = &mut self.ways;
        let before = ways.bytes();
        let moved = ways.poll(context, &self.worker.pipes, client, node);
        if ways.bytes() != before {
            silence.renew(now_ms, timer);
            if session.log.first_byte_after.is_none() && ways.bytes()[2] > 0 {
                session.log.first_byte_after = Some(session.started.elapsed());
            }
        }
        ways.log_calls(session, route.protocol.as_ref());
        // TLS may hold back records that a socket did not take; they must not wait for the next ones.
        let flushed = [node.poll_flush(context), client.poll_flush(context)];
        let is_broken = flushed.iter().any(|flushed| matches!(flushed, Poll::Ready(Err(_))));
        if ways.is_half() && !silence.is_evictable() {
            silence.make_evictable(HALF_CLOSED_IDLE_MS, now_ms, timer);
        }
        if is_broken {
            client.reset_when_closed();
            node.reset_when_closed();
        }
        match is_broken || is_over(moved, client, node) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Both ends see a reset if bytes are lost: what they got is not all.
    fn cut(&mut self) {
        let ends = &mut self.established.ends;
        // One that is parked, and for which something has just come.
        idle::unpark(self.worker, ends);
        let Ends::Open(client, node) = ends else { return };
        if self.ways.holds() || client.has_unread() || node.has_unread() {
            client.reset_when_closed();
            node.reset_when_closed();
        }
    }

    /// Ready: the session has been silent for too long.
    fn poll_silence(&mut self) -> Poll<()> {
        let Established { ends, silence, timer, .. } = &mut *self.established;
        let now_ms = self.worker.deadlines.now_ms();
        match silence.due(self.ways.holds(), now_ms, timer) {
            Due::Nothing => return Poll::Pending,
            Due::End if !self.ways.is_paused() => return Poll::Ready(()),
            Due::End => return Poll::Pending,
            Due::Park => {}
        }
        // What moves later counts as activity.
        let is_stuck = silence.is_evictable() || self.ways.calls.is_some() || self.ways.holds();
        let outcome = match is_stuck {
            true => Outcome::Unable,
            false => idle::park(self.worker, timer.slot(), ends),
        };
        silence.wait(outcome, now_ms, timer);
        match ends {
            Ends::Lost => Poll::Ready(()),
            Ends::Open(..) | Ends::Parked(_) => Poll::Pending,
        }
    }

    /// Whether the session is not parked, or no longer.
    fn is_awake(&mut self) -> bool {
        let Established { ends, silence, .. } = &mut *self.established;
        if !matches!(ends, Ends::Parked(_)) {
            return true;
        }
        let is_awake = idle::unpark(self.worker, ends);
        if is_awake {
            silence.end_parking();
        }
        is_awake
    }

    /// Until it is over; `true`: it was silent for too long.
    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<bool> {
        let Established { silence, timer, .. } = &mut *self.established;
        if self.listed.is_draining() && !silence.is_drained() {
            silence.drain(self.worker.deadlines.now_ms(), timer);
        }
        if self.is_awake() && self.poll_ways(context).is_ready() {
            return Poll::Ready(false);
        }
        self.poll_silence().map(|()| true)
    }

    /// Logs what the session moved.
    fn end(&mut self) {
        let Established { session, route, .. } = &mut *self.established;
        let [received, sent_up, received_up, sent] = self.ways.bytes();
        let kept = match (self.ways.calls.take(), &route.protocol) {
            (Some(calls), Some(protocol)) => calls.close(session, protocol),
            _ => 0,
        };
        let log = &mut session.log;
        (log.bytes_received, log.upstream_bytes_sent) = (received + kept, sent_up);
        (log.upstream_bytes_received, log.bytes_sent) = (received_up, sent);
        end::end(self.worker, session, Some(route), 200);
    }
}

impl Future for Relay {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let relay = &mut *self;
        relay.listed.attach(context);
        let is_cut = relay.listed.is_closing() || ready!(relay.poll_open(context));
        if is_cut {
            relay.cut();
        }
        relay.end();
        Poll::Ready(())
    }
}
