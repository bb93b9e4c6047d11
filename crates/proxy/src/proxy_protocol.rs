//! The PROXY protocol, versions 1 and 2, in front of a client's first byte (haproxy's proxy-protocol.txt).
//!
//! Only on ports that are opened for it: there a connection without a header is closed, so that nobody can slip past
//! the balancer. What the header says becomes the client's address only where configuration believes the peer.
//! Extensions of version 2 (TLVs), its checksum among them, are skipped.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

use plugin::request::Announced;
use tokio::{io::AsyncReadExt, net::TcpStream};

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// `PROXY UNKNOWN` with its line end; no header of either version is shorter.
const SHORTEST: usize = 15;
/// Line end included.
const LONGEST_LINE: usize = 107;
/// The standard allows 64 KiB; addresses and the extensions in use take some hundred bytes.
const LONGEST_BINARY: usize = 4096;

/// Takes the header off the stream and not a byte more. `None`: the balancer speaks for itself, or knows no address.
///
/// Without a time limit of its own: the caller has one.
pub async fn read(stream: &mut TcpStream) -> io::Result<Option<Announced>> {
    let mut start = [0; SHORTEST];
    stream.read_exact(&mut start).await?;
    if start.starts_with(&SIGNATURE) {
        return read_binary(stream, start).await;
    }
    if start.starts_with(b"PROXY ") {
        let line = read_line(stream, &start).await?;
        return parse_line(&line).map_err(malformed);
    }
    Err(malformed("no PROXY protocol header"))
}

fn malformed(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_owned())
}

/// The rest of a line whose length shows only at its end: what has come is looked at before it is taken.
async fn read_line(stream: &mut TcpStream, start: &[u8]) -> io::Result<Vec<u8>> {
    let mut line = start.to_vec();
    while !line.ends_with(b"\n") {
        let mut seen = [0; LONGEST_LINE];
        let room = LONGEST_LINE - line.len().min(LONGEST_LINE);
        if room == 0 {
            return Err(malformed("PROXY protocol line without an end"));
        }
        let count = stream.peek(seen.get_mut(..room).unwrap_or_default()).await?;
        let seen = seen.get_mut(..count).unwrap_or_default();
        if seen.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let wanted = seen.iter().position(|&byte| byte == b'\n').map_or(count, |at| at + 1);
        let taken = seen.get_mut(..wanted).unwrap_or_default();
        stream.read_exact(taken).await?;
        line.extend_from_slice(taken);
    }
    Ok(line)
}

/// `PROXY TCP4 192.0.2.1 192.0.2.2 4000 80`.
fn parse_line(line: &[u8]) -> Result<Option<Announced>, &'static str> {
    const BAD: &str = "malformed PROXY protocol line";
    let text = line.strip_prefix(b"PROXY ").and_then(|rest| rest.strip_suffix(b"\r\n")).ok_or(BAD)?;
    let text = std::str::from_utf8(text).map_err(|_| BAD)?;
    if text == "UNKNOWN" || text.starts_with("UNKNOWN ") {
        return Ok(None);
    }
    let mut words = text.split(' ');
    let mut word = || words.next().ok_or(BAD);
    let family = word()?;
    let (client, server) = (address(family, word()?)?, address(family, word()?)?);
    let (client_port, server_port) = (port(word()?)?, port(word()?)?);
    if words.next().is_some() {
        return Err(BAD);
    }
    Ok(Some(Announced {
        client: SocketAddr::new(client, client_port),
        server: SocketAddr::new(server, server_port),
    }))
}

fn address(family: &str, text: &str) -> Result<IpAddr, &'static str> {
    match family {
        "TCP4" => {
            text.parse::<Ipv4Addr>().map(IpAddr::V4).map_err(|_| "invalid address in a PROXY protocol line")
        }
        "TCP6" => {
            text.parse::<Ipv6Addr>().map(IpAddr::V6).map_err(|_| "invalid address in a PROXY protocol line")
        }
        _ => Err("unknown protocol in a PROXY protocol line"),
    }
}

fn port(text: &str) -> Result<u16, &'static str> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| plain).ok_or("invalid port in a PROXY protocol line")
}

async fn read_binary(stream: &mut TcpStream, start: [u8; SHORTEST]) -> io::Result<Option<Announced>> {
    let last = stream.read_u8().await?;
    let [.., command, family, high] = start;
    let length = usize::from(u16::from_be_bytes([high, last]));
    if length > LONGEST_BINARY {
        return Err(malformed("PROXY protocol header larger than the limit"));
    }
    let mut rest = vec![0; length];
    stream.read_exact(&mut rest).await?;
    parse_binary(command, family, &rest).map_err(malformed)
}

