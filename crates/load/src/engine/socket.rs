//! Sockets that never block, and what is encrypted on top of them.

use std::{
    io::{Read, Write},
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::{
    event::epoll,
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt},
};
use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};

use super::failure::{Broken, Failure};

#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    tls: Option<Box<ClientConnection>>,
}

impl Socket {
    /// Begins to connect and registers for every event, once, edge-triggered.
    pub fn connect(
        address: &SocketAddr,
        tls: Option<(&Arc<ClientConfig>, &ServerName<'static>)>,
        epoll: &OwnedFd,
        token: u64,
        small_requests: bool,
    ) -> Result<Socket, Broken> {
        let failed = |error| Broken::system(Failure::Connect, error);
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, None).map_err(failed)?;
        sockopt::set_tcp_nodelay(&fd, true).map_err(failed)?;
        if small_requests {
            // Requests that fit the first window need no pacing; BBR would set a timer for each. Where the system
            // does not allow the choice, its default stays.
            let _ = sockopt::set_tcp_congestion(&fd, "reno");
        }
        match rustix::net::connect(&fd, address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(failed(error)),
        }
        let events =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(epoll, &fd, epoll::EventData::new_u64(token), events).map_err(failed)?;
        let tls = match tls {
            None => None,
            Some((config, name)) => {
                let session = ClientConnection::new(Arc::clone(config), name.clone())
                    .map_err(|error| Broken::new(Failure::Tls, format!("tls: {error}")))?;
                Some(Box::new(session))
            }
        };
        Ok(Socket { fd, tls })
    }

    /// How the connect went, once the socket is writable.
    pub fn connected(&self) -> Result<(), Broken> {
        match sockopt::socket_error(&self.fd) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) | Err(error) => Err(Broken::system(Failure::Connect, error)),
        }
    }

    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Bytes from the peer as they are on the wire; `None` when there are none yet.
    pub fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        loop {
            return match rustix::net::recv(&self.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((length, _)) => Ok(Some(length)),
                Err(Errno::AGAIN) => Ok(None),
                Err(Errno::INTR) => continue,
                Err(error) => Err(error),
            };
        }
    }

    /// Bytes that wait to be received.
    pub fn queued(&self) -> Option<u64> {
        rustix::io::ioctl_fionread(&self.fd).ok()
    }

    /// From now on the system does not size the receive buffer itself. It takes twice as much as asked for.
    pub fn set_receive_buffer(&self, bytes: usize) {
        // Where it is refused, acknowledgements take their usual way.
        let _ = sockopt::set_socket_recv_buffer_size(&self.fd, bytes);
    }

    /// Sends what the system takes: how much that was.
    pub fn send(&self, bytes: &[u8]) -> Result<usize, Broken> {
        loop {
            return match rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL) {
                Ok(sent) => Ok(sent),
                Err(Errno::AGAIN | Errno::NOTCONN) => Ok(0),
                Err(Errno::INTR) => continue,
                Err(error) => Err(Broken::system(Failure::Write, error)),
            };
        }
    }

    /// Takes bytes of the wire and appends what they decrypt to.
    pub fn decrypt(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> Result<(), Broken> {
        let Some(tls) = &mut self.tls else {
            plain.extend_from_slice(wire);
            return Ok(());
        };
        while !wire.is_empty() {
            tls.read_tls(&mut wire)
                .map_err(|error| Broken::new(Failure::Tls, format!("tls: {}", plain_error(&error))))?;
            let state = tls
                .process_new_packets()
                .map_err(|error| Broken::new(Failure::Tls, format!("tls: {error}")))?;
            let ready = state.plaintext_bytes_to_read();
            if ready > 0 {
                let at = plain.len();
                plain.resize(at + ready, 0);
                let space = plain.get_mut(at..).unwrap_or_default();
                tls.reader()
                    .read_exact(space)
                    .map_err(|error| Broken::new(Failure::Tls, format!("tls: {}", plain_error(&error))))?;
            }
        }
        Ok(())
    }

    /// Appends what is to be sent for `bytes`, and whatever a handshake has to say.
    pub fn encrypt(&mut self, bytes: &[u8], wire: &mut Vec<u8>) -> Result<(), Broken> {
        let Some(tls) = &mut self.tls else {
            wire.extend_from_slice(bytes);
            return Ok(());
        };
        let failed =
            |error: std::io::Error| Broken::new(Failure::Tls, format!("tls: {}", plain_error(&error)));
        let mut rest = bytes;
        loop {
            let taken = tls.writer().write(rest).map_err(failed)?;
            rest = rest.get(taken..).unwrap_or_default();
            while tls.wants_write() {
                tls.write_tls(wire).map_err(failed)?;
            }
            if rest.is_empty() {
                return Ok(());
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn plain_error(error: &std::io::Error) -> String {
    super::failure::plain(error)
}
