//! Sockets that never block, and what is encrypted on top of them.

use std::{
    io::{Read, Write},
    net::SocketAddr,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
    sync::Arc,
};

use rustix::{
    event::epoll,
    io::Errno,
    net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, sockopt},
};
use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};

use super::failure::{Broken, Failure};
use crate::plan::Acknowledgements;

#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    tls: Option<Box<ClientConnection>>,
    /// In a control run: whether answers are acknowledged at once.
    quick: Option<bool>,
}

impl Socket {
    /// Begins to connect and registers for every event, once, edge-triggered.
    pub(super) fn connect(
        peer: Peer<'_>,
        tls: Option<(&Arc<ClientConfig>, &ServerName<'static>)>,
        epoll: &OwnedFd,
        token: u64,
        small_requests: bool,
        acknowledgements: Option<Acknowledgements>,
    ) -> Result<Socket, Broken> {
        let failed = |error| Broken::system(Failure::Connect, error);
        let fd = peer.connect(small_requests).map_err(failed)?;
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
        let quick = acknowledgements.map(|how| how == Acknowledgements::Quick);
        let socket = Socket { fd, tls, quick };
        socket.choose_acknowledgements();
        Ok(socket)
    }

    /// How the connect went, once the socket is writable.
    pub(super) fn connected(&self) -> Result<(), Broken> {
        match sockopt::socket_error(&self.fd) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) | Err(error) => Err(Broken::system(Failure::Connect, error)),
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Bytes from the peer as they are on the wire; `None` when there are none yet.
    pub(super) fn receive(&self, buffer: &mut [u8]) -> Result<Option<usize>, Errno> {
        loop {
            return match rustix::net::recv(&self.fd, &mut *buffer, RecvFlags::empty()) {
                Ok((length, _)) => {
                    // The system forgets it with what it receives.
                    self.choose_acknowledgements();
                    Ok(Some(length))
                }
                Err(Errno::AGAIN) => Ok(None),
                Err(Errno::INTR) => continue,
                Err(error) => Err(error),
            };
        }
    }

    fn choose_acknowledgements(&self) {
        if let Some(quick) = self.quick {
            let _ = sockopt::set_tcp_quickack(&self.fd, quick);
        }
    }

    /// Bytes that wait to be received.
    pub(super) fn queued(&self) -> Option<u64> {
        rustix::io::ioctl_fionread(&self.fd).ok()
    }

    /// From now on the system does not size the receive buffer itself. It takes twice as much as asked for.
    pub(crate) fn set_receive_buffer(&self, bytes: usize) {
        // Where it is refused, acknowledgements take their usual way.
        let _ = sockopt::set_socket_recv_buffer_size(&self.fd, bytes);
    }

    /// Sends what the system takes: how much that was.
    pub(super) fn send(&self, bytes: &[u8]) -> Result<usize, Broken> {
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
    pub(super) fn decrypt(&mut self, mut wire: &[u8], plain: &mut Vec<u8>) -> Result<(), Broken> {
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
    pub(super) fn encrypt(&mut self, bytes: &[u8], wire: &mut Vec<u8>) -> Result<(), Broken> {
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

/// What is connected to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Peer<'a> {
    Tcp(&'a SocketAddr),
    Unix(&'a Path),
}

impl Peer<'_> {
    /// A socket that is connected or about to be.
    fn connect(self, small_requests: bool) -> Result<OwnedFd, Errno> {
        let (fd, connected) = match self {
            Peer::Tcp(address) => {
                let ipv4 = address.is_ipv4();
                let fd = stream_socket(if ipv4 { AddressFamily::INET } else { AddressFamily::INET6 })?;
                sockopt::set_tcp_nodelay(&fd, true)?;
                if small_requests {
                    // Requests that fit the first window need no pacing; BBR would set a timer for each. Where the
                    // system does not allow the choice, its default stays.
                    let _ = sockopt::set_tcp_congestion(&fd, "reno");
                }
                let connected = rustix::net::connect(&fd, address);
                (fd, connected)
            }
            Peer::Unix(path) => {
                let fd = stream_socket(AddressFamily::UNIX)?;
                let connected = rustix::net::connect(&fd, &SocketAddrUnix::new(path)?);
                (fd, connected)
            }
        };
        match connected {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
            Err(error) => Err(error),
        }
    }
}

fn stream_socket(family: AddressFamily) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    rustix::net::socket_with(family, SocketType::STREAM, flags, None)
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn plain_error(error: &std::io::Error) -> String {
    super::failure::plain(error)
}
