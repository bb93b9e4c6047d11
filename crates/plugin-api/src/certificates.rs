//! The certificates that the data plane presents in TLS handshakes, by server name.
//!
//! One [`TlsServer`] is one `ssl` resource. Names are exact or have a `*` for their first label. A name that two resources
//! claim belongs to the one that asks for client certificates, else to the one with the smaller id.

use std::{borrow::Cow, fmt, sync::Arc};

use arc_swap::ArcSwap;
use rustc_hash::FxHashMap;
use rustls::{
    pki_types::{CertificateDer, UnixTime},
    server::danger::ClientCertVerifier,
    sign::CertifiedKey,
};
use tidegate_routing::expr::{Pattern, SearchTime};

/// An `ssl` resource ready for handshakes.
pub struct TlsServer {
    /// Of the `ssl` object.
    pub id: Arc<str>,
    /// Protocols, ciphers and the choice among [`TlsServer::pairs`].
    pub config: Arc<rustls::ServerConfig>,
    /// `client`; `None`: clients need no certificate.
    pub client: Option<ClientCheck>,
    /// `cert` and `key`, then those of `certs` and `keys`.
    pub pairs: Vec<Arc<Pair>>,
    /// `ocsp_stapling`, when it is on.
    pub stapling: Option<Stapling>,
}

/// A certificate chain with its key. Its OCSP response changes while it is in use.
pub struct Pair(ArcSwap<CertifiedKey>);

impl Pair {
    /// Without an OCSP response, unless the key carries one.
    pub fn new(key: CertifiedKey) -> Pair {
        Pair(ArcSwap::from_pointee(key))
    }

    /// As handshakes use it now.
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
    /// The authority's answer is passed on unverified.
    pub skip_verify: bool,
    /// How long a response is kept, unless it says an earlier end itself.
    pub cache_seconds: u64,
}

/// The resource's `client`: certificates that clients have to present.
pub struct ClientCheck {
    /// Against `client.ca` and `client.depth`.
    pub verifier: Arc<dyn ClientCertVerifier>,
    /// Paths that need no certificate (`skip_mtls_uri_regex`). With any, handshakes accept all clients and requests
    /// decide.
    pub skip: Vec<Pattern>,
}

/// The result of verifying a client's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientVerdict {
    /// The client presented none: `$ssl_client_verify` is `NONE`.
    #[default]
    None,
    /// A chain to a trusted authority.
    Success,
    /// With OpenSSL's message as the reason.
    Failed(&'static str),
}

impl ClientVerdict {
    /// The text of `$ssl_client_verify`.
    pub fn text(self) -> Cow<'static, str> {
        match self {
            ClientVerdict::None => "NONE".into(),
            ClientVerdict::Success => "SUCCESS".into(),
            ClientVerdict::Failed(reason) => format!("FAILED:{reason}").into(),
        }
    }
}

impl ClientCheck {
    /// Verifies the chain that a client presented in a handshake that accepted it unchecked.
    pub fn verdict(&self, chain: Option<&[CertificateDer<'_>]>) -> ClientVerdict {
        let Some((leaf, rest)) = chain.and_then(<[_]>::split_first) else { return ClientVerdict::None };
        match self.verifier.verify_client_cert(leaf, rest, UnixTime::now()) {
            Ok(_) => ClientVerdict::Success,
            Err(error) => ClientVerdict::Failed(tidegate_tls::openssl_words(&error, leaf)),
        }
    }

    /// Whether requests for this path need no certificate. A pattern that gives up counts as no match.
    pub fn skips(&self, path: &[u8], time: &SearchTime) -> bool {
        self.skip.iter().any(|pattern| pattern.is_match(path, Some(time)) == Ok(true))
    }
}

impl fmt::Debug for TlsServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TlsServer").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The resource behind a server name.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The error is the id of an `ssl` resource that cannot be used.
    pub server: Result<Arc<TlsServer>, Arc<str>>,
    /// Clients need a certificate, or it is not known whether they do.
    pub asks: bool,
}

impl Claim {
    fn id(&self) -> &Arc<str> {
        self.server.as_ref().map_or_else(|id| id, |server| &server.id)
    }
}

/// Two resources with one name, of which only the one that keeps it asks for client certificates.
#[derive(Debug, PartialEq, Eq)]
pub struct Contest {
    /// Id of the `ssl` object that answers for the name.
    pub keeper: Arc<str>,
    /// Id of the one that does not.
    pub other: Arc<str>,
}

/// Server names and their certificates.
#[derive(Debug, Default)]
pub struct Certificates {
    exact: FxHashMap<Box<str>, Claim>,
    /// `*.test.com` under `test.com`.
    wildcards: FxHashMap<Box<str>, Claim>,
    any: Option<Claim>,
    /// A resource that may ask for client certificates, and whose names cannot be read: it may be for any
    /// name.
    nameless: Option<Claim>,
    /// Some name is guarded: if none is, the host of requests is not checked.
    guards: bool,
    /// The expiries of all `ssl` resources, also of those for clients of upstreams.
    pub expiries: Vec<Expiry>,
    /// Servers whose certificates want OCSP responses.
    pub stapled: Vec<Arc<TlsServer>>,
}

