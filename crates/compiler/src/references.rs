//! Which object names which, so that a change reaches what depends on it and nothing else.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::Value;
use tidegate_model::{Kind, Object, idle, schema::lua};

use crate::{
    object::{Key, is_disabled},
    secrets::secret_references,
};

#[derive(Default)]
pub(crate) struct References {
    /// Object to what it names.
    targets: FxHashMap<Key, Vec<Key>>,
    /// And back.
    sources: FxHashMap<Key, FxHashSet<Key>>,
}

impl References {
    pub(crate) fn set(&mut self, key: &Key, targets: Vec<Key>) {
        for old in self.targets.remove(key).into_iter().flatten() {
            if let Some(sources) = self.sources.get_mut(&old) {
                sources.remove(key);
                if sources.is_empty() {
                    self.sources.remove(&old);
                }
            }
        }
        for target in &targets {
            self.sources.entry(target.clone()).or_default().insert(key.clone());
        }
        if !targets.is_empty() {
            self.targets.insert(key.clone(), targets);
        }
    }

    /// What an object names.
    pub(crate) fn of(&self, key: &Key) -> &[Key] {
        self.targets.get(key).map_or(&[], Vec::as_slice)
    }

    /// The keys and everything that depends on them, directly or not.
    pub(crate) fn closure(&self, keys: FxHashSet<Key>) -> FxHashSet<Key> {
        let mut all = keys.clone();
        let mut waiting: Vec<Key> = keys.into_iter().collect();
        while let Some(key) = waiting.pop() {
            for source in self.sources.get(&key).into_iter().flatten() {
                if all.insert(source.clone()) {
                    waiting.push(source.clone());
                }
            }
        }
        all
    }
}

/// Ids may be numbers.
pub(crate) fn id(value: Option<&Value>) -> Option<String> {
    value.filter(|value| value.is_string() || value.is_number()).map(lua::text)
}

/// What an object names: by reference fields, and the metadata of the plugins it uses.
pub(crate) fn of(object: &Object) -> Vec<Key> {
    let mut targets = Vec::new();
    let mut named = |kind: Kind, value: Option<&Value>| {
        targets.extend(id(value).map(|id| (kind, Arc::from(id))));
    };
    let value = &object.value();
    // Of a route whose text cannot be read, its place names what it is built of.
    let place = object.place();
    named(Kind::Service, place.get("service_id"));
    named(Kind::PluginConfig, place.get("plugin_config_id"));
    named(Kind::Upstream, value.get("upstream_id"));
    named(Kind::ConsumerGroup, value.get("group_id"));
    if object.document.may_have(CLIENT_CERTIFICATE) {
        client_certificates(value, &mut |id| named(Kind::Ssl, Some(id)));
    }
    if object.kind == Kind::Credential
        && let Some((consumer, _)) = object.id.split_once("/credentials/")
    {
        targets.push((Kind::Consumer, Arc::from(consumer)));
    }
    for (plugin, conf) in value.get("plugins").and_then(Value::as_object).into_iter().flatten() {
        targets.push((Kind::PluginMetadata, Arc::from(plugin.as_str())));
        targets.extend(id(conf.get("proto_id")).map(|id| (Kind::Proto, Arc::from(id))));
        if plugin == SPLIT {
            targets.extend(split_upstreams(conf).map(|id| (Kind::Upstream, Arc::from(id))));
        }
    }
    targets.extend(
        secret_references(value).into_iter().filter_map(manager).map(|id| (Kind::Secret, Arc::from(id))),
    );
    targets
}

const CLIENT_CERTIFICATE: &str = "client_cert_id";

/// Of every upstream below `value`: plugins have some at places of their own.
fn client_certificates(value: &Value, found: &mut impl FnMut(&Value)) {
    match value {
        Value::Object(fields) => {
            fields.get(CLIENT_CERTIFICATE).into_iter().for_each(&mut *found);
            fields.values().for_each(|field| client_certificates(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| client_certificates(item, found)),
        _ => {}
    }
}

pub(crate) const SPLIT: &str = "traffic-split";

/// The upstreams that traffic-split names.
pub(crate) fn split_upstreams(conf: &Value) -> impl Iterator<Item = String> {
    idle::split_upstreams(conf).filter(|_| !is_disabled(conf)).filter_map(|named| id(Some(named)))
}

/// `vault/1` of `vault/1/path/key`.
fn manager(reference: &str) -> Option<&str> {
    let (manager, rest) = reference.split_once('/')?;
    let (id, _) = rest.split_once('/')?;
    reference.get(..manager.len() + 1 + id.len())
}

impl References {
    /// The objects that have one of these secrets in them.
    pub(crate) fn users_of_secret<'a>(&'a self, reference: &str) -> impl Iterator<Item = &'a Key> {
        let manager = manager(reference).map(|id| (Kind::Secret, Arc::from(id)));
        manager.and_then(|key| self.sources.get(&key)).into_iter().flatten()
    }
}
