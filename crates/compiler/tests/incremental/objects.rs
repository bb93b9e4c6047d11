//! Random objects of a small world: few ids, so that objects refer to each other, to what is gone, and to what is broken.

use serde_json::{Value, json};
use tidegate_model::Kind;

use crate::{dice::Dice, keys::PAIRS};

pub(crate) const HOSTS: [&str; 2] = ["one.test", "two.test"];
pub(crate) const SERVICES: [&str; 2] = ["orders", "users"];
/// What consumers are known by. The vault may answer with the last two.
pub(crate) const KEYS: [&str; 3] = ["key-a", "key-b", "from-the-vault"];
pub(crate) const SECRET: &str = "vault/1/a/key";
const REFERENCE: &str = "$secret://vault/1/a/key";
/// Makes programs so large that the author is warned.
const LARGE_PATTERN: &str = "(x{1,100}){1,100}y";

pub(crate) const SERVER_NAMES: [&str; 5] = ["a.test", "b.test", "*.test", "*.a.test", "*"];

impl Dice {
    pub(crate) fn object(&mut self) -> (Kind, String, Value) {
        match self.of(26) {
            0..=7 => (Kind::Route, self.id("r", 6), self.route()),
            8 | 9 => (Kind::Service, self.id("s", 3), self.service()),
            10 | 11 => (Kind::Upstream, self.id("u", 3), self.upstream()),
            12 => (Kind::PluginConfig, self.id("p", 2), json!({"plugins": self.plugins()})),
            13 => (Kind::ConsumerGroup, self.id("g", 2), json!({"plugins": self.plugins()})),
            14 => (Kind::GlobalRule, self.id("x", 2), json!({"plugins": self.plugins()})),
            15 | 16 => self.consumer(),
            17 | 18 => {
                let id = format!("{}/credentials/{}", self.id("c", 3), self.id("k", 2));
                (Kind::Credential, id, json!({"plugins": self.auth()}))
            }
            19 | 20 => (Kind::Ssl, self.id("t", 4), self.ssl()),
            21 => {
                (Kind::Proto, self.id("o", 2), json!({"content": self.pick(&["syntax one", "syntax two"])}))
            }
            22 => {
                let token = self.pick(&["plain", "$env://TIDEGATE_NOT_SET"]);
                let value = json!({"uri": "http://127.0.0.1:8200", "prefix": "kv", "token": token});
                (Kind::Secret, "vault/1".to_owned(), value)
            }
            23 | 24 => {
                let plugin = self.pick(&["probe", "probe-guard", "key-auth"]);
                (
                    Kind::PluginMetadata,
                    plugin.to_owned(),
                    json!({"note": self.pick(&["one", "two", "three"])}),
                )
            }
            _ => {
                let value = json!({"server_port": 9000, "upstream_id": self.id("u", 4)});
                (Kind::StreamRoute, "1".to_owned(), value)
            }
        }
    }

    fn consumer(&mut self) -> (Kind, String, Value) {
        let name = self.id("c", 3);
        let mut plugins = self.auth();
        if self.once_in(3) {
            plugins["probe"] = self.probe();
        }
        let mut value = json!({"username": name, "plugins": plugins});
        if self.once_in(2) {
            value["group_id"] = json!(self.id("g", 3));
        }
        (Kind::Consumer, name, value)
    }

    fn auth(&mut self) -> Value {
        let mut plugins = json!({});
        if self.of(4) > 0 {
            plugins["key-auth"] = json!({"key": self.pick(&[KEYS[0], KEYS[1], REFERENCE])});
        }
        if self.once_in(4) {
            plugins["basic-auth"] = json!({"username": self.pick(&KEYS), "password": REFERENCE});
        }
        plugins
    }

    fn route(&mut self) -> Value {
        let path = self.pick(&["/a", "/a/*", "/b", "/*", "/c/:id", "/A"]);
        let mut value = match self.once_in(5) {
            true => json!({"uris": [path, self.pick(&["/c", "/a/b"])]}),
            false => json!({"uri": path}),
        };
        value["plugins"] = self.plugins();
        if self.once_in(3) {
            value["host"] = json!(self.pick(&["a.test", "*.test", "b.test"]));
        } else if self.once_in(6) {
            value["hosts"] = json!(["a.test", "x.a.test"]);
        }
        if self.once_in(4) {
            value["priority"] = json!(self.of(3));
        }
        if self.once_in(4) {
            value["methods"] = json!([self.pick(&["GET", "POST"])]);
        }
        if self.once_in(6) {
            value["remote_addr"] = json!("10.0.0.0/8");
        }
        if self.once_in(6) {
            value["vars"] = self.pick(&[
                json!([["http_x", "==", "1"]]),
                json!([["post_arg_a", "==", "1"]]),
                json!([["http_x", "~~", LARGE_PATTERN]]),
            ]);
        }
        if self.once_in(8) {
            value["filter_func"] = json!(self.pick(&["function good", "function bad"]));
        }
        if self.once_in(8) {
            value["status"] = json!(self.of(2));
        }
        if self.once_in(3) {
            value["service_id"] = json!(self.id("s", 4));
        }
        if self.once_in(4) {
            value["plugin_config_id"] = json!(self.id("p", 3));
        }
        if self.once_in(10) {
            value["script"] = json!(self.pick(&["script good", "script bad"]));
        }
        if self.once_in(8) {
            value["timeout"] = json!({"connect": 1, "send": 2, "read": 3});
        }
        self.add_upstream(&mut value);
        value
    }