fn parse_binary(command: u8, family: u8, rest: &[u8]) -> Result<Option<Announced>, &'static str> {
    const SHORT: &str = "PROXY protocol header shorter than its addresses";
    match command {
        0x21 => {}
        // LOCAL: the balancer's own connection, such as a health check.
        0x20 => return Ok(None),
        _ => return Err("unknown version or command in a PROXY protocol header"),
    }
    let port = |at: usize| Some(u16::from_be_bytes([*rest.get(at)?, *rest.get(at + 1)?]));
    let pair = |client: IpAddr, server: IpAddr, at: usize| {
        let (client_port, server_port) = (port(at).ok_or(SHORT)?, port(at + 2).ok_or(SHORT)?);
        Ok(Some(Announced {
            client: SocketAddr::new(client, client_port),
            server: SocketAddr::new(server, server_port),
        }))
    };
    match family {
        0x11 => {
            let (client, rest) = rest.split_first_chunk::<4>().ok_or(SHORT)?;
            let server = rest.first_chunk::<4>().ok_or(SHORT)?;
            pair(Ipv4Addr::from(*client).into(), Ipv4Addr::from(*server).into(), 8)
        }
        0x21 => {
            let (client, rest) = rest.split_first_chunk::<16>().ok_or(SHORT)?;
            let server = rest.first_chunk::<16>().ok_or(SHORT)?;
            pair(Ipv6Addr::from(*client).into(), Ipv6Addr::from(*server).into(), 32)
        }
        // Unspecified, datagrams, UNIX sockets: known, and no address of a client.
        0x00 | 0x12 | 0x22 | 0x31 | 0x32 => Ok(None),
        _ => Err("unknown address family in a PROXY protocol header"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parsed: Result<Option<Announced>, &'static str>) -> String {
        match parsed {
            Ok(Some(found)) => format!("{} {}", found.client, found.server),
            Ok(None) => "none".to_owned(),
            Err(_) => "refused".to_owned(),
        }
    }

    #[test]
    fn lines() {
        for (line, expected) in [
            ("PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\r\n", "192.0.2.1:4000 192.0.2.2:80"),
            ("PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n", "[2001:db8::1]:1 [2001:db8::2]:65535"),
            ("PROXY UNKNOWN\r\n", "none"),
            ("PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "none"),
            ("PROXY UNKNOWNS\r\n", "refused"),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\n", "refused"),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 4000\r\n", "refused"),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 4000 80 9\r\n", "refused"),
            ("PROXY TCP4 192.0.2.1  192.0.2.2 4000 80\r\n", "refused"),
            ("PROXY TCP4 2001:db8::1 192.0.2.2 4000 80\r\n", "refused"),
            ("PROXY TCP4 192.0.2.256 192.0.2.2 4000 80\r\n", "refused"),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 65536 80\r\n", "refused"),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 +4 80\r\n", "refused"),
            ("PROXY TCP4 192.0.2.1 192.0.2.2 04 80\r\n", "refused"),
            ("PROXY UDP4 192.0.2.1 192.0.2.2 4 80\r\n", "refused"),
            ("proxy TCP4 192.0.2.1 192.0.2.2 4 80\r\n", "refused"),
        ] {
            assert_eq!(shown(parse_line(line.as_bytes())), expected, "{line:?}");
        }
    }

    #[test]
    fn binary_headers() {
        let v4 = [192, 0, 2, 1, 192, 0, 2, 2, 0x0f, 0xa0, 0, 80];
        let mut v6 = [0; 40];
        (v6[15], v6[31], v6[33], v6[35]) = (1, 2, 3, 4);
        for (command, family, rest, expected) in [
            (0x21, 0x11, &v4[..], "192.0.2.1:4000 192.0.2.2:80"),
            (0x21, 0x21, &v6, "[::1]:3 [::2]:4"),
            (0x21, 0x21, &v6[..36], "[::1]:3 [::2]:4"),
            (0x21, 0x21, &v6[..35], "refused"),
            (0x20, 0x11, &v4, "none"),
            (0x21, 0x00, &[], "none"),
            (0x21, 0x31, &[0; 216], "none"),
            (0x21, 0x11, &v4[..11], "refused"),
            (0x22, 0x11, &v4, "refused"),
            (0x11, 0x11, &v4, "refused"),
            (0x21, 0x41, &v4, "refused"),
        ] {
            assert_eq!(shown(parse_binary(command, family, rest)), expected, "{command:x} {family:x}");
        }
    }
}
