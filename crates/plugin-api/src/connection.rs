//! The client's connection, as requests on it see it.

use std::{
    any::Any,
    cell::{Cell, OnceCell},
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
};

pub use tidegate_protocol::proxy_protocol::ProxyHeader;

use crate::{
    certificates::{ClientVerdict, TlsServer},
    variables::ClientCertificate,
};

/// Facts of the client's connection, the same for all its requests.
#[derive(Debug)]
pub struct ConnectionInfo {
    /// `$connection`: counts up within the process.
    pub id: u64,
    /// The other end of the socket, which may be a balancer.
    pub peer: SocketAddr,
    /// This end of the socket.
    pub local: SocketAddr,
    /// The client of the outer request, for inner ones (see [`crate::inner`]), never taken from a header. Boxed, as the
    /// next ones: plain connections do not carry the size.
    pub inner_client: Option<Box<SocketAddr>>,
    /// `None` in clear text.
    pub tls: Option<Rc<TlsFacts>>,
    /// Addresses from the PROXY protocol header.
    pub proxy_header: Option<Box<ProxyHeader>>,
    /// Requests begun so far: `$connection_requests`.
    pub requests: Cell<u64>,
    /// Set by the request path: dropped once the connection and all its requests have ended. Boxed twice: most have none, and a thin
    /// pointer keeps these facts, with their counts, in 128 bytes.
    pub at_end: OnceCell<Box<Box<dyn Any>>>,
}

/// What the handshake settled.
#[derive(Debug, Default)]
pub struct TlsFacts {
    /// SNI as the client sent it (RFC 6066 section 3).
    pub server_name: Option<String>,
    /// As `$ssl_protocol`: `TLSv1.3`.
    pub protocol: &'static str,
    /// As `$ssl_cipher`, in OpenSSL's words.
    pub cipher: String,
    /// DER of the client's certificate, verified or not: see `client_verdict`.
    pub client_certificate: Option<Vec<u8>>,
    /// The protocol chosen by ALPN (RFC 7301).
    pub alpn: Option<Vec<u8>>,
    /// Of the client's certificate.
    pub client_verdict: ClientVerdict,
    /// The `ssl` resource of the handshake.
    pub server: Option<Arc<TlsServer>>,
    /// See [`TlsFacts::client`].
    pub client: OnceCell<Option<Box<ClientCertificate>>>,
}

impl TlsFacts {
    /// The client's certificate for `$ssl_client_*`, read when it is first asked for.
    pub fn client(&self) -> Option<&ClientCertificate> {
        let read = || ClientCertificate::of(self.client_certificate.as_deref()?).map(Box::new);
        self.client.get_or_init(read).as_deref()
    }
}
