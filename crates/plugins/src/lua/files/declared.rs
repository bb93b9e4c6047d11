//! The fields of a plugin's module that the gateway has to know before a request comes.

use mlua::{Table, Value};
use tidegate_plugin_api::{Api, Handler, Phases, PluginDef, PluginFile};

use crate::lua::{chunk, json, phases, vm::Vm};

/// URIs of one plugin.
const MAX_APIS: usize = 64;

pub(super) struct Declared {
    version: f64,
    priority: i64,
    is_auth: bool,
    is_global: bool,
    prefers_route: bool,
    schema: serde_json::Value,
    consumer_schema: Option<serde_json::Value>,
    metadata_schema: Option<serde_json::Value>,
    /// When its functions run.
    pub phases: Phases,
    /// Consumers have configurations of it, by which they are found.
    pub identifies: bool,
    /// Methods and URI of each.
    pub apis: Vec<(Vec<String>, String)>,
}

impl Declared {
    /// What a module says after it was started.
    pub(super) fn of(vm: &Vm, module: &Table) -> Result<Declared, String> {
        let field = |name: &str| module.raw_get::<Value>(name).unwrap_or(Value::Nil);
        let text = |name: &str| field(name).as_string().map(|text| text.to_string_lossy());
        let schema = |name: &str| -> Result<Option<serde_json::Value>, String> {
            match field(name) {
                Value::Nil => Ok(None),
                table @ Value::Table(_) => {
                    let document = json::from_lua(&vm.lua, &table, false)
                        .map_err(|reason| format!("invalid plugin: {name}: {reason}"))?;
                    Ok(Some(json::as_schema(document)))
                }
                other => Err(format!("invalid plugin: {name} is a {}, not a table", other.type_name())),
            }
        };
        let consumer_schema = schema("consumer_schema")?;
        let is_auth = text("type").as_deref() == Some("auth");
        Ok(Declared {
            version: number(&field("version")),
            priority: number(&field("priority")) as i64,
            is_auth,
            is_global: text("scope").as_deref() == Some("global"),
            prefers_route: text("run_policy").as_deref() == Some("prefer_route"),
            schema: schema("schema")?.map(without_meta).unwrap_or_default(),
            identifies: is_auth && consumer_schema.is_some(),
            consumer_schema,
            metadata_schema: schema("metadata_schema")?,
            phases: phases::of_plugin(module).map_err(|error| chunk::message(&error))?,
            apis: apis(vm, module)?,
        })
    }

    /// Its schemas and the fields that they are in.
    pub(super) fn schemas(&self) -> impl Iterator<Item = (&'static str, &serde_json::Value)> {
        let others = [("consumer_schema", &self.consumer_schema), ("metadata_schema", &self.metadata_schema)];
        let others = others.into_iter().filter_map(|(name, schema)| Some((name, schema.as_ref()?)));
        std::iter::once(("schema", &self.schema)).chain(others)
    }

    /// Stays as long as the process.
    pub(super) fn leak(self, name: &'static str, file: &'static dyn PluginFile) -> &'static PluginDef {
        let text = |schema: serde_json::Value| -> &'static str { leaked(schema.to_string()) };
        let schemas = [Some(&self.schema), self.consumer_schema.as_ref()];
        let secret: Vec<&'static str> = schemas.into_iter().flatten().flat_map(encrypted).collect();
        let apis: Vec<Api> = (0..)
            .zip(self.apis)
            .map(|(number, (methods, uri))| Api {
                methods: Vec::leak(methods.into_iter().map(leaked).collect()),
                uri: leaked(uri),
                handler: Handler::File(file, number),
            })
            .collect();
        Box::leak(Box::new(PluginDef {
            name,
            version: self.version,
            priority: self.priority,
            kind: self.is_auth.then_some("auth"),
            scope: self.is_global.then_some("global"),
            on_by_default: false,
            schema: text(self.schema),
            consumer_schema: self.consumer_schema.map(text),
            metadata_schema: self.metadata_schema.map(text),
            encrypt_fields: secret.leak(),
            // Rewrite in any case: it finds out whether the functions are still these.
            phases: self.phases.and(Phases::REWRITE),
            prefer_route: self.prefers_route,
            apis: apis.leak(),
            file: Some(file),
            ..PluginDef::DEFAULT
        }))
    }
}

/// The start adds `_meta`, which the gateway checks itself.
fn without_meta(mut schema: serde_json::Value) -> serde_json::Value {
    if let Some(properties) = schema.get_mut("properties").and_then(serde_json::Value::as_object_mut) {
        properties.remove("_meta");
    }
    schema
}

fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

/// Paths of secret fields.
fn encrypted(schema: &serde_json::Value) -> Vec<&'static str> {
    let list = schema.get("encrypt_fields").and_then(serde_json::Value::as_array);
    list.into_iter().flatten().filter_map(|path| Some(leaked(path.as_str()?.to_owned()))).collect()
}

fn number(value: &Value) -> f64 {
    match value {
        Value::Integer(number) => *number as f64,
        Value::Number(number) => *number,
        _ => 0.0,
    }
}

/// The first text among the fields that are required.
pub(super) fn key_field(schema: &serde_json::Value) -> Option<&str> {
    let required = schema.get("required")?.as_array()?;
    let is_text = |name: &&str| {
        let kind = schema.get("properties").and_then(|fields| fields.get(*name)?.get("type"));
        kind.and_then(serde_json::Value::as_str) == Some("string")
    };
    required.iter().filter_map(serde_json::Value::as_str).find(is_text)
}

/// What `api()` lists. The handlers are found again where they are called.
fn apis(vm: &Vm, module: &Table) -> Result<Vec<(Vec<String>, String)>, String> {
    let listed = || -> mlua::Result<Vec<(Vec<String>, String)>> {
        let Some(api) = phases::function(module, "api")? else { return Ok(Vec::new()) };
        let list: Table = vm.call_file(api, ())?;
        let mut apis = Vec::new();
        for entry in list.sequence_values::<Table>().take(MAX_APIS) {
            let entry = entry?;
            let methods: Vec<String> = entry.get::<Option<Vec<String>>>("methods")?.unwrap_or_default();
            apis.push((methods, entry.get::<String>("uri")?));
        }
        Ok(apis)
    };
    listed().map_err(|error| format!("invalid plugin: api: {}", chunk::message(&error)))
}
