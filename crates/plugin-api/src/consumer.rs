//! How authentication plugins find consumers.

use std::sync::Arc;

use crate::{AuthEntry, Consumer, ConsumerIndex, sharded::Sharded};

impl AuthEntry {
    /// What the plugin's `consumer` function made; `None` for another type.
    pub fn data<T: 'static>(&self) -> Option<&T> {
        self.data.downcast_ref()
    }
}

impl Sharded<AuthEntry> {
    /// Removes the key if it still belongs to that consumer.
    pub fn remove(&mut self, key: &str, username: &str) {
        self.remove_if(key, |entry| &*entry.consumer.username == username);
    }
}

impl ConsumerIndex {
    /// The entry with that key (user name, API key, …) for that plugin.
    pub fn find(&self, plugin: &str, key: &str) -> Option<&Arc<AuthEntry>> {
        self.by_plugin.iter().find(|(name, _)| *name == plugin)?.1.find(key)
    }

    /// All keys for that plugin; `None` when no consumer has it.
    pub fn index(&self, plugin: &str) -> Option<&Sharded<AuthEntry>> {
        self.by_plugin.iter().find(|(name, _)| *name == plugin).map(|(_, index)| index)
    }

    /// For the compiler: all keys for that plugin, to be changed.
    pub fn entry_of(&mut self, plugin: &'static str) -> &mut Sharded<AuthEntry> {
        let at = self.by_plugin.iter().position(|(name, _)| *name == plugin).unwrap_or_else(|| {
            self.by_plugin.push((plugin, Sharded::default()));
            self.by_plugin.len() - 1
        });
        &mut self.by_plugin[at].1
    }

    /// For `anonymous_consumer`.
    pub fn by_name(&self, username: &str) -> Option<&Arc<Consumer>> {
        self.by_name.get(username)
    }
}
