//! Users, in a table of their own. They are in the copy of the last good configuration; while that is served, people sign in with a key.

use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata, TableError};

use super::{database::Database, user_table::USERS};
use crate::{
    error::StoreError,
    history::HistoryError,
    users::{MAX_USERS, TOO_MANY, Users},
};

impl Database {
    fn users_failed(&self, error: redb::Error) -> StoreError {
        match self.failed(error) {
            HistoryError::Store(error) => error,
            other => StoreError::Unavailable(other.to_string()),
        }
    }

    fn read_users<T: Default>(
        &self,
        read: impl FnOnce(&redb::ReadOnlyTable<&'static str, &'static [u8]>) -> Result<T, redb::Error>,
    ) -> Result<T, StoreError> {
        let reading = || -> Result<T, redb::Error> {
            let redb = self.opened()?;
            match redb.begin_read()?.open_table(USERS) {
                Ok(table) => read(&table),
                // No user was added yet.
                Err(TableError::TableDoesNotExist(_)) => Ok(T::default()),
                Err(error) => Err(error.into()),
            }
        };
        reading().map_err(|error| self.users_failed(error))
    }
}

impl Users for Database {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.read_users(|table| Ok(table.get(name)?.map(|record| record.value().to_vec())))
    }

    fn list(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        self.read_users(|table| {
            let mut list = Vec::new();
            for row in table.iter()? {
                let (name, record) = row?;
                list.push((name.value().to_owned(), record.value().to_vec()));
            }
            Ok(list)
        })
    }

    fn put(&self, name: &str, record: &[u8]) -> Result<(), StoreError> {
        let write = || -> Result<bool, redb::Error> {
            let redb = self.opened()?;
            let transaction = redb.begin_write()?;
            {
                let mut table = transaction.open_table(USERS)?;
                if table.get(name)?.is_none() && table.len()? >= MAX_USERS as u64 {
                    return Ok(false);
                }
                table.insert(name, record)?;
            }
            self.finish(transaction)?;
            self.user_writes.add();
            Ok(true)
        };
        match write().map_err(|error| self.users_failed(error))? {
            true => Ok(()),
            false => Err(TOO_MANY),
        }
    }

    fn delete(&self, name: &str) -> Result<bool, StoreError> {
        let write = || -> Result<bool, redb::Error> {
            let redb = self.opened()?;
            let transaction = redb.begin_write()?;
            let known = transaction.open_table(USERS)?.remove(name)?.is_some();
            self.finish(transaction)?;
            self.user_writes.add();
            Ok(known)
        };
        write().map_err(|error| self.users_failed(error))
    }
}
