//! What a session holds while bytes go both ways.

use std::sync::Arc;

use tidegate_plugin_api::{Session, stream_route::StreamRoute};

use super::{guide::Slot, parking::Parked, silence::Silence};
use crate::{balancer::InFlight, open::Open, stream::Stream, timers::Timer};

/// A session with its node.
pub(super) struct Established {
    pub(super) session: Box<Session>,
    pub(super) route: Arc<StreamRoute>,
    pub(super) ends: Ends,
    pub(super) silence: Silence,
    pub(super) timer: Timer,
    pub(super) _in_flight: InFlight,
    pub(super) _open: Open,
    pub(super) _slot: Slot,
}

/// Its connections, of the client and to the node.
pub(super) enum Ends {
    Open(Stream, Stream),
    /// It has been silent for a while.
    Parked(Parked),
    /// The system did not give them back.
    Lost,
}
