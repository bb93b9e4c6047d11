//! Plain HTTP on a port with TLS: answered with a page that names the mistake, as nginx does, in place of an alert that
//! no HTTP client reads.

use std::{future::poll_fn, rc::Rc, task::Poll};

use tokio::net::TcpStream;

use crate::{
    client::{Downstream, HeadError},
    refusal,
};

/// Whether a client begins with a letter, as methods do. Takes nothing from the socket; a handshake begins with another byte.
pub(crate) async fn begins_plainly(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1)) && first.iter().all(u8::is_ascii_uppercase)
}

/// Answers the request, whatever it is.
pub(crate) async fn refuse(client: Rc<Downstream>) {
    let worker = client.worker;
    poll_fn(|context| {
        client.timer.attach(context);
        Poll::Ready(())
    })
    .await;
    client.timer.set(worker.settings.client_header_timeout_ms);
    let mut head = worker.request_head();
    if let Err(HeadError::Gone) = client.read_head(&mut head).await {
        return;
    }
    let line = client.with_received(refusal::received_line);
    refusal::refuse(&client, head, line, refusal::NEEDS_HTTPS).await;
    client.close().await;
}
