//! HTTP/2 (RFC 9113): a thread with a runtime of its own, streams as tasks, framing and HPACK by the `h2` crate.
//!
//! Slower than the HTTP/1 engine by what an executor and a map of headers cost. Bytes counted are those of bodies.

mod request;

use std::{
    cell::RefCell,
    net::SocketAddr,
    ops::ControlFlow,
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use h2::client::SendRequest;
use rustls::pki_types::ServerName;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::LocalSet,
    time::{Instant, sleep, timeout},
};

use self::request::Http2Request;
use super::{
    clock::Clock,
    failure::{Broken, Failure, plain},
    pace::Pace,
    share,
    slot::Usual,
    tally::{SharedSlots, Tally},
    worker::{Harvest, nanos, thread_cpu_ns},
};
use crate::{
    Plan, Problem,
    template::{Random, Source},
};

/// Large enough that flow control never holds an answer up.
const WINDOW_BYTES: u32 = 8 * 1024 * 1024;
const TICK: Duration = Duration::from_millis(20);
const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_secs(1);
/// Timers of the runtime count milliseconds; the last one is waited out by yielding.
const TIMER_STEP_NS: u64 = 2_000_000;

pub struct Worker {
    plan: Arc<Plan>,
    requests: Vec<Http2Request>,
    clock: Clock,
    thread: usize,
    tally: Tally,
    stop: Arc<AtomicBool>,
    server_name: Option<ServerName<'static>>,
}

/// What the tasks of one thread share.
struct Shared {
    plan: Arc<Plan>,
    requests: Vec<Http2Request>,
    clock: Clock,
    tally: Tally,
    pace: Option<Pace>,
    left: u64,
    next: usize,
    source: Source,
    /// (sent, due) of the stream in each place.
    in_flight: Vec<Option<(u64, u64)>>,
    connections: Vec<Usual>,
    server: String,
    server_name: Option<ServerName<'static>>,
}

type Common = Rc<RefCell<Shared>>;

impl Worker {
    pub fn new(
        plan: &Arc<Plan>,
        thread: usize,
        clock: Clock,
        shared: SharedSlots,
        stop: Arc<AtomicBool>,
    ) -> Result<Worker, Problem> {
        let requests: Result<Vec<_>, Problem> =
            plan.requests.iter().map(|spec| Http2Request::new(spec, &plan.origin)).collect();
        let server_name = plan.tls.as_ref().map(|_| crate::tls::server_name(&plan.origin)).transpose()?;
        Ok(Worker {
            plan: Arc::clone(plan),
            requests: requests?,
            clock,
            thread,
            tally: Tally::new(plan.rate.is_some(), shared),
            stop,
            server_name,
        })
    }

    pub fn run(self) -> Result<Harvest, Problem> {
        std::thread::sleep(self.clock.until_start());
        let (cpu_before, waited_before) = (thread_cpu_ns(), crate::system::thread_wait_ns());
        let (clock, stop) = (self.clock, Arc::clone(&self.stop));
        let end_ns = self.plan.duration.map_or(u64::MAX, nanos);
        let common = self.shared();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Problem::failed(format!("cannot start a runtime: {error}")))?;
        let local = LocalSet::new();
        let tasks = start_connections(&local, &common);
        let ticking = Rc::clone(&common);
        local.block_on(&runtime, async move {
            let all = async {
                for task in tasks {
                    // A panic of a task is a bug that the join of the thread reports by its missing figures.
                    let _ = task.await;
                }
            };
            let ticks = async {
                while clock.now() < end_ns && !stop.load(Relaxed) {
                    ticking.borrow_mut().tally.rotate(clock.now());
                    sleep(TICK.min(Duration::from_nanos(end_ns.saturating_sub(clock.now())))).await;
                }
            };
            tokio::select! { () = all => {}, () = ticks => {} }
        });
        let end_ns = clock.now();
        let cpu_ns = thread_cpu_ns() - cpu_before;
        let waited_ns = crate::system::thread_wait_ns().saturating_sub(waited_before);
        drop(local);
        drop(runtime);
        let shared = Rc::try_unwrap(common).map_err(|_| Problem::failed("tasks outlive their thread"))?;
        Ok(shared.into_inner().harvest(end_ns, cpu_ns, waited_ns))
    }

    fn shared(self) -> Common {
        let plan = &self.plan;
        let connections = share(plan.connections as u64, self.thread, plan.threads) as usize;
        Rc::new(RefCell::new(Shared {
            pace: plan.rate.map(|rate| Pace::new(rate, self.thread, plan.threads)),
            left: plan.count.map_or(u64::MAX, |count| share(count, self.thread, plan.threads)),
            next: self.thread,
            source: Source {
                number: self.thread as u64,
                connection: 0,
                thread: self.thread,
                random: Random::new(0x7469_6465 + self.thread as u64),
            },
            in_flight: vec![None; connections * plan.pipeline],
            connections: vec![Usual::default(); connections],
            server: String::new(),
            server_name: self.server_name,
            plan: self.plan,
            requests: self.requests,
            clock: self.clock,
            tally: self.tally,
        }))
    }
}

