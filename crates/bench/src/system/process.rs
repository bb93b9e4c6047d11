//! The processes behind a port of this machine, and the CPU time they used.

use std::{
    collections::HashSet,
    fs,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

/// The processes that hold a listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Of its process.
    pub name: String,
    pub(crate) pids: Vec<u32>,
}

impl Listener {
    /// CPU time of each of their threads so far, in nanoseconds, in a stable order.
    pub(crate) fn thread_cpu_ns(&self) -> Vec<u64> {
        self.threads().iter().map(|thread| thread.cpu_ns).collect()
    }

    /// Each of their threads, in a stable order.
    pub fn threads(&self) -> Vec<Thread> {
        self.pids.iter().flat_map(|&pid| threads(pid)).collect()
    }

    /// Resident memory, in KiB.
    pub(crate) fn memory_kib(&self) -> u64 {
        self.pids.iter().map(|&pid| memory_kib(pid)).sum()
    }
}

/// A thread, and its time so far in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thread {
    /// Of the system.
    pub id: u32,
    pub(crate) cpu_ns: u64,
    /// Ready to run, but without a CPU.
    pub(crate) waited_ns: u64,
}

/// The process that listens there, when it is on this machine and may be looked at.
pub(crate) fn find_listener(address: SocketAddr) -> Option<Listener> {
    let inodes = listening_inodes(address);
    if inodes.is_empty() {
        return None;
    }
    let mut found = Listener { name: String::new(), pids: Vec::new() };
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if !holds(pid, &inodes) {
            continue;
        }
        if found.name.is_empty() {
            found.name =
                fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned();
        }
        found.pids.push(pid);
    }
    (!found.pids.is_empty()).then_some(found)
}

/// Whether the address is one of this machine's, as far as can be determined without the network.
pub(crate) fn is_local(address: IpAddr) -> bool {
    address.is_loopback() || std::net::UdpSocket::bind((address, 0)).is_ok()
}

/// The program's path. Debian keeps servers in sbin, which users' PATH often lacks.
pub(crate) fn find_program(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo/bin"));
    std::env::split_paths(&path)
        .chain(more)
        .chain(home)
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}

fn listening_inodes(address: SocketAddr) -> HashSet<String> {
    const LISTEN: &str = "0A";
    let mut inodes = HashSet::new();
    if !is_local(address.ip()) {
        return inodes;
    }
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        for line in fs::read_to_string(file).unwrap_or_default().lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(&LISTEN), Some(inode)) = (fields.get(1), fields.get(3), fields.get(9))
            else {
                continue;
            };
            let port = local.rsplit(':').next().and_then(|port| u16::from_str_radix(port, 16).ok());
            if port == Some(address.port()) && listens_for(local, address.ip()) {
                inodes.insert(format!("socket:[{inode}]"));
            }
        }
    }
    inodes
}

/// Whether a local address of /proc/net/tcp is the wanted one or all addresses.
fn listens_for(local: &str, wanted: IpAddr) -> bool {
    let hex = local.split(':').next().unwrap_or_default();
    if hex.bytes().all(|digit| digit == b'0') {
        return true;
    }
    match wanted {
        IpAddr::V4(wanted) => {
            // A socket of both families writes ::ffff:a.b.c.d, as 32-bit words of this machine.
            let hex = hex.strip_prefix("0000000000000000FFFF0000").unwrap_or(hex);
            u32::from_str_radix(hex, 16).is_ok_and(|found| found.to_ne_bytes() == wanted.octets())
        }
        // An exact IPv6 listener: the port alone decides.
        IpAddr::V6(_) => hex.len() == 32,
    }
}

fn holds(pid: u32, inodes: &HashSet<String>) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    files.flatten().any(|file| {
        fs::read_link(file.path()).is_ok_and(|link| link.to_str().is_some_and(|link| inodes.contains(link)))
    })
}

/// From the scheduler, to the nanosecond; ticks of 10 ms would be too coarse for short runs.
fn threads(pid: u32) -> Vec<Thread> {
    let Ok(folder) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of = |task: fs::DirEntry| -> Option<Thread> {
        let text = fs::read_to_string(task.path().join("schedstat")).ok()?;
        let mut fields = text.split_whitespace();
        let mut next = || fields.next()?.parse().ok();
        Some(Thread { id: task.file_name().to_str()?.parse().ok()?, cpu_ns: next()?, waited_ns: next()? })
    };
    let mut threads: Vec<Thread> = folder.flatten().filter_map(of).collect();
    threads.sort_unstable();
    threads
}

fn memory_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families() {
        let local = IpAddr::from([127, 0, 0, 1]);
        assert!(listens_for("0100007F:1F90", local));
        assert!(listens_for("0000000000000000FFFF00000100007F:1F90", local));
        assert!(listens_for("00000000000000000000000000000000:1F90", local));
        assert!(!listens_for("0000000000000000FFFF00000200007F:1F90", local));
    }

    #[test]
    fn this_test_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let found = find_listener(address).expect("this process listens");
        assert_eq!(found.pids, [std::process::id()]);
        assert!(found.thread_cpu_ns().iter().any(|&cpu_ns| cpu_ns > 0) && found.memory_kib() > 0);
        drop(listener);
        assert_eq!(find_listener(address), None);
    }
}
