//! Sessions with a message broker (`upstream.scheme: kafka`): what answers the messages of a client.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;

use crate::{Request, UpstreamHandle};

/// The broker's side of one session.
pub trait Messages {
    /// Answers one message of the client. `None`: there is nothing to say to it.
    fn answer(&mut self, message: Vec<u8>) -> Answering<'_>;
}

/// An answer under way. Dropped where the client leaves.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Option<Bytes>> + 'a>>;

/// Begins a session for a request that all plugins have let through.
pub type OpenMessages = fn(&Request, &Arc<UpstreamHandle>) -> Box<dyn Messages>;
