//! Opening connections, with TLS when wanted.

use std::sync::Arc;

use parking_lot::Mutex;
use plugin::host;
use rustc_hash::FxHashMap;
use rustls::{
    ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::CryptoProvider,
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime, pem::PemObject};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::Endpoint;

/// What distinguishes two TLS settings.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TlsWanted {
    pub verify: bool,
    /// PEM of the certificate chain and key shown to the server.
    pub client: Option<(String, String)>,
}

impl Default for TlsWanted {
    fn default() -> TlsWanted {
        TlsWanted { verify: true, client: None }
    }
}

pub enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Without a time limit of its own: the caller has one.
pub async fn connect(endpoint: &Endpoint, tls: &TlsWanted) -> Result<Transport, String> {
    let Endpoint { host, port, .. } = endpoint;
    let stream = TcpStream::connect((host.as_str(), *port))
        .await
        .map_err(|error| format!("failed to connect to {host}:{port}: {error}"))?;
    let _ = stream.set_nodelay(true);
    if !endpoint.tls {
        return Ok(Transport::Plain(stream));
    }
    let name = ServerName::try_from(host.clone()).map_err(|error| format!("{host}: {error}"))?;
    let connector = TlsConnector::from(tls_config(tls)?);
    let stream = connector
        .connect(name, stream)
        .await
        .map_err(|error| format!("TLS handshake with {host}:{port} failed: {error}"))?;
    Ok(Transport::Tls(Box::new(stream)))
}

/// Made once per setting: a configuration keeps its session tickets.
pub fn tls_config(wanted: &TlsWanted) -> Result<Arc<ClientConfig>, String> {
    /// More settings than any installation has; past that they are made again.
    const MAX_SETTINGS: usize = 256;
    static MADE: Mutex<Option<FxHashMap<TlsWanted, Arc<ClientConfig>>>> = Mutex::new(None);
    if let Some(made) = MADE.lock().get_or_insert_default().get(wanted) {
        return Ok(made.clone());
    }
    let config = Arc::new(make(wanted)?);
    let mut made = MADE.lock();
    let made = made.get_or_insert_default();
    if made.len() >= MAX_SETTINGS {
        made.clear();
    }
    made.insert(wanted.clone(), config.clone());
    Ok(config)
}

fn make(wanted: &TlsWanted) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = if wanted.verify {
        builder.with_root_certificates(roots()?)
    } else {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
    };
    match &wanted.client {
        None => Ok(builder.with_no_client_auth()),
        Some((chain, key)) => {
            let chain = CertificateDer::pem_slice_iter(chain.as_bytes())
                .collect::<Result<Vec<_>, _>>()
                .map_err(|error| format!("client certificate: {error}"))?;
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
                .map_err(|error| format!("client key: {error}"))?;
            builder.with_client_auth_cert(chain, key).map_err(|error| format!("client certificate: {error}"))
        }
    }
}

const SYSTEM_CERTIFICATES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// The authorities of `apisix.ssl.ssl_trusted_certificate`: files separated by commas, `system` for the system's.
fn roots() -> Result<RootCertStore, String> {
    let configured = host()
        .and_then(|host| host.settings.pointer("/apisix/ssl/ssl_trusted_certificate")?.as_str())
        .unwrap_or("system");
    let mut roots = RootCertStore::empty();
    for path in configured.split(',').map(str::trim) {
        let path = match path {
            "system" => SYSTEM_CERTIFICATES
                .iter()
                .map(std::path::PathBuf::from)
                .find(|path| path.exists())
                .ok_or("no certificate authorities found: set apisix.ssl.ssl_trusted_certificate")?,
            path => host().map_or_else(|| path.into(), |host| host.prefix.join(path)),
        };
        let pem = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // A bundle may hold certificates that are too old for the library; the others serve.
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(&pem).filter_map(Result::ok));
    }
    Ok(roots)
}

/// `ssl_verify: false`: encrypts, trusts anybody.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
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
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
