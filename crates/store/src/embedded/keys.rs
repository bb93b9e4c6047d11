//! What another keyring could not decrypt, before it is in use. Objects are in memory in plain, and their copy beside the store is encrypted
//! by the first key: only the file knows by which key each is encrypted.

use redb::{ReadableDatabase, ReadableTable};
use tidegate_model::Kind;

use super::{Hooks, database::Database, faults::unavailable, record, tables::OBJECTS};
use crate::error::StoreError;

/// Kind, id and reason.
pub(super) type Undecryptable = (Kind, String, String);

impl Database {
    pub(super) fn undecryptable(&self, hooks: &Hooks) -> Result<Vec<Undecryptable>, StoreError> {
        self.look_for_undecryptable(hooks)
            .map_err(|error| unavailable(format!("database {} cannot be read: {error}", self.path.display())))
    }

    fn look_for_undecryptable(&self, hooks: &Hooks) -> Result<Vec<Undecryptable>, redb::Error> {
        let redb = self.opened()?;
        let transaction = redb.begin_read()?;
        let mut found = Vec::new();
        for row in transaction.open_table(OBJECTS)?.iter()? {
            let (key, value) = row?;
            let Some(record) = record::decode(key.value(), value.value()) else { continue };
            let object = hooks.open(record.object);
            if let Some(fault) = object.fault {
                found.push((object.kind, object.id.to_string(), fault.reason.to_string()));
            }
        }
        Ok(found)
    }
}
