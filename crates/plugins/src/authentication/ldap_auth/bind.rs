//! The one LDAP operation needed (RFC 4511, 4.2): a simple bind, in the few forms of BER it takes.

use tidegate_clients::http::{Endpoint, TlsWanted, Transport, connect};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::common::ber::{LONGEST_BYTES, element, read_element};

/// There is one request on a connection.
const MESSAGE_ID: u8 = 1;

pub(super) async fn bind(
    endpoint: &Endpoint,
    tls: &TlsWanted,
    dn: &str,
    password: &str,
) -> Result<(), String> {
    match connect(endpoint, tls).await? {
        Transport::Plain(stream) => exchange(stream, dn, password).await,
        Transport::Tls(stream) => exchange(stream, dn, password).await,
    }
}

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    dn: &str,
    password: &str,
) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("connection to the LDAP server failed: {error}");
    stream.write_all(&bind_request(dn, password)).await.map_err(failed)?;
    let mut response = Vec::new();
    loop {
        if let Some(code) = result_code(&response)? {
            return if code == 0 { Ok(()) } else { Err(format!("bind refused with result code {code}")) };
        }
        if response.len() > LONGEST_BYTES {
            return Err("bind response is too long".to_owned());
        }
        if stream.read_buf(&mut response).await.map_err(failed)? == 0 {
            return Err("the LDAP server closed the connection".to_owned());
        }
    }
}

/// `LDAPMessage { messageID 1, BindRequest { version 3, name, simple } }`
fn bind_request(dn: &str, password: &str) -> Vec<u8> {
    let mut bind = vec![0x02, 1, 3];
    element(&mut bind, 0x04, dn.as_bytes());
    element(&mut bind, 0x80, password.as_bytes());
    let mut message = vec![0x02, 1, MESSAGE_ID];
    element(&mut message, 0x60, &bind);
    let mut out = Vec::new();
    element(&mut out, 0x30, &message);
    out
}

/// The result code of a bind response; `None` while it is not complete.
fn result_code(bytes: &[u8]) -> Result<Option<u8>, String> {
    let malformed = || "malformed bind response".to_owned();
    let Some((message, _)) = read_element(bytes, 0x30)? else { return Ok(None) };
    let (id, rest) = read_element(message, 0x02)?.ok_or_else(malformed)?;
    if id.iter().skip_while(|&&digit| digit == 0).copied().ne([MESSAGE_ID]) {
        return Err("bind response to a request that was not sent".to_owned());
    }
    let (response, _) = read_element(rest, 0x61)?.ok_or_else(malformed)?;
    let (code, _) = read_element(response, 0x0a)?.ok_or_else(malformed)?;
    match code {
        [code] => Ok(Some(*code)),
        _ => Err(malformed()),
    }
}

/// A value within a DN (RFC 4514, 2.4).
pub(super) fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let last = value.chars().count().saturating_sub(1);
    for (at, c) in value.chars().enumerate() {
        match c {
            '\0' => out.push_str("\\00"),
            '"' | '+' | ',' | ';' | '<' | '>' | '\\' | '=' => out.extend(['\\', c]),
            '#' if at == 0 => out.push_str("\\#"),
            ' ' if at == 0 || at == last => out.push_str("\\ "),
            _ => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests() {
        let expected = [&[0x30, 15, 2, 1, 1, 0x60, 10, 2, 1, 3, 4, 2][..], b"cn", &[0x80, 1], b"p"].concat();
        assert_eq!(bind_request("cn", "p"), expected);
        assert_eq!(bind_request(&"x".repeat(200), "p")[..2], [0x30, 0x84]);
    }

    #[test]
    fn responses() {
        let response = |code: u8| vec![0x30, 12, 2, 1, 1, 0x61, 7, 0x0a, 1, code, 4, 0, 4, 0];
        assert_eq!(result_code(&response(0)), Ok(Some(0)));
        assert_eq!(result_code(&response(49)), Ok(Some(49)));
        for length in 0..14 {
            assert_eq!(result_code(&response(0)[..length]), Ok(None), "{length} bytes");
        }
        let other = [&[0x30, 12, 2, 1, 2][..], &response(0)[5..]].concat();
        assert!(result_code(&other).is_err(), "another message");
        for bytes in [&[0x31, 0][..], &[0x30, 0x80], &[0x30, 0x84, 255, 255, 255, 255], &[0x30, 2, 2, 9]] {
            assert!(result_code(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn escapes() {
        let cases =
            [("foo", "foo"), ("a,b=c", "a\\,b\\=c"), ("#a#", "\\#a#"), (" a ", "\\ a\\ "), ("\\", "\\\\")];
        for (value, expected) in cases {
            assert_eq!(escape(value), expected);
        }
    }
}
