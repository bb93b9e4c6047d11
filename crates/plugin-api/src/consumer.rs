//! Consumers and how authentication plugins find them.

use std::{any::Any, sync::Arc};

use ahash::RandomState;
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use tidegate_model::Document;

use crate::Instance;

#[derive(Default)]
pub struct Consumer {
    pub username: Arc<str>,
    pub group_id: Option<Arc<str>>,
    pub labels: Map<String, Value>,
    /// `labels.custom_id`, sent upstream as `X-Consumer-Custom-ID`.
    pub custom_id: Option<Arc<str>>,
    /// Plugins of the consumer over those of its group, without authentication plugins; by falling priority.
    pub plugins: Vec<Arc<Instance>>,
    /// The group it names does not exist, or cannot be built: requests of this consumer get 503.
    pub group_missing: bool,
    /// The resource as configured, for policy plugins that pass it on.
    pub document: Document,
    pub version: u64,
    /// Number of this consumer within the process, never reused: names it in per-worker caches and metrics.
    pub serial: u64,
}

/// A consumer's data for one authentication plugin, from the consumer itself or from one of its credentials.
pub struct AuthEntry {
    pub consumer: Arc<Consumer>,
    pub credential_id: Option<Arc<str>>,
    /// The result of the plugin's `consumer` function for the configuration.
    pub data: Box<dyn Any + Send + Sync>,
    /// The configuration itself, secrets resolved.
    pub value: Arc<Value>,
}

impl AuthEntry {
    pub fn data<T: 'static>(&self) -> Option<&T> {
        self.data.downcast_ref()
    }
}

const SHARDS: usize = 256;

/// Keys of one authentication plugin. Sharded so that one changed consumer copies a 256th, not everything.
#[derive(Clone)]
pub struct AuthIndex {
    hasher: RandomState,
    shards: Vec<Arc<FxHashMap<Box<str>, Arc<AuthEntry>>>>,
}

impl Default for AuthIndex {
    fn default() -> AuthIndex {
        let empty = Arc::new(FxHashMap::default());
        AuthIndex { hasher: RandomState::new(), shards: vec![empty; SHARDS] }
    }
}

impl AuthIndex {
    fn shard(&self, key: &str) -> usize {
        self.hasher.hash_one(key) as usize % SHARDS
    }

    pub fn find(&self, key: &str) -> Option<&Arc<AuthEntry>> {
        self.shards.get(self.shard(key))?.get(key)
    }

    pub fn insert(&mut self, key: &str, entry: Arc<AuthEntry>) {
        let shard = self.shard(key);
        Arc::make_mut(&mut self.shards[shard]).insert(key.into(), entry);
    }

    /// Removes the key if it still belongs to that consumer.
    pub fn remove(&mut self, key: &str, username: &str) {
        let shard = self.shard(key);
        if self.shards[shard].get(key).is_some_and(|entry| &*entry.consumer.username == username) {
            Arc::make_mut(&mut self.shards[shard]).remove(key);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<AuthEntry>> {
        self.shards.iter().flat_map(|shard| shard.values())
    }
}

/// All consumers of a snapshot.
#[derive(Clone, Default)]
pub struct ConsumerIndex {
    /// One index per authentication plugin; a handful, so a list.
    pub by_plugin: Vec<(&'static str, AuthIndex)>,
    pub by_name: Arc<FxHashMap<Arc<str>, Arc<Consumer>>>,
}

impl ConsumerIndex {
    pub fn find(&self, plugin: &str, key: &str) -> Option<&Arc<AuthEntry>> {
        self.by_plugin.iter().find(|(name, _)| *name == plugin)?.1.find(key)
    }

    pub fn index(&self, plugin: &str) -> Option<&AuthIndex> {
        self.by_plugin.iter().find(|(name, _)| *name == plugin).map(|(_, index)| index)
    }

    pub fn entry_of(&mut self, plugin: &'static str) -> &mut AuthIndex {
        let at = self.by_plugin.iter().position(|(name, _)| *name == plugin).unwrap_or_else(|| {
            self.by_plugin.push((plugin, AuthIndex::default()));
            self.by_plugin.len() - 1
        });
        &mut self.by_plugin[at].1
    }

    /// For `anonymous_consumer`.
    pub fn by_name(&self, username: &str) -> Option<&Arc<Consumer>> {
        self.by_name.get(username)
    }
}
