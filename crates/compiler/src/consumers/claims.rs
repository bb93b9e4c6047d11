//! Which key of which plugin belongs to which consumer.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tidegate_model::Kind;
use tidegate_plugin_api::{AuthEntry, ConsumerIndex};

use crate::object::Key;

#[derive(Default)]
pub(crate) struct Consumers {
    pub(super) index: ConsumerIndex,
    /// What each consumer put into the indexes, to take it out again.
    keys: FxHashMap<Arc<str>, Vec<(&'static str, String)>>,
    /// Keys that several consumers have. They are in no index: it is ambiguous whom they identify.
    contested: FxHashMap<(&'static str, String), Vec<Claim>>,
}

/// An object that has a contested key.
struct Claim {
    object: Key,
    entry: Arc<AuthEntry>,
    reason: String,
}

impl Consumers {
    pub(crate) fn index(&self) -> ConsumerIndex {
        self.index.clone()
    }

    /// Takes out what a consumer put in. The result: objects whose key is theirs alone again, and the reason that this ends.
    pub(super) fn forget(&mut self, username: &str) -> Vec<(Key, String)> {
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

    /// Puts an object's key in, unless another consumer has it, too. Returns what to report, by object.
    pub(super) fn claim(
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
        let reason = |other: &str| {
            format!("plugin {plugin}: {other} has the same key, so the key identifies no consumer")
        };
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
