//! `ssl` resources: from PEM texts to what a handshake needs.

use std::{collections::BTreeMap, sync::Arc};

use model::{Kind, resources};
use plugin::certificates::{Certificates, ClientCheck, TlsServer};
use routing::expr::Pattern;
use rustls::{
    DigitallySignedStruct, DistinguishedName, RootCertStore, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
    client::danger::HandshakeSignatureValid,
    crypto::CryptoProvider,
    server::{
        ClientHello, ResolvesServerCert, WebPkiClientVerifier,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject};

use crate::{Compiler, Key};

/// The servers made so far, and the index of their names.
#[derive(Default)]
pub struct Servers {
    made: BTreeMap<Arc<str>, (Vec<String>, Arc<TlsServer>)>,
    index: Arc<Certificates>,
}

impl Servers {
    pub fn index(&self) -> Arc<Certificates> {
        self.index.clone()
    }

    pub fn reindex(&mut self) {
        let mut index = Certificates::default();
        for (names, server) in self.made.values() {
            for name in names {
                index.add(name, server);
            }
        }
        self.index = Arc::new(index);
    }
}

impl Compiler {
    /// Makes the server of an `ssl` object again; forgets it when there is none, or it is disabled or for clients.
    pub(crate) fn build_certificate(&mut self, key: &Key) {
        self.servers.made.remove(&key.1);
        let Some(object) = self.object(Kind::Ssl, &key.1).cloned() else { return };
        match self.certificate(key, &object.value) {
            Ok(Some(made)) => {
                self.servers.made.insert(key.1.clone(), made);
            }
            Ok(None) => {}
            Err(reason) => self.problem(key, reason),
        }
    }

    fn certificate(
        &self,
        key: &Key,
        value: &serde_json::Value,
    ) -> Result<Option<(Vec<String>, Arc<TlsServer>)>, String> {
        let mut value = value.clone();
        crate::secrets::resolve(&mut value, self.secrets.as_ref())?;
        let conf = resources::Ssl::from_value(&value)?;
        if conf.kind != "server" || conf.status == 0 {
            return Ok(None);
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let pairs = std::iter::once((&conf.cert, &conf.key)).chain(conf.certs.iter().zip(&conf.keys));
        let keys = pairs.map(|(cert, key)| certified_key(&provider, cert, key)).collect::<Result<_, _>>()?;
        let wanted =
            if conf.ssl_protocols.is_empty() { &self.options.tls_protocols } else { &conf.ssl_protocols };
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions(wanted)?)
            .map_err(|error| error.to_string())?;
        let client = conf.client.as_ref().map(|client| client_check(client, &provider)).transpose()?;
        let builder = match &client {
            None => builder.with_no_client_auth(),
            Some(check) if check.skip.is_empty() => builder.with_client_cert_verifier(check.verifier.clone()),
            Some(check) => builder.with_client_cert_verifier(Arc::new(Lenient(check.verifier.clone()))),
        };
        let mut config = builder.with_cert_resolver(Arc::new(Keys(keys)));
        config.alpn_protocols = alpn(self.options.http2);
        let server = TlsServer { id: key.1.clone(), config: Arc::new(config), client };
        Ok(Some((conf.sni.into_iter().chain(conf.snis).collect(), Arc::new(server))))
    }
}

/// What a client may choose from, best first.
fn alpn(http2: bool) -> Vec<Vec<u8>> {
    let offered: &[&str] = if http2 { &["h2", "http/1.1", "http/1.0"] } else { &["http/1.1", "http/1.0"] };
    offered.iter().map(|name| name.as_bytes().to_vec()).collect()
}

fn versions(names: &[String]) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    let mut versions = Vec::new();
    if names.iter().any(|name| name == "TLSv1.2") {
        versions.push(&TLS12);
    }
    if names.iter().any(|name| name == "TLSv1.3") {
        versions.push(&TLS13);
    }
    if versions.is_empty() {
        return Err("ssl_protocols: TLSv1.2 or TLSv1.3 has to be among them".to_owned());
    }
    Ok(versions)
}

/// The pair has been checked when it was written; a certificate older than X.509 v3 serves as well.
fn certified_key(provider: &CryptoProvider, cert: &str, key: &str) -> Result<Arc<CertifiedKey>, String> {
    let chain = CertificateDer::pem_slice_iter(cert.as_bytes())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| format!("failed to parse cert: {error}"))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
        .map_err(|error| format!("failed to parse key: {error}"))?;
    let key = provider.key_provider.load_private_key(key).map_err(|error| format!("key: {error}"))?;
    Ok(Arc::new(CertifiedKey::new(chain, key)))
}

fn client_check(
    client: &resources::SslClient,
    provider: &Arc<CryptoProvider>,
) -> Result<ClientCheck, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(client.ca.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("client.ca: {error}"))?;
        roots.add(certificate).map_err(|error| format!("client.ca: {error}"))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| format!("client.ca: {error}"))?;
    let skip = client.skip_mtls_uri_regex.iter();
    let skip = skip
        .map(|pattern| {
            Pattern::new(pattern, false)
                .ok_or_else(|| format!("client.skip_mtls_uri_regex: {pattern} is no regular expression"))
        })
        .collect::<Result<_, _>>()?;
    Ok(ClientCheck { verifier, skip })
}

/// A resource's pairs: the first that the client can use.
#[derive(Debug)]
struct Keys(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for Keys {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let usable = |key: &&Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        self.0.iter().find(usable).or(self.0.first()).cloned()
    }
}

/// Lets everybody finish the handshake, with proof of the key; whether the certificate will do is judged per request.
#[derive(Debug)]
struct Lenient(Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Lenient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, cert, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, cert, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
