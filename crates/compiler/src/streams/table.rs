//! The compiled stream routes, and the table that is made of them.

use std::{collections::BTreeMap, sync::Arc};

use super::order;
use tidegate_plugin_api::stream_route::{StreamRoute, StreamTable};

/// By id, which is the order in which they are tried.
#[derive(Default)]
pub(crate) struct Streams {
    by_id: BTreeMap<Arc<str>, Arc<StreamRoute>>,
    /// `None` after a change.
    table: Option<Arc<StreamTable>>,
    /// Routes that take no session, and why.
    behind: BTreeMap<Arc<str>, String>,
}

impl Streams {
    /// Of a snapshot, laid out again after a change.
    pub(crate) fn table(&mut self) -> Arc<StreamTable> {
        let Streams { by_id, table, behind } = self;
        let made = || {
            *behind = order::behind(by_id.values());
            Arc::new(StreamTable::new(by_id.values().cloned().collect()))
        };
        table.get_or_insert_with(made).clone()
    }

    /// Routes whose sessions others take first, as of the last table.
    pub(crate) fn behind(&self) -> &BTreeMap<Arc<str>, String> {
        &self.behind
    }

    pub(super) fn put(&mut self, id: &Arc<str>, route: StreamRoute) {
        self.table = None;
        self.by_id.insert(id.clone(), Arc::new(route));
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<Arc<StreamRoute>> {
        self.table = None;
        self.by_id.remove(id)
    }
}
