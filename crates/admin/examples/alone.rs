//! The Admin and Control API without a gateway behind them, over a store in memory.
//!
//! For running APISIX's own admin tests against them: `alone PREFIX SCHEMAS`, where PREFIX holds `conf/config.yaml`
//! and SCHEMAS is a JSON file of plugin schemas by module name. Plugins are checked against their schema only.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use serde_json::{Value, json};
use tidegate_admin::{
    Access, AdminApi, AdminKey, AdminSettings, ApiVersion, ControlApi, ControlParts, NoControlHooks,
    NoHealth, NoHooks, Parts, Role, Standalone,
    listener::{Bounds, serve},
};
use tidegate_model::{
    PluginCatalog, Schema, SchemaKind, catalog::PluginFacts, check::AnyLanguage, encrypt::Keyring,
    schemas::with_meta,
};
use tokio::net::TcpListener;

struct Catalog {
    plugins: BTreeMap<String, Plugin>,
    enabled: Vec<String>,
}

struct Plugin {
    facts: Value,
    checks: [Option<Schema>; 3],
    encrypt_fields: Vec<&'static str>,
}

impl PluginCatalog for Catalog {
    fn facts(&self, name: &str) -> Option<PluginFacts<'_>> {
        let (name, plugin) = self.plugins.get_key_value(name)?;
        let text = |field: &str| plugin.facts.get(field).and_then(Value::as_str);
        Some(PluginFacts {
            name,
            version: 0.1,
            priority: plugin.facts.get("priority").and_then(Value::as_i64).unwrap_or(0),
            kind: text("type"),
            scope: text("scope"),
            schema: plugin.facts.get("schema").unwrap_or(&Value::Null),
            consumer_schema: plugin.facts.get("consumer_schema"),
            metadata_schema: plugin.facts.get("metadata_schema"),
            encrypt_fields: &plugin.encrypt_fields,
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
        self.enabled.iter().any(|other| other == name)
    }

    fn enabled(&self) -> Vec<&str> {
        self.enabled.iter().map(String::as_str).collect()
    }

    fn check(&self, name: &str, kind: SchemaKind, conf: &mut Value) -> Result<(), String> {
        let Some(plugin) = self.plugins.get(name) else { return Err("unknown plugin".into()) };
        let [schema, consumer, metadata] = &plugin.checks;
        let schema = match kind {
            SchemaKind::Consumer => consumer.as_ref().or(schema.as_ref()),
            SchemaKind::Metadata => metadata.as_ref(),
            SchemaKind::Plugin => schema.as_ref(),
        };
        schema.map_or(Ok(()), |schema| schema.check(conf))
    }
}

fn catalog(text: &str, part: &str) -> Result<Catalog, Box<dyn std::error::Error>> {
    let all: BTreeMap<String, Value> = serde_json::from_str(text)?;
    let mut plugins = BTreeMap::new();
    for (module, facts) in all {
        let Some(name) = module.strip_prefix(part) else { continue };
        let compile =
            |field: &str| facts.get(field).map(|schema| Schema::compile(&with_meta(schema))).transpose();
        let checks = [compile("schema")?, compile("consumer_schema")?, compile("metadata_schema")?];
        let schemas =
            ["schema", "consumer_schema", "metadata_schema"].iter().filter_map(|schema| facts.get(schema));
        let fields = schemas.filter_map(|schema| schema.get("encrypt_fields")?.as_array()).flatten();
        // Lives as long as the process does.
        let encrypt_fields = fields.filter_map(|field| Some(&*field.as_str()?.to_owned().leak())).collect();
        plugins.insert(name.to_owned(), Plugin { facts, checks, encrypt_fields });
    }
    let mut enabled: Vec<String> = plugins.keys().cloned().collect();
    let priority =
        |name: &String| plugins.get(name).and_then(|plugin| plugin.facts.get("priority")?.as_i64());
    enabled.sort_by_key(|name| std::cmp::Reverse(priority(name)));
    Ok(Catalog { plugins, enabled })
}

fn settings(config: &Value) -> AdminSettings {
    let admin = |field: &str| config.pointer(&format!("/deployment/admin/{field}"));
    let keys = admin("admin_key").and_then(Value::as_array).into_iter().flatten().filter_map(|key| {
        let text = |field: &str| key.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        let role = if text("role") == "viewer" { Role::Viewer } else { Role::Admin };
        AdminKey::new(&text("name"), &text("key"), role)
    });
    let protocols = config.pointer("/xrpc/protocols").and_then(Value::as_array).into_iter().flatten();
    let keyring = match config.pointer("/apisix/data_encryption/keyring") {
        Some(Value::String(key)) => vec![key.clone()],
        Some(Value::Array(keys)) => keys.iter().filter_map(|key| key.as_str().map(str::to_owned)).collect(),
        _ => vec!["qeddd145sfvddff3".to_owned(), "edd1c9f0985e76a2".to_owned()],
    };
    let version = admin("admin_api_version").is_some_and(|version| version != "v3");
    AdminSettings {
        access: match admin("admin_key_required") {
            Some(Value::Bool(false)) => Access::Open,
            _ => Access::Keys(keys.collect()),
        },
        version: if version { ApiVersion::V2 } else { ApiVersion::V3 },
        stream: config.pointer("/apisix/proxy_mode").is_none_or(|mode| mode != "http"),
        cors: admin("enable_admin_cors") != Some(&json!(false)),
        server_tokens: config.pointer("/apisix/enable_server_tokens") != Some(&json!(false)),
        protocols: protocols
            .filter_map(|protocol| protocol.get("name")?.as_str().map(str::to_owned))
            .collect(),
        keyring: Keyring::new(&keyring).ok().map(Arc::new),
        ..AdminSettings::default()
    }
}

/// The whole configuration, for `config_provider: yaml`.
#[derive(Default)]
struct Document(Mutex<Option<Arc<Value>>>);

impl Standalone for Document {
    fn current(&self) -> Option<Arc<Value>> {
        self.0.lock().ok()?.clone()
    }

