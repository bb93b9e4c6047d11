//! What a compiler asks outside of its objects: addresses, nodes and secrets, which change under the test's hand.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tidegate_compiler::{Addresses, Compiler, Options, SecretSource, ServiceNodes, UpstreamTrust};
use tidegate_model::resources::{DiscoveredService, Node};
use tidegate_plugin_api::{Catalog, route::RouterOptions};
use tidegate_routing::router::Mode;

use crate::probe;

/// What compilers of one run share.
pub(crate) struct World {
    pub addresses: Mutex<HashMap<String, Vec<IpAddr>>>,
    pub nodes: Mutex<HashMap<DiscoveredService, Arc<[Node]>>>,
    pub secrets: Mutex<HashMap<String, Option<String>>>,
    pub catalog: Arc<Catalog>,
    router: Mode,
}

impl World {
    pub(crate) fn new(router: Mode) -> Arc<World> {
        let catalog = Catalog::new(&probe::plugins(), None).expect("a catalog");
        Arc::new(World {
            addresses: Mutex::default(),
            nodes: Mutex::default(),
            secrets: Mutex::default(),
            catalog: Arc::new(catalog),
            router,
        })
    }
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
    let options = Options {
        router: world.router,
        options: RouterOptions {
            uri_parameters: world.router == Mode::UriWithParameter,
            ..RouterOptions::default()
        },
        workers: 1,
        upstream_trust: UpstreamTrust { setting: "system".to_owned(), ..UpstreamTrust::default() },
        tls_protocols: vec!["TLSv1.2".to_owned(), "TLSv1.3".to_owned()],
        tls_ciphers: Vec::new(),
        http2: true,
        session_tickets: false,
        keepalive: Default::default(),
        timeouts: Default::default(),
        stream: None,
        protocols: Vec::new(),
    };
    let lua = Arc::new(probe::Scripts);
    let sources = (world.clone(), world.clone(), world.clone());
    Compiler::new(options, world.catalog.clone(), sources.0, sources.1, sources.2, Some(lua))
}
