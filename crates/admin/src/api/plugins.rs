//! What plugins there are: `/plugins/list`, `/plugins/{name}`, `/plugins?all=true`, `/plugins/reload`.

use serde_json::{Map, Value, json};
use tidegate_model::{PluginCatalog, catalog::PluginFacts, schemas::with_meta};

use crate::{
    admin_api::AdminApi,
    message::{Request, Response},
};

impl AdminApi {
    pub(super) fn list_plugins(&self, request: &Request) -> Response {
        match request.argument("subsystem").as_deref() {
            None | Some("http") => Response::json(200, &json!(self.plugins().enabled())),
            Some("stream") => {
                let names = self.stream_plugins.as_ref().map(|catalog| catalog.enabled());
                Response::json(200, &json!(names.unwrap_or_default()))
            }
            Some(_) => Response::text(400, "invalid subsystem passed"),
        }
    }

    pub(super) fn get_plugin(&self, request: &Request, name: &str) -> Response {
        let subsystem = request.argument("subsystem").unwrap_or_else(|| "http".into());
        let http = self.plugins();
        let catalog = match subsystem.as_str() {
            "http" => Some(http.as_ref()),
            "stream" => self.stream_plugins.as_deref(),
            other => return Response::error(400, &format!("unsupported subsystem: {other}")),
        };
        if request.argument("all").as_deref() == Some("true") {
            return Response::json(200, &all(catalog));
        }
        let catalog = catalog.filter(|catalog| catalog.is_enabled(name));
        let Some(facts) = catalog.and_then(|catalog| catalog.facts(name)) else {
            return Response::error(404, &format!("plugin not found in subsystem {subsystem}"));
        };
        if request.argument("schema_type").as_deref() != Some("consumer") {
            return Response::json(200, &with_meta(facts.schema));
        }
        match facts.consumer_schema {
            Some(schema) => Response::json(200, schema),
            None => Response::error(400, "not found schema"),
        }
    }

    pub(super) async fn reload_plugins(&self) -> Response {
        match self.hooks.reload_plugins().await {
            Ok(()) => Response::text(200, "done"),
            Err(error) => Response::text(503, &error),
        }
    }
}

/// Every enabled plugin with its facts, by name.
pub(crate) fn all(catalog: Option<&dyn PluginCatalog>) -> Value {
    let Some(catalog) = catalog else { return json!({}) };
    let facts = catalog.enabled().into_iter().filter_map(|name| catalog.facts(name));
    Value::Object(facts.map(|facts| (facts.name.to_owned(), shown(&facts))).collect())
}

fn shown(facts: &PluginFacts<'_>) -> Value {
    let mut fields = Map::new();
    fields.insert("version".into(), json!(facts.version));
    fields.insert("priority".into(), json!(facts.priority));
    fields.insert("schema".into(), with_meta(facts.schema));
    let optional = [
        ("metadata_schema", facts.metadata_schema.cloned()),
        ("consumer_schema", facts.consumer_schema.cloned()),
        ("type", facts.kind.map(Value::from)),
        ("scope", facts.scope.map(Value::from)),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            fields.insert(name.into(), value);
        }
    }
    Value::Object(fields)
}
