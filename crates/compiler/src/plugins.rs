//! From the `plugins` of an object to built instances.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use tidegate_model::{Document, Kind, PluginCatalog, SchemaKind, catalog::built_without};
use tidegate_plugin_api::{
    BuildContext, Instance, MISFIT, Owner, PluginChain, PluginDef, UpstreamHandle, Variable, upstream::Scheme,
};
use tidegate_routing::expr::Expression;
use tidegate_telemetry::error_log::{self, Level};

use crate::{
    Compiler,
    object::{Key, is_disabled},
    references, unreached,
};

impl Compiler {
    /// Rebuilds the plugins of an object, or forgets them when it is gone.
    pub(crate) fn build_instances_of(&mut self, key: &Key) {
        self.instances.remove(key);
        self.incomplete.remove(key);
        let previous = self.inline_upstreams.remove(key).unwrap_or_default();
        let Some(object) = self.object(key.0, &key.1).cloned() else { return };
        if object.fault.is_some() {
            self.incomplete.insert(key.clone());
            return;
        }
        let value = object.value();
        let plugins = match value.get("plugins") {
            None | Some(Value::Null) => return,
            Some(Value::Object(plugins)) => plugins,
            Some(Value::Array(none)) if none.is_empty() => return,
            Some(_) => {
                self.incomplete.insert(key.clone());
                return self.problem(key, "plugins should be an object".to_owned());
            }
        };
        let owner = Owner { kind: key.0, id: key.1.clone(), version: object.modified };
        let instances = self.build_instances(key, &owner, plugins, &previous, |_| true);
        if key.0 != Kind::Route && unreached::any_answers(&instances) {
            self.remark_on_unreached(key, &PluginChain::new(instances.clone()));
        }
        self.instances.insert(key.clone(), instances);
    }

    /// Rebuilds only those plugins of an object that hold upstreams: the addresses of their nodes have changed. Those of a
    /// consumer are built with it.
    pub(crate) fn rebuild_inline_upstreams(&mut self, key: &Key) {
        if key.0 == Kind::Consumer {
            return;
        }
        let Some(previous) = self.inline_upstreams.remove(key) else { return };
        let Some(object) = self.object(key.0, &key.1).cloned() else { return };
        let value = object.value();
        let Some(plugins) = value.get("plugins").and_then(Value::as_object) else { return };
        let owner = Owner { kind: key.0, id: key.1.clone(), version: object.modified };
        let catalog = self.catalog.clone();
        let holds = |name: &str| catalog.def(name).is_some_and(|def| def.inline_upstreams.is_some());
        let rebuilt = self.build_instances(key, &owner, plugins, &previous, holds);
        let instances = self.instances.entry(key.clone()).or_default();
        instances.retain(|instance| instance.def.inline_upstreams.is_none());
        instances.extend(rebuilt);
    }

    pub(crate) fn build_instances(
        &mut self,
        key: &Key,
        owner: &Owner,
        plugins: &Map<String, Value>,
        previous: &[Arc<UpstreamHandle>],
        wanted: impl Fn(&str) -> bool,
    ) -> Vec<Arc<Instance>> {
        let mut instances = Vec::new();
        for (name, conf) in plugins {
            if !wanted(name) {
                continue;
            }
            match self.build_instance(key, owner, name, conf, previous) {
                Ok(Some(instance)) => instances.push(Arc::new(instance)),
                Ok(None) => {}
                Err(reason) => {
                    // Without one of its plugins an object might let through what that plugin would refuse.
                    self.incomplete.insert(key.clone());
                    self.problem(key, format!("plugin {name}: {reason}"));
                }
            }
        }
        instances
    }

    /// `None`: it does not run, as `_meta.disable` or the list of plugins says.
    fn build_instance(
        &mut self,
        key: &Key,
        owner: &Owner,
        name: &str,
        conf: &Value,
        previous: &[Arc<UpstreamHandle>],
    ) -> Result<Option<Instance>, String> {
        if is_disabled(conf) {
            return Ok(None);
        }
        let Some(def) = self.catalog.def(name) else { return Err(self.catalog.unknown(name)) };
        if !self.catalog.is_enabled(name) {
            return self.pass_over(def);
        }
        let mut conf = match conf {
            // Lua writes an empty table so.
            Value::Array(none) if none.is_empty() => Value::Object(Map::new()),
            conf => conf.clone(),
        };
        let waits = match def.guards {
            true => self.resolve(&mut conf)?,
            false => self.resolve_lenient(key, &mut conf, def.encrypt_fields)?,
        };
        #[cfg(debug_assertions)]
        if let Some(mutant) = crate::mutant::of(&*self.catalog, name, SchemaKind::Plugin, &conf)
            && let Ok(instance) = self.finish_instance(key, owner, def, mutant, previous)
        {
            return Ok(Some(instance));
        }
        let built = self.finish_instance(key, owner, def, conf, previous);
        self.excuse(built, waits)
    }

