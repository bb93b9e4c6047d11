//! The servers made so far, and the index of their names.

use std::{collections::BTreeMap, sync::Arc};

use tidegate_plugin_api::certificates::{Certificates, Contest, Expiry, TlsServer};

use super::sessions::Sessions;

/// The servers made so far, and the index of their names.
pub(crate) struct Servers {
    pub(super) made: BTreeMap<Arc<str>, Made>,
    pub(super) sessions: Sessions,
    index: Arc<Certificates>,
    /// Names that two resources claim of which one asks for client certificates, by resource.
    contested: BTreeMap<Arc<str>, String>,
}

/// What became of one `ssl` resource.
pub(super) struct Made {
    pub(super) names: Vec<String>,
    pub(super) server: Server,
    pub(super) expiries: Vec<Expiry>,
}

pub(super) enum Server {
    Usable(Arc<TlsServer>),
    /// It could not be made. Another resource must not show its certificate in its place, nor forget to ask for one.
    Unusable {
        asks: bool,
        /// Not all of its names can be read, and what they were before is not known.
        is_nameless: bool,
    },
    /// A certificate of ours to show to upstreams.
    None,
}

impl Servers {
    /// `tickets`: `apisix.ssl.ssl_session_tickets`.
    pub(crate) fn new(tickets: bool) -> Servers {
        Servers {
            made: BTreeMap::new(),
            sessions: Sessions::new(tickets),
            index: Arc::default(),
            contested: BTreeMap::new(),
        }
    }

    /// Takes over what sessions are sealed with.
    pub(crate) fn keep_sessions(&mut self, other: Servers) {
        self.sessions = other.sessions;
    }

    pub(crate) fn index(&self) -> Arc<Certificates> {
        self.index.clone()
    }

    /// What should be known of resources that are in use.
    pub(crate) fn contested(&self) -> &BTreeMap<Arc<str>, String> {
        &self.contested
    }

    /// Lays the index out again. Returns the resources that have come to differ from another one about a name.
    pub(crate) fn reindex(&mut self) -> Vec<Arc<str>> {
        let mut index = Certificates::default();
        let mut contested = BTreeMap::new();
        for (id, made) in &self.made {
            for name in &made.names {
                let contest = match &made.server {
                    Server::Usable(server) => index.add(name, server),
                    Server::Unusable { asks, .. } => index.add_unusable(name, id, *asks),
                    Server::None => None,
                };
                let Some(Contest { keeper, other }) = contest else { continue };
                let text = format!(
                    "ssls/{keeper} and ssls/{other} both have the server name {name}, and only ssls/{keeper} \
                     requests client certificates: it is used for the name"
                );
                contested.entry(keeper).or_insert_with(|| text.clone());
                contested.entry(other).or_insert(text);
            }
            if matches!(made.server, Server::Unusable { asks: true, is_nameless: true }) {
                index.add_nameless(id);
            }
            index.expiries.extend_from_slice(&made.expiries);
            if let Server::Usable(server) = &made.server
                && server.stapling.is_some()
            {
                index.stapled.push(server.clone());
            }
        }
        self.index = Arc::new(index);
        let new = contested.iter().filter(|(id, text)| self.contested.get(*id) != Some(text));
        let new = new.map(|(id, _)| id.clone()).collect();
        self.contested = contested;
        new
    }
}
