//! A fault on purpose, for the tests of the watchdog: it keeps a worker in a plugin.
//!
//! It is not in any program that users get: the module, and its only call, exist with `debug_assertions` alone, which no
//! release build has. A call without that condition would not compile there. Nothing that comes over the network
//! reaches it: it looks at a folder that an environment variable names when the process starts.
//!
//! A file in that folder with the name of a plugin holds a worker that is about to run the plugin: a named pipe blocks
//! it until a writer writes or closes, any other file makes it compute until the file is removed.

use std::{env, fs, hint, os::unix::fs::FileTypeExt, path::PathBuf, sync::OnceLock};

const VARIABLE: &str = "TIDEGATE_TEST_HOLD";

pub(crate) fn hold(plugin: &str) {
    static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
    let Some(folder) = FOLDER.get_or_init(|| env::var_os(VARIABLE).map(PathBuf::from)) else { return };
    let file = folder.join(plugin);
    match fs::metadata(&file) {
        Ok(found) if found.file_type().is_fifo() => _ = fs::read(&file),
        Ok(_) => {
            while file.exists() {
                (0..100_000).for_each(|_| hint::spin_loop());
            }
        }
        Err(_) => {}
    }
}
