//! What the kernel counts for single connections (`struct tcp_info`), asked of `sock_diag`: of both ends where the server is
//! on this machine. Linux: include/uapi/linux/inet_diag.h and tcp.h.

use std::collections::HashSet;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind,
    netlink::{SOCK_DIAG, SocketAddrNetlink},
    recv, sendto, socket_with, sockopt,
};
use serde::{Deserialize, Serialize};

/// Of the connections of a run that were open at its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sockets {
    /// Connections that the kernel reported.
    pub seen: u64,
    /// Segments that the load generator sent again, and those that the server sent again (on this machine only).
    pub(crate) sent_again: u64,
    pub(crate) server_sent_again: u64,
    /// Segments with data that came from the server.
    pub(crate) data_segments_in: u64,
}

impl Sockets {
    pub(crate) fn add(&mut self, other: &Sockets) {
        self.seen += other.seen;
        self.sent_again += other.sent_again;
        self.server_sent_again += other.server_sent_again;
        self.data_segments_in += other.data_segments_in;
    }

    pub(crate) fn retransmitted(&self) -> u64 {
        self.sent_again + self.server_sent_again
    }
}

/// Of the sockets with these inodes, which are connected to a port. Nothing where the kernel does not report them.
pub fn read(port: u16, inodes: &HashSet<u32>) -> Sockets {
    let mut found = Sockets::default();
    let mut own_ports = HashSet::new();
    for entry in both_families(0, port).iter().filter(|entry| inodes.contains(&entry.inode)) {
        own_ports.insert(entry.local_port);
        found.seen += 1;
        found.sent_again += u64::from(entry.retransmitted);
        found.data_segments_in += u64::from(entry.data_segments_in);
    }
    if !own_ports.is_empty() {
        let of_server = both_families(port, 0);
        let ours = of_server.iter().filter(|entry| own_ports.contains(&entry.remote_port));
        found.server_sent_again = ours.map(|entry| u64::from(entry.retransmitted)).sum();
    }
    found
}

struct Entry {
    local_port: u16,
    remote_port: u16,
    inode: u32,
    retransmitted: u32,
    data_segments_in: u32,
}

const INET: u8 = 2;
const INET6: u8 = 10;

fn both_families(local_port: u16, remote_port: u16) -> Vec<Entry> {
    [INET, INET6]
        .into_iter()
        .flat_map(|family| dump(family, local_port, remote_port).unwrap_or_default())
        .collect()
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`
const FLAGS: u16 = 0x301;
/// Connected, or closing; not listening, connecting or waiting after the end.
const STATES: u32 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8 | 1 << 9 | 1 << 11;
const INFO: u16 = 2;
const HEADER: usize = 16;
const REQUEST: usize = 56;
/// `struct inet_diag_msg`
const MESSAGE: usize = 72;

/// 0: any port.
fn dump(family: u8, local_port: u16, remote_port: u16) -> rustix::io::Result<Vec<Entry>> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(SOCK_DIAG))?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    // The kernel answers at once; a report must not hang for it.
    let limit = Some(std::time::Duration::from_millis(500));
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, limit)?;
    let mut request = Vec::with_capacity(HEADER + REQUEST);
    request.extend_from_slice(&((HEADER + REQUEST) as u32).to_ne_bytes());
    request.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request.extend_from_slice(&FLAGS.to_ne_bytes());
    request.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
    const TCP: u8 = 6;
    request.extend_from_slice(&[family, TCP, 1 << (INFO - 1), 0]);
    request.extend_from_slice(&STATES.to_ne_bytes());
    request.extend_from_slice(&local_port.to_be_bytes());
    request.extend_from_slice(&remote_port.to_be_bytes());
    request.resize(HEADER + REQUEST, 0);
    sendto(&socket, &request, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let (mut entries, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        if length == 0 || !take(buffer.get(..length).unwrap_or_default(), &mut entries) {
            return Ok(entries);
        }
    }
}

/// The messages of one datagram; `false` after the last.
fn take(mut rest: &[u8], entries: &mut Vec<Entry>) -> bool {
    while let (Some(length), Some(kind)) = (number32(rest, 0), number16(rest, 4)) {
        let length = length as usize;
        if length < HEADER || kind == NLMSG_DONE || kind == NLMSG_ERROR {
            return false;
        }
        entries.extend(rest.get(HEADER..length).and_then(entry));
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    true
}

fn entry(message: &[u8]) -> Option<Entry> {
    let port = |at: usize| Some(u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?));
    let mut entry = Entry {
        local_port: port(4)?,
        remote_port: port(6)?,
        inode: number32(message, 68)?,
        retransmitted: 0,
        data_segments_in: 0,
    };
    let mut rest = message.get(MESSAGE..)?;
    while let (Some(length), Some(kind)) = (number16(rest, 0), number16(rest, 2)) {
        let length = usize::from(length);
        if length < 4 {
            break;
        }
        if kind == INFO {
            // Offsets in `struct tcp_info`: tcpi_total_retrans, tcpi_data_segs_in.
            let info = rest.get(4..length)?;
            entry.retransmitted = number32(info, 100)?;
            entry.data_segments_in = number32(info, 152).unwrap_or(0);
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(entry)
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn number16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
    };

    use super::*;

    #[test]
    fn segments_of_one_connection_are_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let mut client = TcpStream::connect(address).expect("connects");
        let (mut server, _) = listener.accept().expect("a client");
        server.set_nodelay(true).expect("set");
        for _ in 0..3 {
            server.write_all(b"x").expect("sent");
            client.read_exact(&mut [0]).expect("received");
        }
        let inode = rustix::fs::fstat(&client).expect("a socket").st_ino as u32;
        let found = read(address.port(), &HashSet::from([inode]));
        assert_eq!((found.seen, found.data_segments_in, found.retransmitted()), (1, 3, 0));
        assert_eq!(read(address.port(), &HashSet::new()), Sockets::default());
    }
}
