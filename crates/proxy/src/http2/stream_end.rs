//! The end of a stream whose client still sends.

use std::{future::poll_fn, task::Poll};

use crate::{
    client::Downstream,
    linger::{DROPPED_BYTES, LingerPermit},
};

/// How long a stream stays open after its answer.
const STREAM_MS: u64 = 250;

/// Ends a stream of HTTP/2 whose client still sends. The reset waits for a moment: clients that read it together with the
/// answer treat it as a failure (curl before 8.1), and drop what they have received.
pub(crate) async fn linger_stream(client: &Downstream) {
    let stream = || client.http2().filter(|stream| stream.has_rest());
    if stream().is_none() {
        return;
    }
    let Some(_place) = LingerPermit::take(client.worker) else { return };
    client.timer.set(STREAM_MS);
    let mut dropped = 0;
    poll_fn(|context| {
        while dropped < DROPPED_BYTES
            && let Some(mut stream) = stream()
        {
            match stream.poll_drop(context) {
                Poll::Ready(Some(count)) => dropped += count,
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        if client.timer.expired() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
