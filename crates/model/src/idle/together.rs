//! What a route has besides its own: the plugins of the objects that it names, and the upstream that its requests go to.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Map, Value};

use crate::{Kind, Object, Objects};

/// The objects whose plugins run together; what stands first counts.
pub(super) fn together(object: &Object, all: &dyn Objects) -> Vec<Arc<Value>> {
    let own = object.value();
    let mut values = vec![own.clone()];
    if object.kind == Kind::Route {
        for (field, kind) in [("plugin_config_id", Kind::PluginConfig), ("service_id", Kind::Service)] {
            values.extend(named(&own, field, kind, all));
        }
    }
    values
}

pub(super) fn plugins(value: &Value) -> Option<&Map<String, Value>> {
    value.get("plugins")?.as_object()
}

pub(super) fn is_disabled(conf: &Value) -> bool {
    conf.pointer("/_meta/disable") == Some(&Value::Bool(true))
}

/// The upstream of a route, stream route or service, its own or that which it names, else its service's.
pub(super) fn upstream_of<'v>(value: &'v Value, all: &dyn Objects) -> Option<Cow<'v, Value>> {
    let own = |value: &Value| named(value, "upstream_id", Kind::Upstream, all);
    if value.get("upstream_id").is_some() {
        return own(value).map(|upstream| Cow::Owned((*upstream).clone()));
    }
    if let Some(upstream) = value.get("upstream") {
        return Some(Cow::Borrowed(upstream));
    }
    let service = named(value, "service_id", Kind::Service, all)?;
    match service.get("upstream_id") {
        Some(_) => own(&service).map(|upstream| Cow::Owned((*upstream).clone())),
        None => service.get("upstream").cloned().map(Cow::Owned),
    }
}

/// The object that a field names. Ids may be numbers.
fn named(value: &Value, field: &str, kind: Kind, all: &dyn Objects) -> Option<Arc<Value>> {
    let id = value.get(field)?;
    let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    all.get(kind, &id).map(|object| object.value())
}
