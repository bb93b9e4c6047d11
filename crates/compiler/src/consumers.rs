//! Consumers and credentials: one index per authentication plugin, changed entry by entry.

pub(crate) mod claims;

use std::{ops::Bound, sync::Arc};

use serde_json::{Map, Value};
use tidegate_model::{Kind, PluginCatalog, SchemaKind, resources};
use tidegate_plugin_api::{AuthEntry, Consumer, Instance, Owner, UpstreamHandle};

use crate::{
    Compiler,
    object::{Key, is_disabled},
};

impl Compiler {
    /// Rebuilds the consumer that a key (its own or a credential's) belongs to.
    pub(crate) fn build_consumer(&mut self, key: &Key) {
        let username: Arc<str> = match key.1.split_once("/credentials/") {
            Some((username, _)) => Arc::from(username),
            None => key.1.clone(),
        };
        for (key, reason) in self.consumers.forget(&username) {
            self.solved(&key, &reason);
        }
        let own = (Kind::Consumer, username.clone());
        self.incomplete.remove(&own);
        self.forget_names(&own);
        let previous = self.inline_upstreams.remove(&own).unwrap_or_default();
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
            plugins: self.consumer_plugins(&own, &conf, object.modified, &previous),
            group_missing,
            document: object.document.clone(),
            version: object.modified,
            serial: self.next_serial(),
        });
        // A consumer without its limits would be let through unlimited: no request is identified as it.
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

    /// The consumer's own plugins over its group's; authentication data is not a plugin to run.
    fn consumer_plugins(
        &mut self,
        key: &Key,
        conf: &resources::Consumer,
        version: u64,
        previous: &[Arc<UpstreamHandle>],
    ) -> Vec<Arc<Instance>> {
        let catalog = self.catalog.clone();
        let runs = |name: &str| catalog.def(name).is_none_or(|def| !def.identifies());
        let owner = Owner { kind: Kind::Consumer, id: key.1.clone(), version };
        let mut instances = self.build_instances(key, &owner, &conf.plugins, previous, runs);
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
            // Disabled: it identifies no client.
            if is_disabled(conf) {
                continue;
            }
            let Some(def) = self.catalog.def(name).filter(|def| def.identifies()) else { continue };
            let mut conf = conf.clone();
            if conf.pointer("/_meta/filter").is_some() {
                let why = format!(
                    "plugin {name}: _meta.filter has no effect on what identifies a consumer; write it at the route's {name}"
                );
                self.problem(key, why);
                continue;
            }
            let built = self.resolve(&mut conf).and_then(|waits| {
                #[cfg(debug_assertions)]
                if let Some(mutant) = crate::mutant::of(&*self.catalog, name, SchemaKind::Consumer, &conf)
                    && def.consumer_key(&mutant).is_some_and(|key| key.is_ok())
                {
                    conf = mutant;
                }
                let checked = self.catalog.check(name, SchemaKind::Consumer, &mut conf);
                self.excuse(
                    checked.and_then(|()| {
                        def.consumer_key(&conf).unwrap_or_else(|| Err("it identifies no client".to_owned()))
                    }),
                    waits,
                )
            });
            match built {
                Ok(None) => {}
                // An empty key would identify every client that sends none.
                Ok(Some(data)) if data.key.is_empty() => {
                    self.problem(key, format!("plugin {name}: its key is empty"));
                }
                Ok(Some(data)) => {
                    let entry = AuthEntry {
                        consumer: consumer.clone(),
                        credential_id: credential_id.clone(),
                        data: data.data,
                        value: Arc::new(conf),
                    };
                    for (object, reason) in self.consumers.claim(key, def.name, data.key, entry) {
                        self.problem(&object, reason);
                    }
                }
                Err(reason) => self.problem(key, format!("plugin {name}: {reason}")),
            }
        }
    }
}
