//! What consul and consul_kv have in common: servers, tokens, blocking queries.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::http::{Endpoint, KeptClient, KeptResponse};
use tidegate_model::resources::Node;

use crate::{
    dump_file::Dump,
    http,
    known::{FILE, Known},
};

#[derive(Clone, Deserialize)]
pub(crate) struct Common {
    servers: Vec<String>,
    token: String,
    /// Seconds between fetches when `keepalive` is off.
    fetch_interval: u64,
    /// Wait for changes with blocking queries.
    pub keepalive: bool,
    pub weight: u32,
    timeout: Timeout,
    pub dump: Option<Dump>,
    default_service: Option<Fallback>,
}

#[derive(Clone, Copy, Deserialize)]
struct Timeout {
    /// Milliseconds.
    connect: u64,
    read: u64,
    /// Seconds.
    wait: u64,
}

#[derive(Clone, Deserialize)]
struct Fallback {
    host: Option<String>,
    port: Option<u16>,
    metadata: Option<Value>,
}

#[derive(Clone)]
pub(crate) struct Server {
    /// As configured.
    pub url: String,
    endpoint: Endpoint,
    token: String,
    timeout: Timeout,
}

impl Server {
    pub(crate) fn client(&self) -> KeptClient {
        let mut client = http::client(self.endpoint.clone(), true, self.timeout.connect, self.timeout.read);
        if !self.token.is_empty() {
            client.set_header("X-Consul-Token", self.token.clone());
        }
        client
    }
}

impl Common {
    pub(crate) fn place(&mut self, prefix: &Path) {
        self.dump = self.dump.take().map(|dump| dump.below(prefix));
    }

    pub(crate) fn load_dump(&self, kind: &str, known: &Known) {
        if let Some(dump) = self.dump.as_ref().filter(|dump| dump.load_on_init)
            && let Some(services) = dump.read(kind)
        {
            known.set(FILE, services);
        }
    }

    pub(crate) fn servers(&self, kind: &str) -> Result<Vec<Server>, String> {
        let server = |url: &String| {
            let endpoint =
                Endpoint::parse(url).map_err(|reason| format!("discovery.{kind}.servers: {reason}"))?;
            if endpoint.target != "/" || url.ends_with('/') {
                let shown = tidegate_model::url::without_user(url);
                return Err(format!("discovery.{kind}.servers: {shown}: write http://address:port"));
            }
            Ok(Server { url: url.clone(), endpoint, token: self.token.clone(), timeout: self.timeout })
        };
        self.servers.iter().map(server).collect()
    }

    pub(crate) fn interval(&self) -> Duration {
        Duration::from_secs(self.fetch_interval)
    }

    /// The node of services that the registry does not know.
    pub(crate) fn fallback(&self) -> Option<Arc<[Node]>> {
        let service = self.default_service.as_ref()?;
        let node = Node {
            host: service.host.clone()?,
            port: service.port,
            weight: self.weight,
            max_conn: None,
            priority: 0,
            metadata: service.metadata.clone(),
        };
        Some(Arc::new([node]))
    }

    /// Target of a query that waits until its index is another one. Consul adds up to a sixteenth to the wait.
    pub(crate) fn blocking(&self, target: &str, index: Option<u64>) -> (String, Duration) {
        let wait = Duration::from_secs(self.timeout.wait);
        // An index of 0 would not wait.
        let index = index.unwrap_or(1).max(1);
        (format!("{target}index={index}&wait={}s", self.timeout.wait), wait + wait / 8)
    }

    /// Waits at the server; whether the index is another one.
    pub(crate) async fn changed(
        &self,
        client: &mut KeptClient,
        target: &str,
        index: Option<u64>,
    ) -> Result<bool, String> {
        let began = Instant::now();
        let (blocking, wait) = self.blocking(target, index);
        let answer = client.get_slowly(&blocking, wait).await?;
        http::good(&answer).map_err(|reason| format!("{target}: {reason}"))?;
        let changed = index_of(&answer) != index;
        if !changed {
            pause_after(began).await;
        }
        Ok(changed)
    }
}

/// What a blocking query waits to become another one.
pub(crate) fn index_of(answer: &KeptResponse) -> Option<u64> {
    answer.headers.get("x-consul-index").and_then(|value| value.to_str().ok()?.parse().ok())
}

/// A server that does not wait must not become a busy loop.
pub(crate) async fn pause_after(began: Instant) {
    const SHORT: Duration = Duration::from_secs(1);
    if began.elapsed() < SHORT {
        tokio::time::sleep(SHORT).await;
    }
}
