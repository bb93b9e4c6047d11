//! Stream routes: merged with their service, in the order in which sessions try them.

mod conditions;
mod order;
mod protocol;
pub(crate) mod table;

use std::sync::Arc;

use serde_json::{Map, Value};
use tidegate_model::{Kind, Object, PluginCatalog, SchemaKind, resources};
use tidegate_plugin_api::{
    BuildContext, Catalog, Owner, Session, UpstreamHandle, Variable,
    route::RouteUpstream,
    session::StreamOwner,
    stream_route::{StreamInstance, StreamRoute},
};
use tidegate_routing::expr::Expression;
use tidegate_telemetry::error_log::Level;

use crate::{
    Compiler,
    object::{Key, is_disabled},
};

impl Compiler {
    /// Nothing where `apisix.proxy_mode` has no stream.
    pub(crate) fn build_stream_route(&mut self, key: &Key) {
        let Some(catalog) = self.options.stream.clone() else { return };
        let before = self.streams.remove(&key.1);
        let previous = self.inline_upstreams.remove(key).unwrap_or_default();
        self.incomplete.remove(key);
        let Some(object) = self.object(Kind::StreamRoute, &key.1).cloned() else { return };
        self.check_references(key);
        let open = before.map(|before| before.open.clone()).unwrap_or_default();
        if let Some(mut route) = self.compile_stream_route(key, &object, &catalog, &previous) {
            route.open = open;
            self.streams.put(&key.1, route);
        }
    }

    /// A route that cannot be built keeps its place and closes what would have been its sessions. `None`: it only refines
    /// another one.
    fn compile_stream_route(
        &mut self,
        key: &Key,
        object: &Object,
        catalog: &Catalog,
        previous: &[Arc<UpstreamHandle>],
    ) -> Option<StreamRoute> {
        let value = object.value();
        let mut faults = Vec::new();
        let conf = resources::StreamRoute::from_value(&value).map_err(|reason| faults.push(reason)).ok();
        let conditions = conditions::read(object, &mut faults);
        let protocol = conf.as_ref().and_then(|conf| conf.protocol.as_ref());
        if protocol.is_some_and(|protocol| protocol.superior_id.is_some()) {
            return None;
        }
        let protocol = protocol.and_then(|protocol| {
            let built = self.protocol(key, object, protocol, catalog);
            built.map_err(|reason| faults.push(format!("protocol {}: {reason}", protocol.name))).ok()
        });
        let service = conf.as_ref().and_then(|conf| self.stream_service(conf));
        let plugins = merged_plugins(&value, service.as_ref().map(|(value, _)| &**value), catalog);
        let instances = self.stream_instances(key, object, &plugins, catalog, previous, &mut faults);
        let upstream = conf.as_ref().map_or(RouteUpstream::None, |conf| {
            self.stream_upstream(key, conf, service.as_ref().map(|(_, service)| service))
        });
        let is_broken = object.fault.is_some()
            || !faults.is_empty()
            || self.incomplete.contains(key)
            || self.is_broken(Kind::Service, conf.as_ref().and_then(|conf| conf.service_id.as_deref()))
            || matches!(upstream, RouteUpstream::Missing);
        for fault in faults.into_iter().filter(|_| object.fault.is_none()) {
            self.problem(key, fault);
        }
        let text = |text: Option<&String>| text.map(|text| Arc::from(text.as_str()));
        let owner = StreamOwner {
            id: key.1.clone(),
            name: text(conf.as_ref().and_then(|conf| conf.name.as_ref())),
            service_id: text(conf.as_ref().and_then(|conf| conf.service_id.as_ref())),
            service_name: text(service.as_ref().and_then(|(_, service)| service.name.as_ref())),
        };
        let owner = Arc::new(owner);
        let open = Arc::default();
        Some(StreamRoute { owner, conditions, plugins: instances, upstream, protocol, is_broken, open })
    }

    fn stream_service(&self, conf: &resources::StreamRoute) -> Option<(Arc<Value>, resources::Service)> {
        let value = self.object(Kind::Service, conf.service_id.as_deref()?)?.value();
        let service = resources::Service::from_value(&value).ok()?;
        Some((value, service))
    }