/// The end of a certificate's validity.
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
    /// The first server that claims a name keeps it, unless only a later one asks for client certificates.
    pub fn add(&mut self, name: &str, server: &Arc<TlsServer>) -> Option<Contest> {
        self.claim(name, Claim { server: Ok(server.clone()), asks: server.client.is_some() })
    }

    /// The name belongs to this resource, which cannot be used: no other one may answer for it.
    pub fn add_unusable(&mut self, name: &str, id: &Arc<str>, asks: bool) -> Option<Contest> {
        self.claim(name, Claim { server: Err(id.clone()), asks })
    }

    /// This resource cannot be used and may ask for client certificates, and its names cannot be read. Names without
    /// their own certificate are shut: in handshakes those that one with `*` serves, without TLS all.
    pub fn add_nameless(&mut self, id: &Arc<str>) {
        self.nameless.get_or_insert(Claim { server: Err(id.clone()), asks: true });
        self.guards = true;
    }

    fn claim(&mut self, name: &str, mut claim: Claim) -> Option<Contest> {
        self.guards |= claim.asks;
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let place = if name == "*" {
            self.any.get_or_insert_with(|| claim.clone())
        } else if let Some(parent) = name.strip_prefix("*.") {
            self.wildcards.entry(parent.into()).or_insert_with(|| claim.clone())
        } else {
            self.exact.entry(name.into()).or_insert_with(|| claim.clone())
        };
        if place.asks == claim.asks {
            return None;
        }
        if claim.asks {
            std::mem::swap(place, &mut claim);
        }
        Some(Contest { keeper: place.id().clone(), other: claim.id().clone() })
    }

    /// The certificate for a handshake. `name` in lower case without a dot at its end.
    pub fn find(&self, name: &str) -> Option<&Claim> {
        let wildcard = || self.wildcards.get(name.split_once('.')?.1).or(self.any.as_ref());
        self.exact.get(name).or_else(|| self.broad(wildcard()?))
    }

    /// The claim that guards a host, if clients have to present a certificate for it. A `*` in the host of a route
    /// matches several labels, in a certificate one: a host is guarded by the nearest name above it, at any distance.
    pub fn guard(&self, host: &str) -> Option<&Claim> {
        if !self.guards {
            return None;
        }
        let above = || {
            let parents = std::iter::successors(host.split_once('.'), |(_, rest)| rest.split_once('.'));
            parents.into_iter().find_map(|(_, parent)| self.wildcards.get(parent)).or(self.any.as_ref())
        };
        self.exact.get(host).or_else(|| self.nameless.as_ref().or_else(above)).filter(|claim| claim.asks)
    }

    fn broad<'a>(&'a self, claim: &'a Claim) -> Option<&'a Claim> {
        Some(self.nameless.as_ref().unwrap_or(claim))
    }

    /// Whether [`Certificates::guard`] finds anything for some host.
    pub fn guards(&self) -> bool {
        self.guards
    }

    /// Whether no server name has a certificate.
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
        certificates.add_unusable("c.test.com", &"unusable".into(), false);
        let check = |name: &str, expected: Option<&str>| {
            let found = certificates.find(name).map(|claim| &**claim.id());
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

    #[test]
    fn the_strictest_claim_guards() {
        let mut certificates = Certificates::default();
        assert!(certificates.add("two.test", &server("1")).is_none());
        assert!(certificates.guard("two.test").is_none());
        let contest = |other: &str| Some(Contest { keeper: "2".into(), other: other.into() });
        assert_eq!(certificates.add_unusable("two.test", &"2".into(), true), contest("1"));
        assert_eq!(certificates.add("two.test", &server("3")), contest("3"));
        certificates.add_unusable("*.m.test", &"m".into(), true);
        certificates.add("*.open.m.test", &server("o"));
        certificates.add("x.m.test", &server("x"));
        certificates.add("*", &server("any"));
        let check = |host: &str, expected: Option<&str>| {
            assert_eq!(certificates.guard(host).map(|claim| &**claim.id()), expected, "{host}");
        };
        check("two.test", Some("2"));
        check("a.m.test", Some("m"));
        check("a.b.m.test", Some("m"));
        check("a.open.m.test", None);
        check("open.m.test", Some("m"));
        check("x.m.test", None);
        check("y.x.m.test", Some("m"));
        check("m.test", None);
        check("", None);
        certificates.add_nameless(&"lost".into());
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(certificates.guard(name).map(|claim| &**claim.id()), expected, "{name}");
            assert_eq!(certificates.find(name).map(|claim| &**claim.id()), expected.or(Some("x")), "{name}");
        };
        check("m.test", Some("lost"));
        check("z.open.m.test", Some("lost"));
        check("x.m.test", None);
    }
}
