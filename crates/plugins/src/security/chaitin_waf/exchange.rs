//! One question and its answer, over TCP or a Unix socket. Connections are kept per thread.

use std::{
    cell::RefCell,
    collections::HashMap,
    fmt, io,
    pin::Pin,
    time::{Duration, Instant},
};

use tidegate_clients::names;
use tidegate_plugin_api::descriptors;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::UnixStream,
    time::timeout,
};

use super::frames::{FRAME_HEAD, FrameHead, MOST_ANSWERED, Question, Said};

/// Servers that a thread keeps connections to.
const MOST_SERVERS: usize = 64;

pub(super) struct Timeouts {
    pub connect: Duration,
    pub send: Duration,
    pub read: Duration,
    /// How long a connection may be idle, and how many are kept.
    pub idle: Duration,
    pub kept: usize,
}

pub(super) struct Server {
    pub host: String,
    port: u16,
    name: String,
}

/// Why there is no verdict.
#[derive(Debug)]
pub(super) enum Failure {
    TimedOut(String),
    Other(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::TimedOut(reason) | Failure::Other(reason)) = self;
        f.write_str(reason)
    }
}

trait Stream: AsyncRead + AsyncWrite {}
impl<T: AsyncRead + AsyncWrite> Stream for T {}
type Connection = Pin<Box<dyn Stream>>;

thread_local! {
    static IDLE: RefCell<HashMap<String, Vec<(Connection, Instant)>>> = RefCell::default();
}

impl Server {
    pub(super) fn new(host: &str, port: u16) -> Server {
        let name = if host.starts_with("unix:") { host.to_owned() } else { format!("{host}:{port}") };
        Server { host: host.to_owned(), port, name }
    }

    /// A kept connection may have ended: then a new one is asked.
    pub(super) async fn ask(&self, question: &Question, timeouts: &Timeouts) -> Result<Said, Failure> {
        while let Some(connection) = self.kept(timeouts) {
            match self.exchange(connection, question, timeouts).await {
                Err(Failure::Other(_)) => {}
                decided => return decided,
            }
        }
        let connection = self.within("connect to", timeouts.connect, self.connect()).await?;
        self.exchange(connection, question, timeouts).await
    }

    async fn connect(&self) -> io::Result<Connection> {
        if let Some(path) = self.host.strip_prefix("unix:") {
            return Ok(Box::pin(UnixStream::connect(path).await.and_then(descriptors::spared)?));
        }
        let host = self.host.trim_matches(['[', ']']);
        let stream = names::connect(host, self.port).await.and_then(descriptors::spared)?;
        stream.set_nodelay(true)?;
        Ok(Box::pin(stream))
    }

    async fn exchange(
        &self,
        mut connection: Connection,
        Question(frames): &Question,
        timeouts: &Timeouts,
    ) -> Result<Said, Failure> {
        self.within("send data to", timeouts.send, connection.write_all(frames)).await?;
        let answer = self.within("receive data from", timeouts.read, answer(&mut connection)).await?;
        self.keep(connection, timeouts);
        Said::of(&answer).map_err(Failure::Other)
    }

    async fn within<T>(
        &self,
        what: &str,
        limit: Duration,
        work: impl Future<Output = io::Result<T>>,
    ) -> Result<T, Failure> {
        let failed = |reason: &str| format!("failed to {what} t1k server {}: {reason}", self.name);
        match timeout(limit, work).await {
            Ok(done) => done.map_err(|error| Failure::Other(failed(&error.to_string()))),
            Err(_) => Err(Failure::TimedOut(failed("timeout"))),
        }
    }

    fn kept(&self, timeouts: &Timeouts) -> Option<Connection> {
        IDLE.with_borrow_mut(|idle| {
            let connections = idle.get_mut(&self.name)?;
            connections.retain(|(_, since)| since.elapsed() < timeouts.idle);
            connections.pop().map(|(connection, _)| connection)
        })
    }

    fn keep(&self, connection: Connection, timeouts: &Timeouts) {
        IDLE.with_borrow_mut(|idle| {
            if idle.len() >= MOST_SERVERS && !idle.contains_key(&self.name) {
                idle.clear();
            }
            let connections = idle.entry(self.name.clone()).or_default();
            if connections.len() < timeouts.kept {
                connections.push((connection, Instant::now()));
            }
        });
    }
}

/// The frames up to the last one.
async fn answer(connection: &mut Connection) -> io::Result<Vec<(u8, Vec<u8>)>> {
    let (mut frames, mut total) = (Vec::new(), 0);
    loop {
        let mut head = [0; FRAME_HEAD];
        connection.read_exact(&mut head).await?;
        let head = FrameHead::read(head);
        total += FRAME_HEAD + head.length;
        if head.is_first != frames.is_empty() || total > MOST_ANSWERED {
            return Err(io::Error::other("what it says is not T1K"));
        }
        let mut data = vec![0; head.length];
        connection.read_exact(&mut data).await?;
        frames.push((head.tag, data));
        if head.is_last {
            return Ok(frames);
        }
    }
}
