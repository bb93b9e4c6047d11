//! The options in the `Connection` fields of a message.

use crate::{Head, HeaderId, Version};

/// The options of the `Connection` field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionOptions {
    /// `close`
    pub close: bool,
    /// `keep-alive`, which HTTP/1.0 needs to persist
    pub keep_alive: bool,
    /// `upgrade`
    pub upgrade: bool,
    /// Names other headers that must not be forwarded.
    pub nominates: bool,
}

impl ConnectionOptions {
    /// Reads all fields of the name; other options are names of hop-by-hop fields.
    pub fn of(headers: &Head) -> ConnectionOptions {
        let mut options = ConnectionOptions::default();
        for value in headers.all_known(HeaderId::Connection) {
            match value {
                // What nearly all senders write.
                b"keep-alive" => {
                    options.keep_alive = true;
                    continue;
                }
                b"close" => {
                    options.close = true;
                    continue;
                }
                _ => {}
            }
            for token in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                if token.eq_ignore_ascii_case(b"close") {
                    options.close = true;
                } else if token.eq_ignore_ascii_case(b"keep-alive") {
                    options.keep_alive = true;
                } else if token.eq_ignore_ascii_case(b"upgrade") {
                    options.upgrade = true;
                } else if !token.is_empty() {
                    options.nominates = true;
                }
            }
        }
        options
    }

    /// Whether another message may follow on the connection (RFC 9112 section 9.3).
    pub fn persists(self, version: Version) -> bool {
        !self.close && (version >= Version::Http11 || self.keep_alive)
    }
}
