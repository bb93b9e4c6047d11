//! The listening sockets of the workers: opened here, or taken over from the process that this one succeeds.
//!
//! Each worker has its own sockets (SO_REUSEPORT), and each socket has its own queue of connections that are not
//! accepted yet. Closing the last descriptor of such a socket resets what is in its queue. A successor therefore takes
//! the sockets themselves, all of them, and never binds an address a second time; see docs/adr.
//!
//! Sockets for datagrams are among them: what holds a descriptor here is a [`TcpListener`] of the library, whatever it is.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use rustix::net::SocketType;
use socket2::{Domain, Protocol, Socket, Type};

use crate::{Settings, port_owner, settings::Listen};

/// The listening sockets of one worker.
pub(crate) type Doors = Vec<(TcpListener, Listen)>;

/// Duplicates the descriptors of the sockets.
pub(crate) fn once_more(doors: &Doors) -> io::Result<Doors> {
    doors.iter().map(|(socket, listen)| Ok((socket.try_clone()?, listen.clone()))).collect()
}

/// Bound sockets of each worker, before it accepts from them.
#[derive(Default)]
pub struct Listeners {
    pub(crate) workers: Vec<Doors>,
    /// Duplicates of the same sockets, for a successor, or for a new worker in a place.
    pub(crate) kept: Vec<Doors>,
    /// The listening addresses, with the ports that the system chose.
    pub(crate) listening: Vec<Listen>,
    /// Why optional addresses are not listened on, each with its address.
    pub left_out: Vec<String>,
}

/// Opens the addresses of the settings, except those that `inherited` has sockets for. What is left in there has
/// other uses, or none. The error names the address that cannot be opened.
pub fn open(settings: &Settings, inherited: &mut Vec<TcpListener>) -> io::Result<Listeners> {
    let count = settings.workers.max(1);
    let mut listeners = Listeners::default();
    listeners.workers.resize_with(count, Vec::new);
    listeners.kept.resize_with(count, Vec::new);
    for listen in &settings.listen {
        let mut listen = listen.clone();
        let taken = take(inherited, &listen);
        if taken.is_empty() {
            // Port 0: all workers use the port that the first one gets.
            if listen.address.port() == 0 {
                listen.address = bind(&listen)?.local_addr()?;
            }
            if let Some(problem) = problem(&listen)? {
                listeners.left_out.push(problem);
                continue;
            }
        }
        listeners.add(listen, taken)?;
    }
    Ok(listeners)
}

/// As [`open`], but opens nothing: no client's connection gets lost. `is_held`: a successor would be given its sockets.
pub fn try_out(settings: &Settings, is_held: &dyn Fn(&Listen) -> bool) -> io::Result<Listeners> {
    let mut listeners = Listeners::default();
    for listen in &settings.listen {
        match if is_held(listen) { None } else { problem(listen)? } {
            None => listeners.listening.push(listen.clone()),
            Some(problem) => listeners.left_out.push(problem),
        }
    }
    Ok(listeners)
}

/// Why an optional address cannot be listened on; for any other one that is an error.
fn problem(listen: &Listen) -> io::Result<Option<String>> {
    let refused = match listen.is_udp() {
        true => refuse_shared_as(listen.address, Kind::Datagrams),
        false => refuse_shared(listen.address),
    };
    match refused {
        Ok(()) => Ok(None),
        Err(error) if listen.optional => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    }
}

impl Listeners {
    /// One socket for each worker. Sockets beyond that have queues, too: the workers share them out.
    fn add(&mut self, listen: Listen, mut sockets: Vec<TcpListener>) -> io::Result<()> {
        let count = self.workers.len();
        while sockets.len() < count {
            let opened = bind(&listen).or_else(|error| match sockets.first() {
                // A socket without SO_REUSEPORT, or a port that only root may open: workers share one queue.
                Some(first) => first.try_clone(),
                None => Err(error),
            });
            sockets.push(opened.map_err(|error| cannot_listen(listen.address, error))?);
        }
        for (index, socket) in sockets.into_iter().enumerate() {
            if let (Some(kept), Some(worker)) =
                (self.kept.get_mut(index % count), self.workers.get_mut(index % count))
            {
                kept.push((socket.try_clone()?, listen.clone()));
                worker.push((socket, listen.clone()));
            }
        }
        self.listening.push(listen);
        Ok(())
    }
}

