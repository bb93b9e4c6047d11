//! The body of a request that was let in.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::{
    sync::{OwnedSemaphorePermit, TryAcquireError},
    time::{Instant, timeout_at},
};

use super::bounds::Doors;
use crate::{
    api::body::BODY_LIMIT,
    message::{RequestBody, Response},
};

/// Time for a body starts over with as many bytes: over a slow link a large one takes as long as it takes.
const PROGRESS: u64 = 64 * 1024;

/// What was received.
pub(super) struct Received {
    /// What there is to process, or what to answer because it could not be had.
    pub body: Result<RequestBody, Response>,
    /// Whether bytes of it are left.
    pub unread: bool,
    /// Kept until the request is answered.
    pub(crate) _large: Option<OwnedSemaphorePermit>,
}

struct Collector<'a> {
    bytes: Vec<u8>,
    limit: u64,
    doors: &'a Arc<Doors>,
    large: Option<OwnedSemaphorePermit>,
}

/// `announced`: the length that the client named. The first read is what answers `Expect: 100-continue`.
pub(super) async fn receive(
    mut body: Incoming,
    announced: Option<u64>,
    limit: u64,
    doors: &Arc<Doors>,
) -> Received {
    let mut collector = Collector { bytes: Vec::new(), limit, doors, large: None };
    let announced = body.size_hint().exact().or(announced).unwrap_or(0);
    let outcome = match collector.room_for(announced) {
        Ok(()) => collector.collect(&mut body).await,
        refused => refused,
    };
    let unread = outcome.is_err() && !body.is_end_stream();
    let body = match outcome {
        Ok(()) => Ok(RequestBody::Bytes(Bytes::from(collector.bytes))),
        Err(Refused::TooLarge(size)) => Ok(RequestBody::TooLarge(size)),
        Err(Refused::Answer(response)) => Err(response),
    };
    Received { body, unread, _large: collector.large }
}

enum Refused {
    /// The handler of the request words the message.
    TooLarge(u64),
    Answer(Response),
}

impl Collector<'_> {
    async fn collect(&mut self, body: &mut Incoming) -> Result<(), Refused> {
        let limit = self.doors.bounds.body;
        let mut deadline = Instant::now() + limit;
        let mut renewed = 0;
        loop {
            let slow = || Refused::Answer(Response::error(408, "the body did not arrive in time"));
            let frame = match timeout_at(deadline, body.frame()).await.map_err(|_| slow())? {
                None => return Ok(()),
                Some(Ok(frame)) => frame,
                Some(Err(_)) => {
                    return Err(Refused::Answer(Response::error(400, "the body is malformed or incomplete")));
                }
            };
            let Ok(data) = frame.into_data() else { continue };
            let length = self.bytes.len() as u64 + data.len() as u64;
            self.room_for(length)?;
            self.bytes.extend_from_slice(&data);
            if length - renewed >= PROGRESS {
                renewed = length;
                deadline = Instant::now() + limit;
            }
        }
    }

    /// Whether a body may have this length.
    fn room_for(&mut self, length: u64) -> Result<(), Refused> {
        if length > self.limit {
            return Err(Refused::TooLarge(length));
        }
        if length <= BODY_LIMIT || self.large.is_some() {
            return Ok(());
        }
        match self.doors.large_bodies.clone().try_acquire_owned() {
            Ok(permit) => {
                self.large = Some(permit);
                Ok(())
            }
            Err(TryAcquireError::NoPermits | TryAcquireError::Closed) => {
                let message = format!(
                    "{} bodies over {BODY_LIMIT} bytes are being received or processed; try again when one is done \
                     (deployment.admin.limits.large_bodies)",
                    self.doors.bounds.large_bodies
                );
                Err(Refused::Answer(Response::error(503, &message).with_header("Retry-After", "1")))
            }
        }
    }
}
