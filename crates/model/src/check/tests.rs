use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::{PluginCatalog, catalog::PluginFacts};

/// Knows `limit` (wants `count`) and `key-auth` (wants `key` of consumers).
pub(crate) struct Catalog;

impl PluginCatalog for Catalog {
    fn facts(&self, name: &str) -> Option<PluginFacts<'_>> {
        static EMPTY: Value = Value::Bool(true);
        let (name, kind) = match name {
            "limit" => ("limit", None),
            "key-auth" => ("key-auth", Some("auth")),
            _ => return None,
        };
        Some(PluginFacts {
            name,
            version: 0.1,
            priority: 1,
            kind,
            scope: None,
            schema: &EMPTY,
            consumer_schema: None,
            metadata_schema: None,
            encrypt_fields: &[],
            for_admins: None,
            nested: crate::catalog::no_nested,
            remarks: crate::catalog::no_remarks,
            schemes: &[],
            only_tcp: false,
            may_identify: false,
            of_consumer: crate::catalog::of_no_consumer,
            of_itself: &[],
        })
    }
    fn is_enabled(&self, name: &str) -> bool {
        self.facts(name).is_some()
    }
    fn enabled(&self) -> Vec<&str> {
        vec!["key-auth", "limit"]
    }
    fn check(&self, name: &str, _: SchemaKind, conf: &mut Value) -> Result<(), String> {
        let wanted = if name == "limit" { "count" } else { "key" };
        conf.get(wanted).map(|_| ()).ok_or_else(|| format!("property \"{wanted}\" is required"))
    }
    fn missing_feature(&self, name: &str) -> Option<&'static str> {
        (name == "serverless-pre-function").then_some("lua")
    }
    fn variable_remark(&self, name: &str) -> Option<String> {
        (name == "remote_adr").then(|| "$remote_adr is not a variable".to_owned())
    }
}