    /// A plugin that the list of plugins does not have. One that neither refuses requests nor answers
    /// them, and removes nothing from answers, can be left out.
    fn pass_over(&mut self, def: &PluginDef) -> Result<Option<Instance>, String> {
        let name = def.name;
        if def.guards || def.answers {
            return Err(format!(
                "not in the list of plugins; add {name} to `plugins` of config.yaml, or of apisix.yaml if that has a list"
            ));
        }
        if !self.trial && self.passed_over.insert(name.to_owned()) {
            let text = format_args!(
                "plugin {name} does not run where it is configured: it is not in the list of plugins"
            );
            error_log::log(Level::Warn, text);
        }
        Ok(None)
    }

    /// The metadata of a plugin, with their defaults.
    pub fn metadata_of(&self, name: &str) -> Option<Value> {
        let mut metadata = (*self.metadata(name)?).clone();
        if self.catalog.check(name, SchemaKind::Metadata, &mut metadata).is_err() {
            // As in APISIX: metadata that does not fit is as good as none.
            metadata = Value::Object(Map::new());
        }
        Some(metadata)
    }

    /// The last step: `conf` has its secrets.
    fn finish_instance(
        &mut self,
        key: &Key,
        owner: &Owner,
        def: &'static PluginDef,
        mut conf: Value,
        previous: &[Arc<UpstreamHandle>],
    ) -> Result<Instance, String> {
        let name = def.name;
        self.catalog.check(name, SchemaKind::Plugin, &mut conf)?;
        let metadata = self.metadata_of(name);
        let upstreams = self.compile_inline(key, owner, def, &conf, previous)?;
        let proto = references::id(conf.get("proto_id")).and_then(|id| self.object(Kind::Proto, &id));
        let proto = proto.map(tidegate_model::Object::value);
        let proto = proto.as_deref().and_then(|proto| proto.get("content")).and_then(Value::as_str);
        let context = BuildContext { owner, metadata: metadata.as_ref(), upstreams: &upstreams, proto };
        let plugin = self.with_texts(key, def, || def.instance(&conf, &context))?;
        let meta = conf.get("_meta");
        let field = |name: &str| meta.and_then(|meta| meta.get(name));
        let filter = field("filter")
            .map(|rule| Expression::compile(rule, &mut |name| Variable::resolve(name)))
            .transpose()
            .map_err(|reason| format!("failed to validate the 'vars' expression: {reason}"))?;
        let pre_function = match (field("pre_function").and_then(Value::as_str), &self.lua) {
            (None, _) => None,
            (Some(source), Some(lua)) => Some(lua.pre_function(source, &conf)?),
            (Some(_), None) => {
                return Err(format!("_meta.pre_function: {}", built_without("lua")));
            }
        };
        Ok(Instance {
            def,
            plugin,
            owner: owner.clone(),
            priority: field("priority").map(priority).transpose()?.unwrap_or(def.priority),
            filter: filter.filter(|filter| !filter.is_always_true()),
            error_response: field("error_response").map(error_response),
            pre_function,
        })
    }

    /// The upstreams written inside a plugin's configuration; `previous`: those of the owner before the change.
    pub(crate) fn compile_inline(
        &mut self,
        key: &Key,
        owner: &Owner,
        def: &PluginDef,
        conf: &Value,
        previous: &[Arc<UpstreamHandle>],
    ) -> Result<Vec<Arc<UpstreamHandle>>, String> {
        let Some(find) = def.inline_upstreams else { return Ok(Vec::new()) };
        // Also for a plugin that cannot be built: its owner waits for what has been asked for so far.
        self.inline_upstreams.entry(key.clone()).or_default();
        let mut handles = Vec::new();
        for (index, value) in find(conf).into_iter().enumerate() {
            let name = format!("{}/{}#plugins.{}.{index}", key.0.directory(), key.1, def.name);
            let known = previous.iter().find(|handle| *handle.name == *name).map(Arc::as_ref);
            let mut handle =
                self.compile_upstream(key, &value, (Document::new(&value), false), (owner.version, known))?;
            handle.name = name.into();
            if handle.scheme == Scheme::Http {
                // With `pass_host: node` APISIX names such a node without its port.
                for node in &mut handle.nodes {
                    if let Some(host) = node.host_header.strip_suffix(&format!(":{}", node.port)) {
                        let host = host.into();
                        Arc::make_mut(node).host_header = host;
                    }
                }
            }
            handles.push(Arc::new(handle));
        }
        self.inline_upstreams.entry(key.clone()).or_default().extend(handles.iter().cloned());
        Ok(handles)
    }

    pub(crate) fn instances(&self, kind: Kind, id: &str) -> &[Arc<Instance>] {
        self.instances.get(&(kind, Arc::from(id))).map_or(&[], Vec::as_slice)
    }
}

fn priority(value: &Value) -> Result<i64, String> {
    tidegate_model::typed(value).map_err(|reason| format!("{MISFIT}: _meta.priority: {reason}"))
}

/// A text unchanged, a table as JSON and a line break.
fn error_response(value: &Value) -> Bytes {
    match value {
        Value::String(text) => text.clone().into_bytes().into(),
        other => format!("{other}\n").into_bytes().into(),
    }
}
