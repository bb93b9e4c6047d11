//! From the `plugins` of an object to built instances.

use std::sync::Arc;

use bytes::Bytes;
use model::{Kind, PluginCatalog, SchemaKind};
use plugin::{BuildContext, Instance, Owner, Variable};
use routing::expr::Expression;
use serde_json::{Map, Value};

use crate::{Compiler, Key, secrets};

impl Compiler {
    /// Rebuilds the plugins of an object, or forgets them when it is gone.
    pub(crate) fn build_instances_of(&mut self, key: &Key) {
        self.instances.remove(key);
        let Some(object) = self.object(key.0, &key.1).cloned() else { return };
        let Some(plugins) = object.value.get("plugins").and_then(Value::as_object) else { return };
        let owner = Owner { kind: key.0, id: key.1.clone(), version: object.modified };
        let instances = self.build_instances(key, &owner, plugins, |_| true);
        self.instances.insert(key.clone(), instances);
    }

    pub(crate) fn build_instances(
        &mut self,
        key: &Key,
        owner: &Owner,
        plugins: &Map<String, Value>,
        wanted: impl Fn(&str) -> bool,
    ) -> Vec<Arc<Instance>> {
        let mut instances = Vec::new();
        for (name, conf) in plugins {
            if !wanted(name) {
                continue;
            }
            match self.build_instance(owner, name, conf) {
                Ok(Some(instance)) => instances.push(Arc::new(instance)),
                Ok(None) => {}
                Err(reason) => self.problem(key, format!("plugin {name}: {reason}")),
            }
        }
        instances
    }

    /// `None`: disabled, here or in config.yaml.
    fn build_instance(&self, owner: &Owner, name: &str, conf: &Value) -> Result<Option<Instance>, String> {
        let Some(def) = self.catalog.def(name) else { return Err("unknown plugin".to_owned()) };
        let meta = conf.get("_meta");
        let field = |name: &str| meta.and_then(|meta| meta.get(name));
        if !self.catalog.is_enabled(name) || field("disable") == Some(&Value::Bool(true)) {
            return Ok(None);
        }
        let mut conf = conf.clone();
        secrets::resolve(&mut conf, self.secrets.as_ref())?;
        self.catalog.check(name, SchemaKind::Plugin, &mut conf)?;
        let mut metadata = self.metadata(name).map(|value| (*value).clone());
        if let Some(metadata) = &mut metadata {
            if self.catalog.check(name, SchemaKind::Metadata, metadata).is_err() {
                // As in APISIX: metadata that does not fit is as good as none.
                *metadata = Value::Object(Map::new());
            }
        }
        let context = BuildContext { owner, metadata: metadata.as_ref() };
        let plugin = (def.build)(&conf, &context)?;
        let filter = field("filter")
            .map(|rule| Expression::compile(rule, &mut |name| Variable::resolve(name)))
            .transpose()
            .map_err(|reason| format!("failed to validate the 'vars' expression: {reason}"))?;
        let pre_function = match (field("pre_function").and_then(Value::as_str), &self.lua) {
            (None, _) => None,
            (Some(source), Some(lua)) => Some(lua.pre_function(source, &conf)?),
            (Some(_), None) => {
                return Err("_meta.pre_function needs Lua, which this build does not have".to_owned());
            }
        };
        Ok(Some(Instance {
            def,
            plugin,
            priority: field("priority").and_then(Value::as_i64).unwrap_or(def.priority),
            filter: filter.filter(|filter| !filter.is_always_true()),
            error_response: field("error_response").map(error_response),
            pre_function,
        }))
    }

    pub(crate) fn instances(&self, kind: Kind, id: &str) -> &[Arc<Instance>] {
        self.instances.get(&(kind, Arc::from(id))).map_or(&[], Vec::as_slice)
    }
}

/// A text as it is, a table as JSON and a line break.
fn error_response(value: &Value) -> Bytes {
    match value {
        Value::String(text) => text.clone().into_bytes().into(),
        other => format!("{other}\n").into_bytes().into(),
    }
}
