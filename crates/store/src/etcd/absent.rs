//! In place of etcd, in a build without it: there is none to open.

mod options;

use tidegate_model::catalog::built_without;
use tokio::{runtime::Handle, sync::watch};

pub use self::options::{Options, Seal, TlsOptions, Unseal};
use crate::{BoxFuture, Changes, State, Store, Write, Written, collections::PluginList, error::StoreError};

pub enum Etcd {}

impl Etcd {
    pub fn open(_: Options, _: &Handle) -> Result<Self, StoreError> {
        Err(StoreError::Unavailable(built_without("etcd")))
    }

    pub fn plugins(&self) -> Option<PluginList> {
        match *self {}
    }

    pub fn is_reachable(&self) -> bool {
        match *self {}
    }

    pub fn cluster_revision(&self) -> u64 {
        match *self {}
    }

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
