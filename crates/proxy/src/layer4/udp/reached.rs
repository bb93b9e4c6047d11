//! The address that a datagram was sent to, where a socket listens on all of them: routes may ask for it, and answers leave from it.
//! `IP_PKTINFO` of ip(7), `IPV6_PKTINFO` of [RFC 3542, section 6](https://www.rfc-editor.org/rfc/rfc3542#section-6).

use std::{
    io::{self, IoSlice},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::AsRawFd,
};

use socket2::{MsgHdr, SockAddr, SockRef};
use tokio::net::UdpSocket;

/// Where the kernel writes an address: a header, and the longer one of both kinds of information.
#[derive(Clone, Copy)]
#[repr(align(8))]
pub(super) struct Control(pub [u8; CONTROL_BYTES]);

pub(super) const CONTROL_BYTES: usize = 40;

/// The length of a message, its level and its kind (`cmsghdr`).
const HEADER_BYTES: usize = size_of::<usize>() + 8;

impl Control {
    pub(super) const EMPTY: Control = Control([0; CONTROL_BYTES]);

    /// Of the first message, the only one that is asked for.
    pub(super) fn address(&self) -> Option<IpAddr> {
        let (_, rest) = self.0.split_first_chunk::<{ size_of::<usize>() }>()?;
        let (level, rest) = rest.split_first_chunk::<4>()?;
        let (kind, information) = rest.split_first_chunk::<4>()?;
        match (i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind)) {
            // Behind the number of the interface and an address of it.
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                Some(Ipv4Addr::from(*information.get(8..)?.first_chunk::<4>()?).into())
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                Some(Ipv6Addr::from(*information.first_chunk::<16>()?).into())
            }
            _ => None,
        }
    }

    /// That names the sender, and how long it is. Interface 0: any.
    fn of(sender: IpAddr) -> (Control, usize) {
        let mut information = [0; 20];
        let (level, kind, length) = match sender {
            IpAddr::V4(address) => {
                information.iter_mut().skip(4).zip(address.octets()).for_each(|(to, from)| *to = from);
                (libc::IPPROTO_IP, libc::IP_PKTINFO, 12)
            }
            IpAddr::V6(address) => {
                information.iter_mut().zip(address.octets()).for_each(|(to, from)| *to = from);
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20)
            }
        };
        let header = (HEADER_BYTES + length).to_ne_bytes().into_iter();
        let header = header.chain(level.to_ne_bytes()).chain(kind.to_ne_bytes());
        let mut control = Control::EMPTY;
        control.0.iter_mut().zip(header.chain(information)).for_each(|(to, from)| *to = from);
        (control, (HEADER_BYTES + length).next_multiple_of(size_of::<usize>()))
    }
}

/// Has the kernel tell the address of each datagram.
pub(super) fn ask(socket: &UdpSocket) -> io::Result<()> {
    let (level, option) = match socket.local_addr()? {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_PKTINFO),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO),
    };
    let on: libc::c_int = 1;
    // SAFETY: the option takes a number, which lives until the call has returned.
    let done = unsafe {
        let value = std::ptr::from_ref(&on).cast();
        libc::setsockopt(socket.as_raw_fd(), level, option, value, size_of_val(&on) as libc::socklen_t)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// As [`super::batch::send_all`], from this address. Returns the bytes that were sent.
pub(super) fn send_from<'a>(
    socket: &UdpSocket,
    (from, to): (IpAddr, SocketAddr),
    datagrams: impl Iterator<Item = &'a [u8]>,
) -> u64 {
    let (control, length) = Control::of(from);
    let control = control.0.get(..length).unwrap_or_default();
    let (socket, to) = (SockRef::from(socket), SockAddr::from(to));
    let send = |datagram| {
        let parts = [IoSlice::new(datagram)];
        let message = MsgHdr::new().with_addr(&to).with_buffers(&parts).with_control(control);
        socket.sendmsg(&message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL).unwrap_or(0) as u64
    };
    datagrams.map(send).sum()
}
