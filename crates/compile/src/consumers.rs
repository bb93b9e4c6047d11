//! Consumers and credentials: one index per authentication plugin, changed entry by entry.

use std::{ops::Bound, sync::Arc};

use model::{Kind, PluginCatalog, SchemaKind, resources};
use plugin::{AuthEntry, Consumer, ConsumerIndex, Instance, Owner};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use crate::{Compiler, Key};

#[derive(Default)]
pub struct Consumers {
    index: ConsumerIndex,
    /// What each consumer put into the indexes, to take it out again.
    keys: FxHashMap<Arc<str>, Vec<(&'static str, String)>>,
}

impl Consumers {
    pub fn index(&self) -> ConsumerIndex {
        self.index.clone()
    }

    fn forget(&mut self, username: &str) {
        for (plugin, key) in self.keys.remove(username).unwrap_or_default() {
            self.index.entry_of(plugin).remove(&key, username);
        }
        if self.index.by_name.contains_key(username) {
            Arc::make_mut(&mut self.index.by_name).remove(username);
        }
    }
}

impl Compiler {
    /// Rebuilds the consumer that a key (its own or a credential's) belongs to.
    pub(crate) fn build_consumer(&mut self, key: &Key) {
        let username: Arc<str> = match key.1.split_once("/credentials/") {
            Some((username, _)) => Arc::from(username),
            None => key.1.clone(),
        };
        self.consumers.forget(&username);
        let own = (Kind::Consumer, username.clone());
        self.incomplete.remove(&own);
        let Some(object) = self.object(Kind::Consumer, &username).cloned() else { return };
        if object.fault.is_some() {
            return;
        }
        let conf = match resources::Consumer::from_value(&object.value()) {
            Ok(conf) => conf,
            Err(reason) => return self.problem(&own, reason),
        };
        let group = conf.group_id.as_deref();
        let group_missing = group.is_some_and(|id| {
            let incomplete = self.incomplete.contains(&(Kind::ConsumerGroup, Arc::from(id)));
            incomplete || self.object(Kind::ConsumerGroup, id).is_none()
        });
        let consumer = Arc::new(Consumer {
            username: username.clone(),
            group_id: group.map(Arc::from),
            custom_id: conf.labels.get("custom_id").and_then(Value::as_str).map(Arc::from),
            labels: conf.labels.clone(),
            plugins: self.consumer_plugins(&own, &conf, &username, object.modified),
            group_missing,
            document: object.document.clone(),
            version: object.modified,
            serial: self.next_serial(),
        });
        // A consumer without its limits would be let through unlimited: nobody is recognised as it.
        if self.incomplete.contains(&own) {
            return;
        }
        self.index_auth(&own, &consumer, None, &conf.plugins);
        let prefix = format!("{username}/credentials/");
        let credentials: Vec<(Arc<str>, Arc<Value>)> = self
            .objects
            .get(&Kind::Credential)
            .into_iter()
            .flat_map(|objects| objects.range::<str, _>((Bound::Included(prefix.as_str()), Bound::Unbounded)))
            .take_while(|(id, _)| id.starts_with(&prefix))
            .filter(|(_, object)| object.fault.is_none())
            .map(|(id, object)| (id.clone(), object.value()))
            .collect();
        for (id, value) in credentials {
            let plugins = value.get("plugins").and_then(Value::as_object).cloned().unwrap_or_default();
            self.index_auth(
                &(Kind::Credential, id.clone()),
                &consumer,
                id.strip_prefix(&prefix).map(Arc::from),
                &plugins,
            );
        }
        Arc::make_mut(&mut self.consumers.index.by_name).insert(username, consumer);
    }

    /// The consumer's own plugins over its group's; authentication data is no plugin to run.
    fn consumer_plugins(
        &mut self,
        key: &Key,
        conf: &resources::Consumer,
        username: &Arc<str>,
        version: u64,
    ) -> Vec<Arc<Instance>> {
        let catalog = self.catalog.clone();
        let runs = |name: &str| catalog.def(name).is_none_or(|def| def.consumer.is_none());
        let owner = Owner { kind: Kind::Consumer, id: username.clone(), version };
        let previous = self.inline_upstreams.remove(key).unwrap_or_default();
        let mut instances = self.build_instances(key, &owner, &conf.plugins, &previous, runs);
        if let Some(group) = &conf.group_id {
            for instance in self.instances(Kind::ConsumerGroup, group) {
                if !conf.plugins.contains_key(instance.def.name) {
                    instances.push(instance.clone());
                }
            }
        }
        instances.sort_by_key(|instance| std::cmp::Reverse(instance.priority));
        instances
    }

    fn index_auth(
        &mut self,
        key: &Key,
        consumer: &Arc<Consumer>,
        credential_id: Option<Arc<str>>,
        plugins: &Map<String, Value>,
    ) {
        for (name, conf) in plugins {
            let Some((def, build)) = self.catalog.def(name).and_then(|def| Some((def, def.consumer?))) else {
                continue;
            };
            let mut conf = conf.clone();
            let built = self.resolve(&mut conf).and_then(|waits| {
                let checked = self.catalog.check(name, SchemaKind::Consumer, &mut conf);
                self.excuse(checked.and_then(|()| build(&conf)), waits)
            });
            match built {
                Ok(None) => {}
                Ok(Some(data)) => {
                    let entry = AuthEntry {
                        consumer: consumer.clone(),
                        credential_id: credential_id.clone(),
                        data: data.data,
                        value: Arc::new(conf),
                    };
                    self.consumers.index.entry_of(def.name).insert(&data.key, Arc::new(entry));
                    self.consumers
                        .keys
                        .entry(consumer.username.clone())
                        .or_default()
                        .push((def.name, data.key));
                }
                Err(reason) => self.problem(key, format!("plugin {name}: {reason}")),
            }
        }
    }
}
