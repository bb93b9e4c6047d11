//! What lets a client skip the full handshake the next time, on whichever worker it lands.
//!
//! Sessions outlive the configuration they began under, and a resumed one is not asked for a certificate again.
//! So they are kept apart by what was asked of the client: a session of a server that wants no certificate, or trusts
//! other authorities, means nothing to one that does. Within one keeping the library compares server names.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use rustls::{
    ServerConfig,
    server::{ProducesTickets, StoresServerSessions},
};
use tidegate_model::resources;

use super::session_cache::SessionCache;

#[derive(Clone, PartialEq, Eq, Hash)]
struct Asked {
    authorities: String,
    depth: u32,
    skip: Vec<String>,
}

struct Keeping {
    sessions: Arc<dyn StoresServerSessions>,
    /// Stateless tickets under keys that change every six hours; `None`: the cache alone.
    ticketer: Option<Arc<dyn ProducesTickets>>,
}

pub(crate) struct Sessions {
    tickets: bool,
    made: FxHashMap<Option<Asked>, Keeping>,
}

impl Sessions {
    /// `tickets`: `apisix.ssl.ssl_session_tickets`.
    pub(super) fn new(tickets: bool) -> Sessions {
        Sessions { tickets, made: FxHashMap::default() }
    }

    /// Gives a configuration the sessions of all that ask the same of clients.
    pub(super) fn attach(
        &mut self,
        config: &mut ServerConfig,
        client: Option<&resources::SslClient>,
    ) -> Result<(), String> {
        // Drops what no configuration uses any more: nothing else refers to it.
        self.made.retain(|asked, keeping| asked.is_none() || Arc::strong_count(&keeping.sessions) > 1);
        let asked = client.map(|client| Asked {
            authorities: client.ca.clone(),
            depth: client.depth,
            skip: client.skip_mtls_uri_regex.clone(),
        });
        if !self.made.contains_key(&asked) {
            let ticketer = match self.tickets {
                true => Some(rustls::crypto::aws_lc_rs::Ticketer::new().map_err(|error| error.to_string())?),
                false => None,
            };
            let keeping = Keeping { sessions: Arc::new(SessionCache::new()), ticketer };
            self.made.insert(asked.clone(), keeping);
        }
        if let Some(keeping) = self.made.get(&asked) {
            config.session_storage = keeping.sessions.clone();
            if let Some(ticketer) = &keeping.ticketer {
                config.ticketer = ticketer.clone();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_shared_by_those_who_ask_the_same() {
        let config = || {
            let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
            ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .expect("the provider has the versions")
                .with_no_client_auth()
                .with_cert_resolver(Arc::new(rustls::server::ResolvesServerCertUsingSni::new()))
        };
        let client =
            |ca: &str| resources::SslClient { ca: ca.to_owned(), depth: 1, skip_mtls_uri_regex: Vec::new() };
        let mut sessions = Sessions::new(true);
        let mut made = |ca: Option<&str>| {
            let mut config = config();
            sessions.attach(&mut config, ca.map(client).as_ref()).expect("keys for tickets");
            config
        };
        let (open, other_open, one, other) = (made(None), made(None), made(Some("a")), made(Some("b")));
        assert!(Arc::ptr_eq(&open.session_storage, &other_open.session_storage));
        assert!(Arc::ptr_eq(&open.ticketer, &other_open.ticketer));
        assert!(!Arc::ptr_eq(&open.session_storage, &one.session_storage));
        assert!(!Arc::ptr_eq(&one.session_storage, &other.session_storage));
        assert!(!Arc::ptr_eq(&one.ticketer, &other.ticketer));
        let ticket = open.ticketer.encrypt(b"session").expect("encrypts");
        assert!(other_open.ticketer.decrypt(&ticket).is_some());
        assert!(one.ticketer.decrypt(&ticket).is_none());
    }
}
