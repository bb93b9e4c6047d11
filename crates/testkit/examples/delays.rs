//! A server whose own delays set the latency, for comparing load generators: `delays PORT`.
//!
//! `/narrow` and `/wide` are distributions. Each is a list of 10,000 delays that is gone through in a fixed order, one for
//! each request, whatever its connection; so all runs wait the same delays.

use std::{
    io::Write,
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use tidegate_testkit::message::Reader;

/// (share of the requests in ten-thousandths, shortest and longest of their delays in microseconds). Percentiles that people
/// look at lie inside of the parts, not where one ends.
type Shape = [(u32, u32, u32); 4];
/// None is twice the mean. All are long beside what the server needs to wake up and answer, so that 64 connections keep
/// its core idle for most of the time.
const NARROW: Shape =
    [(8000, 16_000, 20_000), (1500, 24_000, 28_000), (450, 30_000, 32_000), (50, 34_000, 36_000)];
const WIDE: Shape =
    [(8000, 16_000, 24_000), (1500, 32_000, 48_000), (450, 64_000, 96_000), (50, 128_000, 192_000)];
const ALL: usize = 10_000;
/// Has no factor in common with `ALL`, so its multiples visit the whole list, and neighbours lie far apart.
const STRIDE: usize = 6173;

struct Delays {
    list: Vec<Duration>,
    turn: AtomicUsize,
}

impl Delays {
    fn new(shape: &Shape) -> Delays {
        let part = |&(count, shortest, longest): &(u32, u32, u32)| {
            (0..count).map(move |at| shortest + (longest - shortest) * at / count)
        };
        let list = shape.iter().flat_map(part).map(|us| Duration::from_micros(us.into())).collect();
        Delays { list, turn: AtomicUsize::new(0) }
    }

    fn next(&self) -> Duration {
        let turn = self.turn.fetch_add(1, Relaxed);
        self.list.get(turn % ALL * STRIDE % ALL).copied().unwrap_or_default()
    }
}

fn main() {
    let port = std::env::args().nth(1).and_then(|word| word.parse().ok()).expect("usage: delays PORT");
    let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port is free");
    let shapes = Arc::new([Delays::new(&NARROW), Delays::new(&WIDE)]);
    for stream in listener.incoming().flatten() {
        let shapes = Arc::clone(&shapes);
        std::thread::spawn(move || serve(stream, &shapes));
    }
}

fn serve(stream: TcpStream, [narrow, wide]: &[Delays; 2]) {
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let mut reader = Reader::new(stream);
    while let Ok(request) = reader.head() {
        let came = Instant::now();
        let delays = if request.target() == "/wide" { wide } else { narrow };
        std::thread::sleep(delays.next().saturating_sub(came.elapsed()));
        if reader.stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
            return;
        }
    }
}
