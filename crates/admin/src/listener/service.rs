//! What answers on a connection, and how long.

use std::future::Future;

use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
};

use crate::message::{Head, RequestBody, Response};

/// Something that answers requests.
pub trait Service: Send + Sync + 'static {
    /// A request that was let in by its head.
    type Entered: Send + 'static;
    /// Lets a request in, or returns its answer. Its body is not read before.
    fn enter(&self, head: Head) -> Result<Self::Entered, Response>;
    /// How much of the body is worth reading.
    fn body_limit(entered: &Self::Entered) -> u64;
    /// Whether the client has shown a key.
    fn showed_key(entered: &Self::Entered) -> bool;
    /// The answer of a process whose successor serves, to a request that came by a connection of before.
    fn handed_over(&self) -> Option<Response>;
    /// `body`: what there is of it, or what to answer because it could not be had.
    fn answer(
        &self,
        entered: Self::Entered,
        body: Result<RequestBody, Response>,
    ) -> impl Future<Output = Response> + Send;
}

/// A connection, plain or after a TLS handshake.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// What a listener has to do now. Sockets are bound early, so that a port that cannot be had is known before anything is
/// served, and left when a successor accepts from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Between two requests.
    Waiting,
    /// From the first byte of a request to the last of its response.
    Serving,
    /// Requests under way are finished. A connection that has not had one may still bring it, for a moment; others are
    /// closed.
    Closing,
}

pub(super) async fn closed(phase: &mut watch::Receiver<Phase>) {
    if phase.wait_for(|phase| *phase == Phase::Closing).await.is_err() {
        // The sender is gone: the phase never comes.
        std::future::pending::<()>().await;
    }
}
