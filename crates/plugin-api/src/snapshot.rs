//! A compiled configuration, as one worker uses it.

use std::{cell::RefCell, ops::Deref, rc::Rc, sync::Arc};

use crate::{Consumer, PluginChain, Route, Snapshot, WorkerSnapshot};

impl WorkerSnapshot {
    /// With nothing derived from it yet.
    pub fn new(snapshot: Arc<Snapshot>) -> WorkerSnapshot {
        WorkerSnapshot { snapshot, merged: RefCell::default() }
    }

    /// For work that leaves the worker.
    pub fn shared(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The route's chain with the consumer's plugins over it: a plugin of the consumer replaces the route's.
    pub fn merged_chain(&self, route: &Route, consumer: &Consumer) -> Rc<PluginChain> {
        let key = (route.serial, consumer.serial);
        if let Some(chain) = self.merged.borrow().get(&key) {
            return chain.clone();
        }
        let mut instances = consumer.plugins.clone();
        for instance in route.chain.instances() {
            if !consumer.plugins.iter().any(|other| other.def.name == instance.def.name) {
                instances.push(instance.clone());
            }
        }
        let chain = Rc::new(PluginChain::new(instances));
        let mut merged = self.merged.borrow_mut();
        // Bounded: 100,000 pairs are a few MB; past that they are made again when needed.
        if merged.len() >= 100_000 {
            merged.clear();
        }
        merged.insert(key, chain.clone());
        chain
    }
}

impl Route {
    /// `$service_id`
    pub fn service_id(&self) -> Option<&Arc<str>> {
        self.service.as_ref().map(|service| &service.id)
    }

    /// `$service_name`
    pub fn service_name(&self) -> Option<&Arc<str>> {
        self.service.as_ref()?.name.as_ref()
    }
}

impl Deref for WorkerSnapshot {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.snapshot
    }
}
