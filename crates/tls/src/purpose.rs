//! The purpose that a peer's certificate must have.

use std::fmt;

use der::asn1::ObjectIdentifier;

/// The purpose that a peer's certificate must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A server that the gateway connects to.
    Server,
    /// A client of one of the gateway's ports.
    Client,
}

impl fmt::Display for Purpose {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Purpose::Server => "serverAuth",
            Purpose::Client => "clientAuth",
        })
    }
}

impl Purpose {
    pub(crate) fn usage(self) -> webpki::KeyUsage {
        match self {
            Purpose::Server => webpki::KeyUsage::server_auth(),
            Purpose::Client => webpki::KeyUsage::client_auth(),
        }
    }

    pub(super) fn id(self) -> ObjectIdentifier {
        match self {
            Purpose::Server => ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.1"),
            Purpose::Client => ObjectIdentifier::new_unwrap("1.3.6.1.5.5.7.3.2"),
        }
    }
}
