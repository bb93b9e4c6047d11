//! Named states: all objects as they lie in the database, compressed, beside who named them and when.
//!
//! Whole states instead of a hold on the history: what a checkpoint takes is known when it is made, and the history
//! stays bounded however old the oldest checkpoint is.

use std::{
    collections::BTreeMap,
    io::{Read, Write},
    sync::Arc,
};

use flate2::{Compression, read::ZlibDecoder, write::ZlibEncoder};
use redb::{
    ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition,
    WriteTransaction,
};
use serde_json::{Value, json};
use tidegate_model::Kind;

use super::{
    database::Database,
    expiries::now_ms,
    record::{self, Record},
    tables::{META, OBJECTS},
};
use crate::{
    Author,
    history::{CHECKPOINT_SHARE, Checkpoint, HistoryError, MAX_CHECKPOINTS, Version},
};

/// Name; JSON.
const CHECKPOINTS: TableDefinition<&str, &[u8]> = TableDefinition::new("checkpoints");
/// Name; records of `objects`, each length and key, length and value, compressed as a whole.
const STATES: TableDefinition<&str, &[u8]> = TableDefinition::new("checkpoint_states");

pub(super) fn create(transaction: &WriteTransaction) -> Result<(), redb::Error> {
    transaction.open_table(CHECKPOINTS)?;
    transaction.open_table(STATES)?;
    Ok(())
}

pub(super) fn list(database: &Database) -> Result<Vec<Checkpoint>, HistoryError> {
    let read = || -> Result<Vec<Checkpoint>, redb::Error> {
        let redb = database.opened()?;
        let table = redb.begin_read()?.open_table(CHECKPOINTS)?;
        let mut checkpoints = Vec::new();
        for row in table.iter()? {
            let (name, bytes) = row?;
            checkpoints.extend(decode(name.value(), bytes.value()));
        }
        Ok(checkpoints)
    };
    read().map_err(|error| database.failed(error))
}

/// The state is read beside the writers; only storing it takes its turn with them.
pub(super) fn put(
    database: &Database,
    name: &str,
    author: &Author,
) -> Result<(Checkpoint, bool), HistoryError> {
    let (revision, objects, state) = packed(database).map_err(|error| database.failed(error))?;
    let checkpoint = Checkpoint {
        name: name.to_owned(),
        revision,
        time_ms: now_ms(),
        author: author.clone(),
        objects,
        bytes: state.len() as u64,
    };
    let limit = database.retention.max_bytes.saturating_mul(CHECKPOINT_SHARE);
    let store = || -> Result<Result<bool, HistoryError>, redb::Error> {
        let redb = database.opened()?;
        let transaction = redb.begin_write()?;
        let replaced = {
            let mut table = transaction.open_table(CHECKPOINTS)?;
            let known = table.get(name)?.is_some();
            if !known && table.len()? >= MAX_CHECKPOINTS as u64 {
                return Ok(Err(HistoryError::TooManyCheckpoints));
            }
            let (bytes, taken) = (checkpoint.bytes, taken_by_others(&table, name)?);
            if taken.saturating_add(bytes) > limit {
                return Ok(Err(HistoryError::LargeCheckpoints { bytes, taken, limit }));
            }
            table.insert(name, encode(&checkpoint).as_slice())?;
            transaction.open_table(STATES)?.insert(name, state.as_slice())?;
            known
        };
        database.finish(transaction)?;
        Ok(Ok(replaced))
    };
    let replaced = store().map_err(|error| database.failed(error))?;
    replaced.map(|replaced| (checkpoint, replaced))
}

/// Bytes of the checkpoints of other names.
fn taken_by_others(
    table: &impl ReadableTable<&'static str, &'static [u8]>,
    name: &str,
) -> Result<u64, redb::Error> {
    let mut taken = 0_u64;
    for row in table.iter()? {
        let (other, head) = row?;
        let bytes = decode(other.value(), head.value()).map_or(0, |checkpoint| checkpoint.bytes);
        taken = taken.saturating_add(if other.value() == name { 0 } else { bytes });
    }
    Ok(taken)
}

