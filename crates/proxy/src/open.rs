//! Counts open connections and sessions, and lets them in.

use std::net::SocketAddr;

use tidegate_telemetry::error_log;

use crate::{admission::Admitted, stats, worker::Worker};

/// Counts an open connection for as long as it lives.
pub(crate) struct Open {
    _counted: Counted,
    /// Apart, since most have none.
    pub(crate) admitted: Option<Box<Admitted>>,
}

struct Counted(&'static Worker);

impl Open {
    pub(crate) fn new(worker: &'static Worker) -> Open {
        worker.connections.set(worker.connections.get() + 1);
        stats::add(&worker.stats.active, 1);
        worker.load.opened();
        Open { _counted: Counted(worker), admitted: None }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
        stats::sub(&self.0.stats.active, 1);
        self.0.load.closed();
    }
}

/// The outer `None`: too many connections are open. The inner one: connections are not limited.
pub(crate) fn admit(worker: &Worker, address: SocketAddr) -> Option<Option<Box<Admitted>>> {
    let Some(admission) = &worker.settings.admission else { return Some(None) };
    let admitted = admission.admit(address.ip());
    if admitted.is_none() {
        stats::add(&worker.stats.refused, 1);
        error_log::log(
            error_log::Level::Info,
            format_args!("connection from {address} refused: apisix.client_limits"),
        );
    }
    admitted.map(|admitted| Some(Box::new(admitted)))
}
