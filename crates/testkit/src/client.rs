//! A client that sends exactly the bytes it is given.

use std::io::{self, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::PATIENCE;
use crate::message::{Message, ReadError, Reader};

/// One TCP connection to the program under test.
#[derive(Debug)]
pub struct Client {
    reader: Reader<TcpStream>,
}

pub(crate) fn socket_from(from: SocketAddr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(from), socket2::Type::STREAM, None)?;
    // Otherwise no listener on all addresses can take its port for a minute after the end.
    socket.set_reuse_address(true)?;
    socket.bind(&from.into())?;
    socket.connect_timeout(&to.into(), PATIENCE)?;
    Ok(socket.into())
}

impl Client {
    /// Connects, trying again until something listens or patience ends.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let deadline = Instant::now() + PATIENCE;
        let stream = loop {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(stream) => break stream,
                Err(error) if Instant::now() >= deadline => return Err(error),
                Err(_) => std::thread::yield_now(),
            }
        };
        Self::over(stream)
    }

    /// Connects from an address of this machine: any of 127.0.0.0/8 will do.
    pub fn connect_from(from: SocketAddr, to: SocketAddr) -> io::Result<Self> {
        Self::over(socket_from(from, to)?)
    }

    fn over(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client { reader: Reader::new(stream) })
    }

    /// This end of the connection.
    pub fn local(&self) -> SocketAddr {
        self.reader.stream.local_addr().expect("a connected socket has an address")
    }

    /// Sends raw bytes. The peer having closed already is not an error: its answer says more.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self.reader.stream.write_all(bytes) {
            Err(error)
                if matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) =>
            {
                Ok(())
            }
            other => other,
        }
    }

    /// Says that nothing more will be sent.
    pub fn finish(&mut self) -> io::Result<()> {
        match self.reader.stream.shutdown(Shutdown::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
            other => other,
        }
    }

    /// The next response, interim ones included.
    pub fn response_to(&mut self, method: &str) -> Result<Message, ReadError> {
        self.reader.response(method)
    }

    /// The next response to a method whose responses have bodies.
    pub fn response(&mut self) -> Result<Message, ReadError> {
        self.reader.response("GET")
    }

    /// Sends a GET and reads its response.
    pub fn get(&mut self, host: &str, target: &str) -> Result<Message, ReadError> {
        self.request(&format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    }

    /// Sends a whole request and reads its response.
    pub fn request(&mut self, text: &str) -> Result<Message, ReadError> {
        self.send(text.as_bytes()).map_err(ReadError::Io)?;
        let method = text.split(' ').next().unwrap_or_default();
        self.response_to(method)
    }

    /// Bytes of a tunnel.
    pub fn exactly(&mut self, length: usize) -> Result<Vec<u8>, ReadError> {
        self.reader.exactly(length)
    }

    /// Waits for the peer to close; returns what it sent before.
    pub fn to_close(&mut self) -> Result<Vec<u8>, ReadError> {
        self.reader.to_close()
    }

    /// Whether the peer keeps the connection open and silent for this long: the one thing that can only be
    /// seen by waiting.
    pub fn stays_silent(&mut self, time: Duration) -> bool {
        let set = self.reader.stream.set_read_timeout(Some(time)).is_ok();
        let silent = matches!(self.reader.head(), Err(ReadError::Timeout));
        let reset = self.reader.stream.set_read_timeout(Some(PATIENCE)).is_ok();
        set && reset && silent && self.reader.pending().is_empty()
    }
}
