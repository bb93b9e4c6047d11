//! Connections to the runner. A runner works on the messages of one connection one after the other, and its answers do not say
//! which question they belong to: a call has its connection for itself, so that a plugin that hangs holds no other request up.

use std::{
    cell::RefCell,
    io,
    path::Path,
    sync::OnceLock,
    time::{Duration, Instant},
};

use tidegate_plugin_api::{answers::Lease, descriptors, host};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
};

use super::{
    frame::{Frame, HEAD},
    places::Place,
    runner_time::RunnerTime,
};

const CONNECT: Duration = Duration::from_secs(1);
/// Idle connections, per worker.
const KEPT: usize = 32;
const KEPT_FOR: Duration = Duration::from_secs(180);
/// Most messages are had whole with one read of so many bytes.
const FIRST_READ: usize = 1 << 10;

thread_local! {
    static IDLE: RefCell<Vec<(UnixStream, Instant)>> = RefCell::default();
}

fn written_path() -> Option<&'static str> {
    host()?.settings.pointer("/ext-plugin/path_for_test")?.as_str()
}

/// Where the runner listens: `ext-plugin.path_for_test`, else a file of this process in `conf`.
pub(super) fn socket_path() -> &'static str {
    static PATH: OnceLock<String> = OnceLock::new();
    PATH.get_or_init(|| {
        let host = host();
        written_path().map(str::to_owned).unwrap_or_else(|| {
            let name = format!("conf/apisix-{}.sock", std::process::id());
            let path = host.map(|host| host.prefix.join(&name));
            let path = path.map(|path| std::path::absolute(&path).unwrap_or(path));
            path.map_or(name, |path| path.display().to_string())
        })
    })
}

/// Removes the file of this process, whose runner has ended. One with a path of its own may have a successor there.
pub(super) fn remove_socket() {
    if written_path().is_none() {
        // The runner may have removed it.
        let _ = std::fs::remove_file(Path::new(socket_path()));
    }
}

/// Why a message did not come or go.
pub(super) enum Broken {
    /// The connection was kept, and ended before the runner can have begun.
    Stale,
    Failed(String),
}

pub(super) struct Connection<'call> {
    stream: UnixStream,
    time: &'call RunnerTime,
    /// It was idle, and the runner has not answered since.
    is_unproven: bool,
    /// What was read behind the last message.
    ahead: Vec<u8>,
    /// What answers hold.
    lease: Lease,
    _place: Place,
}

impl<'call> Connection<'call> {
    /// For a call of the configuration `of`. `fresh`: not one that was kept.
    pub(super) async fn open(
        of: u64,
        fresh: bool,
        time: &'call RunnerTime,
    ) -> Result<Connection<'call>, String> {
        let path = socket_path();
        let place = Place::take(of)?;
        let lease = Lease::new("plugin runner");
        if !fresh && let Some(stream) = kept() {
            return Ok(Connection {
                stream,
                time,
                is_unproven: true,
                ahead: Vec::new(),
                lease,
                _place: place,
            });
        }
        let connecting = async { UnixStream::connect(path).await.and_then(descriptors::spared) };
        let opened = time.within(CONNECT, connecting).await;
        let stream =
            opened.map_err(|error| format!("failed to connect to the unix socket unix:{path}: {error}"))?;
        Ok(Connection { stream, time, is_unproven: false, ahead: Vec::new(), lease, _place: place })
    }

    pub(super) async fn send(&mut self, frame: &Frame) -> Result<(), Broken> {
        let sent = self.time.spend(self.stream.write_all(frame.bytes())).await;
        sent.map_err(|error| self.broken(&error))
    }

    /// Kind and content of the next message.
    pub(super) async fn receive(&mut self) -> Result<(u8, Vec<u8>), Broken> {
        let mut data = std::mem::take(&mut self.ahead);
        data.reserve(FIRST_READ);
        self.fill(&mut data, HEAD).await?;
        self.is_unproven = false;
        let &[kind, high, middle, low, ..] = data.as_slice() else {
            return Err(Broken::Failed("closed".to_owned()));
        };
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        self.lease.grow_to(length).map_err(|refused| Broken::Failed(refused.to_string()))?;
        data.reserve((HEAD + length).saturating_sub(data.len()));
        self.fill(&mut data, HEAD + length).await?;
        self.ahead = data.split_off(HEAD + length);
        data.drain(..HEAD);
        Ok((kind, data))
    }

    /// Reads until there are so many bytes, into the capacity that is there.
    async fn fill(&mut self, data: &mut Vec<u8>, until: usize) -> Result<(), Broken> {
        while data.len() < until {
            match self.time.spend(self.stream.read_buf(data)).await {
                Ok(1..) => {}
                Ok(0) => return Err(self.broken(&io::ErrorKind::UnexpectedEof.into())),
                Err(error) => return Err(self.broken(&error)),
            }
        }
        Ok(())
    }

    /// For the next call.
    pub(super) fn keep(self) {
        if !self.ahead.is_empty() {
            // The runner was not asked for that.
            return;
        }
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
