//! TLS settings toward upstreams, made once per combination: a configuration holds the sessions that can be resumed.

use std::{path::PathBuf, sync::Arc};

use rustc_hash::FxHashMap;
use rustls::{ClientConfig, client::Resumption};
use tidegate_tls::{Anchors, Trust, client_config};

/// What distinguishes two settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Wanted {
    pub verify: bool,
    /// PEM of the certificate chain and key shown to the upstream.
    pub client: Option<(String, String)>,
}

/// What config.yaml says for all upstreams: whom to trust, and what to say.
#[derive(Clone, Debug, Default)]
pub struct UpstreamTrust {
    /// `apisix.ssl.ssl_trusted_certificate`
    pub setting: String,
    /// What its files are relative to.
    pub prefix: PathBuf,
    /// `nginx_config.http.proxy_ssl_server_name`: send the server name to the upstream.
    pub send_server_name: bool,
}

pub(crate) struct TlsClients {
    trusted: UpstreamTrust,
    /// With a number for each, which distinguishes them in the names of keep-alive pools.
    made: FxHashMap<Wanted, (u64, Arc<ClientConfig>)>,
    next: u64,
}

/// Upstream names whose sessions are kept, per setting.
const SESSIONS: usize = 1024;

impl TlsClients {
    pub(crate) fn new(trusted: UpstreamTrust) -> TlsClients {
        TlsClients { trusted, made: FxHashMap::default(), next: 0 }
    }

    pub(crate) fn get(&mut self, wanted: Wanted) -> Result<(u64, Arc<ClientConfig>), String> {
        if let Some(made) = self.made.get(&wanted) {
            return Ok(made.clone());
        }
        let trust = match wanted.verify {
            true => Trust::Anchors(Anchors::from_setting(&self.trusted.setting, &self.trusted.prefix)?),
            false => Trust::Anybody,
        };
        let client = wanted.client.as_ref().map(|(chain, key)| (chain.as_bytes(), key.as_bytes()));
        let mut config = client_config(trust, client)?;
        config.enable_sni = self.trusted.send_server_name;
        config.resumption = Resumption::in_memory_sessions(SESSIONS);
        // Settings that no upstream has any more, such as a client certificate that was replaced.
        self.made.retain(|_, (_, config)| Arc::strong_count(config) > 1);
        let made = (self.next, Arc::new(config));
        self.next += 1;
        self.made.insert(wanted, made.clone());
        Ok(made)
    }
}
