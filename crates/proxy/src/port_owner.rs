//! Which process listens where, from the kernel's tables in /proc: once, when a start fails or is tried out.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::Path,
};

/// The state of a listening socket in /proc/net/tcp.
const LISTEN: &str = "0A";
/// The state of a socket of UDP that takes datagrams of anyone.
const UNCONNECTED: &str = "07";

/// An error of binding to `address`, with the remedy, and with the process that has it where /proc shows it.
pub fn explained(address: SocketAddr, error: io::Error) -> io::Error {
    let more = match error.kind() {
        io::ErrorKind::AddrInUse => owner(address),
        io::ErrorKind::PermissionDenied => Some(format!(
            "port {} needs the capability CAP_NET_BIND_SERVICE; give it to the program (setcap \
             cap_net_bind_service=+ep FILE), or choose a higher port",
            address.port()
        )),
        io::ErrorKind::AddrNotAvailable => Some("this machine does not have that address".to_owned()),
        _ => None,
    };
    match more {
        Some(more) => io::Error::new(error.kind(), format!("{error}: {more}")),
        None => error,
    }
}

/// The addresses that a process listens on; none where /proc does not show them.
pub fn addresses_of(pid: i32) -> Vec<SocketAddr> {
    addresses_in(pid, ["tcp", "tcp6"], LISTEN)
}

/// As [`addresses_of`], of UDP.
pub fn datagram_addresses_of(pid: i32) -> Vec<SocketAddr> {
    addresses_in(pid, ["udp", "udp6"], UNCONNECTED)
}

fn addresses_in(pid: i32, tables: [&str; 2], state: &str) -> Vec<SocketAddr> {
    let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let sockets: Vec<_> = descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).collect();
    let has = |inode: &str| sockets.iter().any(|link| link.as_os_str() == &*format!("socket:[{inode}]"));
    let mut addresses = Vec::new();
    for name in tables {
        let table = fs::read_to_string(format!("/proc/{pid}/net/{name}")).unwrap_or_default();
        let listeners = table.lines().skip(1).filter_map(|row| listener(row, state));
        addresses.extend(listeners.filter(|listener| has(&listener.inode)).map(|listener| listener.address));
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// The process that listens on an address in use, as the end of a message.
pub fn owner(address: SocketAddr) -> Option<String> {
    let tables = [("/proc/net/tcp", false), ("/proc/net/tcp6", true)];
    let mut listeners = Vec::new();
    for (path, _) in tables.iter().filter(|(_, ipv6)| *ipv6 || address.is_ipv4()) {
        let table = fs::read_to_string(path).unwrap_or_default();
        listeners.extend(table.lines().skip(1).filter_map(|row| listener(row, LISTEN)));
    }
    // The same address before those that merely overlap.
    listeners.sort_by_key(|listener| listener.address != address);
    let found = listeners.into_iter().find(|listener| overlap(listener.address, address))?;
    let (at, user) = (found.address, found.user);
    Some(match process_with(&found.inode) {
        Some((pid, _)) if pid == std::process::id() => {
            format!("this configuration has another listener on {at}; give one of them another port")
        }
        Some((pid, name)) => {
            format!("process {pid} ({name}) listens on {at}; stop it, or choose another port")
        }
        None => format!(
            "a process of user ID {user} listens on {at}, which this user may not inspect; stop it, or \
             choose another port"
        ),
    })
}

struct Listener {
    address: SocketAddr,
    user: String,
    inode: String,
}

/// A row: number, local and remote address, state, two queues, timer, retransmissions, user, timeout, inode.
fn listener(row: &str, state: &str) -> Option<Listener> {
    let mut fields = row.split_ascii_whitespace();
    let address = fields.nth(1)?;
    if fields.nth(1)? != state {
        return None;
    }
    let user = fields.nth(3)?.to_owned();
    let inode = fields.nth(1)?.to_owned();
    let (ip, port) = address.split_once(':')?;
    let address = SocketAddr::new(parse_ip(ip)?, u16::from_str_radix(port, 16).ok()?);
    Some(Listener { address, user, inode })
}

/// In words of 32 bits, each in the order of the machine.
fn parse_ip(text: &str) -> Option<IpAddr> {
    let word = |at: usize| Some(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    if text.len() == 8 {
        return Some(Ipv4Addr::from(word(0)?).into());
    }
    let mut bytes = [0; 16];
    for (part, at) in bytes.chunks_mut(4).zip([0, 8, 16, 24]) {
        part.copy_from_slice(&word(at)?);
    }
    Some(Ipv6Addr::from(bytes).into())
}

/// Whether the kernel refuses one while the other listens. `[::]` may take the connections of IPv4, too.
fn overlap(listening: SocketAddr, wanted: SocketAddr) -> bool {
    let (have, want) = (listening.ip().to_canonical(), wanted.ip().to_canonical());
    let everything = |ip: IpAddr| ip.is_unspecified();
    listening.port() == wanted.port()
        && (have == want
            || (everything(have) && (have.is_ipv6() || want.is_ipv4()))
            || (everything(want) && have.is_ipv4() == want.is_ipv4()))
}

/// Process and name of the first process that has this socket.
fn process_with(inode: &str) -> Option<(u32, String)> {
    let wanted = format!("socket:[{inode}]");
    let has = |folder: &Path| {
        let descriptors = fs::read_dir(folder.join("fd")).into_iter().flatten().flatten();
        descriptors
            .into_iter()
            .any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.as_os_str() == &*wanted))
    };
    for entry in fs::read_dir("/proc").ok()?.flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        if let Some(pid) = pid.filter(|_| has(&entry.path())) {
            return Some((pid, name(&entry.path())));
        }
    }
    None
}

/// A process can choose its own name: control characters are replaced.
fn name(folder: &Path) -> String {
    let text = fs::read(folder.join("comm")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.trim_end().chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn rows() {
        let row = "  12: 0100007F:2378 00000000:0000 0A 00000000:00000000 00:00000000 00000000    33        0 4711 1 0 100 0 0 10 0";
        let found = listener(row, LISTEN).unwrap();
        assert_eq!((found.user.as_str(), found.inode.as_str()), ("33", "4711"));
        #[cfg(target_endian = "little")]
        assert_eq!(found.address.to_string(), "127.0.0.1:9080");
        assert!(listener(&row.replace(" 0A ", " 01 "), LISTEN).is_none());
        assert!(listener("12: x", LISTEN).is_none());
        #[cfg(target_endian = "little")]
        assert_eq!(parse_ip("00000000000000000000000001000000").unwrap().to_string(), "::1");
    }

    #[test]
    fn addresses_that_exclude_each_other() {
        for (listening, wanted, expected) in [
            ("127.0.0.1:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "127.0.0.2:80", false),
            ("127.0.0.1:80", "127.0.0.1:81", false),
            ("0.0.0.0:80", "127.0.0.1:80", true),
            ("127.0.0.1:80", "0.0.0.0:80", true),
            ("[::]:80", "127.0.0.1:80", true),
            ("[::1]:80", "[::]:80", true),
            ("127.0.0.1:80", "[::]:80", false),
        ] {
            let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
            assert_eq!(overlap(parse(listening), parse(wanted)), expected, "{listening} {wanted}");
        }
    }

    #[test]
    fn an_own_listener_is_told_as_such() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = holder.local_addr().unwrap();
        let error = TcpListener::bind(address).unwrap_err();
        assert!(addresses_of(std::process::id().cast_signed()).contains(&address));
        let text = explained(address, error).to_string();
        assert!(text.contains("another listener") && text.contains(&address.to_string()), "{text}");
    }
}