impl Shared {
    /// The next request, and when it is due; `None` when all are taken.
    fn take(&mut self, connection: usize) -> Option<(http::Request<()>, Bytes, u64)> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let due = self.pace.as_mut().map(|pace| {
            let due = pace.due();
            pace.advance();
            due
        });
        let at = self.next % self.requests.len().max(1);
        self.next = self.next.wrapping_add(1);
        self.source.connection = connection;
        let (head, body) = self.requests.get(at)?.render(&mut self.source);
        self.source.number += self.plan.threads as u64;
        Some((head, body, due.unwrap_or(0)))
    }

    fn not_connected(&mut self, broken: &Broken) {
        self.tally.fail(broken.failure, &broken.message);
        if self.left != u64::MAX {
            // A run of -n requests against a server that went away must end.
            self.left = self.left.saturating_sub(1);
        }
    }

    /// Counts what became of a request; breaks when its connection is of no more use.
    fn finish(
        &mut self,
        result: Result<u16, Lost>,
        connection: usize,
        sent: u64,
        due: u64,
    ) -> ControlFlow<()> {
        match result {
            Ok(status) => {
                let now = self.clock.now();
                self.tally.complete(now, sent, due, status);
                if let Some(usual) = self.connections.get_mut(connection) {
                    usual.add(now - sent);
                }
                ControlFlow::Continue(())
            }
            Err(Lost::Unanswered) => {
                self.left = self.left.saturating_add(1);
                self.tally.server_closes += 1;
                ControlFlow::Break(())
            }
            Err(Lost::Failed(broken)) => {
                self.tally.fail(broken.failure, &broken.message);
                if broken.failure == Failure::Closed {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            }
        }
    }

    fn harvest(mut self, end_ns: u64, cpu_ns: u64, waited_ns: u64) -> Harvest {
        for (sent, due) in self.in_flight.into_iter().flatten() {
            self.tally.unfinished(end_ns, sent, due);
        }
        if let Some(pace) = &mut self.pace {
            while pace.due() < end_ns && self.left > 0 {
                self.tally.never_sent(end_ns, pace.due());
                pace.advance();
                self.left -= 1;
            }
        }
        self.tally.finish(end_ns);
        let usual = |usual: &Usual| (usual.count, usual.latency_ns());
        let connections = self.connections.iter().map(usual).collect();
        Harvest { tally: self.tally, connections, cpu_ns, waited_ns, end_ns, server: self.server }
    }
}

fn start_connections(local: &LocalSet, common: &Common) -> Vec<tokio::task::JoinHandle<()>> {
    let (count, depth) = {
        let shared = common.borrow();
        (shared.connections.len(), shared.plan.pipeline)
    };
    (0..count).map(|index| local.spawn_local(connection(index, depth, Rc::clone(common)))).collect()
}

/// Keeps one connection open and its streams busy until nothing is left to send.
async fn connection(index: usize, depth: usize, common: Common) {
    let mut wait = FIRST_RETRY;
    while common.borrow().left > 0 {
        match open(index, &common).await {
            Ok(sender) => {
                wait = FIRST_RETRY;
                let streams: Vec<_> = (0..depth)
                    .map(|place| {
                        let place = index * depth + place;
                        tokio::task::spawn_local(stream(index, place, sender.clone(), Rc::clone(&common)))
                    })
                    .collect();
                for stream in streams {
                    let _ = stream.await;
                }
            }
            Err(broken) => {
                common.borrow_mut().not_connected(&broken);
                sleep(wait).await;
                wait = (wait * 2).min(LAST_RETRY);
            }
        }
    }
}

/// One stream after the other in one place, until the connection breaks or nothing is left.
async fn stream(connection: usize, place: usize, sender: SendRequest<Bytes>, common: Common) {
    let Ok(mut sender) = sender.ready().await else { return };
    loop {
        let Some((head, body, due)) = common.borrow_mut().take(connection) else { return };
        let (clock, limit) = {
            let shared = common.borrow();
            (shared.clock, shared.plan.timeout)
        };
        if common.borrow().pace.is_some() {
            wait_until(due, &clock).await;
        }
        let sent = clock.now();
        let due = if common.borrow().pace.is_some() { due } else { sent };
        set(&common, place, Some((sent, due)));
        let result = match timeout(limit, exchange(sender.clone(), head, body, &common)).await {
            Ok(result) => result,
            Err(_) => {
                let late = Broken::new(Failure::Timeout, format!("no answer after {limit:?}"));
                Err(Lost::Failed(late))
            }
        };
        set(&common, place, None);
        if common.borrow_mut().finish(result, connection, sent, due).is_break() {
            return;
        }
        sender = match sender.ready().await {
            Ok(sender) => sender,
            Err(_) => return,
        };
    }
}

