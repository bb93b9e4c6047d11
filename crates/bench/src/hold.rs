//! Opens connections and holds them: how many a machine carries, what each costs, and what stopped it (c1000k).

use std::{
    fs,
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, RecvFlags, SocketFlags, SocketType, sockopt},
    process::{Resource, Rlimit, getrlimit, setrlimit},
};

use crate::{
    Problem,
    report::units::{bytes, count},
    system::find_listener,
};

/// Connections from one source address; fewer than a machine has local ports by default.
const PER_SOURCE: usize = 25_000;
const PATIENCE: Duration = Duration::from_secs(5);

/// What came of holding many connections open.
#[derive(Clone, Debug)]
pub struct Held {
    /// Connections to open.
    pub wanted: usize,
    /// Connections that were open at the end.
    pub opened: usize,
    /// How long it took to open them.
    pub seconds: f64,
    /// Why no more were opened; `None` when all were.
    pub(crate) stopped_by: Option<String>,
    /// Resident memory that the server took more, when it is on this machine.
    pub(crate) server_bytes: Option<u64>,
    pub(crate) server_name: String,
    /// What the kernel took more for sockets of both ends; `None` when others on the machine gave more back.
    pub(crate) kernel_bytes: Option<u64>,
    /// Connections that the server closed again while others were opened.
    pub closed: usize,
}

impl Held {
    /// Lines for the terminal.
    pub fn render(&self) -> String {
        // What the server closed again takes no memory.
        let left = self.opened.saturating_sub(self.closed).max(1);
        let each = |all: u64| bytes(all as f64 / left as f64);
        let mut out = format!(
            "held {} of {} connections, opened in {:.1} s ({:.0}/s)\n",
            count(self.opened as u64),
            count(self.wanted as u64),
            self.seconds,
            self.opened as f64 / self.seconds.max(1e-9)
        );
        if let Some(server) = self.server_bytes {
            out.push_str(&format!("  {:<10} {} per connection\n", self.server_name, each(server)));
        }
        out.push_str(&match self.kernel_bytes {
            Some(all) => {
                format!("  kernel     {} per connection (both ends, those on this machine)\n", each(all))
            }
            None => "  kernel     not measured: other processes gave memory back meanwhile\n".to_owned(),
        });
        if self.closed > 0 {
            let closed = count(self.closed as u64);
            out.push_str(&format!("  closed     {closed} again by the server, to make room for others\n"));
        }
        out.push_str(&format!(
            "  stopped by {}\n",
            self.stopped_by.as_deref().unwrap_or("nothing: all are open")
        ));
        out
    }
}

/// `request` is sent once on each connection, so that it is one that has been served and is kept.
pub fn hold(
    address: SocketAddr,
    request: &[u8],
    wanted: usize,
    stop: &AtomicBool,
    mut progress: impl FnMut(usize),
) -> Result<Held, Problem> {
    raise_limit();
    let listener = find_listener(address);
    let resident = || listener.as_ref().map(|listener| listener.memory_kib() * 1024);
    let (server_before, kernel_before) = (resident(), kernel_bytes());
    let begun = Instant::now();
    let mut open: Vec<TcpStream> = Vec::new();
    let mut stopped_by = None;
    while open.len() < wanted {
        if stop.load(Relaxed) {
            stopped_by = Some("Ctrl-C".to_owned());
            break;
        }
        match one(address, request, open.len() / PER_SOURCE) {
            Ok(stream) => open.push(stream),
            Err(reason) => {
                stopped_by = Some(reason);
                break;
            }
        }
        if open.len().is_multiple_of(1000) {
            progress(open.len());
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let server_bytes = resident().zip(server_before).map(|(after, before)| after.saturating_sub(before));
    Ok(Held {
        wanted,
        opened: open.len(),
        seconds,
        stopped_by,
        server_bytes,
        server_name: listener.map_or_else(String::new, |listener| listener.name),
        kernel_bytes: kernel_bytes().checked_sub(kernel_before),
        closed: open.iter().filter(|stream| is_closed(stream)).count(),
    })
}

fn one(address: SocketAddr, request: &[u8], source: usize) -> Result<TcpStream, String> {
    let stream = connect(address, source).map_err(why)?;
    let asked = (&stream).write_all(request).and_then(|()| (&stream).read(&mut [0; 4096]));
    match asked {
        Ok(0) => {
            Err("the server: it closes new connections (its own limit of connections or of open files)"
                .into())
        }
        Ok(_) => Ok(stream),
        Err(error) => Err(format!(
            "the server: no answer on a new connection within {PATIENCE:?} ({}); look at its limits of connections and open files",
            crate::engine::failure::plain(&error)
        )),
    }
}

fn connect(address: SocketAddr, source: usize) -> Result<TcpStream, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(PATIENCE))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(PATIENCE))?;
    // One address has some 28,000 ports; loopback has as many addresses as one likes.
    if let (true, IpAddr::V4(ip)) = (source > 0, address.ip())
        && ip.is_loopback()
    {
        let [_, _, high, low] = Ipv4Addr::from_bits(source as u32 + 1).octets();
        rustix::net::bind(&socket, &SocketAddr::from(([127, 0, high, low], 0)))?;
    }
    rustix::net::connect(&socket, &address)?;
    Ok(TcpStream::from(socket))
}

/// What stopped it, with the remedy.
fn why(error: Errno) -> String {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    match error {
        Errno::MFILE => format!("the client's limit of open files ({limit}): ulimit -n 1100000"),
        Errno::NFILE => "the system's limit of open files: sysctl -w fs.file-max=2097152".into(),
        Errno::ADDRNOTAVAIL => {
            "local ports are used up: sysctl -w net.ipv4.ip_local_port_range='1024 65535', or more client addresses".into()
        }
        Errno::NOBUFS | Errno::NOMEM => "memory for sockets: sysctl net.ipv4.tcp_mem, or more memory".into(),
        Errno::CONNREFUSED => "the server: connection refused".into(),
        Errno::INPROGRESS | Errno::AGAIN | Errno::TIMEDOUT => {
            format!("the server: no connection within {PATIENCE:?}; its accept queue is full or it has no descriptor left")
        }
        error => format!("connect: {}", crate::engine::failure::plain(&std::io::Error::from(error))),
    }
}

/// As many open files as this process may have.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = std::fs::read_to_string("/proc/sys/fs/nr_open").ok().and_then(|text| text.trim().parse().ok());
    // Root may go beyond the hard limit, up to what the kernel allows; others up to the hard limit.
    if setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most }).is_err() {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

fn is_closed(stream: &TcpStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    matches!(rustix::net::recv(stream, &mut [0u8; 1][..], flags), Ok((0, _)) | Err(Errno::CONNRESET))
}

/// Memory of the kernel's objects. Others on the machine change it as well, by little compared with many sockets.
fn kernel_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Slab:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) * 1024
}
