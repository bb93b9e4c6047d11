//! Writes: one transaction each, answered when the watch has brought it back.

use std::{sync::Arc, time::Duration};

use etcd_client::{Client, Compare, CompareOp, DeleteOptions, PutOptions, Txn, TxnOp, TxnOpResponse};
use model::{Document, Kind, Object};
use serde_json::Value;

use super::{Shared, connection, keys, values};
use crate::{Operation, StoreError, Written};

/// How long a write waits for a connection: longer than it takes to change to another member.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(2);
/// How long an acknowledged write may wait to be seen. It is durable then, and follows.
const SEEN_PATIENCE: Duration = Duration::from_secs(5);
/// etcd's own limit (`--max-txn-ops`), unless it was raised.
const MAX_OPERATIONS: usize = 128;
/// etcd's answer to a signed token that is older than the last change of users and roles.
const OLD_TOKEN: &str = "etcdserver: revision of auth store is old";

const TOO_MANY_FOR_ONE: &str = "etcd takes at most 128 changes in one transaction (--max-txn-ops), and these are more; \
    split them into several, or keep the configuration in the embedded store";

/// One operation, ready to send, and what its result is made of.
struct Prepared {
    kind: Kind,
    id: Arc<str>,
    key: String,
    /// `None`: a deletion.
    value: Option<Arc<Value>>,
}

/// With `at`, provided that no object was written since that revision. That one was deleted meanwhile is not noticed:
/// etcd compares what is there.
pub async fn write(
    shared: &Shared,
    at: Option<u64>,
    operations: Vec<Operation>,
) -> Result<Written, StoreError> {
    if operations.len() > MAX_OPERATIONS && at.is_some() {
        return Err(StoreError::Unsupported(TOO_MANY_FOR_ONE));
    }
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        return Err(StoreError::Unavailable(format!(
            "{count} changes at once are more than the {MAX_OPERATIONS} that etcd takes; split them"
        )));
    }
    let client = connected(shared).await?;
    let mut prepared = Vec::with_capacity(operations.len());
    let mut compares = at.map(|at| unchanged_since(shared, at)).transpose()?.unwrap_or_default();
    let mut ops = Vec::with_capacity(operations.len());
    let mut lease = None;
    for operation in operations {
        let (item, expected, ttl) = prepare(shared, &client, operation).await?;
        if let Some(expected) = expected {
            let expected = i64::try_from(expected).unwrap_or(i64::MAX);
            compares.push(Compare::mod_revision(item.key.as_str(), CompareOp::Equal, expected));
        }
        if let (Some(seconds), None) = (ttl, lease) {
            lease = Some(grant(shared, &client, seconds).await?);
        }
        ops.push(match &item.value {
            None => TxnOp::delete(item.key.as_str(), Some(DeleteOptions::new().with_prev_key())),
            Some(value) => {
                let bytes = values::encode(&shared.options, item.kind, &item.id, value);
                let options = PutOptions::new().with_prev_key();
                let lease = lease.filter(|_| ttl.is_some());
                let options = lease.map_or(options.clone(), |lease| options.with_lease(lease));
                TxnOp::put(item.key.as_str(), bytes, Some(options))
            }
        });
        prepared.push(item);
    }
    let transaction = Txn::new().when(compares).and_then(ops);
    let answer = answered(shared, &client, || {
        let (mut kv, transaction) = (client.kv_client(), transaction.clone());
        async move { kv.txn(transaction).await }
    })
    .await?;
    if !answer.succeeded() {
        return Err(StoreError::Conflict);
    }
    let header = answer.header().ok_or_else(|| StoreError::Unavailable("an answer without header".into()))?;
    let revision = values::revision(header.revision());
    let results = answer.op_responses();
    let objects: Vec<Option<Object>> = prepared
        .into_iter()
        .zip(&results)
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
        Compare::mod_revision(directory, CompareOp::Less, later).with_prefix()
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
    let answer = answered(shared, client, || {
        let (mut kv, key) = (client.kv_client(), key.clone());
        async move { kv.put(key, "1", None).await }
    })
    .await?;
    let revision = answer.header().map_or(0, |header| header.revision());
    Ok(format!("{revision:020}"))
}

async fn grant(shared: &Shared, client: &Client, seconds: u64) -> Result<i64, StoreError> {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let grant = || {
        let mut leases = client.lease_client();
        async move { leases.grant(seconds, None).await }
    };
    Ok(answered(shared, client, grant).await?.id())
}

/// The answer to a call. A token from before users were changed is refused before anything is done: it is renewed and
/// the call made again. Expired ones are the library's business.
async fn answered<T, C>(shared: &Shared, client: &Client, call: impl Fn() -> C) -> Result<T, StoreError>
where
    C: Future<Output = Result<T, etcd_client::Error>>,
{
    let failed = |error| StoreError::Unavailable(connection::reason(&error));
    match in_time(shared, call()).await? {
        Err(etcd_client::Error::GRpcStatus(status)) if status.message() == OLD_TOKEN => {
            in_time(shared, client.refresh_token()).await?.map_err(failed)?;
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

fn object(shared: &Shared, item: Prepared, result: &TxnOpResponse, revision: u64) -> Option<Object> {
    let Prepared { kind, id, value, .. } = item;
    match (result, value) {
        (TxnOpResponse::Put(put), Some(value)) => {
            let before = put.prev_key().map(|entry| values::revision(entry.create_revision()));
            let document = Document::new(&value);
            Some(Object { kind, id, document, created: before.unwrap_or(revision), modified: revision })
        }
        (TxnOpResponse::Delete(deleted), _) => {
            let entry = deleted.prev_kvs().first()?;
            // A value that was no good is gone as well.
            let value = values::decode(&shared.options, kind, &id, entry.value()).unwrap_or_default();
            let created = values::revision(entry.create_revision());
            let modified = values::revision(entry.mod_revision());
            Some(Object { kind, id, document: value.into(), created, modified })
        }
        _ => None,
    }
}
