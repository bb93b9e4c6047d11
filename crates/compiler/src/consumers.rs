//! Consumers and credentials: one index per authentication plugin, changed entry by entry.

use std::{ops::Bound, sync::Arc};

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use tidegate_model::{Kind, PluginCatalog, SchemaKind, resources};
use tidegate_plugin_api::{AuthEntry, Consumer, ConsumerIndex, Instance, Owner};

use crate::{Compiler, Key, plugins::is_disabled};

#[derive(Default)]
pub struct Consumers {
    index: ConsumerIndex,
    /// What each consumer put into the indexes, to take it out again.
    keys: FxHashMap<Arc<str>, Vec<(&'static str, String)>>,
    /// Keys that several consumers have. They are in no index: nobody can say whom they identify.
    contested: FxHashMap<(&'static str, String), Vec<Claim>>,
}

/// An object that has a contested key.
struct Claim {
    object: Key,
    entry: Arc<AuthEntry>,
    reason: String,
}

impl Consumers {
    pub fn index(&self) -> ConsumerIndex {
        self.index.clone()
    }

    /// Takes out what a consumer put in. The result: objects whose key is theirs alone again, and the reason that this ends.
    fn forget(&mut self, username: &str) -> Vec<(Key, String)> {
        let mut solved = Vec::new();
        for (plugin, key) in self.keys.remove(username).unwrap_or_default() {
            let contest = (plugin, key);
            let Some(claims) = self.contested.get_mut(&contest) else {
                self.index.entry_of(plugin).remove(&contest.1, username);
                continue;
            };
            claims.retain(|claim| &*claim.entry.consumer.username != username);
            let one = claims.first().map(|claim| claim.entry.consumer.username.clone());
            if claims.iter().all(|claim| Some(&claim.entry.consumer.username) == one.as_ref()) {
                for claim in self.contested.remove(&contest).into_iter().flatten() {
                    self.index.entry_of(plugin).insert(&contest.1, claim.entry);
                    solved.push((claim.object, claim.reason));
                }
            }
        }
        if self.index.by_name.contains_key(username) {
            Arc::make_mut(&mut self.index.by_name).remove(username);
        }
        solved
    }

    /// Puts an object's key in, unless another consumer has it, too. The result: what is to be told of which object.
    fn claim(
        &mut self,
        object: &Key,
        plugin: &'static str,
        key: String,
        entry: AuthEntry,
    ) -> Vec<(Key, String)> {
        let username = entry.consumer.username.clone();
        let entry = Arc::new(entry);
        self.keys.entry(username.clone()).or_default().push((plugin, key.clone()));
        let index = self.index.entry_of(plugin);
        let other = index.find(&key).filter(|other| other.consumer.username != username).cloned();
        let contest = (plugin, key);
        if other.is_none() && !self.contested.contains_key(&contest) {
            index.insert(&contest.1, entry);
            return Vec::new();
        }
        let claims = self.contested.entry(contest.clone()).or_default();
        let mut told = Vec::new();
        let reason = |other: &str| format!("plugin {plugin}: {other} has the same key: it identifies nobody");
        if let Some(other) = other {
            index.remove(&contest.1, &other.consumer.username);
            let claim = Claim { object: object_of(&other), entry: other, reason: reason(&name_of(object)) };
            told.push((claim.object.clone(), claim.reason.clone()));
            claims.push(claim);
        }
        let first = claims.first().map(|claim| name_of(&claim.object)).unwrap_or_default();
        let claim = Claim { object: object.clone(), entry, reason: reason(&first) };
        told.push((object.clone(), claim.reason.clone()));
        claims.push(claim);
        told
    }
}

/// The object that an entry was made from.
fn object_of(entry: &AuthEntry) -> Key {
    let username = &entry.consumer.username;
    match &entry.credential_id {
        Some(id) => (Kind::Credential, format!("{username}/credentials/{id}").into()),
        None => (Kind::Consumer, username.clone()),
    }
}

fn name_of((kind, id): &Key) -> String {
    format!("{}/{id}", kind.directory())
}

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

    /// The consumer's own plugins over its group's; authentication data is not a plugin to run.
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
            // Switched off: it identifies nobody.
            if is_disabled(conf) {
                continue;
            }
            let Some((def, build)) = self.catalog.def(name).and_then(|def| Some((def, def.consumer?))) else {
                continue;
            };
            let mut conf = conf.clone();
            if conf.pointer("/_meta/filter").is_some() {
                let why = format!(
                    "plugin {name}: _meta.filter has no effect on what identifies a consumer; write it at the route's {name}"
                );
                self.problem(key, why);
                continue;
            }
            let built = self.resolve(&mut conf).and_then(|waits| {
                let checked = self.catalog.check(name, SchemaKind::Consumer, &mut conf);
                self.excuse(checked.and_then(|()| build(&conf)), waits)
            });
            match built {
                Ok(None) => {}
                // It would be that of everybody who sends none.
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
