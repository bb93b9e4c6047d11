//! In place of etcd, in a build without it: there is none to open.

#![allow(missing_docs, reason = "documented where the feature is on")]

mod options;

use tidegate_model::catalog::built_without;
use tokio::{runtime::Handle, sync::watch};

pub use self::options::{Options, Seal, TlsOptions, Unseal};
use crate::{BoxFuture, Changes, State, Store, Write, Written, collections::PluginList, error::StoreError};

/// As with the feature.
pub struct Report {
    /// Below the prefix.
    pub key: String,
    /// How long it stays when its gateway has gone.
    pub ttl: std::time::Duration,
    /// What it says.
    pub make: Box<dyn Fn(&str) -> Option<serde_json::Value> + Send + Sync>,
}

/// The store that this build does not have.
pub enum Etcd {}

impl Etcd {
    /// Always fails: the error names the feature.
    pub fn open(_: Options, _: &Handle) -> Result<Self, StoreError> {
        Err(StoreError::Unavailable(built_without("etcd")))
    }

    /// See the store with the feature, as for the rest: there is no value to ask.
    pub fn plugins(&self) -> Option<PluginList> {
        match *self {}
    }

    /// Whether a member answers.
    pub fn is_reachable(&self) -> bool {
        match *self {}
    }

    /// The revision of the cluster.
    pub fn cluster_revision(&self) -> u64 {
        match *self {}
    }

    /// Keeps a report.
    pub fn keep(&self, _: Report) {
        match *self {}
    }

    /// Ends the watch.
    pub fn close(&self) {
        match *self {}
    }
}

impl Store for Etcd {
    fn read(&self, _: &mut dyn FnMut(&State)) {
        match *self {}
    }

    fn write(&self, _: Write) -> BoxFuture<'_, Result<Written, StoreError>> {
        match *self {}
    }

    fn changes_since(&self, _: u64) -> Changes {
        match *self {}
    }

    fn watch(&self) -> watch::Receiver<u64> {
        match *self {}
    }

    fn is_writable(&self) -> bool {
        match *self {}
    }
}
