//! What a compiler asks outside of its objects: addresses, nodes and secrets, which change under the test's hand.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tidegate_compiler::{Addresses, Compiler, Options, SecretSource, ServiceNodes, UpstreamTrust};
use tidegate_model::resources::{DiscoveredService, Node};
use tidegate_plugin_api::{Catalog, route::RouterOptions};
use tidegate_routing::router::Mode;

#[derive(Default)]
pub(crate) struct World {
    pub addresses: Mutex<HashMap<String, Vec<IpAddr>>>,
    pub nodes: Mutex<HashMap<DiscoveredService, Arc<[Node]>>>,
    pub secrets: Mutex<HashMap<String, Option<String>>>,
}

impl Addresses for World {
    fn of(&self, host: &str) -> Option<Vec<IpAddr>> {
        self.addresses.lock().get(host).cloned()
    }
}

impl ServiceNodes for World {
    fn of(&self, service: &DiscoveredService) -> Option<Arc<[Node]>> {
        self.nodes.lock().get(service).cloned()
    }
}

impl SecretSource for World {
    fn get(&self, reference: &str) -> Result<String, String> {
        self.secrets.lock().get(reference).cloned().flatten().ok_or_else(|| "not there".to_owned())
    }
}

pub(crate) fn compiler(world: &Arc<World>) -> Compiler {
    let catalog = Catalog::new(tidegate_plugins::registry::PLUGINS, None).expect("a catalog");
    let options = Options {
        router: Mode::HostUri,
        options: RouterOptions::default(),
        workers: 1,
        upstream_trust: UpstreamTrust { setting: "system".to_owned(), ..UpstreamTrust::default() },
        tls_protocols: vec!["TLSv1.2".to_owned(), "TLSv1.3".to_owned()],
        tls_ciphers: Vec::new(),
        http2: true,
        session_tickets: false,
        keepalive: Default::default(),
        timeouts: Default::default(),
    };
    Compiler::new(options, Arc::new(catalog), world.clone(), world.clone(), world.clone(), None)
}
