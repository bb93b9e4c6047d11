//! `ssl` resources: from PEM texts to what a handshake needs.

pub mod ciphers;
mod client;
mod expiry;
mod sessions;

use std::{collections::BTreeMap, sync::Arc};

use model::{Kind, resources};
use plugin::{
    MISFIT,
    certificates::{Certificates, Expiry, Pair, Stapling, TlsServer},
};
use rustls::{
    ServerConfig, SignatureAlgorithm, SupportedProtocolVersion,
    crypto::CryptoProvider,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};

use self::{client::Lenient, sessions::Sessions};
use crate::{Compiler, Key};

/// The servers made so far, and the index of their names.
pub struct Servers {
    made: BTreeMap<Arc<str>, Made>,
    sessions: Sessions,
    index: Arc<Certificates>,
}

/// What became of one `ssl` resource.
struct Made {
    names: Vec<String>,
    server: Server,
    expiries: Vec<Expiry>,
}

enum Server {
    Usable(Arc<TlsServer>),
    /// It could not be made. Another resource must not show its certificate in its place, nor forget to ask for one.
    Unusable,
    /// A certificate of ours to show to upstreams.
    None,
}

impl Servers {
    /// `tickets`: `apisix.ssl.ssl_session_tickets`.
    pub fn new(tickets: bool) -> Servers {
        Servers { made: BTreeMap::new(), sessions: Sessions::new(tickets), index: Arc::default() }
    }

    /// Takes over what sessions are sealed with.
    pub fn keep_sessions(&mut self, other: Servers) {
        self.sessions = other.sessions;
    }

    pub fn index(&self) -> Arc<Certificates> {
        self.index.clone()
    }

    pub fn reindex(&mut self) {
        let mut index = Certificates::default();
        for (id, made) in &self.made {
            for name in &made.names {
                match &made.server {
                    Server::Usable(server) => index.add(name, server),
                    Server::Unusable => index.add_unusable(name, id),
                    Server::None => {}
                }
            }
            index.expiries.extend_from_slice(&made.expiries);
            if let Server::Usable(server) = &made.server
                && server.stapling.is_some()
            {
                index.stapled.push(server.clone());
            }
        }
        self.index = Arc::new(index);
    }
}

impl Compiler {
    /// Makes the server of an `ssl` object again; forgets it when there is none, or it is disabled.
    pub(crate) fn build_certificate(&mut self, key: &Key) {
        self.servers.made.remove(&key.1);
        let Some(object) = self.object(Kind::Ssl, &key.1).cloned() else { return };
        let made = match &object.fault {
            None => self.certificate(key, &object.value()),
            Some(fault) => Err(fault.to_string()),
        };
        match made {
            Ok(Some(made)) => {
                self.servers.made.insert(key.1.clone(), made);
            }
            Ok(None) => {}
            Err(reason) => {
                let made =
                    Made { names: names_of(&object.value()), server: Server::Unusable, expiries: Vec::new() };
                self.servers.made.insert(key.1.clone(), made);
                self.problem(key, reason);
            }
        }
    }

    fn certificate(&mut self, key: &Key, value: &serde_json::Value) -> Result<Option<Made>, String> {
        let mut value = value.clone();
        // What is off is not looked at.
        if value.get("status").and_then(serde_json::Value::as_u64) == Some(0) {
            return Ok(None);
        }
        let waits = self.resolve(&mut value)?;
        let conf = resources::Ssl::from_value(&value).map_err(|reason| format!("{MISFIT}: {reason}"))?;
        let made = self.pairs(key, &conf);
        self.excuse(made, waits)
    }

    fn pairs(&mut self, key: &Key, conf: &resources::Ssl) -> Result<Made, String> {
        let mut provider = rustls::crypto::aws_lc_rs::default_provider();
        ciphers::limit(&mut provider, &self.options.tls_ciphers);
        let provider = Arc::new(provider);
        let pairs = std::iter::once((&conf.cert, &conf.key)).chain(conf.certs.iter().zip(&conf.keys));
        let keys = pairs.map(|(cert, key)| trust::certified_key(&provider, cert.as_bytes(), key.as_bytes()));
        let keys: Vec<_> = keys.collect::<Result<_, _>>()?;
        let names: Vec<String> = conf.sni.iter().chain(&conf.snis).cloned().collect();
        let expiries = expiry::of(&key.1, names.first().map_or("", String::as_str), &keys);
        let server = match conf.kind.as_str() {
            "server" => Server::Usable(Arc::new(self.server(key, conf, keys, provider)?)),
            _ => Server::None,
        };
        Ok(Made { names, server, expiries })
    }

    fn server(
        &mut self,
        key: &Key,
        conf: &resources::Ssl,
        keys: Vec<CertifiedKey>,
        provider: Arc<CryptoProvider>,
    ) -> Result<TlsServer, String> {
        let pairs: Vec<Arc<Pair>> = keys.into_iter().map(|key| Arc::new(Pair::new(key))).collect();
        let wanted =
            if conf.ssl_protocols.is_empty() { &self.options.tls_protocols } else { &conf.ssl_protocols };
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions(wanted)?)
            .map_err(|error| error.to_string())?;
        let client = conf.client.as_ref().map(|client| client::check(client, &provider)).transpose()?;
        let builder = match &client {
            None => builder.with_no_client_auth(),
            Some(check) if check.skip.is_empty() => builder.with_client_cert_verifier(check.verifier.clone()),
            Some(check) => builder.with_client_cert_verifier(Arc::new(Lenient(check.verifier.clone()))),
        };
        let mut config = builder.with_cert_resolver(Arc::new(Keys::new(pairs.clone())));
        config.alpn_protocols = alpn(self.options.http2);
        self.servers.sessions.attach(&mut config, conf.client.as_ref())?;
        let stapling = conf.ocsp_stapling.as_ref().filter(|stapling| stapling.enabled);
        let stapling = stapling.map(|stapling| Stapling {
            skip_verify: stapling.skip_verify,
            cache_seconds: stapling.cache_ttl,
        });
        Ok(TlsServer { id: key.1.clone(), config: Arc::new(config), client, pairs, stapling })
    }
}

/// The server names of a resource that cannot be read as a whole; none of one for upstreams, or one that is off.
fn names_of(value: &serde_json::Value) -> Vec<String> {
    let is = |field: &str, expected: serde_json::Value| value.get(field) == Some(&expected);
    if is("status", 0.into()) || is("type", "client".into()) {
        return Vec::new();
    }
    let several = value.get("snis").and_then(serde_json::Value::as_array);
    let names = value.get("sni").into_iter().chain(several.into_iter().flatten());
    names.filter_map(serde_json::Value::as_str).map(str::to_owned).collect()
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

/// A resource's pairs: the first that the client can use. Those with the cheaper signature come first.
#[derive(Debug)]
struct Keys(Vec<Arc<Pair>>);

impl Keys {
    fn new(mut pairs: Vec<Arc<Pair>>) -> Keys {
        pairs.sort_by_key(|pair| pair.key().key.algorithm() == SignatureAlgorithm::RSA);
        Keys(pairs)
    }
}

impl ResolvesServerCert for Keys {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let mut keys = self.0.iter().map(|pair| pair.key());
        let usable = |key: &Arc<CertifiedKey>| key.key.choose_scheme(hello.signature_schemes()).is_some();
        keys.find(usable).or_else(|| self.0.first().map(|pair| pair.key()))
    }
}
