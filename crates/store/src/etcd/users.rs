//! Users in etcd, outside of the prefix that APISIX and the configuration's watch read: `/tidegate/apisix/users/NAME` for the
//! prefix `/apisix`. They are read when a user signs in, so that every gateway of a cluster has the same at once.

use std::future::Future;

use tonic::Status;

use super::{
    Etcd, connection,
    rpc::{
        Client,
        messages::{DeleteRangeRequest, PutRequest, RangeRequest, TxnRequest},
    },
};
use crate::{
    error::StoreError,
    users::{MAX_USERS, TOO_MANY, Users},
};

impl Etcd {
    fn users_directory(&self) -> String {
        format!("/tidegate{}/users/", self.shared.options.prefix)
    }

    fn user_key(&self, name: &str) -> Vec<u8> {
        format!("{}{name}", self.users_directory()).into_bytes()
    }

    fn ask_users<T, F: Future<Output = Result<T, Status>>>(
        &self,
        ask: impl FnOnce(Client) -> F,
    ) -> Result<T, StoreError> {
        let client = self.shared.client.borrow().clone();
        let unavailable =
            |reason: &str| StoreError::Unavailable(format!("etcd cannot be asked for users: {reason}"));
        let client = client.ok_or_else(|| unavailable("there is no connection"))?;
        let limit = self.shared.options.timeout;
        match self.runtime.block_on(async { tokio::time::timeout(limit, ask(client)).await }) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) => Err(unavailable(&connection::reason(&status))),
            Err(_) => Err(unavailable("it did not respond in time")),
        }
    }
}

impl Users for Etcd {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let request = RangeRequest { key: self.user_key(name), ..RangeRequest::default() };
        let answer = self.ask_users(|client| async move { client.range(request).await })?;
        Ok(answer.kvs.into_iter().next().map(|entry| entry.value))
    }

    fn list(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let directory = self.users_directory();
        let key = directory.clone().into_bytes();
        let mut range_end = directory.trim_end_matches('/').as_bytes().to_vec();
        // '0' follows '/'.
        range_end.push(b'0');
        let request = RangeRequest { key, range_end, ..RangeRequest::default() };
        let answer = self.ask_users(|client| async move { client.range(request).await })?;
        let named = answer.kvs.into_iter().filter_map(|entry| {
            let name = std::str::from_utf8(&entry.key).ok()?.strip_prefix(&directory)?.to_owned();
            Some((name, entry.value))
        });
        Ok(named.collect())
    }

    fn put(&self, name: &str, record: &[u8]) -> Result<(), StoreError> {
        if self.get(name)?.is_none() && self.list()?.len() >= MAX_USERS {
            return Err(TOO_MANY);
        }
        let request =
            PutRequest { key: self.user_key(name), value: record.to_vec(), ..PutRequest::default() };
        self.ask_users(|client| async move { client.put(request).await }).map(drop)
    }

    fn delete(&self, name: &str) -> Result<bool, StoreError> {
        let known = self.get(name)?.is_some();
        let delete = DeleteRangeRequest { key: self.user_key(name), prev_kv: false };
        let request = TxnRequest { success: vec![delete.into()], ..TxnRequest::default() };
        self.ask_users(|client| async move { client.txn(request).await })?;
        Ok(known)
    }
}
