//! How the requests of a connection begin, and the life of one.

use std::{
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    rc::Rc,
    task::{Context, Poll},
};

use tidegate_telemetry::error_log;

use super::{
    Life, STARTS, Shared, head,
    line::Fresh,
    stream::{Http2Stream, StreamPermit},
};
use crate::{boxed::boxed, client::Downstream, refusal, request, respond, stall, stats, stream::Stream};

/// Copies of a request's head in memory.
const HEADS: usize = 3;

impl Life {
    /// Begins requests that have waited long enough for others to end. Returns how many.
    pub(super) fn advance(&mut self, context: &mut Context<'_>) -> u32 {
        if self.line.len() == 0 {
            return 0;
        }
        if self.shared.worker.no_new_streams.get() {
            self.line.refuse_all();
        }
        let now_ms = self.shared.worker.deadlines.now_ms();
        let mut begun = 0;
        while begun < STARTS
            && let Some(mut fresh) = self.line.next(&self.shared.sending.places, now_ms)
        {
            if fresh.respond.poll_reset(context).is_pending() {
                self.begin(fresh);
                begun += 1;
            }
        }
        self.shared.lined.set(self.line.len());
        begun
    }

    pub(super) fn receive(&mut self, fresh: Fresh) {
        let shared = &self.shared;
        let most = shared.worker.settings.http2.as_ref().map_or(0, |limits| limits.max_concurrent_streams);
        // Cancelled streams make room for new ones at once; their tasks take a moment to end.
        let too_many = shared.working.get() as usize + self.line.len() >= most as usize * 2;
        if too_many || shared.worker.no_new_streams.get() {
            fresh.refuse();
            return;
        }
        let now_ms = shared.worker.deadlines.now_ms();
        if let Some(fresh) = self.line.enter(fresh, &shared.sending.places, now_ms) {
            self.begin(fresh);
        }
        self.shared.lined.set(self.line.len());
    }

    fn begin(&self, fresh: Fresh) {
        let shared = &self.shared;
        shared.working.set(shared.working.get() + 1);
        shared.worker.memory.began();
        let place = StreamPermit::new(shared.sending.clone());
        // The received head, the parsed one, and the one written for the upstream.
        place.weigh(fresh.head_bytes * HEADS);
        let working = Working(shared.clone());
        // Tokio copies a task three times before its first poll and once after its last.
        let task = boxed(|| answer(working, fresh, place));
        tokio::task::spawn_local(stall::watched(shared.worker, "an HTTP/2 request", task));
    }
}

/// Counts a request at work for as long as it lives.
struct Working(Rc<Shared>);

impl Drop for Working {
    fn drop(&mut self) {
        let left = self.0.working.get().saturating_sub(1);
        self.0.working.set(left);
        self.0.worker.memory.ended();
        if (left == 0 || self.0.lined.get() > 0)
            && let Some(waker) = &*self.0.waker.borrow()
        {
            waker.wake_by_ref();
        }
    }
}

/// The life of a stream.
async fn answer(working: Working, fresh: Fresh, place: StreamPermit) {
    let Fresh { request, respond, .. } = fresh;
    let shared = &working.0;
    let worker = shared.worker;
    let (parts, body) = request.into_parts();
    let mut head = worker.request_head();
    let readable = head::read(&mut head, &parts, &worker.settings.reading.limits);
    let unreadable = readable.map_err(|error| (error, refusal::http2_line(&parts)));
    drop(parts);
    let stream = Stream::Http2(Box::new(Http2Stream::new(respond, body, place)));
    let client = Rc::new(Downstream::for_stream(worker, stream, shared.facts.clone()));
    poll_fn(|context| {
        client.timer.attach(context);
        Poll::Ready(())
    })
    .await;
    if let Err((error, line)) = unreadable {
        refusal::refuse(&client, head, line, error).await;
        return;
    }
    let mut serving = pin!(request::handle(&client, head));
    let ended = poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| serving.as_mut().poll(context))) {
        Ok(poll) => poll.map(|_| true),
        Err(_) => Poll::Ready(false),
    })
    .await;
    if !ended {
        stats::add(&worker.stats.panics, 1);
        error_log::log(
            error_log::Level::Critical,
            format_args!("a request from {} panicked; its stream is closed", client.facts.peer),
        );
        respond::after_panic(&client).await;
    }
    client.give_up();
    super::stream_end::linger_stream(&client).await;
}
