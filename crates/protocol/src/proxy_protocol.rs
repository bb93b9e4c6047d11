//! The PROXY protocol, versions 1 and 2, in front of a connection's first byte (haproxy's proxy-protocol.txt).
//!
//! Bytes in, both ends of the balancer's connection out; however the bytes are cut, and never one more than the header
//! has. Extensions of version 2 (TLVs), its checksum among them, are skipped. [`Version::write`] is the inverse.

mod encoder;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub use encoder::Version;

const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const LINE: &[u8] = b"PROXY ";
const NO_HEADER: &str = "no PROXY protocol header";
/// `PROXY UNKNOWN` with its line end; no header of either version is shorter.
const SHORTEST: usize = 15;
/// Line end included.
const LONGEST_LINE: usize = 107;
/// The header of version 2 up to its addresses.
const FIXED: usize = 16;
/// The standard allows 64 KiB; addresses and the extensions in use take some hundred bytes.
const LONGEST_BINARY: usize = 4096;

/// Both ends of the connection that a balancer accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Source address of the header.
    pub client: SocketAddr,
    /// Destination address of the header.
    pub server: SocketAddr,
}

/// A partly received header.
#[derive(Debug, Default)]
pub struct Decoder {
    have: Vec<u8>,
}

/// The result of taking bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// How many of them belong to the header; all, as long as it is not complete.
    pub used: usize,
    /// The header's addresses once it is complete. `None` inside: the balancer speaks for itself, or knows no
    /// address.
    pub header: Option<Option<ProxyHeader>>,
}

impl Decoder {
    /// Takes the next bytes. After an error or a header it is done.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Progress, &'static str> {
        let mut used = 0;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            let wanted = match self.wanted(rest)? {
                0 => return Ok(Progress { used, header: Some(self.header()?) }),
                wanted => wanted,
            };
            if rest.is_empty() {
                return Ok(Progress { used, header: None });
            }
            let taken = rest.get(..wanted).unwrap_or(rest);
            self.have.extend_from_slice(taken);
            used += taken.len();
        }
    }

    /// How many of the `next` bytes certainly belong to the header; 0 when it is complete.
    fn wanted(&self, next: &[u8]) -> Result<usize, &'static str> {
        let have = self.have.len();
        if have < SHORTEST {
            // The rest of what cannot be a header is not waited for.
            let may_be = |start: &[u8]| self.have.iter().zip(start).all(|(have, wanted)| have == wanted);
            if !may_be(LINE) && !may_be(&SIGNATURE) {
                return Err(NO_HEADER);
            }
            return Ok(SHORTEST - have);
        }
        if self.have.starts_with(&SIGNATURE) {
            let Some((fixed, _)) = self.have.split_first_chunk::<FIXED>() else { return Ok(FIXED - have) };
            let [.., high, low] = *fixed;
            let length = usize::from(u16::from_be_bytes([high, low]));
            if length > LONGEST_BINARY {
                return Err("PROXY protocol header larger than the limit");
            }
            return Ok((FIXED + length).saturating_sub(have));
        }
        if !self.have.starts_with(LINE) {
            return Err(NO_HEADER);
        }
        if self.have.ends_with(b"\n") {
            return Ok(0);
        }
        if have >= LONGEST_LINE {
            return Err("PROXY protocol line without an end");
        }
        let end = next.iter().position(|&byte| byte == b'\n').map_or(next.len(), |at| at + 1);
        Ok(end.clamp(1, LONGEST_LINE - have))
    }

    fn header(&self) -> Result<Option<ProxyHeader>, &'static str> {
        match self.have.split_first_chunk::<FIXED>() {
            Some((&[.., command, family, _, _], rest)) if self.have.starts_with(&SIGNATURE) => {
                parse_binary(command, family, rest)
            }
            _ => parse_line(&self.have),
        }
    }
}

/// `PROXY TCP4 192.0.2.1 192.0.2.2 4000 80`.
fn parse_line(line: &[u8]) -> Result<Option<ProxyHeader>, &'static str> {
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
    Ok(Some(ProxyHeader {
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

fn parse_binary(command: u8, family: u8, rest: &[u8]) -> Result<Option<ProxyHeader>, &'static str> {
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
        Ok(Some(ProxyHeader {
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
        // Unspecified, datagrams, UNIX sockets: valid, but without an address of a client.
        0x00 | 0x12 | 0x22 | 0x31 | 0x32 => Ok(None),
        _ => Err("unknown address family in a PROXY protocol header"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(parsed: Result<Option<ProxyHeader>, &'static str>) -> String {
        match parsed {
            Ok(Some(found)) => format!("{} {}", found.client, found.server),
            Ok(None) => "none".to_owned(),
            Err(_) => "refused".to_owned(),
        }
    }

    /// The result of decoding a header and two bytes of a request, the same in pieces of any size.
    fn decoded(header: &[u8]) -> (Result<Option<ProxyHeader>, &'static str>, usize) {
        let stream = [header, b"GE"].concat();
        let mut found = Vec::new();
        for size in 1..=stream.len() {
            let (mut decoder, mut at) = (Decoder::default(), 0);
            let result = loop {
                let end = (at + size).min(stream.len());
                match decoder.push(&stream[at..end]) {
                    Err(reason) => break Err(reason),
                    Ok(Progress { used, header: Some(header) }) => {
                        at += used;
                        break Ok(header);
                    }
                    Ok(_) if end == stream.len() => break Err("incomplete"),
                    Ok(Progress { used, .. }) => at += used,
                }
            };
            found.push((result, at));
        }
        let first = found[0];
        assert!(
            found.iter().all(|(result, at)| *result == first.0 && (*at == first.1 || result.is_err())),
            "{header:?}"
        );
        first
    }

    #[test]
    fn not_a_byte_more_is_taken() {
        let end = ProxyHeader {
            client: "192.0.2.1:4000".parse().unwrap(),
            server: "192.0.2.2:80".parse().unwrap(),
        };
        let binary =
            |length: u16, rest: &[u8]| [&SIGNATURE[..], &[0x21, 0x11], &length.to_be_bytes(), rest].concat();
        let addresses = [192, 0, 2, 1, 192, 0, 2, 2, 0x0f, 0xa0, 0, 80];
        for header in [b"PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\r\n".to_vec(), binary(12, &addresses)] {
            assert_eq!(decoded(&header), (Ok(Some(end)), header.len()));
        }
        assert_eq!(decoded(b"PROXY UNKNOWN\r\n"), (Ok(None), 15));
        let long = [&b"PROXY UNKNOWN "[..], &[b'a'; 200], b"\r\n"].concat();
        for bad in [
            &b"GET / HTTP/1.1\r\n\r\n"[..],
            &long,
            &binary(5000, &[0; 5000]),
            &binary(12, &addresses[..9]),
            b"P",
        ] {
            assert!(decoded(bad).0.is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_cannot_be_a_header_ends_at_once() {
        for text in [&b"hi"[..], b"G", b"PROXI", b"\r\n\r\n\0\r\nQUIX", b"\x16\x03\x01"] {
            assert_eq!(Decoder::default().push(text), Err(NO_HEADER), "{text:?}");
        }
        for text in [&b"PROX"[..], b"PROXY TCP4 1", b"\r\n\r\n", b"\r\n\r\n\0\r\nQUIT\n\x21\x11"] {
            let used = text.len();
            assert_eq!(Decoder::default().push(text), Ok(Progress { used, header: None }), "{text:?}");
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
