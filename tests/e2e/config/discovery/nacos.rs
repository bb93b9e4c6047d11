//! Nacos, by a fake of its API version 1: it wants a user's token or a signature when it has one, `healthyOnly`, and
//! knows services by namespace, group and name.

use std::collections::BTreeMap;

use base64::Engine;
use tidegate_testkit::Message;

use super::registry::{Registry, argument};
use super::{control, gateway, get, node, route, wait_for};

#[derive(Default)]
struct Nacos {
    /// `NAMESPACE/GROUP/SERVICE` to hosts.
    services: BTreeMap<String, String>,
    /// NAME:PASSWORD
    user: Option<&'static str>,
    /// The only token that is good; changed by a restart.
    token: &'static str,
    /// Access key and secret key.
    keys: Option<(&'static str, &'static str)>,
    logins: usize,
    /// Services that answer with an error.
    refused: Vec<&'static str>,
}

impl Nacos {
    fn answer(&mut self, request: &Message) -> (u16, String) {
        let path = request.target().split('?').next().unwrap_or_default();
        let value = |name: &str| argument(request, name).unwrap_or_default();
        match (request.method(), path) {
            ("POST", "/nacos/v1/auth/login") => {
                if self.user != Some(&format!("{}:{}", value("username"), value("password"))) {
                    return (403, "unknown user!".to_owned());
                }
                self.logins += 1;
                let token = self.token;
                (200, format!(r#"{{"accessToken":"{token}","tokenTtl":18000,"globalAdmin":true}}"#))
            }
            ("GET", "/nacos/v1/ns/instance/list") => {
                if self.user.is_some() && value("accessToken") != self.token {
                    return (403, "token invalid!".to_owned());
                }
                if let Some((key, secret)) = self.keys
                    && (value("ak") != key || value("signature") != signature(secret, &value("data")))
                {
                    return (403, "signature invalid!".to_owned());
                }
                if value("healthyOnly") != "true" {
                    return (400, "the gateway wants healthy nodes".to_owned());
                }
                let name =
                    format!("{}/{}/{}", value("namespaceId"), value("groupName"), value("serviceName"));
                if self.refused.contains(&name.as_str()) {
                    return (500, "caused: server is DOWN now".to_owned());
                }
                let hosts = self.services.get(&name).cloned().unwrap_or_default();
                (200, format!(r#"{{"name":"{name}","hosts":[{hosts}]}}"#))
            }
            (method, path) => (404, format!("no such path: {method} {path}")),
        }
    }
}

fn signature(secret: &str, data: &str) -> String {
    use aws_lc_rs::hmac;
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
    base64::engine::general_purpose::STANDARD.encode(hmac::sign(&key, data.as_bytes()))
}

fn host(node: &tidegate_testkit::Upstream, more: &str) -> String {
    let port = node.address.port();
    format!(r#"{{"ip":"127.0.0.1","port":{port},"weight":1.0,"healthy":true,"enabled":true{more}}}"#)
}

#[test]
fn instances_by_namespace_and_group() {
    let (a, b) = (node("a"), node("b"));
    let registry = Registry::start(Nacos::default(), Nacos::answer);
    registry.change(|nacos| {
        nacos.services.insert("public/DEFAULT_GROUP/web".to_owned(), host(&a, ""));
        nacos.services.insert("test ns/G&1/web".to_owned(), host(&b, ""));
    });
    let gateway =
        gateway(&format!("  nacos: {{host: [\"http://{}\"], fetch_interval: 1}}", registry.address));
    route(&gateway, "/web", r#""service_name":"web","discovery_type":"nacos""#);
    // The write is answered when the first fetch has been.
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    let arguments = r#""discovery_args":{"namespace_id":"test ns","group_name":"G&1"}"#;
    route(&gateway, "/other", &format!(r#""service_name":"web","discovery_type":"nacos",{arguments}"#));
    assert_eq!(get(&gateway, "/other"), (200, "b".to_owned()));
    let dump = control(&gateway, "/v1/discovery/nacos/dump").1;
    let nodes = &dump["services"]["default/test ns/G&1/web"]["nodes"];
    assert_eq!(nodes[0]["port"], b.address.port(), "{dump}");

    let both = [host(&a, ""), host(&b, "")].join(",");
    registry.change(|nacos| drop(nacos.services.insert("public/DEFAULT_GROUP/web".to_owned(), both)));
    wait_for(&gateway, "/web", &["a", "b"]);
    let switched_off = host(&a, "").replace(r#""enabled":true"#, r#""enabled":false"#);
    let hosts = [switched_off, host(&b, "")].join(",");
    registry.change(|nacos| drop(nacos.services.insert("public/DEFAULT_GROUP/web".to_owned(), hosts)));
    wait_for(&gateway, "/web", &["b"]);

    registry.set_down(true);
    registry.wait_for_requests(3);
    assert_eq!(get(&gateway, "/web"), (200, "b".to_owned()));
    registry.change(|nacos| nacos.services.clear());
    registry.set_down(false);
    wait_for(&gateway, "/web", &["503"]);
}

#[test]
fn users_log_in_again_when_their_token_ends() {
    let (a, b) = (node("a"), node("b"));
    let start = Nacos { user: Some("nacos:p w:d"), token: "t1", ..Nacos::default() };
    let registry = Registry::start(start, Nacos::answer);
    registry.change(|nacos| drop(nacos.services.insert("public/DEFAULT_GROUP/web".to_owned(), host(&a, ""))));
    let url = format!("http://nacos:p w:d@{}", registry.address);
    let gateway = gateway(&format!("  nacos: {{host: [\"{url}\"], fetch_interval: 1}}"));
    route(&gateway, "/web", r#""service_name":"web","discovery_type":"nacos""#);
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    registry.change(|nacos| {
        nacos.token = "t2";
        nacos.services.insert("public/DEFAULT_GROUP/web".to_owned(), host(&b, ""));
    });
    wait_for(&gateway, "/web", &["b"]);
    registry.change(|nacos| assert_eq!(nacos.logins, 2));
}

#[test]
fn a_service_that_is_refused_stands_in_nobodys_way() {
    let (a, b) = (node("a"), node("b"));
    let registry = Registry::start(Nacos::default(), Nacos::answer);
    registry.change(|nacos| {
        nacos.services.insert("public/DEFAULT_GROUP/first".to_owned(), host(&a, ""));
        nacos.services.insert("public/DEFAULT_GROUP/second".to_owned(), host(&a, ""));
    });
    let gateway =
        gateway(&format!("  nacos: {{host: [\"http://{}\"], fetch_interval: 1}}", registry.address));
    for name in ["first", "second"] {
        route(&gateway, &format!("/{name}"), &format!(r#""service_name":"{name}","discovery_type":"nacos""#));
        assert_eq!(get(&gateway, &format!("/{name}")), (200, "a".to_owned()));
    }
    registry.change(|nacos| {
        nacos.refused = vec!["public/DEFAULT_GROUP/first"];
        nacos.services.insert("public/DEFAULT_GROUP/second".to_owned(), host(&b, ""));
    });
    wait_for(&gateway, "/second", &["b"]);
    assert_eq!(get(&gateway, "/first"), (200, "a".to_owned()));
}

#[test]
fn access_keys_sign() {
    let a = node("a");
    let start = Nacos { keys: Some(("ak", "secret")), ..Nacos::default() };
    let registry = Registry::start(start, Nacos::answer);
    registry.change(|nacos| drop(nacos.services.insert("public/DEFAULT_GROUP/web".to_owned(), host(&a, ""))));
    let keys = "access_key: ak, secret_key: secret";
    let gateway = gateway(&format!("  nacos: {{host: [\"http://{}\"], {keys}}}", registry.address));
    route(&gateway, "/web", r#""service_name":"web","discovery_type":"nacos""#);
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
}
