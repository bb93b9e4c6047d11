//! Clients that do more than ask: they hold streams of events open, speak WebSocket (RFC 6455), follow redirects, keep
//! cookies.
//!
//! A thread with a runtime of its own, a task for each connection. WebSocket over HTTP/2 (RFC 8441) is not spoken.

mod body;
mod browse;
mod echo;
mod events;
mod line;

use std::{
    cell::RefCell,
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::{JoinHandle, LocalSet},
};

use self::line::Line;
use super::{
    clock::Clock,
    dial::{Raw, Way},
    ending::Ending,
    failure::Broken,
    http2::Http2Request,
    local::{self, Took},
    pace::Pace,
    portion::Portion,
    slot::Usual,
    tally::Tally,
    worker::Harvest,
};
use crate::{
    Plan, Problem, Protocol,
    request::{Http1, Request},
    template::{Source, Template},
};

const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_secs(1);

pub struct Worker {
    shared: Shared,
    stop: Arc<AtomicBool>,
    ending: Arc<Ending>,
}

/// What the tasks of one thread share.
struct Shared {
    plan: Arc<Plan>,
    requests: Vec<Request>,
    clock: Clock,
    tally: Tally,
    pace: Option<Pace>,
    /// Messages that nobody has taken to send.
    left: u64,
    /// The message of WebSocket.
    message: Option<Template>,
    next: usize,
    source: Source,
    connections: Vec<Place>,
    server: String,
    server_name: Option<ServerName<'static>>,
}

/// What a connection is at, for the end of the run.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    usual: Usual,
    /// (sent, due) of the request or message that has no answer.
    asked: Option<(u64, u64)>,
    /// When a message is due that was taken and not sent.
    taken: Option<u64>,
    /// When the last event came; before the first, when the stream began.
    heard: Option<u64>,
}

type Common = Rc<RefCell<Shared>>;

impl Worker {
    pub fn new(portion: Portion) -> Result<Worker, Problem> {
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
            connections: vec![Place::default(); portion.connections],
            server: String::new(),
            server_name: portion.server_name,
            plan,
        };
        Ok(Worker { shared, stop: portion.stop, ending: portion.ending })
    }

    pub fn run(self) -> Result<Harvest, Problem> {
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

impl Shared {
    /// The next request as bytes, and which it is.
    fn request(&mut self, connection: usize) -> (Vec<u8>, u32) {
        let at = self.plan.request_at(self.next);
        self.next = self.next.wrapping_add(1);
        self.source.connection = connection;
        let mut bytes = Vec::new();
        if let Some(request) = self.requests.get(at) {
            request.write(&mut bytes, &mut Vec::new(), &mut self.source);
        }
        self.tally.bytes_out += bytes.len() as u64;
        (bytes, at as u32)
    }

    /// When the next request or message is due, in the open model; `None` when all are taken.
    fn take_turn(&mut self, connection: usize) -> Option<Option<u64>> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let due = self.pace.as_mut().map(|pace| {
            let due = pace.due();
            pace.advance();
            due
        });
        self.place(connection, |place| place.taken = due);
        Some(due)
    }

    /// What is sent next has the next number.
    fn advance(&mut self) {
        self.source.number += self.plan.threads as u64;
    }

    fn place(&mut self, connection: usize, change: impl FnOnce(&mut Place)) {
        if let Some(place) = self.connections.get_mut(connection) {
            change(place);
        }
    }

    fn harvest(mut self, &Took { end_ns, cpu_ns, waited_ns }: &Took) -> Harvest {
        for place in &self.connections {
            if let Some((sent, due)) = place.asked {
                self.tally.unfinished(end_ns, sent, due);
            }
            if let Some(due) = place.taken.filter(|due| self.pace.is_some() && *due < end_ns) {
                self.tally.never_sent(end_ns, due);
            }
            if let Some(heard) = place.heard {
                self.tally.beyond.events.still_open(end_ns.saturating_sub(heard));
            }
        }
        self.tally.left_over(self.pace.as_mut(), &mut self.left, end_ns, end_ns);
        self.tally.finish(end_ns);
        let usual = |place: &Place| (place.usual.count, place.usual.latency_ns());
        let connections = self.connections.iter().map(usual).collect();
        Harvest {
            tally: self.tally,
            connections,
            sockets: Default::default(),
            unopened: 0,
            cpu_ns,
            waited_ns,
            end_ns,
            server: self.server,
        }
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

async fn open(index: usize, common: &Common) -> Result<Line, Broken> {
    let (clock, way, is_http2) = {
        let shared = common.borrow();
        let way = Way::of(&shared.plan, shared.server_name.as_ref(), index);
        (shared.clock, way, shared.plan.protocol == Protocol::Http2)
    };
    let begun = clock.now();
    let raw = way.connect().await?;
    common.borrow_mut().tally.connect.saturating_record(clock.now() - begun);
    match (raw, way.tls.clone()) {
        (Raw::Unix(socket), _) => line(socket, false, is_http2).await,
        (Raw::Tcp(socket), None) => line(socket, false, is_http2).await,
        (Raw::Tcp(socket), Some((config, name))) => {
            let session = way.secure(config, name, socket).await?;
            common.borrow_mut().tally.handshake.saturating_record(clock.now() - begun);
            line(session, true, is_http2).await
        }
    }
}

async fn line(
    io: impl AsyncRead + AsyncWrite + Unpin + 'static,
    is_tls: bool,
    is_http2: bool,
) -> Result<Line, Broken> {
    if is_http2 { Line::http2(io, is_tls).await } else { Ok(Line::new(io)) }
}
