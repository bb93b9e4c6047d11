//! The options in the `Connection` fields of a message.

use crate::{Head, HeaderId, Version};

/// The options of the `Connection` field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionOptions {
    pub close: bool,
    pub keep_alive: bool,
    pub upgrade: bool,
    /// Names other headers that must not be forwarded.
    pub nominates: bool,
}

impl ConnectionOptions {
    pub fn of(headers: &Head) -> ConnectionOptions {
        let mut options = ConnectionOptions::default();
        for value in headers.all_known(HeaderId::Connection) {
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

    pub fn persists(self, version: Version) -> bool {
        !self.close && (version >= Version::Http11 || self.keep_alive)
    }
}