    /// As of routes for HTTP: its own goes before the service's.
    fn stream_upstream(
        &self,
        key: &Key,
        conf: &resources::StreamRoute,
        service: Option<&resources::Service>,
    ) -> RouteUpstream {
        let service = service.zip(conf.service_id.as_deref());
        self.upstream_of(key, (conf.upstream_id.as_deref(), conf.upstream.is_some()), service)
    }

    fn stream_instances(
        &mut self,
        key: &Key,
        object: &Object,
        plugins: &Map<String, Value>,
        catalog: &Catalog,
        previous: &[Arc<UpstreamHandle>],
        faults: &mut Vec<String>,
    ) -> Vec<Arc<StreamInstance>> {
        let owner = Owner { kind: key.0, id: key.1.clone(), version: object.modified };
        let mut instances = Vec::new();
        for (name, conf) in plugins.iter().filter(|(_, conf)| !is_disabled(conf)) {
            match self.stream_instance(key, &owner, (name, conf), catalog, previous) {
                Ok(instance) => instances.extend(instance.map(Arc::new)),
                Err(reason) => faults.push(format!("plugin {name}: {reason}")),
            }
        }
        instances.sort_by(|a, b| b.priority.cmp(&a.priority).then_with(|| a.name.cmp(b.name)));
        instances
    }

    pub(super) fn stream_instance(
        &mut self,
        key: &Key,
        owner: &Owner,
        (name, conf): (&str, &Value),
        catalog: &Catalog,
        previous: &[Arc<UpstreamHandle>],
    ) -> Result<Option<StreamInstance>, String> {
        let Some(def) = catalog.def(name) else { return Err(catalog.unknown(name)) };
        if !catalog.is_enabled(name) {
            return Err(format!("not in the list of plugins; add {name} to `stream_plugins` of config.yaml"));
        }
        let mut conf = match conf {
            // Lua writes an empty table so.
            Value::Array(none) if none.is_empty() => Value::Object(Map::new()),
            conf => conf.clone(),
        };
        if conf.pointer("/_meta/pre_function").is_some() {
            return Err("_meta.pre_function is not available for stream routes".to_owned());
        }
        let waits = self.resolve(&mut conf)?;
        #[cfg(debug_assertions)]
        if let Some(mutant) = crate::mutant::of(catalog, name, SchemaKind::Plugin, &conf) {
            conf = mutant;
        }
        let built = catalog.check(name, SchemaKind::Plugin, &mut conf).and_then(|()| {
            let metadata = self.metadata_of(name);
            let upstreams = self.compile_inline(key, owner, def, &conf, previous)?;
            let context =
                BuildContext { owner, metadata: metadata.as_ref(), upstreams: &upstreams, proto: None };
            let priority = conf.pointer("/_meta/priority").and_then(Value::as_i64).unwrap_or(def.priority);
            let plugin = self.with_texts(key, def, || (def.build_stream)(&conf, &context))?;
            let filter = conf.pointer("/_meta/filter").map(|rule| self.stream_filter(key, def.name, rule));
            let filter = filter.transpose()?.filter(|filter| !filter.is_always_true());
            Ok(StreamInstance { name: def.name, priority, filter, plugin })
        });
        self.excuse(built, waits)
    }

    /// `_meta.filter`, which may be about what only requests have: then the plugin may never run.
    fn stream_filter(&mut self, key: &Key, name: &str, rule: &Value) -> Result<Expression<Variable>, String> {
        let mut of_requests: Vec<String> = Vec::new();
        let mut resolve = |name: &str| {
            let variable = Variable::resolve(name);
            if !Session::knows(&variable) {
                of_requests.push(name.to_owned());
            }
            variable
        };
        let filter = Expression::compile(rule, &mut resolve)
            .map_err(|reason| format!("failed to validate the 'vars' expression: {reason}"))?;
        for unknown in of_requests {
            let text = format!("plugin {name}: _meta.filter: no session has a variable ${unknown}");
            self.remark(key, Level::Warn, text);
        }
        Ok(filter)
    }
}

/// A plugin of the route takes the place of the service's. The service's others may be for HTTP alone.
fn merged_plugins(value: &Value, service: Option<&Value>, catalog: &Catalog) -> Map<String, Value> {
    let of = |value: &Value| value.get("plugins").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut merged = of(value);
    for (name, conf) in service.map(of).into_iter().flatten() {
        if catalog.is_enabled(&name) && !merged.contains_key(&name) {
            merged.insert(name, conf);
        }
    }
    merged
}
