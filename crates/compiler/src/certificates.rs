//! `ssl` resources: from PEM texts to what a handshake needs.

pub(crate) mod ciphers;
mod client;
mod expiry;
pub(crate) mod servers;
mod session_cache;
mod sessions;

use std::sync::Arc;

use rustls::{
    ServerConfig, SignatureAlgorithm, SupportedProtocolVersion,
    crypto::CryptoProvider,
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use serde_json::{Map, Value};
use tidegate_model::{
    Kind,
    check::{may_mean_server_name, server_name_fault},
    resources, schemas,
};
use tidegate_plugin_api::{
    MISFIT,
    certificates::{Pair, Stapling, TlsServer},
};
use tidegate_telemetry::error_log::Level;
use tidegate_tls::PairError;

use self::client::{Asking, Lenient};
use crate::{
    Compiler,
    certificates::servers::{Made, Server},
    object::Key,
};

impl Compiler {
    /// Makes the server of an `ssl` object again; forgets it when there is none, or it is disabled.
    pub(crate) fn build_certificate(&mut self, key: &Key) {
        let before = self.servers.made.remove(&key.1);
        let Some(object) = self.object(Kind::Ssl, &key.1).cloned() else { return };
        let made = match &object.fault {
            None => self.certificate(key, &object.value()),
            Some(fault) => Err(fault.reason.to_string()),
        };
        match made {
            Ok(Some(made)) => {
                self.servers.made.insert(key.1.clone(), made);
            }
            Ok(None) => {}
            Err(reason) => {
                let value = object.place();
                let Some(names) = names_of(&value) else {
                    return self.problem(key, reason);
                };
                let (names, is_nameless) = names.with_those_of(before);
                let asks = asks(&value);
                let server = Server::Unusable { asks, is_nameless };
                self.servers.made.insert(key.1.clone(), Made { names, server, expiries: Vec::new() });
                self.problem(key, reason);
                if asks && is_nameless {
                    self.problem(key, NAMELESS.to_owned());
                }
            }
        }
    }

    fn certificate(&mut self, key: &Key, value: &Value) -> Result<Option<Made>, String> {
        let mut value = value.clone();
        // What is off is not looked at.
        if value.get("status").and_then(Value::as_u64) == Some(0) {
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
        let keys =
            pairs.map(|(cert, key)| tidegate_tls::certified_key(&provider, cert.as_bytes(), key.as_bytes()));
        let keys: Vec<_> = keys.collect::<Result<_, _>>().map_err(|error: PairError| error.to_string())?;
        let names: Vec<String> = conf.sni.iter().chain(&conf.snis).cloned().collect();
        if conf.kind == "server"
            && let Some(fault) = names.iter().find_map(|name| server_name_fault(name))
        {
            return Err(fault);
        }
        let expiries = expiry::of(&key.1, names.first().map_or("", String::as_str), &keys);
        if conf.kind == "server" {
            let remarks = expiry::remarks(&names, &keys).into_iter();
            remarks.for_each(|remark| self.remark(key, Level::Warn, remark));
        }
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
            Some(check) if check.skip.is_empty() => {
                builder.with_client_cert_verifier(Arc::new(Asking(check.verifier.clone())))
            }
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

/// Why names with another certificate are shut as well.
const NAMELESS: &str = "some of its server names cannot be read, and it may require client certificates: \
names without another certificate are shut until it is fixed";

/// The server names of a resource that cannot be read as a whole.
#[derive(Default)]
struct Names {
    found: Vec<String>,
    /// Something that is not a name stands in place of one.
    has_unreadable: bool,
}

/// `None` for a resource for upstreams, or one that is off.
fn names_of(value: &Value) -> Option<Names> {
    let is = |field: &str, expected: Value| value.get(field) == Some(&expected);
    if is("status", 0.into()) || is("type", "client".into()) {
        return None;
    }
    let mut names = Names::default();
    ["sni", "snis"].into_iter().filter_map(|field| value.get(field)).for_each(|value| names.read(value));
    for (_, value) in schemas::unknown_fields(Kind::Ssl, value) {
        // One that is misspelled, most likely.
        names.read(value);
        names.has_unreadable = true;
    }
    Some(names)
}

impl Names {
    /// The texts of a value, however deep: what looks like a name in the wrong place is one.
    fn read(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                // Whatever may be meant by a text is shut; only one that is a name is all of what it means.
                for part in text.split(',').map(str::trim) {
                    self.has_unreadable |= part.is_empty() || server_name_fault(part).is_some();
                    for word in part.split_whitespace().filter(|word| may_mean_server_name(word)) {
                        self.found.extend(meant(word));
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.read(item)),
            Value::Object(fields) => fields.values().for_each(|field| self.read(field)),
            _ => self.has_unreadable = true,
        }
    }

    /// With names that cannot be read, those that the resource had before stay. Whether that leaves some unknown.
    fn with_those_of(self, before: Option<Made>) -> (Vec<String>, bool) {
        let Names { mut found, has_unreadable } = self;
        if !has_unreadable && !found.is_empty() {
            return (found, false);
        }
        let was_known = |made: &Made| match made.server {
            Server::Unusable { is_nameless, .. } => !is_nameless,
            _ => true,
        };
        let is_known = before.as_ref().is_some_and(was_known);
        let before = before.into_iter().flat_map(|made| made.names);
        let added: Vec<String> = before.filter(|name| !found.contains(name)).collect();
        found.extend(added);
        (found, !is_known)
    }
}

/// The names that a word may stand for.
fn meant(word: &str) -> Vec<String> {
    if server_name_fault(word).is_none() {
        return vec![word.to_owned()];
    }
    let host = word.trim_start_matches(['*', '.', '[']).split([':', ']']).next().unwrap_or_default();
    let all = [word.to_owned(), host.to_owned(), format!("*.{host}")];
    all.into_iter().filter(|name| !host.is_empty() || name == word).collect()
}

/// Whether a resource that cannot be read as a whole asks for client certificates. One of which nothing can be read may.
fn asks(value: &Value) -> bool {
    let is_empty = |fields: &Map<String, Value>| fields.keys().all(|field| field == "id");
    // A field that no certificate has may be `client`, misspelled.
    value.as_object().is_none_or(is_empty)
        || value.get("client").is_some()
        || schemas::unknown_fields(Kind::Ssl, value).next().is_some()
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
