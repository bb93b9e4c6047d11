//! The end of a client's connection: at once where it has said that it sends nothing more, else after its own end.

use std::{
    future::poll_fn,
    task::{Context, Poll},
};

use super::Downstream;
use crate::linger;

impl Downstream {
    /// Whether a reset could cost the client an answer.
    fn must_linger(&self) -> bool {
        self.answering.get() && !self.gone.get() && !self.is_http2()
    }

    /// Closes so that the client still gets what was sent.
    pub(crate) async fn close(&self) {
        if !self.must_linger() {
            return;
        }
        // Under TLS this says that the end is meant; the socket's own close does so without.
        let done = poll_fn(|context| {
            let done = self.sends_no_more(context);
            if done && self.is_tls() {
                let _ = self.stream.borrow_mut().poll_shutdown(context);
            }
            Poll::Ready(done)
        });
        if !done.await {
            self.linger().await;
        }
    }

    /// Whether the client has sent its last request, as it said, and nothing after it, as far as is known without a system call.
    fn sends_no_more(&self, context: &mut Context<'_>) -> bool {
        self.said_last.get()
            && self.body_ended()
            && !self.has_input()
            && self.poll_readable(context).is_pending()
    }

    /// Reads on until the client has ended, too.
    async fn linger(&self) {
        self.incoming.borrow_mut().input.clear();
        self.release_buffer();
        let total_ms = if self.worker.draining.get() { linger::SHORT_MS } else { linger::TOTAL_MS };
        linger::linger(self.worker, &self.timer, total_ms, || self.stream.borrow_mut()).await;
    }
}
