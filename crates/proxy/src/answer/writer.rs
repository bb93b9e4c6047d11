//! The one way out of every answer.

use tidegate_plugin_api::Request;

use super::{head::ClientFraming, outgoing::Outgoing, remade::Remade};
use crate::{client::Downstream, phases::RequestChains};

/// The decisions about an answer before its first byte.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    pub(crate) framing: ClientFraming,
    /// The body is known to be empty, and no trailers follow.
    pub(crate) is_empty: bool,
    /// The connection may carry another request.
    pub(crate) keep: bool,
}

pub(crate) struct Writer<'a> {
    pub(crate) request: &'a mut Request,
    pub(crate) client: &'a Downstream,
    /// Their body filters see each piece.
    pub(super) filters: Option<&'a RequestChains>,
    pub(super) frame: Frame,
    pub(super) out: Outgoing,
    pub(super) head_bytes: u64,
    pub(super) body_bytes: u64,
    /// The head is held until bytes of the body are there: another answer may still replace it.
    pub(super) head_waits: bool,
    pub(super) ended: bool,
    /// Part of the request is still to be sent.
    pub(super) sending: bool,
    /// The body filter at this place has the whole body, and makes a new one.
    pub(super) remaking: Option<usize>,
    pub(super) remade: Option<Box<Remade>>,
    pub(super) waits: Waits,
}

/// One time limit at a time: that of the side that is waited for.
#[derive(Default)]
pub(super) struct Waits {
    pub(super) for_client: bool,
    /// Since the limit was set last.
    pub(super) client_took: bool,
    pub(super) body_moved: bool,
}
