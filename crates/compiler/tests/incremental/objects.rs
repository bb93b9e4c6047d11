//! Random objects of a small world: few ids, so that objects refer to each other, to what is gone, and to what is broken.

use std::{net::IpAddr, sync::Arc};

use serde_json::{Value, json};
use tidegate_compiler::Key;
use tidegate_model::{
    Document, Kind, Object,
    resources::{DiscoveredService, Node},
};

pub(crate) const HOSTS: [&str; 2] = ["one.test", "two.test"];
pub(crate) const SERVICES: [&str; 2] = ["orders", "users"];
pub(crate) const KEYS: [&str; 3] = ["key-a", "key-b", "from-the-vault"];
const SECRET: &str = "vault/1/a/key";

/// splitmix64 (Steele, Lea, Flood 2014): the same for the same seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// A number below `count`.
    pub(crate) fn of(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % count as u64) as usize
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.of(items.len())].clone()
    }

    pub(crate) fn address(&mut self) -> (String, Vec<IpAddr>) {
        let count = self.of(3);
        let addresses = (0..count).map(|_| IpAddr::from([127, 0, 0, 2 + self.of(4) as u8])).collect();
        (self.pick(&HOSTS).to_owned(), addresses)
    }

    pub(crate) fn nodes(&mut self) -> (DiscoveredService, Arc<[Node]>) {
        let service = DiscoveredService {
            registry: "consul".into(),
            name: self.pick(&SERVICES).into(),
            namespace: None,
            group: None,
            grpc: false,
        };
        let node = |dice: &mut Dice| Node {
            host: format!("127.0.1.{}", 1 + dice.of(4)),
            port: Some(80),
            weight: 1 + dice.of(2) as u32,
            max_conn: None,
            priority: 0,
            metadata: None,
        };
        let count = self.of(3);
        (service, (0..count).map(|_| node(self)).collect())
    }

    pub(crate) fn secret(&mut self) -> (&'static str, Option<String>) {
        (SECRET, self.pick(&[None, Some("from-the-vault".to_owned()), Some("key-a".to_owned())]))
    }

    pub(crate) fn object(&mut self) -> (Kind, String, Value) {
        let numbered = |prefix: &str, number: usize| format!("{prefix}{number}");
        match self.of(16) {
            0..=5 => {
                let value = self.route();
                (Kind::Route, numbered("r", self.of(6)), value)
            }
            6 | 7 => {
                let mut value = json!({"plugins": self.plugins()});
                self.add_upstream(&mut value);
                (Kind::Service, numbered("s", self.of(3)), value)
            }
            8 | 9 => {
                let value = self.upstream();
                (Kind::Upstream, numbered("u", self.of(3)), value)
            }
            10 => (Kind::PluginConfig, numbered("p", self.of(2)), json!({"plugins": self.plugins()})),
            11 => (Kind::ConsumerGroup, numbered("g", self.of(2)), json!({"plugins": self.plugins()})),
            12 => (Kind::GlobalRule, numbered("x", self.of(2)), json!({"plugins": self.plugins()})),
            13 | 14 => {
                let name = numbered("c", self.of(3));
                let mut value = json!({"username": name, "plugins": self.auth()});
                if self.of(2) == 0 {
                    value["group_id"] = json!(numbered("g", self.of(3)));
                }
                (Kind::Consumer, name, value)
            }
            _ => {
                let id = format!("c{}/credentials/k", self.of(3));
                (Kind::Credential, id, json!({"plugins": self.auth()}))
            }
        }
    }

    fn auth(&mut self) -> Value {
        let key = self.pick(&[KEYS[0], KEYS[1], "$secret://vault/1/a/key"]);
        json!({"key-auth": {"key": key}})
    }

    fn route(&mut self) -> Value {
        let mut value = json!({"uri": self.pick(&["/a", "/a/*", "/b", "/*"]), "plugins": self.plugins()});
        if self.of(3) == 0 {
            value["host"] = json!(self.pick(&["a.test", "*.test"]));
        }
        if self.of(4) == 0 {
            value["priority"] = json!(self.of(3));
        }
        if self.of(4) == 0 {
            value["methods"] = json!([self.pick(&["GET", "POST"])]);
        }
        if self.of(3) == 0 {
            value["service_id"] = json!(format!("s{}", self.of(4)));
        }
        if self.of(4) == 0 {
            value["plugin_config_id"] = json!(format!("p{}", self.of(3)));
        }
        self.add_upstream(&mut value);
        value
    }

    fn add_upstream(&mut self, value: &mut Value) {
        match self.of(4) {
            0 => value["upstream_id"] = json!(format!("u{}", self.of(4))),
            1 | 2 => value["upstream"] = self.upstream(),
            _ => {}
        }
    }

    fn upstream(&mut self) -> Value {
        let kind = self.pick(&["roundrobin", "chash", "least_conn"]);
        if self.of(4) == 0 {
            let name = self.pick(&SERVICES);
            return json!({"type": "roundrobin", "service_name": name, "discovery_type": "consul"});
        }
        let mut nodes = json!({});
        for _ in 0..=self.of(2) {
            let host = self.pick(&[HOSTS[0], HOSTS[1], "127.0.0.9"]);
            nodes[format!("{host}:{}", 80 + self.of(2))] = json!(self.of(3));
        }
        let mut value = json!({"type": kind, "nodes": nodes});
        if kind == "chash" {
            value["key"] = json!("remote_addr");
        }
        if self.of(5) == 0 {
            value["scheme"] = json!("https");
        }
        value
    }

    /// Guards and others, of which some cannot be built.
    fn plugins(&mut self) -> Value {
        let mut plugins = json!({});
        for _ in 0..self.of(3) {
            let (name, conf) = match self.of(7) {
                0 => ("key-auth", json!({})),
                1 => {
                    ("ip-restriction", json!({"whitelist": [self.pick(&["127.0.0.0/8", "not an address"])]}))
                }
                2 => ("limit-count", json!({"count": 1 + self.of(2), "time_window": 60})),
                3 => ("csrf", json!({"key": "$secret://vault/1/a/key"})),
                4 => ("traffic-split", self.split()),
                5 => ("nowhere", json!({})),
                _ => ("response-rewrite", json!({"body": self.pick(&["a", "b"])})),
            };
            plugins[name] = conf;
        }
        plugins
    }

    fn split(&mut self) -> Value {
        let mut target = json!({"weight": 1});
        match self.of(2) {
            0 => target["upstream_id"] = json!(format!("u{}", self.of(4))),
            _ => target["upstream"] = self.upstream(),
        }
        json!({"rules": [{"weighted_upstreams": [target, {"weight": 1}]}]})
    }
}

pub(crate) fn object(key: &Key, value: &Value, created: u64, modified: u64) -> Object {
    let (kind, id) = key.clone();
    Object { kind, id, document: Document::new(value), created, modified, fault: None, unread: None }
}
