//! What the connections of a worker share.

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    super::{
        clock::Clock,
        dial::{Raw, Way},
        failure::Broken,
        harvest::ThreadResult,
        local::Took,
        pace::Pace,
        slot::Usual,
        tally::Tally,
    },
    line::Line,
};
use crate::{
    Plan, Protocol,
    request::Request,
    template::{Source, Template},
};

pub(super) const FIRST_RETRY: Duration = Duration::from_millis(10);

pub(super) const LAST_RETRY: Duration = Duration::from_secs(1);

/// What the tasks of one thread share.
pub(super) struct Shared {
    pub(super) plan: Arc<Plan>,
    pub(super) requests: Vec<Request>,
    pub(super) clock: Clock,
    pub(super) tally: Tally,
    pub(super) pace: Option<Pace>,
    /// Messages that no task has taken to send.
    pub(super) left: u64,
    /// The message of WebSocket.
    pub(super) message: Option<Template>,
    pub(super) next: usize,
    pub(super) source: Source,
    pub(super) connections: Vec<ConnectionState>,
    pub(super) server: String,
    pub(super) server_name: Option<ServerName<'static>>,
}

/// What a connection is at, for the end of the run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectionState {
    pub(super) usual: Usual,
    /// (sent, due) of the request or message that has no answer.
    pub(super) asked: Option<(u64, u64)>,
    /// When a message is due that was taken and not sent.
    pub(super) taken: Option<u64>,
    /// When the last event came; before the first, when the stream began.
    pub(super) heard: Option<u64>,
}

pub(super) type Common = Rc<RefCell<Shared>>;

impl Shared {
    /// The next request as bytes, and which it is.
    pub(super) fn request(&mut self, connection: usize) -> (Vec<u8>, u32) {
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
    pub(super) fn take_turn(&mut self, connection: usize) -> Option<Option<u64>> {
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
    pub(super) fn advance(&mut self) {
        self.source.number += self.plan.threads as u64;
    }

    pub(super) fn place(&mut self, connection: usize, change: impl FnOnce(&mut ConnectionState)) {
        if let Some(place) = self.connections.get_mut(connection) {
            change(place);
        }
    }

    pub(super) fn harvest(mut self, &Took { end_ns, cpu_ns, waited_ns }: &Took) -> ThreadResult {
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
        let usual = |place: &ConnectionState| (place.usual.count, place.usual.latency_ns());
        let connections = self.connections.iter().map(usual).collect();
        ThreadResult {
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

pub(super) async fn open(index: usize, common: &Common) -> Result<Line, Broken> {
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

pub(super) async fn line(
    io: impl AsyncRead + AsyncWrite + Unpin + 'static,
    is_tls: bool,
    is_http2: bool,
) -> Result<Line, Broken> {
    if is_http2 { Line::http2(io, is_tls).await } else { Ok(Line::new(io)) }
}
