//! The file of a database: opened and verified, or made.

use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::PermissionsExt,
    path::Path,
};

use redb::{DatabaseError, StorageError};

use super::{
    faults::{damaged, unavailable},
    holder::holder,
    in_turns::InTurns,
    tables::{FORMAT, FORMAT_KEY, META, OBJECTS, REVISION_KEY},
};
use crate::error::StoreError;

/// Reads happen once, at the start; a larger cache would only hold memory.
const CACHE_BYTES: usize = 4 << 20;

/// Opens a file and verifies the checksums of all its pages: redb itself looks at them only after a crash. What had to be
/// repaired is worth a warning.
pub(super) fn existing(path: &Path) -> Result<(redb::Database, Option<String>), StoreError> {
    let problem = |error| open_problem(path, &error);
    let mut redb = open(path).map_err(problem)?;
    let whole = redb.check_integrity().map_err(problem)?;
    let shown = path.display();
    let warning =
        (!whole).then(|| format!("database {shown} was damaged and has been repaired; check its disk"));
    Ok((redb, warning))
}

/// A database without objects at revision 0, in an empty file.
pub(super) fn fresh(path: &Path, file: fs::File) -> Result<redb::Database, String> {
    let made = InTurns::new(file).and_then(|file| builder().create_with_backend(file));
    let redb = made.map_err(|error| open_problem(path, &error).to_string())?;
    let fill = || -> Result<(), redb::Error> {
        let transaction = redb.begin_write()?;
        transaction.open_table(OBJECTS)?;
        let mut meta = transaction.open_table(META)?;
        meta.insert(FORMAT_KEY, FORMAT)?;
        meta.insert(REVISION_KEY, 0)?;
        drop(meta);
        transaction.commit()?;
        Ok(())
    };
    fill()
        .map_err(|error| format!("cannot write to database {}: {error}; check free space", path.display()))?;
    Ok(redb)
}

fn open(path: &Path) -> Result<redb::Database, DatabaseError> {
    let io = |error| DatabaseError::Storage(StorageError::Io(error));
    let file = fs::OpenOptions::new().read(true).write(true).open(path).map_err(io)?;
    // Given such a file, redb would make a database of it.
    if file.metadata().map_err(io)?.len() == 0 {
        return Err(io(io::Error::new(ErrorKind::InvalidData, "the file is empty")));
    }
    builder().create_with_backend(InTurns::new(file)?)
}

fn builder() -> redb::Builder {
    let mut builder = redb::Builder::new();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn open_problem(path: &Path, error: &DatabaseError) -> StoreError {
    let shown = path.display();
    match error {
        DatabaseError::DatabaseAlreadyOpen => {
            let pid = holder(path).map_or(String::new(), |pid| format!(", {pid}"));
            unavailable(format!(
                "database {shown} is in use by another process{pid}; stop the other gateway or give this one its own path"
            ))
        }
        DatabaseError::UpgradeRequired(version) => unavailable(format!(
            "database {shown} has the old file version {version}; export it with the program that wrote it"
        )),
        DatabaseError::Storage(StorageError::Io(io))
            if !matches!(io.kind(), ErrorKind::InvalidData | ErrorKind::UnexpectedEof) =>
        {
            unavailable(format!(
                "cannot open database {shown}: {io}; check that the path exists and this user may write to it"
            ))
        }
        other => damaged(path, &other.to_string()),
    }
}

/// The file holds credentials and private keys: no other user should read it. Where the file system has no
/// such permissions, that is not a reason to stop.
pub(super) fn restrict(path: &Path) {
    let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o600));
}
