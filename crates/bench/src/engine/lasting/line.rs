//! Bytes of a connection, those that were received and not used up, and the head of an answer among them.
//!
//! With HTTP/2 the bytes are those that HTTP/1.1 would have, so that there is one reader of answers.

mod http2;

use h2::client::SendRequest;
use tidegate_protocol::ResponseHead;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::engine::failure::{Broken, Failure, malformed, plain};

const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_FIELDS: usize = 256;
const READ_BYTES: usize = 16 * 1024;

pub(super) struct Line {
    carrier: Carrier,
    pub received: Vec<u8>,
    /// Bytes that came and are in no tally.
    uncounted: u64,
}

enum Carrier {
    Http1(Box<dyn Io>),
    Http2(http2::Streams),
}

trait Io: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

impl Line {
    pub(super) fn new(io: impl AsyncRead + AsyncWrite + Unpin + 'static) -> Line {
        Line::over(Carrier::Http1(Box::new(io)))
    }

    /// Speaks HTTP/2; shakes hands first.
    pub(super) async fn http2(
        io: impl AsyncRead + AsyncWrite + Unpin + 'static,
        is_tls: bool,
    ) -> Result<Line, Broken> {
        let sender: SendRequest<_> = crate::engine::http2::shake_hands(io).await?;
        Ok(Line::over(Carrier::Http2(http2::Streams::new(sender, is_tls))))
    }

    fn over(carrier: Carrier) -> Line {
        Line { carrier, received: Vec::with_capacity(READ_BYTES), uncounted: 0 }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        let io = match &mut self.carrier {
            Carrier::Http1(io) => io,
            Carrier::Http2(streams) => return streams.send(bytes).await,
        };
        let sent = async {
            io.write_all(bytes).await?;
            io.flush().await
        };
        sent.await.map_err(|error| Broken::new(Failure::Write, format!("write: {}", plain(&error))))
    }

    /// Receives something more: how much. Nothing when the server has closed.
    pub(super) async fn receive(&mut self) -> Result<usize, Broken> {
        self.received.reserve(READ_BYTES);
        let read = match &mut self.carrier {
            Carrier::Http2(streams) => streams.receive(&mut self.received).await?,
            Carrier::Http1(io) => io
                .read_buf(&mut self.received)
                .await
                .map_err(|error| Broken::new(Failure::Closed, format!("closed early: {}", plain(&error))))?,
        };
        self.uncounted += read as u64;
        Ok(read)
    }

    /// Whether the server ended the connection in an orderly way and did not look at the last request.
    pub(crate) fn is_unanswered(&self) -> bool {
        matches!(&self.carrier, Carrier::Http2(streams) if streams.is_unanswered)
    }

    /// How many bytes came since this was asked last.
    pub(super) fn came(&mut self) -> u64 {
        std::mem::take(&mut self.uncounted)
    }

    /// Reads the head of the final answer.
    pub(super) async fn head(&mut self) -> Result<ResponseHead, Broken> {
        let mut head = ResponseHead::default();
        loop {
            let parsed = head.parse(&self.received, MAX_HEAD_BYTES, MAX_FIELDS);
            match parsed.map_err(|error| malformed(error.reason))? {
                Some(used) => {
                    self.received.drain(..used);
                    // Interim answers announce the final one.
                    if head.status >= 200 || head.status == 101 {
                        return Ok(head);
                    }
                    head.clear();
                }
                None if self.receive().await? == 0 => {
                    return Err(Broken::new(Failure::Closed, "closed early: before the head of the answer"));
                }
                None => {}
            }
        }
    }
}
