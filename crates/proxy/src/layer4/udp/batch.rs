//! Datagrams that are received, and sent, with one system call.

use std::{
    cell::RefCell,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6},
    ops::Range,
    os::fd::{AsFd, AsRawFd},
    ptr,
    task::{Context, Poll, ready},
};

use rustix::{
    io::{Errno, IoSlice},
    net::{
        MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, addr::SocketAddrArg, send, sendmmsg, sendto,
    },
};
use smallvec::SmallVec;
use tokio::{io::Interest, net::UdpSocket};

use super::reached::{CONTROL_BYTES, Control};

/// Of all clients of a socket.
pub(super) const OF_CLIENTS: usize = 32;

/// Of one node for one client.
pub(super) const OF_A_NODE: usize = 8;

/// No datagram is longer.
const MOST_BYTES: usize = 64 * 1024;

thread_local! {
    /// Of all sockets of the worker.
    pub(super) static BATCH: RefCell<Batch> = RefCell::new(Batch::new());
}

/// As the kernel writes an address of IPv6; one of IPv4 is shorter.
const NAME_BYTES: usize = 28;

#[derive(Clone, Copy)]
#[repr(align(4))]
struct Name([u8; NAME_BYTES]);

/// Datagrams that were received together. Memory is in use only as far as they are long.
pub(super) struct Batch {
    room: Vec<u8>,
    names: [Name; OF_CLIENTS],
    controls: [Control; OF_CLIENTS],
    lengths: [usize; OF_CLIENTS],
    count: usize,
}

impl Batch {
    pub(super) fn new() -> Batch {
        Batch {
            room: vec![0; OF_CLIENTS * MOST_BYTES],
            names: [Name([0; NAME_BYTES]); OF_CLIENTS],
            controls: [Control::EMPTY; OF_CLIENTS],
            lengths: [0; OF_CLIENTS],
            count: 0,
        }
    }

    /// Receives what is there, up to `MOST`. Fewer mean that nothing is left: then the runtime learns of it, which saves a call.
    pub(super) fn poll_receive<const MOST: usize>(
        &mut self,
        socket: &UdpSocket,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(socket.poll_recv_ready(context))?;
            self.count = 0;
            let received = socket.try_io(Interest::READABLE, || {
                self.receive::<MOST>(socket)?;
                if self.count < MOST { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
            });
            match received {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.count == 0 => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Ready(Ok(())),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return Poll::Ready(other),
            }
        }
    }

    fn receive<const MOST: usize>(&mut self, socket: &UdpSocket) -> io::Result<()> {
        // SAFETY: numbers and pointers, for which zero is a value.
        let mut headers: [libc::mmsghdr; MOST] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut parts: [libc::iovec; MOST] = unsafe { std::mem::zeroed() };
        let places = self.room.chunks_exact_mut(MOST_BYTES).zip(&mut self.names).zip(&mut self.controls);
        let mut wanted = 0;
        for ((header, part), ((room, name), control)) in headers.iter_mut().zip(&mut parts).zip(places) {
            (part.iov_base, part.iov_len) = (room.as_mut_ptr().cast(), room.len());
            let header = &mut header.msg_hdr;
            (header.msg_name, header.msg_namelen) =
                (name.0.as_mut_ptr().cast(), NAME_BYTES as libc::socklen_t);
            (header.msg_iov, header.msg_iovlen) = (ptr::from_mut(part), 1);
            // The kernel writes nothing there unless the socket asks for it.
            *control = Control::EMPTY;
            (header.msg_control, header.msg_controllen) = (control.0.as_mut_ptr().cast(), CONTROL_BYTES as _);
            wanted += 1;
        }
        // SAFETY: `wanted` headers point at rooms, names, controls and parts that live and are not used otherwise until the call has
        // returned, with their lengths.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                headers.as_mut_ptr(),
                wanted,
                libc::MSG_DONTWAIT as _,
                ptr::null_mut(),
            )
        };
        self.count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (header, length) in headers.iter().zip(&mut self.lengths) {
            *length = header.msg_len as usize;
        }
        Ok(())
    }

    /// The senders, and the addresses that they sent to if the socket asks for it, each with the datagrams as far as they follow
    /// each other.
    pub(super) fn runs(&self) -> impl Iterator<Item = ((SocketAddr, Option<IpAddr>), Range<usize>)> {
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = next;
            let mut ends = self.names.iter().zip(&self.controls).take(self.count).skip(start);
            let (name, control) = ends.next()?;
            let reached = control.address();
            next += 1 + ends.take_while(|(other, at)| other.0 == name.0 && at.address() == reached).count();
            Some(((name, reached), start..next))
        })
        .filter_map(|((name, reached), run)| Some(((name.address()?, reached), run)))
    }

    /// All of them.
    pub(super) fn all(&self) -> Range<usize> {
        0..self.count
    }

    pub(super) fn datagrams(&self, run: Range<usize>) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        run.map(|at| {
            let start = at * MOST_BYTES;
            let length = self.lengths.get(at).copied().unwrap_or(0);
            self.room.get(start..start + length).unwrap_or_default()
        })
    }
}

