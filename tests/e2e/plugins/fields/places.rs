//! Addresses that tables name before anything listens there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use socket2::{Domain, Socket, Type};
use tempfile::TempDir;
use tidegate_testkit::free_port;

use super::upstream::Upstream;

/// What the gateway's own tests fill in.
const OTHERS: [&str; 4] = ["HTTP", "ADMIN", "CONTROL", "METRICS"];

pub(super) struct Places {
    ports: RefCell<BTreeMap<String, u16>>,
    folder: TempDir,
    tls: Arc<ServerConfig>,
    /// Accepts by the system, and says nothing.
    silent: TcpListener,
    /// Connections that are never accepted and fill the backlog.
    full: RefCell<Vec<Socket>>,
}

/// Where a connection is neither made nor refused, as long as the sockets live.
pub(in crate::plugins) fn full() -> (SocketAddr, Vec<Socket>) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).expect("a port");
    listener.listen(0).expect("it listens");
    let address = listener.local_addr().expect("an address").as_socket().expect("of IPv4");
    let waiting = std::iter::from_fn(|| {
        TcpStream::connect_timeout(&address, Duration::from_millis(200)).ok().map(Socket::from)
    });
    let kept = waiting.collect::<Vec<_>>().into_iter().chain([listener]).collect();
    (address, kept)
}

impl Places {
    pub(super) fn new() -> Places {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".into()]).expect("a certificate");
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("cert.pem"), made.cert.pem()).expect("a file");
        fs::write(folder.path().join("key.pem"), made.signing_key.serialize_pem()).expect("a file");
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let mut known = RootCertStore::empty();
        known.add(made.cert.der().clone()).expect("a certificate");
        let clients = WebPkiClientVerifier::builder(Arc::new(known)).allow_unauthenticated().build();
        let config = ServerConfig::builder().with_client_cert_verifier(clients.expect("a verifier"));
        let config = config.with_single_cert(vec![made.cert.der().clone()], key).expect("a configuration");
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        Places { ports: RefCell::default(), folder, tls: Arc::new(config), silent, full: RefCell::default() }
    }

    pub(super) fn tls(&self) -> Arc<ServerConfig> {
        self.tls.clone()
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A file as a text between quotes.
    fn quoted(&self, file: &str) -> String {
        fs::read_to_string(self.folder().join(file)).expect("a file").replace('\n', "\\n")
    }

    /// A name always has the same port.
    pub(super) fn of(&self, name: &str) -> SocketAddr {
        let mut ports = self.ports.borrow_mut();
        let port = *ports.entry(name.to_owned()).or_insert_with(free_port);
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    pub(super) fn fill(&self, text: &str, [plain, secure]: &[Upstream; 2]) -> String {
        let silent = self.silent.local_addr().expect("an address");
        let known = [("UPSTREAM", plain.address), ("TLS", secure.address), ("SILENT", silent)];
        self.ports.borrow_mut().extend(known.map(|(name, at)| (name.to_owned(), at.port())));
        if text.contains("@FULL") {
            let (address, kept) = full();
            self.full.replace(kept);
            self.ports.borrow_mut().insert("FULL".to_owned(), address.port());
        }
        let mut parts = text.split('@');
        let mut filled = parts.next().unwrap_or_default().to_owned();
        while let Some(part) = parts.next() {
            let is_name = |part: &str| {
                !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
            };
            if !is_name(part) || OTHERS.contains(&part) {
                filled.push('@');
                filled.push_str(part);
                continue;
            }
            match part.strip_suffix("_PORT") {
                _ if part == "FOLDER" => filled.push_str(&self.folder().display().to_string()),
                _ if part == "CERT" => filled.push_str(&self.quoted("cert.pem")),
                _ if part == "KEY" => filled.push_str(&self.quoted("key.pem")),
                Some(name) => filled.push_str(&self.of(name).port().to_string()),
                None => filled.push_str(&self.of(part).to_string()),
            }
            filled.push_str(parts.next().unwrap_or_default());
        }
        filled
    }
}
