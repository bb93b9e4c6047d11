//! Servers whose latency has one known cause, and healthy ones that look like it. A thread for each connection.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use socket2::{Domain, SockFilter, SockRef, Socket, Type};

/// What a server does with each request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Behaviour {
    Plain,
    /// Takes so many milliseconds.
    Waits(u64),
    /// One in so many requests takes so many milliseconds.
    Sometimes(u64, u64),
    /// Head and body in two writes, and no TCP_NODELAY.
    Nagle,
    /// Segments of requests are lost: this many of 1,000.
    Lossy(u32),
    /// Closes after so many answers; with notice or without.
    Closes(u64, bool),
    /// Stands still at these moments, in milliseconds after the first request, for so many.
    PausesAt(&'static [(u64, u64)]),
    /// Stands still with a period, for so many milliseconds.
    Pauses(u64, u64),
    /// One request at a time, each so many microseconds: sleeping, or at work.
    OneAtATime(u64, bool),
    /// Answers of 1 MB at so many bytes a second, for all together.
    Bandwidth(u64),
    /// Each second connection takes so many milliseconds.
    Uneven(u64),
    /// Answers of 1 MB as fast as they are read.
    Large,
    /// Stops for some milliseconds at moments without a rhythm, as collectors of garbage do.
    Collects,
    /// Only two connections are ever taken up, and hardly more are queued.
    NeverAccepts,
}

const BODY: usize = 1 << 20;

struct Shared {
    behaviour: Behaviour,
    begun: Mutex<Option<Instant>>,
    pub(super) requests: AtomicU64,
    one: Mutex<()>,
    /// When the next byte may leave.
    free: Mutex<Instant>,
    stopped: AtomicBool,
}

/// Ends with its value.
pub(super) struct Server {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Relaxed);
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(100));
    }
}

impl Server {
    pub(super) fn start(behaviour: Behaviour) -> io::Result<Server> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into())?;
        socket.listen(if matches!(behaviour, Behaviour::NeverAccepts) { 1 } else { 1024 })?;
        let listener = TcpListener::from(socket);
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            behaviour,
            begun: Mutex::new(None),
            requests: AtomicU64::new(0),
            one: Mutex::new(()),
            free: Mutex::new(Instant::now()),
            stopped: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        std::thread::Builder::new().name("selftest".into()).spawn(move || accept(&listener, &accepting))?;
        Ok(Server { address, shared })
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for number in 0.. {
        if matches!(shared.behaviour, Behaviour::NeverAccepts) && number >= 2 {
            while !shared.stopped.load(Relaxed) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        let Ok((stream, _)) = listener.accept() else { return };
        if shared.stopped.load(Relaxed) {
            return;
        }
        let shared = Arc::clone(shared);
        let serve = move || drop(serve(stream, number, &shared));
        if std::thread::Builder::new().name("selftest".into()).spawn(serve).is_err() {
            return;
        }
    }
}

fn serve(mut stream: TcpStream, number: u64, shared: &Shared) -> io::Result<()> {
    if let Behaviour::Lossy(of_1000) = shared.behaviour {
        lose(&stream, of_1000)?;
    }
    stream.set_nodelay(!matches!(shared.behaviour, Behaviour::Nagle))?;
    let (mut buffer, mut held) = ([0; 16 << 10], Vec::new());
    for answered in 1.. {
        while !held.windows(4).any(|window| window == b"\r\n\r\n") {
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                length => held.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            }
        }
        let end = held.windows(4).position(|window| window == b"\r\n\r\n").map_or(held.len(), |at| at + 4);
        held.drain(..end);
        shared.delay(number);
        if !shared.answer(&mut stream, answered)? {
            return Ok(());
        }
    }
    Ok(())
}

/// A number without order from one with.
fn scattered(number: u64) -> u64 {
    let mixed = (number ^ number >> 7).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
}

/// Drops segments of requests before the system has seen them, so that they are sent again.
fn lose(stream: &TcpStream, of_1000: u32) -> io::Result<()> {
    // Loads a random number and keeps the segment when it is at least so high.
    const RANDOM: u32 = (-0x1000_i32 + 56) as u32;
    let threshold = u32::MAX / 1000 * of_1000;
    SockRef::from(stream).attach_filter(&[
        SockFilter::new(0x20, 0, 0, RANDOM),
        SockFilter::new(0x35, 0, 1, threshold),
        SockFilter::new(0x06, 0, 0, u32::MAX),
        SockFilter::new(0x06, 0, 0, 0),
    ])
}

impl Shared {
    /// What passes before the answer.
    fn delay(&self, connection: u64) {
        let request = self.requests.fetch_add(1, Relaxed);
        let elapsed = self
            .begun
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_with(Instant::now)
            .elapsed();
        let sleep = |ms: u64| std::thread::sleep(Duration::from_millis(ms));
        let elapsed_ms = elapsed.as_millis() as u64;
        match self.behaviour {
            Behaviour::Waits(ms) => sleep(ms),
            Behaviour::Sometimes(each, ms) if scattered(request) % each == 7 => sleep(ms),
            Behaviour::PausesAt(pauses) => {
                let pause = pauses.iter().find(|(at, ms)| (*at..at + ms).contains(&elapsed_ms));
                sleep(pause.map_or(0, |(at, ms)| at + ms - elapsed_ms));
            }
            Behaviour::Pauses(period, ms) => sleep(ms.saturating_sub(elapsed_ms % period)),
            Behaviour::OneAtATime(us, works) => {
                let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
                let begun = Instant::now();
                let length = Duration::from_micros(us);
                if !works {
                    std::thread::sleep(length);
                }
                while begun.elapsed() < length {
                    std::hint::spin_loop();
                }
            }
            Behaviour::Uneven(ms) => sleep(if connection % 2 == 1 { ms } else { ms / 4 }),
            // 3 to 12 ms, about each 200th request, in no order.
            Behaviour::Collects => {
                let random = scattered(request);
                if random % 199 == 7 {
                    let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
                    sleep(3 + random % 10);
                }
            }
            _ => {}
        }
    }

    /// `false`: the connection ends.
    fn answer(&self, stream: &mut TcpStream, answered: u64) -> io::Result<bool> {
        let head =
            |length: usize, more: &str| format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{more}\r\n");
        match self.behaviour {
            Behaviour::Nagle => {
                stream.write_all(head(2, "").as_bytes())?;
                stream.write_all(b"ok")?;
            }
            Behaviour::Closes(after, with_notice) if answered >= after => {
                let more = if with_notice { "Connection: close\r\n" } else { "" };
                stream.write_all((head(2, more) + "ok").as_bytes())?;
                return Ok(false);
            }
            Behaviour::Bandwidth(per_second) => self.slowly(stream, head(BODY, ""), per_second)?,
            Behaviour::Large => {
                stream.write_all(head(BODY, "").as_bytes())?;
                stream.write_all(&vec![b'x'; BODY])?;
            }
            _ => stream.write_all((head(2, "") + "ok").as_bytes())?,
        }
        Ok(true)
    }

    fn slowly(&self, stream: &mut TcpStream, head: String, per_second: u64) -> io::Result<()> {
        stream.write_all(head.as_bytes())?;
        let piece = vec![b'x'; 16 << 10];
        for _ in 0..BODY / piece.len() {
            let wait = {
                let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
                let now = Instant::now();
                let begins = (*free).max(now);
                *free = begins + Duration::from_secs_f64(piece.len() as f64 / per_second as f64);
                begins - now
            };
            std::thread::sleep(wait);
            stream.write_all(&piece)?;
        }
        Ok(())
    }
}
