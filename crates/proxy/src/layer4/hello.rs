//! The server name in the first bytes of a connection whose TLS does not end here.

use rustls::server::Acceptor;

/// What the bytes so far say.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Hello {
    /// They are the beginning of a ClientHello.
    Incomplete,
    /// In lower case.
    Name(String),
    /// No TLS, or no name in it.
    Nameless,
}

/// The first byte of a TLS handshake.
const HANDSHAKE: u8 = 22;

pub(super) fn read(seen: &[u8]) -> Hello {
    match seen.first() {
        None => return Hello::Incomplete,
        Some(&HANDSHAKE) => {}
        Some(_) => return Hello::Nameless,
    }
    let (mut acceptor, mut rest) = (Acceptor::default(), seen);
    while !rest.is_empty() {
        if !matches!(acceptor.read_tls(&mut rest), Ok(1..)) {
            return Hello::Nameless;
        }
        match acceptor.accept() {
            Ok(None) => {}
            Ok(Some(accepted)) => {
                let name = accepted
                    .client_hello()
                    .server_name()
                    .map(|name| name.trim_end_matches('.').to_ascii_lowercase());
                return name.map_or(Hello::Nameless, Hello::Name);
            }
            Err(_) => return Hello::Nameless,
        }
    }
    Hello::Incomplete
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn hello(name: &str) -> Vec<u8> {
        let config = tidegate_tls::client_config(tidegate_tls::Trust::Anybody, None).unwrap();
        let name = name.to_owned().try_into().unwrap();
        let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn names_are_found_however_the_bytes_are_cut() {
        let bytes = hello("Name.test");
        for cut in 0..bytes.len() {
            assert_eq!(read(&bytes[..cut]), Hello::Incomplete, "{cut}");
        }
        assert_eq!(read(&bytes), Hello::Name("name.test".to_owned()));
        assert_eq!(read(b"SSH-2.0"), Hello::Nameless);
        assert_eq!(read(&[22, 3, 1, 0, 4, 2, 0, 0, 0]), Hello::Nameless, "another message of a handshake");
    }
}