impl Name {
    fn address(&self) -> Option<SocketAddr> {
        let (family, rest) = self.0.split_first_chunk::<2>()?;
        let (port, rest) = rest.split_first_chunk::<2>()?;
        let port = u16::from_be_bytes(*port);
        match libc::c_int::from(u16::from_ne_bytes(*family)) {
            libc::AF_INET => {
                let (address, _) = rest.split_first_chunk::<4>()?;
                Some((Ipv4Addr::from(*address), port).into())
            }
            libc::AF_INET6 => {
                let (flow, rest) = rest.split_first_chunk::<4>()?;
                let (address, rest) = rest.split_first_chunk::<16>()?;
                let (scope, _) = rest.split_first_chunk::<4>()?;
                let (flow, scope) = (u32::from_ne_bytes(*flow), u32::from_ne_bytes(*scope));
                Some(SocketAddrV6::new(Ipv6Addr::from(*address), port, flow, scope).into())
            }
            _ => None,
        }
    }
}

const FLAGS: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);

/// What became of datagrams.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sent {
    pub bytes: u64,
    /// The peer takes none (of an earlier one it has said so). So many were passed over before.
    pub refused: Option<usize>,
}

/// Sends them in their order; what the system does not take at once is lost, as on any way of datagrams. Without the runtime, which
/// does not know yet that a new socket has room.
pub(super) fn send_all<'a>(
    socket: &impl AsFd,
    to: Option<SocketAddr>,
    mut datagrams: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Sent {
    if datagrams.len() > 1 {
        return send_many(socket, to.map(|to| to.as_any()).as_ref(), datagrams);
    }
    let Some(datagram) = datagrams.next() else { return Sent::default() };
    let sent = match to {
        Some(to) => sendto(socket, datagram, FLAGS, &to),
        None => send(socket, datagram, FLAGS),
    };
    match sent {
        Ok(count) => Sent { bytes: count as u64, refused: None },
        Err(Errno::CONNREFUSED) => Sent { bytes: 0, refused: Some(0) },
        Err(_) => Sent::default(),
    }
}

fn send_many<'a>(
    socket: &impl AsFd,
    to: Option<&SocketAddrAny>,
    datagrams: impl Iterator<Item = &'a [u8]>,
) -> Sent {
    let parts: SmallVec<[[IoSlice<'_>; 1]; OF_A_NODE]> =
        datagrams.map(|datagram| [IoSlice::new(datagram)]).collect();
    let mut controls: SmallVec<[SendAncillaryBuffer<'_, '_, '_>; OF_A_NODE]> =
        parts.iter().map(|_| SendAncillaryBuffer::default()).collect();
    let messages = parts.iter().zip(&mut controls).map(|(part, control)| match to {
        Some(to) => MMsgHdr::new_with_addr(to, part, control),
        None => MMsgHdr::new(part, control),
    });
    let mut messages: SmallVec<[MMsgHdr<'_>; OF_A_NODE]> = messages.collect();
    let (mut at, mut refused) = (0, None);
    while let Some(rest) = messages.get_mut(at..).filter(|rest| !rest.is_empty()) {
        at += match sendmmsg(socket, rest, FLAGS) {
            Ok(count) => count.max(1),
            Err(Errno::AGAIN | Errno::NOBUFS) => break,
            Err(Errno::CONNREFUSED) => {
                refused = Some(at);
                break;
            }
            // This one cannot be sent.
            Err(_) => 1,
        };
    }
    Sent { bytes: messages.iter().map(|message| message.bytes_sent() as u64).sum(), refused }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::layer4::udp::reached;

    fn socket(address: &str) -> UdpSocket {
        let socket = std::net::UdpSocket::bind(address).unwrap();
        socket.set_nonblocking(true).unwrap();
        UdpSocket::from_std(socket).unwrap()
    }

    #[test]
    fn many_are_sent_and_received_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for any in ["127.0.0.1:0", "[::1]:0"] {
                let (receiver, first, second) = (socket(any), socket(any), socket(any));
                let to = receiver.local_addr().unwrap();
                second.connect(to).await.unwrap();
                let texts: Vec<Vec<u8>> =
                    (0..OF_A_NODE + 2).map(|at| vec![b'a' + at as u8; at * 100]).collect();
                reached::ask(&receiver).unwrap();
                let sent = |bytes| Sent { bytes, refused: None };
                assert_eq!(send_all(&first, Some(to), texts.iter().map(Vec::as_slice)), sent(4500));
                assert_eq!(send_all(&second, None, [&b"one"[..]].into_iter()), sent(3));
                assert_eq!(send_all(&second, None, std::iter::empty()), sent(0));
                let mut batch = Batch::new();
                poll_fn(|context| batch.poll_receive::<OF_A_NODE>(&receiver, context)).await.unwrap();
                assert_eq!(batch.all(), 0..OF_A_NODE);
                poll_fn(|context| batch.poll_receive::<OF_CLIENTS>(&receiver, context)).await.unwrap();
                let runs: Vec<_> = batch.runs().collect();
                let senders = [&first, &second].map(|socket| (socket.local_addr().unwrap(), Some(to.ip())));
                assert_eq!(runs, [(senders[0], 0..2), (senders[1], 2..3)]);
                let got: Vec<&[u8]> = batch.datagrams(batch.all()).collect();
                assert_eq!(got, [&texts[OF_A_NODE][..], &texts[OF_A_NODE + 1], b"one"]);
                let waits = poll_fn(|context| {
                    Poll::Ready(batch.poll_receive::<OF_CLIENTS>(&receiver, context).is_pending())
                });
                assert!(waits.await);
                drop(receiver);
                let lost = [&b"a"[..], b"b", b"c"];
                send_all(&second, None, lost.into_iter());
                // The answer to one comes with the next.
                assert_eq!(send_all(&second, None, lost.into_iter()), Sent { bytes: 0, refused: Some(0) });
            }
        });
    }
}
