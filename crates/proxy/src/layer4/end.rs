//! The end of a session: log phase, access log.

use tidegate_plugin_api::{Session, stream_route::StreamRoute};

use crate::worker::Worker;

pub(super) fn end(worker: &Worker, session: &mut Session, route: Option<&StreamRoute>, status: u16) {
    session.log.status = status;
    session.log.took = Some(session.started.elapsed());
    for instance in route.into_iter().flat_map(|route| &route.plugins) {
        if instance.applies(session) {
            instance.plugin.log(session);
        }
    }
    if let Some(log) = &worker.settings.stream.log {
        log.write(worker.index, session);
    }
}
