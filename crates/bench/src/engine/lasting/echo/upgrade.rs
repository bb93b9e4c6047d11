//! The handshake (RFC 6455 section 4): a request of HTTP/1.1, and 101 as its answer.

use tidegate_protocol::ResponseHead;
use tokio::time::timeout;

use crate::{
    engine::{
        failure::{Broken, Failure, malformed},
        lasting::{line::Line, shared::Common},
    },
    websocket::ACCEPT,
};

pub(super) async fn ask(index: usize, line: &mut Line, common: &Common) -> Result<(), Broken> {
    let (bytes, _) = common.borrow_mut().request(index);
    let limit = common.borrow().plan.timeout;
    let asked = async {
        line.send(&bytes).await?;
        line.head().await
    };
    let late = |_| Broken::new(Failure::Timeout, format!("no answer to the upgrade after {limit:?}"));
    let head = timeout(limit, asked).await.map_err(late)??;
    let mut shared = common.borrow_mut();
    shared.tally.bytes_in += line.came();
    if shared.server.is_empty() {
        shared.server = head.headers.get_str("server").unwrap_or_default().to_owned();
    }
    check(&head)
}

fn check(head: &ResponseHead) -> Result<(), Broken> {
    if head.status != 101 {
        return Err(Broken::new(
            Failure::Connect,
            format!("websocket: {} instead of 101; is it the path of a WebSocket?", head.status),
        ));
    }
    match head.headers.get_str("sec-websocket-accept") {
        Some(ACCEPT) => Ok(()),
        _ => Err(malformed("101 with a wrong Sec-WebSocket-Accept; the server does not speak WebSocket")),
    }
}
