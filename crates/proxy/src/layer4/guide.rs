//! The route of a session, and what its plugins say.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use tidegate_plugin_api::{
    Session, SessionVerdict,
    stream_route::{StreamInstance, StreamQuestion, StreamRoute},
};
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

use super::begin::read_more;
use crate::{stream::Stream, timers::Timer, worker::Worker};

/// The session's place among those of its route.
pub(super) struct Slot(Arc<AtomicUsize>);

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Finds the route and names it in the session.
pub(super) fn find(worker: &Worker, session: &mut Session) -> Option<Arc<StreamRoute>> {
    let snapshot = worker.snapshot();
    let question = StreamQuestion {
        remote: (session.remote_addr, session.remote_port).into(),
        local: session.facts.local,
        server_name: session.handshake_name(),
        terminated: session.facts.tls.is_some(),
    };
    let route = snapshot.stream.find(&question).cloned();
    match &route {
        Some(route) => session.owner = Some(route.owner.clone()),
        None => error_log::log(
            Level::Info,
            format_args!("no stream route, client: {}, server: {}", session.remote_addr, question.local),
        ),
    }
    route
}

/// A place among the sessions of the route; else the status of what is closed.
pub(super) fn enter(worker: &Worker, route: &StreamRoute) -> Result<Slot, u16> {
    static LIMITER: Limiter = Limiter::new(1, 10_000);
    if route.is_broken {
        return Err(503);
    }
    let before = route.open.fetch_add(1, Relaxed);
    let slot = Slot(route.open.clone());
    let limit = worker.settings.stream.sessions_per_route;
    if limit > 0 && before >= limit {
        if LIMITER.pass().is_some() {
            error_log::log(
                Level::Error,
                format_args!(
                    "stream_routes/{} has {limit} sessions (apisix.client_limits.sessions_per_stream_route): a new \
                     one is closed",
                    route.owner.id
                ),
            );
        }
        return Err(503);
    }
    Ok(slot)
}

/// Asks the plugins in their order. They see what the client has sent, which is sent on unchanged.
pub(super) async fn preread(
    worker: &'static Worker,
    client: &mut Stream,
    session: &mut Session,
    route: &StreamRoute,
    early: &mut Vec<u8>,
    timer: &Timer,
) -> Result<(), u16> {
    for instance in &route.plugins {
        loop {
            match verdict(instance, session, early)? {
                SessionVerdict::Next => break,
                SessionVerdict::Close(status) => return Err(status),
                SessionVerdict::Delay(pause) => {
                    tokio::time::sleep(pause).await;
                    break;
                }
                SessionVerdict::More => {
                    if !matches!(read_more(worker, client, early, timer).await, Ok(true)) {
                        return Err(400);
                    }
                }
            }
        }
    }
    Ok(())
}

/// What a plugin says; an error where a condition cannot be judged.
fn verdict(instance: &StreamInstance, session: &mut Session, seen: &[u8]) -> Result<SessionVerdict, u16> {
    let applies = instance.applies(session);
    let verdict = if applies { instance.plugin.preread(session, seen) } else { SessionVerdict::Next };
    if session.is_undecided() { Err(500) } else { Ok(verdict) }
}

/// As [`preread`] of a datagram: nothing comes after it that could tell more. The longest pause is returned.
pub(super) fn datagram_verdict(
    session: &mut Session,
    route: &StreamRoute,
    datagram: &[u8],
) -> Result<std::time::Duration, u16> {
    let mut pause = std::time::Duration::ZERO;
    for instance in &route.plugins {
        match verdict(instance, session, datagram)? {
            SessionVerdict::Next => {}
            SessionVerdict::Close(status) => return Err(status),
            SessionVerdict::Delay(wanted) => pause = pause.max(wanted),
            SessionVerdict::More => return Err(400),
        }
    }
    Ok(pause)
}
