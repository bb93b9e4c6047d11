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
    /// `None` in clear text.
    pub tls: Option<Rc<TlsFacts>>,
    /// Requests begun so far: `$connection_requests`.
    pub requests: Cell<u64>,
    /// Apart: plain connections do not carry the size, and these facts, with their counts, fit into 112 bytes.
    pub rare: Rare,
}

/// What few connections have.
#[derive(Debug, Default)]
pub struct Rare(OnceCell<Box<RareFacts>>);

#[derive(Debug, Default)]
struct RareFacts {
    inner_client: Option<SocketAddr>,
    proxy_header: Option<ProxyHeader>,
    at_end: OnceCell<Box<dyn Any>>,
}

impl Rare {
    /// Of a connection with, perhaps, a PROXY protocol header.
    pub fn announced(proxy_header: Option<ProxyHeader>) -> Rare {
        Rare::of(None, proxy_header)
    }

    /// Of a connection of the gateway to itself, for a client (see [`crate::inner`]).
    pub(crate) fn inner(client: SocketAddr, proxy_header: Option<ProxyHeader>) -> Rare {
        Rare::of(Some(client), proxy_header)
    }

    fn of(inner_client: Option<SocketAddr>, proxy_header: Option<ProxyHeader>) -> Rare {
        match (inner_client, proxy_header) {
            (None, None) => Rare::default(),
            _ => Rare(Box::new(RareFacts { inner_client, proxy_header, at_end: OnceCell::new() }).into()),
        }
    }
}

impl ConnectionInfo {
    /// The client of the outer request, for inner ones (see [`crate::inner`]), never taken from a header.
    pub fn inner_client(&self) -> Option<SocketAddr> {
        self.rare.0.get()?.inner_client
    }

    /// Addresses from the PROXY protocol header.
    pub fn proxy_header(&self) -> Option<&ProxyHeader> {
        self.rare.0.get()?.proxy_header.as_ref()
    }

    /// Keeps the first thing that `make` makes until the connection and all its requests have ended.
    pub fn drop_at_end(&self, make: impl FnOnce() -> Box<dyn Any>) {
        self.rare.0.get_or_init(Box::default).at_end.get_or_init(make);
    }
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
