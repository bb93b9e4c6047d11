//! A TCP relay that can stop passing bytes without closing anything: a network that is partitioned.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

/// Listens for as long as it lives; connections end with one of their two sides.
#[derive(Debug)]
pub struct Relay {
    /// Where it listens.
    pub address: SocketAddr,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    shut: Mutex<bool>,
    changed: Condvar,
    opened: AtomicUsize,
    /// Connections with a lower number pass nothing any more.
    silent_below: AtomicUsize,
}

impl Relay {
    /// Forwards connections to `target`.
    pub fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("the system has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let gate = Arc::new(Gate::default());
        let shared = Arc::clone(&gate);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let gate = Arc::clone(&shared);
                thread::spawn(move || connect(client, target, &gate));
            }
        });
        Relay { address, gate }
    }

    /// From now on nothing passes: connections stay open and silent, new ones are accepted and silent.
    pub fn partition(&self) {
        self.set(true);
    }

    /// The connections that are open now stay open and pass nothing, ever; new ones are as good as any.
    pub fn silence_open(&self) {
        self.gate.silent_below.store(self.gate.opened.load(SeqCst), SeqCst);
    }

    /// How many connections have been opened.
    pub fn opened(&self) -> usize {
        self.gate.opened.load(SeqCst)
    }

    /// Passes bytes again, those that waited included.
    pub fn heal(&self) {
        self.set(false);
    }

    fn set(&self, shut: bool) {
        *self.gate.shut.lock().unwrap_or_else(PoisonError::into_inner) = shut;
        self.gate.changed.notify_all();
    }
}

impl Gate {
    fn pass(&self) {
        let shut = self.shut.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(shut, |shut| *shut));
    }
}

fn connect(client: TcpStream, target: SocketAddr, gate: &Arc<Gate>) {
    let number = gate.opened.fetch_add(1, SeqCst);
    gate.pass();
    let Ok(server) = TcpStream::connect(target) else { return };
    let (Ok(from), Ok(to)) = (server.try_clone(), client.try_clone()) else { return };
    let answers = Arc::clone(gate);
    thread::spawn(move || pump(from, to, &answers, number));
    pump(client, server, gate, number);
}

fn pump(mut from: TcpStream, mut to: TcpStream, gate: &Gate, number: usize) {
    let mut buffer = [0; 16384];
    while let Ok(length) = from.read(&mut buffer) {
        gate.pass();
        let Some(bytes) = buffer.get(..length).filter(|bytes| !bytes.is_empty()) else { break };
        if number < gate.silent_below.load(SeqCst) {
            continue;
        }
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    // Either side may be gone already.
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
