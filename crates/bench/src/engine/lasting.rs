//! Clients that do more than ask: they hold streams of events open, speak WebSocket (RFC 6455), follow redirects, keep
//! cookies.
//!
//! A thread with its own runtime, a task for each connection. WebSocket over HTTP/2 (RFC 8441) is not spoken.

mod body;
mod browse;
mod echo;
mod events;
mod line;
mod shared;

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
};

use tokio::task::{JoinHandle, LocalSet};

use self::shared::{Common, ConnectionState, Shared};
use super::{ending::Ending, harvest::ThreadResult, http2::Http2Request, local, portion::Portion};
use crate::{
    Problem, Protocol,
    request::{Http1, Request},
    template::Template,
};

pub(super) struct Worker {
    shared: Shared,
    stop: Arc<AtomicBool>,
    ending: Arc<Ending>,
}

impl Worker {
    pub(super) fn new(portion: Portion) -> Result<Worker, Problem> {
        let (plan, source) = (Arc::clone(&portion.plan), portion.source());
        let (host, form) = (plan.origin.host_field(), Http1 { version_10: false, keep_alive: true });
        let requests: Result<Vec<Request>, Problem> =
            plan.requests.iter().map(|spec| Request::new(spec, &host, form)).collect();
        if plan.protocol == Protocol::Http2 {
            // What it cannot carry is said before the run.
            plan.requests.iter().try_for_each(|spec| Http2Request::new(spec, &plan.origin).map(drop))?;
        }
        let shared = Shared {
            requests: requests?,
            clock: portion.clock,
            tally: portion.tally,
            pace: portion.pace,
            left: portion.left,
            message: plan.options.echo.as_deref().map(Template::parse).transpose()?,
            next: portion.thread,
            source,
            connections: vec![ConnectionState::default(); portion.connections],
            server: String::new(),
            server_name: portion.server_name,
            plan,
        };
        Ok(Worker { shared, stop: portion.stop, ending: portion.ending })
    }

    pub(super) fn run(self) -> Result<ThreadResult, Problem> {
        let Worker { shared, stop, ending } = self;
        let (plan, clock) = (Arc::clone(&shared.plan), shared.clock);
        let common = Rc::new(RefCell::new(shared));
        let tick = || {
            common.borrow_mut().tally.rotate(clock.now());
        };
        let took = local::run(
            &plan,
            || clock,
            &stop,
            &ending,
            tick,
            |local| start_connections(local, &common),
            async {},
        )?;
        let shared = Rc::try_unwrap(common).map_err(|_| Problem::failed("tasks outlive their thread"))?;
        Ok(shared.into_inner().harvest(&took))
    }
}

fn start_connections(local: &LocalSet, common: &Common) -> Vec<JoinHandle<()>> {
    let (count, is_echo, is_events) = {
        let shared = common.borrow();
        (shared.connections.len(), shared.message.is_some(), shared.plan.options.events)
    };
    let start = |index| {
        if is_echo {
            local.spawn_local(echo::connection(index, Rc::clone(common)))
        } else if is_events {
            local.spawn_local(events::connection(index, Rc::clone(common)))
        } else {
            local.spawn_local(browse::connection(index, Rc::clone(common)))
        }
    };
    (0..count).map(start).collect()
}
