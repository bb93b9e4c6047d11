//! Writes: one transaction each, answered when the watch has brought it back.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use tidegate_model::{Document, Kind, Object};
use tonic::Status;

use super::{
    connection, keys,
    rpc::{
        Client,
        messages::{Compare, DeleteRangeRequest, Outcome, PutRequest, ResponseOp, TxnRequest},
    },
    shared::Shared,
    values,
};
use crate::{Operation, Write, Written, error::StoreError};

/// How long a write waits for a connection: longer than it takes to change to another member.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(2);
/// How long an acknowledged write may wait to be seen. It is durable then, and follows.
const SEEN_PATIENCE: Duration = Duration::from_secs(5);
/// etcd's own limit (`--max-txn-ops`), unless it was raised.
const MAX_OPERATIONS: usize = 128;
/// etcd's answer to a signed token that is older than the last change of users and roles.
const OLD_TOKEN: &str = "etcdserver: revision of auth store is old";

const TOO_MANY_FOR_ONE: &str = "etcd accepts at most 128 changes in one transaction (--max-txn-ops); split \
them into several, or keep the configuration in the embedded store";

/// One operation, ready to send, and what its result is made of.
struct Prepared {
    kind: Kind,
    id: Arc<str>,
    key: String,
    /// `None`: a deletion.
    value: Option<Arc<Value>>,
}

/// With a revision, only if no object was written since. That one was deleted meanwhile is not noticed: etcd compares what
/// is there.
pub(super) async fn write(shared: &Shared, write: Write) -> Result<Written, StoreError> {
    let Write { operations, at, author: _ } = write;
    if operations.len() > MAX_OPERATIONS && at.is_some() {
        return Err(StoreError::Unsupported(TOO_MANY_FOR_ONE));
    }
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        return Err(StoreError::Unavailable(format!(
            "{count} changes at once exceed the {MAX_OPERATIONS} that etcd accepts; split them"
        )));
    }
    let client = connected(shared).await?;
    let _under_way = shared.write_begins();
    let mut prepared = Vec::with_capacity(operations.len());
    let mut compares = at.map(|at| unchanged_since(shared, at)).transpose()?.unwrap_or_default();
    let mut ops = Vec::with_capacity(operations.len());
    let mut lease = None;
    for operation in operations {
        let (item, expected, ttl) = prepare(shared, &client, operation).await?;
        if let Some(expected) = expected {
            let expected = i64::try_from(expected).unwrap_or(i64::MAX);
            compares.push(Compare::modified_at(&item.key, expected));
        }
        if let (Some(seconds), None) = (ttl, lease) {
            lease = Some(grant(shared, &client, seconds).await?);
        }
        ops.push(match &item.value {
            None => DeleteRangeRequest { key: item.key.clone().into(), prev_kv: true }.into(),
            Some(value) => {
                let bytes = values::encode(&shared.options, item.kind, &item.id, value);
                let lease = lease.filter(|_| ttl.is_some()).unwrap_or_default();
                PutRequest { key: item.key.clone().into(), value: bytes, lease, prev_kv: true }.into()
            }
        });
        prepared.push(item);
    }
    let transaction = TxnRequest { compare: compares, success: ops };
    let answer = answered(shared, &client, || client.txn(transaction.clone())).await?;
    if !answer.succeeded {
        return Err(StoreError::Conflict);
    }
    let header =
        answer.header.as_ref().ok_or_else(|| StoreError::Unavailable("response without a header".into()))?;
    let revision = values::revision(header.revision);
    let objects: Vec<Option<Object>> = prepared
        .into_iter()
        .zip(&answer.responses)
        .map(|(item, result)| object(shared, item, result, revision))
        .collect();
    // Deleting what is not there changes nothing, so that nothing comes back either.
    if objects.iter().any(Option::is_some) {
        let mut seen = shared.live.watch();
        let _ = tokio::time::timeout(SEEN_PATIENCE, seen.wait_for(|seen| *seen >= revision)).await;
    }
    Ok(Written { revision, objects, lease: lease.map(values::revision) })
}

/// What holds while every object has the revision that this gateway knows, and there is no further one.
fn unchanged_since(shared: &Shared, at: u64) -> Result<Vec<Compare>, StoreError> {
    if shared.live.read(|state| state.revision) != at {
        return Err(StoreError::Conflict);
    }
    let later = i64::try_from(at).unwrap_or(i64::MAX).saturating_add(1);
    let directories = keys::DIRECTORIES.iter().filter(|name| **name != "plugins");
    let unchanged = directories.map(|name| {
        let directory = format!("{}/{name}/", shared.options.prefix);
        Compare::all_modified_before(&directory, later)
    });
    Ok(unchanged.collect())
}

