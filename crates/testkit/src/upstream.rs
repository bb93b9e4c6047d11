//! An upstream that does what a test requests: answer well, answer badly, or not at all.
//!
//! [`Upstream::start`] chooses by path, so that a table of cases needs no code:
//! `/status/404`, `/bytes/5000`, `/chunked`, `/trailers`, `/close-mid-body`, `/reset`, `/silent`, … see
//! [`behaviour`]. Everything else echoes the request as the response's body.

pub mod behaviour;

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use socket2::SockRef;

use crate::{
    PATIENCE,
    message::{BodyEnd, Message, Reader},
};

pub use self::behaviour::{Behaviour, Responder, Step};

/// One request as the upstream received it.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Which connection it came on, counted from 0.
    pub connection: usize,
    /// The request.
    pub message: Message,
}

impl Seen {
    /// Head and body as one text, for searching.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.message.head).into_owned() + &self.message.body_text()
    }
}

impl std::fmt::Debug for Responder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Responder")
    }
}

type Choose = dyn Fn(&Message) -> Behaviour + Send + Sync;

/// A listening upstream; every connection has a thread. Dropping it closes all connections.
#[derive(Debug)]
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    seen: Mutex<Vec<Seen>>,
    arrived: Condvar,
    connections: AtomicUsize,
    /// Second handles on the open connections, by number, to close them from outside.
    open: Mutex<HashMap<usize, TcpStream>>,
    stopping: AtomicBool,
}

impl Shared {
    fn open(&self) -> std::sync::MutexGuard<'_, HashMap<usize, TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("connections", &self.connections).finish_non_exhaustive()
    }
}

impl Upstream {
    /// Behaves as each request's path says.
    pub fn start() -> Self {
        Self::with(behaviour::by_path)
    }

    /// Behaves as a function says.
    pub fn with(choose: impl Fn(&Message) -> Behaviour + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("the system has a free port");
        let address = listener.local_addr().expect("a bound socket has an address");
        let shared = Arc::new(Shared::default());
        let choose: Arc<Choose> = Arc::new(choose);
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || accept(&listener, &accepting, &choose));
        Upstream { address, shared }
    }

    /// A service: answers each whole request with the status and body that a function says.
    pub fn service(answer: impl Fn(&Message) -> (u16, String) + Send + Sync + 'static) -> Self {
        let answer = Self::answer(move |request| {
            let (status, body) = answer(request);
            let length = body.len();
            format!("HTTP/1.1 {status} Status\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes()
        });
        Self::with(move |_| Behaviour { read_body: true, steps: vec![answer.clone()] })
    }

    /// The step that sends what a function makes of the whole request.
    pub fn answer(make: impl Fn(&Message) -> Vec<u8> + Send + Sync + 'static) -> Step {
        Step::Answer(Responder(Arc::new(make)))
    }

    /// Everything received since the start or the last [`Upstream::take`].
    pub fn seen(&self) -> Vec<Seen> {
        self.lock().clone()
    }

    /// As [`Upstream::seen`], and forgets it.
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.lock())
    }

    /// Waits until at least so many requests have arrived.
    pub fn wait_for(&self, requests: usize) -> Vec<Seen> {
        let too_few = |seen: &mut Vec<Seen>| seen.len() < requests;
        let (seen, late) = self
            .shared
            .arrived
            .wait_timeout_while(self.lock(), PATIENCE, too_few)
            .unwrap_or_else(PoisonError::into_inner);
        assert!(!late.timed_out(), "upstream saw {} requests, not {requests}", seen.len());
        seen.clone()
    }

    /// Connections accepted since start.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(SeqCst)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Seen>> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.shared.stopping.store(true, SeqCst);
        // Wakes the accept loop, which then sees the flag.
        let _ = TcpStream::connect(self.address);
        for (_, stream) in self.shared.open().drain() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>, choose: &Arc<Choose>) {
    for stream in listener.incoming() {
        if shared.stopping.load(SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let connection = shared.connections.fetch_add(1, SeqCst);
        if let Ok(other) = stream.try_clone() {
            shared.open().insert(connection, other);
        }
        let (shared, choose) = (Arc::clone(shared), Arc::clone(choose));
        std::thread::spawn(move || {
            // An upstream's connections end in all sorts of ways; the test looks at the gateway's side.
            let mut reader = Reader::new(stream);
            let _ = serve(connection, &mut reader, &shared, &choose);
            // First the second handle, then the connection: closing the last one is what sends FIN or RST.
            shared.open().remove(&connection);
            drop(reader);
        });
    }
}

fn serve(
    connection: usize,
    reader: &mut Reader<TcpStream>,
    shared: &Shared,
    choose: &Arc<Choose>,
) -> io::Result<()> {
    reader.stream.set_nodelay(true)?;
    loop {
        let Ok(mut message) = reader.head() else { return Ok(()) };
        let behaviour = choose(&message);
        let failed = |_| io::Error::other("request body cut or malformed");
        let mut body_read = behaviour.read_body;
        if body_read {
            reader.body(&mut message, BodyEnd::None).map_err(failed)?;
        }
        let at = record(shared, Seen { connection, message: message.clone() });
        for step in &behaviour.steps {
            match step {
                Step::ReadBody if body_read => {}
                Step::ReadBody => {
                    body_read = true;
                    reader.body(&mut message, BodyEnd::None).map_err(failed)?;
                    update(shared, at, &message);
                }
                Step::Answer(answer) => reader.stream.write_all(&(answer.0)(&message))?,
                Step::Echo => reader.stream.write_all(&behaviour::echo(&message))?,
                other => {
                    if !perform(other, reader)? {
                        return Ok(());
                    }
                }
            }
        }
        if !body_read {
            reader.body(&mut message, BodyEnd::None).map_err(failed)?;
            update(shared, at, &message);
        }
    }
}

/// Does one step; false ends the connection.
fn perform(step: &Step, reader: &mut Reader<TcpStream>) -> io::Result<bool> {
    match step {
        Step::Send(bytes) => reader.stream.write_all(bytes)?,
        Step::Wait(time) => wait(*time),
        Step::Nagle => reader.stream.set_nodelay(false)?,
        Step::ReadBody | Step::Echo | Step::Answer(_) => {}
        Step::Close => {
            reader.stream.shutdown(Shutdown::Write)?;
            // Draining lets the peer read the answer: closing with unread input would send RST.
            reader.stream.set_read_timeout(Some(Duration::from_secs(1)))?;
            let _ = reader.to_close();
            reader.stream.shutdown(Shutdown::Both)?;
            return Ok(false);
        }
        Step::Reset => {
            SockRef::from(&reader.stream).set_linger(Some(Duration::ZERO))?;
            return Ok(false);
        }
        Step::Silence => {
            let _ = reader.to_close();
            return Ok(false);
        }
        Step::EchoTunnel => {
            let pending = reader.pending().to_vec();
            reader.stream.write_all(&pending)?;
            let mut output = reader.stream.try_clone()?;
            io::copy(&mut reader.stream, &mut output)?;
            output.shutdown(Shutdown::Write)?;
            return Ok(false);
        }
    }
    Ok(true)
}

fn wait(time: Duration) {
    // A delay is what was asked for, not a guess at when something is ready.
    let until = Instant::now() + time;
    while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
        std::thread::sleep(left);
    }
}

fn record(shared: &Shared, seen: Seen) -> usize {
    let mut all = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(seen);
    shared.arrived.notify_all();
    all.len() - 1
}

fn update(shared: &Shared, at: usize, message: &Message) {
    let mut all = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(seen) = all.get_mut(at) {
        seen.message = message.clone();
    }
}
