//! Connections to the runner. A runner works on the messages of one connection one after the other, and its answers do not say
//! which question they belong to: a call has its connection for itself, so that a plugin that hangs holds no other request up.

use std::{
    cell::{Cell, RefCell},
    io,
    sync::OnceLock,
    time::{Duration, Instant},
};

use tidegate_plugin_api::{answers::Lease, descriptors, host};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    time::timeout,
};

use super::frame::{Frame, HEAD};

const CONNECT: Duration = Duration::from_secs(1);
/// To send a message, and until an answer is there.
const EXCHANGE: Duration = Duration::from_secs(60);
/// Idle connections, per worker.
const KEPT: usize = 32;
const KEPT_FOR: Duration = Duration::from_secs(180);
/// Calls at a time, per worker: more would only wait for the runner.
const MOST_CALLS: usize = 1024;

thread_local! {
    static IDLE: RefCell<Vec<(UnixStream, Instant)>> = RefCell::default();
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

/// Where the runner listens: `ext-plugin.path_for_test`, else a file of this process in `conf`.
pub(super) fn socket_path() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let host = host();
        let written = host.and_then(|host| host.settings.pointer("/ext-plugin/path_for_test")?.as_str());
        written.map(str::to_owned).unwrap_or_else(|| {
            let name = format!("conf/apisix-{}.sock", std::process::id());
            let path = host.map(|host| host.prefix.join(&name));
            let path = path.map(|path| std::path::absolute(&path).unwrap_or(path));
            path.map_or(name, |path| path.display().to_string())
        })
    })
}

/// Counts while it lives.
struct Place;

impl Place {
    fn take() -> Option<Place> {
        CALLS.with(|calls| {
            let taken = calls.get();
            (taken < MOST_CALLS).then(|| calls.set(taken + 1)).map(|()| Place)
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        CALLS.with(|calls| calls.set(calls.get().saturating_sub(1)));
    }
}

/// Why a message did not come or go.
pub(super) enum Broken {
    /// The connection was kept, and ended before the runner can have begun.
    Stale,
    Failed(String),
}

pub(super) struct Connection {
    stream: UnixStream,
    /// It was idle, and the runner has not answered since.
    is_unproven: bool,
    /// What answers hold.
    lease: Lease,
    _place: Place,
}

impl Connection {
    /// `fresh`: not one that was kept.
    pub(super) async fn open(fresh: bool) -> Result<Connection, String> {
        let path = socket_path();
        let place = Place::take();
        let place =
            place.ok_or_else(|| format!("{MOST_CALLS} calls to the plugin runner are under way already"))?;
        let lease = Lease::new("plugin runner");
        if !fresh && let Some(stream) = kept() {
            return Ok(Connection { stream, is_unproven: true, lease, _place: place });
        }
        let opened =
            within(CONNECT, async { UnixStream::connect(path).await.and_then(descriptors::spared) }).await;
        let stream =
            opened.map_err(|error| format!("failed to connect to the unix socket unix:{path}: {error}"))?;
        Ok(Connection { stream, is_unproven: false, lease, _place: place })
    }

    pub(super) async fn send(&mut self, frame: &Frame) -> Result<(), Broken> {
        let sent = within(EXCHANGE, self.stream.write_all(frame.bytes())).await;
        sent.map_err(|error| self.broken(&error))
    }

    /// Kind and content of the next message.
    pub(super) async fn receive(&mut self) -> Result<(u8, Vec<u8>), Broken> {
        let mut head = [0; HEAD];
        if let Err(error) = within(EXCHANGE, self.stream.read_exact(&mut head)).await {
            return Err(self.broken(&error));
        }
        self.is_unproven = false;
        let [kind, high, middle, low] = head;
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.lease.grow_to(length).map_err(|refused| Broken::Failed(refused.to_string()))?;
        let mut data = vec![0; length];
        match within(EXCHANGE, self.stream.read_exact(&mut data)).await {
            Ok(_) => Ok((kind, data)),
            Err(error) => Err(self.broken(&error)),
        }
    }

    /// For the next call.
    pub(super) fn keep(self) {
        IDLE.with_borrow_mut(|idle| {
            if idle.len() < KEPT {
                idle.push((self.stream, Instant::now()));
            }
        });
    }

    fn broken(&self, error: &io::Error) -> Broken {
        match self.is_unproven && error.kind() != io::ErrorKind::TimedOut {
            true => Broken::Stale,
            false => Broken::Failed(match error.kind() {
                io::ErrorKind::UnexpectedEof => "closed".to_owned(),
                _ => error.to_string(),
            }),
        }
    }
}

/// One that the runner has not closed, and has not written to.
fn kept() -> Option<UnixStream> {
    IDLE.with_borrow_mut(|idle| {
        idle.retain(|(_, since)| since.elapsed() < KEPT_FOR);
        while let Some((stream, _)) = idle.pop() {
            if stream.try_read(&mut [0]).is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                return Some(stream);
            }
        }
        None
    })
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let late = || Err(io::Error::new(io::ErrorKind::TimedOut, "timeout"));
    timeout(limit, work).await.unwrap_or_else(|_| late())
}