pub(super) fn delete(database: &Database, name: &str) -> Result<bool, redb::Error> {
    let redb = database.opened()?;
    let transaction = redb.begin_write()?;
    let known = transaction.open_table(CHECKPOINTS)?.remove(name)?.is_some();
    transaction.open_table(STATES)?.remove(name)?;
    database.finish(transaction)?;
    Ok(known)
}

/// Every object of the state; of those of today that it lacks, that they are gone.
pub(super) fn restored(
    database: &Database,
    transaction: &ReadTransaction,
    name: &str,
) -> Result<(u64, BTreeMap<(Kind, Arc<str>), Option<Version>>), HistoryError> {
    let found = || -> Result<Option<(Option<Checkpoint>, Vec<u8>)>, redb::Error> {
        let Some(head) = transaction.open_table(CHECKPOINTS)?.get(name)? else { return Ok(None) };
        let state = transaction.open_table(STATES)?.get(name)?;
        Ok(state.map(|state| (decode(name, head.value()), state.value().to_vec())))
    };
    let found = found().map_err(|error| database.failed(error))?;
    let (head, state) = found.ok_or_else(|| HistoryError::NoCheckpoint(name.to_owned()))?;
    let damaged = || database.unreadable(&format!("checkpoint {name:?} cannot be read"));
    let head = head.ok_or_else(damaged)?;
    let mut objects = gone(transaction).map_err(|error| database.failed(error))?;
    let mut plain = Vec::new();
    ZlibDecoder::new(state.as_slice()).read_to_end(&mut plain).map_err(|_| damaged())?;
    let mut rest = plain.as_slice();
    while !rest.is_empty() {
        let (key, value, tail) = record_of(rest).ok_or_else(damaged)?;
        rest = tail;
        let Record { object, expires_at_ms } = database.decode(key, value).map_err(|_| damaged())?;
        let sealed = object.fault.as_ref().map(|fault| fault.reason.to_string());
        let version = Version { value: object.value(), expires_at_ms, sealed };
        objects.insert((object.kind, object.id), Some(version));
    }
    Ok((head.revision, objects))
}

/// The objects of today, as if there were none.
fn gone(transaction: &ReadTransaction) -> Result<BTreeMap<(Kind, Arc<str>), Option<Version>>, redb::Error> {
    let mut objects = BTreeMap::new();
    for row in transaction.open_table(OBJECTS)?.iter()? {
        let (key, _) = row?;
        let Some((code, id)) = key.value().split_first() else { continue };
        if let (Some(kind), Ok(id)) = (record::kind(*code), str::from_utf8(id)) {
            objects.insert((kind, Arc::from(id)), None);
        }
    }
    Ok(objects)
}

/// Revision, number of objects, and all of them compressed.
fn packed(database: &Database) -> Result<(u64, u64, Vec<u8>), redb::Error> {
    let redb = database.opened()?;
    let transaction = redb.begin_read()?;
    let revision = transaction.open_table(META)?.get("revision")?.map_or(0, |revision| revision.value());
    let objects = transaction.open_table(OBJECTS)?;
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
    for row in objects.iter()? {
        let (key, value) = row?;
        for bytes in [key.value(), value.value()] {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            packed.write_all(&length.to_le_bytes())?;
            packed.write_all(bytes)?;
        }
    }
    Ok((revision, objects.len()?, packed.finish()?))
}

/// The first record's key and value, and what follows it.
fn record_of(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (key, rest) = piece(bytes)?;
    let (value, rest) = piece(rest)?;
    Some((key, value, rest))
}

fn piece(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)
}

fn encode(checkpoint: &Checkpoint) -> Vec<u8> {
    let Checkpoint { revision, time_ms, author, objects, bytes, .. } = checkpoint;
    let who = super::rows::author_json(author);
    let json =
        json!({"revision": revision, "time_ms": time_ms, "who": who, "objects": objects, "bytes": bytes});
    json.to_string().into_bytes()
}

fn decode(name: &str, bytes: &[u8]) -> Option<Checkpoint> {
    let json: Value = serde_json::from_slice(bytes).ok()?;
    let number = |name: &str| json.get(name).and_then(Value::as_u64);
    Some(Checkpoint {
        name: name.to_owned(),
        revision: number("revision")?,
        time_ms: number("time_ms")?,
        author: super::rows::author(json.get("who")?),
        objects: number("objects")?,
        bytes: number("bytes")?,
    })
}
