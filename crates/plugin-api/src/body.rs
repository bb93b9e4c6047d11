//! The request body: unread on the wire, or collected because a plugin asked for it.

use std::{
    future::poll_fn,
    net::IpAddr,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use tidegate_protocol::Head;

use crate::{
    Reply,
    memory::{self, Held, Lease, Spent},
};

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    /// More bytes than the limit of the route or of the gateway.
    TooLarge,
    /// Wrong framing, with the reason for the error log.
    Malformed(&'static str),
    /// The trailers exceed their limit.
    LargeTrailers,
    /// Nothing came within `client_body_timeout`, or less than the least rate for bodies in memory.
    Timeout,
    /// The memory for bodies is spent.
    Overloaded,
    /// The client went away in the middle.
    Closed,
}

impl BodyError {
    /// What the client gets: 499 is for the log alone.
    pub fn status(self) -> u16 {
        match self {
            BodyError::TooLarge => 413,
            BodyError::Malformed(_) => 400,
            BodyError::LargeTrailers => 431,
            BodyError::Timeout => 408,
            BodyError::Overloaded => 503,
            BodyError::Closed => 499,
        }
    }
}

impl From<BodyError> for Box<Reply> {
    fn from(error: BodyError) -> Self {
        Box::new(Reply::page(error.status()))
    }
}

/// The connection side of a body, framing removed.
pub trait BodyReader {
    /// Appends the available bytes to `out`; `Ready(Ok(false))` at the end of the body.
    fn poll_data(&self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, BodyError>>;

    /// From now on the body is held in memory: the client must keep the least rate for that.
    fn holds(&self) {}

    /// Shows the fields behind the body, once all of it was read; they can be changed.
    fn visit_trailers(&self, _visit: &mut dyn FnMut(&mut Head)) {}

    /// Starts over; `false`: bytes are gone and cannot be sent a second time.
    fn rewind(&self) -> bool;
}

/// The client's body, on its way or in memory.
#[derive(Default)]
pub enum RequestBody {
    /// There is none.
    #[default]
    Empty,
    /// Still on the wire. `length` is `None` for a chunked body.
    Unread {
        /// From `Content-Length`; `None`: chunked, or a stream of HTTP/2 that does not say.
        length: Option<u64>,
        /// Takes it from the connection.
        reader: Rc<dyn BodyReader>,
    },
    /// All of it, read by a plugin or given by one.
    Collected(Bytes),
}

/// How much more memory to reserve before the next piece: enough for one piece, and when that is missing, eight times
/// what came, but no more than the announced length; all of the announced length once a good part came. The kernel backs
/// only memory that was written to; that part is copied as the buffer grows, and exists twice meanwhile.
fn room(collected: &Vec<u8>, length: usize) -> usize {
    if collected.capacity() - collected.len() >= PIECE.min(length.saturating_sub(collected.len())) {
        return 0;
    }
    match length.checked_sub(collected.len()) {
        Some(more) if more > 0 && collected.len() >= GOOD_PART && length <= WHOLE => more,
        Some(more) if more > 0 => more.min(collected.len().saturating_mul(7).max(PIECE)),
        // Without an announced length, or beyond it.
        _ => collected.len().max(PIECE),
    }
}

/// Once this much of a body has come, memory for all of it is reserved, up to `WHOLE`.
const GOOD_PART: usize = 1 << 20;
const WHOLE: usize = 64 << 20;

/// How much of the budget a body takes: eight times what came, before the next piece needs it, and no more than was set
/// aside.
fn leased(before: usize, collected: &[u8], set_aside: usize) -> usize {
    if collected.len() + PIECE <= before {
        return before;
    }
    set_aside.min(collected.len().max(PIECE).saturating_mul(8))
}

/// How much is gathered in one go: less than a millisecond of work.
const SLICE: usize = 256 << 10;

/// The most that one read yields.
const PIECE: usize = 16 << 10;

impl RequestBody {
    /// Whether it is known to have no bytes. A chunked body that turns out empty is not.
    pub fn is_empty(&self) -> bool {
        match self {
            RequestBody::Empty => true,
            RequestBody::Unread { .. } => false,
            RequestBody::Collected(bytes) => bytes.is_empty(),
        }
    }

    /// Whether the whole body can be sent, once more if it was before.
    pub fn rewind(&self) -> bool {
        match self {
            RequestBody::Empty | RequestBody::Collected(_) => true,
            RequestBody::Unread { reader, .. } => reader.rewind(),
        }
    }

    /// Reads the rest of the body into memory, `limit` bytes at most, and keeps it. What it holds of the budget is
    /// `client`'s, and given back with the last copy of the bytes.
    pub async fn collect(&mut self, limit: usize, client: IpAddr) -> Result<Bytes, BodyError> {
        match self {
            RequestBody::Empty => Ok(Bytes::new()),
            RequestBody::Collected(bytes) if bytes.len() > limit => Err(BodyError::TooLarge),
            RequestBody::Collected(bytes) => Ok(bytes.clone()),
            RequestBody::Unread { length, reader } => {
                if length.is_some_and(|length| length > limit as u64) {
                    return Err(BodyError::TooLarge);
                }
                let length = length.map_or(0, |length| length as usize);
                let mut collected = Vec::with_capacity(length.min(memory::UNCOUNTED));
                let mut lease = None;
                let mut others_turn = SLICE;
                while poll_fn(|context| reader.poll_data(context, &mut collected)).await? {
                    if collected.len() > limit {
                        return Err(BodyError::TooLarge);
                    }
                    let room = room(&collected, length);
                    if collected.len() + room > memory::UNCOUNTED {
                        let lease = lease.get_or_insert_with(|| {
                            reader.holds();
                            Lease::new(client)
                        });
                        let set_aside = collected.capacity().max(collected.len() + room);
                        let held = leased(lease.bytes(), &collected, set_aside);
                        lease.grow_to(held).map_err(|Spent| BodyError::Overloaded)?;
                    }
                    collected.try_reserve_exact(room).map_err(|_| BodyError::Overloaded)?;
                    if collected.len() >= others_turn {
                        // All of it may be here already: other requests get their turn.
                        others_turn = collected.len() + SLICE;
                        tokio::task::yield_now().await;
                    }
                }
                if collected.len() > limit {
                    return Err(BodyError::TooLarge);
                }
                let bytes = match lease {
                    None => Bytes::from(collected),
                    Some(lease) => Bytes::from_owner(Held { bytes: collected, _lease: lease }),
                };
                *self = RequestBody::Collected(bytes.clone());
                Ok(bytes)
            }
        }
    }
}
