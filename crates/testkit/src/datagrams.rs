//! A receiver of datagrams.

use std::net::{SocketAddr, UdpSocket};

use crate::PATIENCE;

/// A bound UDP socket.
#[derive(Debug)]
pub struct Datagrams {
    /// Where it listens.
    pub address: SocketAddr,
    socket: UdpSocket,
}

impl Datagrams {
    /// On a free port.
    pub fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("the system has a free port");
        socket.set_read_timeout(Some(PATIENCE)).expect("sockets have timeouts");
        Datagrams { address: socket.local_addr().expect("a bound socket has an address"), socket }
    }

    /// Waits for the next one.
    pub fn receive(&self) -> String {
        let mut buffer = vec![0; 1 << 16];
        let length = self.socket.recv(&mut buffer).expect("a datagram");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    }
}
