//! How a worker gets its connections: from its own sockets, and from workers that have more.

use std::{
    future::poll_fn,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use tidegate_plugin_api::descriptors;
use tidegate_telemetry::{error_log, limiter::Limiter};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{shared::Worker, signals::Signals};
use crate::{
    accept_balance::{AcceptBalance, Choice, Passed, Target},
    connection, layer4,
    listeners::Doors,
    settings::Listen,
    stall, stats,
    timers::TICK_MS,
};

/// The task, its socket (`None`: it takes datagrams), and what the socket is for.
pub(super) type Accepting = (JoinHandle<()>, Option<Rc<TcpListener>>, Listen);

/// A task that accepts for each socket.
pub(super) fn accept_at(
    worker: &'static Worker,
    doors: Doors,
    balance: &Arc<AcceptBalance>,
) -> Vec<Accepting> {
    let mut accepting = Vec::new();
    for (listener, listen) in doors {
        if listen.is_udp() {
            accepting.extend(receive_at(worker, listener, listen));
            continue;
        }
        match TcpListener::from_std(listener) {
            Ok(listener) => {
                let listener = Rc::new(listener);
                let task = tokio::task::spawn_local(stall::watched(
                    worker,
                    "new connections",
                    accept(worker, listener.clone(), listen.clone(), balance.clone()),
                ));
                accepting.push((task, Some(listener), listen));
            }
            Err(error) => {
                error_log::log(error_log::Level::Emergency, format_args!("{}: {error}", listen.address))
            }
        }
    }
    accepting
}

/// A task that receives the datagrams of a socket.
fn receive_at(worker: &'static Worker, socket: std::net::TcpListener, listen: Listen) -> Option<Accepting> {
    let socket = std::net::UdpSocket::from(std::os::fd::OwnedFd::from(socket));
    match tokio::net::UdpSocket::from_std(socket) {
        Ok(socket) => {
            let receiving = layer4::udp::receive(worker, Rc::new(socket), listen.address);
            let task = tokio::task::spawn_local(stall::watched(worker, "datagrams", receiving));
            Some((task, None, listen))
        }
        Err(error) => {
            error_log::log(error_log::Level::Emergency, format_args!("{}: {error}", listen.address));
            None
        }
    }
}

/// What a worker has accepted with, and why it ends.
pub(super) struct Ended {
    pub(super) accepting: Vec<Accepting>,
    pub(super) taking: JoinHandle<()>,
    /// Its place was taken.
    pub(super) lost: bool,
    pub(super) handed_over: bool,
}

/// Stops accepting. Serves what waits in queues that no other worker or process reads.
pub(super) async fn end_accepting(
    worker: &'static Worker,
    ended: Ended,
    balance: &AcceptBalance,
    signals: &Signals,
) {
    let left = signals.left.lock().clone();
    for (task, listener, listen) in ended.accepting {
        task.abort();
        let _ = task.await;
        let nobody_else = !ended.lost && (!ended.handed_over || left.contains(&listen.address));
        if nobody_else && let Some(Ok(listener)) = listener.map(Rc::try_unwrap) {
            accept_waiting(worker, listener, &listen, signals);
        }
    }
    ended.taking.abort();
    if !ended.lost {
        balance.leave(worker.index);
        while let Some(passed) = balance.take(worker.index) {
            serve(worker, passed);
        }
        signals.accepting.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Accepts what is left in the queue of a listener: the kernel resets it when the listener closes, and no
/// other worker takes it.
fn accept_waiting(worker: &'static Worker, listener: TcpListener, listen: &Listen, signals: &Signals) {
    let Ok(listener) = listener.into_std() else { return };
    while let Ok((stream, peer)) = listener.accept() {
        if worker.connections.get() < worker.settings.worker_connections
            && descriptors::spare_for_client(&stream)
            && stream.set_nonblocking(true).is_ok()
            && let Ok(stream) = TcpStream::from_std(stream)
        {
            stats::add(&worker.stats.accepted, 1);
            connection::spawn(worker, stream, peer, listen);
        }
    }
    if signals.gave_up.load(Ordering::SeqCst) {
        // A thread that does not come back has the socket, too: later connections must be refused, not queued.
        let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
    }
}

/// Serves what other workers pass on.
pub(super) async fn take_passed(worker: &'static Worker, balance: Arc<AcceptBalance>) {
    loop {
        worker.load.arrived.notified().await;
        // One that was given up has a successor in its place, who takes them.
        while !worker.stalls.progress.is_lost()
            && let Some(passed) = balance.take(worker.index)
        {
            serve(worker, passed);
        }
    }
}

fn serve(worker: &'static Worker, passed: Passed) {
    stats::add(&worker.stats.accepted, 1);
    match TcpStream::from_std(passed.stream) {
        Ok(stream) if has_place(worker, &stream) => {
            connection::spawn(worker, stream, passed.peer, &passed.listen)
        }
        _ => stats::add(&worker.stats.refused, 1),
    }
}

async fn accept(
    worker: &'static Worker,
    listener: Rc<TcpListener>,
    listen: Listen,
    balance: Arc<AcceptBalance>,
) {
    let alone = worker.settings.workers <= 1;
    loop {
        let accepted = poll_fn(|context| match worker.stalls.progress.is_lost() {
            true => Poll::Pending,
            false => listener.poll_accept(context),
        });
        match accepted.await {
            Ok((stream, peer)) => {
                let (stream, _reserved) = match if alone { None } else { balance.choose(worker.index) } {
                    None => (stream, None),
                    Some(Choice::Own(reserved)) => (stream, Some(reserved)),
                    Some(Choice::Other(target)) => match pass(&balance, target, stream, peer, &listen) {
                        Some(stream) => (stream, None),
                        None => continue,
                    },
                };
                stats::add(&worker.stats.accepted, 1);
                if !has_place(worker, &stream) {
                    // Those that are closing end meanwhile, and those that came in the same moment turn out to be idle.
                    tokio::task::yield_now().await;
                    if !has_place(worker, &stream) {
                        stats::add(&worker.stats.refused, 1);
                        continue;
                    }
                }
                connection::spawn(worker, stream, peer, &listen);
            }
            Err(error) => {
                // Out of descriptors or memory: wait until some are free instead of spinning.
                error_log::log(
                    error_log::Level::Critical,
                    format_args!("accept on {} failed: {error}", listen.address),
                );
                tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
            }
        }
    }
}

/// Passes a connection on; what is returned stays here.
fn pass(
    balance: &AcceptBalance,
    target: Target,
    stream: TcpStream,
    peer: SocketAddr,
    listen: &Listen,
) -> Option<TcpStream> {
    let stream = stream.into_std().ok()?;
    let stream = balance.pass(target, stream, peer, listen).err()?;
    TcpStream::from_std(stream).ok()
}

/// Whether one more connection may be served. Closes idle ones where places run out.
fn has_place(worker: &'static Worker, stream: &TcpStream) -> bool {
    let leaving = make_room(worker, stream);
    worker.connections.get().saturating_sub(leaving) < worker.settings.worker_connections
        && descriptors::spare_for_client(stream)
}

/// Idle connections to close at a time.
const EVICTED: usize = 32;

/// Closes the longest idle connections once 15/16 of the connections or descriptors are in use, as nginx does, so that idle clients
/// do not keep others out. Returns how many connections are closing.
fn make_room(worker: &'static Worker, stream: &TcpStream) -> usize {
    static LIMITER: Limiter = Limiter::new(1, 10_000);
    let places = worker.settings.worker_connections;
    let is_crowded = worker.connections.get() >= places - (places / 16).max(1).min(places);
    if !is_crowded && !descriptors::is_tight(stream) {
        return 0;
    }
    let leaving = worker.deadlines.evict_idle(EVICTED.min((places / 8).max(1)));
    if leaving > 0 && LIMITER.pass().is_some() {
        error_log::log(
            error_log::Level::Warn,
            format_args!(
                "nearly out of connections: closing idle ones; see worker_connections and ulimit -n"
            ),
        );
    }
    leaving
}
