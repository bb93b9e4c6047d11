//! What consul and consul_kv are as registries: servers that are followed, nodes that are known. They differ in what
//! they read, which is a [`Source`].

use std::{convert::Infallible, future::Future, path::PathBuf, sync::Arc};

use serde_json::{Value, json};
use tidegate_model::resources::{DiscoveredService, Node};

use super::conf::{Common, Server};
use crate::{
    known::{Known, Services},
    registry::{Registry, Start, log_error},
    retry::Retry,
    shown,
};

/// What is read at a server of Consul.
pub(crate) trait Source: Sized + Send + Sync + 'static {
    /// Its name under `discovery`.
    const KIND: &'static str;

    /// Reads, waits for a change, reads again: until something fails.
    fn rounds(
        &self,
        followed: &Followed<Self>,
        number: usize,
        server: &Server,
        retry: &mut Retry,
    ) -> impl Future<Output = Result<Infallible, String>> + Send;
}

/// A registry, with a task for each of its servers.
pub(crate) struct Followed<S> {
    pub common: Common,
    pub known: Known,
    shown: Value,
    source: S,
}

/// `conf` is the registry's configuration as written.
pub(crate) fn start<S: Source>(
    source: S,
    mut common: Common,
    conf: &Value,
    start: &Start,
) -> Result<Arc<dyn Registry>, String> {
    common.place(&start.prefix);
    let servers = common.servers(S::KIND)?;
    let known = Known::new(&start.signals);
    common.load_dump(S::KIND, &known);
    let followed = Arc::new(Followed { common, known, shown: shown::configuration(conf), source });
    for (number, server) in servers.into_iter().enumerate() {
        start.runtime.spawn(followed.clone().follow(number, server));
    }
    Ok(followed)
}

impl<S: Source> Registry for Followed<S> {
    fn nodes(&self, service: &DiscoveredService) -> Option<Arc<[Node]>> {
        self.known.nodes(&service.name).or_else(|| self.common.fallback())
    }

    fn is_settled(&self, _: &DiscoveredService) -> bool {
        self.known.is_settled()
    }

    fn dump(&self) -> Option<Value> {
        Some(json!({ "config": self.shown, "services": shown::services(&self.known.all()) }))
    }

    fn dump_file(&self) -> Option<PathBuf> {
        self.common.dump.as_ref().map(|dump| dump.path.clone())
    }
}

impl<S: Source> Followed<S> {
    async fn follow(self: Arc<Self>, number: usize, server: Server) {
        let mut retry = Retry::default();
        loop {
            let Err(reason) = self.source.rounds(&self, number, &server, &mut retry).await;
            if retry.is_first() {
                log_error(S::KIND, &format!("{}: {reason}", server.url));
            }
            self.known.failed(number);
            retry.wait().await;
        }
    }

    /// Takes a server's answer, and keeps what is known on disk when it is another than before.
    pub(crate) async fn learn(&self, number: usize, services: Services) {
        let changed = services != self.known.of(number);
        self.known.set(number, services);
        if changed && let Some(dump) = &self.common.dump {
            dump.write(S::KIND, &self.known.all()).await;
        }
    }
}