    fn replace(&self, configuration: Value) -> tidegate_store::BoxFuture<'_, Result<(), String>> {
        let replaced = self.0.lock().map(|mut document| *document = Some(Arc::new(configuration)));
        let replaced = replaced.map_err(|error| error.to_string());
        Box::pin(async move { replaced })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(prefix), Some(schemas)) = (arguments.next(), arguments.next()) else {
        return Err("usage: alone PREFIX SCHEMAS".into());
    };
    let config = std::fs::read_to_string(format!("{prefix}/conf/config.yaml"))?;
    let config = tidegate_config::yaml::to_value(&config).map_err(|fault| fault.to_string())?;
    let schemas = std::fs::read_to_string(schemas)?;
    let plugins: Arc<dyn PluginCatalog> = Arc::new(catalog(&schemas, "apisix.plugins.")?);
    let stream: Arc<dyn PluginCatalog> = Arc::new(catalog(&schemas, "apisix.stream.plugins.")?);
    let provider = config.pointer("/deployment/role_traditional/config_provider");
    let yaml = provider.is_some_and(|provider| provider == "yaml");
    let store = Arc::new(tidegate_store::Memory::new());
    let admin = Arc::new(AdminApi::new(Parts {
        settings: settings(&config),
        store: store.clone(),
        plugins: plugins.clone(),
        stream_plugins: Some(stream.clone()),
        languages: Arc::new(AnyLanguage),
        hooks: Arc::new(NoHooks),
        compiled: Arc::new(tidegate_admin::NoCompiler),
        standalone: yaml.then(|| Arc::new(Document::default()) as Arc<dyn Standalone>),
        audit: None,
    }));
    let control = Arc::new(ControlApi::new(ControlParts {
        key_prefix: "/apisix".into(),
        server: "APISIX/3.18.0",
        store,
        plugins,
        stream_plugins: Some(stream),
        health: Arc::new(NoHealth),
        hooks: Arc::new(NoControlHooks),
        audit: None,
        compiled: Arc::new(tidegate_admin::NoCompiler),
        hosts: tidegate_admin::Hosts::default(),
        inspect: None,
    }));
    let data = TcpListener::bind("127.0.0.2:1984").await?;
    let (_doors, serving) = tokio::sync::watch::channel(tidegate_admin::listener::Phase::Serving);
    tokio::join!(
        serve(TcpListener::bind("127.0.0.1:9180").await?, admin.clone(), Bounds::default(), serving.clone()),
        serve(TcpListener::bind("127.0.0.1:9090").await?, control, Bounds::default(), serving.clone()),
        serve(data, admin, Bounds::default(), serving),
    );
    Ok(())
}
