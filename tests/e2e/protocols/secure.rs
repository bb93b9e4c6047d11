//! A TLS client whose every choice a test can make, and see what came of it.

use std::{
    fmt,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, HandshakeKind, SignatureScheme, StreamOwned,
    SupportedProtocolVersion,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject},
};
use tidegate_testkit::PATIENCE;

use crate::protocols::certs::Pair;

/// What a client offers. It takes any certificate and shows which one it got.
pub(crate) struct Offer {
    pub versions: &'static [&'static SupportedProtocolVersion],
    pub schemes: Option<&'static [SignatureScheme]>,
    pub send_name: bool,
}

impl Default for Offer {
    fn default() -> Self {
        Offer { versions: rustls::ALL_VERSIONS, schemes: None, send_name: true }
    }
}

impl Offer {
    pub(crate) fn config(&self, shown: Option<&Pair>) -> Arc<ClientConfig> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = Anybody {
            algorithms: provider.signature_verification_algorithms,
            schemes: self.schemes.map(<[_]>::to_vec),
        };
        let builder = ClientConfig::builder_with_provider(Arc::<CryptoProvider>::clone(&provider))
            .with_protocol_versions(self.versions)
            .expect("the provider has the versions")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match shown {
            None => builder.with_no_client_auth(),
            Some(pair) => {
                let chain = CertificateDer::pem_slice_iter(pair.cert.as_bytes());
                let chain = chain.collect::<Result<Vec<_>, _>>().expect("certificates");
                let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a key");
                builder.with_client_auth_cert(chain, key).expect("a pair")
            }
        };
        config.enable_sni = self.send_name;
        Arc::new(config)
    }
}

pub(crate) struct Secure {
    stream: StreamOwned<ClientConnection, TcpStream>,
}

impl Secure {
    /// Connects and finishes the handshake.
    pub(crate) fn connect(
        address: SocketAddr,
        name: &str,
        config: &Arc<ClientConfig>,
    ) -> Result<Self, String> {
        let name = ServerName::try_from(name.to_owned()).expect("a server name");
        let connection = ClientConnection::new(Arc::clone(config), name).map_err(text)?;
        let socket = TcpStream::connect(address).map_err(text)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(text)?;
        let mut stream = StreamOwned::new(connection, socket);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock).map_err(text)?;
        }
        Ok(Secure { stream })
    }

    /// Sends a request and reads its answer, whose body has a length.
    pub(crate) fn get(&mut self, host: &str, path: &str) -> Result<String, String> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        self.stream.write_all(request.as_bytes()).map_err(text)?;
        let mut answer = Vec::new();
        loop {
            let mut piece = [0; 4096];
            let count = self.stream.read(&mut piece).map_err(text)?;
            if count == 0 {
                return Err(format!("closed after {:?}", String::from_utf8_lossy(&answer)));
            }
            answer.extend_from_slice(&piece[..count]);
            let so_far = String::from_utf8_lossy(&answer);
            let Some((head, body)) = so_far.split_once("\r\n\r\n") else { continue };
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            if length.and_then(|length| length.parse().ok()).is_none_or(|length: usize| body.len() >= length)
            {
                return Ok(so_far.into_owned());
            }
        }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(text)?;
        self.stream.flush().map_err(text)
    }

    /// Reads to the end of this text.
    pub(crate) fn until(&mut self, end: &[u8]) -> Result<Vec<u8>, String> {
        let mut read = Vec::new();
        while !read.ends_with(end) {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).map_err(text)?;
            read.extend(byte);
        }
        Ok(read)
    }

    /// Sends bytes and reads as many, never more than a little ahead of what came back.
    pub(crate) fn echo(&mut self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        const AHEAD: usize = 64 * 1024;
        let mut back = vec![0; bytes.len()];
        let (mut sent, mut received) = (0, 0);
        while received < back.len() {
            let next = bytes.len().min(received + AHEAD);
            if sent < next {
                self.send(&bytes[sent..next])?;
                sent = next;
            }
            match self.stream.read(&mut back[received..]).map_err(text)? {
                0 => return Err(format!("closed after {received} bytes")),
                count => received += count,
            }
        }
        Ok(back)
    }

    pub(crate) fn resumed(&self) -> bool {
        self.stream.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The certificate that the server showed.
    pub(crate) fn certificate(&self) -> Option<Vec<u8>> {
        self.stream.conn.peer_certificates().and_then(|chain| chain.first()).map(|cert| cert.to_vec())
    }

    pub(crate) fn shows(&self, pair: &Pair) -> bool {
        let wanted = CertificateDer::from_pem_slice(pair.cert.as_bytes()).expect("a certificate");
        self.certificate().as_deref() == Some(&*wanted)
    }
}

fn text(error: impl fmt::Display) -> String {
    error.to_string()
}

#[derive(Debug)]
struct Anybody {
    algorithms: WebPkiSupportedAlgorithms,
    schemes: Option<Vec<SignatureScheme>>,
}

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone().unwrap_or_else(|| self.algorithms.supported_schemes())
    }
}
