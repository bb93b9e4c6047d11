//! The request body: unread on the wire, or collected because a plugin asked for it.

use std::{
    future::poll_fn,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;

use crate::Reply;

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyError {
    TooLarge,
    Malformed(&'static str),
    Timeout,
    /// The client went away in the middle.
    Closed,
}

impl BodyError {
    pub fn status(self) -> u16 {
        match self {
            BodyError::TooLarge => 413,
            BodyError::Malformed(_) => 400,
            BodyError::Timeout => 408,
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
    /// Appends what is there to `out`; `Ready(Ok(false))` at the end of the body.
    fn poll_data(&self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, BodyError>>;

    /// Begins anew; `false`: bytes are gone that cannot be given a second time.
    fn rewind(&self) -> bool;
}

#[derive(Default)]
pub enum RequestBody {
    #[default]
    Empty,
    /// Still on the wire. `length` is `None` for a chunked body.
    Unread {
        length: Option<u64>,
        reader: Rc<dyn BodyReader>,
    },
    Collected(Bytes),
}

/// Memory is set aside for so much of a body that says it is long; for more once this came.
const UNPROVED: usize = 64 << 10;

/// Eight times what came, but no more than the body says it has. Memory that nothing was written to is none yet; what was
/// is copied, and there twice meanwhile.
fn make_room(collected: &mut Vec<u8>, length: usize) {
    let more = length.saturating_sub(collected.len());
    if more > 0 && collected.capacity() - collected.len() < PIECE {
        collected.reserve_exact(more.min(collected.len().saturating_mul(7).max(PIECE)));
    }
}

/// What one read brings at most.
const PIECE: usize = 16 << 10;

impl RequestBody {
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

    /// Reads the rest of the body into memory, `limit` bytes at most, and keeps it.
    pub async fn collect(&mut self, limit: usize) -> Result<Bytes, BodyError> {
        match self {
            RequestBody::Empty => Ok(Bytes::new()),
            RequestBody::Collected(bytes) if bytes.len() > limit => Err(BodyError::TooLarge),
            RequestBody::Collected(bytes) => Ok(bytes.clone()),
            RequestBody::Unread { length, reader } => {
                if length.is_some_and(|length| length > limit as u64) {
                    return Err(BodyError::TooLarge);
                }
                let length = length.map_or(0, |length| length as usize);
                let mut collected = Vec::with_capacity(length.min(UNPROVED));
                while poll_fn(|context| reader.poll_data(context, &mut collected)).await? {
                    if collected.len() > limit {
                        return Err(BodyError::TooLarge);
                    }
                    make_room(&mut collected, length);
                }
                if collected.len() > limit {
                    return Err(BodyError::TooLarge);
                }
                let bytes = Bytes::from(collected);
                *self = RequestBody::Collected(bytes.clone());
                Ok(bytes)
            }
        }
    }
}