/// The sockets that listen on an address.
fn take(inherited: &mut Vec<TcpListener>, listen: &Listen) -> Vec<TcpListener> {
    let kind = if listen.is_udp() { Kind::Datagrams } else { Kind::Connections };
    inherited.extract_if(.., |socket| kind.is_at(socket, listen.address)).collect()
}

/// Whether a socket takes connections at this address.
pub fn listens_at(socket: &TcpListener, address: SocketAddr) -> bool {
    Kind::Connections.is_at(socket, address)
}

/// What a socket takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Connections,
    Datagrams,
}

impl Kind {
    fn is_at(self, socket: &TcpListener, address: SocketAddr) -> bool {
        let wanted = if self == Kind::Datagrams { SocketType::DGRAM } else { SocketType::STREAM };
        socket.local_addr().is_ok_and(|local| local == address)
            && rustix::net::sockopt::socket_type(socket).is_ok_and(|found| found == wanted)
    }

    fn socket(self, address: SocketAddr) -> io::Result<Socket> {
        let (kind, protocol) = match self {
            Kind::Connections => (Type::STREAM, Protocol::TCP),
            Kind::Datagrams => (Type::DGRAM, Protocol::UDP),
        };
        let socket = Socket::new(Domain::for_address(address), kind, Some(protocol))?;
        if address.is_ipv6() {
            socket.set_only_v6(true)?;
        }
        Ok(socket)
    }
}

/// SO_REUSEPORT would let a second gateway take half of the connections of a first one unnoticed. A socket without it
/// cannot be bound while another process listens.
///
/// Binding is enough to know; listening would take a client's connection and drop it.
pub fn refuse_shared(address: SocketAddr) -> io::Result<()> {
    refuse_shared_as(address, Kind::Connections)
}

fn refuse_shared_as(address: SocketAddr, kind: Kind) -> io::Result<()> {
    let socket = kind.socket(address)?;
    // Of datagrams it would share the address.
    socket.set_reuse_address(kind == Kind::Connections)?;
    socket.bind(&address.into()).map_err(|error| cannot_listen(address, error))
}

fn bind(listen: &Listen) -> io::Result<TcpListener> {
    let kind = if listen.is_udp() { Kind::Datagrams } else { Kind::Connections };
    let socket = kind.socket(listen.address)?;
    socket.set_reuse_port(true)?;
    if kind == Kind::Connections {
        socket.set_reuse_address(true)?;
        // Accepted sockets inherit it: no system call per connection.
        socket.set_tcp_nodelay(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&listen.address.into())?;
    if kind == Kind::Connections {
        socket.listen(4096)?;
    }
    Ok(socket.into())
}

/// With the address, and the process that has it.
pub fn cannot_listen(address: SocketAddr, error: io::Error) -> io::Error {
    let error = port_owner::explained(address, error);
    io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(address: &str, workers: usize) -> Settings {
        let listen = Listen {
            address: address.parse().unwrap(),
            tls: false,
            proxy_protocol: false,
            optional: false,
            stream: None,
        };
        Settings { listen: vec![listen], workers, ..Settings::default() }
    }

    fn sockets_of_each_worker(listeners: &Listeners) -> Vec<usize> {
        listeners.workers.iter().map(Vec::len).collect()
    }

    #[test]
    fn a_successor_takes_every_socket_whatever_its_workers() {
        let first = open(&settings("127.0.0.1:0", 2), &mut Vec::new()).unwrap();
        let address = first.listening[0].address;
        let same = settings(&address.to_string(), 2);
        // Another process cannot bind the address.
        assert!(open(&same, &mut Vec::new()).is_err());
        let unrelated = TcpListener::bind("127.0.0.1:0").unwrap();
        for (workers, expected) in [(2, vec![1, 1]), (1, vec![2]), (3, vec![1, 1, 1])] {
            let mut inherited: Vec<_> =
                first.kept.iter().flatten().map(|(socket, _)| socket.try_clone().unwrap()).collect();
            inherited.push(unrelated.try_clone().unwrap());
            let next = open(&settings(&address.to_string(), workers), &mut inherited).unwrap();
            assert_eq!(sockets_of_each_worker(&next), expected);
            assert_eq!(next.kept.iter().map(Vec::len).collect::<Vec<_>>(), expected);
            assert_eq!(inherited.len(), 1, "the unrelated one is left");
        }
    }

    #[test]
    fn a_socket_that_nobody_may_open_again_is_shared() {
        let plain = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = plain.local_addr().unwrap().to_string();
        let next = open(&settings(&address, 3), &mut vec![plain]).unwrap();
        assert_eq!(sockets_of_each_worker(&next), [1, 1, 1]);
    }
}
