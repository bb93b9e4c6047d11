//! The files that loggers append to: the log writer's thread opens and writes them, so that a disk that stalls holds no
//! worker. They stay open until SIGUSR1 asks for new ones.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, Weak},
};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tidegate_plugin_api::host;
use tidegate_telemetry::log_writer::{LineSink, LogWriter};

static FILES: Mutex<Option<FxHashMap<PathBuf, Weak<LineSink>>>> = Mutex::new(None);

/// The file of that path: the same for all loggers that name it. A relative path starts at the installation's
/// directory.
pub(super) fn open(path: &str) -> Result<Arc<LineSink>, String> {
    let path = host().map_or_else(|| PathBuf::from(path), |host| host.prefix.join(path));
    let mut files = FILES.lock();
    let files = files.get_or_insert_default();
    if let Some(file) = files.get(&path).and_then(Weak::upgrade) {
        return Ok(file);
    }
    files.retain(|_, file| file.strong_count() > 0);
    let file = Arc::new(writer()?.lines(&path));
    files.insert(path, Arc::downgrade(&file));
    Ok(file)
}

/// A relative path starts at the prefix. `None` for one outside of a running gateway, where no prefix is known.
pub(super) fn place(path: &str) -> Option<PathBuf> {
    match host() {
        Some(host) => Some(host.prefix.join(path)),
        None => Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
    }
}

/// Why no line can be written there. A file that is not there yet is made, and no folder.
pub(super) fn fault(path: &Path) -> Option<String> {
    if path.is_dir() {
        return Some(format!("{} is a folder: nothing is written; name a file in it", path.display()));
    }
    if let Some(own) = own_folder(path) {
        return Some(format!(
            "the file is in the gateway's folder {own}: lines are added to what it reads; name a file elsewhere"
        ));
    }
    let folder = path.parent()?;
    let is_absent =
        std::fs::metadata(folder).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    is_absent.then(|| format!("the folder {} does not exist: nothing is written; make it", folder.display()))
}

/// The folder of the gateway's configuration and of its database, if the file is in it.
fn own_folder(path: &Path) -> Option<&'static str> {
    let within = path.strip_prefix(&host()?.prefix).ok()?;
    let first = within.components().find(|part| *part != std::path::Component::CurDir)?;
    ["conf", "data"].into_iter().find(|own| first.as_os_str() == *own)
}

/// The process's log writer, or one of our own where there is no gateway around (unit tests).
fn writer() -> Result<&'static LogWriter, String> {
    static OWN: OnceLock<LogWriter> = OnceLock::new();
    if let Some(host) = host() {
        return Ok(&host.log_writer);
    }
    if OWN.get().is_none() {
        let writer = LogWriter::start().map_err(|error| format!("cannot start the log writer: {error}"))?;
        let _ = OWN.set(writer);
    }
    OWN.get().ok_or_else(|| "no log writer".to_owned())
}
