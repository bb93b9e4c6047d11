//! Shuts down the connections of a worker whose thread cannot be asked to.
//!
//! The gateway keeps no list of a worker's descriptors, which would cost every connection. The kernel has one:
//! /proc/self/fdinfo lists what the epoll instance of the worker's runtime watches, and the instance is recognised by the
//! listening sockets in it. If the worker comes back just then, a connection may be closed and its number reused before it
//! is shut down: so a duplicate is shut down, and only if it is the file in the list.

use std::{
    fs, io,
    os::fd::{AsFd, RawFd},
    path::Path,
};

use rustix::{
    fs::fstat,
    net::{AddressFamily, Shutdown, SocketType, shutdown, sockopt},
};

use crate::worker::duplicate;

/// A descriptor that an epoll instance watches.
#[derive(Debug, PartialEq, Eq)]
struct Entry {
    number: RawFd,
    inode: u64,
}

/// Shuts down the connections of the worker with these listening sockets: to clients, nodes and other servers. Returns how
/// many. `doors_too`: those sockets as well.
pub(super) fn shut_down(doors: &[RawFd], doors_too: bool) -> io::Result<usize> {
    let mut count = 0;
    for entry in watched_with(doors)? {
        let is_door = doors.contains(&entry.number);
        if (!is_door || doors_too) && shut_down_one(&entry).is_some() {
            count += usize::from(!is_door);
        }
    }
    Ok(count)
}

/// Everything in the epoll instance that has these in it.
fn watched_with(doors: &[RawFd]) -> io::Result<Vec<Entry>> {
    for descriptor in fs::read_dir("/proc/self/fd")?.flatten() {
        let is_epoll = fs::read_link(descriptor.path())
            .is_ok_and(|target| target == Path::new("anon_inode:[eventpoll]"));
        if !is_epoll {
            continue;
        }
        let text = fs::read_to_string(Path::new("/proc/self/fdinfo").join(descriptor.file_name()));
        let entries: Vec<Entry> = text.unwrap_or_default().lines().filter_map(entry).collect();
        if entries.iter().any(|entry| doors.contains(&entry.number)) {
            return Ok(entries);
        }
    }
    Err(io::Error::new(io::ErrorKind::NotFound, "/proc/self/fdinfo does not list them"))
}

/// `tfd:       14 events: 8000201d data:     7f2ca40  pos:0 ino:1080687 sdev:9`; the inode in base 16.
fn entry(line: &str) -> Option<Entry> {
    let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
    let number = words.next()?.parse().ok()?;
    let inode = words.find_map(|word| word.strip_prefix("ino:"))?;
    Some(Entry { number, inode: u64::from_str_radix(inode, 16).ok()? })
}

fn shut_down_one(entry: &Entry) -> Option<()> {
    let socket = duplicate(entry.number).ok()?;
    let is_same = fstat(&socket).ok()?.st_ino == entry.inode;
    // The runtime's own sockets are of other families.
    (is_same && is_tcp(&socket)).then_some(())?;
    shutdown(&socket, Shutdown::Both).ok()
}

fn is_tcp(socket: &impl AsFd) -> bool {
    let is_stream = sockopt::socket_type(socket).is_ok_and(|kind| kind == SocketType::STREAM);
    let family = sockopt::socket_domain(socket);
    is_stream && family.is_ok_and(|family| matches!(family, AddressFamily::INET | AddressFamily::INET6))
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        os::{fd::AsRawFd, unix::net::UnixStream},
    };

    use super::*;

    #[test]
    fn lines_of_the_kernel_are_read() {
        let line = "tfd:       14 events: 8000201d data:     7f2ca40  pos:0 ino:1080687 sdev:9";
        assert_eq!(entry(line), Some(Entry { number: 14, inode: 0x0108_0687 }));
        assert_eq!(entry("flags:\t02000002"), None);
        assert_eq!(entry("tfd: 14 events: 1"), None, "a kernel that does not say which file");
    }

    #[test]
    fn only_connections_of_the_one_who_listens_are_shut_down() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (worker, other) = (runtime(), runtime());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let server = listener.accept().unwrap().0;
            server.set_nonblocking(true).unwrap();
            (client, server)
        };
        let ((mut client, server), (mut others_client, others)) = (connect(), connect());
        let (unix, mut unix_peer) = UnixStream::pair().unwrap();
        unix.set_nonblocking(true).unwrap();
        listener.set_nonblocking(true).unwrap();
        let door = listener.as_raw_fd();
        let (address, entered) = (listener.local_addr().unwrap(), worker.enter());
        let _listener = tokio::net::TcpListener::from_std(listener).unwrap();
        let _server = tokio::net::TcpStream::from_std(server).unwrap();
        let _unix = tokio::net::UnixStream::from_std(unix).unwrap();
        drop(entered);
        let _entered = other.enter();
        let mut others = others;
        let _others = tokio::net::TcpStream::from_std(others.try_clone().unwrap()).unwrap();
        assert_eq!(shut_down(&[door], false).unwrap(), 1);
        assert_eq!(client.read(&mut [0]).unwrap(), 0, "the client sees the end");
        others.write_all(b"x").unwrap();
        assert_eq!(others_client.read(&mut [0]).unwrap(), 1, "nobody else's");
        unix_peer.write_all(b"x").unwrap();
        TcpStream::connect(address).expect("it listens");
        shut_down(&[door], true).unwrap();
        TcpStream::connect(address).expect_err("it does not any more");
        assert!(shut_down(&[], false).is_err());
    }
}