/// The connection in use. While another member is being found, writes wait instead of failing.
async fn connected(shared: &Shared) -> Result<Client, StoreError> {
    let mut client = shared.client.subscribe();
    let patience = shared.options.timeout.min(CONNECTION_PATIENCE);
    let found = tokio::time::timeout(patience, client.wait_for(Option::is_some)).await;
    if let Ok(Ok(client)) = found
        && let Some(client) = client.as_ref()
    {
        return Ok(client.clone());
    }
    let problem = shared.followed.borrow().problem.clone().unwrap_or_else(|| "not connected yet".to_owned());
    Err(StoreError::Unavailable(format!("has no healthy etcd endpoint available: {problem}")))
}

async fn prepare(
    shared: &Shared,
    client: &Client,
    operation: Operation,
) -> Result<(Prepared, Option<u64>, Option<u64>), StoreError> {
    let (kind, id, value, expected, ttl) = match operation {
        Operation::Put { kind, id, value, expected, ttl_seconds } => {
            (kind, id, Some(value), expected, ttl_seconds)
        }
        Operation::Delete { kind, id, expected } => (kind, id, None, expected, None),
        Operation::Create { kind, mut value, ttl_seconds } => {
            let id: Arc<str> = new_id(shared, client).await?.into();
            if let Some(fields) = value.as_object_mut() {
                fields.insert("id".to_owned(), id.as_ref().into());
            }
            (kind, id, Some(Arc::new(value)), None, ttl_seconds)
        }
    };
    let key = keys::of(&shared.options.prefix, kind, &id);
    Ok((Prepared { kind, id, key, value }, expected, ttl))
}

/// The revision of a write to a key that is there for this only, as APISIX does it.
async fn new_id(shared: &Shared, client: &Client) -> Result<String, StoreError> {
    let key = keys::counter(&shared.options.prefix);
    let put = PutRequest { key: key.into(), value: b"1".to_vec(), ..PutRequest::default() };
    let answer = answered(shared, client, || client.put(put.clone())).await?;
    let revision = answer.header.map_or(0, |header| header.revision);
    Ok(format!("{revision:020}"))
}

async fn grant(shared: &Shared, client: &Client, seconds: u64) -> Result<i64, StoreError> {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    Ok(answered(shared, client, || client.grant(seconds)).await?.id)
}

/// The answer to a call. A token from before users were changed is refused before anything is done: it is renewed and
/// the call made again. Expired ones are the library's business.
async fn answered<T, C>(shared: &Shared, client: &Client, call: impl Fn() -> C) -> Result<T, StoreError>
where
    C: Future<Output = Result<T, Status>>,
{
    let failed = |status| StoreError::Unavailable(connection::reason(&status));
    match in_time(shared, call()).await? {
        Err(status) if status.message() == OLD_TOKEN => {
            in_time(shared, client.renew_token()).await?.map_err(failed)?;
            in_time(shared, call()).await?.map_err(failed)
        }
        answer => answer.map_err(failed),
    }
}

/// What a call returned. One without an answer may have been carried out or not; it is not acknowledged.
async fn in_time<T>(shared: &Shared, call: impl Future<Output = T>) -> Result<T, StoreError> {
    let mut in_use = shared.client.subscribe();
    let unanswered = |why: String| {
        let message = format!("{why}; read the object again to see whether it was stored");
        Err(StoreError::Unavailable(message))
    };
    tokio::select! {
        // An answer that is there counts, whatever happened to the connection since.
        biased;
        answer = call => Ok(answer),
        _ = in_use.wait_for(Option::is_none) => {
            unanswered("the connection to etcd was lost before it answered".to_owned())
        }
        () = tokio::time::sleep(shared.options.timeout) => {
            unanswered(format!("etcd did not answer within {} s", shared.options.timeout.as_secs()))
        }
    }
}

fn object(shared: &Shared, item: Prepared, result: &ResponseOp, revision: u64) -> Option<Object> {
    let Prepared { kind, id, value, .. } = item;
    match (&result.outcome, value) {
        (Some(Outcome::Put(put)), Some(value)) => {
            let before = put.prev_kv.as_ref().map(|entry| values::revision(entry.create_revision));
            let document = Document::new(&value);
            let created = before.unwrap_or(revision);
            Some(Object { kind, id, document, created, modified: revision, fault: None, unread: None })
        }
        (Some(Outcome::Delete(deleted)), _) => {
            let entry = deleted.prev_kvs.first()?;
            // An unusable value is gone as well.
            let value = values::decode(&shared.options, kind, &id, &entry.value, &|| None);
            let value = value.map(|decoded| decoded.value).unwrap_or_default();
            let created = values::revision(entry.create_revision);
            let modified = values::revision(entry.mod_revision);
            Some(Object { kind, id, document: value.into(), created, modified, fault: None, unread: None })
        }
        _ => None,
    }
}