struct Others(Vec<(Kind, &'static str, Value)>);

impl References for Others {
    fn get(&self, kind: Kind, id: &str) -> Option<Arc<Value>> {
        let found = self.0.iter().find(|(other, other_id, _)| *other == kind && *other_id == id);
        found.map(|(_, _, value)| Arc::new(value.clone()))
    }
    fn each(&self, kind: Kind, visit: &mut dyn FnMut(&str, &Value)) {
        self.0.iter().filter(|(other, _, _)| *other == kind).for_each(|(_, id, value)| visit(id, value));
    }
}

#[track_caller]
fn check(kind: Kind, id: &str, mut conf: Value, message: &str) {
    let others = Others(vec![
        (Kind::Consumer, "bob", json!({"username": "bob", "plugins": {"key-auth": {"key": "b"}}})),
        (Kind::Consumer, "al", json!({"username": "al", "plugins": {"key-auth": {"key": "own"}}})),
        (Kind::Credential, "al/credentials/c1", json!({"plugins": {"key-auth": {"key": "a"}}})),
        (Kind::GlobalRule, "1", json!({"plugins": {"limit": {}}})),
        (Kind::Ssl, "1", json!({"type": "server"})),
    ]);
    let context = Context {
        plugins: &Catalog,
        stream_plugins: None,
        languages: &AnyLanguage,
        references: &others,
        skip_references: false,
        protocols: &[],
    };
    let owner = (kind == Kind::Credential).then_some("al");
    let error = check_resource(&context, kind, Some(id), owner, &mut conf).err();
    assert_eq!(error.unwrap_or_default(), message);
}

#[test]
fn upstreams() {
    let nodes = json!({"127.0.0.1:80": 1});
    let cases = [
        (json!({"nodes": nodes}), ""),
        (json!({"nodes": {"a:0": 1}}), "invalid port 0"),
        (json!({"nodes": nodes, "type": "chash"}), "missing key"),
        (
            json!({"nodes": nodes, "type": "chash", "hash_on": "header", "key": "$#^@"}),
            "invalid configuration: failed to match pattern \"^[a-zA-Z0-9-_]+$\" with \"$#^@\"",
        ),
        (
            json!({"nodes": nodes, "pass_host": "rewrite"}),
            "`upstream_host` can't be empty when `pass_host` is `rewrite`",
        ),
        (
            json!({"nodes": [{"host": "::1", "port": 80, "weight": 1}]}),
            "invalid configuration: IPv6 address must be enclosed with '[' and ']'",
        ),
        (
            json!({"nodes": nodes, "tls": {"client_cert_id": 1}}),
            "failed to fetch ssl info by ssl id [1], wrong ssl type",
        ),
        (
            json!({"nodes": nodes, "tls": {"client_cert_id": 9_999_999}}),
            "failed to fetch ssl info by ssl id [9999999], response code: 404",
        ),
        (
            json!({"nodes": {"a": -100}}),
            "invalid configuration: property \"nodes\" validation failed: object matches none of the required",
        ),
        (json!({}), "invalid configuration: value should match only one schema, but matches none"),
    ];
    for (conf, message) in cases {
        check(Kind::Upstream, "1", conf, message);
    }
}

#[test]
fn routes() {
    let cases = [
        (json!({"uri": "/a", "host": "a", "hosts": ["b"]}), "only one of host or hosts is allowed"),
        (
            json!({"uri": "/a", "upstream_id": "9"}),
            "failed to fetch upstream info by upstream id [9], response code: 404",
        ),
        (
            json!({"uri": "/a", "plugins": {"limit": {}}}),
            "failed to check the configuration of plugin limit err: property \"count\" is required",
        ),
        (json!({"uri": "/a", "plugins": {"limit": {"_meta": {"disable": true}}}}), ""),
        (json!({"uri": "/a", "plugins": {"nope": {}}}), "unknown plugin [nope]"),
        (
            json!({"uri": "/a", "plugins": {"serverless-pre-function": {}}}),
            "unknown plugin [serverless-pre-function]; this build does not include feature lua",
        ),
        (
            json!({"uri": "/a", "plugins": {"limit": "blah"}}),
            "invalid plugin conf \"blah\" for plugin [limit]",
        ),
        (
            json!({"uri": "/a", "uris": ["/b"], "plugins": {}}),
            "invalid configuration: allOf 1 failed: value should match only one schema, but matches both schemas 1 and 2",
        ),
    ];
    for (conf, message) in cases {
        check(Kind::Route, "1", conf, message);
    }
}

#[test]
fn consumers_and_others() {
    let user = |name: &str, key: &str| json!({"username": name, "plugins": {"key-auth": {"key": key}}});
    check(Kind::Consumer, "bob", user("bob", "b"), "");
    check(Kind::Consumer, "jo", user("al", "x"), "wrong username");
    check(Kind::Consumer, "jo", user("jo", "b"), "duplicate key of plugin key-auth found with consumer: bob");
    check(
        Kind::Consumer,
        "jo",
        user("jo", "a"),
        "duplicate key of plugin key-auth found with credential: c1 of consumer: al",
    );
    check(Kind::Consumer, "al", user("al", "a"), "");
    check(Kind::Credential, "c1", json!({"plugins": {"key-auth": {"key": "a"}}}), "");
    // It is moved from the consumer, which gives it up with its next write. With anything else it would be ambiguous.
    check(Kind::Credential, "c2", json!({"plugins": {"key-auth": {"key": "own"}}}), "");
    check(
        Kind::Credential,
        "c2",
        json!({"plugins": {"key-auth": {"key": "own", "hide_credentials": true}}}),
        "duplicate key of plugin key-auth found with consumer: al",
    );
    check(
        Kind::Credential,
        "c2",
        json!({"plugins": {"key-auth": {"key": "b"}}}),
        "duplicate key of plugin key-auth found with consumer: bob",
    );
    check(
        Kind::Credential,
        "c2",
        json!({"plugins": {"limit": {"count": 1}}}),
        "only supports auth type plugins in consumer credential",
    );
    check(
        Kind::GlobalRule,
        "2",
        json!({"id": "2", "plugins": {"limit": {"count": 1}}}),
        "plugin 'limit' already exists in global rule with id '1'",
    );
    check(Kind::GlobalRule, "1", json!({"id": "1", "plugins": {"limit": {"count": 1}}}), "");
    check(Kind::Secret, "vault/1", json!({}), "invalid configuration: property \"uri\" is required");
    check(Kind::Secret, "nope/1", json!({}), "invalid secret manager: nope");
    check(Kind::PluginMetadata, "nope", json!({}), "invalid plugin name");
}

#[test]
fn certificates() {
    let filler = "a".repeat(200);
    let conf = json!({"sni": "a.com", "cert": filler, "key": filler});
    check(Kind::Ssl, "1", conf, "failed to parse cert: PEM_read_bio_X509_AUX() failed");
    let conf = json!({"cert": filler, "key": filler});
    check(Kind::Ssl, "1", conf, "invalid configuration: then clause did not match");
}
