//! One request and its answer on one stream. What an answer is differs, and is decided before a run.

use bytes::Bytes;
use h2::{RecvStream, client::SendRequest};

use super::{
    lost::{Lost, broken},
    shared::{Common, Shared},
};

/// What is exchanged on a stream.
pub(super) trait Exchange: 'static {
    /// Sends a request and reads its whole answer: its status, and when it began if a body came after its head.
    async fn exchange(
        sender: SendRequest<Bytes>,
        head: http::Request<()>,
        body: Bytes,
        common: &Common,
    ) -> Result<(u16, u64), Lost>;
}

/// Sends a request: the head of its answer and the body to come.
pub(super) async fn ask(
    sender: SendRequest<Bytes>,
    head: http::Request<()>,
    body: Bytes,
) -> Result<http::Response<RecvStream>, Lost> {
    let mut sender = sender.ready().await.map_err(broken)?;
    let (answer, mut stream) = sender.send_request(head, body.is_empty()).map_err(broken)?;
    if !body.is_empty() {
        stream.send_data(body, true).map_err(broken)?;
    }
    answer.await.map_err(broken)
}

impl Shared {
    pub(crate) fn note_server(&mut self, head: &http::response::Parts) {
        if self.server.is_empty()
            && let Some(server) = head.headers.get(http::header::SERVER)
        {
            self.server = String::from_utf8_lossy(server.as_bytes()).into_owned();
        }
    }
}

/// Any answer of HTTP.
pub(super) struct Http;

impl Exchange for Http {
    async fn exchange(
        sender: SendRequest<Bytes>,
        head: http::Request<()>,
        body: Bytes,
        common: &Common,
    ) -> Result<(u16, u64), Lost> {
        let length = body.len() as u64;
        let (head, mut body) = ask(sender, head, body).await?.into_parts();
        let first_byte = if body.is_end_stream() { 0 } else { common.borrow().clock.now() };
        let mut received = 0;
        while let Some(data) = body.data().await {
            let data = data.map_err(broken)?;
            received += data.len() as u64;
            // The window is given back at once; it is the connection's end if that fails.
            let _ = body.flow_control().release_capacity(data.len());
        }
        let mut shared = common.borrow_mut();
        shared.tally.body_bytes += received;
        shared.tally.bytes_in += received;
        shared.tally.bytes_out += length;
        shared.note_server(&head);
        Ok((head.status.as_u16(), first_byte))
    }
}