    fn service(&mut self) -> Value {
        let mut value = json!({"plugins": self.plugins()});
        if self.once_in(4) {
            value["hosts"] = json!([self.pick(&["a.test", "b.test"])]);
        }
        if self.once_in(4) {
            value["enable_websocket"] = json!(true);
        }
        self.add_upstream(&mut value);
        value
    }

    fn add_upstream(&mut self, value: &mut Value) {
        match self.of(4) {
            0 => value["upstream_id"] = json!(self.id("u", 4)),
            1 | 2 => value["upstream"] = self.upstream(),
            _ => {}
        }
    }

    fn upstream(&mut self) -> Value {
        let kind = self.pick(&["roundrobin", "chash", "least_conn"]);
        if self.once_in(4) {
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
        if self.once_in(4) {
            value["scheme"] = json!(self.pick(&["https", "grpc", "grpcs"]));
            if self.once_in(2) {
                value["tls"] = self.client_pair();
            }
        }
        if self.once_in(5) {
            value["checks"] = json!({"active": {"http_path": "/", "healthy": {"interval": 1}}});
        }
        value
    }

    fn client_pair(&mut self) -> Value {
        match self.of(3) {
            0 => json!({"client_cert_id": self.id("t", 5)}),
            1 => json!({"client_cert": PAIRS[2].0, "client_key": PAIRS[2].1}),
            _ => json!({"client_cert": PAIRS[2].0, "client_key": REFERENCE}),
        }
    }

    fn ssl(&mut self) -> Value {
        let (certificate, key) = self.pick(&PAIRS);
        let key = if self.once_in(8) { REFERENCE.to_owned() } else { key };
        let mut value = json!({"cert": certificate, "key": key});
        if self.once_in(3) {
            value["type"] = json!("client");
            return value;
        }
        match self.once_in(2) {
            true => value["sni"] = json!(self.pick(&SERVER_NAMES)),
            false => value["snis"] = json!([self.pick(&SERVER_NAMES), self.pick(&SERVER_NAMES)]),
        }
        if self.once_in(3) {
            value["client"] = json!({"ca": PAIRS[0].0, "depth": 1});
        }
        if self.once_in(6) {
            value["status"] = json!(self.of(2));
        }
        if self.once_in(6) {
            value["ocsp_stapling"] = json!({"enabled": true});
        }
        value
    }

    /// Guards and others, of which some cannot be built.
    fn plugins(&mut self) -> Value {
        let mut plugins = json!({});
        for _ in 0..self.of(4) {
            let (name, mut conf) = match self.of(11) {
                0 => ("key-auth", json!({})),
                1 => {
                    ("ip-restriction", json!({"whitelist": [self.pick(&["127.0.0.0/8", "not an address"])]}))
                }
                2 => ("limit-count", json!({"count": 1 + self.of(2), "time_window": 60})),
                3 => ("csrf", json!({"key": REFERENCE})),
                4 | 5 => ("traffic-split", self.split()),
                6 => ("nowhere", json!({})),
                7 => ("response-rewrite", json!({"body": self.pick(&["a", "b"])})),
                8 => ("probe-guard", self.probe()),
                _ => ("probe", self.probe()),
            };
            if self.once_in(6) {
                conf["_meta"] = self.pick(&[
                    json!({"disable": true}),
                    json!({"disable": false}),
                    json!({"priority": 1}),
                    json!({"filter": [["http_x", "==", "1"]]}),
                    json!({"pre_function": "function good"}),
                    json!({"error_response": "no"}),
                ]);
            }
            plugins[name] = conf;
        }
        plugins
    }

    fn split(&mut self) -> Value {
        let mut target = || match self.of(3) {
            0 => json!({"weight": 1, "upstream_id": self.id("u", 4)}),
            1 => json!({"weight": 1}),
            _ => json!({"weight": 1, "upstream": self.upstream()}),
        };
        json!({"rules": [{"weighted_upstreams": [target(), target()]}]})
    }

    /// See [`crate::probe`].
    fn probe(&mut self) -> Value {
        let mut conf = json!({"text": self.pick(&["one", "two", REFERENCE, "$env://TIDEGATE_NOT_SET"])});
        if self.once_in(3) {
            conf["password"] = json!(self.pick(&["open", REFERENCE]));
        }
        if self.once_in(3) {
            conf["proto_id"] = json!(self.id("o", 3));
        }
        if self.once_in(3) {
            conf["upstreams"] = json!([self.upstream(), self.upstream()]);
        }
        if self.once_in(8) {
            conf["is_refused"] = json!(true);
        }
        conf
    }
}
