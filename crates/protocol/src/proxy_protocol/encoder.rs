//! The header as a proxy writes it: both ends of a client's connection, or that it speaks for itself.

use std::net::{IpAddr, SocketAddr};

use super::{ProxyHeader, SIGNATURE};

/// Of the header that is written: text or binary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

impl Version {
    /// `v1` or `v2`; `None` for others.
    pub fn from_name(name: &str) -> Option<Version> {
        match name {
            "v1" => Some(Version::V1),
            "v2" => Some(Version::V2),
            _ => None,
        }
    }

    /// As in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Version::V1 => "v1",
            Version::V2 => "v2",
        }
    }

    /// Appends the header. `None`: a connection of our own, such as a health check (`UNKNOWN`, `LOCAL`).
    pub fn write(self, ends: Option<ProxyHeader>, out: &mut Vec<u8>) {
        let ends = ends.map(ProxyHeader::of_one_family);
        match self {
            Version::V1 => write_line(ends, out),
            Version::V2 => write_binary(ends, out),
        }
    }
}

impl ProxyHeader {
    /// A header has room for one family: IPv4 when both ends are, also as IPv6 writes it (`::ffff:192.0.2.1`), else
    /// IPv6.
    pub fn of_one_family(self) -> ProxyHeader {
        let (client, server) = (self.client.ip().to_canonical(), self.server.ip().to_canonical());
        let (client, server) = match (client, server) {
            (IpAddr::V4(client), server @ IpAddr::V6(_)) => (client.to_ipv6_mapped().into(), server),
            (client @ IpAddr::V6(_), IpAddr::V4(server)) => (client, server.to_ipv6_mapped().into()),
            same => same,
        };
        ProxyHeader {
            client: SocketAddr::new(client, self.client.port()),
            server: SocketAddr::new(server, self.server.port()),
        }
    }
}

fn write_line(ends: Option<ProxyHeader>, out: &mut Vec<u8>) {
    let line = match ends {
        None => "PROXY UNKNOWN\r\n".to_owned(),
        Some(ProxyHeader { client, server }) => {
            let family = if client.is_ipv4() { "TCP4" } else { "TCP6" };
            let (from, to) = (client.ip(), server.ip());
            format!("PROXY {family} {from} {to} {} {}\r\n", client.port(), server.port())
        }
    };
    out.extend_from_slice(line.as_bytes());
}

fn write_binary(ends: Option<ProxyHeader>, out: &mut Vec<u8>) {
    out.extend_from_slice(&SIGNATURE);
    let Some(ProxyHeader { client, server }) = ends else {
        // Version 2, LOCAL; family and length are zero.
        out.extend_from_slice(&[0x20, 0x00, 0, 0]);
        return;
    };
    let (family, length) = if client.is_ipv4() { (0x11, 12) } else { (0x21, 36) };
    out.extend_from_slice(&[0x21, family, 0, length]);
    for end in [client, server] {
        match end.ip() {
            IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
        }
    }
    for end in [client, server] {
        out.extend_from_slice(&end.port().to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::proxy_protocol::{Decoder, Progress};

    fn written(version: Version, ends: Option<ProxyHeader>) -> Vec<u8> {
        let mut out = Vec::new();
        version.write(ends, &mut out);
        out
    }

    fn ends(client: &str, server: &str) -> Option<ProxyHeader> {
        Some(ProxyHeader { client: client.parse().unwrap(), server: server.parse().unwrap() })
    }

    #[test]
    fn headers_are_those_of_the_standard() {
        for (client, server, line) in [
            ("192.0.2.1:4000", "192.0.2.2:80", "PROXY TCP4 192.0.2.1 192.0.2.2 4000 80\r\n"),
            ("[2001:db8::1]:1", "[2001:db8::2]:65535", "PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n"),
            ("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:2", "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n"),
            ("192.0.2.1:1", "[2001:db8::2]:2", "PROXY TCP6 ::ffff:192.0.2.1 2001:db8::2 1 2\r\n"),
            ("[2001:db8::1]:1", "192.0.2.2:2", "PROXY TCP6 2001:db8::1 ::ffff:192.0.2.2 1 2\r\n"),
            // A link-local address: its scope is not sent.
            ("[fe80::1%3]:1", "[fe80::2%3]:2", "PROXY TCP6 fe80::1 fe80::2 1 2\r\n"),
        ] {
            assert_eq!(String::from_utf8(written(Version::V1, ends(client, server))).unwrap(), line);
        }
        assert_eq!(written(Version::V1, None), b"PROXY UNKNOWN\r\n");
        assert_eq!(written(Version::V2, None), b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0");
        let binary = written(Version::V2, ends("192.0.2.1:4000", "192.0.2.2:80"));
        assert_eq!(binary, b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc0\0\x02\x01\xc0\0\x02\x02\x0f\xa0\0\x50");
        let binary = written(Version::V2, ends("[::1]:1", "192.0.2.2:2"));
        assert_eq!((binary.len(), &binary[12..16]), (16 + 36, &[0x21, 0x21, 0, 36][..]));
    }

    proptest! {
        /// Both families, IPv4 written as IPv6, and one end of each.
        #[test]
        fn the_decoder_reads_what_was_written(
            client: (u128, u16), server: (u128, u16), forms in (0..3_u8, 0..3_u8), v2: bool, cut in 0..107_usize,
        ) {
            let address = |(bits, port): (u128, u16), form| {
                let ip: IpAddr = match form {
                    0 => std::net::Ipv4Addr::from_bits(bits as u32).into(),
                    1 => std::net::Ipv4Addr::from_bits(bits as u32).to_ipv6_mapped().into(),
                    _ => std::net::Ipv6Addr::from_bits(bits).into(),
                };
                SocketAddr::new(ip, port)
            };
            let ends = ProxyHeader { client: address(client, forms.0), server: address(server, forms.1) };
            let version = if v2 { Version::V2 } else { Version::V1 };
            let header = written(version, Some(ends));
            let (first, second) = header.split_at(cut % header.len());
            let mut decoder = Decoder::default();
            prop_assert_eq!(decoder.push(first), Ok(Progress { used: first.len(), header: None }));
            let rest = [second, b"GET"].concat();
            let expected = Progress { used: second.len(), header: Some(Some(ends.of_one_family())) };
            prop_assert_eq!(decoder.push(&rest), Ok(expected));
        }
    }
}