fn set(common: &Common, place: usize, value: Option<(u64, u64)>) {
    if let Some(entry) = common.borrow_mut().in_flight.get_mut(place) {
        *entry = value;
    }
}

async fn wait_until(due: u64, clock: &Clock) {
    loop {
        let left = due.saturating_sub(clock.now());
        if left == 0 {
            return;
        }
        if left > TIMER_STEP_NS {
            tokio::time::sleep_until(Instant::now() + Duration::from_nanos(left - TIMER_STEP_NS)).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
}

/// Why a request has no answer.
enum Lost {
    /// The server ends the connection in an orderly way (GOAWAY) and did not look at the request: it is sent again.
    Unanswered,
    Failed(Broken),
}

/// Sends a request and reads its whole answer.
async fn exchange(
    sender: SendRequest<Bytes>,
    head: http::Request<()>,
    body: Bytes,
    common: &Common,
) -> Result<u16, Lost> {
    let broken = |error: h2::Error| {
        if error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR) {
            return Lost::Unanswered;
        }
        let failure = if error.is_reset() { Failure::Malformed } else { Failure::Closed };
        Lost::Failed(Broken::new(failure, format!("http/2: {error}")))
    };
    let mut sender = sender.ready().await.map_err(broken)?;
    let length = body.len() as u64;
    let (answer, mut stream) = sender.send_request(head, body.is_empty()).map_err(broken)?;
    if !body.is_empty() {
        stream.send_data(body, true).map_err(broken)?;
    }
    let (head, mut body) = answer.await.map_err(broken)?.into_parts();
    let mut received = 0;
    while let Some(data) = body.data().await {
        let data = data.map_err(broken)?;
        received += data.len() as u64;
        // The window is given back at once; it is the connection's end if that fails.
        let _ = body.flow_control().release_capacity(data.len());
    }
    let mut shared = common.borrow_mut();
    shared.tally.body_bytes += received;
    shared.tally.bytes_in += received;
    shared.tally.bytes_out += length;
    if shared.server.is_empty()
        && let Some(server) = head.headers.get(http::header::SERVER)
    {
        shared.server = String::from_utf8_lossy(server.as_bytes()).into_owned();
    }
    Ok(head.status.as_u16())
}

async fn open(index: usize, common: &Common) -> Result<SendRequest<Bytes>, Broken> {
    let (clock, limit, address, tls) = {
        let shared = common.borrow();
        let addresses = &shared.plan.addresses;
        let address: Option<SocketAddr> = addresses.get(index % addresses.len().max(1)).copied();
        (shared.clock, shared.plan.timeout, address, shared.plan.tls.clone().zip(shared.server_name.clone()))
    };
    let address = address.ok_or_else(|| Broken::new(Failure::Connect, "connect: no address"))?;
    let begun = clock.now();
    let failed = |error: std::io::Error| Broken::new(Failure::Connect, format!("connect: {}", plain(&error)));
    let late = |_| Broken::new(Failure::ConnectTimeout, format!("no connection after {limit:?}"));
    let socket = timeout(limit, TcpStream::connect(address)).await.map_err(late)?.map_err(failed)?;
    socket.set_nodelay(true).map_err(failed)?;
    common.borrow_mut().tally.connect.saturating_record(clock.now() - begun);
    match tls {
        None => shake_hands(socket).await,
        Some((config, name)) => {
            let connected = timeout(limit, trust::connect(config, name, socket));
            let session = connected
                .await
                .map_err(late)?
                .map_err(|error| Broken::new(Failure::Tls, format!("tls: {}", plain(&error))))?;
            common.borrow_mut().tally.handshake.saturating_record(clock.now() - begun);
            shake_hands(session).await
        }
    }
}

async fn shake_hands<S>(socket: S) -> Result<SendRequest<Bytes>, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES).enable_push(false);
    let (sender, connection) = builder
        .handshake(socket)
        .await
        .map_err(|error| Broken::new(Failure::Connect, format!("http/2: {error}")))?;
    // Its end is seen by the streams.
    tokio::task::spawn_local(async move { drop(connection.await) });
    Ok(sender)
}
