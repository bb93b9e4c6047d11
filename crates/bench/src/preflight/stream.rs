//! The one connection, over TCP or a socket of this machine.

use std::{
    io::{ErrorKind, Read, Result, Write},
    net::TcpStream,
    os::unix::net::UnixStream,
    path::Path,
    time::Duration,
};

use crate::{Plan, Problem, engine::failure::plain};

const LONGEST: Duration = Duration::from_secs(10);

pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    pub(super) fn connect(plan: &Plan) -> std::result::Result<Stream, Problem> {
        let stream = match &plan.options.unix {
            Some(path) => unix(path)?,
            None => tcp(plan)?,
        };
        let _ = stream.set_read_timeout(plan.timeout);
        let _ = match &stream {
            Stream::Tcp(stream) => stream.set_write_timeout(Some(plan.timeout)),
            Stream::Unix(stream) => stream.set_write_timeout(Some(plan.timeout)),
        };
        Ok(stream)
    }

    pub(super) fn set_read_timeout(&self, time: Duration) -> Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(Some(time)),
            Stream::Unix(stream) => stream.set_read_timeout(Some(time)),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(buffer),
            Stream::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Stream::Tcp(stream) => stream.flush(),
            Stream::Unix(stream) => stream.flush(),
        }
    }
}

fn unix(path: &Path) -> std::result::Result<Stream, Problem> {
    UnixStream::connect(path).map(Stream::Unix).map_err(|error| {
        Problem::unreachable(format!(
            "cannot connect to the socket {}: {}; is the server started, is the path right?",
            path.display(),
            plain(&error)
        ))
    })
}

fn tcp(plan: &Plan) -> std::result::Result<Stream, Problem> {
    let mut last = None;
    for address in &plan.addresses {
        match TcpStream::connect_timeout(address, plan.timeout.min(LONGEST)) {
            Ok(stream) => return Ok(Stream::Tcp(stream)),
            Err(error) => last = Some((address, error)),
        }
    }
    Err(match last {
        None => Problem::unreachable(format!("{} has no address", plan.origin.host)),
        Some((address, error)) => {
            let remedy = match error.kind() {
                ErrorKind::ConnectionRefused => {
                    "nothing listens there; is the server started, is the port right?"
                }
                ErrorKind::TimedOut => "nothing answers; is a firewall in between, is the address right?",
                _ => "check address and network",
            };
            Problem::unreachable(format!("cannot connect to {address}: {}; {remedy}", plain(&error)))
        }
    })
}
