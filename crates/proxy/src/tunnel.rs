//! After `101 Switching Protocols`: bytes both ways until one side is done (RFC 9110 section 7.8).

use std::{future::poll_fn, task::Poll};

use tidegate_plugin_api::Request;

use crate::{buffer::Buffer, client::Downstream, exchange::UpstreamConnection, relay::Direction};

/// Sends the 101 head and relays until both directions have ended or nothing moved for `idle_ms`.
pub(crate) async fn run(
    request: &mut Request,
    client: &Downstream,
    mut upstream: UpstreamConnection,
    idle_ms: u64,
) {
    let Ok(head_bytes) = client.start_tunnel(request).await else {
        upstream.discard(client);
        return;
    };
    let mut up = Direction::holding(&[]);
    // Frames that came with the upstream's head.
    let mut down = Direction::holding(upstream.input.filled());
    upstream.input = Buffer::default();
    client.timer.set(idle_ms);
    poll_fn(|context| {
        let before = up.moved + down.moved;
        let first = up.poll_all(
            context,
            |context, room| client.poll_raw(context, room),
            |context, data| match data {
                Some(data) => upstream.stream.poll_write(context, data),
                None => upstream.stream.poll_shutdown(context).map_ok(|()| 0),
            },
        );
        let second = {
            let stream = std::cell::RefCell::new(&mut upstream.stream);
            down.poll_all(
                context,
                |context, room| stream.borrow_mut().poll_read(context, room),
                |context, data| match data {
                    Some(data) => client.poll_write(context, data),
                    None => client.poll_shutdown(context).map_ok(|()| 0),
                },
            )
        };
        if up.moved + down.moved != before {
            client.timer.set(idle_ms);
        }
        // TLS may hold back records that a socket did not take; they must not wait for the next ones.
        let flushed = [upstream.stream.poll_flush(context), client.poll_flush(context)];
        if flushed.iter().any(|flushed| matches!(flushed, Poll::Ready(Err(_)))) {
            return Poll::Ready(());
        }
        match (first, second) {
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => Poll::Ready(()),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(()),
            _ if client.timer.expired() => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
    request.outcome.bytes_sent = head_bytes + down.moved;
    request.outcome.body_bytes_sent = down.moved;
    upstream.discard(client);
}
