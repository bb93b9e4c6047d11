//! What a session holds while bytes go both ways.

use std::sync::Arc;

use tidegate_plugin_api::{Session, stream_route::StreamRoute};

use super::{guide::Slot, reach::Reached};
use crate::{open::Open, stream::Stream, timers::Timer};

/// A session with its node.
pub(super) struct Established {
    pub(super) session: Box<Session>,
    pub(super) route: Arc<StreamRoute>,
    pub(super) client: Stream,
    pub(super) node: Reached,
    pub(super) timer: Timer,
    pub(super) _open: Open,
    pub(super) _slot: Slot,
}
