//! What the tests of this crate share: a few plugins and a way to ask.

use std::{future::Future, net::IpAddr, sync::Arc};

use serde_json::{Value, json};
use tidegate_model::{PluginCatalog, SchemaKind, catalog::PluginFacts, check::AnyLanguage};
use tidegate_store::Memory;

use crate::{
    Access, AdminApi, AdminHead, AdminResponse, AdminSettings, NoHooks, Parts, RequestBody, message::Request,
};

/// `limit-count` (wants `count`), `key-auth` (of consumers: wants `key`), `traffic-split`.
pub(crate) struct Catalog {
    limit: Value,
    consumer: Value,
    open: Value,
}

impl Default for Catalog {
    fn default() -> Self {
        Catalog {
            limit: json!({"type": "object", "properties": {"count": {"type": "integer"}, "policy": {"default": "local"}}, "required": ["count"]}),
            consumer: json!({"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}),
            open: json!({"type": "object"}),
        }
    }
}

impl PluginCatalog for Catalog {
    fn facts(&self, name: &str) -> Option<PluginFacts<'_>> {
        let (name, priority, kind) = match name {
            "key-auth" => ("key-auth", 2500, Some("auth")),
            "limit-count" => ("limit-count", 1002, None),
            "traffic-split" => ("traffic-split", 966, None),
            _ => return None,
        };
        let schema = if name == "limit-count" { &self.limit } else { &self.open };
        let consumer_schema = (name == "key-auth").then_some(&self.consumer);
        Some(PluginFacts {
            name,
            version: 0.1,
            priority,
            kind,
            scope: None,
            schema,
            consumer_schema,
            metadata_schema: None,
            encrypt_fields: &["key"],
            for_admins: None,
            nested: tidegate_model::catalog::no_nested,
            remarks: tidegate_model::catalog::no_remarks,
            schemes: &[],
            only_tcp: false,
            may_identify: false,
            of_consumer: tidegate_model::catalog::of_no_consumer,
            of_itself: &[],
        })
    }

    fn is_enabled(&self, name: &str) -> bool {
        self.facts(name).is_some()
    }

    fn enabled(&self) -> Vec<&str> {
        vec!["key-auth", "limit-count", "traffic-split"]
    }

    fn check(&self, name: &str, kind: SchemaKind, conf: &mut Value) -> Result<(), String> {
        let facts = self.facts(name).ok_or("unknown")?;
        let consumer = facts.consumer_schema.filter(|_| kind == SchemaKind::Consumer);
        tidegate_model::Schema::compile(consumer.unwrap_or(facts.schema))?.check(conf)
    }
}

/// An API that requires no key.
pub(crate) fn open() -> AdminSettings {
    AdminSettings { access: Access::Open, ..AdminSettings::default() }
}

pub(crate) fn parts(settings: AdminSettings) -> Parts {
    Parts {
        settings,
        store: Arc::new(Memory::new()),
        plugins: Arc::new(Catalog::default()),
        stream_plugins: None,
        languages: Arc::new(AnyLanguage),
        hooks: Arc::new(NoHooks),
        standalone: None,
        audit: None,
        compiled: Arc::new(crate::NoCompiler),
    }
}

pub(crate) fn request(method: &str, target: &str, body: &str) -> Request {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let head = AdminHead {
        method: method.into(),
        path: path.into(),
        query: query.into(),
        headers: Vec::new(),
        peer: IpAddr::from([127, 0, 0, 1]),
    };
    Request { head, body: RequestBody::Bytes(body.to_owned().into()), caller: None }
}

/// Documents are made on a thread for blocking work.
pub(crate) fn finish<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(future)
}

pub(crate) fn ask(api: &AdminApi, method: &str, path: &str, body: &str) -> AdminResponse {
    finish(api.handle(request(method, &format!("/apisix/admin{path}"), body)))
}

pub(crate) fn body(response: &AdminResponse) -> Value {
    serde_json::from_slice(&response.body).unwrap_or(Value::Null)
}
