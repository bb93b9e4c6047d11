//! What the data plane shows in TLS handshakes: which certificate belongs to which server name.
//!
//! One [`TlsServer`] is one `ssl` resource. Names are exact or have a `*` for their first label; a name that two
//! resources claim belongs to the one with the smaller id.

use std::{borrow::Cow, fmt, sync::Arc};

use arc_swap::ArcSwap;
use routing::expr::Pattern;
use rustc_hash::FxHashMap;
use rustls::{
    pki_types::{CertificateDer, UnixTime},
    server::danger::ClientCertVerifier,
    sign::CertifiedKey,
};

/// An `ssl` resource ready for handshakes.
pub struct TlsServer {
    pub id: Arc<str>,
    pub config: Arc<rustls::ServerConfig>,
    pub client: Option<ClientCheck>,
    pub pairs: Vec<Arc<Pair>>,
    /// `ocsp_stapling`, when it is on.
    pub stapling: Option<Stapling>,
}

/// A certificate chain with its key. The proof that it is not revoked comes and goes while it is in use.
pub struct Pair(ArcSwap<CertifiedKey>);

impl Pair {
    pub fn new(key: CertifiedKey) -> Pair {
        Pair(ArcSwap::from_pointee(key))
    }

    pub fn key(&self) -> Arc<CertifiedKey> {
        self.0.load_full()
    }

    /// From now on handshakes carry this OCSP response to clients who ask for it, or none.
    pub fn staple(&self, response: Option<Vec<u8>>) {
        let mut key = (*self.key()).clone();
        key.ocsp = response;
        self.0.store(Arc::new(key));
    }
}

impl fmt::Debug for Pair {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Pair").finish_non_exhaustive()
    }
}

/// How OCSP responses are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stapling {
    /// Whatever the authority answers is passed on.
    pub skip_verify: bool,
    pub cache_seconds: u64,
}

/// The resource's `client`: certificates that clients have to present.
pub struct ClientCheck {
    pub verifier: Arc<dyn ClientCertVerifier>,
    /// Paths that need no certificate (`skip_mtls_uri_regex`). With any, handshakes let everybody in and requests decide.
    pub skip: Vec<Pattern>,
}

/// What became of a client's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientVerdict {
    #[default]
    None,
    Success,
    /// With the reason, in OpenSSL's words.
    Failed(&'static str),
}

impl ClientVerdict {
    /// The words of `$ssl_client_verify`.
    pub fn text(self) -> Cow<'static, str> {
        match self {
            ClientVerdict::None => "NONE".into(),
            ClientVerdict::Success => "SUCCESS".into(),
            ClientVerdict::Failed(reason) => format!("FAILED:{reason}").into(),
        }
    }
}

impl ClientCheck {
    /// Judges the chain that a client presented in a handshake that let everybody in.
    pub fn verdict(&self, chain: Option<&[CertificateDer<'_>]>) -> ClientVerdict {
        let Some((leaf, rest)) = chain.and_then(<[_]>::split_first) else { return ClientVerdict::None };
        match self.verifier.verify_client_cert(leaf, rest, UnixTime::now()) {
            Ok(_) => ClientVerdict::Success,
            Err(error) => ClientVerdict::Failed(trust::openssl_words(&error, leaf)),
        }
    }

    pub fn skips(&self, path: &[u8]) -> bool {
        self.skip.iter().any(|pattern| pattern.is_match(path) == Ok(true))
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsServer").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What a server name leads to; the error is the id of an `ssl` resource that cannot be used.
pub type Claim = Result<Arc<TlsServer>, Arc<str>>;

/// Server names and their certificates.
#[derive(Debug, Default)]
pub struct Certificates {
    exact: FxHashMap<Box<str>, Claim>,
    /// `*.test.com` under `test.com`.
    wildcards: FxHashMap<Box<str>, Claim>,
    any: Option<Claim>,
    /// Of all `ssl` resources, those for clients of upstreams included.
    pub expiries: Vec<Expiry>,
    /// Servers whose certificates want OCSP responses.
    pub stapled: Vec<Arc<TlsServer>>,
}

/// Until when a certificate is valid.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Expiry {
    /// The `ssl` resource.
    pub id: Arc<str>,
    /// Its first server name; empty for one that has none.
    pub name: Arc<str>,
    /// 0 for `cert`, 1 and on for `certs`.
    pub pair: usize,
    /// Seconds since 1970.
    pub expires: i64,
}

impl Certificates {
    /// The first server that claims a name keeps it.
    pub fn add(&mut self, name: &str, server: &Arc<TlsServer>) {
        self.claim(name, Ok(server.clone()));
    }

    /// The name belongs to this resource, which cannot be used: no other one may answer for it.
    pub fn add_unusable(&mut self, name: &str, id: &Arc<str>) {
        self.claim(name, Err(id.clone()));
    }

    fn claim(&mut self, name: &str, claim: Claim) {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        if name == "*" {
            self.any.get_or_insert(claim);
        } else if let Some(parent) = name.strip_prefix("*.") {
            self.wildcards.entry(parent.into()).or_insert(claim);
        } else {
            self.exact.entry(name.into()).or_insert(claim);
        }
    }

    /// `name` in lower case without a dot at its end.
    pub fn find(&self, name: &str) -> Option<&Claim> {
        let wildcard = || self.wildcards.get(name.split_once('.')?.1);
        self.exact.get(name).or_else(wildcard).or(self.any.as_ref())
    }

    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.wildcards.is_empty() && self.any.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(id: &str) -> Arc<TlsServer> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has the versions")
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::server::ResolvesServerCertUsingSni::new()));
        Arc::new(TlsServer {
            id: id.into(),
            config: Arc::new(config),
            client: None,
            pairs: Vec::new(),
            stapling: None,
        })
    }

    #[test]
    fn names_find_their_certificates() {
        let mut certificates = Certificates::default();
        for (name, id) in [
            ("test.com", "exact"),
            ("*.test.com", "wildcard"),
            ("a.test.com", "inner"),
            ("Upper.org.", "normal"),
            ("test.com", "late"),
        ] {
            certificates.add(name, &server(id));
        }
        certificates.add_unusable("c.test.com", &"unusable".into());
        let check = |name: &str, expected: Option<&str>| {
            let found = certificates
                .find(name)
                .map(|claim| claim.as_ref().map_or_else(|id| &**id, |server| &*server.id));
            assert_eq!(found, expected, "{name}");
        };
        check("test.com", Some("exact"));
        check("b.test.com", Some("wildcard"));
        check("a.test.com", Some("inner"));
        check("a.b.test.com", None);
        check("upper.org", Some("normal"));
        check("other.org", None);
        check("c.test.com", Some("unusable"));
    }
}
